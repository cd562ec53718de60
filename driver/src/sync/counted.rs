//! `Counted`: an `Arc` of which one thread may count its own references without atomic steps.
//!
//! Ground rules:
//!
//! * `count` and `held` together are the number of references, and `count` has `KEPT` more while the own thread counts in
//!   `held`: then it cannot reach zero, however many references that were made there are dropped elsewhere.
//! * Only the own thread reads and writes `held`, which goes below zero when it drops more than it makes.
//! * Only the own thread ends its counting, by adding `held` to `count`. If it never does, nothing is freed.
//! * The last reference frees the value, after all other uses of it.
//! * A thread knows itself by a number ([`number`]), which it has from the moment it asks for one. None is used again.

use std::cell::Cell;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic;

use super::{AtomicU64, Ordering};

/// More than there can be references.
const KEPT: u64 = 1 << 62;

/// No thread counts for itself.
const NOBODY: u64 = u64::MAX;

pub(crate) struct Counted<T>(NonNull<Shared<T>>);

struct Shared<T> {
    count: AtomicU64,
    /// What the own thread has counted. As a signed number.
    held: AtomicU64,
    /// The number of the own thread, or `NOBODY`.
    own: AtomicU64,
    value: T,
}

// SAFETY: as for `Arc`: it gives `&T` to whatever thread it is on, and may drop the value there.
unsafe impl<T: Send + Sync> Send for Counted<T> {}
// SAFETY: as for `Arc`: a `&Counted` can be cloned.
unsafe impl<T: Send + Sync> Sync for Counted<T> {}

impl<T> Counted<T> {
    pub(crate) fn new(value: T) -> Counted<T> {
        let (count, held, own) = (AtomicU64::new(1), AtomicU64::new(0), AtomicU64::new(NOBODY));
        Counted(NonNull::from(Box::leak(Box::new(Shared { count, held, own, value }))))
    }

    /// The calling thread counts its references for itself from here on, and calls [`end_own`](Counted::end_own) one day.
    /// Does nothing if a thread does so already.
    pub(crate) fn begin_own(&self) {
        let shared = self.shared();
        // Relaxed, here and wherever `own` is read: a thread looks for its own number, which only it can have written.
        if shared.own.compare_exchange(NOBODY, claim_number(), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            // Relaxed: as for any reference that is made.
            shared.count.fetch_add(KEPT, Ordering::Relaxed);
        }
    }

    /// The calling thread counts like all others again. Does nothing on another thread than the own one.
    pub(crate) fn end_own(&self) {
        let shared = self.shared();
        if self.counts_itself() {
            shared.own.store(NOBODY, Ordering::Relaxed);
            let held = shared.held.load(Ordering::Relaxed);
            shared.held.store(0, Ordering::Relaxed);
            // It does not reach zero, because this reference is in it. Relaxed: what this thread did by references that it has
            // dropped is released as this one is dropped.
            shared.count.fetch_sub(KEPT.wrapping_sub(held), Ordering::Relaxed);
        }
    }

    /// Whether both refer to one value.
    pub(crate) fn same(&self, other: &Counted<T>) -> bool {
        self.0 == other.0
    }

    #[inline]
    fn shared(&self) -> &Shared<T> {
        // SAFETY: this reference is counted, so the value has not been freed; only shared references to it exist.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn counts_itself(&self) -> bool {
        self.shared().own.load(Ordering::Relaxed) == number()
    }

    /// Changes what the own thread has counted, on that thread.
    #[inline]
    fn hold(&self, more: u64) {
        let held = &self.shared().held;
        // Relaxed, and not one atomic step: only this thread looks.
        held.store(held.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }
}

impl<T> Clone for Counted<T> {
    #[inline]
    fn clone(&self) -> Counted<T> {
        if self.counts_itself() {
            self.hold(1);
        } else {
            // Relaxed: the value is there as long as `self` is, and whatever hands the new one on orders it.
            self.shared().count.fetch_add(1, Ordering::Relaxed);
        }
        Counted(self.0)
    }
}

impl<T> Drop for Counted<T> {
    #[inline]
    fn drop(&mut self) {
        if self.counts_itself() {
            self.hold(1_u64.wrapping_neg());
            return;
        }
        // Release: the uses of this reference happen before the value is freed.
        if self.shared().count.fetch_sub(1, Ordering::Release) == 1 {
            self.free();
        }
    }
}

impl<T> Counted<T> {
    #[cold]
    fn free(&mut self) {
        // Acquire: pairs with the Releases of all others, which are in one sequence with the last.
        self.shared().count.load(Ordering::Acquire);
        // SAFETY: it was made from a box in `new`. There is no other reference, as the count says, and no counting by the own
        // thread, which would have kept the count above zero; and this one ends.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl<T> Deref for Counted<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.shared().value
    }
}

#[cfg(not(loom))]
thread_local! { static NUMBER: Cell<u64> = const { Cell::new(0) } }
#[cfg(loom)]
loom::thread_local! { static NUMBER: Cell<u64> = Cell::new(0) }

/// The number of the calling thread; 0 if it has none.
#[inline(always)]
pub(super) fn number() -> u64 {
    NUMBER.with(Cell::get)
}

/// The number of the calling thread, which has one from here on.
#[cold]
pub(super) fn claim_number() -> u64 {
    static GIVEN: atomic::AtomicU64 = atomic::AtomicU64::new(0);
    if number() == 0 {
        // Relaxed: only that they differ matters.
        NUMBER.with(|number| number.set(GIVEN.fetch_add(1, Ordering::Relaxed) + 1));
    }
    number()
}
