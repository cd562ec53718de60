//! `Instant`: a moment, in nanoseconds.
//!
//! Ground rules:
//!
//! * An instant counts nanoseconds from the first moment that this process asked for (its anchor), and may
//!   lie before it. 63 bits are 292 years to either side; what lies beyond saturates.
//! * Inside a runtime `now` reads that runtime's clock. As long as that is the system's monotonic clock it is the
//!   same moment by the same count. Where it is another, or was stopped, its instants lie on a timeline of its own;
//!   only conversion to and from std's leads from one to the other.
//! * Runtimes' clocks count from the anchor too, so an instant and a driver's [`Nanos`] are the same number, and
//!   nothing is computed to get from one to the other.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::{Duration, Instant as StdInstant};

use mainspring_driver::Nanos;

use crate::runtime::{self, Handle, anchor, context};

/// A moment, to the nanosecond: as [`std::time::Instant`], which it converts to and from, but small, and
/// without panics on overflow.
///
/// # On which timeline it lies
///
/// [`now`](Instant::now) reads the clock of the runtime that this thread is in, and outside one the system's monotonic
/// clock, the one of std. Mostly these are the same. They part where a runtime goes by another
/// [`Clock`](super::Clock), or its time is or was [paused](super::pause): then its instants lie on its own timeline,
/// which for one that was paused from its beginning is the same in each run. To compare an instant of one timeline with
/// one of another makes no sense, and nothing keeps you from it.
///
/// Conversion to and from std's `Instant`, made inside such a runtime, goes by how far its time and the system's are
/// apart at that moment: what lies five minutes ahead of the one now lies five minutes ahead of the other's. So there
/// and back is the same moment only while both run alike. Everywhere else it is exact.
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
    /// The current moment.
    #[inline]
    pub fn now() -> Instant {
        // Read first, so that the clock does not wait for the way to the runtime to be found.
        let now = runtime::now();
        from_nanos(context::with(|handle| handle.now_is(now)).unwrap_or(now))
    }

    /// The same moment as std has it; see [above](Instant#on-which-timeline-it-lies) for a runtime whose time is not
    /// the system's.
    pub fn from_std(std: StdInstant) -> Instant {
        match apart() {
            None => Instant::of_the_system(std),
            Some((now, real)) => {
                // One of the two is zero.
                now + std.saturating_duration_since(real) - real.saturating_duration_since(std)
            }
        }
    }

    /// The same moment for std; see [above](Instant#on-which-timeline-it-lies) for a runtime whose time is not the
    /// system's. One that lies before what std can express becomes the earliest moment that this process knows of.
    pub fn into_std(self) -> StdInstant {
        match apart() {
            None => self.into_the_system(),
            Some((now, real)) => {
                let std =
                    if self >= now { real.checked_add(self - now) } else { real.checked_sub(now - self) };
                std.unwrap_or_else(anchor)
            }
        }
    }

    /// The moment of std on the system's timeline.
    fn of_the_system(std: StdInstant) -> Instant {
        let anchor = anchor();
        match std.checked_duration_since(anchor) {
            Some(after) => Instant(nanos(after)),
            None => Instant(-nanos(anchor.saturating_duration_since(std))),
        }
    }

    /// A moment on the system's timeline for std.
    fn into_the_system(self) -> StdInstant {
        let anchor = anchor();
        let distance = Duration::from_nanos(self.0.unsigned_abs());
        let std = if self.0 >= 0 { anchor.checked_add(distance) } else { anchor.checked_sub(distance) };
        std.unwrap_or(anchor)
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

    /// The moment `duration` later; `None` if that is more than 292 years from here.
    pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
        let nanos = i64::try_from(duration.as_nanos()).ok()?;
        self.0.checked_add(nanos).map(Instant)
    }

    /// The moment `duration` earlier; `None` if that is more than 292 years from here.
    pub fn checked_sub(&self, duration: Duration) -> Option<Instant> {
        let nanos = i64::try_from(duration.as_nanos()).ok()?;
        self.0.checked_sub(nanos).map(Instant)
    }
}

/// Now, by the runtime that this thread is in and by the system; `None` if these are the same, or there is no runtime.
fn apart() -> Option<(Instant, StdInstant)> {
    let of_runtime = |handle: &Handle| {
        (!handle.goes_by_the_system()).then(|| (from_nanos(handle.timers().now()), StdInstant::now()))
    };
    context::with(of_runtime).ok().flatten()
}

/// The moment that a runtime's clock shows as `at`; the end of time stays the end of time.
#[inline]
pub(crate) fn from_nanos(at: Nanos) -> Instant {
    Instant(i64::try_from(at.get()).unwrap_or(i64::MAX))
}

/// What a runtime's clock shows at `instant`; a moment before the anchor is the first, and the last instant
/// of all never comes.
#[inline]
pub(super) fn to_nanos(instant: Instant) -> Nanos {
    if instant.0 == i64::MAX {
        return Nanos::NEVER;
    }
    Nanos::new(instant.0.max(0).unsigned_abs())
}

#[inline]
fn nanos(duration: Duration) -> i64 {
    from_nanos(Nanos::from_duration(duration)).0
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

/// Saturates 292 years from here.
impl Add<Duration> for Instant {
    type Output = Instant;
    #[inline]
    fn add(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_add(nanos(duration)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

/// Saturates 292 years from here.
impl Sub<Duration> for Instant {
    type Output = Instant;
    #[inline]
    fn sub(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_sub(nanos(duration)))
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

/// Zero if the other one is later.
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
            assert_eq!(now - far - far, Instant(i64::MIN));
            assert_eq!(now.checked_add(far), None);
        }
        let mut at = Instant(i64::MAX) - Duration::from_nanos(1);
        at += Duration::from_secs(1);
        assert_eq!(at, Instant(i64::MAX));
        at -= Duration::MAX;
        assert_eq!(at, Instant(0));
        assert_eq!(Instant(i64::MAX) - Instant(i64::MIN), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn std_and_back_is_the_same_moment() {
        let std = StdInstant::now();
        let before = std.checked_sub(Duration::from_secs(60)).unwrap_or(std);
        for std in [std, before, std + Duration::from_secs(86_400 * 365 * 100)] {
            assert_eq!(Instant::from_std(std).into_std(), std);
        }
        let _ = Instant(i64::MIN).into_std();
        let _ = Instant(i64::MAX).into_std();
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
