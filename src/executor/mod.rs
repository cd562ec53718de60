//! Runs tasks on one thread: the tasks, the queue of those that are ready, and the ways to wake them.
//!
//! ```text
//!   owner thread                                             any thread
//!   Executor ── Local: Tasks, live and queued      Remote: inbox, and what unparks the owner
//!                 ^        ^                         ^
//!                 |        +──── take in, every run ─+
//!                 +── wake, on the entered thread    +── wake and spawn, from everywhere else
//!   Task: one allocation; it is its own waker, and what a JoinHandle waits for
//! ```
//!
//! Ground rules:
//!
//! * One thread, the owner, polls futures and drops them. A waker that outlives the executor on another
//!   thread keeps a task's memory, never its future.
//! * No borrow and no lock is held while user code runs: a poll, the drop of a future or an output, a waker.
//! * Each lane of the run queue is first in, first out, and no lane starves another (`lanes.rs`). What becomes ready
//!   meanwhile goes to the back of its lane.
//! * What has been handed to the queue or the inbox may be freed by its new owner at once.
//!
//! The root is the future that `block_on` drives. It waits its turn in the lanes as a task does, and the caller of `run` polls
//! it. On the owner thread a wake puts it into a lane; from another thread it raises a flag, which the owner takes note of
//! before it polls.
//!
//! * Every `block_on` has a [`Root`] of its own, so that a stale waker of an earlier one wakes nobody else.
//! * The flag is raised first and the owner unparked after. The owner that is about to park says so first and
//!   looks at the flag after; see `remote.rs`.

mod join;
mod lanes;
mod local;
#[cfg(all(test, loom))]
mod models;
mod remote;
mod task;
mod tasks;
#[cfg(all(test, not(loom)))]
mod tests;

pub use join::{AbortHandle, JoinError, JoinHandle};
pub(crate) use lanes::Lane;
pub(crate) use local::{End, Enter, Local, RunReport};
pub(crate) use remote::Remote;
pub use tasks::{Id, TaskState};
pub(crate) use tasks::{Origin, Spawned, TaskList};

use crate::coop;
use crate::sync::{AtomicBool, Ordering};
use futures_task::{ArcWake, waker_ref};
use lanes::Lanes;
use local::yielding;
use mainspring_driver::Unpark;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

/// The owner thread's half of an executor. Dropping it shuts it down.
pub(crate) struct Executor {
    local: Rc<Local>,
}

impl Executor {
    /// An executor that this thread owns. Other threads end its park with `unpark`: after something has become
    /// ready, and only where that was not done by the owner thread inside [`enter`](Executor::enter). It should cost little
    /// while the owner is awake.
    pub(crate) fn new(unpark: Arc<dyn Unpark>) -> Executor {
        Executor { local: Local::new(unpark) }
    }

    /// The half that other threads use.
    pub(crate) fn remote(&self) -> &Arc<Remote> {
        self.local.remote()
    }

    /// While the guard lives, wakes and spawns on this thread go straight to the run queue: no lock, no
    /// notification. Guards nest, and are dropped in the reverse order.
    pub(crate) fn enter(&self) -> Enter {
        Local::enter(&self.local)
    }

    /// The half that makes tasks. After [`shutdown`](Executor::shutdown) their futures are dropped at once, and the
    /// handles say that they were cancelled.
    #[inline]
    pub(crate) fn local(&self) -> &Rc<Local> {
        &self.local
    }

    /// Whether a task waits to be polled. A thread that is about to park says so first, in a sequentially
    /// consistent store, and then asks here: see [`Remote`].
    pub(crate) fn has_ready(&self) -> bool {
        self.local.has_ready()
    }

    /// Puts all tasks into one lane from now on.
    pub(crate) fn make_single_lane(&self) {
        self.local.lanes(Lanes::make_single);
    }

    /// Takes in what other threads have sent, then takes up to `limit` tasks from the run queue and
    /// polls them. Where it is the root's turn it calls `root`, which [polls](Executor::poll_root) it and says whether to go
    /// on. Stops before the limit where the clock is to be [read](Executor::charge).
    ///
    /// The number of polls is lower than the number of tasks taken if some were
    /// aborted or had completed: whether anything is left is for [`has_ready`](Executor::has_ready) to say.
    ///
    /// The caller has [entered](Executor::enter) this executor.
    ///
    /// # Panics
    ///
    /// If a task of this executor calls it. (That task's handle gets the panic.)
    pub(crate) fn run(&self, limit: usize, root: impl FnMut() -> ControlFlow<()>) -> RunReport {
        self.local.run(limit, root)
    }

