//! Decides when the tasks of a turn have run long enough.
//!
//! Tasks run in stretches:
//!
//! ```text
//!   begin ─▶ stretch: so many polls ─▶ is_over: reads the clock ──yes──▶ park
//!               ▲                                  │ no
//!               └──────────────────────────────────┘
//! ```
//!
//! The stretches end when nothing is ready, when the next deadline has passed, or when it is time to look at the sockets.
//! That is [`INTERVAL`] after the last look, or at a deadline that comes no more than [`NEAR`] later, because the look would
//! make the task of that deadline late. While tasks are ready that were ready at the last look, it is not yet time, for up to
//! [`LONGEST`]: what another look finds goes behind those tasks. It is sooner time if the last look has found something, because the
//! tasks that it woke may talk through a socket: at once if only tasks are left whose lanes have had more than the share of those that
//! another look may find; otherwise, when these have had their turn, the others have as much time as they have had, but no longer
//! than [`INTERVAL`] after the look. If these have taken nearly that long or longer, the others have an eighth of that time:
//! otherwise tasks that wake each other would have one turn for each look.
//!
//! A reading of the clock costs more than a cheap poll. So the clock is read after the number of polls that is expected to
//! fit into the time that is left, judging by the cost of recent polls: after each poll that takes a millisecond, and once
//! for sixty polls that take nothing. At the beginning of a turn it is read sooner, because tasks that have just become ready
//! may be of another kind. A stretch whose polls become long, although recent ones were cheap, ends early, where the system has a
//! coarse clock that tells ([`Tick`](crate::clock::Tick)).
//!
//! Ground rules:
//!
//! * While tasks that a timer woke are waiting, a deadline that passes does not end the turn: its task would wait behind
//!   them. Nor does it end the turn while timers have had more than their share: no timer would fire.
//! * After a long hold-up no timer fires before the tasks have had their turn that sockets have woken by then ([`Seen`]).
//! * While nothing is left to run, the thread sleeps or does what is not the runtime's business. Nobody waited for the lanes that are
//!   ahead then, so they are forgiven as much time.
//! * Under another event loop there is no [`LONGEST`], since what that loop finds need not wait.
//! * If time is paused, or is advanced by the program, the clock says nothing about how long polls take. Then a count of
//!   polls bounds the turn and the lanes: two runs do the same. If time is paused during a turn, the turn
//!   ends.

use mainspring_driver::Nanos;

use super::Handle;
use super::seen::Seen;
use crate::clock::system;
use crate::coop::{self, Slice};
use crate::executor::{Executor, Lane};

/// How long a turn may go on without a look at the sockets, in nanoseconds.
const INTERVAL: u64 = 50_000;

/// How long at least, in nanoseconds, if that look has found something.
const SOON: u64 = 5_000;

/// How long it may go on while tasks are ready that were ready at that look, in nanoseconds.
const LONGEST: u64 = 1_000_000;

/// A turn that would end less than this before the next deadline, in nanoseconds, lasts until then.
const NEAR: u64 = 5_000;

/// The shortest time, in nanoseconds, that a look at the sockets takes: the look may begin that much before a deadline.
const LOOK: u64 = 300;

/// The number of polls between two readings of the clock at the beginning of a turn; it grows during the turn.
const FIRST: usize = 1;

/// The maximum of that number.
const MOST: usize = 61;

/// A slice of time that is shorter than this, in nanoseconds, is not worth the switch to another task.
const LEAST: u64 = 5_000;

/// How the turn under way is bounded.
pub(super) struct Pace {
    /// Polls after which a turn ends, if there is such a bound.
    interval: Option<usize>,
    /// The clock is advanced by the program: it does not measure how long polls take, and the thread cannot wait for a time.
    pub(super) test_clock: bool,
    /// The thread belongs to another event loop.
    hosted: bool,
    /// Only a count of polls bounds the turn.
    counted: bool,
    /// Polls left in this turn.
    left: usize,
    /// When the sockets were looked at, and the turn began.
    pub(super) looked: Nanos,
    /// The latest reading of the clock.
    pub(super) read: Nanos,
    /// The deadline that ends the turn, as it was found at that reading.
    due: Option<Nanos>,
    /// The previous turn ended for the sake of this lane: a deadline had passed, or only tasks were left whose lanes were ahead of what
    /// sockets wake.
    ended_for: Option<Lane>,
    /// Nothing was left to run after the last stretch.
    rested: bool,
    /// What has been seen at the sockets.
    seen: Seen,
    /// The look at the sockets has found something.
    pub(super) found: bool,
    /// The number of the last turn of those tasks that were ready at the look, among all turns of woken tasks.
    last: u64,
    /// How long the turn may last if so, once these have had their turn.
    soon: Option<u64>,
    /// The maximum number of polls until the next reading.
    most: usize,
}

