//! Random numbers: the generator, and where each user's sequence begins.
//!
//! The generator is SplitMix64 (Steele, Lea and Flood, 2014): a counter and a mixing function. It is not for secrets. Its
//! numbers are evenly spread, it takes eight bytes and a few nanoseconds, and one seed produces one sequence.
//!
//! Ground rules:
//!
//! * Each user of random numbers in this crate gets its seed from its runtime's [`Seeds`] when it draws for the first time.
//!   So the numbers that one user draws do not depend on how many the others have drawn, and a runtime's seed determines the
//!   numbers of all users.
//! * Hash tables have keys of their own, against attacks. Nothing here depends on the order of a hash table.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// The increment of the counter.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A sequence of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }
}

fn mix(counter: u64) -> u64 {
    let z = (counter ^ (counter >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Returns an unpredictable number. The standard library's hash maps draw their keys from the system, and so does this.
pub(crate) fn by_chance() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A runtime's generator of seeds. It may be used on any thread.
pub(super) struct Seeds(AtomicU64);

impl Seeds {
    pub(super) fn new(seed: u64) -> Seeds {
        Seeds(AtomicU64::new(seed))
    }

    pub(super) fn next(&self) -> u64 {
        // Relaxed: each counter is given once, and stands for itself.
        mix(self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs for the seed 1234567, as published with other implementations of the generator.
    #[test]
    fn the_generator_is_the_published_one() {
        let known = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(known.map(|_| random.next()), known);
        let seeds = Seeds::new(1_234_567);
        assert_eq!(known.map(|_| seeds.next()), known);
    }

    #[test]
    fn no_two_chances_are_alike() {
        assert_ne!(by_chance(), by_chance());
    }
}
