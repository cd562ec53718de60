//! `Counted`: an `Arc` for which one thread may count its own references without atomic steps.
//!
//! Ground rules:
//!
//! * `count` and `held` together are the number of references. While the own thread counts in `held`, `count` has `KEPT` more: so
//!   it cannot reach zero, however many references that were made on that thread are dropped on other threads.
//! * Only the own thread reads and writes `held`, which goes below zero when it drops more than it makes.
//! * Only the own thread ends its counting, by adding `held` to `count`. If it never does, nothing is freed.
//! * The last reference frees the value, after all other uses of it.
//! * A thread has the pointer to what it counts [at hand](Counted::keep_at_hand). References may be far away in memory, and a
//!   processor that only has to compare the two pointers goes on meanwhile with work that does not depend on the reference. The
//!   thread forgets the pointer when it ends its counting, so the value behind the pointer has not been freed.
//! * A thread is identified by a number ([`number`]), which it has from the moment it asks for one. No number is used again.

use std::cell::Cell;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic;

use super::{AtomicU64, Ordering};

/// More than the possible number of references.
const KEPT: u64 = 1 << 62;

/// No thread counts for itself.
const NOBODY: u64 = u64::MAX;

pub(crate) struct Counted<T>(NonNull<Shared<T>>);

struct Shared<T> {
    count: AtomicU64,
    /// The own thread's count, as a signed number.
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

    /// Makes the calling thread count its references for itself from here on. It must later call [`end_own`](Counted::end_own).
    /// Does nothing if a thread counts for itself already.
    pub(crate) fn begin_own(&self) {
        let shared = self.shared();
        // Relaxed, here and wherever `own` is read: a thread looks for its own number, which only it can have written.
        if shared.own.compare_exchange(NOBODY, claim_number(), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            // Relaxed: as for any reference that is made.
            shared.count.fetch_add(KEPT, Ordering::Relaxed);
            self.keep_at_hand();
        }
    }

    /// If the calling thread counts for itself, it has this at hand from here on, and nothing else.
    pub(crate) fn keep_at_hand(&self) {
        if self.counts_itself() {
            AT_HAND.with(|at_hand| at_hand.set(self.0.as_ptr().cast()));
        }
    }

    /// Makes the calling thread count like all others again. Does nothing on a thread other than the own one.
    pub(crate) fn end_own(&self) {
        let shared = self.shared();
        if self.counts_itself() {
            if self.shared_at_hand().is_some() {
                AT_HAND.with(|at_hand| at_hand.set(ptr::null()));
            }
            shared.own.store(NOBODY, Ordering::Relaxed);
            let held = shared.held.load(Ordering::Relaxed);
            shared.held.store(0, Ordering::Relaxed);
            // The count does not reach zero, because this reference is in it. Relaxed: what this thread did by references that it
            // has dropped is released as this one is dropped.
            shared.count.fetch_sub(KEPT.wrapping_sub(held), Ordering::Relaxed);
        }
    }

    /// Whether both refer to the same value.
    pub(crate) fn same(&self, other: &Counted<T>) -> bool {
        self.0 == other.0
    }

    #[inline]
    fn shared(&self) -> &Shared<T> {
        // SAFETY: this reference is counted, so the value has not been freed; only shared references to it exist.
        unsafe { self.0.as_ref() }
    }

    /// Returns the value, at once if the calling thread has it at hand: for references that may be far away in memory.
    #[inline]
    pub(crate) fn get(&self) -> &T {
        self.at_hand().unwrap_or_else(|| self.get_far())
    }

    // If this were inlined, the compiler would see that both ways lead to the same place, and read the reference.
    #[cold]
    #[inline(never)]
    fn get_far(&self) -> &T {
        self
    }

    /// Returns the value, if the calling thread has it at hand.
    #[inline]
    pub(crate) fn at_hand(&self) -> Option<&T> {
        self.shared_at_hand().map(|shared| &shared.value)
    }

    /// Returns what this refers to, by the pointer that the calling thread has at hand, if it is the same.
    #[inline]
    fn shared_at_hand(&self) -> Option<&Shared<T>> {
        let at_hand = AT_HAND.with(Cell::get).cast::<Shared<T>>();
        if !ptr::addr_eq(at_hand, self.0.as_ptr()) {
            return None;
        }
        // SAFETY: it points to where this reference does, so to a `Shared<T>`, which is not freed while this reference is counted; and
        // it was made from a reference to the same one: else that one had been freed before, and forgotten before that.
        Some(unsafe { &*at_hand })
    }

