//! The moment from which this process counts, and the time since: `time::Instant` and every runtime's clock.
//!
//! Ground rules:
//!
//! * On Linux the clock is read as the system gives it, two integers, and not as std's `Instant`, whose
//!   arithmetic costs a tenth of the reading. Both are `CLOCK_MONOTONIC`.
//! * std's reading of the anchor lies between two of the system's, in the least disturbed of a few tries. So a moment
//!   given by std and the same one read here differ by less than a reading takes: who reads std's clock after an end
//!   finds that it has passed.
//! * The two system clocks differ by the time for which the machine was suspended, and by nothing else. As long as a
//!   measurement does not contradict the last answer, the answer stays the same: so conversion from one to the other and
//!   back is exact unless the machine was suspended in between.

use std::sync::OnceLock;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use mainspring_driver::{Clock, Nanos};

#[cfg(any(target_os = "linux", target_os = "android"))]
use super::system_clock::read;
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::reactor::Counted;

struct Anchor {
    std: Instant,
    /// `CLOCK_MONOTONIC`.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    awake: u64,
    /// `CLOCK_BOOTTIME`.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    always: u64,
}

/// The first moment that anything in this process asked for; the same ever after.
#[inline]
fn get() -> &'static Anchor {
    static ANCHOR: OnceLock<Anchor> = OnceLock::new();
    ANCHOR.get_or_init(make)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[cold]
fn make() -> Anchor {
    const TRIES: usize = 16;
    let attempt = || {
        let before = read(Counted::Awake);
        let std = Instant::now();
        let took = read(Counted::Awake).saturating_sub(before);
        (took, before + took / 2, std)
    };
    let least = (1..TRIES)
        .map(|_| attempt())
        .fold(attempt(), |least, next| if next.0 < least.0 { next } else { least });
    let (_, awake, std) = least;
    // What the one clock is ahead of the other, which is nothing but the time the machine was suspended for.
    let ahead = read(Counted::Always).saturating_sub(read(Counted::Awake));
    Anchor { std, awake, always: awake + ahead }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn make() -> Anchor {
    Anchor { std: Instant::now() }
}

/// The anchor, for std.
pub(crate) fn anchor() -> Instant {
    get().std
}

/// The time since the anchor.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[inline]
pub(crate) fn now() -> Nanos {
    // The first call makes the anchor, so it has to come first.
    let anchor = get().awake;
    Nanos::new(read(Counted::Awake).saturating_sub(anchor))
}

/// The time since the anchor, also that for which the machine was suspended, when `CLOCK_BOOTTIME` shows `always`.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn since_boot(always: u64) -> Nanos {
    Nanos::new(always.saturating_sub(get().always))
}

/// By how much a count of [`since_boot`] is ahead of one of [`now`]: for so long the machine was suspended since the
/// anchor. The error is less than a reading takes.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn suspended() -> i64 {
    /// No machine is suspended for as short as this, and hardly a measurement is as wrong.
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
        // Another thread may have measured the same, but a few nanoseconds more: there shall be one answer.
        match KNOWN.compare_exchange(known, measured, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return measured,
            Err(other) => known = other,
        }
    }
}

/// The bounds between which [`suspended`] lies, from the least disturbed of a few tries.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn measure_suspended() -> (i64, i64) {
    const TRIES: usize = 4;
    let count = |nanos: Nanos| i64::try_from(nanos.get()).unwrap_or(i64::MAX);
    let attempt = || {
        let before = count(now());
        let always = count(since_boot(read(Counted::Always)));
        let after = count(now());
        (after - before, (always - after, always - before))
    };
    (1..TRIES).map(|_| attempt()).fold(attempt(), |least, next| if next.0 < least.0 { next } else { least }).1
}

/// There is no clock here that goes on while the machine is suspended.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn suspended() -> i64 {
    0
}

/// The time since the anchor.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn now() -> Nanos {
    let anchor = anchor();
    Nanos::from_duration(anchor.elapsed())
}

/// The clock of a runtime: it shows the time since the anchor.
pub(super) fn clock() -> Clock {
    Clock::from_fn(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn std_and_this_agree() {
        // Each reading follows the other; a signed difference of less than a reading does not show.
        for _ in 0..1000 {
            let before = anchor().elapsed();
            let here = now().as_duration();
            let after = anchor().elapsed();
            assert!(before <= here && here <= after, "{before:?} {here:?} {after:?}");
        }
    }

    #[test]
    fn the_time_of_suspensions_is_one_answer_until_there_is_another() {
        let first = suspended();
        assert!((0..1000).all(|_| suspended() == first), "the machine was not suspended");
    }
}
