//! The task cell: a header, and behind it the stage, which is the future and later the output.
//!
//! Ground rules:
//!
//! * Only this file touches a stage. `task/mod.rs` says which side may do so when.
//! * The cell is made here, in `new`, and ends here, in `end`. Its memory goes back to the pool by way of `entered.rs`.

use super::Progress;
use super::header::{Header, TaskRef, Vtable, lend};
use super::pool::Block;
use crate::coop;
use crate::executor::entered;
use crate::executor::join::JoinError;
use crate::executor::remote::{Owner, Remote};
use crate::executor::tasks::Spawned;
use crate::panics::{discard, quietly};
use crate::sync::UnsafeCell;
use std::alloc::Layout;
use std::mem::{self, ManuallyDrop};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

enum Stage<F: Future> {
    Running(F),
    Finished(Result<F::Output, JoinError>),
    Consumed,
}

impl<F: Future> Stage<F> {
    /// Drops the future where it is and puts the result in its place.
    #[inline]
    fn finish(&mut self, result: Result<F::Output, JoinError>) {
        if !mem::needs_drop::<F>() {
            // The future is overwritten without being read.
            mem::forget(mem::replace(self, Stage::Finished(result)));
            return;
        }
        // An assignment stores the new value even if the drop of the old one panics.
        let dropped = catch_unwind(AssertUnwindSafe(|| *self = Stage::Consumed));
        let result = match (dropped, result) {
            (Ok(()), result) => result,
            (Err(payload), Err(first)) if first.is_panic() => {
                discard(payload);
                Err(first)
            }
            (Err(payload), unwanted) => {
                quietly(|| drop(unwanted));
                Err(JoinError::panic(payload))
            }
        };
        // The overwritten stage is already consumed.
        mem::forget(mem::replace(self, Stage::Finished(result)));
    }
}

/// A future, later its output, together with the header for its wakers and its handle. The header comes first, so that a
/// pointer to the cell is also a pointer to the header.
#[repr(C)]
struct Cell<F: Future> {
    header: Header,
    /// Not dropped with the cell: it is always empty by then. See `end`.
    stage: UnsafeCell<ManuallyDrop<Stage<F>>>,
}

/// Makes a new task, and returns the owner's reference to it and the claim's. If `owner` is given, which must be the owner
/// of `remote`, the memory comes from the owner's pool.
#[inline]
pub(super) fn new<F: Future + 'static>(
    future: F,
    spawned: Spawned,
    remote: Arc<Remote>,
    owner: Option<&Owner>,
) -> (TaskRef, TaskRef) {
    let layout = const { Layout::new::<Cell<F>>() };
    let (vtable, block) = match owner {
        Some(owner) => {
            assert!(owner.owns(&remote), "a task was made for an executor that is not the owner's");
            (const { &vtable::<F>(true) }, owner.pool().take(layout))
        }
        None => (const { &vtable::<F>(false) }, Block::new(layout)),
    };
    let room = block.into_raw();
    let stage = UnsafeCell::new(ManuallyDrop::new(Stage::Running(future)));
    // The memory is allocated first and the parts are made after: so they are made in place, and not copied there.
    //
    // SAFETY: The room is as long and aligned as the layout says, and nobody else's.
    unsafe { room.cast::<Cell<F>>().write(Cell { header: Header::new(vtable, remote, spawned), stage }) };
    let task = room.cast();
    // SAFETY: The pointer is that of the whole room, in which the cell is, which is repr(C) and begins with the header.
    // The word was made with two references, which are these.
    unsafe { (TaskRef::from_raw(task), TaskRef::from_raw(task)) }
}

const fn vtable<F: Future + 'static>(pooled: bool) -> Vtable {
    let layout = Layout::new::<Cell<F>>();
    Vtable { run: run::<F>, cancel: cancel::<F>, take_result: take_result::<F>, layout, pooled }
}

