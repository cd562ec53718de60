//! The one place that decides what happens to a panic of foreign code.
//!
//! Ground rules:
//!
//! * The first panic of a batch is kept, and resumed when the batch is done. All others are discarded.
//! * To discard a payload is to drop it. That runs foreign code, which may panic in turn, and dropping the payload of
//!   that panic may panic, too. [`TRIES`] drops are attempted, and the payload that is left then is forgotten.
//! * No panic is resumed on a thread that is already unwinding: that would abort the process.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;
use std::thread;

/// The payload of a panic.
pub(crate) type Payload = Box<dyn Any + Send + 'static>;

/// The maximum number of payloads that are dropped, each raised by the drop before it. The next one is forgotten.
const TRIES: usize = 8;

/// Collects the panics of a batch: calls that are made one after the other, even if some of them panic.
#[derive(Default)]
#[must_use = "the first panic is to be resumed or handed on"]
pub(crate) struct Panics {
    first: Option<Payload>,
}

impl Panics {
    pub(crate) fn new() -> Panics {
        Panics::default()
    }

    /// Calls `f`. `None` if it panicked.
    #[inline]
    pub(crate) fn catch<R>(&mut self, f: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(result) => Some(result),
            Err(payload) => {
                self.keep(payload);
                None
            }
        }
    }

    /// Wakes all wakers.
    pub(crate) fn wake_all(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        for waker in wakers {
            self.catch(|| waker.wake());
        }
    }

    /// Keeps `payload` if it is the first, and discards it otherwise.
    #[cold]
    pub(crate) fn keep(&mut self, payload: Payload) {
        match self.first {
            None => self.first = Some(payload),
            Some(_) => discard(payload),
        }
    }

    /// Resumes the first panic, if there was one. On a thread that is already unwinding, it is discarded.
    #[inline]
    pub(crate) fn resume(self) {
        if let Some(payload) = self.first {
            if !thread::panicking() {
                resume_unwind(payload);
            }
            discard(payload);
        }
    }
}

/// Wakes all wakers, then resumes the first panic, as [`Panics::resume`] does.
pub(crate) fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    let mut panics = Panics::new();
    panics.wake_all(wakers);
    panics.resume();
}

/// Runs `f`. If it panics, only the panic hook learns of it.
#[inline]
pub(crate) fn quietly(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        discard(payload);
    }
}

/// Drops the payload of a panic.
#[cold]
pub(crate) fn discard(payload: Payload) {
    let mut left = payload;
    for _ in 0..TRIES {
        match catch_unwind(AssertUnwindSafe(|| drop(left))) {
            Ok(()) => return,
            Err(next) => left = next,
        }
    }
    mem::forget(left);
}

/// A payload that panics when it is dropped, for the tests of code that collects panics.
#[cfg(all(test, not(loom)))]
pub(crate) mod bomb {
    use std::panic::panic_any;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A payload whose drop panics with another such payload, and so on, `depth` times. Each drop is counted.
    pub(crate) struct Bomb {
        pub(crate) depth: usize,
        pub(crate) drops: Arc<AtomicUsize>,
    }

    impl Bomb {
        pub(crate) fn raise(depth: usize) -> ! {
            panic_any(Bomb { depth, drops: Arc::default() })
        }
    }

    impl Drop for Bomb {
        fn drop(&mut self) {
            self.drops.fetch_add(1, Ordering::SeqCst);
            if self.depth > 0 {
                panic_any(Bomb { depth: self.depth - 1, drops: self.drops.clone() });
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::bomb::Bomb;
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn the_first_panic_is_kept_and_every_call_is_made() {
        let mut panics = Panics::new();
        let returned: Vec<_> =
            (0..5).map(|n| panics.catch(|| if n % 2 == 1 { panic!("{n}") } else { n })).collect();
        assert_eq!(returned, [Some(0), None, Some(2), None, Some(4)]);
        let first = catch_unwind(AssertUnwindSafe(|| panics.resume())).unwrap_err();
        assert_eq!(*first.downcast::<String>().unwrap(), "1");
        assert!(Panics::new().first.is_none());
    }

    #[test]
    fn a_payload_that_panics_as_it_is_dropped_is_dropped_to_its_end_or_forgotten() {
        for (depth, dropped) in [(0, 1), (1, 2), (2, 3), (7, 8), (8, TRIES), (100, TRIES)] {
            let drops = Arc::new(AtomicUsize::new(0));
            let mut panics = Panics::new();
            panics.keep(Box::new("the first"));
            panics.keep(Box::new(Bomb { depth, drops: drops.clone() }));
            assert_eq!(drops.load(Ordering::SeqCst), dropped, "depth {depth}");
            assert_eq!(*panics.first.unwrap().downcast::<&str>().unwrap(), "the first");
            quietly(|| Bomb::raise(depth));
        }
    }

    /// A panic on a thread that is already unwinding would abort the process, and this test with it.
    #[test]
    fn nothing_is_resumed_on_a_thread_that_unwinds() {
        struct Collects;
        impl Drop for Collects {
            fn drop(&mut self) {
                let mut panics = Panics::new();
                panics.catch(|| Bomb::raise(3));
                panics.resume();
            }
        }
        let unwound = catch_unwind(|| {
            let _collects = Collects;
            panic!("the one under way");
        });
        assert_eq!(*unwound.unwrap_err().downcast::<&str>().unwrap(), "the one under way");
    }
}
