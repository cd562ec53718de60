//! `Panics`: the first panic of foreign code, kept until our own work is done.
//!
//! Ground rules:
//!
//! * Foreign code that panics keeps nobody else from being served: the panic is caught, and what comes after it goes on. The
//!   first is resumed at the end; what later ones left behind is disposed of.
//! * A payload is somebody's value. Its drop may panic in turn, and leave a payload behind whose drop panics: a few are
//!   dropped so, and then one is forgotten.
//! * Nothing is resumed while the thread unwinds already: that would abort the process.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// What a panic left behind.
type Payload = Box<dyn Any + Send + 'static>;

/// So many payloads are dropped, each of which came from the drop of the one before.
const DROPS: usize = 8;

/// Calls foreign code, and keeps the first of its panics.
pub(crate) struct Panics(Option<Payload>);

impl Panics {
    /// Nobody has panicked.
    pub(crate) const fn new() -> Panics {
        Panics(None)
    }

    /// Calls `foreign`, and catches its panic.
    #[inline]
    pub(crate) fn catch(&mut self, foreign: impl FnOnce()) {
        // AssertUnwindSafe: callers hand over what the call needs, or things that are whole between two calls.
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

    /// Goes on with the first panic, if there was one and none is under way.
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

    /// A payload whose drop panics with another, so many times.
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
        // Dropped, and resumed while another one is under way.
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
