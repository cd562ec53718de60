//! `Shared`: what the driver and all its handles share, and `Inner`: what of it the lock protects.
//!
//! Ground rules:
//!
//! * What is atomic here is a hint or a count: nothing hangs on the order in which it is seen.
//! * All else is changed under the lock, and nobody else's code is called there.

use super::Unpark;
use super::entry::Entries;
use crate::slack::{Slack, SlackPolicy};
use crate::sync::{AtomicU32, AtomicU64, Biased, Ordering};
use crate::time::PausableClock;
use crate::{Lateness, Nanos};

pub(super) struct Shared {
    pub(super) clock: PausableClock,
    /// The latest reading of the clock that anybody took through this driver.
    pub(super) latest: AtomicU64,
    /// No timer is due before this. Written under the lock, read without.
    pub(super) earliest: AtomicU64,
    /// Pending polls since the last turn.
    pub(super) polls: AtomicU32,
    pub(super) resets: AtomicU64,
    pub(super) unpark: Box<dyn Unpark>,
    pub(super) inner: Biased<Inner>,
}

/// What the lock protects.
pub(crate) struct Inner {
    pub(crate) entries: Entries,
    /// The `now` of the latest drain.
    pub(super) published: Nanos,
    /// Whether the latest drain is not finished.
    pub(super) draining: bool,
    /// By when the driver's thread will end its park, by itself or unparked by a thread that has undertaken to; `None`
    /// while it runs.
    pub(super) parked_until: Option<Nanos>,
    pub(super) closed: bool,
    pub(super) slack: SlackPolicy,
    /// How many timers were registered: the sequence number of the latest.
    pub(super) armed: u64,
    pub(super) fired: u64,
    pub(super) cancelled: u64,
    /// Parks whose end lies after the earliest deadline.
    pub(super) parks_coalesced: u64,
    pub(super) lateness: Lateness,
}

impl Shared {
    pub(super) fn new(clock: PausableClock, unpark: impl Unpark) -> Shared {
        let now = clock.now();
        let inner = Inner {
            entries: Entries::new(now),
            published: now,
            draining: false,
            parked_until: None,
            closed: false,
            slack: SlackPolicy::new(now),
            armed: 0,
            fired: 0,
            cancelled: 0,
            parks_coalesced: 0,
            lateness: Lateness::default(),
        };
        Shared {
            clock,
            latest: AtomicU64::new(now.get()),
            earliest: AtomicU64::new(Nanos::NEVER.get()),
            polls: AtomicU32::new(0),
            resets: AtomicU64::new(0),
            unpark: Box::new(unpark),
            inner: Biased::new(inner),
        }
    }

    /// Remembers a reading of the clock; returns the latest of all.
    #[inline]
    pub(super) fn note(&self, now: Nanos) -> Nanos {
        // Relaxed: only a hint of how late it is; readings of several threads may overtake each other.
        let latest = Nanos::new(self.latest.load(Ordering::Relaxed));
        if now <= latest {
            return latest;
        }
        self.latest.store(now.get(), Ordering::Relaxed);
        now
    }

    /// A timer that is due at `deadline` has just been filed.
    #[inline]
    pub(super) fn lower_earliest(&self, _locked: &Inner, deadline: Nanos) {
        // Relaxed, and not one atomic step: only who holds the lock writes it.
        if deadline.get() < self.earliest.load(Ordering::Relaxed) {
            self.earliest.store(deadline.get(), Ordering::Relaxed);
        }
    }

    /// Publishes a bound that has been computed from all timers.
    #[inline]
    pub(super) fn set_earliest(&self, _locked: &Inner, earliest: Nanos) {
        // Relaxed: see `lower_earliest`, and `Handle::earliest_due` for who reads it.
        self.earliest.store(earliest.get(), Ordering::Relaxed);
    }
}

impl Inner {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// What is armed at or before this is due already.
    #[inline]
    pub(crate) fn published(&self) -> Nanos {
        self.published
    }

    /// The sequence number of a timer that is registered now.
    #[inline]
    pub(crate) fn next_sequence(&mut self) -> u64 {
        self.armed += 1;
        self.armed
    }

    /// The slack of a timer that is armed now and asks for none in particular.
    #[inline]
    pub(crate) fn default_slack(&mut self, latest: Nanos, deadline: Nanos) -> Slack {
        self.slack.slack(latest, deadline)
    }

    /// Whether the driver's thread is parked for longer than a timer that has just been filed may wait.
    #[inline]
    pub(super) fn must_unpark(&mut self, deadline: Nanos, slack: Slack) -> bool {
        let Some(until) = self.parked_until else { return false };
        let wake = deadline.saturating_add_nanos(slack.as_nanos());
        if wake >= until {
            return false;
        }
        // The park is about to be ended by this thread, which may be held up before it does so. A thread that arms a timer which
        // is earlier still does not rely on it.
        self.parked_until = Some(wake);
        true
    }

    /// A timer has ended because its time has come, or was moved to the past.
    #[inline]
    pub(crate) fn count_fired(&mut self) {
        self.fired += 1;
    }

    /// A timer that was due at `deadline` has been found due by its own poll, at `now`.
    #[inline]
    pub(crate) fn count_overdue(&mut self, deadline: Nanos, now: Nanos) {
        self.fired += 1;
        self.lateness.note(now.saturating_nanos_since(deadline));
    }

    #[inline]
    pub(crate) fn count_cancelled(&mut self) {
        self.cancelled += 1;
    }
}
