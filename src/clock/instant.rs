//! `Instant`: a moment, in nanoseconds.
//!
//! Ground rules:
//!
//! * An instant counts nanoseconds from the first moment that this process asked for (its anchor), and may lie before
//!   it. 63 bits cover 292 years in each direction; moments beyond that saturate.
//! * Inside a runtime `now` reads that runtime's clock. As long as that is the system's monotonic clock, the moment and
//!   the count are the same as outside. If the runtime uses another clock, or its clock was stopped, its instants lie
//!   on a timeline of their own.
//! * Conversion to and from std's `Instant` is a sum of integers: std's count from the anchor, and how far the runtime's
//!   count is ahead of it. It reads no clock, unless the runtime uses a clock that counts suspensions.
//! * Runtimes' clocks count from the anchor too, so an instant and a driver's [`Nanos`] are the same number, and one
//!   becomes the other without arithmetic.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::{Duration, Instant as StdInstant};

use mainspring_driver::Nanos;

use super::system::{self, anchor};
use super::{RuntimeClock, rarely};

/// A moment, to the nanosecond. It is like [`std::time::Instant`], to and from which it converts, but small, and it
/// does not panic on overflow.
///
/// # On which timeline it lies
///
/// [`now`](Instant::now) reads the clock of the runtime that this thread is in; outside a runtime, it reads the system's
/// monotonic clock, which is std's. Mostly the two are the same. They differ if a runtime uses another
/// [`Clock`](crate::time::Clock), or if its time is or was [paused](crate::time::pause): then its instants lie on its own
/// timeline. If a runtime was paused from its beginning, that timeline is the same in each run. Comparing instants of two
/// timelines makes no sense, and nothing prevents it.
///
/// # Conversion to and from std
///
/// Conversion is exact, to the nanosecond and in both directions: a round trip returns the same moment, the order stays
/// the same, and two moments that are a second apart stay a second apart.
///
/// * Outside a runtime, and in a runtime that uses the system's monotonic clock and was never paused, instants of both
///   types are the same moment.
/// * In a runtime whose time is or was paused, the two timelines are tied together at the moment at which its time first became
///   virtual (by [`pause`](crate::time::pause), or when it was built), and nowhere else: advancing or resuming time does not
///   change that. With a [`TestClock`](crate::time::TestClock) it is the moment at which the test clock was made.
/// * In a runtime that uses [`Clock::Boottime`](crate::time::Clock::Boottime), std's clock stops while the machine is
///   suspended, and the runtime's goes on. Conversion accounts for the suspensions so far: a moment five minutes ahead of
///   std's clock is five minutes ahead of the runtime's, whatever happened before. So a round trip returns the same moment
///   unless the machine was suspended in between.
///
/// Under virtual time, therefore, get std's instants from the runtime, with `Instant::now().into_std()`.
/// [`std::time::Instant::now`] returns the system's time: once virtual time has been advanced by an hour, a minute after
/// that lies 59 minutes in the runtime's past. Libraries that count in std's instants mostly ask their timer for the
/// time (hyper's is `hyper::rt::Timer::now`): have it return the runtime's.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::{Instant, sleep, sleep_until};
///
/// let runtime = mainspring::Builder::new().start_paused(true).build()?;
/// runtime.block_on(async {
///     sleep(Duration::from_secs(3600)).await;
///     let start = Instant::now();
///     let deadline: std::time::Instant = start.into_std() + Duration::from_secs(60);
///     sleep_until(deadline.into()).await;
///     assert_eq!(start.elapsed(), Duration::from_secs(60));
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A moment that one type cannot express saturates: this type saturates 292 years from the first moment that the
/// process asked for, and std's at the first or last moment that it has on this platform (on Linux and macOS it has all
/// moments of this type).
///
/// # Beyond 292 years
///
/// A runtime's time may be advanced further than that, up to some 580 years. There [`now`](Instant::now) stays at the last
/// moment of this type, which as a deadline means never: what waits for a moment (`sleep_until`, `timeout_at`, `deadline`,
/// `sleep_until_wall`, further ticks of an interval, further items of a stream with a throttle or a timeout) waits for
/// ever. What waits for a length of time (`sleep`, `timeout`, a value that is inserted into a queue or a map to come out
/// after a duration) goes on.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::Instant;
///
/// let now = Instant::now();
/// let later = now + Duration::from_millis(5);
/// assert_eq!(later - now, Duration::from_millis(5));
/// assert_eq!(now - later, Duration::ZERO);
/// assert!(now + Duration::MAX > later);
/// assert_eq!(Instant::from_std(later.into_std()), later);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(i64);

