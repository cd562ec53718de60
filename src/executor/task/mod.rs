//! The task: a future and later its output, in one allocation that is also the task's waker.
//!
//! * `state.rs`   the atomic word: three bits of the life below, two of the handle, the count of references; an origin's word
//! * `header.rs`  what a task is without the type of its future; [`TaskRef`], a counted reference; the waker
//! * `cell.rs`    the future's side: polling, completing, and the stage they work on
//! * `claim.rs`   the handle's side: the one right to the output
//! * `pool.rs`    a task's memory, and the free lists of the owner thread
//!
//! ```text
//!                  (1) spawn                       (2) wake, abort
//!                     |     +------------------------------------------------+
//!                     v     v                                                |
//!                  ready: in the queue or the inbox --(3) run--> not ready: being polled, or waiting
//!                           |                                                |
//!                           | (4) run, and ABORTED is set;                   | (5) the poll completed or panicked,
//!                           |     shutdown                                   |     or returned with ABORTED set
//!                           +--------------------> COMPLETE <----------------+
//!
//!   (2) on the owner thread  entered::wake_here   sets the header's QUEUED, a plain flag, and queues the task
//!       elsewhere            State::schedule    sets SCHEDULED, and the task goes through the inbox
//!                            Only a caller that finds the mark unset passes the task on, so that a thousand wakes are one poll.
//!   (3) cell::run        unsets both before it polls, so that a wake during the poll makes the task ready again
//!   (4) cell::run, cell::cancel
//!   (5) Busy::complete   drops the future, stores the result, then sets COMPLETE
//! ```
//!
//! There are two marks because they do not cost the same: wakes on the owner thread, which are nearly all wakes,
//! need no atomic step. A task that is woken from both sides at once is in the queue and in the inbox. The one that
//! the owner comes to first unsets both marks; the inbox's reference then finds SCHEDULED unset and is dropped.
//!
//! No bit of the word says that the task is being polled: only the owner thread takes tasks from the queue, one at a
//! time. The mark BUSY prevents a poll from being entered again from within itself.
//!
//! Ground rules:
//!
//! * Before COMPLETE the stage belongs to the owner thread, which must show its [`Owner`](super::remote::Owner) as proof.
//!   It forms a reference to the stage only while it holds `Busy`.
//! * After COMPLETE the stage is the [`Claim`]'s if JOIN_INTEREST was set by then; otherwise it stays the owner's.
//! * References are counted: the owner has one until the task has completed, the claim one, each waker one, and
//!   each place in the inbox one. The waker that a poll lends out is not counted: it ends with the poll. The owner thread counts
//!   without atomic steps until the task has completed.
//! * The last reference to a task finds the stage consumed, and may therefore be dropped on any thread.
//! * A panic of the future or of its drop is the result of the task. A panic of a waker, or of an output that no handle
//!   takes, ends here: the panic hook has reported it.

mod cell;
mod claim;
mod header;
mod pool;
mod state;

pub(super) use cell::Remains;
pub(super) use claim::{Claim, Unsent, built, local, refused, remote};
pub(super) use header::{NUMBERS, TaskRef, prefetch, waker_functions};
#[cfg(test)]
pub(super) use header::{ON_CLONE, waker_with_hook};
pub(super) use pool::Pool;
pub(super) use state::AtomicOrigin;

/// The outcome of one turn of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The future was polled and is pending.
    Pending,
    /// The future was polled, and the task has completed.
    Completed,
    /// The task has completed without a poll: it had been aborted.
    Cancelled,
    /// The task had completed before.
    Nothing,
}
