//! The system's allocator, with a count of what each thread has done.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with a count of what each thread has done.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LARGE: Cell<u64> = const { Cell::new(0) };
    static FREED: Cell<u64> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
}

fn note(allocations: u64, bytes: i64) {
    // These thread-locals have no destructor, so they exist as long as the thread does.
    ALLOCATIONS.with(|count| count.set(count.get() + allocations));
    LIVE_BYTES.with(|live| live.set(live.get() + bytes));
}

// SAFETY: everything is the system allocator's; counting allocates nothing, since the thread-locals are
// initialised by constants and have no destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as i64);
        LARGE.with(|count| count.set(count.get() + u64::from(layout.size() >= 1024)));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        note(0, -(layout.size() as i64));
        FREED.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(1, size as i64 - layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

/// How many allocations were of a kilobyte or more, at which glibc tidies up what was freed.
pub(crate) fn large_allocations() -> u64 {
    LARGE.with(Cell::get)
}

pub(crate) fn live_bytes() -> i64 {
    LIVE_BYTES.with(Cell::get)
}

/// What this thread has freed, in blocks.
pub(crate) fn freed() -> u64 {
    FREED.with(Cell::get)
}
