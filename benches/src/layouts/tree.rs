//! A B-tree ordered by (deadline, number); exact. async-io, compio and glommio store their timers this way.

use std::collections::BTreeMap;

use super::{Layout, Timer, Timers};

/// A `BTreeMap`. The timer stores its number.
#[derive(Debug)]
pub struct Tree {
    timers: BTreeMap<(u64, u64), u32>,
    inserted: u64,
}

impl Layout for Tree {
    const NAME: &'static str = "BTreeMap";
    const TICK: u64 = 1;
    const ORDERED: bool = true;
    const TELLS_NEXT: bool = true;

    fn new() -> Tree {
        Tree { timers: BTreeMap::new(), inserted: 0 }
    }

    #[inline]
    fn insert(&mut self, timers: &mut Timers, deadline: u64, key: u32) {
        self.inserted += 1;
        timers[key].when = deadline;
        timers[key].handle = self.inserted;
        self.timers.insert((deadline, self.inserted), key);
    }

    #[inline]
    fn cancel(&mut self, timers: &mut Timers, key: u32) {
        let Timer { when, handle, .. } = timers[key];
        let removed = self.timers.remove(&(when, handle));
        debug_assert_eq!(removed, Some(key));
    }

    fn advance(&mut self, timers: &mut Timers, now: u64, fire: &mut impl FnMut(u32, &Timer)) {
        while let Some(first) = self.timers.first_entry().filter(|first| first.key().0 <= now) {
            let key = first.remove();
            fire(key, &timers[key]);
        }
    }

    fn next_wake(&self) -> Option<u64> {
        self.timers.first_key_value().map(|(&(when, _), _)| when)
    }
}
