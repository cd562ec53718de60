//! `Pace`: when a turn ends, and how often the clock is read to find out.
//!
//! ```text
//!   begin ─▶ stretch: so many polls ─▶ is_over: reads the clock ──yes──▶ the turn ends
//!               ▲                                  │ no
//!               └──────────────────────────────────┘
//! ```
//!
//! A turn ends when [`INTERVAL`] has passed since the sockets were looked at, when the next deadline has passed, or when
//! nothing is ready. A reading of the clock costs more than a cheap poll. So it is read after as many polls as are expected
//! to fit into the time that is left, by what polls cost of late: after each one that takes a millisecond, and once for
//! sixty that take nothing. At the beginning of a turn it is read sooner, because what has just become ready may be
//! of another kind.
//!
//! Ground rules:
//!
//! * While tasks that a timer woke are waiting, a deadline that passes does not end the turn: its task would wait
//!   behind them. Nor does it while timers have had more than their share: none would fire.
//! * Where time stands, or is moved by the program, the clock says nothing about how long polls take. A turn is bounded
//!   by a count of polls then, and so are the lanes: two runs do the same.

use mainspring_driver::Nanos;

use super::Handle;
use crate::clock::system;
use crate::coop::budget::{self, Slice};
use crate::executor::{Executor, Lane};

/// How long a turn may go on without a look at the sockets, in nanoseconds.
const INTERVAL: u64 = 50_000;

/// Polls between two readings of the clock: so many at the beginning of a turn, then ever more.
const FIRST: usize = 1;

/// So many at the most.
const MOST: usize = 61;

/// A slice of time that is shorter than this, in nanoseconds, is not worth the switch to another task.
const LEAST: u64 = 5_000;

/// How the turn under way is bounded.
pub(super) struct Pace {
    /// Polls after which a turn ends, if there is such a bound.
    interval: Option<usize>,
    /// The clock is not a measure of how long polls take.
    by_hand: bool,
    /// The bound is a count of polls alone.
    counted: bool,
    /// Polls left in this turn.
    left: usize,
    /// When the sockets were looked at.
    looked: Nanos,
    /// The latest reading of the clock.
    read: Nanos,
    /// The turn before ended because a deadline had passed.
    for_timers: bool,
    /// So many polls, at the most, until the next reading.
    most: usize,
}

impl Pace {
    /// Turns end after so many polls, if there is a number, in any case. `by_hand`: the clock is moved by a program.
    pub(super) fn new(interval: Option<usize>, by_hand: bool) -> Pace {
        Pace {
            interval,
            by_hand,
            counted: false,
            left: 0,
            looked: Nanos::ZERO,
            read: Nanos::ZERO,
            for_timers: false,
            most: FIRST,
        }
    }

    /// A turn begins. The sockets were looked at `now`.
    pub(super) fn begin(&mut self, handle: &Handle, executor: &Executor, now: Nanos) {
        let counted_before = self.counted;
        self.counted = self.by_hand || handle.timers().is_paused();
        self.left = self.interval.unwrap_or(if self.counted { MOST } else { usize::MAX });
        if !self.counted {
            executor.begin_charging();
            if self.for_timers {
                // The look at the sockets is part of what timers cost.
                self.fired(executor, now);
            }
        }
        self.for_timers = false;
        self.looked = now;
        self.read = now;
        self.most = FIRST;
        if self.counted && !counted_before {
            executor.begin_counting();
        }
    }

    /// What the driver did for timers has taken until `now`.
    pub(super) fn fired(&mut self, executor: &Executor, now: Nanos) {
        if !self.counted {
            executor.charge_lane(Lane::Timer, now.get().saturating_sub(self.read.get()));
            self.read = now;
        }
    }

    /// How many polls there may be before [`is_over`](Pace::is_over) is asked. At least one.
    pub(super) fn stretch(&self, handle: &Handle, executor: &Executor) -> usize {
        if self.counted {
            budget::set_slice(None);
            return self.left;
        }
        let due = self.next_deadline(handle, executor);
        let end = self.looked.get().saturating_add(INTERVAL).min(due.get());
        let time = end.saturating_sub(self.read.get());
        budget::set_slice(Some(self.slice(handle, due)));
        // At least one; and no more than `most`, a small number.
        let fit = (time / executor.next_cost()).clamp(1, self.most as u64) as usize;
        fit.min(self.left)
    }

    /// The stretch has ended after so many polls. Whether the turn is over.
    pub(super) fn is_over(&mut self, handle: &Handle, executor: &Executor, polls: usize) -> bool {
        // At least one, so that a turn ends also if all there is was aborted.
        self.left = self.left.saturating_sub(polls.max(1));
        if self.counted {
            return self.left == 0;
        }
        let now = handle.timers().now();
        executor.charge(now.get().saturating_sub(self.read.get()));
        handle.remote().polling().set_since(now.get());
        self.read = now;
        self.most = (2 * self.most).min(MOST);
        self.for_timers = now >= self.next_deadline(handle, executor);
        // A poll that would hardly fit belongs to the next turn: to come closer in ever smaller steps is not worth it.
        let next = now.get().saturating_add(executor.next_cost() / 2);
        self.left == 0 || self.for_timers || next >= self.looked.get().saturating_add(INTERVAL)
    }

    /// The deadline that ends the turn.
    fn next_deadline(&self, handle: &Handle, executor: &Executor) -> Nanos {
        let in_vain = executor.is_waiting(Lane::Timer) || executor.must_wait(Lane::Timer);
        if in_vain { Nanos::NEVER } else { handle.timers().earliest_due() }
    }

    /// Until when a poll may go on taking results: to the next deadline, but no longer than a slice.
    fn slice(&self, handle: &Handle, due: Nanos) -> Slice {
        let left = due.get().saturating_sub(self.read.get()).clamp(LEAST, budget::SLICE);
        // Another clock than the process's may stand or jump, and is dearer to read.
        let read = if handle.clock().is_system() { self.read } else { system::now() };
        Slice { until: Nanos::new(read.get().saturating_add(left)), now: system::now }
    }
}
