//! For tests: spawning by the line that calls, without what a runtime wraps around a future.

use super::local::entered;
use super::{Executor, JoinHandle, Remote};
use std::panic::Location;
use std::sync::Arc;

impl Executor {
    #[track_caller]
    pub(crate) fn spawn<F: Future + 'static>(&self, future: F) -> JoinHandle<F::Output> {
        self.local.spawn_as(future, self.local.next(Location::caller()))
    }
}

impl Remote {
    #[track_caller]
    pub(crate) fn spawn<F>(self: &Arc<Self>, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_as(future, self.next(Location::caller()))
    }
}

/// Makes `future` a task of the executor that this thread has entered, or hands it back if there is none.
#[track_caller]
pub(crate) fn spawn_local<F: Future + 'static>(future: F) -> Result<JoinHandle<F::Output>, F> {
    let at = Location::caller();
    match entered() {
        Some(local) => Ok(local.spawn_as(future, local.next(at))),
        None => Err(future),
    }
}
