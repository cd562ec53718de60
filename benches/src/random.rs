//! Numbers that look random and are the same in each run.

/// Xorshift: three lines, quick enough to stand inside a measurement.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A stream of numbers; the seed must not be zero.
    pub fn new(seed: u64) -> Random {
        assert!(seed != 0, "zero is the one seed that stays where it is");
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it is no iterator: it has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Less than `limit`, which must not be zero.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// The numbers below `count`, shuffled.
    pub fn order(&mut self, count: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        order
    }
}
