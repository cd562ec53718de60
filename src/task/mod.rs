//! Tasks: futures that run beside each other on the runtime's thread.
//!
//! [`spawn`] starts one, from within the runtime; its [`JoinHandle`] is a future of its result.
//! [`Handle::spawn`](crate::runtime::Handle::spawn) starts one from another thread, and a [`Builder`] one that has a name.
//!
//! # The cooperative budget
//!
//! A task that never waits would keep everybody else waiting. So one poll of a task may take 128 ready
//! results from the leaf futures of this crate (sleeps, ticks, sockets, join handles); the next one wakes the
//! task and is pending, so that others get their turn. [`unconstrained`] opts out.

mod builder;

pub use builder::Builder;

pub use crate::executor::{AbortHandle, Id, JoinError, JoinHandle, Unconstrained, unconstrained, yield_now};

use crate::runtime::spawn;

/// Makes `future` a task of the runtime this thread is in. It need not be `Send`.
///
/// That is the runtime whose `block_on` runs here, or, while the guard of
/// [`Handle::enter`](crate::runtime::Handle::enter) lives, that of the handle, as for sleeps and sockets; it has to be a
/// runtime of this thread. If it was dropped, the future is dropped here and now, and the handle's result says that it
/// was cancelled.
///
/// # Panics
///
/// If this thread is in no runtime, or in one of another thread: use
/// [`Handle::spawn`](crate::runtime::Handle::spawn) there. [`Runtime::spawn`](crate::Runtime::spawn) needs no guard.
///
/// ```
/// use mainspring::{Runtime, spawn};
///
/// mainspring::block_on(async {
///     let shared = std::rc::Rc::new(5);
///     let copy = shared.clone();
///     let task = spawn(async move { *copy + 1 });
///     assert_eq!(task.await.unwrap(), 6);
/// });
///
/// let runtime = Runtime::new()?;
/// let task = {
///     let _guard = runtime.handle().enter();
///     spawn(async { 7 })
/// };
/// assert_eq!(runtime.block_on(task).unwrap(), 7);
/// # Ok::<(), std::io::Error>(())
/// ```
#[inline]
#[track_caller]
pub fn spawn<F: Future + 'static>(future: F) -> JoinHandle<F::Output> {
    spawn::here(future)
}
