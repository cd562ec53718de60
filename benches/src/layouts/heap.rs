//! A binary heap ordered by (deadline, number); exact. A cancelled timer stays until it reaches the top, or
//! until half of the heap is cancelled. Many programs keep their timers this way, and Go's runtime does much
//! the same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Layout, Timer, Timers};

/// The handle of a timer that was cancelled.
const CANCELLED: u64 = 0;
/// The heap is not swept for fewer cancelled timers than this.
const FEW: usize = 64;

/// A `BinaryHeap`. The timer stores its number.
#[derive(Debug)]
pub struct Heap {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    inserted: u64,
    cancelled: usize,
}

impl Heap {
    /// Removes cancelled timers from the top, so that the top is a live timer.
    #[inline]
    fn drop_cancelled(&mut self, timers: &Timers) {
        while self.cancelled > 0 {
            match self.heap.peek() {
                Some(&Reverse((_, number, key))) if timers[key].handle != number => self.heap.pop(),
                _ => return,
            };
            self.cancelled -= 1;
        }
    }
}

impl Layout for Heap {
    const NAME: &'static str = "BinaryHeap";
    const TICK: u64 = 1;
    const ORDERED: bool = true;
    const TELLS_NEXT: bool = true;

    fn new() -> Heap {
        Heap { heap: BinaryHeap::new(), inserted: 0, cancelled: 0 }
    }

    #[inline]
    fn insert(&mut self, timers: &mut Timers, deadline: u64, key: u32) {
        self.inserted += 1;
        timers[key].handle = self.inserted;
        self.heap.push(Reverse((deadline, self.inserted, key)));
    }

    #[inline]
    fn cancel(&mut self, timers: &mut Timers, key: u32) {
        timers[key].handle = CANCELLED;
        self.cancelled += 1;
        if self.cancelled > FEW && self.cancelled > self.heap.len() / 2 {
            self.heap.retain(|&Reverse((_, number, key))| timers[key].handle == number);
            self.cancelled = 0;
        } else {
            self.drop_cancelled(timers);
        }
    }

    fn advance(&mut self, timers: &mut Timers, now: u64, fire: &mut impl FnMut(u32, &Timer)) {
        while let Some(&Reverse((when, number, key))) = self.heap.peek() {
            if when > now {
                break;
            }
            self.heap.pop();
            if timers[key].handle == number {
                fire(key, &timers[key]);
            } else {
                self.cancelled -= 1;
            }
        }
        self.drop_cancelled(timers);
    }

    fn next_wake(&self) -> Option<u64> {
        self.heap.peek().map(|&Reverse((when, ..))| when)
    }
}
