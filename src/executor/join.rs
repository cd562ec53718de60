//! The handle of a spawned task, and the error of a task that did not complete.
//!
//! Ground rules:
//!
//! * A handle has the only [`Claim`] to its task's output. It keeps the claim after the result was taken, because the claim
//!   knows which task it is and where it was spawned.
//! * The handle registers its waker first and looks for the result again after, so that it sees a task that completes in between.

use super::task::{Claim, TaskRef};
use super::tasks::Id;
use crate::coop;
use crate::panics::Payload;
use futures_core::future::FusedFuture;
use std::any::Any;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::{fmt, io};

/// The handle of a spawned task: a future of the task's result.
///
/// Dropping the handle detaches the task, which runs on. The handle may be sent to another thread and awaited
/// there, by any executor, if the output may be sent.
///
/// # Errors
///
/// The result is a [`JoinError`] if the task panicked, was [aborted](JoinHandle::abort), or did not complete
/// before its runtime was dropped.
///
/// # Panics
///
/// If it is polled after it returned its result. The message says where the task was spawned.
///
/// # Cancel safety
///
/// `&mut handle` may be awaited in a branch that is dropped: no result is lost.
///
/// # Examples
///
/// ```
/// mainspring::block_on(async {
///     let handle = mainspring::spawn(async { 6 * 7 });
///     assert_eq!(handle.await.unwrap(), 42);
///
///     let handle = mainspring::spawn(std::future::pending::<()>());
///     handle.abort();
///     assert!(handle.await.unwrap_err().is_cancelled());
/// });
/// ```
pub struct JoinHandle<T> {
    claim: Claim<T>,
}

impl<T> JoinHandle<T> {
    /// Returns the handle that holds `claim`.
    #[inline]
    pub(super) fn new(claim: Claim<T>) -> JoinHandle<T> {
        JoinHandle { claim }
    }

    /// Asks for the task to be cancelled, from any thread.
    ///
    /// The task's thread drops its future when the task's next turn comes, and the handle then returns an error
    /// that [is cancelled](JoinError::is_cancelled). Until then the task may complete. If it has completed, this
    /// does nothing. A task that aborts itself runs until its next `await` that is not ready.
    pub fn abort(&self) {
        self.claim.task().abort();
    }

    /// Returns whether the task has completed, panicked or been cancelled. If so, awaiting the handle does not wait.
    pub fn is_finished(&self) -> bool {
        self.claim.is_complete()
    }

    /// Returns the id of the task. It is known from the moment the task is spawned.
    pub fn id(&self) -> Id {
        self.claim.task().id()
    }

    /// Returns a handle that can [abort](JoinHandle::abort) the task but does not wait for its result.
    ///
    /// ```
    /// mainspring::block_on(async {
    ///     let task = mainspring::spawn(std::future::pending::<()>());
    ///     let abort = task.abort_handle();
    ///     mainspring::spawn(async move { abort.abort() });
    ///     assert!(task.await.unwrap_err().is_cancelled());
    /// });
    /// ```
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle { task: self.claim.task().clone() }
    }

    /// Lets the task run on, without a handle. Dropping the handle does the same, but less explicitly.
    ///
    /// ```
    /// mainspring::block_on(async {
    ///     mainspring::spawn(async { println!("nobody waits for this") }).detach();
    /// });
    /// ```
    pub fn detach(self) {}

    /// Takes the result, if it is there and was not taken yet. It is not charged to any task's budget.
    pub(crate) fn try_take(&mut self) -> Option<Result<T, JoinError>> {
        if self.claim.is_taken() { None } else { self.claim.take() }
    }
}

#[cold]
fn polled_again<T>(claim: &Claim<T>) -> ! {
    let task = claim.task();
    // The caller's line is not known here: `poll` is called through `.await`.
    panic!(
        "the JoinHandle of task {}, spawned at {}, was polled after it returned its result: await it once, or \
         check `FusedFuture::is_terminated` first",
        task.id(),
        task.origin()
    );
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let claim = &mut self.get_mut().claim;
        if claim.is_taken() {
            polled_again(claim);
        }
        let permit = ready!(coop::poll_proceed(cx));
        if !claim.is_complete() {
            claim.register(cx.waker());
        }
        let Some(result) = claim.take() else {
            return Poll::Pending;
        };
        permit.spend();
        Poll::Ready(result)
    }
}

/// Terminated once it has returned its result.
impl<T> FusedFuture for JoinHandle<T> {
    fn is_terminated(&self) -> bool {
        self.claim.is_taken()
    }
}

// The output is moved out of the task, never pinned there.
impl<T> Unpin for JoinHandle<T> {}

// Whether or not there is a panic, the output is there as a whole or not at all.
impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("JoinHandle");
        debug.field("id", &self.id()).field("finished", &self.is_finished()).finish_non_exhaustive()
    }
}

