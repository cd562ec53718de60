//! What an executor's tasks look like from outside: for a dump of what is pending.
//!
//! Ground rules:
//!
//! * It is made on the owner thread, and no user code runs meanwhile.
//! * A task that was spawned as [`Id::HIDDEN`] is not in it: it is how another thread asks for this list.

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

/// A task that had not completed when the list was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListedTask {
    pub(crate) id: Id,
    /// What the data pointers of its wakers say.
    pub(crate) address: usize,
    pub(crate) origin: Origin,
    pub(crate) state: TaskState,
}

/// What a task is doing.
///
/// ```
/// use mainspring::dump::TaskState;
///
/// mainspring::block_on(async {
///     mainspring::spawn(std::future::pending::<()>()).detach();
///     // It was not polled yet.
///     let dump = mainspring::Handle::current().dump()?;
///     assert_eq!(dump.tasks[0].state, TaskState::Ready);
///     # Ok::<(), mainspring::dump::DumpError>(())
/// })?;
/// # Ok::<(), mainspring::dump::DumpError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskState {
    /// It is being polled: it is the one that asked for the dump.
    Running,
    /// It was woken, and will be polled.
    Ready,
    /// It waits for somebody to wake it.
    Waiting,
}

/// The tasks of an executor at one moment, in the order of spawning.
#[derive(Clone, Debug)]
pub(crate) struct TaskList {
    pub(crate) tasks: Vec<ListedTask>,
    /// The address of the functions that the tasks' wakers have.
    pub(crate) functions: usize,
    /// What the data pointer of the waker says with which the root is polled; zero if there is no root.
    pub(crate) root: usize,
}

impl TaskList {
    pub(super) fn new(local: &Local) -> TaskList {
        let mut tasks = local.listed();
        tasks.retain(|task| task.id != Id::HIDDEN);
        tasks.sort_unstable_by_key(|task| task.id);
        TaskList { tasks, functions: waker_functions(), root: local.root_address() }
    }
}
