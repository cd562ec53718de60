//! The waker of the future that `block_on` drives.
//!
//! On the owner thread a wake puts the root into a lane of the run queue, as it does a task. From another thread it raises
//! a flag, which the owner takes note of before it polls.
//!
//! Ground rules:
//!
//! * Every `block_on` has a `Root` of its own, so that a stale waker of an earlier one wakes nobody else.
//! * The flag is raised first and the owner roused after. The owner that is about to park says so first and
//!   looks at the flag after; see `remote.rs`.

use super::local;
use super::remote::Remote;
use crate::sync::{AtomicBool, Ordering};
use futures_task::ArcWake;
use std::sync::Arc;

/// Whether another thread has woken the root future.
pub(crate) struct Root {
    woken: AtomicBool,
    remote: Arc<Remote>,
}

impl Root {
    /// The root of a `block_on` of this executor.
    pub(super) fn new(remote: &Arc<Remote>) -> Arc<Root> {
        Arc::new(Root { woken: AtomicBool::new(false), remote: remote.clone() })
    }

    /// Lowers the flag, and says whether it was raised. Called before the poll, so that a wake during the
    /// poll raises it again.
    pub(super) fn take_woken(&self) -> bool {
        // Acquire: the poll sees what was written before the wake.
        self.woken.load(Ordering::Relaxed) && self.woken.swap(false, Ordering::Acquire)
    }

    /// Whether the flag is raised. For the owner that is about to park.
    pub(super) fn is_woken(&self) -> bool {
        // SeqCst: it comes after the owner's "I am parking".
        self.woken.load(Ordering::SeqCst)
    }
}

impl ArcWake for Root {
    fn wake_by_ref(root: &Arc<Self>) {
        if local::wake_root_here(root, &root.remote) {
            return;
        }
        // SeqCst: it comes before the notifier's look at whether the owner parks. It releases too, also when
        // the flag was up, so that the poll sees what was written before this wake. If it was up, whoever
        // raised it rouses the owner.
        if !root.woken.swap(true, Ordering::SeqCst) {
            root.remote.notify();
        }
    }
}
