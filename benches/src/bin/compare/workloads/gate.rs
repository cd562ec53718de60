//! A gate through which many tasks pass, while one task waits for the last of them.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Counts until all have passed, and wakes the task that waits for that. If it waited by yielding instead, the
/// tasks would not run at all on some runtimes.
pub(super) struct Gate {
    left: Cell<usize>,
    waiter: RefCell<Option<Waker>>,
}

impl Gate {
    /// Makes a gate through which `all` must pass.
    pub(super) fn new(all: usize) -> Gate {
        Gate { left: Cell::new(all), waiter: RefCell::default() }
    }

    /// Resets the gate for the next `all`.
    pub(super) fn again(&self, all: usize) {
        self.left.set(all);
    }

    pub(super) fn pass(&self) {
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0
            && let Some(waker) = self.waiter.take()
        {
            waker.wake();
        }
    }

    pub(super) async fn all_passed(&self) {
        poll_fn(|cx| {
            if self.left.get() == 0 {
                return Poll::Ready(());
            }
            *self.waiter.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
