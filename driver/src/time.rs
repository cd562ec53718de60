//! The driver's time: a [`Clock`], which is the system's monotonic clock, another clock of the system, or one that a test sets;
//! and the `PausableClock` that a driver puts around it, which may be paused, advanced while paused, and resumed.
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
//! * No clock shows [`Nanos::NEVER`]: a timer that never comes due must not come due.
//! * A real clock does not go back. A test clock may, so that the driver's reaction can be tested:
//!   nothing fires early, nothing is lost, and time goes on once the clock has caught up.
//! * A driver that was never paused pays for pausing with one relaxed load and one branch that always goes the same way.
//! * While it is paused, the driver's time is a number that only `advance_to` moves forward. The clock
//!   below goes on, but is not shown.
//! * After a resume, the driver's time goes on from that number at the speed of its clock.
//! * The clock is not read under the lock: reading it may call a foreign function.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use crate::Nanos;
use crate::sync::{AtomicU32, Mutex, Ordering, lock};

/// A source of the current time.
///
/// ```
/// use mainspring_driver::Clock;
///
/// let clock = Clock::monotonic();
/// let before = clock.now();
/// assert!(clock.now() >= before);
/// ```
#[derive(Clone, Debug)]
pub struct Clock(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// Counts from the instant at which it was made.
    Monotonic(Instant),
    /// Shows what the function returns.
    Function(fn() -> Nanos),
    /// Shows the time to which its [`TestClock`] was set.
    Test(Arc<AtomicU64>),
}

impl Clock {
    /// Returns the system's monotonic clock, counting from now on. On Linux it stops while the machine is
    /// suspended.
    pub fn monotonic() -> Clock {
        Clock(Kind::Monotonic(Instant::now()))
    }

    /// Returns a clock that shows what `read` returns: for clocks of the system that std does not offer, such as Linux's
    /// `CLOCK_BOOTTIME`, which goes on while the machine is suspended. The time should not go back.
    ///
    /// ```
    /// use std::time::{SystemTime, UNIX_EPOCH};
    /// use mainspring_driver::{Clock, Nanos};
    ///
    /// let clock = Clock::from_fn(|| {
    ///     Nanos::from_duration(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    /// });
    /// assert!(clock.now() > Nanos::ZERO);
    /// ```
    pub fn from_fn(read: fn() -> Nanos) -> Clock {
        Clock(Kind::Function(read))
    }

    /// Returns the current time. It reads the system's clock once, without a system call on the usual platforms.
    #[inline]
    pub fn now(&self) -> Nanos {
        match &self.0 {
            Kind::Monotonic(origin) => since(*origin, Instant::now()),
            Kind::Function(read) => read().as_reading(),
            Kind::Test(at) => shown(at),
        }
    }

    /// Returns the instant at which a [monotonic](Clock::monotonic) clock began; `None` for other clocks.
    pub fn origin(&self) -> Option<Instant> {
        match self.0 {
            Kind::Monotonic(origin) => Some(origin),
            Kind::Function(_) | Kind::Test(_) => None,
        }
    }

    /// Returns whether this is the clock of a [`TestClock`], so that waiting does not advance its time.
    #[inline]
    pub fn is_test(&self) -> bool {
        matches!(self.0, Kind::Test(_))
    }
}

fn since(origin: Instant, now: Instant) -> Nanos {
    Nanos::from_duration(now.saturating_duration_since(origin)).as_reading()
}

/// The time to which a test clock was set.
fn shown(at: &AtomicU64) -> Nanos {
    Nanos::new(at.load(Ordering::Acquire)).as_reading()
}

/// A clock that shows the time to which it was set: for tests and simulations.
///
/// ```
/// use std::time::Duration;
/// use mainspring_driver::{Nanos, TestClock};
///
/// let test = TestClock::new(Nanos::ZERO);
/// let clock = test.clock();
/// test.advance(Duration::from_secs(5));
/// assert_eq!(clock.now(), Nanos::new(5_000_000_000));
/// ```
#[derive(Clone, Debug)]
pub struct TestClock(Arc<AtomicU64>);

impl TestClock {
    /// Returns a clock that shows `at` until it is set.
    pub fn new(at: Nanos) -> TestClock {
        TestClock(Arc::new(AtomicU64::new(at.get())))
    }

    /// Returns a [`Clock`] that shows this clock's time, to be given to a driver.
    pub fn clock(&self) -> Clock {
        Clock(Kind::Test(self.0.clone()))
    }

    /// Returns the time that the clock shows.
    pub fn now(&self) -> Nanos {
        shown(&self.0)
    }

    /// Moves the clock forward by `duration`; it stops just before the end of time. Calls on several threads add up.
    pub fn advance(&self, duration: Duration) {
        let later = |at| Some(Nanos::new(at).as_reading().saturating_add(duration).get());
        // In one atomic step, so that two threads that advance the clock at once add up. Release: as in `set`. An atomic step goes
        // on with what a store before it has released, so nothing is to be acquired here.
        let _ = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, later);
    }

    /// Sets the clock to `at`, which may lie in its past.
    pub fn set(&self, at: Nanos) {
        // Release: a thread that reads the new time also sees what was done before the clock was set.
        self.0.store(at.get(), Ordering::Release);
    }
}

/// A clock, and whether and how the time that is shown differs from the clock's own.
pub(crate) struct PausableClock {
    clock: Clock,
    /// How often the clock was paused or resumed: odd while it is paused.
    changes: AtomicU32,
    line: Mutex<Line>,
}

