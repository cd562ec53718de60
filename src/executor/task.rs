//! The task cell: a future and later its output, in one allocation that is also the task's waker.
//!
//! The state is four bits of one atomic word.
//!
//! ```text
//!              (1) spawn                       (2) wake, abort
//!                 |     +------------------------------------------------+
//!                 v     v                                                |
//!              SCHEDULED: in the queue or the inbox --(3) run--> not SCHEDULED: being polled, or waiting
//!                       |                                                |
//!                       | (4) run, and ABORTED is set;                   | (5) the poll completed or panicked,
//!                       |     shutdown                                   |     or returned with ABORTED set
//!                       +--------------------> COMPLETE <----------------+
//!
//!   (2) Header::schedule, Header::abort   sets SCHEDULED; only who finds it unset queues the task, so that a
//!                                         thousand wakes are one poll
//!   (3) Task::run        takes the task from the queue and unsets SCHEDULED before it polls, so that a wake
//!                        during the poll queues the task again
//!   (4) Task::run, Task::cancel
//!   (5) Task::complete   drops the future, stores the result, then sets COMPLETE
//!
//!   ABORTED        set by Header::abort and never unset: the owner drops the future when it next gets to it
//!   JOIN_INTEREST  set until Claim::drop; whichever of COMPLETE and the end of JOIN_INTEREST comes second
//!                  finds the other done, and has the output to drop
//! ```
//!
//! No bit says that the task is being polled: only the owner thread takes tasks from the queue, one at a time.
//! That a poll is not entered again from within itself is the business of `busy`.
//!
//! Ground rules:
//!
//! * Before COMPLETE the stage is the owner thread's, which shows its [`Owner`] to prove that it is. It forms
//!   a reference to the stage only while it holds [`Busy`].
//! * After COMPLETE the stage is the [`Claim`]'s if JOIN_INTEREST was set by then; else it stays the owner's.
//! * The last reference to a task finds the stage consumed, and may therefore be dropped on any thread.
//! * A panic of the future, also of its drop, is the result of the task. A panic of an output that nobody
//!   wants, or of a waker, ends here: the panic hook has reported it.

use super::budget;
use super::join::JoinError;
use super::local;
use super::remote::{Owner, Remote};
use crate::sync::{AtomicBool, AtomicU8, AtomicUsize, AtomicWaker, Ordering, UnsafeCell};
use futures_task::{ArcWake, waker_ref};
use std::marker::PhantomData;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

const SCHEDULED: u8 = 1;
const COMPLETE: u8 = 2;
const ABORTED: u8 = 4;
const JOIN_INTEREST: u8 = 8;

/// The part of a task that any thread may use.
pub(super) struct Header {
    state: AtomicU8,
    /// The owner is inside the future: it polls or drops it. Only the owner thread reads and writes it.
    busy: AtomicBool,
    /// Where the owner keeps the task. Only the owner thread reads and writes it.
    key: AtomicUsize,
    remote: Arc<Remote>,
    /// The handle's waker: the handle leaves it on its thread, the owner takes it on completion.
    join: AtomicWaker,
}

impl Header {
    /// The executor that the task belongs to.
    pub(super) fn remote(&self) -> &Arc<Remote> {
        &self.remote
    }

    /// Where the owner keeps the task.
    pub(super) fn key(&self) -> usize {
        self.key.load(Ordering::Relaxed)
    }

    /// Notes where the owner keeps the task.
    pub(super) fn set_key(&self, key: usize) {
        self.key.store(key, Ordering::Relaxed);
    }

    /// Marks the task as ready. True if the caller has to queue it.
    fn schedule(&self) -> bool {
        // Release, also when the bit was set: the poll to come sees what was written before any of the wakes
        // that led to it. (tokio #7622)
        self.state.fetch_or(SCHEDULED, Ordering::Release) & (SCHEDULED | COMPLETE) == 0
    }

    /// Marks the task as aborted and ready. True if the caller has to queue it.
    fn abort(&self) -> bool {
        // Release: as in `schedule`.
        let before = self.state.fetch_or(SCHEDULED | ABORTED, Ordering::Release);
        before & (SCHEDULED | COMPLETE) == 0
    }

    fn is(&self, bit: u8) -> bool {
        // Acquire: COMPLETE publishes the output, ABORTED what was written before the abort.
        self.state.load(Ordering::Acquire) & bit != 0
    }
}

