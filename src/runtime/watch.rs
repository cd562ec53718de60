//! What the runtime's thread is polling, seen from other threads, and for how long it has been.
//!
//! Ground rules:
//!
//! * No poll reads a clock for this. That a poll lasts is known from two looks that find the same one; that it does not
//!   last longer, from the turn's own reading of the clock, before its stretch of polls.
//! * Both bounds hold: the clock is read after the look that finds a poll first, before the look that finds it again,
//!   and for the upper bound after the look.

use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mainspring_driver::Nanos;

use super::Handle;
use crate::executor::Id;

/// The poll that somebody saw last, and when it was seen first.
#[derive(Debug, Default)]
pub(super) struct Sightings(Mutex<Option<(Which, Instant)>>);

/// A poll, as different from all others: the turn it belongs to, and its word.
pub(crate) type Which = (u64, u64);

/// A poll that is under way.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) which: Which,
    /// None: the future of `block_on`.
    pub(crate) id: Option<Id>,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) origin: &'static Location<'static>,
    pub(crate) at_least: Duration,
    pub(crate) at_most: Option<Duration>,
}

impl Sightings {
    /// This poll was seen by a look between `before` and `after`. Returns for how long it is known.
    fn known_for(&self, which: Which, before: Instant, after: Instant) -> Duration {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *last {
            Some((seen, first)) if seen == which => before.saturating_duration_since(first),
            _ => {
                *last = Some((which, after));
                Duration::ZERO
            }
        }
    }
}

impl Handle {
    /// What is being polled, if anything is. From any thread.
    pub(crate) fn watch(&self) -> Option<Seen> {
        let before = Instant::now();
        let poll = self.remote().polling().get()?;
        let after = Instant::now();
        let which = (self.counters().turns.get(), poll.word);
        let at_least = self.sightings().known_for(which, before, after);
        let timers = self.timers();
        // A clock that is turned by hand, or stopped, tells nothing of how long somebody had to wait.
        let counts = timers.clock_changes() == 0 && !timers.clock().is_test();
        let at_most = counts.then(|| timers.now().saturating_duration_since(Nanos::new(poll.since)));
        let name = poll.id.and_then(|id| self.names().get(id));
        Some(Seen { which, id: poll.id, name, origin: poll.origin, at_least, at_most })
    }
}
