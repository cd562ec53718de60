//! Jitter: how much each tick is put off, at random.
//!
//! The generator is SplitMix64 (Steele, Lea and Flood, 2014): a counter and a mixing function. It is not for
//! secrets; it spreads ticks evenly, takes eight bytes and a few nanoseconds, and one seed gives one sequence.
//!
//! Ground rules:
//!
//! * A delay is drawn once per tick, when the tick is scheduled, and evenly from zero to the most, both
//!   included.
//! * Without a seed of its own each interval begins somewhere else, also in another process: many servers
//!   that were started by one signal do not stay in step.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Draws the delays of an interval's ticks.
#[derive(Clone, Debug)]
pub(super) struct Jitter {
    most: Duration,
    /// The delay of the next tick.
    drawn: Duration,
    random: SplitMix64,
}

impl Jitter {
    /// Up to `most`, in an order that nobody can foretell.
    pub(super) fn new(most: Duration) -> Jitter {
        // The standard library's hash maps draw their keys from the system; so does this.
        Jitter { most, drawn: Duration::ZERO, random: SplitMix64(RandomState::new().build_hasher().finish()) }
    }

    /// No delay yet, and a sequence that `seed` determines.
    pub(super) fn seeded(seed: u64) -> Jitter {
        Jitter { most: Duration::ZERO, drawn: Duration::ZERO, random: SplitMix64(seed) }
    }

    pub(super) fn most(&self) -> Duration {
        self.most
    }

    pub(super) fn set_most(&mut self, most: Duration) {
        self.most = most;
    }

    /// The delay that was drawn last.
    pub(super) fn drawn(&self) -> Duration {
        self.drawn
    }

    /// Draws the delay of the next tick.
    pub(super) fn draw(&mut self) -> Duration {
        // What 64 bits of nanoseconds cannot hold is longer than any interval lives.
        let most = u64::try_from(self.most.as_nanos()).unwrap_or(u64::MAX);
        // The upper half of the product is evenly spread over 0..=most, as nearly as 64 bits allow.
        let scaled = u128::from(self.random.next()) * (u128::from(most) + 1);
        self.drawn = Duration::from_nanos((scaled >> 64) as u64);
        self.drawn
    }
}

#[derive(Clone, Debug)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeded(seed: u64, most: Duration) -> Jitter {
        let mut jitter = Jitter::seeded(seed);
        jitter.set_most(most);
        jitter
    }

    /// The first outputs for the seed 1234567, as published with other implementations of the generator.
    #[test]
    fn the_generator_is_the_published_one() {
        let mut random = SplitMix64(1_234_567);
        let known = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(known.map(|_| random.next()), known);
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
    fn without_a_seed_no_two_are_alike() {
        let mut first = Jitter::new(Duration::MAX);
        let mut second = Jitter::new(Duration::MAX);
        assert_ne!(first.draw(), second.draw());
    }
}
