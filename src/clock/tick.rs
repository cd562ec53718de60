//! `Tick`: whether some milliseconds may have passed, at a quarter of what a reading of the clock costs.
//!
//! Ground rules:
//!
//! * It goes by the system's coarse clock, which advances by a few milliseconds at a time. It is for decisions about how long something
//!   has taken, where a wrong answer does no harm: right after a tick, hardly any time may have passed.
//! * Where there is no such clock (not Linux), nothing ever ticks.

use std::cell::Cell;

/// Remembers the latest tick that was seen.
#[derive(Debug, Default)]
pub(crate) struct Tick {
    seen: Cell<(i64, i64)>,
}

impl Tick {
    /// Whether the coarse clock has ticked since the last call.
    #[inline]
    pub(crate) fn has_come(&self) -> bool {
        let now = read();
        now != self.seen.replace(now)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[inline]
fn read() -> (i64, i64) {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    (time.tv_sec, time.tv_nsec as i64)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn read() -> (i64, i64) {
    (0, 0)
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn it_ticks_while_time_passes_and_seldom() {
        let (tick, began) = (Tick::default(), Instant::now());
        assert!(tick.has_come(), "the clock shows zero");
        let (mut ticks, mut asked) = (0, 0);
        while began.elapsed() < Duration::from_millis(100) {
            ticks += u32::from(tick.has_come());
            asked += 1;
        }
        // From a hundred to a thousand times a second. The thread may have been kept from running at any of them.
        assert!(ticks > 0 && ticks <= asked / 4 + 1, "{ticks} of {asked}");
    }
}
