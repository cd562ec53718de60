//! Pseudo-random numbers that are the same for the same seed.

use std::time::Duration;

use mainspring_bench::random::Random;

/// The width of a slot of the wheel's lowest level, in nanoseconds.
const SLOT: u64 = 1 << 4;

/// Pseudo-random numbers, and the values that the soak derives from them. Forks are uncorrelated.
#[derive(Clone, Debug)]
pub(crate) struct Rng(Random);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(Random::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// Returns another stream of numbers.
    pub(crate) fn fork(&mut self) -> Rng {
        Rng::new(self.next())
    }

    /// Returns a number less than `limit`, which must not be zero.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0.below(limit)
    }

    /// Returns a number from `low` up to, not including, `high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low)
    }

    /// Returns true with this probability, in percent.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn micros(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_nanos(self.between(low * 1000, high * 1000))
    }

    /// Returns a duration up to about 20 ms: in every order of magnitude, and often at the edge of one of the
    /// wheel's slots.
    pub(crate) fn short(&mut self) -> Duration {
        match self.below(8) {
            0 => Duration::ZERO,
            1 => Duration::from_nanos(self.below(1000)),
            2 => self.micros(1, 100),
            3 => Duration::from_nanos(self.edge(4)),
            4 => self.micros(100, 1000),
            _ => self.micros(1000, 20_000),
        }
    }

    /// Returns a duration that does not end within a run.
    pub(crate) fn endless(&mut self) -> Duration {
        match self.below(3) {
            0 => Duration::MAX,
            1 => Duration::from_secs(self.between(3600, 40 * 86400)),
            _ => Duration::from_secs(i64::MAX as u64 / 1_000_000_000),
        }
    }

    /// Returns a number of nanoseconds near the edge of a slot of one of the `levels` lowest levels.
    pub(crate) fn edge(&mut self, levels: u64) -> u64 {
        let width = SLOT << (6 * self.below(levels));
        (width * self.between(1, 64)).saturating_add(self.below(600)).saturating_sub(300)
    }
}
