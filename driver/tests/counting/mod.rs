//! The tests' allocator, which counts what each thread asks for and gives back.

// Each test binary uses only a part of this.
#![allow(dead_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Calls that asked for memory.
    static CALLS: Cell<u64> = const { Cell::new(0) };
    /// Blocks and bytes in use: the ones that this thread asked for, less the ones that it gave back.
    static LIVE: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
}

struct Counting;

fn count(calls: u64, blocks: i64, bytes: i64) {
    // A thread that is ending has no counters any more; it is not the test's thread.
    let _ = CALLS.try_with(|all| all.set(all.get() + calls));
    let _ = LIVE.try_with(|live| live.set((live.get().0 + blocks, live.get().1 + bytes)));
}

// SAFETY: every call is handed to the system's allocator as it came; the counters are plain cells of the
// thread, so counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, 1, layout.size() as i64);
        // SAFETY: the caller's promises are those of `System`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, -1, -(layout.size() as i64));
        // SAFETY: as in `alloc`; `at` came from `System`.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, 0, size as i64 - layout.size() as i64);
        // SAFETY: as in `dealloc`.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns how often `work` asked for memory.
pub(crate) fn allocations(work: impl FnOnce()) -> u64 {
    let before = CALLS.get();
    work();
    CALLS.get() - before
}

/// The number of blocks that this thread holds, more or less than at its beginning.
pub(crate) fn blocks() -> i64 {
    LIVE.get().0
}

/// The number of bytes, likewise.
pub(crate) fn bytes() -> i64 {
    LIVE.get().1
}
