//! Skynet's wheel: a near wheel of one tick a slot, and four further wheels, through which timers cascade.
//!
//! Slots are singly linked lists with a tail, of nodes that are allocated one by one. The wheel advances tick by
//! tick; it has no bitmap and cannot tell the next wake-up. A node comes from a slab here, not from `malloc`, but
//! is as large as the 32 bytes that `malloc` would spend on it.
//!
//! Three variants: as in its source, with 256 near slots and 4 × 64, and ticks of 10 ms (`Skynet<8, 6, 10>`); the
//! same with ticks of 1 ms, for comparison (`Skynet<8, 6, 1>`); and as it is often described, with 4096 and 4 ×
//! 32 (`Skynet<12, 5, 1>`).
//!
//! The original cannot cancel. Its Lua side does what is done here: the node is marked as unowned, and freed when
//! its time comes.
//!
//! Corrected: deadlines are rounded up, not down.

use super::timers::NONE;
use super::{FARTHEST, Layout, MS, Timer, Timers};

/// The number of wheels beyond the near one.
const LEVELS: usize = 4;

/// The near wheel has two to the power of `NEAR` slots, each of the others two to the power of `LEVEL`. A tick
/// has `TICK_MS` milliseconds.
#[derive(Debug)]
pub struct Skynet<const NEAR: u32, const LEVEL: u32, const TICK_MS: u64> {
    /// The wheel's current tick.
    time: u32,
    /// The near slots, then the slots of the levels.
    slots: Box<[Slot]>,
    nodes: Vec<Node>,
    /// The list of unused nodes.
    free: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    tail: u32,
}

const EMPTY: Slot = Slot { head: NONE, tail: NONE };

#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Node {
    next: u32,
    tick: u32,
    /// The timer that the node belongs to; none if it was cancelled.
    key: u32,
}

impl<const NEAR: u32, const LEVEL: u32, const TICK_MS: u64> Skynet<NEAR, LEVEL, TICK_MS> {
    const NEAR_MASK: u32 = (1 << NEAR) - 1;
    const LEVEL_MASK: u32 = (1 << LEVEL) - 1;

    #[inline]
    fn allocate(&mut self, node: Node) -> u32 {
        if self.free == NONE {
            self.nodes.push(node);
            return self.nodes.len() as u32 - 1;
        }
        let id = self.free;
        self.free = self.nodes[id as usize].next;
        self.nodes[id as usize] = node;
        id
    }

    /// Returns the slot of `tick`. It is on the lowest wheel above which all digits equal those of the current
    /// time.
    #[inline]
    fn slot(&self, tick: u32) -> usize {
        let differs = tick ^ self.time;
        if differs >> NEAR == 0 {
            return (tick & Self::NEAR_MASK) as usize;
        }
        let mut level = 0;
        let mut shift = NEAR;
        while level + 1 < LEVELS && differs >> (shift + LEVEL) != 0 {
            level += 1;
            shift += LEVEL;
        }
        (1 << NEAR) + (level << LEVEL) + (tick >> shift & Self::LEVEL_MASK) as usize
    }

    #[inline]
    fn file(&mut self, id: u32) {
        let slot = self.slot(self.nodes[id as usize].tick);
        self.nodes[id as usize].next = NONE;
        let slot = &mut self.slots[slot];
        match slot.tail {
            NONE => slot.head = id,
            tail => self.nodes[tail as usize].next = id,
        }
        slot.tail = id;
    }

    /// Advances to the next tick. If the lower digits have all wrapped to zero, a slot of the wheel above them is
    /// refiled.
    fn shift(&mut self) {
        self.time += 1;
        let mut shift = NEAR;
        for level in 0..LEVELS {
            if self.time & ((1 << shift) - 1) != 0 {
                return;
            }
            let digit = self.time >> shift & Self::LEVEL_MASK;
            if digit != 0 {
                return self.deal((1 << NEAR) + (level << LEVEL) + digit as usize);
            }
            shift += LEVEL;
        }
    }

    fn deal(&mut self, slot: usize) {
        let mut next = std::mem::replace(&mut self.slots[slot], EMPTY).head;
        while next != NONE {
            let id = next;
            next = self.nodes[id as usize].next;
            self.file(id);
        }
    }

    /// Fires the near slot of the current tick.
    #[inline]
    fn execute(&mut self, timers: &mut Timers, fire: &mut impl FnMut(u32, &Timer)) {
        let slot = (self.time & Self::NEAR_MASK) as usize;
        let mut next = std::mem::replace(&mut self.slots[slot], EMPTY).head;
        while next != NONE {
            let id = next;
            let Node { next: after, key, .. } = self.nodes[id as usize];
            if key != NONE {
                fire(key, &timers[key]);
            }
            self.nodes[id as usize].next = self.free;
            self.free = id;
            next = after;
        }
    }
}

impl<const NEAR: u32, const LEVEL: u32, const TICK_MS: u64> Layout for Skynet<NEAR, LEVEL, TICK_MS> {
    const NAME: &'static str = match (NEAR, TICK_MS) {
        (8, 10) => "256+4x64, 10 ms (Skynet)",
        (8, _) => "256+4x64, 1 ms (Skynet)",
        _ => "4096+4x32 (Skynet as described)",
    };
    const TICK: u64 = TICK_MS * MS;
    const ORDERED: bool = false;
    const TELLS_NEXT: bool = false;

    fn new() -> Self {
        const { assert!(NEAR + LEVEL * LEVELS as u32 == u32::BITS) };
        const { assert!(FARTHEST / MS / TICK_MS < 1 << u32::BITS) };
        let slots = (1 << NEAR) + (LEVELS << LEVEL);
        Skynet { time: 0, slots: vec![EMPTY; slots].into_boxed_slice(), nodes: Vec::new(), free: NONE }
    }

    #[inline]
    fn insert(&mut self, timers: &mut Timers, deadline: u64, key: u32) {
        // A deadline that has passed joins the current tick's slot, which `advance` visits before it goes on.
        let tick = (deadline.div_ceil(Self::TICK) as u32).max(self.time);
        let id = self.allocate(Node { next: NONE, tick, key });
        timers[key].handle = u64::from(id);
        self.file(id);
    }

    #[inline]
    fn cancel(&mut self, timers: &mut Timers, key: u32) {
        let id = timers[key].handle as usize;
        debug_assert_eq!(self.nodes[id].key, key);
        self.nodes[id].key = NONE;
    }

    fn advance(&mut self, timers: &mut Timers, now: u64, fire: &mut impl FnMut(u32, &Timer)) {
        let now = (now / Self::TICK) as u32;
        self.execute(timers, fire);
        while self.time < now {
            self.shift();
            self.execute(timers, fire);
        }
    }

    fn next_wake(&self) -> Option<u64> {
        None
    }
}
