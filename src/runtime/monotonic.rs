//! Where the driver's clock lies on the system's own: the alarm counts in `CLOCK_MONOTONIC`.
//!
//! Ground rules:
//!
//! * The difference is measured once, between two readings of the driver's clock, and rounded up by what lies
//!   between them: an alarm may ring some ten nanoseconds late, and does not ring too early for nothing.
//! * It decides when a park ends, never whether a timer is due: that is for the driver's clock alone.

use mainspring_driver::{Clock, Nanos};

/// How many nanoseconds `CLOCK_MONOTONIC` is ahead of the driver's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offset(u64);

impl Offset {
    /// Measures.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn measure(clock: &Clock) -> Offset {
        /// Of so many tries, the one that was least disturbed counts.
        const TRIES: usize = 8;
        let attempt = || {
            let before = clock.now().get();
            let monotonic = read();
            let after = clock.now().get();
            (after - before, monotonic.saturating_sub(before))
        };
        let best = (0..TRIES).map(|_| attempt()).min().map_or(0, |(_, offset)| offset);
        Offset(best)
    }

    /// There is no alarm on this platform: any value will do.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) fn measure(_clock: &Clock) -> Offset {
        Offset(0)
    }

    /// The moment `at` of the driver's clock, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) fn monotonic(self, at: Nanos) -> u64 {
        at.get().saturating_add(self.0)
    }
}

/// Reads `CLOCK_MONOTONIC`.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[inline]
pub(super) fn read() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // The clock counts from boot: neither part is negative, and 584 years fit.
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use super::*;

    #[test]
    fn the_offset_maps_one_clock_to_the_other() {
        let clock = Clock::monotonic();
        let offset = Offset::measure(&clock);
        let before = read();
        let mapped = offset.monotonic(clock.now());
        let after = read();
        // The offset is rounded up by one undisturbed reading; the bound leaves room for a disturbed one.
        assert!(before <= mapped && mapped <= after + 10_000_000, "{before} {mapped} {after}");
    }
}
