//! What becomes of ticks that were not taken in time.
//!
//! Ground rules:
//!
//! * Pure: it is told when the tick was scheduled, when it was due, and asks for the time only if it matters.
//! * Lateness is counted from when the tick was due. Without jitter that is when it was scheduled; with it,
//!   the delay that was asked for is not lateness.

use std::time::Duration;

use super::super::instant::Instant;

/// How late a tick may be before [`MissedTickBehavior::Delay`] takes it for missed, unless the period is
/// shorter.
const DELAY_GRACE: Duration = Duration::from_millis(5);

/// What an [`Interval`](super::Interval) does about ticks that were not taken in time.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::{Instant, MissedTickBehavior, interval_at};
///
/// mainspring::block_on(async {
///     let (start, period) = (Instant::now() - Duration::from_millis(95), Duration::from_millis(10));
///     let mut ticks = interval_at(start, period);
///     ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
///     assert_eq!(ticks.tick().await, start);
///     // Nine are missed: the next one lies ahead.
///     assert!(ticks.tick().await >= start + 10 * period);
/// });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissedTickBehavior {
    /// Makes up for them: ticks without a pause until none is missing, then on schedule. The default.
    #[default]
    Burst,
    /// Ticks on from now: the next tick is a period after the late one was taken. A tick that is no later than
    /// the smaller of 5 ms and the period counts as in time, and keeps the schedule.
    Delay,
    /// Leaves them out: the next tick is the next one on schedule.
    Skip,
}

impl MissedTickBehavior {
    /// From when the period counts that ends with the next tick, after the tick of `scheduled`, which was due
    /// at `due` and is being taken at `now()`.
    pub(super) fn base(
        self,
        scheduled: Instant,
        due: Instant,
        now: impl FnOnce() -> Instant,
        period: Duration,
    ) -> Instant {
        match self {
            MissedTickBehavior::Burst => scheduled,
            MissedTickBehavior::Delay => {
                let now = now();
                let late = now - due > DELAY_GRACE.min(period);
                if late { now } else { scheduled }
            }
            MissedTickBehavior::Skip => scheduled + whole_periods(now() - due, period),
        }
    }
}

/// As much of `time` as whole periods fill.
pub(super) fn whole_periods(time: Duration, period: Duration) -> Duration {
    let nanos = time.as_nanos();
    // Neither is longer than 292 years of nanoseconds, or it is less than a period.
    Duration::from_nanos(u64::try_from(nanos - nanos % period.as_nanos()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn whole_periods_leave_the_remainder_out() {
        assert_eq!(whole_periods(MS * 35, MS * 10), MS * 30);
        assert_eq!(whole_periods(MS * 30, MS * 10), MS * 30);
        assert_eq!(whole_periods(MS * 9, MS * 10), Duration::ZERO);
        assert_eq!(whole_periods(MS * 9, Duration::MAX), Duration::ZERO);
    }

    #[test]
    fn lateness_counts_from_when_the_tick_was_due() {
        let start = Instant::now();
        let at = |n: u32| start + MS * n;
        let base = |behavior: MissedTickBehavior, now| behavior.base(at(0), at(8), || at(now), MS * 10);
        for now in [8, 10, 13] {
            assert_eq!(base(MissedTickBehavior::Delay, now), at(0), "delayed on purpose, not late");
            assert_eq!(base(MissedTickBehavior::Skip, now), at(0));
        }
        assert_eq!(base(MissedTickBehavior::Delay, 14), at(14));
        assert_eq!(base(MissedTickBehavior::Skip, 17), at(0));
        assert_eq!(base(MissedTickBehavior::Skip, 18), at(10));
        assert_eq!(base(MissedTickBehavior::Burst, 99), at(0));
    }
}