/// What one go at a task came to.
pub(super) struct Progress {
    /// Its future was polled.
    pub(super) polled: bool,
    /// It has completed in this very go.
    pub(super) completed: bool,
}

/// A task of any future.
pub(super) trait Runnable: Send + Sync {
    /// The part of the task that any thread may use.
    fn header(&self) -> &Header;

    /// Polls a task that was taken from the queue, or drops its future if it was aborted.
    fn run(self: Arc<Self>, owner: &Owner) -> Progress;

    /// Drops the future and completes the task as cancelled; if the task is being polled, as soon as that
    /// poll returns.
    fn cancel(&self, owner: &Owner);
}

/// A task of any future with the output `T`.
trait Joinable<T>: Runnable {
    fn into_runnable(self: Arc<Self>) -> Arc<dyn Runnable>;

    /// Takes the result out, if it is still there.
    ///
    /// # Safety
    ///
    /// The caller is the task's one [`Claim`], and has found COMPLETE set, by a load that acquires, while its
    /// JOIN_INTEREST was or had been set.
    unsafe fn take_result(&self) -> Option<Result<T, JoinError>>;
}

enum Stage<F: Future> {
    Running(F),
    Finished(Result<F::Output, JoinError>),
    Consumed,
}

impl<F: Future> Stage<F> {
    /// Drops the future where it is and puts the result in its place.
    fn finish(&mut self, result: Result<F::Output, JoinError>) {
        // An assignment puts the new value there also if the drop of the old one panics.
        let dropped = catch_unwind(AssertUnwindSafe(|| *self = Stage::Consumed));
        *self = Stage::Finished(match (dropped, result) {
            (Ok(()), result) => result,
            (Err(payload), Err(first)) if first.is_panic() => {
                quietly(|| drop(payload));
                Err(first)
            }
            (Err(payload), unwanted) => {
                quietly(|| drop(unwanted));
                Err(JoinError::panic(payload))
            }
        });
    }
}

/// A future, later its output, with what its wakers and its handle need.
struct Task<F: Future> {
    header: Header,
    stage: UnsafeCell<Stage<F>>,
}

// SAFETY: The header is made of parts that are Send and Sync. The stage is touched, before COMPLETE, only with
// an `Owner` of the task's `Remote`, that is on one thread: the one that brought the future here, or to which
// `Unclaimed::remote` had it sent, which demands that future and output are Send. After COMPLETE it is touched
// by one side: by the owner again, or by the `Claim`, which can leave the owner's thread only if the output is
// Send. Dropping the task drops a consumed stage, with neither future nor output in it.
unsafe impl<F: Future> Send for Task<F> {}
// SAFETY: As above; nothing that a shared reference allows touches the stage in another way.
unsafe impl<F: Future> Sync for Task<F> {}

/// The right to form a reference to an uncompleted task's stage. Its holder is the owner thread, and as only
/// one of these exists at a time there is no other reference.
struct Busy<'a, F: Future> {
    task: &'a Task<F>,
}

impl<'a, F: Future> Busy<'a, F> {
    /// None if the task completed, or if the call comes from within the task's future.
    fn claim(task: &'a Task<F>, owner: &Owner) -> Option<Busy<'a, F>> {
        assert!(owner.owns(&task.header.remote), "a task was run by an executor that is not its own");
        // Relaxed: only the owner thread gets here, by the assertion.
        if task.header.is(COMPLETE) || task.header.busy.load(Ordering::Relaxed) {
            return None;
        }
        task.header.busy.store(true, Ordering::Relaxed);
        Some(Busy { task })
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.task.stage.with_mut(|stage| {
            // SAFETY: The pointer is valid, being an UnsafeCell's. The task is not complete, so that the stage is
            // the owner thread's, on which we are; there is one `Busy` at a time, and this borrows it.
            let stage = unsafe { &mut *stage };
            let Stage::Running(future) = stage else {
                unreachable!("a task that is not complete has its future");
            };
            // SAFETY: The future lies in an Arc that is never unwrapped, and is dropped where it lies, by
            // `Stage::finish`. Nothing moves it.
            let future = unsafe { Pin::new_unchecked(future) };
            future.poll(cx)
        })
    }

    /// Steps (4) and (5).
    fn complete(self, result: Result<F::Output, JoinError>) {
        let header = &self.task.header;
        self.task.stage.with_mut(|stage| {
            // SAFETY: As in `poll`.
            let stage = unsafe { &mut *stage };
            stage.finish(result);
        });
        // Release: publishes the result to a handle that finds COMPLETE. Acquire: what a handle that is gone
        // did comes before the drop of the output.
        let before = header.state.fetch_or(COMPLETE, Ordering::AcqRel);
        if before & JOIN_INTEREST == 0 {
            self.task.stage.with_mut(|stage| {
                // SAFETY: The claim was gone before COMPLETE, so that the stage has stayed ours; as in `poll`.
                let stage = unsafe { &mut *stage };
                quietly(|| *stage = Stage::Consumed);
            });
        } else {
            // The stage is the claim's from here on. A waker registered after this statement is that of a
            // handle which looks for COMPLETE afterwards; the cell makes it see it.
            quietly(|| header.join.wake());
        }
    }
}

impl<F: Future> Drop for Busy<'_, F> {
    fn drop(&mut self) {
        self.task.header.busy.store(false, Ordering::Relaxed);
    }
}

