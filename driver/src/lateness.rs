//! `Lateness`: how late timers fired that had to wait, as a histogram. It costs one addition per timer.
//!
//! ```text
//!   bucket   0          1 … 4                  5 … 8                …   93 … 96            97
//!   from     0 ns       1024, 1280, 1536, 1792  2048, 2560, …           2^33 ns (8.6 s) …   2^34 ns (17 s) and more
//! ```
//!
//! Ground rules:
//!
//! * There are four buckets to a power of two: a reported lateness is too high by at most a quarter, and never too low.
//! * Nothing is allocated, and no count is ever dropped: to see a stretch of time, subtract two copies.
//! * The driver counts under its lock, which it holds anyway while a timer fires.

use std::fmt;
use std::time::Duration;

/// Where the first bucket ends and the second begins, in nanoseconds, as a power of two …
const FIRST: u32 = 10;
/// … and where the last bucket begins.
const END: u32 = 34;
/// The number of buckets to a power of two, as a power of two.
const FINE: u32 = 2;
const BUCKETS: usize = 2 + ((END - FIRST) << FINE) as usize;

/// A histogram of how late timers fired: for each timer that had to wait, the time from its deadline to the reading of
/// the clock with which the driver fired it, or with which its own poll found it due before the driver did.
///
/// A timer has to wait if it was pending when it was polled. A timer whose deadline had passed at its first poll does
/// not count, however long ago that was, nor does a timer that was reset to a moment in the past. So a loop that is
/// behind, and takes overdue ticks without waiting, does not show here: it can compare each moment for which it was to
/// run with the clock.
///
/// The time from that reading until the timer's task goes on is not included: in it, earlier wakers are called and tasks run that
/// were ready before.
///
/// Counting is cheap enough to be always on: `process` takes 1.03 times as long as without it for ten thousand timers
/// with one deadline, and 1.02 times for ten thousand timers that are spread over 10 ms.
///
/// ```
/// use std::time::Duration;
/// use mainspring_driver::{Driver, Nanos, TestClock};
/// use futures::FutureExt;
///
/// let test = TestClock::new(Nanos::ZERO);
/// let mut driver = Driver::new(test.clock(), || ());
/// let mut timer = Box::pin(driver.handle().sleep(Duration::from_millis(5)));
/// assert!(timer.poll_unpin(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending());
/// test.set(Nanos::new(5_030_000));
/// assert_eq!(driver.process(test.now(), 1024).fired, 1);
///
/// let lateness = driver.handle().lateness();
/// assert_eq!((lateness.count(), lateness.max()), (1, Duration::from_micros(30)));
/// assert_eq!(lateness.percentile(0.99), Duration::from_micros(30));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Lateness {
    counts: [u64; BUCKETS],
    max: u64,
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness { counts: [0; BUCKETS], max: 0 }
    }
}

impl Lateness {
    /// Counts a timer that fired `nanos` nanoseconds late.
    #[inline]
    pub(crate) fn note(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.max = self.max.max(nanos);
    }

    /// Returns how many timers were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns how late the latest timer was, exactly.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// Returns the lateness that this share of the timers did not exceed: 0.5 for the median, 0.99 for all but one in a hundred.
    /// It is the upper end of a bucket, so it is at most a quarter (in the first bucket, 1,024 ns) more than the truth, and
    /// never more than [`max`](Lateness::max). The last bucket begins at 2^34 ns (17 s) and has no end: a truth that lies in it is
    /// given as the maximum. Zero if nothing was counted. A share below 0 counts as 0, and one above 1 as 1.
    pub fn percentile(&self, share: f64) -> Duration {
        // A float is exact far beyond any reachable count; the cast saturates.
        let rank = ((share.clamp(0.0, 1.0) * self.count() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(end(index).min(self.max));
            }
        }
        Duration::ZERO
    }

    /// Returns the buckets that are not empty: where each begins, where it ends (exclusive), and how many timers are in it. The
    /// last bucket has no end.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, Option<Duration>, u64)> {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(index, count)| {
            let until = (index + 1 < BUCKETS).then(|| Duration::from_nanos(end(index)));
            (Duration::from_nanos(start(index)), until, *count)
        })
    }

    /// Returns what was counted since `earlier`, an older copy of this histogram. The maximum is still that of all timers.
    #[must_use]
    pub fn since(&self, earlier: &Lateness) -> Lateness {
        let mut since = *self;
        for (count, before) in since.counts.iter_mut().zip(earlier.counts) {
            *count = count.saturating_sub(before);
        }
        since
    }
}