    /// A new root, which waits its turn from now on until the guard is dropped.
    pub(crate) fn begin_root(&self) -> RootGuard<'_> {
        let root = Root::new(self.remote());
        let current = CurrentRoot { root: root.clone(), queued: true, polled: false };
        let before = self.local.root.replace(Some(current));
        debug_assert!(before.is_none(), "two roots");
        self.local.tasks.borrow_mut().queue_root(Lane::Woken);
        RootGuard { local: &self.local, root }
    }

    /// Calls `poll`, which polls the root, whose turn it is, for the `count`th time; its `block_on` was called there.
    pub(crate) fn poll_root<R>(&self, origin: Origin, count: u64, poll: impl FnOnce() -> R) -> R {
        /// It is not polled any more, also after a panic.
        struct Ends<'a>(&'a Local);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                if let Some(current) = &mut *self.0.root.borrow_mut() {
                    current.polled = false;
                }
            }
        }
        if let Some(current) = &mut *self.local.root.borrow_mut() {
            current.queued = false;
            current.polled = true;
        }
        let _ends = Ends(&self.local);
        self.remote().polling().root(origin, count, || coop::fresh(poll))
    }

    /// Gives memory of a past burst back, a little at a time. Once a turn.
    pub(crate) fn trim(&self) {
        self.local.trim();
    }

    /// While the guard lives, a wake on this thread puts a task into this lane.
    pub(crate) fn waking(&self, lane: Lane) -> impl Drop + use<'_> {
        self.local.waking(lane)
    }

    /// The clock was read, and what came before it is not charged to any lane.
    pub(crate) fn begin_charging(&self) {
        self.local.lanes(Lanes::begin);
    }

    /// The clock is not read from now on: lanes take turns by counts of polls.
    pub(crate) fn begin_counting(&self) {
        self.local.lanes(Lanes::count);
    }

    /// So many nanoseconds have passed since the last reading of the clock.
    pub(crate) fn charge(&self, elapsed: u64) {
        self.local.lanes(|lanes| lanes.charge(elapsed));
    }

    /// A lane has used so many nanoseconds beside its polls.
    pub(crate) fn charge_lane(&self, lane: Lane, elapsed: u64) {
        self.local.lanes(|lanes| lanes.charge_lane(lane, elapsed));
    }

    /// What the next poll may well cost, in nanoseconds; at least one.
    pub(crate) fn next_cost(&self) -> u64 {
        self.local.lanes(|lanes| lanes.next_cost())
    }

    /// How many tasks have been woken and wait for their go, with those that are still to be taken in.
    pub(crate) fn woken(&self) -> usize {
        self.local.lanes(|lanes| lanes.waiting(Lane::Woken)) + self.local.sent()
    }

    /// Whether tasks are ready in this lane.
    pub(crate) fn is_waiting(&self, lane: Lane) -> bool {
        self.local.lanes(|lanes| lanes.is_ready(lane))
    }

    /// Whether tasks in this lane have, or would have, to wait, because the lane has had more than its share.
    pub(crate) fn must_wait(&self, lane: Lane) -> bool {
        self.local.lanes(|lanes| lanes.must_wait(lane))
    }

    /// Tasks that were spawned, have been taken in, and have not completed.
    pub(crate) fn alive(&self) -> usize {
        self.local.alive()
    }

    /// What the tasks look like now.
    pub(crate) fn task_list(&self) -> TaskList {
        TaskList::new(&self.local)
    }

    /// Polls made so far. Wraps around.
    #[cfg(test)]
    pub(crate) fn polls(&self) -> u64 {
        self.local.polls()
    }

    /// Closes the inbox, then drops every task's future on this thread, in the order in which the executor
    /// got to know them, and completes their handles as cancelled. A future that panics as it is dropped
    /// takes nothing from the others: its handle gets the panic. Futures that spawn as they are dropped get
    /// the handle of a cancelled task. A second call does nothing.
    ///
    /// Called by a task, it drops that task's future as soon as its poll returns.
    pub(crate) fn shutdown(&self) {
        self.local.shutdown();
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// While it lives, its root takes turns with the tasks.
#[must_use = "the root is forgotten when the guard is dropped"]
pub(crate) struct RootGuard<'a> {
    local: &'a Local,
    root: Arc<Root>,
}

