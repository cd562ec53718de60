//! What moves a tick from its schedule: the choice of what happens to ticks that were not taken in time, and jitter, which
//! delays each tick at random.
//!
//! Ground rules:
//!
//! * [`MissedTickBehavior`] is pure: it is told when the tick was scheduled and when it was due, and asks for the current
//!   time only if that matters.
//! * Lateness is counted from when the tick was due. Without jitter that is when it was scheduled; with jitter, the delay that
//!   was drawn is not lateness.
//! * A delay is drawn once per tick, when the tick is scheduled, uniformly from zero to the maximum, both included.
//! * An interval without a seed of its own gets one from the runtime in which it first draws.

use std::time::Duration;

use super::super::instant::Instant;
use crate::runtime::random::{self, SplitMix64};
use crate::runtime::{Handle, context};

/// How late a tick may be before [`MissedTickBehavior::Delay`] considers it missed, unless the period is shorter.
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
    /// Goes on from now: the next tick is a period after the late one was taken. A tick that is late by no more than
    /// the smaller of 5 ms and the period counts as being in time, and keeps the schedule.
    Delay,
    /// Leaves them out: the next tick is the next one on schedule.
    Skip,
}

impl MissedTickBehavior {
    /// The start of the period that ends with the next tick. The current tick was scheduled for `scheduled`, was due at
    /// `due`, and is being taken at `now()`.
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

/// The part of `time` that whole periods fill.
pub(super) fn whole_periods(time: Duration, period: Duration) -> Duration {
    let nanos = time.as_nanos();
    // Two instants are less than 2^64 ns apart, so the difference fits.
    Duration::from_nanos(u64::try_from(nanos - nanos % period.as_nanos()).unwrap_or(0))
}

/// Draws the delays of an interval's ticks. By default there is no delay.
#[derive(Clone, Debug, Default)]
pub(super) struct Jitter {
    most: Duration,
    /// The delay of the next tick.
    drawn: Duration,
    /// When the last tick was due. The next one, whose delay may be much shorter, is not due before that.
    last_due: Option<Instant>,
    /// Made at the first draw, if no seed was set.
    random: Option<SplitMix64>,
}

impl Jitter {
    pub(super) fn most(&self) -> Duration {
        self.most
    }

    pub(super) fn set_most(&mut self, most: Duration) {
        self.most = most;
    }

    /// Starts a new sequence, which `seed` determines.
    pub(super) fn set_seed(&mut self, seed: u64) {
        self.random = Some(SplitMix64::new(seed));
    }

    /// When the tick that is being taken was due, if it was scheduled for `scheduled`.
    pub(super) fn due(&mut self, scheduled: Instant) -> Instant {
        let due = scheduled + self.drawn;
        let due = self.last_due.map_or(due, |last| last.max(due));
        self.last_due = Some(due);
        due
    }

    /// The next tick may be due before the last one was.
    pub(super) fn forget_last(&mut self) {
        self.last_due = None;
    }

    /// The delay that was drawn last.
    #[cfg(test)]
    pub(super) fn drawn(&self) -> Duration {
        self.drawn
    }

    /// Draws the delay of the next tick.
    pub(super) fn draw(&mut self) -> Duration {
        let random = self.random.get_or_insert_with(|| {
            // Outside a runtime, two runs need not be the same.
            SplitMix64::new(context::with(Handle::seed).unwrap_or_else(|_| random::by_chance()))
        });
        // A time that 64 bits of nanoseconds cannot hold is longer than any interval lives.
        let most = u64::try_from(self.most.as_nanos()).unwrap_or(u64::MAX);
        // The upper half of the product is evenly spread over 0..=most, as nearly as 64 bits allow.
        let scaled = u128::from(random.next()) * (u128::from(most) + 1);
        self.drawn = Duration::from_nanos((scaled >> 64) as u64);
        self.drawn
    }
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

    fn seeded(seed: u64, most: Duration) -> Jitter {
        Jitter { most, random: Some(SplitMix64::new(seed)), ..Jitter::default() }
    }

    #[test]
    fn delays_fill_their_range_evenly_and_stay_in_it() {
        let most = Duration::from_nanos(9);
        let mut jitter = seeded(1, most);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[jitter.draw().as_nanos() as usize] += 1;
        }
        // Each count is about ten thousand; with this seed the counts are the same each time.
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_edges_of_the_range_are_legal() {
        assert_eq!(seeded(7, Duration::ZERO).draw(), Duration::ZERO);
        let mut jitter = seeded(7, Duration::MAX);
        assert!((0..100).any(|_| jitter.draw() > Duration::from_secs(1 << 33)));
        let mut jitter = seeded(7, Duration::from_nanos(1));
        let drawn: Vec<_> = (0..100).map(|_| jitter.draw().as_nanos()).collect();
        assert!(drawn.contains(&0) && drawn.contains(&1) && drawn.iter().all(|&n| n <= 1));
    }

    #[test]
    fn without_a_seed_and_a_runtime_no_two_are_alike() {
        let [mut first, mut second] = [0; 2].map(|_| Jitter { most: Duration::MAX, ..Jitter::default() });
        assert_ne!(first.draw(), second.draw());
    }
}
