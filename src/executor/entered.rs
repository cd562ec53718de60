//! Which executor this thread has entered, and which task it polls: thread-locals that wakers, spawns and task references ask.
//!
//! Ground rules:
//!
//! * `CURRENT` has no destructor: so access to it is cheap, and possible until the thread ends. The executor that it holds is
//!   taken out by the guard that put it in.
//! * A borrow of it lasts for one call that runs no user code.

use super::Root;
use super::local::Local;
use super::remote::Remote;
use super::task::{Remains, TaskRef};
use crate::sync::thread_local;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

/// The executor that a thread has entered.
struct Entered {
    /// Its `Remote`, only for comparisons and never dereferenced; null if there is none.
    remote: Cell<*const Remote>,
    local: RefCell<Option<ManuallyDrop<Rc<Local>>>>,
    /// The task that this thread is polling. Null if it polls none.
    polled: Cell<*const ()>,
}

thread_local! {
    static CURRENT: Entered = const {
        Entered { remote: Cell::new(ptr::null()), local: RefCell::new(None), polled: Cell::new(ptr::null()) }
    };
}

/// While this guard lives, its executor is the one that this thread has entered.
#[must_use = "the executor is left when the guard is dropped"]
pub(crate) struct Enter {
    previous: Option<Rc<Local>>,
}

impl Drop for Enter {
    fn drop(&mut self) {
        let left = exchange(self.previous.take());
        drop(left);
    }
}

/// Makes `local` this thread's executor until the guard is dropped.
pub(super) fn enter(local: Rc<Local>) -> Enter {
    Enter { previous: exchange(Some(local)) }
}

/// Makes `local` the executor that this thread has entered, and returns the previous one.
fn exchange(local: Option<Rc<Local>>) -> Option<Rc<Local>> {
    CURRENT.with(|current| {
        current.remote.set(local.as_ref().map_or(ptr::null(), |local| Arc::as_ptr(local.remote())));
        current.local.replace(local.map(ManuallyDrop::new)).map(ManuallyDrop::into_inner)
    })
}

/// Returns the executor that this thread has entered.
#[inline]
pub(super) fn executor() -> Option<Rc<Local>> {
    CURRENT.with(|current| current.local.borrow().as_deref().cloned())
}

/// Returns whether this thread has entered the executor that `remote` belongs to.
#[inline]
pub(super) fn is_current(remote: &Arc<Remote>) -> bool {
    CURRENT.with(|current| ptr::eq(current.remote.get(), Arc::as_ptr(remote)))
}

/// Notes that from now on this thread polls `task`; null if it polls none. Returns the task that it polled before.
#[inline]
pub(super) fn set_polled(task: *const ()) -> *const () {
    CURRENT.with(|current| current.polled.replace(task))
}

/// Returns the task that this thread is polling, or null.
#[inline]
pub(super) fn polled() -> *const () {
    CURRENT.with(|current| current.polled.get())
}

/// Calls `look` with the executor that `remote` belongs to, if this thread has entered it.
pub(super) fn here<R>(remote: &Arc<Remote>, look: impl FnOnce(&Local) -> R) -> Option<R> {
    let local = CURRENT.with(|current| {
        let entered = current.local.borrow();
        entered.as_deref().filter(|local| Arc::ptr_eq(local.remote(), remote)).cloned()
    });
    // The borrow has ended, so `look` may do anything.
    local.as_deref().map(look)
}

/// Wakes `task` if this thread has entered its executor; returns false if it has not.
#[inline]
pub(super) fn wake_here(task: &TaskRef) -> bool {
    CURRENT.with(|current| {
        if !ptr::eq(current.remote.get(), Arc::as_ptr(task.remote())) {
            return false;
        }
        if !task.is_queued() && !task.is_complete() {
            if let Some(local) = &*current.local.borrow() {
                local.wake(task);
            }
        }
        true
    })
}

/// Wakes `root` if this thread has entered its executor; returns false if it has not.
pub(super) fn wake_root_here(root: &Arc<Root>, remote: &Arc<Remote>) -> bool {
    CURRENT.with(|current| {
        let here = ptr::eq(current.remote.get(), Arc::as_ptr(remote));
        if let (true, Some(local)) = (here, &*current.local.borrow()) {
            local.wake_root(root);
        }
        here
    })
}

/// Keeps the remains of a task for a later task, if this thread has entered the task's executor. Otherwise they are freed.
#[inline]
pub(super) fn give_back(remains: Remains) {
    let unwanted = CURRENT.with(|current| match current.local.borrow().as_deref() {
        Some(local) => local.keep_remains(remains),
        None => Some(remains),
    });
    // Freed and dropped here, after the borrows have ended.
    drop(unwanted);
}
