//! One wheel of slots with rounds: a timer that is further away than the wheel is long counts the rounds for
//! which it is passed over. go-zero stores its timers this way.
//!
//! A slot is a list of elements that are allocated one by one, and a map leads from a timer's key to its
//! element. Removing a timer takes it out of the map and marks its element, which is freed the next time its
//! slot is visited.
//!
//! The map hashes with one multiplication. The elements come from a slab and take a cache line each; in the
//! original they are two objects of about that size.
//!
//! Corrected: deadlines are rounded up, not down, and count from the wheel's tick, not from a point between
//! two ticks.
//! Left out: moving a timer (the original notes how many slots the timer still has to advance, and moves it
//! when its slot is visited), because no layout here is asked to; the goroutine and its channels.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use super::timers::NONE;
use super::{Layout, MS, Timer, Timers};

/// A wheel of `SLOTS` slots of a millisecond. The original itself uses it with 300 slots, of a second.
#[derive(Debug)]
pub struct Rounds<const SLOTS: usize> {
    /// The wheel's current tick.
    ticked: u64,
    slots: Box<[Slot]>,
    elements: Vec<Element>,
    /// The list of unused elements.
    free: u32,
    positions: HashMap<u32, u32, Multiply>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    tail: u32,
}

const EMPTY: Slot = Slot { head: NONE, tail: NONE };

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Element {
    next: u32,
    key: u32,
    /// For how many rounds the timer is still passed over.
    rounds: u32,
    removed: bool,
}

impl<const SLOTS: usize> Rounds<SLOTS> {
    #[inline]
    fn append(&mut self, slot: usize, id: u32) {
        self.elements[id as usize].next = NONE;
        let slot = &mut self.slots[slot];
        match slot.tail {
            NONE => slot.head = id,
            tail => self.elements[tail as usize].next = id,
        }
        slot.tail = id;
    }

    /// Advances to the next tick, and visits its slot.
    fn tick(&mut self, timers: &Timers, fire: &mut impl FnMut(u32, &Timer)) {
        self.ticked += 1;
        let slot = (self.ticked % SLOTS as u64) as usize;
        let mut last = NONE;
        let mut next = self.slots[slot].head;
        while next != NONE {
            let id = next;
            let element = &mut self.elements[id as usize];
            next = element.next;
            if !element.removed && element.rounds > 0 {
                element.rounds -= 1;
                last = id;
                continue;
            }
            let Element { key, removed, .. } = *element;
            element.next = self.free;
            self.free = id;
            match last {
                NONE => self.slots[slot].head = next,
                last => self.elements[last as usize].next = next,
            }
            if !removed {
                self.positions.remove(&key);
                fire(key, &timers[key]);
            }
        }
        self.slots[slot].tail = last;
    }
}

impl<const SLOTS: usize> Layout for Rounds<SLOTS> {
    const NAME: &'static str = match SLOTS {
        300 => "300 slots with rounds (go-zero)",
        4096 => "4096 slots with rounds (go-zero)",
        _ => "slots with rounds (go-zero)",
    };
    const TICK: u64 = MS;
    const ORDERED: bool = false;
    const TELLS_NEXT: bool = false;

    fn new() -> Self {
        Rounds {
            ticked: 0,
            slots: vec![EMPTY; SLOTS].into_boxed_slice(),
            elements: Vec::new(),
            free: NONE,
            positions: HashMap::with_hasher(Multiply),
        }
    }

    #[inline]
    fn insert(&mut self, _: &mut Timers, deadline: u64, key: u32) {
        // As in the original, a deadline that has passed waits one tick.
        let steps = deadline.div_ceil(MS).saturating_sub(self.ticked).max(1);
        let rounds = ((steps - 1) / SLOTS as u64) as u32;
        let slot = ((self.ticked + steps) % SLOTS as u64) as usize;
        let element = Element { next: NONE, key, rounds, removed: false };
        let id = match self.free {
            NONE => {
                self.elements.push(element);
                self.elements.len() as u32 - 1
            }
            id => {
                self.free = self.elements[id as usize].next;
                self.elements[id as usize] = element;
                id
            }
        };
        self.append(slot, id);
        self.positions.insert(key, id);
    }

    #[inline]
    fn cancel(&mut self, _: &mut Timers, key: u32) {
        if let Some(id) = self.positions.remove(&key) {
            self.elements[id as usize].removed = true;
        }
    }

    fn advance(&mut self, timers: &mut Timers, now: u64, fire: &mut impl FnMut(u32, &Timer)) {
        while self.ticked < now / MS {
            self.tick(timers, fire);
        }
    }

    fn next_wake(&self) -> Option<u64> {
        None
    }
}

/// A hash of one multiplication, folded so that its low bits are mixed too.
#[derive(Clone, Copy, Debug)]
struct Multiply;

#[derive(Debug)]
struct Product(u64);

impl BuildHasher for Multiply {
    type Hasher = Product;

    #[inline]
    fn build_hasher(&self) -> Product {
        Product(0)
    }
}

impl Hasher for Product {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        let product = (self.0 ^ u64::from(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ (product >> 32);
    }
}