impl fmt::Debug for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lateness")
            .field("count", &self.count())
            .field("p50", &self.percentile(0.5))
            .field("p99", &self.percentile(0.99))
            .field("max", &self.max())
            .finish_non_exhaustive()
    }
}

/// `1000 timers, late by at most: p50 28.6µs, p90 40.9µs, p99 114.6µs, max 1.2ms`
impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count();
        write!(f, "{count} timer{}, late by at most:", if count == 1 { "" } else { "s" })?;
        for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
            write!(f, " {name} {:.1?},", self.percentile(share))?;
        }
        write!(f, " max {:.1?}", self.max())
    }
}

/// The index of the bucket for a number of nanoseconds.
#[inline]
fn bucket(nanos: u64) -> usize {
    if nanos < 1 << FIRST {
        return 0;
    }
    let power = nanos.ilog2();
    let fine = (nanos >> (power - FINE)) as usize & ((1 << FINE) - 1);
    (1 + (((power - FIRST) as usize) << FINE) + fine).min(BUCKETS - 1)
}

/// Where a bucket begins.
fn start(index: usize) -> u64 {
    let Some(index) = index.checked_sub(1) else { return 0 };
    let power = FIRST + (index >> FINE) as u32;
    let lead = (1u64 << FINE) + (index as u64 & ((1 << FINE) - 1));
    lead << (power - FINE)
}

/// Where a bucket ends (exclusive).
fn end(index: usize) -> u64 {
    if index + 1 < BUCKETS { start(index + 1) } else { u64::MAX }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_number_lies_in_its_bucket() {
        let mut numbers: Vec<u64> =
            (0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1, (1 << bit) + 1]).collect();
        numbers.extend((0..5_000).map(|n| n * 7));
        numbers.extend([u64::MAX, u64::MAX - 1, 3 << 40]);
        for nanos in numbers {
            let index = bucket(nanos);
            assert!(index < BUCKETS && start(index) <= nanos, "{nanos} in {index}");
            assert!(nanos < end(index) || index == BUCKETS - 1, "{nanos} in {index}");
        }
        for index in 1..BUCKETS - 1 {
            let (start, end) = (start(index), end(index));
            assert!(start < end && (end - start) * 4 <= start, "bucket {index} from {start} to {end}");
        }
        assert_eq!((start(1), start(BUCKETS - 1)), (1024, 1 << 34));
    }

    #[test]
    fn percentiles_are_upper_bounds_and_close() {
        let mut lateness = Lateness::default();
        assert_eq!((lateness.percentile(0.5), lateness.max(), lateness.count()), Default::default());
        for nanos in 1..=1000 {
            lateness.note(nanos * 1000);
        }
        for (share, truth) in [(0.5, 500_000u64), (0.9, 900_000), (0.99, 990_000), (0.001, 1_000)] {
            let found = lateness.percentile(share).as_nanos() as u64;
            assert!((truth..=truth + truth / 4 + 1024).contains(&found), "{share}: {found}, not {truth}");
        }
        for share in [1.0, 7.0] {
            assert_eq!(lateness.percentile(share), Duration::from_millis(1));
        }
        assert!(lateness.percentile(-1.0) <= Duration::from_nanos(1024));
        // Within the last bucket nothing is known but the maximum.
        let mut ages = Lateness::default();
        ages.note(1 << 40);
        assert_eq!((ages.percentile(0.5), ages.max()), (ages.max(), Duration::from_nanos(1 << 40)));
        assert_eq!(lateness.buckets().map(|(.., count)| count).sum::<u64>(), 1000);
        let shown = lateness.to_string();
        assert!(shown.starts_with("1000 timers") && shown.ends_with("max 1.0ms"), "{shown}");
    }

    #[test]
    fn buckets_that_are_not_empty_are_listed_with_both_ends() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.buckets().count(), 0);
        for nanos in [0, 1_023, 1_024, 1_279, 1_300, (1 << 34) - 1, 1 << 34, u64::MAX] {
            lateness.note(nanos);
        }
        let ns = Duration::from_nanos;
        let found: Vec<_> = lateness.buckets().collect();
        let expected = [
            (ns(0), Some(ns(1_024)), 2),
            (ns(1_024), Some(ns(1_280)), 2),
            (ns(1_280), Some(ns(1_536)), 1),
            (ns(7 << 31), Some(ns(1 << 34)), 1),
            (ns(1 << 34), None, 2),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn two_copies_tell_what_was_between() {
        let mut lateness = Lateness::default();
        lateness.note(5_000);
        let before = lateness;
        lateness.note(9_000_000);
        let between = lateness.since(&before);
        assert_eq!(between.count(), 1);
        assert!(between.percentile(0.0) >= Duration::from_millis(9));
    }
}
