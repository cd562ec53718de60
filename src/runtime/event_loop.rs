//! The event loop: turns that run tasks, park, dispatch I/O and fire timers. `Pace` decides when a turn's tasks have run long
//! enough.
//!
//! ```text
//!        ┌──────────────────────────────────────────────────────────────┐
//!        ▼                                                              │
//!   run tasks (Pace) ──────▶ is anything left to run?                   │
//!                              no: Driver::next_wake ──▶ Reactor::park  │
//!                             yes:                  Reactor::park(now)  │
//!                                                      ▲ │              │
//!                           it did not tell of all ────┘ │              │
//!                                   Reactor::dispatch ◀──┘              │
//!                                   Driver::process(now) ───────────────┘
//! ```
//!
//! If time is paused, and nothing is left to run, a turn is a step instead:
//!
//! ```text
//!   Reactor::park(now) ─▶ did anything arrive? ──yes──────────────────────────▶ Driver::process(now)
//!                               │ no                                                   ▲
//!                               ▼                                                      │
//!     a deadline lies ahead, on the way of an advance or free to be jumped to: turn to it
//!     an advance has nothing left on its way: turn to its moment, and wake it ─────────┤
//!     neither: Reactor::park, until an event or another thread ────────────────────────┘
//! ```
//!
//! Ground rules:
//!
//! * "There is work" skips the sleep, never the look: I/O and timers are served in every turn.
//! * I/O goes before timers: what has arrived in time is seen before the timeout that waits for it. A look that may not have
//!   reported everything, because a signal interrupted it or the batch was full, is followed by another look, a bounded
//!   number of times. So is a look after which the clock is late: the thread may have been stopped between the two.
//! * The clock is read once before a sleep and once after it, and once in a turn that does not sleep. Timers fire by these
//!   readings, and the length of a turn is computed from them.
//! * A backlog of timers that exceeds the budget keeps the next turn from sleeping. So does memory of a past burst that is to be freed;
//!   and while much is kept that may be freed later, no sleep lasts longer than [`SPARE_SLEEP`].
//! * Timers that are due stay in the wheel while they and the tasks that they wake have had more than their share; and after a long
//!   hold-up, until what has arrived meanwhile has been read (`seen.rs`).
//! * Directly before a sleep the loop checks once more whether a task is ready: a subscriber of `tracing` may have woken one.
//! * Except by `advance_to`, paused time moves only in a step, by one deadline a step, and only after a look that found nothing:
//!   what has arrived, and what a step wakes, comes to rest before the next step.

use std::time::Duration;

use mainspring_driver::{Driver, Nanos};

use super::Handle;
use super::builder::Builder;
use super::metrics::LongestTurn;
use super::pace::Pace;
use crate::clock::system::{AlarmOffset, ClockId};
use crate::executor::{Executor, Lane};
use crate::reactor::{Reactor, Until};
use crate::trace;

/// The maximum number of looks at the I/O that a turn takes before it fires timers.
const LOOKS: usize = 64;

/// If the clock is later by this, in nanoseconds, than a look was to end, the look is repeated. Waking a thread seldom takes so long.
const STOPPED: u64 = 200_000;

/// The longest sleep while much memory of a past burst is kept: whether it was needed is decided in each second.
const SPARE_SLEEP: Duration = Duration::from_secs(1);

/// If at least this number of timers fire, the time that this takes is measured, and charged to the lane of their tasks.
const MANY: usize = 16;

/// The event loop, which alternates with the tasks on the runtime's thread.
pub(super) struct EventLoop {
    reactor: Reactor,
    driver: Driver,
    offset: AlarmOffset,
    pub(super) pace: Pace,
    timer_budget: usize,
    /// Timers were left over when the budget of the last turn ran out.
    backlog: bool,
    /// Memory of a past burst is left to be freed, a little in each turn.
    releasing: bool,
    /// Whether paused time moves automatically.
    auto_advance: bool,
    /// Another event loop has prepared its sleep, and has taken no turn since.
    awaits_turn: bool,
    /// The turn under way: how many polls there had been before, and how many timers it has fired. `pace` knows when it began.
    polls_before: u64,
    fired: usize,
    longest: Duration,
}

