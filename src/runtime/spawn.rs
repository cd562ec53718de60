//! How a future becomes a task of a runtime: the places it can be spawned from, and what is wrapped around it.

use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use super::Runtime;
use super::context::{self, guarded};
use super::deadline;
use super::handle::Handle;
use super::names::Names;
use crate::executor::{JoinHandle, Local, Origin, Spawned};
use crate::trace;

/// A task's name, if it has one.
type Name = Option<Arc<str>>;

/// A task's future, as the executor gets it.
#[inline]
fn wrap<F: Future>(future: F, spawned: Spawned) -> impl Future<Output = F::Output> + use<F> {
    guarded(trace::task(future, spawned.id.number(), spawned.at, None))
}

/// As [`wrap`], for a task that may have a name. A task without one does without what that adds to the future.
fn wrap_named<F: Future>(
    future: F,
    spawned: Spawned,
    name: Name,
    names: &Arc<Names>,
) -> impl Future<Output = F::Output> + use<F> {
    let named = names.give(name.clone(), spawned.id, future);
    guarded(trace::task(named, spawned.id.number(), spawned.at, name.as_deref()))
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
    let Some(local) = mine() else { return refuse(future, at) };
    let spawned = local.next(at);
    match deadline::in_force() {
        None => local.spawn_as(wrap(future, spawned), spawned),
        Some(until) => local.spawn_as(wrap(deadline::inherited(until, future), spawned), spawned),
    }
}

/// As [`here`].
#[track_caller]
pub(crate) fn here_named<F: Future + 'static>(name: Name, future: F) -> JoinHandle<F::Output> {
    let at = Location::caller();
    let Some(local) = mine() else { return refuse(future, at) };
    let spawned = local.next(at);
    let handle = Handle::current();
    match deadline::in_force() {
        None => local.spawn_as(wrap_named(future, spawned, name, handle.names()), spawned),
        Some(until) => {
            let future = deadline::inherited(until, future);
            local.spawn_as(wrap_named(future, spawned, name, handle.names()), spawned)
        }
    }
}

/// The executor of the runtime that this thread is in, if it is the thread's own.
///
/// # Panics
///
/// If this thread is in none.
#[inline]
#[track_caller]
fn mine() -> Option<Rc<Local>> {
    let mine = |handle: &Handle| {
        Local::entered(handle.remote()).or_else(|| {
            handle.io().end_lent_sleep();
            Local::owned(handle.remote())
        })
    };
    match context::with(mine) {
        Ok(mine) => mine,
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
         cannot be taken there. Use `Handle::spawn`, or `Handle::spawn_with`, which takes a closure that makes the future"
    );
    handle.remote().refuse(future, handle.remote().next(at))
}

impl Runtime {
    /// Makes `future` a task of this runtime. It is polled while a [`block_on`](Runtime::block_on) runs, and
    /// need not be `Send`.
    ///
    /// ```
    /// let runtime = mainspring::Runtime::new()?;
    /// let local = std::rc::Rc::new(5);
    /// let task = runtime.spawn(async move { *local + 1 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 6);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn<F: Future + 'static>(&self, future: F) -> JoinHandle<F::Output> {
        let spawned = self.local().next(Location::caller());
        self.local().spawn_as(wrap(future, spawned), spawned)
    }

    #[track_caller]
    pub(crate) fn spawn_named<F: Future + 'static>(&self, name: Name, future: F) -> JoinHandle<F::Output> {
        let spawned = self.local().next(Location::caller());
        self.local().spawn_as(wrap_named(future, spawned, name, self.handle().names()), spawned)
    }
}

impl Handle {
    /// Makes `future` a task of the runtime, from any thread. It is woken if it sleeps.
    ///
    /// If the runtime was dropped, the future is dropped here and now, and the handle's result says that it
    /// was cancelled. [`spawn_with`](Handle::spawn_with) takes futures that are not `Send`.
    ///
    /// ```
    /// let runtime = mainspring::Runtime::new()?;
    /// let handle = runtime.handle().clone();
    /// let task = std::thread::spawn(move || handle.spawn(async { 6 * 7 })).join().unwrap();
    /// assert_eq!(runtime.block_on(task).unwrap(), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let spawned = self.remote().next(Location::caller());
        self.remote().spawn_as(wrap(future, spawned), spawned)
    }

    /// Makes the future that `build` returns a task of the runtime, from any thread. It need not be `Send`: `build` is
    /// called on the runtime's thread, as the task is polled for the first time, and the future stays there.
    ///
    /// A panic of `build` is one of the task. If the task is aborted before its first poll, `build` is dropped on the
    /// runtime's thread, and never called.
    ///
    /// If the runtime was dropped, `build` is dropped here and now, and the handle's result says that the task was cancelled.
    ///
    /// ```
    /// use std::rc::Rc;
    /// use mainspring::Runtime;
    ///
    /// let runtime = Runtime::new()?;
    /// let handle = runtime.handle().clone();
    /// let elsewhere = std::thread::spawn(move || {
    ///     handle.spawn_with(|| {
    ///         // An `Rc` cannot come from another thread, but be made on this one.
    ///         let count = Rc::new(41);
    ///         async move {
    ///             mainspring::task::yield_now().await;
    ///             *count + 1
    ///         }
    ///     })
    /// });
    /// let task = elsewhere.join().unwrap();
    /// assert_eq!(runtime.block_on(task).unwrap(), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn_with<B, F>(&self, build: B) -> JoinHandle<F::Output>
    where
        B: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        let spawned = self.remote().next(Location::caller());
        // The closure is called inside of what is wrapped around the future, as part of the task's first poll.
        self.remote().spawn_built(move || wrap(async move { build().await }, spawned), spawned)
    }

    #[track_caller]
    pub(crate) fn spawn_named<F>(&self, name: Name, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let spawned = self.remote().next(Location::caller());
        self.remote().spawn_as(wrap_named(future, spawned, name, self.names()), spawned)
    }
}
