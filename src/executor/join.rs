//! The handle of a spawned task, and what it says of a task that did not get to its end.
//!
//! Ground rules:
//!
//! * A handle has the only [`Claim`] to its task's output, and gives it up with the result.
//! * It registers its waker first and looks again after, so that a task which completes in between is seen.

use super::budget;
use super::task::Claim;
use std::any::Any;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};

/// A spawned task, seen from outside: a future of its result.
///
/// Dropping the handle detaches the task, which runs on. The handle may be sent to another thread and awaited
/// there, by any executor, if the output may.
///
/// # Errors
///
/// The result is a [`JoinError`] if the task panicked, was [aborted](JoinHandle::abort), or did not get to
/// its end before its runtime was dropped.
///
/// # Panics
///
/// If it is polled after it gave its result.
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
    /// None once the result has been given.
    claim: Option<Claim<T>>,
}

impl<T> JoinHandle<T> {
    /// The handle that holds `claim`.
    #[inline]
    pub(super) fn new(claim: Claim<T>) -> JoinHandle<T> {
        JoinHandle { claim: Some(claim) }
    }

    /// Asks for the task to be cancelled. Any thread may.
    ///
    /// The task's thread drops its future when the task's next turn comes, and the handle then gives an error
    /// that [is cancelled](JoinError::is_cancelled). Until then the task may complete, and if it has, this
    /// does nothing. A task that aborts itself gets as far as its next `await` that is not ready.
    pub fn abort(&self) {
        if let Some(claim) = &self.claim {
            claim.abort();
        }
    }

    /// Whether the task has completed, panicked or been cancelled. If so, awaiting the handle does not wait.
    pub fn is_finished(&self) -> bool {
        match &self.claim {
            Some(claim) => claim.is_complete(),
            None => true,
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(claim) = &mut this.claim else {
            panic!("a JoinHandle was polled after it gave its result");
        };
        let permit = ready!(budget::poll_proceed(cx));
        if !claim.is_complete() {
            claim.register(cx.waker());
        }
        let Some(result) = claim.take() else {
            return Poll::Pending;
        };
        this.claim = None;
        permit.spend();
        Poll::Ready(result)
    }
}

// The output is moved out of the task, never pinned there.
impl<T> Unpin for JoinHandle<T> {}

// Whether or not a panic strikes, the output is there whole or not at all.
impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("finished", &self.is_finished()).finish_non_exhaustive()
    }
}

/// Why a task has no output: it was cancelled, or it panicked.
///
/// A task whose future panics as it is dropped has panicked, even if it had completed or been cancelled.
pub struct JoinError {
    repr: Repr,
}

type Payload = Box<dyn Any + Send + 'static>;

/// One word, because every result of a task has room for it.
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

    /// Whether the task was aborted, or its runtime dropped, before it completed.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.repr, Repr::Cancelled)
    }

    /// Whether the task panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.repr, Repr::Panic(_))
    }

    /// What the task panicked with, for [`std::panic::resume_unwind`].
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

    /// What the task panicked with.
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

    /// Runs `f` with the panic's message, which is there if the payload is a string.
    fn with_message<R>(payload: &Mutex<Payload>, f: impl FnOnce(Option<&str>) -> R) -> R {
        let payload = payload.lock().unwrap_or_else(PoisonError::into_inner);
        let message = match payload.downcast_ref::<&'static str>() {
            Some(message) => Some(*message),
            None => payload.downcast_ref::<String>().map(String::as_str),
        };
        f(message)
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.repr {
            Repr::Cancelled => f.write_str("JoinError::Cancelled"),
            Repr::Panic(payload) => JoinError::with_message(payload, |message| match message {
                Some(message) => write!(f, "JoinError::Panic({message:?})"),
                None => f.write_str("JoinError::Panic(..)"),
            }),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.repr {
            Repr::Cancelled => f.write_str("the task was cancelled"),
            Repr::Panic(payload) => JoinError::with_message(payload, |message| match message {
                Some(message) => write!(f, "the task panicked: {message}"),
                None => f.write_str("the task panicked"),
            }),
        }
    }
}

impl std::error::Error for JoinError {}
