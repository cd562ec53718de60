//! Memory and descriptors: nothing is left behind, and steady state allocates nothing.
//!
//! Ground rules:
//!
//! * The allocator counts by thread, so tests may run beside each other; those that count descriptors, which
//!   belong to the process, do not: all of them take a lock.

#[path = "../common/mod.rs"]
mod common;

mod counting;
mod queues;
mod runtimes;
mod tasks;
mod timers;

use std::sync::{Mutex, MutexGuard, PoisonError};

use common::HOUR;
use counting::allocations;
use futures::poll;
use mainspring::time::sleep;

fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The descriptors this process has open, where the system tells.
fn descriptors() -> Option<usize> {
    // Wine has the directory, too, and opens and closes descriptors of its own.
    if cfg!(windows) {
        return None;
    }
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count())
}

/// So much, or less where the program is not optimised.
const fn often(release: usize, debug: usize) -> usize {
    if cfg!(debug_assertions) { debug } else { release }
}

/// How many allocations `rounds` of `what` take on this thread, after as many to warm up.
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

/// Has the wheel use as many of its slots at once as chance may ever want for `count` timers.
async fn spread(count: u32) {
    let mut sleeps: Vec<_> = (0..count).map(|n| Box::pin(sleep(HOUR + n * HOUR / 8))).collect();
    for sleep in &mut sleeps {
        assert!(poll!(sleep.as_mut()).is_pending());
    }
}
