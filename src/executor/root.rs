//! The root, which is the future that `block_on` drives: its waker, and its turns among the tasks.
//!
//! On the owner thread a wake puts the root into a lane of the run queue, as it does a task. From another thread it raises
//! a flag, which the owner takes note of before it polls.
//!
//! Ground rules:
//!
//! * Every `block_on` has a `Root` of its own, so that a stale waker of an earlier one wakes nobody else.
//! * The flag is raised first and the owner unparked after. The owner that is about to park says so first and
//!   looks at the flag after; see `remote.rs`.

use super::lanes::Lane;
use super::local::{self, Local, yielding};
use super::remote::Remote;
use super::task_list::Origin;
use crate::coop::budget;
use crate::sync::{AtomicBool, Ordering};
use futures_task::{ArcWake, waker_ref};
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

/// The root of the `block_on` under way, as its executor knows it.
pub(super) struct CurrentRoot {
    root: Arc<Root>,
    /// It waits in a lane.
    queued: bool,
    /// It is being polled.
    polled: bool,
}

impl ArcWake for Root {
    fn wake_by_ref(root: &Arc<Self>) {
        if local::wake_root_here(root, &root.remote) {
            return;
        }
        // SeqCst: it comes before the unparker's look at whether the owner parks. It releases too, also when
        // the flag was up, so that the poll sees what was written before this wake. If it was up, the
        // thread that raised it unparks the owner.
        if !root.woken.swap(true, Ordering::SeqCst) {
            root.remote.unpark();
        }
    }
}

impl Local {
    /// Makes `root` the future of `block_on` that takes turns with the tasks, and queues it.
    pub(super) fn set_root(&self, root: Arc<Root>) {
        let before = self.root.replace(Some(CurrentRoot { root, queued: true, polled: false }));
        debug_assert!(before.is_none(), "two roots");
        self.tasks.borrow_mut().queue_root(Lane::Woken);
    }

    /// The future of `block_on` has come to its end.
    pub(super) fn unset_root(&self) {
        let root = self.root.take();
        if root.is_some_and(|root| root.queued) {
            self.tasks.borrow_mut().remove_root();
        }
    }

    /// Queues `root`, if it is the future of the `block_on` under way and not queued yet.
    pub(super) fn wake_root(&self, root: &Arc<Root>) {
        if let Some(current) = &mut *self.root.borrow_mut() {
            if Arc::ptr_eq(&current.root, root) && !current.queued {
                current.queued = true;
                let lane = if current.polled { yielding() } else { self.lane.get() };
                self.tasks.borrow_mut().queue_root(lane);
            }
        }
    }

    /// What the data pointer of the waker says with which the root is polled; zero if there is none.
    pub(super) fn root_address(&self) -> usize {
        let root = self.root.borrow();
        root.as_ref().map_or(0, |current| waker_ref(&current.root).data().addr())
    }

    pub(super) fn root_is_woken(&self) -> bool {
        self.root.borrow().as_ref().is_some_and(|current| current.root.is_woken())
    }

    /// Takes note of a wake of the future of `block_on` from another thread.
    pub(super) fn take_root(&self) {
        let woken = match &*self.root.borrow() {
            Some(current) if current.root.take_woken() => current.root.clone(),
            _ => return,
        };
        self.wake_root(&woken);
    }

    /// Calls `poll`, which polls the root, whose turn it is, for the `count`th time; its `block_on` was called there.
    pub(super) fn poll_root<R>(&self, origin: Origin, count: u64, poll: impl FnOnce() -> R) -> R {
        /// It is not polled any more, also after a panic.
        struct Ends<'a>(&'a Local);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                if let Some(current) = &mut *self.0.root.borrow_mut() {
                    current.polled = false;
                }
            }
        }
        if let Some(current) = &mut *self.root.borrow_mut() {
            current.queued = false;
            current.polled = true;
        }
        let _ends = Ends(self);
        self.remote().polling().root(origin, count, || budget::fresh(poll))
    }
}
