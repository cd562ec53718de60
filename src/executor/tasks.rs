//! The tasks of an executor: their numbers; the table of live tasks; the lanes of the run queue, which name tasks by
//! their place in the table; and the list of tasks for a dump.
//!
//! ```text
//!   lane    4 . 0 . 2                        places, first in, first out; prefetch runs ahead of it
//!   slots   [task] [    ] [task] [    ] [task]
//!              0      1      2      3      4    1: being polled, or completed while queued; 3: free
//!
//!   Numbers, in the Remote     0 .. 15 | 16 | 17 .. 32 | 33 ..
//!                              block A   one   block B   next
//!   owner thread               takes a block, and from it without an atomic step
//!   other threads              take one
//! ```
//!
//! The future of `block_on` waits its turn among the tasks, under a place that is not in the table: [`ROOT`].
//!
//! Ground rules:
//!
//! * A task is in its slot except while it is polled. Its place stays its own until it has completed and left the
//!   queue: a place in the queue never changes to mean another task.
//! * No user code runs here. References to tasks go in and out, and none is dropped.
//! * No number is given twice, until the numbers wrap around.
//! * If one spawn happened before another, its number is lower. So the owner gives up the rest of its block as
//!   soon as it can see that another thread has taken a number since: some numbers are never given.
//! * A [`TaskList`] is made on the owner thread. A task that was spawned as [`Id::HIDDEN`] is not in the list: by such a task
//!   another thread asks for the list.

use super::lanes::{Lane, Lanes, Next};
use super::local::Local;
use super::remote::Remote;
use super::task::{NUMBERS, TaskRef, prefetch, waker_functions};
use crate::sync::{AtomicU64, Ordering};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::panic::Location;
use std::sync::Arc;

/// The number of a task within its runtime, as a [dump](crate::dump) shows it.
///
/// Tasks are numbered from zero in the order of spawning: if one task was spawned before another, its number is lower. Some
/// numbers are left out when several threads spawn. Two tasks of different runtimes may have the same number, and so may two
/// tasks of one runtime if 2^48 tasks were spawned in between.
///
/// ```
/// mainspring::block_on(async {
///     let (first, second) = (mainspring::spawn(async {}), mainspring::spawn(async {}));
///     assert!(first.id() < second.id());
///     assert_eq!(first.id().to_string(), "0");
/// });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u64);

impl Id {
    /// The number of a task that is not listed: the last number before they wrap around.
    pub(crate) const HIDDEN: Id = Id(NUMBERS);

    /// Returns the id with this number, which wraps around.
    #[inline]
    pub(crate) fn new(number: u64) -> Id {
        Id(number & NUMBERS)
    }

    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", self.0)
    }
}

impl From<Id> for u64 {
    fn from(id: Id) -> u64 {
        id.0
    }
}

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
    /// The data pointer of its wakers.
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
    /// The task is being polled: it asked for the dump.
    Running,
    /// The task was woken, and will be polled.
    Ready,
    /// The task waits to be woken.
    Waiting,
}

/// The tasks of an executor at one moment, in the order of spawning.
#[derive(Clone, Debug)]
pub(crate) struct TaskList {
    pub(crate) tasks: Vec<ListedTask>,
    /// The address of the functions that the tasks' wakers have.
    pub(crate) functions: usize,
    /// The data pointer of the waker with which the root is polled; zero if there is no root.
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

/// How many numbers the owner takes at a time.
const BLOCK: u64 = 16;

/// Capacity, in tasks, that is never freed.
const KEEP: usize = 256;

/// Returns the capacity that stays after a trim: half of it, if the `longest` recent queue has not needed a quarter.
pub(super) fn kept(capacity: usize, longest: usize) -> usize {
    if capacity > KEEP && longest < capacity / 4 { (capacity / 2).max(KEEP) } else { capacity }
}

/// How far ahead of the queue's front the slots are prefetched, the beginnings of tasks, and the rest of the tasks. In a
/// shorter queue everything is near.
const SLOTS_AHEAD: usize = 16;
const HEADS_AHEAD: usize = 5;
const TAILS_AHEAD: usize = 2;

/// The number of references to the `Remote` that are kept for later tasks.
const SPARE_REMOTES: usize = 1024;

/// The place of the future of `block_on`.
pub(super) const ROOT: u32 = u32::MAX;

/// What to do next.
pub(super) enum Ready {
    /// Poll this task.
    Task(TaskRef),
    /// Poll the future of `block_on`.
    Root,
    /// Read the clock.
    Clock,
    /// Nothing.
    Nothing,
}

/// The live tasks of an executor, and which of them are ready.
#[derive(Default)]
pub(super) struct Tasks {
    lanes: Lanes,
    slots: Vec<Option<TaskRef>>,
    free: Vec<u32>,
    /// References to the `Remote`, from tasks that ended here. A new task takes one over, which saves the two
    /// atomic steps.
    remotes: Vec<Arc<Remote>>,
    /// The number of tasks that have a place and have not completed, except [hidden](Id::HIDDEN) ones.
    alive: usize,
}

impl Tasks {
    /// The number of tasks that have not completed.
    pub(super) fn alive(&self) -> usize {
        self.alive
    }

