//! Counts of what a runtime has done: written by its thread, read from anywhere.
//!
//! Ground rules:
//!
//! * Only the runtime's own thread writes, so a load and a store are enough to count, and a reader sees each
//!   count as it was a moment ago. Different counts are not read in one instant.

use std::sync::atomic::{AtomicU64, Ordering};

use mainspring_driver::Stats;

/// What the runtime's thread counts itself.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) turns: Counter,
    pub(super) wakeups: Counter,
    pub(super) polls: Counter,
    pub(super) events: Counter,
}

/// A count with one writer.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(super) fn add(&self, n: u64) {
        // Relaxed, and not one atomic step: there is one writer, and nothing hangs on the count.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a runtime has done so far. Made by [`Handle::metrics`](super::Handle::metrics).
///
/// ```
/// use std::time::Duration;
///
/// mainspring::block_on(async {
///     mainspring::sleep(Duration::from_millis(20)).await;
///     let metrics = mainspring::runtime::Handle::current().metrics();
///     assert_eq!((metrics.timers_armed(), metrics.timers_fired()), (1, 1));
///     assert!(metrics.wakeups() >= 1);
/// });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Metrics {
    turns: u64,
    wakeups: u64,
    polls: u64,
    events: u64,
    timers: Stats,
}

impl Metrics {
    pub(super) fn new(counters: &Counters, timers: Stats) -> Metrics {
        Metrics {
            turns: counters.turns.get(),
            wakeups: counters.wakeups.get(),
            polls: counters.polls.get(),
            events: counters.events.get(),
            timers,
        }
    }

    /// Turns of the runtime: how often it looked at its I/O and its timers.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Turns in which it went to sleep, and so was woken again: by a timer, an event or another thread.
    pub fn wakeups(&self) -> u64 {
        self.wakeups
    }

    /// Polls of tasks and of `block_on`'s own future.
    pub fn polls(&self) -> u64 {
        self.polls
    }

    /// I/O events delivered to a socket.
    pub fn io_events(&self) -> u64 {
        self.events
    }

    /// Timers registered now.
    pub fn timers_live(&self) -> usize {
        self.timers.live
    }

    /// Timers that were registered: sleeps that were ready at once never are.
    pub fn timers_armed(&self) -> u64 {
        self.timers.armed
    }

    /// Registered timers whose deadline came.
    pub fn timers_fired(&self) -> u64 {
        self.timers.fired
    }

    /// Registered timers that were dropped before their deadline.
    pub fn timers_cancelled(&self) -> u64 {
        self.timers.cancelled
    }

    /// Resets of registered timers.
    pub fn timers_reset(&self) -> u64 {
        self.timers.reset
    }

    /// Moves of timers within the wheel.
    pub fn timers_moved(&self) -> u64 {
        self.timers.moved
    }

    /// Timers that were armed with the wider tolerance that load allows; see
    /// [`Tolerance::Adaptive`](crate::time::Tolerance::Adaptive).
    pub fn timers_widened(&self) -> u64 {
        self.timers.widened
    }
}