impl<F: Future + 'static> Runnable for Task<F> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn run(self: Arc<Self>, owner: &Owner) -> Progress {
        // Acquire: sees what was written before every wake since the last run.
        let before = self.header.state.fetch_and(!SCHEDULED, Ordering::Acquire);
        let Some(mut busy) = Busy::claim(&self, owner) else {
            return Progress { polled: false, completed: false };
        };
        if before & ABORTED != 0 {
            busy.complete(Err(JoinError::cancelled()));
            return Progress { polled: false, completed: true };
        }
        let waker = waker_ref(&self);
        let cx = &mut Context::from_waker(&waker);
        let polled = catch_unwind(AssertUnwindSafe(|| budget::fresh(|| busy.poll(cx))));
        let result = match polled {
            Ok(Poll::Ready(output)) => Ok(output),
            Err(payload) => Err(JoinError::panic(payload)),
            Ok(Poll::Pending) if self.header.is(ABORTED) => Err(JoinError::cancelled()),
            Ok(Poll::Pending) => {
                return Progress { polled: true, completed: false };
            }
        };
        busy.complete(result);
        Progress { polled: true, completed: true }
    }

    fn cancel(&self, owner: &Owner) {
        match Busy::claim(self, owner) {
            Some(busy) => busy.complete(Err(JoinError::cancelled())),
            // If it is being polled, `run` looks for this afterwards. Else it is complete, and nobody does.
            None => {
                self.header.abort();
            }
        }
    }
}

impl<F: Future + 'static> Joinable<F::Output> for Task<F> {
    fn into_runnable(self: Arc<Self>) -> Arc<dyn Runnable> {
        self
    }

    unsafe fn take_result(&self) -> Option<Result<F::Output, JoinError>> {
        let stage = self.stage.with_mut(|stage| {
            // SAFETY: The pointer is valid, being an UnsafeCell's. By the caller's promise the task is complete
            // and its stage the claim's, which is the caller and calls this once at a time.
            let stage = unsafe { &mut *stage };
            mem::replace(stage, Stage::Consumed)
        });
        match stage {
            Stage::Finished(result) => Some(result),
            _ => None,
        }
    }
}

impl<F: Future + 'static> ArcWake for Task<F> {
    fn wake(self: Arc<Self>) {
        if self.header.schedule() {
            local::schedule(self);
        }
    }

    fn wake_by_ref(task: &Arc<Self>) {
        if task.header.schedule() {
            local::schedule(task.clone());
        }
    }
}

/// A new task, whose output nobody has claimed yet.
pub(super) struct Unclaimed<F: Future> {
    task: Arc<Task<F>>,
}