    pub(super) fn is_idle(&self) -> bool {
        self.lanes.is_empty()
    }

    pub(super) fn queued(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn lanes(&mut self) -> &mut Lanes {
        &mut self.lanes
    }

    /// Returns a reference for a new task, if an old task has left one.
    #[inline]
    pub(super) fn spare_remote(&mut self) -> Option<Arc<Remote>> {
        self.remotes.pop()
    }

    /// Keeps a reference for a new task; returns it if enough are kept.
    #[inline]
    pub(super) fn keep_remote(&mut self, remote: Arc<Remote>) -> Option<Arc<Remote>> {
        if self.remotes.len() >= SPARE_REMOTES {
            return Some(remote);
        }
        self.remotes.push(remote);
        None
    }

    /// Assigns a place to a new task, and queues it.
    #[inline]
    pub(super) fn insert(&mut self, task: TaskRef) {
        self.alive += usize::from(task.id() != Id::HIDDEN);
        let key = match self.free.pop() {
            Some(key) => {
                task.set_key(key);
                self.fill(key, task);
                key
            }
            None => {
                let key = u32::try_from(self.slots.len()).ok().filter(|key| *key != ROOT);
                let key = key.expect("memory is too small for this number of tasks");
                task.set_key(key);
                self.slots.push(Some(task));
                key
            }
        };
        self.lanes.push(Lane::Woken, key);
    }

    /// Queues the task at this place, or the root, once what is late is released. A task is marked as queued.
    #[cold]
    pub(super) fn put_off(&mut self, key: u32) {
        self.lanes.put_off(key);
    }

    /// Queues the task at this place, which is marked as queued.
    #[inline]
    pub(super) fn queue(&mut self, lane: Lane, key: u32) {
        self.lanes.push(lane, key);
    }

    /// Queues the future of `block_on`, which is not queued.
    #[inline]
    pub(super) fn queue_root(&mut self, lane: Lane) {
        self.lanes.push(lane, ROOT);
    }

    /// Takes the future of `block_on` out of its lane.
    pub(super) fn remove_root(&mut self) {
        self.lanes.remove(ROOT);
    }

    /// Takes the next task to be polled out of its lane and out of its slot.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Ready {
        loop {
            let (key, behind) = match self.lanes.pop() {
                Next::Poll(key, behind) => (key, behind),
                Next::Read => return Ready::Clock,
                Next::Nothing => return Ready::Nothing,
            };
            look_ahead(behind, &self.slots);
            if key == ROOT {
                return Ready::Root;
            }
            if let Some(task) = self.slots[key as usize].take() {
                return Ready::Task(task);
            }
            // The task completed after it had been queued once more.
            self.free.push(key);
        }
    }

    /// Puts a task that was polled back into its slot.
    #[inline]
    pub(super) fn put_back(&mut self, task: TaskRef) {
        self.fill(task.key(), task);
    }

    #[inline]
    fn fill(&mut self, key: u32, task: TaskRef) {
        let before = self.slots[key as usize].replace(task);
        debug_assert!(before.is_none(), "two tasks in one place");
        // The slot was empty: no destructor need run.
        mem::forget(before);
    }

    /// Notes that a task that was taken out has completed. Its place is free once it is no longer in the queue.
    #[inline]
    pub(super) fn completed(&mut self, task: &TaskRef) {
        self.alive -= usize::from(task.id() != Id::HIDDEN);
        if !task.is_queued() {
            self.free.push(task.key());
        }
    }

    /// Returns all tasks except the one that is being polled, in the order of their places.
    pub(super) fn listed(&self) -> Vec<ListedTask> {
        let tasks = self.slots.iter().flatten().filter(|task| !task.is_complete());
        tasks
            .map(|task| {
                let ready = task.is_queued() || task.is_scheduled();
                let state = if ready { TaskState::Ready } else { TaskState::Waiting };
                ListedTask { id: task.id(), address: task.address(), origin: task.origin(), state }
            })
            .collect()
    }

