//! One ring of 60 000 slots of a millisecond. libco stores its timers this way.
//!
//! Slots are doubly linked lists through the timers, so a timer can be removed at once. A timer whose deadline
//! is further away than the ring is long waits in the last slot, and is filed again when that slot is reached.
//! There is no bitmap: the loop visits every millisecond and joins the slots that it has passed.
//!
//! Corrected: the original refuses timers while the clock is before its start, and complains about long
//! timers.

use super::timers::{List, Timers};
use super::{Layout, MS, Timer};

const SLOTS: u64 = 60_000;

/// A ring of a minute.
#[derive(Debug)]
pub struct Ring {
    /// All slots of ticks before this have been emptied. The slot of this tick is emptied again, for timers
    /// that were added since.
    start: u64,
    /// The slot of the tick `start`.
    first: u64,
    slots: Box<[List]>,
}

impl Ring {
    #[inline]
    fn file(&mut self, timers: &mut Timers, tick: u64, key: u32) {
        let ahead = tick.saturating_sub(self.start).min(SLOTS - 1);
        let slot = (self.first + ahead) % SLOTS;
        timers[key].slot = slot as u32;
        self.slots[slot as usize].push_back(timers, key);
    }
}

impl Layout for Ring {
    const NAME: &'static str = "ring 60000 (libco)";
    const TICK: u64 = MS;
    const ORDERED: bool = false;
    const TELLS_NEXT: bool = false;

    fn new() -> Ring {
        Ring { start: 0, first: 0, slots: vec![List::EMPTY; SLOTS as usize].into_boxed_slice() }
    }

    #[inline]
    fn insert(&mut self, timers: &mut Timers, deadline: u64, key: u32) {
        let tick = deadline.div_ceil(MS);
        timers[key].when = tick;
        self.file(timers, tick, key);
    }

    #[inline]
    fn cancel(&mut self, timers: &mut Timers, key: u32) {
        let slot = timers[key].slot as usize;
        self.slots[slot].unlink(timers, key);
    }

    fn advance(&mut self, timers: &mut Timers, now: u64, fire: &mut impl FnMut(u32, &Timer)) {
        let now = now / MS;
        if now < self.start {
            return;
        }
        let passed = now - self.start;
        let mut due = List::EMPTY;
        for ahead in 0..(passed + 1).min(SLOTS) {
            let slot = &mut self.slots[((self.first + ahead) % SLOTS) as usize];
            let list = std::mem::replace(slot, List::EMPTY);
            due.append(timers, list);
        }
        self.start = now;
        self.first = (self.first + passed) % SLOTS;
        while let Some(key) = due.pop_front(timers) {
            let tick = timers[key].when;
            if tick <= now {
                fire(key, &timers[key]);
            } else {
                self.file(timers, tick, key);
            }
        }
    }

    fn next_wake(&self) -> Option<u64> {
        None
    }
}
