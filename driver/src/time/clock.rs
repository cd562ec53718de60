//! Where "now" comes from: the system's monotonic clock, another clock of the system, or one that a test sets.
//!
//! Ground rules:
//!
//! * No clock reads [`Nanos::NEVER`]: a timer that never comes due must not come due.
//! * A real clock does not go back. A test clock may, so that the driver's answer to it can be tested:
//!   nothing fires early, nothing is lost, and time goes on once it has caught up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Nanos;

/// A source of "now".
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
    /// Shows what the function says.
    Function(fn() -> Nanos),
    /// Shows what its [`TestClock`] was set to.
    Test(Arc<AtomicU64>),
}

impl Clock {
    /// The system's monotonic clock, counting from now on. On Linux it stands still while the machine is
    /// suspended.
    pub fn monotonic() -> Clock {
        Clock(Kind::Monotonic(Instant::now()))
    }

    /// A clock that shows what `read` says: for clocks of the system that std does not offer, such as Linux's
    /// `CLOCK_BOOTTIME`, which goes on while the machine is suspended. It should not go back.
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

    /// The current time. One reading of the system's clock; no system call on the usual platforms.
    #[inline]
    pub fn now(&self) -> Nanos {
        match &self.0 {
            Kind::Monotonic(origin) => since(*origin, Instant::now()),
            Kind::Function(read) => read().min(Nanos::LAST),
            Kind::Test(at) => shown(at),
        }
    }

    /// The instant at which a [monotonic](Clock::monotonic) clock began; `None` for others.
    pub fn origin(&self) -> Option<Instant> {
        match self.0 {
            Kind::Monotonic(origin) => Some(origin),
            Kind::Function(_) | Kind::Test(_) => None,
        }
    }

    /// Whether it is a [`TestClock`]'s, so that no wait brings its time nearer.
    #[inline]
    pub fn is_test(&self) -> bool {
        matches!(self.0, Kind::Test(_))
    }
}

fn since(origin: Instant, now: Instant) -> Nanos {
    Nanos::from_duration(now.saturating_duration_since(origin)).min(Nanos::LAST)
}

/// What a test clock was set to.
fn shown(at: &AtomicU64) -> Nanos {
    Nanos::new(at.load(Ordering::Acquire)).min(Nanos::LAST)
}

/// A clock that shows what it was set to: for tests and simulations.
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
    /// A clock that shows `at` until it is set.
    pub fn new(at: Nanos) -> TestClock {
        TestClock(Arc::new(AtomicU64::new(at.get())))
    }

    /// The face of this clock, to be given to a driver.
    pub fn clock(&self) -> Clock {
        Clock(Kind::Test(self.0.clone()))
    }

    /// What the clock shows.
    pub fn now(&self) -> Nanos {
        shown(&self.0)
    }

    /// Moves the clock forward by `duration`; it stops just before the end of time.
    pub fn advance(&self, duration: Duration) {
        self.set(self.now().saturating_add(duration));
    }

    /// Sets the clock to `at`, which may lie in its past.
    pub fn set(&self, at: Nanos) {
        // Release: who reads the new time also sees what was done before the clock was set.
        self.0.store(at.get(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
