//! The handle's side of a task: the one right to its output, and the waker it leaves.
//!
//! Ground rules:
//!
//! * A task has one [`Claim`], made with it, and the claim counts as a reference.
//! * The claim touches the cell of its waker only while JOIN_WAKER is unset, or COMPLETE was unset in the very step
//!   that unset JOIN_WAKER.
//! * A waker is cloned before the word changes and dropped after: both are user code.

use super::header::TaskRef;
use super::state::Change;
use super::{cell, quietly};
use crate::executor::join::JoinError;
use crate::executor::remote::{Owner, Remote};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// A new task, whose output nobody has claimed yet.
pub(in crate::executor) struct Unclaimed<F: Future> {
    task: TaskRef,
    _future: PhantomData<F>,
}

impl<F: Future + 'static> Unclaimed<F> {
    /// A task that was made on its owner's thread, with a reference to the owner's `Remote`.
    #[inline]
    pub(in crate::executor) fn local(future: F, owner: &Owner, remote: Arc<Remote>) -> Unclaimed<F> {
        debug_assert!(owner.owns(&remote));
        Unclaimed { task: cell::new(future, remote), _future: PhantomData }
    }

    /// A task that will be sent to its owner's thread.
    pub(in crate::executor) fn remote(future: F, remote: Arc<Remote>) -> Unclaimed<F>
    where
        F: Send,
        F::Output: Send,
    {
        Unclaimed { task: cell::new(future, remote), _future: PhantomData }
    }

    /// The task, to be queued. It counts as queued already.
    #[inline]
    pub(in crate::executor) fn runnable(&mut self) -> TaskRef {
        match self.task.get_mut() {
            // Nobody else has it: no atomic step is needed.
            Some(header) => {
                header.state.add_second_ref();
                // SAFETY: The pointer is the task's, and the reference was counted just now.
                unsafe { TaskRef::from_raw(self.task.as_raw()) }
            }
            None => self.task.clone(),
        }
    }

    /// Drops the future of a task that no executor has taken, and completes it as cancelled.
    ///
    /// # Panics
    ///
    /// If somebody else has a reference to the task.
    pub(in crate::executor) fn refuse(&mut self) {
        // SAFETY: The task was made from an `F`.
        unsafe { cell::refuse::<F>(&mut self.task) }
    }

    /// The claim to the output.
    #[inline]
    pub(in crate::executor) fn claim(self) -> Claim<F::Output> {
        Claim { task: ManuallyDrop::new(self.task), registered: (0, 0), _output: PhantomData }
    }
}

/// The one claim to a task's output. It goes to another thread only if the output may; sharing it gives
/// nobody the output, hence `Mutex`, which is Sync under that same condition.
pub(in crate::executor) struct Claim<T> {
    task: ManuallyDrop<TaskRef>,
    /// The two addresses that the waker in the cell is made of; the second is 0 if the cell is empty.
    registered: (usize, usize),
    _output: PhantomData<Mutex<T>>,
}

/// What a waker is made of. Two wakers made of the same wake the same.
fn identity(waker: &Waker) -> (usize, usize) {
    (waker.data() as usize, ptr::from_ref(waker.vtable()) as usize)
}

impl<T> Claim<T> {
    /// Whether the result is there.
    pub(in crate::executor) fn is_complete(&self) -> bool {
        self.task.is_complete()
    }

    /// Asks the owner to drop the future.
    pub(in crate::executor) fn abort(&self) {
        self.task.state.abort();
        self.task.wake();
    }

    /// Has `waker` woken on completion. The caller looks for that once more afterwards.
    pub(in crate::executor) fn register(&mut self, waker: &Waker) {
        if self.registered == identity(waker) {
            return;
        }
        let waker = waker.clone();
        let identity = identity(&waker);
        let Some(old) = self.empty_cell() else { return };
        self.task.join.with_mut(|join| {
            // SAFETY: The pointer is valid, being an UnsafeCell's. JOIN_WAKER is unset: the cell is the claim's.
            unsafe { *join = Some(waker) }
        });
        let unwanted = if self.task.state.change(Change::SetWaker, self.task.is_at_home()) {
            self.registered = identity;
            None
        } else {
            self.take_waker()
        };
        drop((old, unwanted));
    }

    /// The result, once it is there, the first time.
    #[inline]
    pub(in crate::executor) fn take(&mut self) -> Option<Result<T, JoinError>> {
        if !self.is_complete() {
            return None;
        }
        let mut result = None;
        // SAFETY: This is the one claim, its JOIN_INTEREST is set until it is dropped, and COMPLETE was found set
        // just now, by a load that acquires. The claim was made with this type, by `Unclaimed::claim`.
        unsafe { self.task.take_result(NonNull::from(&mut result).cast()) };
        result
    }

    /// Makes the cell empty and the claim's; returns what was in it. None if the task has completed.
    fn empty_cell(&mut self) -> Option<Option<Waker>> {
        if self.registered.1 == 0 {
            return Some(None);
        }
        if !self.task.state.change(Change::UnsetWaker, self.task.is_at_home()) {
            return None;
        }
        self.registered = (0, 0);
        Some(self.take_waker())
    }

    /// Takes the waker out of the cell, which is the claim's: JOIN_WAKER is unset.
    fn take_waker(&mut self) -> Option<Waker> {
        self.task.join.with_mut(|join| {
            // SAFETY: The pointer is valid, being an UnsafeCell's. JOIN_WAKER is unset, as the callers have made
            // sure, and the claim, which alone sets it, is borrowed mutably.
            unsafe { (*join).take() }
        })
    }
}

impl<T> Drop for Claim<T> {
    #[inline]
    fn drop(&mut self) {
        // A task that waits for itself would otherwise keep itself alive. (tokio #3477)
        let waker = self.empty_cell().flatten();
        if !self.task.state.change(Change::Leave, self.task.is_at_home()) {
            let result = self.take();
            quietly(|| drop(result));
            // SAFETY: Dropped once, here. `Leave` would have given the reference up.
            unsafe { ManuallyDrop::drop(&mut self.task) };
        }
        drop(waker);
    }
}