impl Instant {
    /// Returns the current moment.
    #[inline]
    pub fn now() -> Instant {
        from_nanos(super::current(RuntimeClock::now).unwrap_or_else(system::now))
    }

    /// Converts a moment from std's type; see [above](Instant#conversion-to-and-from-std) for a runtime whose time is not
    /// the system's.
    pub fn from_std(std: StdInstant) -> Instant {
        let anchor = anchor();
        let signed = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
        let count = match std.checked_duration_since(anchor) {
            Some(after) => signed(after),
            None => -signed(anchor.saturating_duration_since(std)),
        };
        let count = count.saturating_add(ahead_of_std().into());
        Instant(count.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }

    /// Converts this moment to std's type; see [above](Instant#conversion-to-and-from-std) for a runtime whose time is
    /// not the system's.
    pub fn into_std(self) -> StdInstant {
        let ahead = ahead_of_std();
        let distance = self.0.abs_diff(ahead);
        if self.0 >= ahead {
            go(anchor(), distance, StdInstant::checked_add)
        } else {
            go(anchor(), distance, StdInstant::checked_sub)
        }
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }

    /// The time from `earlier` to this moment; `None` if `earlier` is later.
    #[inline]
    pub fn checked_duration_since(&self, earlier: Instant) -> Option<Duration> {
        (*self >= earlier).then(|| Duration::from_nanos(self.0.abs_diff(earlier.0)))
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    #[inline]
    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.checked_duration_since(earlier).unwrap_or_default()
    }

    /// The time since this moment; zero if it lies ahead.
    #[inline]
    pub fn elapsed(&self) -> Duration {
        Instant::now() - *self
    }

    /// The moment `duration` later. `None` if that moment lies more than 292 years from the first moment that the process
    /// asked for.
    pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        self.0.checked_add_unsigned(nanos).map(Instant)
    }

    /// The moment `duration` earlier. `None` if that moment lies more than 292 years from the first moment that the process
    /// asked for.
    pub fn checked_sub(&self, duration: Duration) -> Option<Instant> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        self.0.checked_sub_unsigned(nanos).map(Instant)
    }
}

/// By how many nanoseconds the instants of the runtime that this thread is in are ahead of std's.
pub(super) fn ahead_of_std() -> i64 {
    super::current(RuntimeClock::ahead_of_std).unwrap_or(0)
}

/// Goes `distance` nanoseconds from `start`, or as far as `step` can.
pub(super) fn go<T: Copy>(start: T, distance: u64, step: fn(&T, Duration) -> Option<T>) -> T {
    if let Some(there) = step(&start, Duration::from_nanos(distance)) {
        return there;
    }
    // By halves: if one step is too far, the next one, half as long, is tried.
    let try_half = |at: T, bit: u32| step(&at, Duration::from_nanos(1 << bit)).unwrap_or(at);
    (0..u64::BITS).rev().fold(start, try_half)
}

/// The moment that a runtime's clock shows as `at`; the end of time becomes the end of time.
#[inline]
pub(crate) fn from_nanos(at: Nanos) -> Instant {
    Instant(i64::try_from(at.get()).unwrap_or_else(|_| rarely(i64::MAX)))
}

/// What a runtime's clock shows at `instant`. A moment before the anchor becomes the anchor, and the last instant of
/// all becomes "never".
#[inline]
pub(crate) fn to_nanos(instant: Instant) -> Nanos {
    match u64::try_from(instant.0) {
        Ok(nanos) if instant.0 < i64::MAX => Nanos::new(nanos),
        Ok(_) => rarely(Nanos::NEVER),
        Err(_) => rarely(Nanos::ZERO),
    }
}

/// The nanoseconds in `duration`, at most 2^64 - 1: no two instants are further apart, so a sum with that saturates as a sum
/// with any longer duration does.
#[inline]
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or_else(|_| rarely(u64::MAX))
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "Instant({sign}{:?})", Duration::from_nanos(self.0.unsigned_abs()))
    }
}

impl From<StdInstant> for Instant {
    fn from(std: StdInstant) -> Instant {
        Instant::from_std(std)
    }
}

