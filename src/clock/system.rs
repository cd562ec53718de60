//! The system's clocks: the anchor from which this process counts, the time since then, and where a driver's time lies
//! on the alarm's clock.
//!
//! Ground rules:
//!
//! * On Linux the clocks are read as the system returns them, as two integers, and not through std's `Instant`: its
//!   arithmetic costs a tenth of the reading. std's clock is `CLOCK_MONOTONIC` too.
//! * For the anchor, std's clock is read between two readings of the system's, in the least disturbed of a few tries.
//!   So std's reading of a moment and the reading here differ by less than a reading takes: code that reads std's clock
//!   after a timer has ended finds that the deadline has passed.
//! * The two system clocks differ by the time for which the machine was suspended, and by nothing else. As long as a
//!   measurement does not contradict the last answer, the answer stays the same: so a conversion from one clock to the
//!   other and back is exact unless the machine was suspended in between.
//! * The offset of the alarm's clock from a driver's time is measured between two readings of the driver's time, and
//!   rounded up by the time between them: an alarm may ring some ten nanoseconds late, but does not ring too early,
//!   which would be a wake-up for nothing. The offset decides when a park ends, never whether a timer is due: only the
//!   driver's time decides that.

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use self::linux::boottime;
#[cfg(any(target_os = "linux", target_os = "android"))]
use self::linux::read;
use mainspring_driver::{Handle as Timers, Nanos};
use std::sync::OnceLock;
use std::time::Instant;

/// The system clock that an alarm uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockId {
    /// It stops while the machine is suspended: `CLOCK_MONOTONIC`.
    Monotonic,
    /// It goes on while the machine is suspended: `CLOCK_BOOTTIME`.
    Boottime,
}

struct Anchor {
    std: Instant,
    #[cfg(any(target_os = "linux", target_os = "android"))]
    monotonic: u64,
    #[cfg(any(target_os = "linux", target_os = "android"))]
    boottime: u64,
}

/// The first moment that anything in this process asked for. It never changes afterwards.
#[inline]
fn get() -> &'static Anchor {
    static ANCHOR: OnceLock<Anchor> = OnceLock::new();
    ANCHOR.get_or_init(make)
}

/// Makes a number of attempts and returns the result of the least disturbed one: each attempt returns first how long it
/// took.
fn least_disturbed<T: Copy>(tries: usize, attempt: impl Fn() -> (u64, T)) -> T {
    (1..tries).map(|_| attempt()).fold(attempt(), |least, next| if next.0 < least.0 { next } else { least }).1
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[cold]
fn make() -> Anchor {
    let (monotonic, std) = least_disturbed(16, || {
        let before = read(ClockId::Monotonic);
        let std = Instant::now();
        let took = read(ClockId::Monotonic).saturating_sub(before);
        (took, (before + took / 2, std))
    });
    // How far one clock is ahead of the other, which is just the time for which the machine was suspended.
    let ahead = read(ClockId::Boottime).saturating_sub(read(ClockId::Monotonic));
    Anchor { std, monotonic, boottime: monotonic + ahead }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn make() -> Anchor {
    Anchor { std: Instant::now() }
}

/// The anchor, in std's type.
pub(super) fn anchor() -> Instant {
    get().std
}

/// The time since the anchor, by the monotonic clock.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[inline]
pub(crate) fn now() -> Nanos {
    // The first call makes the anchor, so it has to come first.
    let anchor = get().monotonic;
    // The clock has not gone back.
    read(ClockId::Monotonic).checked_sub(anchor).map_or_else(|| super::rarely(Nanos::ZERO), Nanos::new)
}

/// The time since the anchor, by the monotonic clock.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn now() -> Nanos {
    let anchor = anchor();
    Nanos::from_duration(anchor.elapsed())
}

/// By how much a count of `CLOCK_BOOTTIME` is ahead of a count of [`now`]: the time for which the machine was suspended
/// since the anchor. The error is less than a reading takes.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn suspended() -> i64 {
    use std::sync::atomic::{AtomicI64, Ordering};
    /// No suspension is as short as this, and hardly any measurement is so far off.
    const LEAST: i64 = 100_000;
    const NOT_MEASURED: i64 = i64::MIN;
    static KNOWN: AtomicI64 = AtomicI64::new(NOT_MEASURED);
    // Relaxed: the number stands for itself.
    let mut known = KNOWN.load(Ordering::Relaxed);
    loop {
        let (least, most) = measure_suspended();
        if (least - LEAST..=most + LEAST).contains(&known) {
            return known;
        }
        let measured = least + (most - least) / 2;
        // Another thread may have measured the same suspension as a few nanoseconds more: all threads must get one
        // answer.
        match KNOWN.compare_exchange(known, measured, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return measured,
            Err(other) => known = other,
        }
    }
}

/// The bounds between which [`suspended`] lies.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn measure_suspended() -> (i64, i64) {
    let count = |nanos: Nanos| i64::try_from(nanos.get()).unwrap_or(i64::MAX);
    least_disturbed(4, || {
        let before = count(now());
        let boottime = count(linux::since_anchor());
        let after = count(now());
        (after.abs_diff(before), (boottime - after, boottime - before))
    })
}

/// This platform has no clock that goes on while the machine is suspended.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn suspended() -> i64 {
    0
}

