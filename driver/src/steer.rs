//! `Steering`: a driver's clock that may be stopped, turned on by hand, and let go again.
//!
//! ```text
//!              1 pause                    2 resume
//!   real ────────────────▶ paused ────────────────────▶ resumed
//!                          ▲  │ 3 turn_to (paused)          │
//!                          └──┴──────────── 1 pause ────────┘
//! ```
//!
//! Ground rules:
//!
//! * A driver that was never paused pays for all this with one relaxed load, in a cache line that each reading
//!   of its clock touches anyway, and one branch that always goes the same way.
//! * While paused the driver's time is a number, which moves forward by `turn_to` and by nothing else. The clock
//!   that the driver was made on goes on, unseen.
//! * Resumed, the driver's time goes on from that number at the speed of its clock.
//! * The clock is not read under the lock: its reading may be a foreign function.
//! * What is shown never is [`Nanos::NEVER`], so a timer that never comes due does not.

use crate::sync::{AtomicU32, Mutex, Ordering, lock};
use crate::{Clock, Handle, Nanos};

/// The latest time that is ever shown.
const LAST: Nanos = Nanos::new(Nanos::NEVER.get() - 1);

/// Whether and how the driver's time differs from that of its clock.
pub(crate) struct Steering {
    /// How often the clock was paused or resumed: odd while it is paused.
    changes: AtomicU32,
    line: Mutex<Line>,
}

/// The time shown, as a function of what the clock reads.
#[derive(Clone, Copy)]
enum Line {
    /// It is the same.
    Real,
    /// It stands.
    Stands(Nanos),
    /// It was `shown` when the clock read `real`, and goes on from there.
    Runs { real: Nanos, shown: Nanos },
}

impl Line {
    /// What is shown when the clock reads `real()`.
    fn at(self, real: impl FnOnce() -> Nanos) -> Nanos {
        match self {
            Line::Real => real(),
            Line::Stands(at) => at,
            Line::Runs { real: since, shown } => {
                shown.saturating_add(real().saturating_duration_since(since)).min(LAST)
            }
        }
    }
}

impl Steering {
    /// The driver's time is that of its clock.
    pub(crate) fn real() -> Steering {
        Steering { changes: AtomicU32::new(0), line: Mutex::new(Line::Real) }
    }

    /// The driver's time stands at `at`.
    pub(crate) fn paused(at: Nanos) -> Steering {
        Steering { changes: AtomicU32::new(1), line: Mutex::new(Line::Stands(at)) }
    }

    #[inline]
    pub(crate) fn changes(&self) -> u32 {
        // Relaxed: whoever paused the clock on this thread is seen, and for other threads a reading that they
        // began a little earlier is as good. What is read on the strength of it is under the lock.
        self.changes.load(Ordering::Relaxed)
    }

    /// What is shown; `clock` is the one that the driver was made on.
    #[inline]
    pub(crate) fn read(&self, clock: &Clock) -> Nanos {
        if self.changes() == 0 { clock.now() } else { self.read_steered(clock) }
    }

    #[cold]
    fn read_steered(&self, clock: &Clock) -> Nanos {
        let line = *lock(&self.line);
        line.at(|| clock.now())
    }

    /// Arrow 1. False, and nothing is changed, if it is paused already. Time stands at `latest`, or at what is
    /// shown if that is later.
    fn pause(&self, clock: &Clock, latest: Nanos) -> bool {
        let real = clock.now();
        let mut line = lock(&self.line);
        if let Line::Stands(_) = *line {
            return false;
        }
        *line = Line::Stands(line.at(|| real).max(latest));
        self.count(&line);
        true
    }

    /// Arrow 2. False, and nothing is changed, if it is not paused.
    fn resume(&self, clock: &Clock) -> bool {
        let real = clock.now();
        let mut line = lock(&self.line);
        let Line::Stands(shown) = *line else { return false };
        *line = Line::Runs { real, shown };
        self.count(&line);
        true
    }

    /// Arrow 3. False if it is not paused.
    fn turn_to(&self, at: Nanos) -> bool {
        let mut line = lock(&self.line);
        let Line::Stands(shown) = *line else { return false };
        *line = Line::Stands(shown.max(at).min(LAST));
        true
    }

    /// Counts a change, made under the lock. Even while it runs, odd while it stands, and never zero again.
    fn count(&self, line: &Line) {
        let odd = u32::from(matches!(line, Line::Stands(_)));
        let next = self.changes().wrapping_add(1);
        let next = if next % 2 == odd { next } else { next.wrapping_add(1) };
        // Relaxed: see `changes`. After four thousand million changes it starts anew at two or one, not at zero.
        self.changes.store(if next == 0 { 2 } else { next }, Ordering::Relaxed);
    }
}