    /// Empties the queue and the table, and returns the tasks in no order.
    pub(super) fn clear(&mut self) -> Vec<TaskRef> {
        let slots = mem::take(self).slots;
        slots.into_iter().flatten().collect()
    }

    /// The capacity of the table, if no task needs it.
    pub(super) fn spare(&self) -> usize {
        if self.alive == 0 { self.slots.capacity() } else { 0 }
    }

    /// Frees memory of a past burst: half of what the `longest` recent queue has not needed; and the table, if it is empty, and a
    /// quarter of it has not been needed since it was emptied here.
    pub(super) fn trim(&mut self, longest: usize) {
        self.lanes.trim(|capacity| kept(capacity, longest));
        // The table could shrink from its end only, where a single long-lived task can sit.
        if self.alive == 0 && self.lanes.all(ROOT) {
            let capacity = self.slots.capacity();
            if kept(capacity, self.slots.len()) < capacity {
                self.slots = Vec::new();
                self.free = Vec::new();
            }
            // From here on its length is the number of places that are needed.
            self.slots.clear();
            self.free.clear();
        }
    }

    /// The capacity, in tasks, of the queue or of the table, whichever is larger.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.lanes.capacity().max(self.slots.capacity())
    }
}

/// Prefetches what the next polls of a lane will need: first the slot; once the slot is there, the beginning of the task; and
/// then the rest of it.
#[inline(always)]
fn look_ahead(lane: &VecDeque<u32>, slots: &[Option<TaskRef>]) {
    let task = |ahead: usize| lane.get(ahead).and_then(|key| slots.get(*key as usize)?.as_ref());
    if let Some(&key) = lane.get(SLOTS_AHEAD) {
        prefetch(slots.as_ptr().wrapping_add(key as usize));
    }
    if let Some(task) = task(HEADS_AHEAD) {
        task.prefetch_head();
    }
    if let Some(task) = task(TAILS_AHEAD) {
        task.prefetch_tail();
    }
}

/// The numbers of an executor that no thread has taken yet.
pub(super) struct Numbers {
    next: AtomicU64,
}

impl Numbers {
    /// Returns a counter whose first number is `first`.
    pub(super) fn new(first: u64) -> Numbers {
        Numbers { next: AtomicU64::new(first) }
    }

    /// Takes the next number, on any thread.
    pub(super) fn take(&self) -> Id {
        // Relaxed, here and below: the steps of one atomic are in one order, which is all that the numbers promise.
        Id::new(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns a number that is higher than all numbers that were taken.
    pub(super) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }
}

/// The numbers that the owner thread has taken and not yet given to tasks.
#[derive(Default)]
pub(super) struct NumberBlock {
    next: Cell<u64>,
    end: Cell<u64>,
}

impl NumberBlock {
    /// Takes a number, on the owner thread.
    #[inline]
    pub(super) fn take(&self, numbers: &Numbers) -> Id {
        let end = self.end.get();
        if self.next.get() == end || numbers.next() != end {
            self.refill(numbers);
        }
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        Id::new(number)
    }

    #[cold]
    fn refill(&self, numbers: &Numbers) {
        let first = numbers.next.fetch_add(BLOCK, Ordering::Relaxed);
        self.next.set(first);
        self.end.set(first.wrapping_add(BLOCK));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_later_task_gets_a_higher_number() {
        let (numbers, block) = (Numbers::new(0), NumberBlock::default());
        let mut last = None;
        for n in 0..100 {
            // Runs of both kinds, of all lengths up to more than a block.
            let owner = (n * n / 7) % 3 != 0;
            let number = if owner { block.take(&numbers) } else { numbers.take() };
            assert!(Some(number) > last, "{number} after {last:?}");
            last = Some(number);
        }
    }

    #[test]
    fn one_thread_alone_gets_every_number() {
        let (numbers, block) = (Numbers::new(0), NumberBlock::default());
        assert!((0..100).all(|n| block.take(&numbers).number() == n));
    }

    #[test]
    fn numbers_wrap_around_to_zero() {
        for first in [u64::MAX - 3, NUMBERS - 3] {
            let (numbers, block) = (Numbers::new(first), NumberBlock::default());
            let given: Vec<u64> = (0..8).map(|_| block.take(&numbers).number()).collect();
            assert_eq!(given, [NUMBERS - 3, NUMBERS - 2, NUMBERS - 1, NUMBERS, 0, 1, 2, 3]);
        }
    }
}
