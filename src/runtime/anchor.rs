//! The moment from which this process counts, and the time since: `time::Instant` and every runtime's clock.
//!
//! Ground rules:
//!
//! * On Linux the clock is read as the system gives it, two integers, and not as std's `Instant`, whose
//!   arithmetic costs a tenth of the reading. Both are `CLOCK_MONOTONIC`.
//! * std's reading of the anchor is taken just before the system's. So a moment that std gave reads later by the
//!   ten nanoseconds between them, and what waits for it ends by so much late, never early.

use std::sync::OnceLock;
use std::time::Instant;

use mainspring_driver::{Clock, Nanos};

struct Anchor {
    std: Instant,
    #[cfg(any(target_os = "linux", target_os = "android"))]
    raw: u64,
}

/// The first moment that anything in this process asked for; the same ever after.
#[inline]
fn get() -> &'static Anchor {
    static ANCHOR: OnceLock<Anchor> = OnceLock::new();
    ANCHOR.get_or_init(|| Anchor {
        std: Instant::now(),
        #[cfg(any(target_os = "linux", target_os = "android"))]
        raw: super::monotonic::read(),
    })
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
    Nanos::new(super::monotonic::read().saturating_sub(anchor))
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
    fn std_and_this_agree_to_the_safe_side() {
        for _ in 0..1000 {
            let before = now();
            let std = Nanos::from_duration(anchor().elapsed());
            assert!(std >= before, "a moment that std gave must not read earlier than it was");
        }
    }
}
