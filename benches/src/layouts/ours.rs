//! Mainspring's own wheel: each slot a row of cells, in blocks; exact.
//!
//! As in the runtime, the wheel asks a timer for its true deadline when it cascades or fires, and prefetches it before.

use std::num::NonZeroU32;

use mainspring_driver::Nanos;
use mainspring_driver::wheel::{Due, Place, Rank, Slack, Store, Wheel};

use super::{Layout, Timer, Timers};

/// `mainspring_driver::Wheel`.
#[derive(Debug)]
pub struct Mainspring {
    wheel: Wheel<Key>,
    inserted: u64,
}

/// A timer's key plus one: like the pointer to an entry it is never zero, so that an empty cell needs no extra space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(NonZeroU32);

impl Key {
    #[inline]
    pub(super) fn new(key: u32) -> Key {
        Key(NonZeroU32::MIN.saturating_add(key))
    }

    #[inline]
    pub(super) fn get(self) -> u32 {
        self.0.get() - 1
    }
}

impl Store<Key> for Timers {
    #[inline]
    fn set_place(&mut self, key: Key, place: Place) {
        self[key.get()].place = place;
    }

    #[inline]
    fn place(&self, key: Key) -> Place {
        self[key.get()].place
    }

    #[inline]
    fn deadline(&mut self, key: Key, _filed: Nanos) -> Nanos {
        Nanos::new(self[key.get()].when)
    }

    #[inline]
    fn prefetch(&mut self, key: Key) {
        Timers::prefetch(self, key.get());
    }
}

impl Mainspring {
    /// Does a slice of [`advance`](Layout::advance), as the driver does: at most `budget` timers fire and move, taken
    /// together. Returns whether more is to be done at `now`; then it must be called again with the same `now`.
    #[inline]
    pub fn advance_some(
        &mut self,
        timers: &mut Timers,
        now: u64,
        budget: usize,
        fire: &mut impl FnMut(u32, &Timer),
    ) -> bool {
        let mut left = budget;
        loop {
            match self.wheel.next_due(timers, Nanos::new(now), &mut left) {
                Due::Fire { key, .. } => {
                    left -= 1;
                    let key = key.get();
                    fire(key, &timers[key]);
                }
                Due::Exhausted => return true,
                Due::Idle => return false,
            }
        }
    }

    /// Resets the timer `key`, which is in the wheel, to a later deadline. As with a sleep, the wheel finds out when it
    /// reaches the timer.
    #[inline]
    pub fn put_off(&mut self, timers: &mut Timers, deadline: u64, key: u32) {
        debug_assert!(deadline >= timers[key].when);
        timers[key].when = deadline;
    }

    /// Resets the timer `key`, which is in the wheel, to an earlier deadline; it keeps its sequence number.
    #[inline]
    pub fn bring_forward(&mut self, timers: &mut Timers, deadline: u64, key: u32) {
        timers[key].when = deadline;
        let found = self.wheel.refile(timers, Key::new(key), Nanos::new(deadline), Slack::ZERO);
        debug_assert!(found);
    }
}

impl Layout for Mainspring {
    const NAME: &'static str = "mainspring";
    const TICK: u64 = 1;
    const ORDERED: bool = true;
    const TELLS_NEXT: bool = true;

    fn new() -> Mainspring {
        Mainspring { wheel: Wheel::new(Nanos::ZERO), inserted: 0 }
    }

    #[inline]
    fn insert(&mut self, timers: &mut Timers, deadline: u64, key: u32) {
        timers[key].when = deadline;
        self.inserted += 1;
        self.wheel.insert(timers, Key::new(key), Nanos::new(deadline), Rank::new(self.inserted, Slack::ZERO));
    }

    #[inline]
    fn cancel(&mut self, timers: &mut Timers, key: u32) {
        let found = self.wheel.remove(timers, Key::new(key));
        debug_assert!(found);
    }

    fn advance(&mut self, timers: &mut Timers, now: u64, fire: &mut impl FnMut(u32, &Timer)) {
        let more = self.advance_some(timers, now, usize::MAX, fire);
        debug_assert!(!more);
    }

    fn next_wake(&self) -> Option<u64> {
        self.wheel.next_wake().map(Nanos::get)
    }
}