impl<F: Future + 'static> Unclaimed<F> {
    /// A task that was made on its owner's thread.
    pub(super) fn local(future: F, owner: &Owner) -> Unclaimed<F> {
        Unclaimed::new(future, owner.remote())
    }

    /// A task that will be sent to its owner's thread.
    pub(super) fn remote(future: F, remote: &Arc<Remote>) -> Unclaimed<F>
    where
        F: Send,
        F::Output: Send,
    {
        Unclaimed::new(future, remote)
    }

    fn new(future: F, remote: &Arc<Remote>) -> Unclaimed<F> {
        let header = Header {
            state: AtomicU8::new(SCHEDULED | JOIN_INTEREST),
            busy: AtomicBool::new(false),
            key: AtomicUsize::new(usize::MAX),
            remote: remote.clone(),
            join: AtomicWaker::new(),
        };
        Unclaimed { task: Arc::new(Task { header, stage: UnsafeCell::new(Stage::Running(future)) }) }
    }

    /// The task, to be queued. It counts as scheduled already.
    pub(super) fn runnable(&self) -> Arc<dyn Runnable> {
        self.task.clone()
    }

    /// Drops the future of a task that no executor has taken, and completes it as cancelled.
    ///
    /// # Panics
    ///
    /// If somebody else has a reference to the task.
    pub(super) fn refuse(&mut self) {
        let Some(task) = Arc::get_mut(&mut self.task) else {
            panic!("a task was refused that an executor has");
        };
        // It has not been polled, and may be moved.
        let mut stage = mem::replace(&mut task.stage, UnsafeCell::new(Stage::Consumed)).into_inner();
        stage.finish(Err(JoinError::cancelled()));
        task.stage = UnsafeCell::new(stage);
        // Relaxed: nobody else has the task.
        task.header.state.fetch_or(COMPLETE, Ordering::Relaxed);
    }

    /// The claim to the output.
    pub(super) fn claim(self) -> Claim<F::Output> {
        Claim { task: self.task, _output: PhantomData }
    }
}

/// The one claim to a task's output. It goes to another thread only if the output may; sharing it gives
/// nobody the output, hence `Mutex`, which is Sync under that same condition.
pub(super) struct Claim<T> {
    task: Arc<dyn Joinable<T>>,
    _output: PhantomData<Mutex<T>>,
}

impl<T> Claim<T> {
    /// Whether the result is there.
    pub(super) fn is_complete(&self) -> bool {
        self.task.header().is(COMPLETE)
    }

    /// Asks the owner to drop the future.
    pub(super) fn abort(&self) {
        if self.task.header().abort() {
            local::schedule(self.task.clone().into_runnable());
        }
    }

    /// Has `waker` woken on completion. The caller looks for that once more afterwards.
    pub(super) fn register(&mut self, waker: &Waker) {
        // A clone that panicked inside `register` would leave the cell dead, so it is made before.
        let waker = waker.clone();
        self.task.header().join.register(&waker);
    }

    /// The result, once it is there, the first time.
    pub(super) fn take(&mut self) -> Option<Result<T, JoinError>> {
        if !self.is_complete() {
            return None;
        }
        // SAFETY: This is the one claim, its JOIN_INTEREST is set until it is dropped, and COMPLETE was found
        // set just now, by a load that acquires.
        unsafe { self.task.take_result() }
    }
}

impl<T> Drop for Claim<T> {
    fn drop(&mut self) {
        let header = self.task.header();
        // Acquire: if COMPLETE is set, the output is ours to drop. Release: for the owner's drop of it if not.
        let before = header.state.fetch_and(!JOIN_INTEREST, Ordering::AcqRel);
        if before & COMPLETE != 0 {
            // SAFETY: This is the one claim; its JOIN_INTEREST was still set when the task completed, as the
            // swap that unset it has found COMPLETE, acquiring.
            let result = unsafe { self.task.take_result() };
            quietly(|| drop(result));
        }
        // A task that waits for itself would otherwise keep itself alive. (tokio #3477)
        let waker = header.join.take();
        drop(waker);
    }
}

/// Runs `f`, whose panic is nobody's business but the panic hook's.
fn quietly(f: impl FnOnce()) {
    let mut caught = catch_unwind(AssertUnwindSafe(f)).err();
    // A payload may panic as it is dropped, with another payload that does; but not for ever.
    for _ in 0..8 {
        let Some(payload) = caught else { return };
        caught = catch_unwind(AssertUnwindSafe(|| drop(payload))).err();
    }
    mem::forget(caught);
}

#[cfg(test)]
thread_local! {
    /// What the next clone of a [`waker_with_hook`] on this thread does first.
    pub(super) static ON_CLONE: std::cell::Cell<Option<Box<dyn FnOnce()>>> = const { std::cell::Cell::new(None) };
}

/// A waker no safe code can make. It stands here because unsafe code belongs into this file.
#[cfg(test)]
pub(super) fn waker_with_hook() -> Waker {
    use std::task::{RawWaker, RawWakerVTable};
    fn clone(data: *const ()) -> RawWaker {
        if let Some(hook) = ON_CLONE.take() {
            hook();
        }
        RawWaker::new(data, &VTABLE)
    }
    static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, |_| {}, |_| {}, |_| {});
    // SAFETY: None of the functions touches the data pointer, hence all may be called from anywhere.
    unsafe { Waker::new(std::ptr::null(), &VTABLE) }
}
