//! The one place that chooses between std's synchronisation and loom's, for the executor and the reactor.
//!
//! Ground rules:
//!
//! * Without `--cfg loom` these are std's types, and nothing is added to them.
//! * `Arc` is not among them: the root's waker is made only from std's `Arc`. The models cannot see its counter, so
//!   they record themselves what is dropped, and when. A task counts its references itself; the models do see that
//!   count.

#[cfg(loom)]
pub(crate) use self::model::thread_local;
#[cfg(not(loom))]
pub(crate) use self::real::UnsafeCell;
#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
    sync::{Mutex, MutexGuard},
};
use std::sync::PoisonError;
#[cfg(not(loom))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
    sync::{Mutex, MutexGuard},
    thread_local,
};

/// Locks `mutex`, even if a thread has panicked while it held the lock. The data that these locks protect cannot be
/// left half changed, because no user code runs under them.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(not(loom))]
mod real {
    /// std's `UnsafeCell` with the interface of loom's: a pointer is lent to a closure, so that loom can track its
    /// use.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> UnsafeCell<T> {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

#[cfg(loom)]
mod model {
    /// loom's threads all run on one system thread, so std's macro could not tell them apart.
    macro_rules! model_thread_local {
        ($(#[$attribute:meta])* static $name:ident: $type:ty = const { $init:expr };) => {
            loom::thread_local! { $(#[$attribute])* static $name: $type = $init; }
        };
    }
    pub(crate) use model_thread_local as thread_local;
}
