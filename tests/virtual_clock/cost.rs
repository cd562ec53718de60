//! What the virtual clock costs a runtime that never pauses: a relaxed load and a branch before each reading of the
//! system's clock. Compared with that reading, their cost cannot be measured.

use super::common::{LONG, watchdog};

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mainspring_driver::{Clock, Driver, Handle, Nanos};

/// A driver's reading of its clock, as it would be if no clock could be paused.
struct Unpausable {
    clock: Clock,
    latest: AtomicU64,
}

impl Unpausable {
    #[inline]
    fn now(&self) -> Nanos {
        let now = self.clock.now();
        if now.get() > self.latest.load(Ordering::Relaxed) {
            self.latest.store(now.get(), Ordering::Relaxed);
        }
        now.max(Nanos::new(self.latest.load(Ordering::Relaxed)))
    }
}

const READINGS: u32 = 1_000;

/// The time that a thousand readings take.
fn time(read: impl Fn() -> Nanos) -> Duration {
    let start = Instant::now();
    for _ in 0..READINGS {
        black_box(read());
    }
    start.elapsed()
}

/// The shortest time that a thousand readings took, with and without; measured alternately, so that a machine that
/// becomes slower becomes slower for both.
fn measure(with: &Handle, without: &Unpausable) -> (Duration, Duration) {
    let mut best = (Duration::MAX, Duration::MAX);
    for _ in 0..300 {
        best.0 = best.0.min(time(|| black_box(with).now()));
        best.1 = best.1.min(time(|| black_box(without).now()));
    }
    best
}

#[test]
fn a_clock_that_was_never_paused_is_read_in_the_same_time() {
    let _watchdog = watchdog(2 * LONG);
    let driver = Driver::new(Clock::monotonic(), || ());
    let without = Unpausable { clock: Clock::monotonic(), latest: AtomicU64::new(0) };
    let (with, without) = measure(driver.handle(), &without);
    println!("a thousand readings: {with:?}, and {without:?} if no clock could be paused");
    assert_eq!(driver.handle().clock_changes(), 0);
    // Without optimisation, each call within the reading costs as much as the reading.
    let most = if cfg!(debug_assertions) { without * 2 } else { without + without / 8 };
    assert!(with <= most, "{with:?} for a thousand readings, against {without:?}");
}