/// The clock, stopped and turned by hand: what tests and simulations do with a driver whose clock is real.
impl Handle {
    /// Stops the driver's time at what it is now. Returns false if it was stopped already.
    ///
    /// From here on only [`turn_to`](Handle::turn_to) moves it. Deadlines are compared with it as ever, and the
    /// driver's host decides when to turn it: mostly to [`Driver::next_deadline`](crate::Driver::next_deadline)
    /// when nothing is left to run. A park that is under way is ended, because what it waits for has changed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring_driver::{Clock, Driver};
    ///
    /// let driver = Driver::new(Clock::monotonic(), || ());
    /// let handle = driver.handle();
    /// assert!(handle.pause());
    /// let stood = handle.now();
    /// assert!(handle.turn_to(stood.saturating_add(Duration::from_secs(3600))));
    /// assert_eq!(handle.now().saturating_duration_since(stood), Duration::from_secs(3600));
    /// assert!(handle.resume());
    /// assert!(handle.now().saturating_duration_since(stood) >= Duration::from_secs(3600));
    /// ```
    pub fn pause(&self) -> bool {
        let paused = self.steering().pause(self.clock(), self.latest());
        if paused {
            self.unpark();
        }
        paused
    }

    /// Lets the driver's time go on from what it is, at the speed of its clock. Returns false if it was not
    /// stopped.
    pub fn resume(&self) -> bool {
        let resumed = self.steering().resume(self.clock());
        if resumed {
            self.unpark();
        }
        resumed
    }

    /// Turns a stopped clock forward to `at`; it stops just before the end of time, and a time that is past
    /// leaves it where it is. Returns false if it is not stopped.
    ///
    /// Nothing fires by it: that is [`Driver::process`](crate::Driver::process)'s part.
    pub fn turn_to(&self, at: Nanos) -> bool {
        let turned = self.steering().turn_to(at);
        if turned {
            self.now();
        }
        turned
    }

    /// Whether the driver's time is stopped.
    #[inline]
    pub fn is_paused(&self) -> bool {
        self.clock_changes() % 2 == 1
    }

    /// How often the driver's time was stopped or let go: it is odd while time stands, and zero as long as the
    /// driver's time is that of [its clock](Handle::clock). Who keeps a difference between this time and another
    /// measures anew when it has changed.
    #[inline]
    pub fn clock_changes(&self) -> u32 {
        self.steering().changes()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Driver, TestClock};

    fn ns(n: u64) -> Nanos {
        Nanos::new(n)
    }

    #[test]
    fn time_stands_while_paused_and_goes_on_from_there() {
        let clock = TestClock::new(ns(100));
        let driver = Driver::new(clock.clock(), || ());
        let handle = driver.handle();
        assert!(!handle.resume() && !handle.turn_to(ns(500)) && handle.clock_changes() == 0);
        clock.set(ns(150));
        assert!(handle.pause() && !handle.pause());
        clock.set(ns(1_000));
        assert_eq!((handle.now(), handle.latest(), handle.is_paused()), (ns(150), ns(150), true));
        assert!(handle.turn_to(ns(170)) && handle.turn_to(ns(160)));
        assert_eq!(handle.now(), ns(170));
        assert!(handle.resume() && !handle.resume());
        assert_eq!((handle.now(), handle.is_paused()), (ns(170), false));
        clock.set(ns(1_005));
        assert_eq!(handle.now(), ns(175));
        assert!(handle.pause());
        clock.set(ns(9_000));
        assert_eq!((handle.now(), handle.clock_changes()), (ns(175), 3));
    }

    #[test]
    fn no_turn_reaches_never() {
        let driver = Driver::paused(Clock::monotonic(), || ());
        let handle = driver.handle();
        assert_eq!(handle.now(), Nanos::ZERO);
        assert!(handle.turn_to(Nanos::NEVER));
        assert_eq!(handle.now(), LAST);
        assert!(handle.resume());
        assert_eq!(handle.now(), LAST);
    }

    #[test]
    fn a_driver_that_was_paused_never_counts_as_unsteered_again() {
        let steering =
            Steering { changes: AtomicU32::new(u32::MAX - 2), line: Mutex::new(Line::Stands(ns(1))) };
        let clock = TestClock::new(ns(7)).clock();
        assert!(steering.resume(&clock));
        assert_eq!(steering.changes(), u32::MAX - 1);
        assert!(steering.pause(&clock, ns(0)));
        assert_eq!(steering.changes(), u32::MAX);
        assert!(steering.resume(&clock));
        assert_eq!(steering.changes(), 2);
        assert_eq!(steering.read(&clock), ns(1));
    }

    #[test]
    fn whoever_is_parked_is_told() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicUsize, Ordering};
        let told = Arc::new(AtomicUsize::new(0));
        let count = told.clone();
        let driver = Driver::new(Clock::monotonic(), move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        driver.handle().pause();
        driver.handle().resume();
        assert_eq!(told.load(Ordering::Relaxed), 2);
    }
}
