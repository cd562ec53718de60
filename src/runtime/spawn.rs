//! How a future becomes a task of a runtime: from where it can be spawned, and what is wrapped around it (a name, if it was
//! given one, and the deadline that is in force where it is spawned).
//!
//! ```text
//!   Deadline (time/deadline.rs), Inherited ── DeadlineScope, for each poll ──▶ IN_FORCE ──▶ remaining, spawn
//! ```
//!
//! Ground rules:
//!
//! * Names are kept apart from the tasks, so that tasks without a name pay nothing for them, and any thread can look a name
//!   up. A name is listed before its task can be polled, and removed when the task's future is dropped.
//! * A deadline is kept in the future that is polled, and in a thread-local while that poll lasts. So a task without a
//!   deadline has no field for one, and its polls do not look for one.
//! * A spawn reads one thread-local. Only if a deadline is in force is the task's future wrapped. It is boxed then, so that
//!   no spawn is compiled twice because of it.
//! * A deadline is never later than one that encloses it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::Runtime;
use super::context::{self, guarded};
use super::handle::Handle;
use crate::clock::Instant;
use crate::executor::{Id, JoinHandle, Local, Origin, Spawned};
use crate::trace;

/// A task's name, if it has one.
type Name = Option<Arc<str>>;

/// Wraps a task's future for the executor.
#[inline]
fn wrap<F: Future>(future: F, spawned: Spawned) -> impl Future<Output = F::Output> + use<F> {
    guarded(trace::task(future, spawned.id.number(), spawned.at, None))
}

/// As [`wrap`], for a task that may have a name. Other tasks do without what the name adds to the future.
fn wrap_named<F: Future>(
    future: F,
    spawned: Spawned,
    name: Name,
    names: &Arc<Names>,
) -> impl Future<Output = F::Output> + use<F> {
    let named = names.give(name.clone(), spawned.id, future);
    guarded(trace::task(named, spawned.id.number(), spawned.at, name.as_deref()))
}

/// Makes `future` a task of the runtime that this thread is in.
///
/// # Panics
///
/// If the thread is in no runtime, or in one that belongs to another thread.
#[inline]
#[track_caller]
pub(crate) fn here<F: Future + 'static>(future: F) -> JoinHandle<F::Output> {
    let at = Location::caller();
    let Some(local) = mine() else { return refuse(future, at) };
    let spawned = local.next(at);
    match deadline_in_force() {
        None => local.spawn_as(wrap(future, spawned), spawned),
        Some(until) => local.spawn_as(wrap(inherited(until, future), spawned), spawned),
    }
}

/// As [`here`], for a task that may have a name.
#[track_caller]
pub(crate) fn here_named<F: Future + 'static>(name: Name, future: F) -> JoinHandle<F::Output> {
    let at = Location::caller();
    let Some(local) = mine() else { return refuse(future, at) };
    let spawned = local.next(at);
    let handle = Handle::current();
    match deadline_in_force() {
        None => local.spawn_as(wrap_named(future, spawned, name, handle.names()), spawned),
        Some(until) => {
            let future = inherited(until, future);
            local.spawn_as(wrap_named(future, spawned, name, handle.names()), spawned)
        }
    }
}

/// The executor of the runtime that this thread is in, if the runtime is the thread's own.
///
/// # Panics
///
/// If this thread is in no runtime.
#[inline]
#[track_caller]
fn mine() -> Option<Rc<Local>> {
    match context::with(Handle::own) {
        Ok(mine) => mine,
        Err(_) => panic!(
            "no Mainspring runtime on this thread: call `spawn` inside `mainspring::block_on`, inside a task, or while \
             the guard of `Handle::enter` lives; or use `Runtime::spawn`, and `Handle::spawn` from other threads"
        ),
    }
}

/// Refuses a future that cannot be taken to the runtime this thread is in.
#[cold]
#[track_caller]
fn refuse<F: Future + 'static>(future: F, at: Origin) -> JoinHandle<F::Output> {
    let handle = Handle::current();
    assert!(
        handle.is_shutdown(),
        "`spawn` was called under `Handle::enter`, on a thread other than the runtime's: a future that need not be `Send` \
         cannot be moved to the runtime's thread. Use `Handle::spawn`, or `Handle::spawn_with`, which takes a closure that \
         makes the future there"
    );
    handle.remote().refuse(future, handle.remote().next(at))
}

impl Runtime {
    /// Makes `future` a task of this runtime. It need not be `Send`, and is polled while a [`block_on`](Runtime::block_on)
    /// runs.
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
    /// The runtime's executor, if this is the runtime's own thread. If a foreign loop sleeps in place of the runtime,
    /// it is woken.
    #[inline]
    fn own(&self) -> Option<Rc<Local>> {
        Local::entered(self.remote()).or_else(|| {
            let own = Local::owned(self.remote())?;
            self.io().end_lent_sleep();
            Some(own)
        })
    }