impl From<Instant> for StdInstant {
    fn from(instant: Instant) -> StdInstant {
        instant.into_std()
    }
}

/// Saturates 292 years from the first moment that the process asked for.
impl Add<Duration> for Instant {
    type Output = Instant;
    #[inline]
    fn add(self, duration: Duration) -> Instant {
        Instant(self.0.checked_add_unsigned(nanos(duration)).unwrap_or_else(|| rarely(i64::MAX)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

/// Saturates 292 years from the first moment that the process asked for.
impl Sub<Duration> for Instant {
    type Output = Instant;
    #[inline]
    fn sub(self, duration: Duration) -> Instant {
        Instant(self.0.checked_sub_unsigned(nanos(duration)).unwrap_or_else(|| rarely(i64::MIN)))
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

/// Zero if the other instant is later.
impl Sub for Instant {
    type Output = Duration;
    #[inline]
    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_saturate() {
        let now = Instant::now();
        for far in [Duration::MAX, Duration::from_millis(u64::MAX), Duration::from_millis(i64::MAX as u64)] {
            assert_eq!(now + far, Instant(i64::MAX));
            assert_eq!(now - far, Instant(i64::MIN));
            assert_eq!(now + far - far, Instant(i64::MIN), "the end of time less for ever");
            assert_eq!(now.checked_add(far), None);
        }
        let mut at = Instant(i64::MAX) - Duration::from_nanos(1);
        at += Duration::from_secs(1);
        assert_eq!(at, Instant(i64::MAX));
        at -= Duration::MAX;
        assert_eq!(at, Instant(i64::MIN));
        assert_eq!(Instant(i64::MAX) - Instant(i64::MIN), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn the_distance_of_two_moments_leads_from_one_to_the_other() {
        let moments = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX].map(Instant);
        for (n, &early) in moments.iter().enumerate() {
            for &late in &moments[n..] {
                assert_eq!((early + (late - early), late - (late - early)), (late, early));
                assert_eq!(early.checked_add(late - early), Some(late));
                assert_eq!(late.checked_sub(late - early), Some(early));
            }
        }
        assert_eq!(Instant(1).checked_add(Duration::from_nanos(i64::MAX as u64)), None);
        assert_eq!(Instant(-2).checked_sub(Duration::from_nanos(i64::MAX as u64)), None);
    }

    #[test]
    fn std_and_back_is_the_same_moment() {
        let std = StdInstant::now();
        let before = std.checked_sub(Duration::from_secs(60)).unwrap_or(std);
        for std in [std, before, std + Duration::from_secs(86_400 * 365 * 100)] {
            assert_eq!(Instant::from_std(std).into_std(), std);
        }
        // If std's type has room for them, the first and last moments of this type are exact, too.
        let edges = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX].map(Instant);
        let there = edges.map(Instant::into_std);
        assert!(there.is_sorted());
        if cfg!(any(target_os = "linux", target_os = "macos")) {
            assert_eq!(there.map(Instant::from_std), edges);
        }
    }

    #[test]
    fn what_std_cannot_express_becomes_its_first_or_last_moment() {
        let down = |at: &u64, by: Duration| at.checked_sub(by.as_nanos() as u64).filter(|at| *at >= 1_000);
        assert_eq!(go(5_000, 4_000, down), 1_000);
        assert_eq!(go(5_000, 4_001, down), 1_000);
        assert_eq!(go(5_000, u64::MAX, down), 1_000);
        let up = |at: &u64, by: Duration| at.checked_add(by.as_nanos() as u64);
        assert_eq!(go(5_000, u64::MAX, up), u64::MAX);
        assert_eq!(go(5_000, 7, up), 5_007);
    }

    #[test]
    fn a_runtimes_clock_and_the_process_agree() {
        let inside = || crate::block_on(async { Instant::now() });
        let (before, within, after) = (Instant::now(), inside(), Instant::now());
        assert!(before <= within && within <= after, "{before:?} {within:?} {after:?}");
        assert_eq!(from_nanos(to_nanos(within)), within);
        assert_eq!(to_nanos(Instant(i64::MAX)), Nanos::NEVER);
        assert_eq!(from_nanos(Nanos::NEVER), Instant(i64::MAX));
        assert_eq!(to_nanos(Instant(i64::MIN)), Nanos::ZERO);
    }
}