/// Drops the future of a task that no executor has taken, and completes it as cancelled. `F` is the type of the
/// task's future, which may be dropped on this thread.
///
/// # Safety
///
/// `task` was made by [`new`] with a future of the type `F`.
///
/// # Panics
///
/// If there is another reference to the task.
pub(super) unsafe fn refuse<F: Future + 'static>(task: &mut TaskRef) {
    assert!(task.is_only(), "a task was refused that an executor has");
    // SAFETY: By the caller's promise the pointer is that of such a cell, which lives as long as the reference.
    let cell: &Cell<F> = unsafe { task.as_raw().cast().as_ref() };
    cell.stage.with_mut(|stage| {
        // SAFETY: The pointer is valid, being an UnsafeCell's, and nobody else has a reference to the task.
        let stage = unsafe { &mut *stage };
        stage.finish(Err(JoinError::cancelled()));
    });
    cell.header.state.complete(cell.header.held());
}

/// The right to form a reference to an uncompleted task's stage. Its holder is the owner thread. Only one `Busy` exists
/// for a task at a time, so there is no other reference.
struct Busy<'a, F: Future> {
    cell: &'a Cell<F>,
}

impl<'a, F: Future> Busy<'a, F> {
    /// Returns none if the task has completed, or if the call comes from within the task's future.
    #[inline]
    fn claim(cell: &'a Cell<F>, owner: &Owner) -> Option<Busy<'a, F>> {
        assert!(owner.owns(&cell.header.remote), "a task was run by an executor that is not its own");
        // By the assertion, only the owner thread gets here.
        if cell.header.is_complete() || cell.header.is_polled() {
            return None;
        }
        cell.header.set_polled(true);
        Some(Busy { cell })
    }

    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.cell.stage.with_mut(|stage| {
            // SAFETY: The pointer is valid, being an UnsafeCell's. The task is not complete, so that the stage is
            // the owner thread's, on which we are; there is one `Busy` at a time, and this borrows it.
            let stage = unsafe { &mut *stage };
            let Stage::Running(future) = &mut **stage else {
                unreachable!("a task that is not complete has its future");
            };
            // SAFETY: The future lies in a cell that is never moved, and is dropped where it lies, by
            // `Stage::finish`. Nothing moves it.
            let future = unsafe { Pin::new_unchecked(future) };
            future.poll(cx)
        })
    }

    #[cold]
    #[inline(never)]
    fn cancel(self) {
        self.complete(Err(JoinError::cancelled()));
    }

    /// Steps (4) and (5). (Inlined, so that the result need not be written to the stack and read back in wider words, which stalls.)
    #[inline(always)]
    fn complete(self, result: Result<F::Output, JoinError>) {
        let header = &self.cell.header;
        self.cell.stage.with_mut(|stage| {
            // SAFETY: As in `poll`.
            let stage = unsafe { &mut *stage };
            stage.finish(result);
        });
        // From here on no poll lends the waker out.
        header.set_polled(false);
        let before = header.state.complete(header.held());
        if !before.has_join_interest() {
            self.cell.stage.with_mut(|stage| {
                // SAFETY: The claim was gone before COMPLETE, so that the stage has stayed ours; as in `poll`.
                let stage = unsafe { &mut *stage };
                if mem::needs_drop::<F::Output>() || !matches!(**stage, Stage::Finished(Ok(_))) {
                    quietly(|| **stage = Stage::Consumed);
                }
                // Otherwise nothing is left to drop, whatever the stage says.
            });
        } else if before.has_join_waker() {
            // From here on the stage is the claim's, and the cell of its waker is ours.
            let waker = header.join.with_mut(|join| {
                // SAFETY: The pointer is valid, being an UnsafeCell's. JOIN_WAKER was set when COMPLETE was, and the
                // claim touches the cell only if it finds one of them unset.
                unsafe { (*join).take() }
            });
            if let Some(waker) = waker {
                quietly(|| waker.wake());
            }
        }
    }
}

impl<F: Future> Drop for Busy<'_, F> {
    #[inline]
    fn drop(&mut self) {
        self.cell.header.set_polled(false);
    }
}