impl EventLoop {
    pub(super) fn new(reactor: Reactor, driver: Driver, alarm: ClockId, builder: &Builder) -> EventLoop {
        let offset = AlarmOffset::measure(driver.handle(), alarm);
        let pace = Pace::new(builder.event_interval, driver.handle().clock().is_test());
        EventLoop {
            reactor,
            driver,
            offset,
            pace,
            timer_budget: builder.timer_budget,
            backlog: false,
            releasing: false,
            auto_advance: builder.auto_advance,
            awaits_turn: false,
            polls_before: 0,
            fired: 0,
            longest: Duration::ZERO,
        }
    }

    /// Begins a `block_on`, or, if `hosted`, a turn in another event loop. What the thread did before is not part of a turn.
    pub(super) fn begin(&mut self, handle: &Handle, executor: &Executor, hosted: bool) {
        self.reactor.take_back();
        if hosted {
            self.awaits_turn = false;
        }
        self.pace.enter(hosted);
        let now = self.driver.handle().now();
        self.begin_turn(handle, now, 0);
        self.pace.begin(handle, executor, now);
    }

    fn begin_turn(&mut self, handle: &Handle, now: Nanos, fired: usize) {
        handle.remote().polling().set_since(now.get());
        self.polls_before = handle.counters().polls.get();
        self.fired = fired;
    }

    /// Ends a `block_on`, or a turn in another event loop.
    pub(super) fn end(&mut self, handle: &Handle) {
        self.end_turn(handle, self.driver.handle().now());
    }

    /// Ends the turn that began last.
    fn end_turn(&mut self, handle: &Handle, now: Nanos) {
        // Virtual time moves by any amount at once, which says nothing about how long the turn took.
        let duration = if self.pace.is_counted(handle) {
            Duration::ZERO
        } else {
            now.saturating_duration_since(self.pace.looked)
        };
        let polls = handle.counters().polls.get().wrapping_sub(self.polls_before);
        trace::long_turn(duration, polls, self.fired as u64);
        if duration > self.longest {
            self.longest = duration;
            handle.counters().set_longest(LongestTurn { duration, polls, timers: self.fired as u64 });
        }
    }

    /// Takes one turn. If it `may_sleep` and no timer is due, it sleeps, no longer than `most`.
    ///
    /// # Panics
    ///
    /// With the first panic of a foreign waker, after all wakers of that step have been woken. Nothing is lost: the next turn
    /// goes on.
    pub(super) fn turn(&mut self, handle: &Handle, executor: &Executor, may_sleep: bool, most: Duration) {
        handle.counters().turns.add(1);
        let idle = may_sleep && !self.has_backlog();
        let events = handle.counters().events.get();
        let end = if idle {
            self.look_idly(handle, executor, most)
        } else {
            self.look(handle, executor, Until::Now);
            self.pace.read
        };
        let now = self.driver.handle().now();
        if now > end.saturating_add_nanos(STOPPED) && !self.pace.is_counted(handle) {
            self.look(handle, executor, Until::Now);
        }
        if !idle {
            self.end_turn(handle, now);
        }
        self.pace.found = handle.counters().events.get() != events;
        executor.looked(self.pace.found);
        let must_wait = self.pace.begin(handle, executor, now) | self.pace.saw(handle, executor, now);
        self.releasing = executor.trim(self.age(handle, now));
        let mut fired = 0;
        if !must_wait {
            let _waking = executor.waking(Lane::Timer);
            let processed = self.driver.process(now, self.timer_budget);
            self.backlog = processed.more;
            self.releasing |= processed.releasing;
            fired = processed.fired;
        }
        if fired >= MANY {
            self.pace.charge(executor, Lane::Timer, self.driver.handle().now());
        }
        self.begin_turn(handle, now, fired);
    }

