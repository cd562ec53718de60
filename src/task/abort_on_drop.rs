//! `AbortOnDrop`: a handle that aborts its task when it is dropped.

use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::future::FusedFuture;

use super::{JoinError, JoinHandle};

/// The handle of a task that is aborted when the handle is dropped: a future of the task's result, as a [`JoinHandle`] is.
/// Made by [`JoinHandle::abort_on_drop`].
///
/// It dereferences to the handle it was made from, so the methods [`abort`](JoinHandle::abort), `is_finished` and `id` can be
/// called on it.
///
/// # Errors
///
/// As for a [`JoinHandle`].
///
/// # Panics
///
/// If it is polled after it returned its result.
///
/// # Cancel safety
///
/// A `&mut` to it may be awaited in a branch that is dropped: no result is lost, and nothing is aborted.
///
/// ```
/// use std::time::Duration;
/// use mainspring::{sleep, spawn, time::timeout};
///
/// mainspring::block_on(async {
///     let work = spawn(sleep(Duration::from_secs(3600))).abort_on_drop();
///     let watch = work.abort_handle();
///     // The timeout drops what it waits for, and with it the task is cancelled.
///     assert!(timeout(Duration::from_millis(1), work).await.is_err());
///     mainspring::task::yield_now().await;
///     assert!(watch.is_finished());
/// });
/// ```
#[derive(Debug)]
#[must_use = "dropping it aborts the task"]
pub struct AbortOnDrop<T> {
    /// None: the task was detached.
    handle: Option<JoinHandle<T>>,
}

impl<T> JoinHandle<T> {
    /// Ties the task to its handle: when the returned handle is dropped, the task is [aborted](JoinHandle::abort).
    ///
    /// So if a future that spawned helper tasks is dropped, its helpers are aborted. For any number of tasks there is
    /// [`JoinSet`](super::JoinSet).
    ///
    /// ```
    /// mainspring::block_on(async {
    ///     let task = mainspring::spawn(async { 6 * 7 }).abort_on_drop();
    ///     assert_eq!(task.await.unwrap(), 42);
    /// });
    /// ```
    pub fn abort_on_drop(self) -> AbortOnDrop<T> {
        AbortOnDrop { handle: Some(self) }
    }
}

impl<T> AbortOnDrop<T> {
    /// Unties the task from its handle: the returned handle aborts nothing when it is dropped.
    ///
    /// ```
    /// mainspring::block_on(async {
    ///     let task = mainspring::spawn(async { 6 * 7 }).abort_on_drop();
    ///     let handle = task.detach();
    ///     assert_eq!(handle.await.unwrap(), 42);
    /// });
    /// ```
    pub fn detach(mut self) -> JoinHandle<T> {
        self.handle.take().expect("only `detach` takes the handle, and consumes this")
    }
}

impl<T> Deref for AbortOnDrop<T> {
    type Target = JoinHandle<T>;

    fn deref(&self) -> &JoinHandle<T> {
        self.handle.as_ref().expect("only `detach` takes the handle, and consumes this")
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.abort();
        }
    }
}

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let handle = self.handle.as_mut().expect("only `detach` takes the handle, and consumes this");
        Pin::new(handle).poll(cx)
    }
}

/// Terminated once it has returned its result.
impl<T> FusedFuture for AbortOnDrop<T> {
    fn is_terminated(&self) -> bool {
        self.deref().is_terminated()
    }
}
