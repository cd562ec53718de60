//! Tasks: futures that run beside each other on the runtime's thread.
//!
//! [`spawn`] starts one, from within the runtime; its [`JoinHandle`] is a future of its result.
//! [`Handle::spawn`](crate::runtime::Handle::spawn) starts one from another thread.
//!
//! # The cooperative budget
//!
//! A task that never waits would keep everybody else waiting. So one poll of a task may take 128 ready
//! results from the leaf futures of this crate (sleeps, ticks, sockets, join handles); the next one wakes the
//! task and is pending, so that others get their turn. [`unconstrained`] opts out.

pub use crate::executor::{AbortHandle, Id, JoinError, JoinHandle, Unconstrained, unconstrained, yield_now};

use std::panic::Location;

use crate::executor::entered;
use crate::runtime::spawn;

/// Makes `future` a task of the runtime that runs on this thread. It need not be `Send`.
///
/// # Panics
///
/// If no runtime runs on this thread. [`Runtime::spawn`](crate::Runtime::spawn) works outside `block_on`, and
/// [`Handle::spawn`](crate::runtime::Handle::spawn) from other threads.
///
/// ```
/// mainspring::block_on(async {
///     let shared = std::rc::Rc::new(5);
///     let copy = shared.clone();
///     let task = mainspring::spawn(async move { *copy + 1 });
///     assert_eq!(task.await.unwrap(), 6);
/// });
/// ```
#[track_caller]
pub fn spawn<F: Future + 'static>(future: F) -> JoinHandle<F::Output> {
    match entered() {
        Some(local) => spawn::local(&local, future, Location::caller()),
        None => panic!(
            "no Mainspring runtime runs on this thread: call `spawn` inside `mainspring::block_on` or inside \
             a task, or use `Runtime::spawn` before, and `Handle::spawn` from other threads"
        ),
    }
}