    /// The time by which the executor judges whether memory is still needed. Virtual time, and a test clock, may pass hours between
    /// two turns, or stand still: there each turn counts as a millisecond.
    fn age(&self, handle: &Handle, now: Nanos) -> Nanos {
        if self.pace.is_counted(handle) { Nanos::new(handle.counters().turns.get() << 20) } else { now }
    }

    /// The look of a turn with nothing left to run: it sleeps, no longer than `most`. Returns when the sleep was to end, or, if
    /// something else ended it, the next deadline, if that is sooner.
    fn look_idly(&mut self, handle: &Handle, executor: &Executor, most: Duration) -> Nanos {
        let now = self.driver.handle().now();
        self.end_turn(handle, now);
        if self.driver.handle().is_paused() {
            self.step(handle, executor, most);
            return now;
        }
        let until = self.next_wake(now, executor);
        let until = self.at_most(most, until);
        let arrived = self.look(handle, executor, until);
        let end = match until {
            Until::Now => now,
            Until::Time { timeout, .. } => now.saturating_add(timeout),
            Until::Event => Nanos::NEVER,
        };
        if arrived || executor.has_ready() {
            // The sleep may have ended sooner. It was to outlast deadlines by their slack: they come first now.
            return end.min(self.driver.handle().earliest_due().max(now));
        }
        end
    }

    /// Sees what has happened; if nothing has happened and no task is ready, sleeps `until` then. Returns whether anything
    /// arrived, or may have arrived.
    fn look(&mut self, handle: &Handle, executor: &Executor, mut until: Until) -> bool {
        let counters = handle.counters();
        let mut arrived = false;
        for _ in 0..LOOKS {
            match until {
                Until::Now => {}
                Until::Event => trace::parking(None),
                Until::Time { timeout, .. } => trace::parking(Some(timeout)),
            }
            if until != Until::Now && executor.has_ready() {
                until = Until::Now;
            }
            let parked = match self.reactor.park(until) {
                Ok(parked) => parked,
                // The poller is our own, valid and open: any error of it is a defect of this program.
                Err(error) => panic!("the system's poller failed: {error}"),
            };
            // The poller reports an event once: it is dispatched before a subscriber is called, which may panic.
            counters.events.add(self.reactor.dispatch() as u64);
            if parked.slept {
                counters.wakeups.add(1);
                counters.by_io.add(u64::from(parked.events > 0));
                counters.by_thread.add(u64::from(parked.notified));
                // If there is no alarm, the poller's timeout ends the sleep, and leaves no other trace.
                let nothing_else = !parked.notified && !parked.partial && parked.events == 0;
                let timed_out = nothing_else && matches!(until, Until::Time { .. });
                let by_timer = parked.alarm || timed_out;
                counters.by_timer.add(u64::from(by_timer));
                trace::woken(by_timer, parked.events, parked.notified);
            }
            arrived |= parked.notified || parked.events > 0;
            if !parked.partial {
                return arrived;
            }
            until = Until::Now;
        }
        true
    }

    /// Returns until when to sleep, if the time is `now`.
    fn next_wake(&mut self, now: Nanos, executor: &Executor) -> Until {
        let at = self.driver.next_wake().unwrap_or(Nanos::NEVER);
        let timeout = at.saturating_duration_since(now);
        if timeout.is_zero() {
            return Until::Now;
        }
        if self.pace.test_clock {
            return Until::Event;
        }
        let until = match at {
            Nanos::NEVER => Until::Event,
            _ => Until::Time { timeout, alarm_ns: self.offset.alarm_ns(self.driver.handle(), at) },
        };
        let has_spare = timeout > SPARE_SLEEP && (executor.has_spare() || self.driver.has_spare());
        if has_spare { self.at_most(SPARE_SLEEP, until) } else { until }
    }

