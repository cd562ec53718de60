//! Runs tasks on one thread: the tasks, the queue of ready tasks, and the ways to wake them.
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
//!   thread keeps a task's memory alive, never its future.
//! * No borrow and no lock is held while user code runs: a poll, the drop of a future or an output, a waker.
//! * Each lane of the run queue is first in, first out, and no lane starves another (`lanes.rs`). A task that becomes ready
//!   during a run goes to the back of its lane.
//! * Once a task has been handed to the queue or the inbox, its new owner may free it at any time.
//!
//! The root is the future that `block_on` drives. It waits its turn in the lanes as a task does, and the caller of `run` polls
//! it. A wake on the owner thread puts the root into a lane. A wake from another thread raises a flag, which the owner checks
//! before it polls.
//!
//! * Every `block_on` has a [`Root`] of its own, so that a stale waker of an earlier root wakes no other root.
//! * The flag is raised first and the owner unparked after. An owner that is about to park says so first and
//!   looks at the flag after; see `remote.rs`.

mod entered;
mod join;
mod lanes;
mod local;
#[cfg(all(test, loom))]
mod models;
mod remote;
mod sent;
mod task;
mod tasks;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use entered::Enter;
pub use join::{AbortHandle, JoinError, JoinHandle};
pub(crate) use lanes::Lane;
pub(crate) use local::{End, Local, RunReport};
pub(crate) use remote::Remote;
pub use tasks::{Id, TaskState};
pub(crate) use tasks::{Origin, Spawned, TaskList};

use crate::clock::Waited;
use crate::coop;
use crate::sync::{AtomicBool, Ordering};
use futures_task::{ArcWake, waker_ref};
use lanes::Lanes;
use local::yielding;
use mainspring_driver::{Nanos, Unpark};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

/// The owner thread's half of an executor. Dropping it shuts it down.
pub(crate) struct Executor {
    local: Rc<Local>,
    waited: Waited,
}

impl Executor {
    /// Returns an executor that this thread owns. Other threads end its park with `unpark`. It is called after a task has
    /// become ready, unless the owner thread itself made the task ready inside [`enter`](Executor::enter). It should cost little
    /// while the owner is awake.
    pub(crate) fn new(unpark: Arc<dyn Unpark>) -> Executor {
        Executor { local: Local::new(unpark), waited: Waited::default() }
    }

    /// The half that other threads use.
    pub(crate) fn remote(&self) -> &Arc<Remote> {
        self.local.remote()
    }

    /// Enters this executor: while the guard lives, wakes and spawns on this thread go straight to the run queue, without a
    /// lock or a notification. Guards nest, and are dropped in the reverse order.
    pub(crate) fn enter(&self) -> Enter {
        entered::enter(self.local.clone())
    }

    /// The half that makes tasks. After [`shutdown`](Executor::shutdown), the futures of new tasks are dropped at once, and
    /// their handles say that the tasks were cancelled.
    #[inline]
    pub(crate) fn local(&self) -> &Rc<Local> {
        &self.local
    }

    /// Returns whether a task waits to be polled. A thread that is about to park says so first, in a sequentially
    /// consistent store, and then calls this: see [`Remote`].
    pub(crate) fn has_ready(&self) -> bool {
        self.local.has_ready()
    }

    /// Puts all tasks into one lane from now on.
    pub(crate) fn make_single_lane(&self) {
        self.local.lanes(Lanes::make_single);
    }

    /// Takes in some of the tasks that other threads have sent, then takes up to `limit` tasks from the run queue and
    /// polls them. On the root's turn it calls `root`, which [polls](Executor::poll_root) the root and returns whether to
    /// continue. Stops before the limit if the clock must be [read](Executor::charge): while polls are charged, for instance, because
    /// some milliseconds may have passed.
    ///
    /// Some of the tasks taken may not be polled, because they were aborted or had completed. Whether tasks are left is what
    /// [`has_ready`](Executor::has_ready) returns.
    ///
    /// The caller must have [entered](Executor::enter) this executor.
    ///
    /// # Panics
    ///
    /// If a task of this executor calls it. (That task's handle gets the panic.)
    pub(crate) fn run(&self, limit: usize, root: impl FnMut() -> ControlFlow<()>) -> RunReport {
        self.local.run(limit, root)
    }