impl Pace {
    /// If there is an interval, turns end after that number of polls in any case. `test_clock`: the clock is advanced by the
    /// program.
    pub(super) fn new(interval: Option<usize>, test_clock: bool) -> Pace {
        Pace {
            interval,
            test_clock,
            counted: false,
            left: 0,
            hosted: false,
            looked: Nanos::ZERO,
            read: Nanos::ZERO,
            due: None,
            ended_for: None,
            rested: false,
            seen: Seen::default(),
            found: false,
            last: 0,
            soon: None,
            most: FIRST,
        }
    }

    /// Begins a `block_on`, or, if `hosted`, a turn in another event loop. What the thread did before is charged to nobody.
    pub(super) fn enter(&mut self, hosted: bool) {
        self.hosted = hosted;
        self.ended_for = None;
        self.found = false;
        self.seen.enter();
    }

    /// Begins a turn. The sockets were looked at `now`. Returns whether the timers must wait, because they have had more than
    /// their share. The look is charged after that, so a turn that ended for a deadline is followed by its timer.
    pub(super) fn begin(&mut self, handle: &Handle, executor: &Executor, now: Nanos) -> bool {
        if self.rested && !self.counted {
            executor.forgive(now.get().saturating_sub(self.read.get()));
        }
        let must_wait = executor.must_wait(Lane::Timer);
        let counted_before = self.counted;
        self.counted = self.test_clock || handle.timers().is_paused();
        self.left = self.interval.unwrap_or(if self.counted { MOST } else { usize::MAX });
        if !self.counted {
            executor.begin_charging();
            if let Some(lane) = self.ended_for {
                // The look at the sockets is part of what this lane costs.
                self.charge(executor, lane, now);
            }
        }
        self.ended_for = None;
        self.last = executor.turns_of_woken().wrapping_add(executor.woken() as u64);
        self.looked = now;
        self.read = now;
        self.due = None;
        self.soon = None;
        self.most = FIRST;
        if self.counted && !counted_before {
            executor.begin_counting();
        }
        must_wait
    }

    /// Notes in [`Seen`] what `begin` has been told: the sockets were looked at `now`. Returns whether the timers must wait for what was
    /// found.
    pub(super) fn saw(&mut self, handle: &Handle, executor: &Executor, now: Nanos) -> bool {
        if self.counted {
            self.seen.clear(executor);
        } else {
            self.seen.looked(executor, now, handle.timers().earliest_due());
        }
        self.seen.holds_timers()
    }

    /// Returns whether the clock says nothing about how long the turn under way has taken.
    pub(super) fn is_counted(&self, handle: &Handle) -> bool {
        self.counted || handle.timers().is_paused()
    }

    /// What was done for this lane, beside its polls, has lasted until `now`.
    pub(super) fn charge(&mut self, executor: &Executor, lane: Lane, now: Nanos) {
        if !self.counted {
            executor.charge_lane(lane, now.get().saturating_sub(self.read.get()));
            self.read = now;
        }
    }

    /// Returns how many polls there may be before [`is_over`](Pace::is_over) is asked. At least one.
    pub(super) fn stretch(&self, handle: &Handle, executor: &Executor) -> usize {
        if self.counted {
            coop::set_slice(None);
            return self.left;
        }
        let due = self.due.unwrap_or_else(|| self.next_deadline(handle, executor));
        coop::set_slice(Some(self.slice(handle, due)));
        let fit = |end: Nanos| executor.fit(end.get().saturating_sub(self.read.get())) as usize;
        let mut polls = fit(self.end(self.interval(), due));
        // Only what was ready at the look has more time.
        if polls < self.most && !self.hosted {
            polls = polls.max(fit(self.end(LONGEST, due)).min(self.yet_to_run(executor)));
        }
        // At least one; and no more than `most`, a small number.
        polls.clamp(1, self.most).min(self.left)
    }