/// By how many nanoseconds the alarm's clock is ahead of the driver's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AlarmOffset {
    ahead: i128,
    clock: ClockId,
    /// [`Timers::clock_changes`] at the time of the measurement.
    changes: u32,
}

impl AlarmOffset {
    /// Measures the offset. The driver's time may be stopped.
    pub(crate) fn measure(timers: &Timers, clock: ClockId) -> AlarmOffset {
        let changes = timers.clock_changes();
        let ahead = least_disturbed(8, || {
            let before = timers.now().get();
            let system = read(clock);
            let after = timers.now().get();
            (after.saturating_sub(before), i128::from(system) - i128::from(before))
        });
        AlarmOffset { ahead, clock, changes }
    }

    /// The moment that is the given time from now, in nanoseconds of the alarm's clock.
    pub(crate) fn alarm_in(&self, duration: std::time::Duration) -> u64 {
        let ahead = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        read(self.clock).saturating_add(ahead)
    }

    /// The moment `at` of the driver's time, in nanoseconds of the alarm's clock. Measures the offset again if the driver's
    /// time was stopped or resumed meanwhile.
    pub(crate) fn alarm_ns(&mut self, timers: &Timers, at: Nanos) -> u64 {
        if timers.clock_changes() != self.changes {
            *self = AlarmOffset::measure(timers, self.clock);
        }
        // The driver's time may have been moved far ahead of the system's, so the difference may be negative. A moment that
        // lies beyond the end of the alarm's clock becomes that end: if it wrapped around, the alarm would ring at once, again
        // and again.
        (i128::from(at.get()) + self.ahead).clamp(0, u64::MAX.into()) as u64
    }
}

/// There is no alarm on this platform: any value will do.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn read(_: ClockId) -> u64 {
    0
}

/// A clock that goes on while the machine is suspended.
///
/// # Errors
///
/// `Unsupported`: this platform has no such clock that the wait for a timer could use.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn boottime() -> std::io::Result<mainspring_driver::Clock> {
    Err(std::io::Error::new(
        std::io::ErrorKind::Unsupported,
        "`Clock::Boottime` needs Linux's CLOCK_BOOTTIME: use `Clock::Monotonic` on this platform",
    ))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use super::ClockId;
    use mainspring_driver::{Clock, Nanos};
    use rustix::time::{self, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};

    /// A clock that goes on while the machine is suspended.
    ///
    /// # Errors
    ///
    /// The kernel's error, if the kernel is too old.
    pub(in crate::clock) fn boottime() -> std::io::Result<Clock> {
        clock_gettime_dynamic(DynamicClockId::Known(time::ClockId::Boottime))?;
        Ok(Clock::from_fn(since_anchor))
    }

    /// The time since the anchor, including the time for which the machine was suspended.
    pub(super) fn since_anchor() -> Nanos {
        Nanos::new(read(ClockId::Boottime).saturating_sub(super::get().boottime))
    }

    #[inline]
    pub(super) fn read(clock: ClockId) -> u64 {
        nanos(clock_gettime(match clock {
            ClockId::Monotonic => time::ClockId::Monotonic,
            ClockId::Boottime => time::ClockId::Boottime,
        }))
    }

    /// The clocks count from boot: neither part is negative, and 584 years fit.
    #[inline]
    fn nanos(time: Timespec) -> u64 {
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_agrees_with_std() {
        // The readings follow one another; a difference of less than a reading, in either direction, does not show.
        for _ in 0..1000 {
            let before = anchor().elapsed();
            let here = now().as_duration();
            let after = anchor().elapsed();
            assert!(before <= here && here <= after, "{before:?} {here:?} {after:?}");
        }
    }

    #[test]
    fn suspended_time_stays_the_same_while_the_machine_runs() {
        let first = suspended();
        assert!((0..1000).all(|_| suspended() == first), "the machine was not suspended");
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    mod offset {
        use super::*;
        use mainspring_driver::{Clock, Driver};

        /// The offset is rounded up by one undisturbed reading; the bound leaves room for a disturbed one.
        fn assert_maps(offset: &mut AlarmOffset, timers: &Timers, clock: ClockId) {
            let before = read(clock);
            let mapped = offset.alarm_ns(timers, timers.now());
            let after = read(clock);
            assert!(before <= mapped && mapped <= after + 10_000_000, "{before} {mapped} {after}");
        }

        #[test]
        fn the_offset_maps_one_clock_to_the_other() {
            for (clock, id) in
                [(Clock::monotonic(), ClockId::Monotonic), (boottime().unwrap(), ClockId::Boottime)]
            {
                let driver = Driver::new(clock, || ());
                assert_maps(&mut AlarmOffset::measure(driver.handle(), id), driver.handle(), id);
            }
        }

        #[test]
        fn the_offset_follows_a_clock_that_was_turned_far_ahead() {
            let driver = Driver::new(Clock::monotonic(), || ());
            let timers = driver.handle();
            let mut offset = AlarmOffset::measure(timers, ClockId::Monotonic);
            for far in [1_000_000_000, u64::MAX / 2, Nanos::NEVER.get() - 1_000_000_000_000] {
                assert!(timers.pause() && timers.advance_to(Nanos::new(far)) && timers.resume());
                assert_maps(&mut offset, timers, ClockId::Monotonic);
            }
        }
    }
}
