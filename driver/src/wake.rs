//! Foreign code that the driver calls: the wakers of timers that fired, called in batches ([`WakeList`]), and the panics of such
//! code ([`Panics`]).
//!
//! Ground rules:
//!
//! * A waker runs foreign code: it may arm, cancel or drop timers, take any lock, or panic. So wakers are collected under a lock,
//!   and no lock and no borrow is held while they are called.
//! * A panic of foreign code loses no other wake-up: the panic is caught, and all other wakers are called. The first
//!   panic is resumed when our own work is done; the payloads of later panics are dropped.
//! * A payload is a foreign value. Its drop may panic in turn, with a payload that also panics when it is dropped: a few are
//!   dropped in this way, and then one is forgotten.
//! * No panic is resumed while the thread is already unwinding: that would abort the process.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;

/// What a panic left behind.
type Payload = Box<dyn Any + Send + 'static>;

/// The maximum number of payloads that are dropped, each of which came from the drop of the one before.
const DROPS: usize = 8;

/// A batch of wakers.
pub(crate) struct WakeList(Vec<Waker>);

impl WakeList {
    /// The maximum number of wakers in a list. Large enough that the lock's cost is spread over many, small enough
    /// that no thread waits long for the lock. `tests/wakers.rs` tests the limits.
    pub(crate) const CAPACITY: usize = 32;

    /// Returns an empty list, with all the memory that it will need.
    pub(crate) fn new() -> WakeList {
        WakeList(Vec::with_capacity(WakeList::CAPACITY))
    }

    /// Whether the list is full.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() == WakeList::CAPACITY
    }

    /// Adds a waker. There must be room for it.
    #[inline]
    pub(crate) fn push(&mut self, waker: Waker) {
        debug_assert!(!self.is_full());
        self.0.push(waker);
    }

    /// Calls all wakers in the order in which they were added, and empties the list.
    pub(crate) fn wake_all(&mut self, panics: &mut Panics) {
        for waker in self.0.drain(..) {
            panics.catch(move || waker.wake());
        }
    }
}

/// Calls foreign code, and keeps the first panic.
pub(crate) struct Panics(Option<Payload>);

impl Panics {
    /// No panic yet.
    pub(crate) const fn new() -> Panics {
        Panics(None)
    }

    /// Calls `foreign`, and catches its panic.
    #[inline]
    pub(crate) fn catch(&mut self, foreign: impl FnOnce()) {
        // AssertUnwindSafe: callers hand over what the call needs, or values that are consistent between two calls.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(foreign)) {
            self.keep(payload);
        }
    }

    /// Keeps the payload if it is the first.
    #[cold]
    fn keep(&mut self, payload: Payload) {
        match self.0 {
            None => self.0 = Some(payload),
            Some(_) => dispose(payload),
        }
    }

    /// Resumes the first panic, if there was one and the thread is not panicking already.
    pub(crate) fn resume(mut self) {
        if let Some(payload) = self.0.take() {
            if std::thread::panicking() {
                dispose(payload);
            } else {
                resume_unwind(payload);
            }
        }
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(dispose);
    }
}

/// Drops a payload, whatever its drop does.
fn dispose(mut payload: Payload) {
    for _ in 0..DROPS {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(next) => payload = next,
        }
    }
    std::mem::forget(payload);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    /// The payload with which `list` panics when it wakes.
    fn panic_of(list: &mut WakeList) -> Box<dyn std::any::Any + Send> {
        let mut panics = Panics::new();
        list.wake_all(&mut panics);
        catch_unwind(AssertUnwindSafe(|| panics.resume())).expect_err("one of them panicked")
    }

    struct Count(AtomicUsize, usize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            if self.0.fetch_add(1, Ordering::Relaxed) + 1 == self.1 {
                panic!("wake number {}", self.1);
            }
        }
    }

    #[test]
    fn the_panic_of_one_loses_nobody_elses_wake_up() {
        for kth in [1, 2, 31, 32] {
            let count = Arc::new(Count(AtomicUsize::new(0), kth));
            let mut list = WakeList::new();
            while !list.is_full() {
                list.push(Waker::from(count.clone()));
            }
            let payload = panic_of(&mut list);
            assert_eq!(*payload.downcast::<String>().expect("a message"), format!("wake number {kth}"));
            assert_eq!(count.0.load(Ordering::Relaxed), 32);
            let mut panics = Panics::new();
            list.wake_all(&mut panics);
            panics.resume();
            assert_eq!(Arc::strong_count(&count), 1, "a woken waker was kept");
        }
    }

    #[test]
    fn a_payload_that_panics_as_it_is_dropped_loses_nobody_elses_wake_up() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("the payload's drop");
            }
        }
        struct Thrower(AtomicUsize);
        impl Wake for Thrower {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
                std::panic::panic_any(Bomb);
            }
        }
        let thrower = Arc::new(Thrower(AtomicUsize::new(0)));
        let mut list = WakeList::new();
        for _ in 0..5 {
            list.push(Waker::from(thrower.clone()));
        }
        let payload = panic_of(&mut list);
        assert_eq!(thrower.0.load(Ordering::Relaxed), 5);
        std::mem::forget(payload);
    }

    #[test]
    fn a_dropped_list_drops_its_wakers() {
        let count = Arc::new(Count(AtomicUsize::new(0), 0));
        let mut list = WakeList::new();
        list.push(Waker::from(count.clone()));
        drop(list);
        assert_eq!((Arc::strong_count(&count), count.0.load(Ordering::Relaxed)), (1, 0));
    }

    /// A payload that panics when it is dropped, with another such payload, as often as its number says.
    struct Bomb(u32, Arc<AtomicUsize>);

    impl Drop for Bomb {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
            if let Some(left) = self.0.checked_sub(1) {
                std::panic::panic_any(Bomb(left, self.1.clone()));
            }
        }
    }

    #[test]
    fn the_first_is_kept_and_the_drops_of_others_do_no_harm() {
        let drops = Arc::new(AtomicUsize::new(0));
        let mut panics = Panics::new();
        panics.catch(|| ());
        panics.catch(|| panic!("the first"));
        for (depth, dropped) in [(0, 1), (1, 2), (7, 8), (8, DROPS), (u32::MAX, DROPS)] {
            drops.store(0, Ordering::Relaxed);
            panics.catch(|| std::panic::panic_any(Bomb(depth, drops.clone())));
            assert_eq!(drops.load(Ordering::Relaxed), dropped);
        }
        let resumed = catch_unwind(AssertUnwindSafe(|| panics.resume()));
        assert_eq!(resumed.expect_err("one panicked").downcast_ref(), Some(&"the first"));
        Panics::new().resume();
    }

    #[test]
    fn a_panic_that_is_not_resumed_is_disposed_of() {
        let drops = Arc::new(AtomicUsize::new(0));
        // First dropped, then resumed during another panic.
        let mut panics = Panics::new();
        panics.catch(|| std::panic::panic_any(Bomb(2, drops.clone())));
        drop(panics);
        assert_eq!(drops.load(Ordering::Relaxed), 3);

        struct Resumes(Option<Panics>);
        impl Drop for Resumes {
            fn drop(&mut self) {
                self.0.take().expect("dropped once").resume();
            }
        }
        let mut panics = Panics::new();
        panics.catch(|| std::panic::panic_any(Bomb(2, drops.clone())));
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _resumes = Resumes(Some(panics));
            panic!("under way");
        }));
        assert_eq!(caught.expect_err("it panicked").downcast_ref(), Some(&"under way"));
        assert_eq!(drops.load(Ordering::Relaxed), 6);
    }
}
