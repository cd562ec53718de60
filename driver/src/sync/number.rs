//! Numbers of threads: a thread has one from the moment it asks for it, and none is used again.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(loom))]
thread_local! { static NUMBER: Cell<u64> = const { Cell::new(0) } }
#[cfg(loom)]
loom::thread_local! { static NUMBER: Cell<u64> = Cell::new(0) }

/// That of the calling thread; 0 if it has none.
#[inline(always)]
pub(super) fn number() -> u64 {
    NUMBER.with(Cell::get)
}

/// That of the calling thread, which has one from here on.
#[cold]
pub(super) fn claim_number() -> u64 {
    static GIVEN: AtomicU64 = AtomicU64::new(0);
    if number() == 0 {
        // Relaxed: only that they differ matters.
        NUMBER.with(|number| number.set(GIVEN.fetch_add(1, Ordering::Relaxed) + 1));
    }
    number()
}
