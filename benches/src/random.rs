//! Numbers that look random and are the same in each run.

/// SplitMix64: a few lines, fast enough to run inside a measurement, well distributed from any seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes a stream of numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next number.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it is no iterator: it has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number less than `limit`, which must not be zero.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns the numbers below `count`, shuffled.
    pub fn order(&mut self, count: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        order
    }
}
