//! Memory and descriptors: nothing is left behind, and the steady state allocates nothing.
//!
//! Ground rules:
//!
//! * The allocator counts per thread, so tests may run in parallel, except those that count descriptors,
//!   which belong to the process: all of these take a lock.

#[path = "../common/mod.rs"]
mod common;

mod counting;
mod queues;
mod runtimes;
mod tasks;
mod timers;

use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{HOUR, ms};
use counting::{allocations, live_bytes};
use futures::poll;
use mainspring::time::sleep;

fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The descriptors that this process has open, if the system reports them.
fn descriptors() -> Option<usize> {
    // Wine has the directory, too, but opens and closes descriptors of its own.
    if cfg!(windows) {
        return None;
    }
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count())
}

/// This number, or a smaller one if the program is not optimised.
const fn often(release: usize, debug: usize) -> usize {
    if cfg!(debug_assertions) { debug } else { release }
}

/// How many allocations `rounds` of `what` take on this thread, after as many rounds to warm up.
async fn steady(rounds: usize, mut what: impl AsyncFnMut()) -> u64 {
    for _ in 0..rounds {
        what().await;
    }
    let before = allocations();
    for _ in 0..rounds {
        what().await;
    }
    allocations() - before
}

/// Makes the wheel use as many of its slots at once as `count` timers may ever need by chance.
async fn spread(count: u32) {
    let mut sleeps: Vec<_> = (0..count).map(|n| Box::pin(sleep(HOUR + n * HOUR / 8))).collect();
    for sleep in &mut sleeps {
        assert!(poll!(sleep.as_mut()).is_pending());
    }
}

/// Sleeps, and asserts that of the `full` bytes of a burst, which came to those `before`, hardly any are left: the thread wakes up for
/// them in the next seconds, and then no more.
async fn assert_given_back_in_sleep(before: i64, full: i64) {
    sleep(ms(8_000)).await;
    let left = live_bytes() - before;
    assert!(left <= full / 50, "{left} of {full} bytes are left");
    let wakeups = common::metrics().wakeups();
    sleep(ms(2_000)).await;
    assert!(common::metrics().wakeups() - wakeups <= 1);
}
