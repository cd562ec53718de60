//! The cooperative budget: how many ready results one poll of a task may take.
//!
//! A task that awaits an always-readable socket, or sleeps of no length, would never return to the
//! executor, because each of its leaf futures is ready at once. So every leaf future asks [`poll_proceed`]
//! before it looks for a result. After [`LIMIT`] results within one poll of a task the leaf wakes its own
//! task and returns `Pending`, and everybody else gets a turn.
//!
//! Ground rules:
//!
//! * The count belongs to the thread and is set anew by [`fresh`] around each poll of a task.
//! * Outside a task (a foreign executor, a plain thread) there is no limit.
//! * Only a result that was really taken is charged: a leaf that turns out to be pending pays nothing.

use crate::sync::thread_local;
use std::cell::Cell;
use std::task::{Context, Poll};

/// Ready results that one poll of a task may take from leaf futures.
pub(crate) const LIMIT: u32 = 128;

/// The count that stands for "no limit".
const UNLIMITED: u32 = u32::MAX;

thread_local! {
    static LEFT: Cell<u32> = const { Cell::new(UNLIMITED) };
}

/// Permission to take one result. Spent with [`Permit::spend`] once the result is in hand.
#[derive(Debug)]
#[must_use = "a permit that is not spent charges nothing"]
pub(crate) struct Permit(());

impl Permit {
    /// Charges the running poll for one result.
    #[inline]
    pub(crate) fn spend(self) {
        LEFT.with(|left| {
            let n = left.get();
            if n != UNLIMITED {
                left.set(n.saturating_sub(1));
            }
        });
    }
}

/// Asks whether the running poll may take another result. If it may not, the task has been woken, to go on
/// in a later turn.
#[inline]
pub(crate) fn poll_proceed(cx: &mut Context<'_>) -> Poll<Permit> {
    if LEFT.with(Cell::get) == 0 {
        cx.waker().wake_by_ref();
        return Poll::Pending;
    }
    Poll::Ready(Permit(()))
}

/// Runs `f`, one poll of a task, with a full budget; the caller's own budget is untouched by it.
#[inline]
pub(crate) fn fresh<R>(f: impl FnOnce() -> R) -> R {
    with(LIMIT, f)
}

/// Runs `f` without a limit.
#[inline]
pub(crate) fn unlimited<R>(f: impl FnOnce() -> R) -> R {
    with(UNLIMITED, f)
}

fn with<R>(left: u32, f: impl FnOnce() -> R) -> R {
    /// Puts the caller's count back, also when `f` panics.
    struct Restore(u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            LEFT.with(|left| left.set(self.0));
        }
    }
    let _restore = Restore(LEFT.with(|l| l.replace(left)));
    f()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_task::noop_waker_ref;

    fn take() -> bool {
        match poll_proceed(&mut Context::from_waker(noop_waker_ref())) {
            Poll::Ready(permit) => {
                permit.spend();
                true
            }
            Poll::Pending => false,
        }
    }

    #[test]
    fn a_poll_takes_exactly_the_limit() {
        fresh(|| {
            for _ in 0..LIMIT {
                assert!(take());
            }
            assert!(!take());
            assert!(!take());
        });
        fresh(|| assert!(take()));
    }

    #[test]
    fn an_unspent_permit_is_free() {
        fresh(|| {
            for _ in 0..10 * LIMIT {
                let _ = poll_proceed(&mut Context::from_waker(noop_waker_ref())).is_ready();
            }
            assert!(take());
        });
    }

    #[test]
    fn unlimited_and_outside_have_no_limit_and_give_back() {
        assert!((0..1000).all(|_| take()));
        fresh(|| {
            for _ in 0..LIMIT {
                assert!(take());
            }
            unlimited(|| assert!((0..1000).all(|_| take())));
            assert!(!take());
        });
        let panicked = std::panic::catch_unwind(|| fresh(|| panic!("inside a poll")));
        assert!(panicked.is_err());
        assert!((0..1000).all(|_| take()));
    }
}
