//! The waker of the future that `block_on` drives: a flag.
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

/// Whether the root future is to be polled.
pub(crate) struct Root {
    woken: AtomicBool,
    remote: Arc<Remote>,
}

impl Root {
    /// A flag that is raised, because a future's first poll needs no wake.
    pub(crate) fn new(remote: &Arc<Remote>) -> Arc<Root> {
        Arc::new(Root { woken: AtomicBool::new(true), remote: remote.clone() })
    }

    /// Lowers the flag, and says whether it was raised. Called before the poll, so that a wake during the
    /// poll raises it again.
    pub(crate) fn take_woken(&self) -> bool {
        // Acquire: the poll sees what was written before the wake.
        self.woken.load(Ordering::Relaxed) && self.woken.swap(false, Ordering::Acquire)
    }

    /// Whether the flag is raised. For the owner that is about to park.
    pub(crate) fn is_woken(&self) -> bool {
        // SeqCst: it comes after the owner's "I am parking".
        self.woken.load(Ordering::SeqCst)
    }
}

impl ArcWake for Root {
    fn wake_by_ref(root: &Arc<Self>) {
        // SeqCst: it comes before the notifier's look at whether the owner parks. It releases too, also when
        // the flag was up, so that the poll sees what was written before this wake. If it was up, whoever
        // raised it rouses the owner, or is the owner.
        if !root.woken.swap(true, Ordering::SeqCst) && !local::is_current(&root.remote) {
            root.remote.notify();
        }
    }
}