/// The time shown, as a function of what the clock reads.
#[derive(Clone, Copy)]
enum Line {
    /// The time shown is what the clock reads.
    Real,
    /// The time shown does not change.
    Stands(Nanos),
    /// The time shown was `shown` when the clock read `real`, and goes on from there.
    Runs { real: Nanos, shown: Nanos },
}

impl Line {
    /// The time shown when the clock reads `real()`.
    fn at(self, real: impl FnOnce() -> Nanos) -> Nanos {
        match self {
            Line::Real => real(),
            Line::Stands(at) => at,
            Line::Runs { real: since, shown } => {
                shown.saturating_add(real().saturating_duration_since(since)).as_reading()
            }
        }
    }
}

impl PausableClock {
    /// Returns one that shows what `clock` reads.
    pub(crate) fn real(clock: Clock) -> PausableClock {
        PausableClock { clock, changes: AtomicU32::new(0), line: Mutex::new(Line::Real) }
    }

    /// Returns one that is paused at `at`.
    pub(crate) fn paused(clock: Clock, at: Nanos) -> PausableClock {
        PausableClock { clock, changes: AtomicU32::new(1), line: Mutex::new(Line::Stands(at)) }
    }

    /// The clock below.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    #[inline]
    pub(crate) fn changes(&self) -> u32 {
        // Relaxed: a pause on this thread is seen, and for other threads a reading that they
        // began a little earlier is as good. What is read because of this value is read under the lock.
        self.changes.load(Ordering::Relaxed)
    }

    /// The time shown.
    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        if self.changes() == 0 { self.clock.now() } else { self.now_by_the_line() }
    }

    #[cold]
    fn now_by_the_line(&self) -> Nanos {
        let line = *lock(&self.line);
        line.at(|| self.clock.now())
    }

    /// Arrow 1. Returns false, and changes nothing, if the clock is paused already. Time stops at `latest`, or at the time
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

    /// Arrow 2. Returns false, and changes nothing, if the clock is not paused.
    pub(crate) fn resume(&self) -> bool {
        let real = self.clock.now();
        let mut line = lock(&self.line);
        let Line::Stands(shown) = *line else { return false };
        *line = Line::Runs { real, shown };
        self.count(&line);
        true
    }

    /// Arrow 3. Returns false if the clock is not paused.
    pub(crate) fn advance_to(&self, at: Nanos) -> bool {
        let mut line = lock(&self.line);
        let Line::Stands(shown) = *line else { return false };
        *line = Line::Stands(shown.max(at).min(Nanos::LAST));
        true
    }

    /// Counts a change that was made under the lock. The count is even while the clock runs, odd while it is paused, and
    /// never zero again.
    fn count(&self, line: &Line) {
        let odd = u32::from(matches!(line, Line::Stands(_)));
        let next = self.changes().wrapping_add(1);
        let next = if next % 2 == odd { next } else { next.wrapping_add(1) };
        // Relaxed: see `changes`. After four thousand million changes the count starts anew at two or one, not at zero.
        self.changes.store(if next == 0 { 2 } else { next }, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn ns(n: u64) -> Nanos {
        Nanos::new(n)
    }

    #[test]
    fn no_clock_reads_never() {
        let test = TestClock::new(Nanos::NEVER);
        assert!(test.clock().now() < Nanos::NEVER);
        test.advance(Duration::MAX);
        assert!(test.clock().now() < Nanos::NEVER);
    }

    #[test]
    fn a_test_clock_shows_what_it_was_set_to() {
        let test = TestClock::new(Nanos::new(5));
        test.advance(Duration::from_nanos(7));
        assert_eq!((test.now(), test.clock().now()), (Nanos::new(12), Nanos::new(12)));
        test.set(Nanos::new(3));
        assert_eq!((test.now(), test.clock().now()), (Nanos::new(3), Nanos::new(3)));
        assert!(test.clock().is_test() && !Clock::monotonic().is_test());
    }

    #[test]
    fn what_two_threads_advance_a_test_clock_by_adds_up() {
        let steps = if cfg!(miri) { 200 } else { 200_000 };
        let test = TestClock::new(Nanos::ZERO);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..steps).for_each(|_| test.advance(Duration::from_nanos(1))));
            }
        });
        assert_eq!(test.now(), Nanos::new(2 * steps));
    }

    #[test]
    fn a_clock_from_a_function_shows_what_it_says_but_the_end_of_time() {
        static READING: AtomicU64 = AtomicU64::new(1_000);
        let clock = Clock::from_fn(|| Nanos::new(READING.load(Ordering::Relaxed)));
        assert_eq!(clock.now(), Nanos::new(1_000));
        READING.store(u64::MAX, Ordering::Relaxed);
        assert!(clock.now() < Nanos::NEVER);
        assert!(clock.origin().is_none() && !clock.is_test());
    }

    #[test]
    fn a_real_clock_counts_from_its_origin_and_does_not_go_back() {
        let clock = Clock::monotonic();
        let first = clock.now();
        assert!(first.as_duration() < Duration::from_secs(3600));
        assert!((0..1000).all(|_| clock.now() >= first));
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock.now() >= first.saturating_add(Duration::from_millis(2)));
        let origin = clock.origin().expect("a real clock has an origin");
        assert_eq!(since(origin + Duration::from_secs(1), origin), Nanos::ZERO);
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
