//! How a future becomes a task of a runtime: the three places it can be spawned from, and what is wrapped around it.

use std::panic::Location;

use super::Runtime;
use super::context::{self, guarded};
use super::handle::Handle;
use crate::executor::{JoinHandle, Local, Origin, Spawned};
use crate::trace;

/// A task's future, as the executor gets it.
#[inline]
fn wrap<F: Future>(future: F, spawned: Spawned) -> impl Future<Output = F::Output> + use<F> {
    guarded(trace::task(future, spawned))
}

/// A task of the executor whose own thread this is.
#[inline]
fn local<F: Future + 'static>(local: &Local, future: F, at: Origin) -> JoinHandle<F::Output> {
    let spawned = Spawned { id: local.next_id(), at };
    local.spawn_as(wrap(future, spawned), spawned)
}

/// A task of the runtime that this thread is in.
///
/// # Panics
///
/// If it is in none, or in one that belongs to another thread.
#[inline]
#[track_caller]
pub(crate) fn here<F: Future + 'static>(future: F) -> JoinHandle<F::Output> {
    let at = Location::caller();
    match context::with(|handle| Local::of(handle.remote())) {
        Ok(Some(mine)) => local(&mine, future, at),
        Ok(None) => refuse(future, at),
        Err(_) => panic!(
            "no Mainspring runtime on this thread: call `spawn` inside `mainspring::block_on`, inside a task, or while \
             the guard of `Handle::enter` lives; or use `Runtime::spawn`, and `Handle::spawn` from other threads"
        ),
    }
}

/// What becomes of a future that cannot be taken to the runtime this thread is in.
#[cold]
#[track_caller]
fn refuse<F: Future + 'static>(future: F, at: Origin) -> JoinHandle<F::Output> {
    let handle = Handle::current();
    assert!(
        handle.is_shutdown(),
        "`spawn` was called under `Handle::enter`, on another thread than the runtime's: a future that need not be `Send` \
         cannot be taken there. Use `Handle::spawn`"
    );
    handle.remote().refuse(future, Spawned { id: handle.remote().next_id(), at })
}

impl Runtime {
    /// Makes `future` a task of this runtime. It is polled while a [`block_on`](Runtime::block_on) runs, and
    /// need not be `Send`.
    #[track_caller]
    pub fn spawn<F: Future + 'static>(&self, future: F) -> JoinHandle<F::Output> {
        local(self.local(), future, Location::caller())
    }
}

impl Handle {
    /// Makes `future` a task of the runtime, from any thread. It is woken if it sleeps.
    ///
    /// If the runtime was dropped, the future is dropped here and now, and the handle's result says that it
    /// was cancelled.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let spawned = Spawned { id: self.remote().next_id(), at: Location::caller() };
        self.remote().spawn_as(wrap(future, spawned), spawned)
    }
}
