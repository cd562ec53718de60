//! The moment from which this process counts, and the time since: `time::Instant` and every runtime's clock.
//!
//! Ground rules:
//!
//! * On Linux the clock is read as the system gives it, two integers, and not as std's `Instant`, whose
//!   arithmetic costs a tenth of the reading. Both are `CLOCK_MONOTONIC`.
//! * Boot time counts from the same moment, so it begins beside the other.
//! * std's reading of the anchor is taken just before the system's. So a moment that std gave reads later by the
//!   ten nanoseconds between them, and what waits for it ends by so much late, never early.

use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use mainspring_driver::{Clock, Nanos};

use super::system_clock;
use crate::reactor::Counted;

struct Anchor {
    std: Instant,
    #[cfg(any(target_os = "linux", target_os = "android"))]
    raw: u64,
    /// The same moment by `CLOCK_BOOTTIME`.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    boot: u64,
}

/// The first moment that anything in this process asked for; the same ever after.
#[inline]
fn get() -> &'static Anchor {
    static ANCHOR: OnceLock<Anchor> = OnceLock::new();
    ANCHOR.get_or_init(Anchor::drop_here)
}

impl Anchor {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn drop_here() -> Anchor {
        /// Of so many pairs of readings, the one with the least between them counts.
        const TRIES: usize = 100;
        let pair = || (Instant::now(), system_clock::read(Counted::Awake));
        let (mut std, mut raw) = pair();
        for _ in 0..TRIES {
            let (later, raw_later) = pair();
            // std's went further than the other: so less lies between these two than between those before.
            if later.saturating_duration_since(std) > Duration::from_nanos(raw_later.saturating_sub(raw)) {
                (std, raw) = (later, raw_later);
            }
        }
        Anchor { std, raw, boot: system_clock::read(Counted::Always) }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn drop_here() -> Anchor {
        Anchor { std: Instant::now() }
    }
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
    let anchor = get().raw;
    Nanos::new(system_clock::read(Counted::Awake).saturating_sub(anchor))
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

/// The clock of a runtime that goes by boot time: the time since the anchor, also that which the machine was suspended
/// for.
///
/// # Errors
///
/// `Unsupported`, if the system has none.
pub(super) fn boottime() -> io::Result<Clock> {
    system_clock::find_boottime()?;
    Ok(Clock::from_fn(boot_now))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn boot_now() -> Nanos {
    let anchor = get().boot;
    Nanos::new(system_clock::read(Counted::Always).saturating_sub(anchor))
}

/// Never read: see [`system_clock::find_boottime`].
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn boot_now() -> Nanos {
    now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn std_and_this_agree_to_the_safe_side() {
        for _ in 0..1000 {
            let before = now();
            let std = Nanos::from_duration(anchor().elapsed());
            assert!(std >= before, "a moment that std gave must not read earlier than it was");
        }
    }
}