    /// Shortens a sleep to `most`, if it would be longer. `most` is a time of the system's clock.
    fn at_most(&self, most: Duration, until: Until) -> Until {
        match until {
            _ if most.is_zero() => Until::Now,
            Until::Event if most == Duration::MAX => until,
            Until::Time { timeout, .. } if timeout <= most => until,
            Until::Now => until,
            _ => Until::Time { timeout: most, alarm_ns: self.offset.alarm_in(most) },
        }
    }

    /// Prepares for a sleep of the thread in another event loop, until the poller's descriptor is readable. Returns how long
    /// the thread may sleep, if there is a limit.
    ///
    /// # Panics
    ///
    /// If this is not the process that made the runtime.
    #[track_caller]
    pub(super) fn lend(&mut self, handle: &Handle, executor: &Executor) -> Option<Duration> {
        // From here on, what another thread sends or arms is noticed below, or keeps the descriptor readable.
        self.reactor.take_back();
        self.awaits_turn = true;
        let now = self.driver.handle().now();
        let until = if executor.has_ready() || self.has_backlog() {
            Until::Now
        } else if self.driver.handle().is_paused() {
            self.driver.next_wake();
            if self.wants_step(handle) { Until::Now } else { Until::Event }
        } else {
            self.next_wake(now, executor)
        };
        match until {
            _ if !self.reactor.lend(until) => Some(Duration::ZERO),
            Until::Now => Some(Duration::ZERO),
            Until::Time { timeout, .. } => Some(timeout),
            Until::Event => None,
        }
    }

    /// Returns whether another event loop has prepared its sleep, and has taken no turn since.
    pub(super) fn awaits_turn(&self) -> bool {
        self.awaits_turn
    }

    /// Returns whether a step would move paused time, or timers are due that no turn has fired yet.
    fn wants_step(&mut self, handle: &Handle) -> bool {
        let clock = handle.virtual_time();
        let by_itself = self.auto_advance && !clock.is_held();
        let now = self.driver.handle().now();
        clock.next().is_some()
            || self.driver.next_deadline().is_some_and(|at| at <= now || (by_itself && at < Nanos::NEVER))
    }

    /// Returns whether timers that are due, or memory that is to be freed, were left to the next turn.
    pub(super) fn has_backlog(&self) -> bool {
        self.backlog || self.releasing
    }

    /// Returns whether a timer is due: it had to wait, because timers have had more than their share, or has become due since. True,
    /// too, if a cancelled one would be: the next turn finds that out.
    pub(super) fn is_due(&self) -> bool {
        let timers = self.driver.handle();
        // The latest reading: a turn ends with one.
        timers.earliest_due() <= timers.latest()
    }

    /// Takes the turn of an idle runtime whose time is paused: advances time, if it may be advanced.
    fn step(&mut self, handle: &Handle, executor: &Executor, most: Duration) {
        let clock = handle.virtual_time();
        // Asked first: the method says why.
        let by_itself = self.auto_advance && !clock.is_held();
        // From here on a timer that another thread arms is noticed by the look, or ends the park.
        self.driver.next_wake();
        if self.look(handle, executor, Until::Now) || executor.has_ready() {
            return;
        }
        let deadline = self.driver.next_deadline().filter(|at| *at < Nanos::NEVER);
        // Time has reached it, by itself or not, and no turn has fired it yet: what told of that may have been seen by a turn
        // in which timers had to wait, or in which a foreign waker panicked, or by `lend`.
        let now = self.driver.handle().now();
        let is_due = deadline.is_some_and(|deadline| deadline <= now);
        match (deadline, clock.next()) {
            (Some(deadline), Some(until)) if deadline <= until => self.advance_to(deadline),
            (_, Some(until)) => {
                self.advance_to(until);
                clock.settle(self.driver.handle().now());
            }
            (Some(deadline), None) if by_itself || is_due => self.advance_to(deadline),
            _ => {
                let until = self.at_most(most, Until::Event);
                self.look(handle, executor, until);
            }
        }
    }

    fn advance_to(&mut self, at: Nanos) {
        // If another thread has resumed time meanwhile, this does nothing.
        self.driver.handle().advance_to(at);
    }
}
