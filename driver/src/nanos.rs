//! `Nanos`: a point on a driver's timeline, in nanoseconds since the driver's clock began.
//!
//! Ground rules:
//!
//! * Conversion and saturation are implemented only here: every `Duration` is legal, nothing panics.
//! * No `Nanos` is larger than [`Nanos::NEVER`]. The values above it belong to a timer's state: its word is either a
//!   deadline or one of these values, so a deadline can never be mistaken for a state.
//! * Saturation is behind a branch that is hardly ever taken ([`rarely`]): a deadline is computed from a reading of the
//!   clock, and the next reading waits for it. A branch is predicted; the minimum of two numbers is not known before both are.
//! * A clock never reads `NEVER`, only up to [`Nanos::LAST`], so a timer set to `NEVER` stays pending forever.

use core::fmt;
use core::time::Duration;

/// A point in time: nanoseconds since the driver's clock began.
///
/// 64 bits of nanoseconds are 584 years; any later time is [`Nanos::NEVER`].
///
/// ```
/// use std::time::Duration;
/// use mainspring_driver::Nanos;
///
/// let start = Nanos::new(1_000);
/// let later = start.saturating_add(Duration::from_micros(3));
/// assert_eq!(later, Nanos::new(4_000));
/// assert_eq!(later.saturating_duration_since(start), Duration::from_micros(3));
/// assert_eq!(start.saturating_add(Duration::MAX), Nanos::NEVER);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(u64);

const NANOS_PER_SEC: u64 = 1_000_000_000;

impl Nanos {
    /// The moment the clock began.
    pub const ZERO: Nanos = Nanos(0);

    /// The end of time: a deadline that never comes. Seven values are left above it, for a timer's states.
    pub const NEVER: Nanos = Nanos(u64::MAX - 7);

    /// The latest time that a clock can read: just before [`Nanos::NEVER`].
    pub const LAST: Nanos = Nanos(Nanos::NEVER.0 - 1);

    /// The point `nanos` nanoseconds after the clock began; anything beyond [`Nanos::NEVER`] becomes `NEVER`.
    #[inline]
    pub const fn new(nanos: u64) -> Nanos {
        if nanos > Nanos::NEVER.0 { rarely(Nanos::NEVER) } else { Nanos(nanos) }
    }

    /// The point for which [`get`](Nanos::get) returned this number.
    #[inline]
    pub(crate) fn from_word(word: u64) -> Nanos {
        debug_assert!(word <= Nanos::NEVER.0, "no point has this number");
        Nanos(word)
    }

    /// The number of nanoseconds since the clock began.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The point `duration` after the clock began, or [`Nanos::NEVER`] if that is too far.
    #[inline]
    pub const fn from_duration(duration: Duration) -> Nanos {
        Nanos::new(whole_nanos(duration))
    }

    /// The time since the clock began.
    #[inline]
    pub const fn as_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// The point `duration` later, or [`Nanos::NEVER`] if that is too far.
    #[inline]
    pub const fn saturating_add(self, duration: Duration) -> Nanos {
        self.saturating_add_nanos(whole_nanos(duration))
    }

    /// The point `nanos` nanoseconds later, or [`Nanos::NEVER`] if that is too far.
    #[inline]
    pub const fn saturating_add_nanos(self, nanos: u64) -> Nanos {
        match self.0.checked_add(nanos) {
            Some(nanos) => Nanos::new(nanos),
            None => rarely(Nanos::NEVER),
        }
    }

    /// The point `slack` nanoseconds later, for a park that is to end there; or the last that a clock reads, if that is earlier: a park
    /// until [`Nanos::NEVER`] has no end. `NEVER` stays `NEVER`.
    #[inline]
    pub(crate) const fn latest_wake(self, slack: u64) -> Nanos {
        match self.0.checked_add(slack) {
            Some(nanos) if nanos <= Nanos::LAST.0 => Nanos(nanos),
            _ if self.0 > Nanos::LAST.0 => rarely(Nanos::NEVER),
            _ => rarely(Nanos::LAST),
        }
    }

    /// This point, or [`Nanos::LAST`] if it is `NEVER`: the reading of a clock.
    #[inline]
    pub(crate) const fn as_reading(self) -> Nanos {
        if self.0 > Nanos::LAST.0 { rarely(Nanos::LAST) } else { self }
    }

    /// The time from `earlier` to `self`; zero if `earlier` is not earlier.
    #[inline]
    pub const fn saturating_duration_since(self, earlier: Nanos) -> Duration {
        Duration::from_nanos(self.saturating_nanos_since(earlier))
    }

    /// The nanoseconds from `earlier` to `self`; zero if `earlier` is not earlier.
    #[inline]
    pub const fn saturating_nanos_since(self, earlier: Nanos) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Nanos::NEVER { f.write_str("never") } else { write!(f, "{}ns", self.0) }
    }
}

/// The nanoseconds in `duration`, saturating.
#[inline]
const fn whole_nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(NANOS_PER_SEC).saturating_add(duration.subsec_nanos() as u64)
}

/// Returns the value. A call of this marks a condition as rarely true: the compiler emits a branch for it.
#[cold]
const fn rarely<T: Copy>(value: T) -> T {
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_constructor_reaches_the_states() {
        for far in [u64::MAX, u64::MAX - 1, u64::MAX - 2, u64::MAX - 3, u64::MAX - 7] {
            assert_eq!(Nanos::new(far), Nanos::NEVER);
            assert_eq!(Nanos::new(1).saturating_add(Duration::from_nanos(far)), Nanos::NEVER);
            assert_eq!(Nanos::from_duration(Duration::from_nanos(far)), Nanos::NEVER);
        }
        assert_eq!(Nanos::new(u64::MAX - 8).get(), u64::MAX - 8);
        assert_eq!(Nanos::from_duration(Duration::MAX), Nanos::NEVER);
        assert_eq!(Nanos::NEVER.saturating_add(Duration::from_nanos(1)), Nanos::NEVER);
    }

    #[test]
    fn durations_are_exact_to_the_nanosecond() {
        let d = Duration::new(3, 141_592_653);
        assert_eq!(Nanos::from_duration(d).get(), 3_141_592_653);
        assert_eq!(Nanos::from_duration(d).as_duration(), d);
        assert_eq!(Nanos::new(7).saturating_duration_since(Nanos::new(9)), Duration::ZERO);
        assert_eq!(Nanos::new(9).saturating_nanos_since(Nanos::new(7)), 2);
        assert_eq!(Nanos::new(9).saturating_add_nanos(7), Nanos::new(16));
        assert_eq!(Nanos::new(9).saturating_add_nanos(u64::MAX), Nanos::NEVER);
        assert_eq!(Nanos::new(9).latest_wake(7), Nanos::new(16));
        for slack in [1, 2, 1 << 63, u64::MAX] {
            assert_eq!(Nanos::LAST.latest_wake(slack), Nanos::LAST, "{slack}");
            assert_eq!(Nanos::NEVER.latest_wake(slack), Nanos::NEVER, "{slack}");
        }
        assert!(Nanos::LAST < Nanos::NEVER && Nanos::LAST.saturating_add_nanos(1) == Nanos::NEVER);
    }
}