    /// Queues a new root, which takes turns with the tasks until the guard is dropped.
    pub(crate) fn begin_root(&self) -> RootGuard<'_> {
        let root = Root::new(self.remote());
        let current = CurrentRoot { root: root.clone(), queued: true, polled: false };
        let before = self.local.root.replace(Some(current));
        debug_assert!(before.is_none(), "two roots");
        self.local.tasks.borrow_mut().queue_root(Lane::Woken);
        RootGuard { local: &self.local, root }
    }

    /// Calls `poll`, which polls the root on its turn, for the `count`th time. `origin` is where its `block_on` was called.
    pub(crate) fn poll_root<R>(&self, origin: Origin, count: u64, poll: impl FnOnce() -> R) -> R {
        /// Notes that the root is no longer being polled, also after a panic.
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

    /// Frees memory of a past burst, a little at a time. To be called once per turn, with the time. Returns whether more is to be
    /// freed.
    pub(crate) fn trim(&self, now: Nanos) -> bool {
        self.local.trim(now)
    }

    /// Whether so much memory of a past burst is kept that the thread should not sleep for more than a second.
    pub(crate) fn has_spare(&self) -> bool {
        self.local.has_spare()
    }

    /// While the guard lives, a wake on this thread puts a task into this lane.
    pub(crate) fn waking(&self, lane: Lane) -> impl Drop + use<'_> {
        self.local.waking(lane)
    }

    /// To be called when the sockets have been looked at, and the look has `found` something or not.
    pub(crate) fn looked(&self, found: bool) {
        self.local.lanes(|lanes| lanes.looked(found));
    }

    /// Returns whether what is ready waits for what a look at the sockets may find.
    pub(crate) fn must_look(&self) -> bool {
        self.local.lanes(|lanes| lanes.must_look())
    }

    /// To be called when the clock was read, and the time before is not charged to any lane.
    pub(crate) fn begin_charging(&self) {
        self.local.lanes(Lanes::begin);
    }

    /// To be called when the clock is not read from now on: lanes then take turns by counts of polls.
    pub(crate) fn begin_counting(&self) {
        self.local.lanes(Lanes::count);
    }

    /// To be called when the clock was read, `elapsed` nanoseconds after the last reading.
    pub(crate) fn charge(&self, elapsed: u64) {
        self.local.lanes(|lanes| lanes.charge(elapsed, || self.waited.since_asked()));
    }

    /// Charges a lane with `elapsed` nanoseconds that it has used in addition to its polls.
    pub(crate) fn charge_lane(&self, lane: Lane, elapsed: u64) {
        self.local.lanes(|lanes| lanes.charge_lane(lane, elapsed));
    }

    /// To be called when the clock was read, and the thread has had `elapsed` nanoseconds for other things: nothing was ready.
    pub(crate) fn forgive(&self, elapsed: u64) {
        self.local.lanes(|lanes| lanes.forgive(elapsed));
    }

    /// Returns whether a lane has used more time than another.
    pub(crate) fn is_uneven(&self) -> bool {
        self.local.lanes(|lanes| lanes.is_uneven())
    }

    /// Returns what the next poll may well cost, in nanoseconds; at least one.
    pub(crate) fn next_cost(&self) -> u64 {
        self.local.lanes(|lanes| lanes.next_cost())
    }

    /// Returns how many of the next polls may well fit into `time` nanoseconds.
    pub(crate) fn fit(&self, time: u64) -> u64 {
        self.local.lanes(|lanes| lanes.fit(time))
    }

    /// The number of tasks that have been woken, have been taken in, and wait for their turn.
    pub(crate) fn woken(&self) -> usize {
        self.local.lanes(|lanes| lanes.waiting(Lane::Woken))
    }

    /// How many turns the tasks have had that were woken.
    pub(crate) fn turns_of_woken(&self) -> u64 {
        self.local.lanes(|lanes| lanes.turns_of_woken())
    }

    /// Gives the tasks their turn that found a timeout, or a queue of timers, late.
    pub(crate) fn release_late(&self) {
        self.local.lanes(Lanes::release_late);
    }

    /// Returns whether tasks are ready in this lane.
    pub(crate) fn is_waiting(&self, lane: Lane) -> bool {
        self.local.lanes(|lanes| lanes.is_ready(lane))
    }

    /// Returns whether tasks in this lane have to wait, or would have to, because the lane has had more than its share.
    pub(crate) fn must_wait(&self, lane: Lane) -> bool {
        self.local.lanes(|lanes| lanes.must_wait(lane))
    }

    /// The number of tasks that were spawned, have been taken in, and have not completed.
    pub(crate) fn alive(&self) -> usize {
        self.local.alive()
    }

    /// The number of tasks that were spawned, also by other threads, and have not completed.
    pub(crate) fn unfinished(&self) -> usize {
        self.local.unfinished()
    }

    /// Returns a list of the tasks as they are now.
    pub(crate) fn task_list(&self) -> TaskList {
        TaskList::new(&self.local)
    }

    /// The number of polls made so far. Wraps around.
    pub(crate) fn polls(&self) -> u64 {
        self.local.polls()
    }

    /// Closes the inbox, then drops every task's future on this thread, in the order in which the executor
    /// received the tasks, and completes their handles as cancelled. A future that panics while it is dropped
    /// does not affect the others: its handle gets the panic. Futures that spawn while they are dropped get
    /// the handle of a cancelled task. A second call does nothing.
    ///
    /// If a task calls this, the task's own future is dropped as soon as its poll returns.
    pub(crate) fn shutdown(&self) {
        self.local.shutdown();
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// While this guard lives, its root takes turns with the tasks.
#[must_use = "the root is forgotten when the guard is dropped"]
pub(crate) struct RootGuard<'a> {
    local: &'a Local,
    root: Arc<Root>,
}

