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
//! Ground rules:
//!
//! * "There is work" skips the sleep, never the look: I/O and timers are served in every turn.
//! * I/O goes before timers: what has arrived in time is seen before the timeout that waits for it. A look
//!   that may not have told of everything, because a signal interrupted it or the batch was full, is followed
//!   by another, a bounded number of times.
//! * The clock is read once before a sleep and once after it.
//! * A backlog of timers that exceeds the budget keeps the next turn from sleeping.

use mainspring_driver::{Driver, Nanos};

use super::Handle;
use super::monotonic::Offset;
use crate::reactor::{Reactor, Until};

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
}

impl Turner {
    pub(super) fn new(reactor: Reactor, driver: Driver, timer_budget: usize) -> Turner {
        let offset = Offset::measure(driver.handle().clock());
        Turner { reactor, driver, offset, timer_budget, backlog: false }
    }

    /// One turn; it sleeps if it `may_sleep` and no timer is due.
    ///
    /// # Panics
    ///
    /// With the first panic of a foreign waker, after all wakers of that step have been woken. Nothing is
    /// lost by it: the next turn goes on.
    pub(super) fn turn(&mut self, handle: &Handle, may_sleep: bool) {
        let counters = handle.counters();
        counters.turns.add(1);
        let mut until = if may_sleep && !self.backlog { self.next_wake() } else { Until::Now };
        for _ in 0..LOOKS {
            let parked = match self.reactor.park(until) {
                Ok(parked) => parked,
                // The poller is ours, valid and open: what it can fail with is a defect of this program.
                Err(error) => panic!("the system's poller failed: {error}"),
            };
            counters.wakeups.add(u64::from(parked.slept));
            counters.events.add(self.reactor.dispatch() as u64);
            if !parked.partial {
                break;
            }
            until = Until::Now;
        }
        let processed = self.driver.process(self.driver.handle().now(), self.timer_budget);
        self.backlog = processed.more;
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
        Until::Time { timeout, monotonic_ns: self.offset.monotonic(at) }
    }
}
