//! The turn: park, dispatch I/O, fire timers.
//!
//! ```text
//!        ┌──────────────────────────────────────────────────────────────┐
//!        ▼                                                              │
//!   run at most 61 tasks ──▶ is anything left to run?                   │
//!                              no: Driver::next_wake ──▶ Reactor::park  │
//!                             yes:                  Reactor::park(now)  │
//!                                                      ▲ │              │
//!                           it did not tell of all ────┘ │              │
//!                                   Reactor::dispatch ◀──┘              │
//!                                   Driver::process(now) ───────────────┘
//! ```
//!
//! Where time is paused, and nothing is left to run, a turn is a step instead:
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
//! * I/O goes before timers: what has arrived in time is seen before the timeout that waits for it. A look
//!   that may not have told of everything, because a signal interrupted it or the batch was full, is followed
//!   by another, a bounded number of times.
//! * The clock is read once before a sleep and once after it.
//! * A backlog of timers that exceeds the budget keeps the next turn from sleeping.
//! * Paused time moves in a step and nowhere else, by one deadline a step, and only after a look that found
//!   nothing: what has arrived, and what a step wakes, runs to rest before the next.

use mainspring_driver::{Driver, Nanos};

use super::Handle;
use super::system_clock::Offset;
use crate::reactor::{Counted, Reactor, Until};

/// So many looks at the I/O a turn takes at the most before it fires timers.
const LOOKS: usize = 64;

/// What takes turns with the tasks on the runtime's thread.
pub(super) struct Turner {
    reactor: Reactor,
    driver: Driver,
    offset: Offset,
    timer_budget: usize,
    /// Timers were left over when the budget of the last turn ran out.
    backlog: bool,
    /// Whether paused time moves by itself.
    auto_advance: bool,
    /// Whether the clock is turned by hand, so that there is no waiting for a time.
    turned_by_hand: bool,
}

impl Turner {
    pub(super) fn new(
        reactor: Reactor,
        driver: Driver,
        counted: Counted,
        timer_budget: usize,
        auto_advance: bool,
    ) -> Turner {
        let offset = Offset::measure(driver.handle(), counted);
        let turned_by_hand = driver.handle().clock().is_test();
        Turner { reactor, driver, offset, timer_budget, backlog: false, auto_advance, turned_by_hand }
    }

    /// One turn; it sleeps if it `may_sleep` and no timer is due.
    ///
    /// # Panics
    ///
    /// With the first panic of a foreign waker, after all wakers of that step have been woken. Nothing is
    /// lost by it: the next turn goes on.
    pub(super) fn turn(&mut self, handle: &Handle, may_sleep: bool) {
        handle.counters().turns.add(1);
        let idle = may_sleep && !self.backlog;
        if idle && self.driver.handle().is_paused() {
            self.step(handle);
        } else {
            let until = if idle { self.next_wake() } else { Until::Now };
            self.look(handle, until);
        }
        let processed = self.driver.process(self.driver.handle().now(), self.timer_budget);
        self.backlog = processed.more;
    }

    /// Sees what has happened, sleeping `until` then if nothing has. Says whether anything arrived, or may have.
    fn look(&mut self, handle: &Handle, mut until: Until) -> bool {
        let counters = handle.counters();
        let mut arrived = false;
        for _ in 0..LOOKS {
            let parked = match self.reactor.park(until) {
                Ok(parked) => parked,
                // The poller is ours, valid and open: what it can fail with is a defect of this program.
                Err(error) => panic!("the system's poller failed: {error}"),
            };
            counters.wakeups.add(u64::from(parked.slept));
            arrived |= parked.notified || parked.events > 0;
            counters.events.add(self.reactor.dispatch() as u64);
            if !parked.partial {
                return arrived;
            }
            until = Until::Now;
        }
        true
    }

    fn next_wake(&mut self) -> Until {
        let Some(at) = self.driver.next_wake() else { return Until::Event };
        if at == Nanos::NEVER {
            return Until::Event;
        }
        let timeout = at.saturating_duration_since(self.driver.handle().now());
        if timeout.is_zero() {
            return Until::Now;
        }
        if self.turned_by_hand {
            return Until::Event;
        }
        Until::Time { timeout, alarm_ns: self.offset.alarm_ns(self.driver.handle(), at) }
    }

    /// The turn of an idle runtime whose time is paused: moves it on, if it may be moved.
    fn step(&mut self, handle: &Handle) {
        let clock = handle.virtual_clock();
        // Asked first: see there.
        let by_itself = self.auto_advance && !clock.is_held();
        // From here on a timer that another thread arms is noticed by the look, or ends the park.
        let armed = self.driver.next_wake().is_some_and(|at| at < Nanos::NEVER);
        if self.look(handle, Until::Now) {
            return;
        }
        let deadline = self.driver.next_deadline().filter(|at| *at < Nanos::NEVER);
        match (deadline, clock.next()) {
            (Some(deadline), Some(until)) if deadline <= until => self.turn_to(deadline),
            (_, Some(until)) => {
                self.turn_to(until);
                clock.settle(self.driver.handle().now());
            }
            (Some(deadline), None) if by_itself => self.turn_to(deadline),
            // A timer that another thread has armed or cancelled meanwhile: the next step looks at it.
            _ if by_itself && armed => {}
            _ => {
                self.look(handle, Until::Event);
            }
        }
    }

    fn turn_to(&mut self, at: Nanos) {
        // If another thread has let the clock go meanwhile it is not to be turned.
        self.driver.handle().turn_to(at);
    }
}
