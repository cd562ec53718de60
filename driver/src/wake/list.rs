//! `WakeList`: a fixed batch of wakers, collected under a lock and woken without it.
//!
//! Ground rules:
//!
//! * A waker runs foreign code: it may arm, cancel or drop timers, take any lock, or panic. So no lock and no
//!   borrow is held while the list wakes.
//! * A waker that panics takes nobody else's wake-up with it: all are woken, then the first panic is handed
//!   to the caller, who resumes it when its own work is done.
//! * No unsafe is needed here: `Option<Waker>` is no larger than `Waker`.

use core::task::Waker;

use super::Panics;

/// A batch of wakers.
pub(crate) struct WakeList {
    wakers: [Option<Waker>; WakeList::CAPACITY],
    len: usize,
}

impl WakeList {
    /// How many wakers a list holds. Large enough that the lock's cost is spread over many, small enough
    /// that nobody waits long for the lock. `tests/wakers.rs` tries its edges.
    pub(crate) const CAPACITY: usize = 32;

    /// An empty list.
    pub(crate) const fn new() -> WakeList {
        WakeList { wakers: [const { None }; WakeList::CAPACITY], len: 0 }
    }

    /// Whether no further waker fits.
    #[inline]
    pub(crate) const fn is_full(&self) -> bool {
        self.len == WakeList::CAPACITY
    }

    /// Adds a waker, for which there is room.
    #[inline]
    pub(crate) fn push(&mut self, waker: Waker) {
        self.wakers[self.len] = Some(waker);
        self.len += 1;
    }

    /// Wakes all in the order in which they came, and empties the list.
    pub(crate) fn wake_all(&mut self, panics: &mut Panics) {
        let len = core::mem::take(&mut self.len);
        for slot in &mut self.wakers[..len] {
            if let Some(waker) = slot.take() {
                panics.catch(move || waker.wake());
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    /// What `list` panics with when it wakes.
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
}