/// Polls the task, or drops its future if the task was aborted.
///
/// # Safety
///
/// The pointer is that of a `Cell<F>` and reaches all of it, and a reference to the task exists for as long
/// as this takes.
unsafe fn run<F: Future + 'static>(task: NonNull<Header>, owner: &Owner) -> Progress {
    // SAFETY: By the caller's promise.
    let cell: &Cell<F> = unsafe { task.cast().as_ref() };
    let header = &cell.header;
    header.set_queued(false);
    let before = header.state.begin();
    let Some(mut busy) = Busy::claim(cell, owner) else {
        return Progress::Nothing;
    };
    if before.is_aborted() {
        busy.cancel();
        return Progress::Cancelled;
    }
    // SAFETY: By the caller's promise the task outlives this call, and the waker is only lent for the poll.
    let waker = unsafe { lend(task) };
    let cx = &mut Context::from_waker(&waker);
    let outer = entered::set_polled(task.as_ptr().cast_const().cast());
    let polled = catch_unwind(AssertUnwindSafe(|| coop::fresh(|| busy.poll(cx))));
    entered::set_polled(outer);
    let result = match polled {
        Ok(Poll::Ready(output)) => Ok(output),
        Err(payload) => Err(JoinError::panic(payload)),
        Ok(Poll::Pending) if header.state.load().is_aborted() => Err(JoinError::cancelled()),
        Ok(Poll::Pending) => return Progress::Pending,
    };
    busy.complete(result);
    Progress::Completed
}

/// Drops the future and completes the task as cancelled.
///
/// # Safety
///
/// As for [`run`].
unsafe fn cancel<F: Future + 'static>(task: NonNull<Header>, owner: &Owner) {
    // SAFETY: By the caller's promise.
    let cell: &Cell<F> = unsafe { task.cast().as_ref() };
    match Busy::claim(cell, owner) {
        Some(busy) => busy.cancel(),
        // If the task is being polled, `run` checks for this afterwards. Otherwise it is complete, and this has no effect.
        None => cell.header.state.abort(),
    }
}

/// Moves the result out, if it has not been taken yet.
///
/// # Safety
///
/// As for [`run`]; and as for [`Vtable::take_result`], the second pointer being valid for a write.
unsafe fn take_result<F: Future + 'static>(task: NonNull<Header>, to: NonNull<()>) {
    // SAFETY: By the caller's promise.
    let cell: &Cell<F> = unsafe { task.cast().as_ref() };
    let stage = cell.stage.with_mut(|stage| {
        // SAFETY: The pointer is valid, being an UnsafeCell's. By the caller's promise the task is complete
        // and its stage the claim's, which is the caller and calls this once at a time.
        let stage = unsafe { &mut *stage };
        mem::replace(&mut **stage, Stage::Consumed)
    });
    if let Stage::Finished(result) = stage {
        // SAFETY: By the caller's promise this is where such a value is, and may be replaced.
        unsafe { *to.cast::<Option<Result<F::Output, JoinError>>>().as_mut() = Some(result) };
    }
}

/// What a task leaves behind when it ends.
pub(in crate::executor) struct Remains {
    /// Its memory, if it was taken from the owner's pool; otherwise the memory has been freed.
    pub(in crate::executor) block: Option<Block>,
    pub(in crate::executor) remote: Arc<Remote>,
}

/// Ends the task, and returns what it leaves behind.
///
/// # Safety
///
/// The pointer is that of a cell that [`new`] made, and the caller has the only reference, which this takes. Neither
/// future nor output is left, and the claim is gone, which has emptied the cell of its waker, or found it emptied.
#[inline]
pub(super) unsafe fn end(task: NonNull<Header>) -> Remains {
    // SAFETY: By the caller's promise the header is there, and nobody else looks at it.
    let header = unsafe { &mut *task.as_ptr() };
    debug_assert!(header.join.with_mut(|join| {
        // SAFETY: The pointer is valid, being an UnsafeCell's, and nobody else has a reference to the task.
        unsafe { (*join).is_none() }
    }));
    // The parts are not dropped: the stage and the waker's cell are empty. Only this reference is left.
    //
    // SAFETY: Taken out once, here, where the cell ends.
    let remote = unsafe { ManuallyDrop::take(&mut header.remote) };
    let (layout, pooled) = header.memory();
    // SAFETY: The pointer is what `new` got for a block of this layout, which is that of the same type. The task has ended.
    let block = unsafe { Block::from_raw(task.cast(), layout) };
    Remains { block: Some(block).filter(|_| pooled), remote }
}
