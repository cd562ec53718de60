//! `Slack`: how late a wake-up may be, in one byte; [`policy`] says how much of it a timer gets.
//!
//! Ground rule: slack is rounded down, never up. A wake-up may come earlier than its slack allows, never later.

mod policy;

use std::fmt;
use std::time::Duration;

pub(crate) use policy::SlackPolicy;
pub use policy::Tolerance;

/// How long a park may outlast a deadline so that several end together: zero, or a length of time kept in
/// one byte, rounded down by less than a fifth.
///
/// ```
/// use std::time::Duration;
/// use mainspring_driver::wheel::Slack;
///
/// let slack = Slack::at_most(Duration::from_micros(100));
/// assert!(slack.as_duration() <= Duration::from_micros(100));
/// assert!(slack.as_duration() > Duration::from_micros(80));
/// assert_eq!(Slack::at_most(Duration::ZERO), Slack::ZERO);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Slack(u8);

impl Slack {
    /// No slack: the park ends at the deadline.
    pub const ZERO: Slack = Slack(0);

    /// The largest that there is.
    pub(crate) const MAX: Slack = Slack::at_most_nanos(u64::MAX);

    /// The largest slack that can be kept and is at most `duration`.
    #[inline]
    pub const fn at_most(duration: Duration) -> Slack {
        let nanos = duration.as_nanos();
        Slack::at_most_nanos(if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 })
    }

    /// The largest slack that can be kept and is at most `nanos` nanoseconds.
    #[inline]
    pub const fn at_most_nanos(nanos: u64) -> Slack {
        if nanos < 4 {
            return Slack(nanos as u8);
        }
        // A leading one, two further bits, and how far they are shifted: 4 to 7 times a power of two.
        let shift = nanos.ilog2() - 2;
        let lead = (nanos >> shift) as u8;
        Slack(shift as u8 * 4 + lead)
    }

    /// The slack kept in this byte.
    #[inline]
    pub(crate) const fn from_byte(byte: u8) -> Slack {
        Slack(byte)
    }

    /// The byte that keeps it.
    #[inline]
    pub(crate) const fn to_byte(self) -> u8 {
        self.0
    }

    /// The slack in nanoseconds.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        if self.0 < 4 {
            return self.0 as u64;
        }
        let shift = (self.0 - 4) / 4;
        let lead = 4 + (self.0 - 4) % 4;
        (lead as u64) << shift
    }

    /// The slack as a duration.
    pub const fn as_duration(self) -> Duration {
        Duration::from_nanos(self.as_nanos())
    }
}

impl fmt::Debug for Slack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ns", self.as_nanos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slack_is_never_rounded_up_and_little_down() {
        let mut last = Slack::ZERO;
        for shift in 0..64 {
            for low in 0..64u64 {
                let nanos = (1u64 << shift) + ((u128::from(low) << shift) >> 6) as u64;
                let slack = Slack::at_most_nanos(nanos);
                assert!(slack.as_nanos() <= nanos, "{nanos} became {slack:?}");
                assert!(nanos - slack.as_nanos() <= nanos / 5, "{nanos} became {slack:?}");
                assert!(slack.0 >= last.0, "not monotonic at {nanos}");
                assert_eq!(Slack::at_most_nanos(slack.as_nanos()), slack);
                last = slack;
            }
        }
        // Millennia do not become a short time.
        for long in [1 << 40, 1 << 50, u64::MAX / 2, u64::MAX].map(Duration::from_secs) {
            assert_eq!(Slack::at_most(long), Slack::at_most_nanos(u64::MAX), "{long:?}");
        }
        assert!(Slack::at_most_nanos(u64::MAX).0 < u8::MAX, "one byte is left for other uses");
    }
}
