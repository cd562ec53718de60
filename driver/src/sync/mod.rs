//! The one place that chooses between std's synchronisation and loom's; the lock around the wheel, and the count of the driver's
//! handles.
//!
//! | file | what |
//! |---|---|
//! | `biased` | a mutex that costs its own thread no atomic step, and the barrier that other threads pay for |
//! | `counted` | an `Arc` that one thread counts without atomic steps, and how a thread is identified |

mod biased;
mod counted;
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use biased::{Biased, BiasedGuard};
pub(crate) use counted::Counted;
#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    sync::{Condvar, Mutex, MutexGuard},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

/// std's `UnsafeCell` with the interface of loom's: a pointer is lent to a closure, so that loom can watch its use.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// Locks `mutex`, also after a panic under it: nothing that runs under the driver's lock can leave the wheel
/// half changed, because no user code runs there.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