    #[inline]
    fn counts_itself(&self) -> bool {
        self.shared().own.load(Ordering::Relaxed) == number()
    }
}

impl<T> Shared<T> {
    /// Changes the own thread's count, on that thread.
    #[inline]
    fn hold(&self, more: u64) {
        // Relaxed, and not one atomic step: only this thread reads it.
        self.held.store(self.held.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }
}

impl<T> Clone for Counted<T> {
    #[inline]
    fn clone(&self) -> Counted<T> {
        if self.counts_itself() {
            self.shared().hold(1);
        } else {
            // Relaxed: the value exists as long as `self` does, and whatever hands on the new reference orders it.
            self.shared().count.fetch_add(1, Ordering::Relaxed);
        }
        Counted(self.0)
    }
}

impl<T> Drop for Counted<T> {
    #[inline]
    fn drop(&mut self) {
        match self.shared_at_hand() {
            Some(shared) => shared.hold(1_u64.wrapping_neg()),
            None => self.release(),
        }
    }
}

impl<T> Counted<T> {
    #[inline(never)]
    fn release(&mut self) {
        if self.counts_itself() {
            self.shared().hold(1_u64.wrapping_neg());
            return;
        }
        // Release: the uses of this reference happen before the value is freed.
        if self.shared().count.fetch_sub(1, Ordering::Release) == 1 {
            self.free();
        }
    }

    #[cold]
    fn free(&mut self) {
        // Acquire: pairs with the Releases of all other references, which are in one sequence with the last.
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
thread_local! {
    static NUMBER: Cell<u64> = const { Cell::new(0) };
    /// The pointer to what the thread counts for itself and has at hand; null if there is none.
    static AT_HAND: Cell<*const ()> = const { Cell::new(ptr::null()) };
}
#[cfg(loom)]
loom::thread_local! {
    static NUMBER: Cell<u64> = Cell::new(0);
    static AT_HAND: Cell<*const ()> = Cell::new(ptr::null());
}

/// The number of the calling thread; 0 if it has none.
#[inline(always)]
pub(super) fn number() -> u64 {
    NUMBER.with(Cell::get)
}

/// The number of the calling thread. If it has none, it is given one.
#[cold]
pub(super) fn claim_number() -> u64 {
    static GIVEN: atomic::AtomicU64 = atomic::AtomicU64::new(0);
    if number() == 0 {
        // Relaxed: it only matters that the numbers differ.
        NUMBER.with(|number| number.set(GIVEN.fetch_add(1, Ordering::Relaxed) + 1));
    }
    number()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn find(reference: &Counted<u32>) -> (u32, bool) {
        (*reference.get(), reference.at_hand().is_some())
    }

    #[test]
    fn what_a_thread_has_at_hand_is_forgotten_before_it_is_freed() {
        let [first, second, others] = [1, 2, 3].map(Counted::new);
        assert_eq!([&first, &second, &others].map(find), [(1, false), (2, false), (3, false)]);
        first.begin_own();
        assert_eq!(find(&first.clone()), (1, true));
        // The latest value is at hand, and no value that the thread does not count for itself.
        second.begin_own();
        others.keep_at_hand();
        assert_eq!([&first, &second, &others].map(find), [(1, false), (2, true), (3, false)]);
        first.keep_at_hand();
        assert_eq!([&first, &second].map(find), [(1, true), (2, false)]);
        // Every thread has its own value at hand, and does not end another thread's counting.
        std::thread::scope(|scope| {
            let theirs = scope.spawn(|| {
                others.begin_own();
                first.end_own();
                assert_eq!([&first, &second, &others].map(find), [(1, false), (2, false), (3, true)]);
                others.end_own();
            });
            theirs.join().expect("no panic");
        });
        assert_eq!([&first, &others].map(find), [(1, true), (3, false)]);
        second.end_own();
        drop(second);
        assert_eq!(find(&first), (1, true));
        let left = first.clone();
        first.end_own();
        drop(first);
        assert_eq!(find(&left), (1, false));
        left.begin_own();
        assert_eq!(find(&left), (1, true));
        left.end_own();
    }
}
