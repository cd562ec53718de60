//! What an executor's tasks look like from outside: for a dump of what is pending.
//!
//! Ground rule: it is taken on the owner thread, and no user code runs while it is.

use super::Local;
use super::numbers::Id;
use super::task::waker_functions;
use std::panic::Location;

/// Where a task was spawned.
pub(crate) type Origin = &'static Location<'static>;

/// What is known of a task from the moment it is spawned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spawned {
    pub(crate) id: Id,
    pub(crate) at: Origin,
}

/// A task that had not completed when the census was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) id: Id,
    /// What the data pointers of its wakers say.
    pub(crate) address: usize,
    pub(crate) origin: Origin,
    pub(crate) stand: Stand,
}

/// How a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// It is being polled.
    Running,
    /// It was woken, and is going to be polled.
    Ready,
    /// Nobody has woken it.
    Waiting,
}

/// The tasks of an executor at one moment, in the order of spawning.
#[derive(Clone, Debug)]
pub(crate) struct Census {
    pub(crate) tasks: Vec<Seen>,
    /// The address of the functions that the tasks' wakers have.
    pub(crate) functions: usize,
}

impl Census {
    pub(super) fn take(local: &Local) -> Census {
        let mut tasks = local.seen();
        tasks.sort_unstable_by_key(|task| task.id);
        Census { tasks, functions: waker_functions() }
    }
}
