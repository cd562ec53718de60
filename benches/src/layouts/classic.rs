//! The classic hierarchy of lists: 6 levels of 64 slots, ticks of a millisecond. tokio stores its timers this
//! way.
//!
//! Slots are doubly linked lists through the timers. A timer's level is that of the highest bit in which its
//! tick differs from the wheel's; a bitmap for each level records which slots are in use. When the wheel
//! reaches a slot, all its timers are refiled or fired, in the order of insertion. The next wake-up is the
//! start of the next slot in use, so some wake-ups only refile timers.
//!
//! Left out: the wrap-around of the top level, which takes two years, and the list on which the original puts
//! due timers before it fires them.

use super::timers::{List, Timers};
use super::{FARTHEST, Layout, MS, Timer};

const LEVELS: usize = 6;
const SLOTS: usize = 64;
const BITS: usize = 6;

const _: () = assert!(FARTHEST / MS < 1 << (BITS * LEVELS));

/// The 6 × 64 wheel of linked lists.
#[derive(Debug)]
pub struct Classic {
    /// The wheel's current tick. All timers that are due at it have fired.
    elapsed: u64,
    slots: Box<[List]>,
    occupied: [u64; LEVELS],
    /// Timers that were due when they were inserted.
    due: List,
}

/// The value of a timer's `slot` if it is in the list of those that were due when they were inserted.
const DUE: u32 = (LEVELS * SLOTS) as u32;

impl Classic {
    /// Returns the first slot in use and the tick at which it starts.
    #[inline]
    fn next(&self) -> Option<(usize, u64)> {
        let level = self.occupied.iter().position(|&bits| bits != 0)?;
        let slot = self.occupied[level].trailing_zeros() as usize;
        let shift = BITS * level;
        let above = self.elapsed >> (shift + BITS) << (shift + BITS);
        Some((level * SLOTS + slot, above | (slot as u64) << shift))
    }

    #[inline]
    fn file(&mut self, timers: &mut Timers, tick: u64, key: u32) {
        let differs = (self.elapsed ^ tick) | (SLOTS as u64 - 1);
        let level = differs.ilog2() as usize / BITS;
        let slot = (tick >> (BITS * level)) as usize % SLOTS;
        let index = level * SLOTS + slot;
        timers[key].slot = index as u32;
        self.slots[index].push_back(timers, key);
        self.occupied[level] |= 1 << slot;
    }

    /// Refiles or fires the timers of a slot whose start the wheel has reached.
    fn process(&mut self, timers: &mut Timers, index: usize, fire: &mut impl FnMut(u32, &Timer)) {
        let mut list = std::mem::replace(&mut self.slots[index], List::EMPTY);
        self.occupied[index / SLOTS] &= !(1 << (index % SLOTS));
        while let Some(key) = list.pop_front(timers) {
            let tick = timers[key].when;
            if tick <= self.elapsed {
                fire(key, &timers[key]);
            } else {
                self.file(timers, tick, key);
            }
        }
    }
}

impl Layout for Classic {
    const NAME: &'static str = "lists 6x64 (tokio)";
    const TICK: u64 = MS;
    const ORDERED: bool = false;
    const TELLS_NEXT: bool = true;

    fn new() -> Classic {
        Classic {
            elapsed: 0,
            slots: vec![List::EMPTY; LEVELS * SLOTS].into_boxed_slice(),
            occupied: [0; LEVELS],
            due: List::EMPTY,
        }
    }

    #[inline]
    fn insert(&mut self, timers: &mut Timers, deadline: u64, key: u32) {
        let tick = deadline.div_ceil(MS);
        timers[key].when = tick;
        if tick <= self.elapsed {
            timers[key].slot = DUE;
            self.due.push_back(timers, key);
        } else {
            self.file(timers, tick, key);
        }
    }

    #[inline]
    fn cancel(&mut self, timers: &mut Timers, key: u32) {
        let slot = timers[key].slot;
        if slot == DUE {
            return self.due.unlink(timers, key);
        }
        let index = slot as usize;
        self.slots[index].unlink(timers, key);
        if self.slots[index].is_empty() {
            self.occupied[index / SLOTS] &= !(1 << (index % SLOTS));
        }
    }

    fn advance(&mut self, timers: &mut Timers, now: u64, fire: &mut impl FnMut(u32, &Timer)) {
        let now = now / MS;
        while let Some(key) = self.due.pop_front(timers) {
            fire(key, &timers[key]);
        }
        while let Some((index, start)) = self.next().filter(|&(_, start)| start <= now) {
            self.elapsed = start;
            self.process(timers, index, fire);
        }
        self.elapsed = now;
    }

    fn next_wake(&self) -> Option<u64> {
        if !self.due.is_empty() {
            return Some(self.elapsed * MS);
        }
        self.next().map(|(_, start)| start * MS)
    }
}