    /// Makes `future` a task of the runtime, from any thread. The runtime is woken if it sleeps. Tasks that the
    /// runtime's own thread spawns begin in that order, whether it spawns them with this method or with
    /// [`spawn`](crate::spawn).
    ///
    /// If the runtime was dropped, the future is dropped at once, on this thread, and the handle's result says that the task
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
        match self.own() {
            // Tasks that this thread spawns begin in that order, whichever method spawns them.
            Some(local) => local.spawn_as(wrap(future, spawned), spawned),
            None => self.remote().spawn_as(wrap(future, spawned), spawned),
        }
    }

    /// Makes the future that `build` returns a task of the runtime, from any thread. The future need not be `Send`: `build`
    /// is called on the runtime's thread, when the task is polled for the first time, and the future stays there.
    ///
    /// A panic of `build` counts as a panic of the task. If the task is aborted before its first poll, `build` is dropped on
    /// the runtime's thread, and never called.
    ///
    /// If the runtime was dropped, `build` is dropped at once, on this thread, and the handle's result says that the task was
    /// cancelled.
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
        // The closure is called inside the wrappers of the future, as part of the task's first poll.
        match self.own() {
            Some(local) => local.spawn_as(wrap(async move { build().await }, spawned), spawned),
            None => self.remote().spawn_built(move || wrap(async move { build().await }, spawned), spawned),
        }
    }

    #[track_caller]
    pub(crate) fn spawn_named<F>(&self, name: Name, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let spawned = self.remote().next(Location::caller());
        match self.own() {
            Some(local) => local.spawn_as(wrap_named(future, spawned, name, self.names()), spawned),
            None => self.remote().spawn_as(wrap_named(future, spawned, name, self.names()), spawned),
        }
    }
}

/// The names of a runtime's tasks.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<BTreeMap<Id, Arc<str>>>);

impl Names {
    /// The name of this task.
    pub(super) fn get(&self, id: Id) -> Option<Arc<str>> {
        self.lock().get(&id).cloned()
    }

    /// All names.
    pub(super) fn all(&self) -> BTreeMap<Id, Arc<str>> {
        self.lock().clone()
    }

    /// Wraps the future of a task. The task has this name until the future is dropped.
    fn give<F>(self: &Arc<Self>, name: Option<Arc<str>>, id: Id, future: F) -> Named<F> {
        let listed = name.map(|name| {
            self.lock().insert(id, name);
            Listed { names: self.clone(), id }
        });
        Named { future, listed }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Id, Arc<str>>> {
        // Only the allocator is called under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a name in the list.
#[derive(Debug)]
struct Listed {
    names: Arc<Names>,
    id: Id,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.names.lock().remove(&self.id);
    }
}

pin_project! {
    /// The future of a task that may have a name.
    #[derive(Debug)]
    struct Named<F> {
        #[pin]
        future: F,
        // Dropped after the future, so that the task still has its name as the future is dropped.
        listed: Option<Listed>,
    }
}

impl<F: Future> Future for Named<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().future.poll(cx)
    }
}

thread_local! {
    static IN_FORCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The deadline in force.
#[inline]
pub(crate) fn deadline_in_force() -> Option<Instant> {
    IN_FORCE.with(Cell::get)
}

/// While it lives, another deadline is in force on this thread than before, or none.
#[must_use = "the deadline before is in force again when this is dropped"]
pub(crate) struct DeadlineScope {
    before: Option<Instant>,
}

impl DeadlineScope {
    /// Puts `at` into force, unless an earlier deadline is in force.
    pub(crate) fn enter(at: Instant) -> DeadlineScope {
        IN_FORCE.with(|in_force| {
            let before = in_force.get();
            in_force.set(Some(before.map_or(at, |before| before.min(at))));
            DeadlineScope { before }
        })
    }

    /// Puts the deadline in force out of force, for tasks that have not inherited it.
    pub(super) fn leave() -> DeadlineScope {
        DeadlineScope { before: IN_FORCE.take() }
    }
}

impl Drop for DeadlineScope {
    fn drop(&mut self) {
        IN_FORCE.with(|in_force| in_force.set(self.before));
    }
}

/// The future of a task that was spawned while a deadline was in force.
struct Inherited<T> {
    at: Instant,
    future: Pin<Box<dyn Future<Output = T>>>,
}

/// Wraps `future`, so that `at` is in force during its polls.
#[cold]
fn inherited<F: Future + 'static>(at: Instant, future: F) -> Inherited<F::Output> {
    Inherited { at, future: Box::pin(future) }
}

impl<T> Future for Inherited<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let _scope = DeadlineScope::enter(self.at);
        self.future.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Runtime, task};
    use std::future::pending;

    #[test]
    fn a_name_is_listed_until_its_tasks_future_is_dropped() {
        let runtime = Runtime::new().unwrap();
        let (handle, named) = (runtime.handle().clone(), task::Builder::new().name("brief"));
        let listed = || handle.names().all().len();
        let done = named.spawn_local_on(async {}, &runtime);
        let panics = named.spawn_on(async { panic!("on purpose") }, &handle);
        let aborted = named.spawn_local_on(pending::<()>(), &runtime);
        let left = named.spawn_on(pending::<()>(), &handle);
        assert_eq!(listed(), 4);
        assert_eq!(handle.names().get(left.id()).as_deref(), Some("brief"));
        runtime.block_on(async {
            let _entered = handle.enter();
            named.spawn(async {}).detach();
        });
        aborted.abort();
        runtime.block_on(async {
            done.await.unwrap();
            assert!(panics.await.unwrap_err().is_panic() && aborted.await.unwrap_err().is_cancelled());
        });
        assert_eq!(listed(), 1);
        drop(runtime);
        assert_eq!(listed(), 0);
        // A task that no runtime takes.
        named.spawn_on(async {}, &handle).detach();
        assert_eq!(listed(), 0);
    }
}
