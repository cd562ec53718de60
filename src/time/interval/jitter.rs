//! Jitter: how much each tick is put off, at random.
//!
//! Ground rules:
//!
//! * A delay is drawn once per tick, when the tick is scheduled, and evenly from zero to the most, both
//!   included.
//! * An interval without a seed of its own asks the runtime in which it draws first for one.

use std::time::Duration;

use crate::runtime::random::{self, SplitMix64};
use crate::runtime::{Handle, context};

/// Draws the delays of an interval's ticks. By default there is none.
#[derive(Clone, Debug, Default)]
pub(super) struct Jitter {
    most: Duration,
    /// The delay of the next tick.
    drawn: Duration,
    /// Begun with the first draw, if it was given no seed.
    random: Option<SplitMix64>,
}

impl Jitter {
    pub(super) fn most(&self) -> Duration {
        self.most
    }

    pub(super) fn set_most(&mut self, most: Duration) {
        self.most = most;
    }

    /// Begins anew, with a sequence that `seed` determines.
    pub(super) fn set_seed(&mut self, seed: u64) {
        self.random = Some(SplitMix64::new(seed));
    }

    /// The delay that was drawn last.
    pub(super) fn drawn(&self) -> Duration {
        self.drawn
    }

    /// Draws the delay of the next tick.
    pub(super) fn draw(&mut self) -> Duration {
        let random = self.random.get_or_insert_with(|| {
            // Outside a runtime nobody wants two runs to be the same.
            SplitMix64::new(context::with(Handle::seed).unwrap_or_else(|_| random::by_chance()))
        });
        // What 64 bits of nanoseconds cannot hold is longer than any interval lives.
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
        // Each is about ten thousand; with this seed the same ones each time.
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
