//! `PausableClock`: a driver's clock, which may be stopped, moved on while it stands, and let go again.
//!
//! ```text
//!              1 pause                    2 resume
//!   real ────────────────▶ paused ────────────────────▶ resumed
//!                          ▲  │ 3 advance_to (paused)       │
//!                          └──┴──────────── 1 pause ────────┘
//! ```
//!
//! Ground rules:
//!
//! * A driver that was never paused pays for all this with one relaxed load and one branch that always goes the same way.
//! * While paused the driver's time is a number, which moves forward by `advance_to` and by nothing else. The clock
//!   below goes on, unseen.
//! * Resumed, the driver's time goes on from that number at the speed of its clock.
//! * The clock is not read under the lock: its reading may be a foreign function.
//! * What is shown never is [`Nanos::NEVER`], so a timer that never comes due does not.

use super::Clock;
use crate::Nanos;
use crate::sync::{AtomicU32, Mutex, Ordering, lock};

/// A clock, and whether and how the time it shows differs from its own.
pub(crate) struct PausableClock {
    clock: Clock,
    /// How often it was paused or resumed: odd while it is paused.
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
                shown.saturating_add(real().saturating_duration_since(since)).min(Nanos::LAST)
            }
        }
    }
}

impl PausableClock {
    /// It shows what `clock` reads.
    pub(crate) fn real(clock: Clock) -> PausableClock {
        PausableClock { clock, changes: AtomicU32::new(0), line: Mutex::new(Line::Real) }
    }

    /// It stands at `at`.
    pub(crate) fn paused(clock: Clock, at: Nanos) -> PausableClock {
        PausableClock { clock, changes: AtomicU32::new(1), line: Mutex::new(Line::Stands(at)) }
    }

    /// The clock below.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    #[inline]
    pub(crate) fn changes(&self) -> u32 {
        // Relaxed: who paused the clock on this thread is seen, and for other threads a reading that they
        // began a little earlier is as good. What is read on the strength of it is under the lock.
        self.changes.load(Ordering::Relaxed)
    }

    /// What is shown.
    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        if self.changes() == 0 { self.clock.now() } else { self.now_by_the_line() }
    }

    #[cold]
    fn now_by_the_line(&self) -> Nanos {
        let line = *lock(&self.line);
        line.at(|| self.clock.now())
    }

    /// Arrow 1. False, and nothing is changed, if it is paused already. Time stands at `latest`, or at what is
    /// shown if that is later.
    pub(crate) fn pause(&self, latest: Nanos) -> bool {
        let real = self.clock.now();
        let mut line = lock(&self.line);
        if let Line::Stands(_) = *line {
            return false;
        }
        *line = Line::Stands(line.at(|| real).max(latest));
        self.count(&line);
        true
    }

    /// Arrow 2. False, and nothing is changed, if it is not paused.
    pub(crate) fn resume(&self) -> bool {
        let real = self.clock.now();
        let mut line = lock(&self.line);
        let Line::Stands(shown) = *line else { return false };
        *line = Line::Runs { real, shown };
        self.count(&line);
        true
    }

    /// Arrow 3. False if it is not paused.
    pub(crate) fn advance_to(&self, at: Nanos) -> bool {
        let mut line = lock(&self.line);
        let Line::Stands(shown) = *line else { return false };
        *line = Line::Stands(shown.max(at).min(Nanos::LAST));
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::TestClock;

    fn ns(n: u64) -> Nanos {
        Nanos::new(n)
    }

    #[test]
    fn time_stands_while_paused_and_goes_on_from_there() {
        let below = TestClock::new(ns(100));
        let clock = PausableClock::real(below.clock());
        assert!(!clock.resume() && !clock.advance_to(ns(500)) && clock.changes() == 0);
        below.set(ns(150));
        assert!(clock.pause(ns(0)) && !clock.pause(ns(0)));
        below.set(ns(1_000));
        assert_eq!((clock.now(), clock.changes()), (ns(150), 1));
        assert!(clock.advance_to(ns(170)) && clock.advance_to(ns(160)));
        assert_eq!(clock.now(), ns(170));
        assert!(clock.resume() && !clock.resume());
        assert_eq!((clock.now(), clock.changes()), (ns(170), 2));
        below.set(ns(1_005));
        assert_eq!(clock.now(), ns(175));
        assert!(clock.pause(ns(180)));
        below.set(ns(9_000));
        assert_eq!((clock.now(), clock.changes()), (ns(180), 3));
    }

    #[test]
    fn a_paused_clock_never_reaches_never() {
        let clock = PausableClock::paused(Clock::monotonic(), Nanos::ZERO);
        assert_eq!(clock.now(), Nanos::ZERO);
        assert!(clock.advance_to(Nanos::NEVER));
        assert_eq!(clock.now(), Nanos::LAST);
        assert!(clock.resume());
        assert_eq!(clock.now(), Nanos::LAST);
    }

    #[test]
    fn a_clock_that_was_paused_never_counts_as_unchanged_again() {
        let below = TestClock::new(ns(7)).clock();
        let line = Mutex::new(Line::Stands(ns(1)));
        let clock = PausableClock { clock: below, changes: AtomicU32::new(u32::MAX - 2), line };
        assert!(clock.resume());
        assert_eq!(clock.changes(), u32::MAX - 1);
        assert!(clock.pause(ns(0)));
        assert_eq!(clock.changes(), u32::MAX);
        assert!(clock.resume());
        assert_eq!((clock.changes(), clock.now()), (2, ns(1)));
    }
}
