//! A gate that many tasks pass, and one that waits for the last of them.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Counts until all have passed, and wakes who waits for that. Waiting by yielding instead would keep the tasks of
/// some runtimes from running at all.
pub(super) struct Gate {
    left: Cell<usize>,
    waiter: RefCell<Option<Waker>>,
}

impl Gate {
    /// A gate that `all` are to pass.
    pub(super) fn new(all: usize) -> Gate {
        Gate { left: Cell::new(all), waiter: RefCell::default() }
    }

    /// The same for the next `all`.
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
