//! The handle's side of a task: the only right to its output, and the waker that the handle leaves.
//!
//! Ground rules:
//!
//! * A task has one [`Claim`], made with it, and the claim counts as a reference.
//! * The claim touches the cell of its waker only while JOIN_WAKER is unset, or COMPLETE was unset in the very step
//!   that unset JOIN_WAKER.
//! * A waker is cloned before the word changes and dropped after: both are user code.

use super::cell;
use super::header::{TaskRef, task_of};
use super::state::Change;
use crate::executor::join::JoinError;
use crate::executor::remote::{Owner, Remote};
use crate::executor::tasks::Spawned;
use crate::panics::quietly;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// Makes a new task on its owner's thread, with a reference to the owner's `Remote`. Returns the owner's reference
/// to the task, and the claim. The task counts as queued already.
#[inline]
pub(in crate::executor) fn local<F: Future + 'static>(
    future: F,
    spawned: Spawned,
    owner: &Owner,
    remote: Arc<Remote>,
) -> (TaskRef, Claim<F::Output>) {
    new(future, spawned, remote, Some(owner))
}

/// Like [`local`], for a task that will be sent to its owner's thread.
pub(in crate::executor) fn remote<F>(future: F, spawned: Spawned, remote: Arc<Remote>) -> (TaskRef, Unsent<F>)
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    unsent(future, spawned, remote)
}

/// Like [`remote`], for a task whose future `build` makes when the task is polled for the first time. That future need not
/// be Send.
pub(in crate::executor) fn built<B, F>(
    build: B,
    spawned: Spawned,
    remote: Arc<Remote>,
) -> (TaskRef, Unsent<impl Future<Output = F::Output> + 'static>)
where
    B: FnOnce() -> F + Send + 'static,
    F: Future + 'static,
    F::Output: Send,
{
    // Before its first poll, on the owner's thread, an async block holds only what it captures: `build`.
    unsent(async move { build().await }, spawned, remote)
}

/// Like [`remote`]. The caller must make sure that `future`, until it is polled, may go from thread to thread.
fn unsent<F: Future + 'static>(future: F, spawned: Spawned, remote: Arc<Remote>) -> (TaskRef, Unsent<F>) {
    let (task, claim) = new(future, spawned, remote, None);
    (task, Unsent { claim, _future: PhantomData })
}

/// Returns the claim to a task that no executor takes: its future is dropped immediately, and the task completes as cancelled.
pub(in crate::executor) fn refused<F: Future + 'static>(
    future: F,
    spawned: Spawned,
    remote: Arc<Remote>,
) -> Claim<F::Output> {
    let (task, mut claim) = new(future, spawned, remote, None);
    drop(task);
    // SAFETY: The task was made from an `F`, above, on this thread, and nobody has seen it since.
    unsafe { cell::refuse::<F>(&mut claim.task) };
    claim
}

#[inline]
fn new<F: Future + 'static>(
    future: F,
    spawned: Spawned,
    remote: Arc<Remote>,
    owner: Option<&Owner>,
) -> (TaskRef, Claim<F::Output>) {
    let (task, claimed) = cell::new(future, spawned, remote, owner);
    (task, Claim { task: ManuallyDrop::new(claimed), left: EMPTY, _output: PhantomData })
}

/// The claim to a task that may be refused by the executor it is sent to. The future may go from thread to thread until it is
/// polled.
pub(in crate::executor) struct Unsent<F: Future> {
    claim: Claim<F::Output>,
    _future: PhantomData<F>,
}

impl<F: Future + 'static> Unsent<F> {
    /// Drops the future of a task that no executor has taken, and completes it as cancelled.
    ///
    /// # Panics
    ///
    /// If there is another reference to the task.
    pub(in crate::executor) fn refuse(&mut self) {
        // SAFETY: The task was made from an `F`, in `unsent`, the only place where an `Unsent` is made. Its callers see to
        // it that a future that was not polled, as that of a task without an executor, may go from thread to thread.
        unsafe { cell::refuse::<F>(&mut self.claim.task) }
    }

    /// The claim to the output.
    pub(in crate::executor) fn claim(self) -> Claim<F::Output> {
        self.claim
    }
}

/// The only claim to a task's output. It may be sent to another thread only if the output may. Sharing the claim gives no
/// thread access to the output, hence `Mutex`, which is Sync under that same condition.
pub(in crate::executor) struct Claim<T> {
    task: ManuallyDrop<TaskRef>,
    /// What the claim has left in the cell: [`EMPTY`], [`FOREIGN`], or the address of the task, one of ours, that will be
    /// woken. Or [`TAKEN`].
    left: usize,
    _output: PhantomData<Mutex<T>>,
}

/// The cell is empty.
const EMPTY: usize = 0;
/// The waker in the cell is not a task's. No task has this address, nor the next.
const FOREIGN: usize = 1;
/// The output was taken, and the cell no longer matters.
const TAKEN: usize = 2;

impl<T> Claim<T> {
    /// Returns whether the result is there.
    #[inline]
    pub(in crate::executor) fn is_complete(&self) -> bool {
        self.task.is_complete()
    }

    /// Returns whether the result was taken.
    #[inline]
    pub(in crate::executor) fn is_taken(&self) -> bool {
        self.left == TAKEN
    }

    /// The task.
    #[inline]
    pub(in crate::executor) fn task(&self) -> &TaskRef {
        &self.task
    }

    /// Has `waker` woken on completion. The caller must check for completion once more afterwards.
    pub(in crate::executor) fn register(&mut self, waker: &Waker) {
        // One of our tasks is identified by its address, which no other task has while its waker is in the cell.
        let address = task_of(waker).unwrap_or(FOREIGN);
        if address != FOREIGN && address == self.left {
            return;
        }
        let waker = waker.clone();
        let Some(old) = self.empty_cell() else { return };
        self.task.join.with_mut(|join| {
            // SAFETY: The pointer is valid, being an UnsafeCell's. JOIN_WAKER is unset: the cell is the claim's.
            unsafe { *join = Some(waker) }
        });
        let unwanted = if self.task.state.change(Change::SetWaker, self.task.held_at_home()) {
            self.left = address;
            None
        } else {
            self.take_waker()
        };
        drop((old, unwanted));
    }

    /// Takes the result, if it is there and was not taken before.
    #[inline]
    pub(in crate::executor) fn take(&mut self) -> Option<Result<T, JoinError>> {
        if !self.is_complete() {
            return None;
        }
        let mut result = None;
        // SAFETY: This is the one claim, its JOIN_INTEREST is set until it is dropped, and COMPLETE was found set
        // just now, by a load that acquires. The claim was made with this type, by `new`.
        unsafe { self.task.take_result(NonNull::from(&mut result).cast()) };
        self.left = TAKEN;
        result
    }

    /// Takes the cell back and empties it; returns what was in it. None if the task has completed.
    #[inline]
    fn empty_cell(&mut self) -> Option<Option<Waker>> {
        if matches!(self.left, EMPTY | TAKEN) {
            return Some(None);
        }
        if !self.task.state.change(Change::UnsetWaker, self.task.held_at_home()) {
            return None;
        }
        self.left = EMPTY;
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
        if self.left == TAKEN || !self.task.state.change(Change::Leave, self.task.held_at_home()) {
            if self.left != TAKEN {
                let result = self.take();
                quietly(|| drop(result));
            }
            // SAFETY: Dropped once, here. `Leave` would have given the reference up.
            unsafe { ManuallyDrop::drop(&mut self.task) };
        }
        drop(waker);
    }
}