impl RootGuard<'_> {
    /// The root, from which its waker is made.
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

/// Records whether another thread has woken the root future.
pub(crate) struct Root {
    woken: AtomicBool,
    remote: Arc<Remote>,
}

impl Root {
    /// Returns the root of a `block_on` of this executor.
    fn new(remote: &Arc<Remote>) -> Arc<Root> {
        Arc::new(Root { woken: AtomicBool::new(false), remote: remote.clone() })
    }

    /// Lowers the flag, and returns whether it was raised. Called before the poll, so that a wake during the
    /// poll raises it again.
    fn take_woken(&self) -> bool {
        // Acquire: the poll sees what was written before the wake.
        self.woken.load(Ordering::Relaxed) && self.woken.swap(false, Ordering::Acquire)
    }

    /// Returns whether the flag is raised. For an owner that is about to park.
    fn is_woken(&self) -> bool {
        // SeqCst: this load comes after the owner's "I am parking".
        self.woken.load(Ordering::SeqCst)
    }
}

/// The root of the `block_on` that is running, as its executor sees it.
struct CurrentRoot {
    root: Arc<Root>,
    /// The root waits in a lane.
    queued: bool,
    /// The root is being polled.
    polled: bool,
}

impl ArcWake for Root {
    fn wake_by_ref(root: &Arc<Self>) {
        if entered::wake_root_here(root, &root.remote) {
            return;
        }
        // SeqCst: this swap comes before the unparker checks whether the owner parks. It releases too, also when
        // the flag was up, so that the poll sees what was written before this wake. If the flag was up, the
        // thread that raised it unparks the owner.
        if !root.woken.swap(true, Ordering::SeqCst) {
            root.remote.unpark();
        }
    }
}

impl Local {
    /// Queues `root`, if it is the future of the running `block_on` and not queued yet.
    fn wake_root(&self, root: &Arc<Root>) {
        if let Some(current) = &mut *self.root.borrow_mut() {
            if Arc::ptr_eq(&current.root, root) && !current.queued {
                current.queued = true;
                if current.polled && coop::take_waits() {
                    return self.tasks.borrow_mut().put_off(tasks::ROOT);
                }
                let lane = if current.polled { yielding() } else { self.lane.get() };
                self.tasks.borrow_mut().queue_root(lane);
            }
        }
    }

    /// Returns the data pointer of the waker with which the root is polled; zero if there is no root.
    fn root_address(&self) -> usize {
        let root = self.root.borrow();
        root.as_ref().map_or(0, |current| waker_ref(&current.root).data().addr())
    }

    fn root_is_woken(&self) -> bool {
        self.root.borrow().as_ref().is_some_and(|current| current.root.is_woken())
    }

    /// Queues the future of `block_on` if another thread has woken it.
    fn take_root(&self) {
        let woken = match &*self.root.borrow() {
            Some(current) if current.root.take_woken() => current.root.clone(),
            _ => return,
        };
        self.wake_root(&woken);
    }
}

// For tests: these spawn with the line of the caller, without the wrappers that a runtime puts around a future.

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

/// Spawns `future` as a task of the executor that this thread has entered, or returns it if there is none.
#[cfg(test)]
#[track_caller]
pub(crate) fn spawn_local<F: Future + 'static>(future: F) -> Result<JoinHandle<F::Output>, F> {
    let at = std::panic::Location::caller();
    match entered::executor() {
        Some(local) => Ok(local.spawn_as(future, local.next(at))),
        None => Err(future),
    }
}
