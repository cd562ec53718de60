//! The system's clocks: what the driver counts by, and where its count lies on the clock that the alarm counts by.
//!
//! Ground rules:
//!
//! * The difference is measured between two readings of the driver's clock, and rounded up by what lies between
//!   them: an alarm may ring some ten nanoseconds late, and does not ring too early for nothing. It is measured
//!   anew only when the driver's time was stopped or let go.
//! * It decides when a park ends, never whether a timer is due: that is for the driver's time alone.

use mainspring_driver::{Clock, Handle as Timers, Nanos};
use std::io;

use crate::reactor::Counted;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use self::linux::{boottime, read};

/// By how many nanoseconds the clock that the alarm counts by is ahead of the driver's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offset {
    ahead: u64,
    counted: Counted,
    /// [`Timers::clock_changes`], when it was measured.
    changes: u32,
}

impl Offset {
    /// Measures. The driver's time may stand.
    pub(super) fn measure(timers: &Timers, counted: Counted) -> Offset {
        /// Of so many tries, the one that was least disturbed counts.
        const TRIES: usize = 8;
        let changes = timers.clock_changes();
        let attempt = || {
            let before = timers.now().get();
            let system = read(counted);
            let after = timers.now().get();
            (after.saturating_sub(before), system.wrapping_sub(before))
        };
        let ahead = (0..TRIES).map(|_| attempt()).min().map_or(0, |(_, ahead)| ahead);
        Offset { ahead, counted, changes }
    }

    /// The moment `at` of the driver's time, in nanoseconds of the alarm's clock.
    pub(super) fn alarm_ns(&mut self, timers: &Timers, at: Nanos) -> u64 {
        if timers.clock_changes() != self.changes {
            *self = Offset::measure(timers, self.counted);
        }
        // The driver's time may have been turned far ahead of the system's, and then wraps round to it.
        at.get().wrapping_add(self.ahead)
    }
}

/// There is no alarm on this platform: any value will do.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn read(_: Counted) -> u64 {
    0
}

/// A clock that goes on while the machine is suspended.
///
/// # Errors
///
/// `Unsupported`: there is none that the wait for a timer could go by.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn boottime() -> io::Result<Clock> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "`Clock::Boottime` needs Linux's CLOCK_BOOTTIME: use `Clock::Monotonic` on this platform",
    ))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use super::{Clock, Counted, io};
    use crate::runtime::anchor;
    use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};

    /// A clock that goes on while the machine is suspended.
    ///
    /// # Errors
    ///
    /// The kernel's, if it is too old.
    pub(in crate::runtime) fn boottime() -> io::Result<Clock> {
        clock_gettime_dynamic(DynamicClockId::Known(ClockId::Boottime))?;
        Ok(Clock::from_fn(|| anchor::since_boot(read(Counted::Always))))
    }

    /// Reads the clock.
    #[inline]
    pub(in crate::runtime) fn read(counted: Counted) -> u64 {
        nanos(clock_gettime(match counted {
            Counted::Awake => ClockId::Monotonic,
            Counted::Always => ClockId::Boottime,
        }))
    }

    /// The clocks count from boot: neither part is negative, and 584 years fit.
    #[inline]
    fn nanos(time: Timespec) -> u64 {
        (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
    }
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use super::*;
    use mainspring_driver::Driver;

    /// The offset is rounded up by one undisturbed reading; the bound leaves room for a disturbed one.
    fn assert_maps(offset: &mut Offset, timers: &Timers, counted: Counted) {
        let before = read(counted);
        let mapped = offset.alarm_ns(timers, timers.now());
        let after = read(counted);
        assert!(before <= mapped && mapped <= after + 10_000_000, "{before} {mapped} {after}");
    }

    #[test]
    fn the_offset_maps_one_clock_to_the_other() {
        let driver = Driver::new(Clock::monotonic(), || ());
        assert_maps(&mut Offset::measure(driver.handle(), Counted::Awake), driver.handle(), Counted::Awake);
        let driver = Driver::new(boottime().unwrap(), || ());
        assert_maps(&mut Offset::measure(driver.handle(), Counted::Always), driver.handle(), Counted::Always);
    }

    #[test]
    fn the_offset_follows_a_clock_that_was_turned_far_ahead() {
        let driver = Driver::new(Clock::monotonic(), || ());
        let timers = driver.handle();
        let mut offset = Offset::measure(timers, Counted::Awake);
        for far in [1_000_000_000, u64::MAX / 2, Nanos::NEVER.get() - 1_000_000_000_000] {
            assert!(timers.pause() && timers.advance_to(Nanos::new(far)) && timers.resume());
            assert_maps(&mut offset, timers, Counted::Awake);
        }
    }
}
