//! Runs tasks on one thread: the tasks, the queue of those that are ready, and the ways to wake them.
//!
//! ```text
//!   owner thread                                             any thread
//!   Executor ── Local: Tasks, live and queued      Remote: inbox, and Notify to rouse the owner
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
//! * Tasks are polled first in, first out. What becomes ready meanwhile goes to the back, whoever woke it.
//! * What has been handed to the queue or the inbox may be freed by its new owner at once.

pub(crate) mod budget;
mod census;
mod coop;
mod join;
mod local;
#[cfg(all(test, loom))]
mod models;
mod numbers;
#[cfg(test)]
mod plain;
mod polling;
mod remote;
mod root;
mod task;
mod tasks;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use census::{Census, Origin, Spawned, Stand};
pub use coop::{Unconstrained, unconstrained, yield_now};
pub use join::{AbortHandle, JoinError, JoinHandle};
pub(crate) use local::{Enter, Local};
pub use numbers::Id;
pub(crate) use remote::{Notify, Remote};
pub(crate) use root::Root;

#[cfg(test)]
pub(crate) use plain::spawn_local;
use std::rc::Rc;
use std::sync::Arc;

/// The owner thread's half of an executor. Dropping it shuts it down.
pub(crate) struct Executor {
    local: Rc<Local>,
}

impl Executor {
    /// An executor that this thread owns. Other threads rouse it through `notify`.
    pub(crate) fn new(notify: Arc<dyn Notify>) -> Executor {
        Executor { local: Local::new(notify) }
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

    /// Takes in what other threads have sent, then takes up to `limit` tasks from the front of the queue and
    /// polls them. Returns the number of polls, which is lower than the number of tasks taken if some were
    /// aborted or had completed: whether anything is left is for [`has_ready`](Executor::has_ready) to say.
    ///
    /// The caller has [entered](Executor::enter) this executor.
    ///
    /// # Panics
    ///
    /// If a task of this executor calls it. (That task's handle gets the panic.)
    pub(crate) fn run(&self, limit: usize) -> usize {
        self.local.run(limit)
    }

    /// Tasks that were spawned, have been taken in, and have not completed.
    pub(crate) fn alive(&self) -> usize {
        self.local.alive()
    }

    /// What the tasks look like now.
    pub(crate) fn census(&self) -> Census {
        Census::take(&self.local)
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