impl RootGuard<'_> {
    /// What makes the root's waker.
    pub(crate) fn root(&self) -> &Arc<Root> {
        &self.root
    }
}

impl Drop for RootGuard<'_> {
    fn drop(&mut self) {
        let root = self.local.root.take();
        if root.is_some_and(|root| root.queued) {
            self.local.tasks.borrow_mut().remove_root();
        }
    }
}

/// Whether another thread has woken the root future.
pub(crate) struct Root {
    woken: AtomicBool,
    remote: Arc<Remote>,
}

impl Root {
    /// The root of a `block_on` of this executor.
    fn new(remote: &Arc<Remote>) -> Arc<Root> {
        Arc::new(Root { woken: AtomicBool::new(false), remote: remote.clone() })
    }

    /// Lowers the flag, and says whether it was raised. Called before the poll, so that a wake during the
    /// poll raises it again.
    fn take_woken(&self) -> bool {
        // Acquire: the poll sees what was written before the wake.
        self.woken.load(Ordering::Relaxed) && self.woken.swap(false, Ordering::Acquire)
    }

    /// Whether the flag is raised. For the owner that is about to park.
    fn is_woken(&self) -> bool {
        // SeqCst: it comes after the owner's "I am parking".
        self.woken.load(Ordering::SeqCst)
    }
}

/// The root of the `block_on` under way, as its executor knows it.
struct CurrentRoot {
    root: Arc<Root>,
    /// It waits in a lane.
    queued: bool,
    /// It is being polled.
    polled: bool,
}

impl ArcWake for Root {
    fn wake_by_ref(root: &Arc<Self>) {
        if local::wake_root_here(root, &root.remote) {
            return;
        }
        // SeqCst: it comes before the unparker's look at whether the owner parks. It releases too, also when
        // the flag was up, so that the poll sees what was written before this wake. If it was up, the
        // thread that raised it unparks the owner.
        if !root.woken.swap(true, Ordering::SeqCst) {
            root.remote.unpark();
        }
    }
}

impl Local {
    /// Queues `root`, if it is the future of the `block_on` under way and not queued yet.
    fn wake_root(&self, root: &Arc<Root>) {
        if let Some(current) = &mut *self.root.borrow_mut() {
            if Arc::ptr_eq(&current.root, root) && !current.queued {
                current.queued = true;
                let lane = if current.polled { yielding() } else { self.lane.get() };
                self.tasks.borrow_mut().queue_root(lane);
            }
        }
    }

    /// What the data pointer of the waker says with which the root is polled; zero if there is none.
    fn root_address(&self) -> usize {
        let root = self.root.borrow();
        root.as_ref().map_or(0, |current| waker_ref(&current.root).data().addr())
    }

    fn root_is_woken(&self) -> bool {
        self.root.borrow().as_ref().is_some_and(|current| current.root.is_woken())
    }

    /// Takes note of a wake of the future of `block_on` from another thread.
    fn take_root(&self) {
        let woken = match &*self.root.borrow() {
            Some(current) if current.root.take_woken() => current.root.clone(),
            _ => return,
        };
        self.wake_root(&woken);
    }
}

// For tests: spawning by the line that calls, without what a runtime wraps around a future.

#[cfg(test)]
impl Executor {
    #[track_caller]
    pub(crate) fn spawn<F: Future + 'static>(&self, future: F) -> JoinHandle<F::Output> {
        self.local.spawn_as(future, self.local.next(std::panic::Location::caller()))
    }
}

#[cfg(test)]
impl Remote {
    #[track_caller]
    pub(crate) fn spawn<F>(self: &Arc<Self>, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_as(future, self.next(std::panic::Location::caller()))
    }
}

/// Makes `future` a task of the executor that this thread has entered, or hands it back if there is none.
#[cfg(test)]
#[track_caller]
pub(crate) fn spawn_local<F: Future + 'static>(future: F) -> Result<JoinHandle<F::Output>, F> {
    let at = std::panic::Location::caller();
    match local::entered() {
        Some(local) => Ok(local.spawn_as(future, local.next(at))),
        None => Err(future),
    }
}