    /// Returns whether the turn is over, after a stretch that took this number of tasks from the queue.
    pub(super) fn is_over(&mut self, handle: &Handle, executor: &Executor, taken: usize) -> bool {
        self.rested = false;
        // At least one: the stretch may have ended before it took any.
        self.left = self.left.saturating_sub(taken.max(1));
        if self.counted {
            return self.left == 0;
        }
        // Time was paused in this turn: the clock stands still, and would never end it.
        if handle.timers().is_paused() {
            return true;
        }
        let now = handle.timers().now();
        executor.charge(now.get().saturating_sub(self.read.get()));
        handle.remote().polling().set_since(now.get());
        self.read = now;
        self.most = (2 * self.most).min(MOST);
        self.seen.settle(executor);
        let have_run = self.yet_to_run(executor) == 0;
        if self.found && self.soon.is_none() && have_run {
            let used = now.get().saturating_sub(self.looked.get());
            let most = INTERVAL.max(used + used / 8);
            self.soon = Some((2 * used).clamp(SOON, most));
        }
        let due = self.next_deadline(handle, executor);
        self.due = Some(due);
        let interval = if have_run || self.hosted { self.interval() } else { LONGEST };
        let end = self.end(interval, due);
        // A poll that would hardly fit belongs to the next turn: to come closer in ever smaller steps is not worth it. A turn
        // that a deadline ends lasts until that deadline, less the time that the look at the sockets takes.
        let half = executor.next_cost() / 2;
        let spared = if end == due { half.min(LOOK) } else { half };
        let is_over = now.get().saturating_add(spared) >= end.get();
        let must_look = executor.must_look();
        let is_for_timers = is_over && end == due;
        self.ended_for = if is_for_timers { Some(Lane::Timer) } else { must_look.then_some(Lane::Woken) };
        self.left == 0 || is_over || must_look
    }

    /// To be called when nothing is ready any more, or the future of `block_on` has ended. Unless the last polls are charged now,
    /// they are charged to nobody, and a lane that is behind would never catch up if its tasks rest in each turn, and are woken
    /// by each look at the sockets, or if the program calls `block_on` again and again.
    pub(super) fn rest(&mut self, handle: &Handle, executor: &Executor) {
        self.rested = !executor.has_ready();
        if executor.is_uneven() && !self.is_counted(handle) {
            let now = handle.timers().now();
            executor.charge(now.get().saturating_sub(self.read.get()));
            self.read = now;
        }
    }

    /// How many of the tasks that were ready at the look have yet to have their turn, at most. (Tasks that wake each other may go on
    /// forever: their lane need not become empty.)
    fn yet_to_run(&self, executor: &Executor) -> usize {
        if !executor.is_waiting(Lane::Woken) {
            return 0;
        }
        self.last.saturating_sub(executor.turns_of_woken()) as usize
    }

    /// How long the turn may last for tasks that were not ready at the look.
    fn interval(&self) -> u64 {
        self.soon.unwrap_or(INTERVAL)
    }

    /// When a turn ends that may last this number of nanoseconds after the look at the sockets, if the next deadline is
    /// `due`.
    fn end(&self, interval: u64, due: Nanos) -> Nanos {
        let end = self.looked.get().saturating_add(interval);
        if due.get() <= end.saturating_add(NEAR) { due } else { Nanos::new(end) }
    }

    /// The deadline that ends the turn.
    fn next_deadline(&self, handle: &Handle, executor: &Executor) -> Nanos {
        let in_vain =
            executor.is_waiting(Lane::Timer) || executor.must_wait(Lane::Timer) || self.seen.holds_timers();
        if in_vain { Nanos::NEVER } else { handle.timers().earliest_due() }
    }

    /// Until when a poll may go on taking results: until the next deadline, but not longer, or hardly longer, than a slice.
    fn slice(&self, handle: &Handle, due: Nanos) -> Slice {
        let left = due.get().saturating_sub(self.read.get()).max(LEAST);
        let length = if left < coop::SLICE + LEAST { left } else { coop::SLICE };
        // A clock other than the process's may stop or jump, and costs more to read.
        let read = if handle.clock().is_system() { self.read } else { system::now() };
        Slice { until: Nanos::new(read.get().saturating_add(length)), length, now: system::now }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