/// Aborts a task, from any thread, and has no result. Made by [`JoinHandle::abort_handle`].
///
/// It keeps neither the task running nor its future alive. The task's memory is freed when the last of its handles and wakers
/// is dropped.
///
/// ```
/// mainspring::block_on(async {
///     let task = mainspring::spawn(std::future::pending::<()>());
///     let abort = task.abort_handle();
///     // Also from another thread.
///     std::thread::spawn(move || abort.abort()).join().unwrap();
///     assert!(task.await.unwrap_err().is_cancelled());
/// });
/// ```
#[derive(Clone)]
pub struct AbortHandle {
    task: TaskRef,
}

impl AbortHandle {
    /// Asks for the task to be cancelled, as [`JoinHandle::abort`] does.
    pub fn abort(&self) {
        self.task.abort();
    }

    /// Returns whether the task has completed, panicked or been cancelled.
    pub fn is_finished(&self) -> bool {
        self.task.is_complete()
    }

    /// Returns the id of the task.
    pub fn id(&self) -> Id {
        self.task.id()
    }
}

// A panic leaves nothing half done: there are only atomic steps.
impl UnwindSafe for AbortHandle {}
impl RefUnwindSafe for AbortHandle {}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("AbortHandle");
        debug.field("id", &self.id()).field("finished", &self.is_finished()).finish_non_exhaustive()
    }
}

/// Why a task has no output: it was cancelled, or it panicked.
///
/// A task whose future panics as it is dropped has panicked, even if it had completed or been cancelled.
pub struct JoinError {
    repr: Repr,
}

/// The size of one word, because every result of a task reserves room for it.
enum Repr {
    Cancelled,
    /// The lock makes the error `Sync`, which a payload need not be.
    Panic(Box<Mutex<Payload>>),
}

impl JoinError {
    /// The task was cancelled.
    pub(super) fn cancelled() -> JoinError {
        JoinError { repr: Repr::Cancelled }
    }

    /// The task panicked with this payload.
    pub(super) fn panic(payload: Payload) -> JoinError {
        JoinError { repr: Repr::Panic(Box::new(Mutex::new(payload))) }
    }

    /// Returns whether the task was aborted, or its runtime dropped, before it completed.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.repr, Repr::Cancelled)
    }

    /// Returns whether the task panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.repr, Repr::Panic(_))
    }

    /// Returns the payload of the task's panic, for [`std::panic::resume_unwind`].
    ///
    /// # Panics
    ///
    /// If the task did not panic. See [`try_into_panic`](JoinError::try_into_panic).
    ///
    /// # Examples
    ///
    /// ```
    /// mainspring::block_on(async {
    ///     let error = mainspring::spawn(async { panic!("boo") }).await.unwrap_err();
    ///     assert_eq!(error.into_panic().downcast_ref(), Some(&"boo"));
    /// });
    /// ```
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send + 'static> {
        match self.try_into_panic() {
            Ok(payload) => payload,
            Err(_) => panic!("`into_panic` was called on the error of a task that was cancelled"),
        }
    }

    /// Returns the payload of the task's panic.
    ///
    /// # Errors
    ///
    /// This error itself, if the task did not panic.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send + 'static>, JoinError> {
        match self.repr {
            Repr::Panic(payload) => Ok(payload.into_inner().unwrap_or_else(PoisonError::into_inner)),
            Repr::Cancelled => Err(self),
        }
    }

    /// Returns the panic's message, or none if the payload is not a string. It is a copy, because what shows it is foreign code,
    /// which must not run under the lock.
    fn message(payload: &Mutex<Payload>) -> Option<String> {
        let payload = payload.lock().unwrap_or_else(PoisonError::into_inner);
        match payload.downcast_ref::<&'static str>() {
            Some(message) => Some((*message).into()),
            None => payload.downcast_ref::<String>().cloned(),
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.repr {
            Repr::Cancelled => f.write_str("JoinError::Cancelled"),
            Repr::Panic(payload) => match JoinError::message(payload) {
                Some(message) => write!(f, "JoinError::Panic({message:?})"),
                None => f.write_str("JoinError::Panic(..)"),
            },
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.repr {
            Repr::Cancelled => f.write_str("the task was cancelled"),
            Repr::Panic(payload) => match JoinError::message(payload) {
                Some(message) => write!(f, "the task panicked: {message}"),
                None => f.write_str("the task panicked"),
            },
        }
    }
}

impl std::error::Error for JoinError {}

/// The error has the kind [`Other`](io::ErrorKind::Other), with the `JoinError` inside.
impl From<JoinError> for io::Error {
    fn from(error: JoinError) -> io::Error {
        io::Error::other(error)
    }
}
