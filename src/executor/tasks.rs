//! The table of live tasks, and the lanes of the run queue, which name tasks by their place in the table.
//!
//! ```text
//!   lane    4 . 0 . 2                        places, first in, first out; prefetch runs ahead of it
//!   slots   [task] [    ] [task] [    ] [task]
//!              0      1      2      3      4    1: being polled, or completed while queued; 3: free
//! ```
//!
//! The future of `block_on` waits its turn among them, at a place that is in no table: [`ROOT`].
//!
//! Ground rules:
//!
//! * A task lies in its slot but while it is polled. Its place stays its own until it has completed and left the
//!   queue: a place in the queue never comes to mean another task.
//! * No user code runs here. References to tasks go in and out, and none is dropped.

use super::lanes::{Lane, Lanes, Next};
use super::numbers::Id;
use super::remote::Remote;
use super::task::{TaskRef, prefetch};
use super::task_list::{ListedTask, TaskState};
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

/// Capacity, in tasks, that is never given back.
const KEEP: usize = 256;

/// How much capacity stays of one that is trimmed: half of it, if the `longest` queue of late has not needed a quarter.
pub(super) fn kept(capacity: usize, longest: usize) -> usize {
    if capacity > KEEP && longest < capacity / 4 { (capacity / 2).max(KEEP) } else { capacity }
}

/// So far ahead of the queue's front the slots are prefetched, the beginnings of tasks, and the rest of them. In a queue that is
/// shorter everything is near.
const SLOTS_AHEAD: usize = 16;
const HEADS_AHEAD: usize = 5;
const TAILS_AHEAD: usize = 2;

/// References to the `Remote` that are kept for tasks to come.
const SPARE_REMOTES: usize = 1024;

/// The place of the future of `block_on`.
const ROOT: u32 = u32::MAX;

/// What is to be done next.
pub(super) enum Ready {
    /// To poll this task.
    Task(TaskRef),
    /// To poll the future of `block_on`.
    Root,
    /// To read the clock.
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
    /// References to the `Remote`, from tasks that ended here. A new task takes one over, which spares it the two
    /// atomic steps.
    remotes: Vec<Arc<Remote>>,
    /// Tasks that have a place and have not completed, but for [hidden](Id::HIDDEN) ones.
    alive: usize,
}

impl Tasks {
    /// Tasks that have not completed.
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

    /// A reference for a new task, if one is left from an old one.
    #[inline]
    pub(super) fn spare_remote(&mut self) -> Option<Arc<Remote>> {
        self.remotes.pop()
    }

    /// Keeps a reference for a new task; hands it back if enough are kept.
    #[inline]
    pub(super) fn keep_remote(&mut self, remote: Arc<Remote>) -> Option<Arc<Remote>> {
        if self.remotes.len() >= SPARE_REMOTES {
            return Some(remote);
        }
        self.remotes.push(remote);
        None
    }

    /// Gives a new task a place, and queues it.
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
                let key = key.expect("so many tasks do not fit into memory");
                task.set_key(key);
                self.slots.push(Some(task));
                key
            }
        };
        self.lanes.push(Lane::Woken, key);
    }

    /// Queues the task in this place, which is marked as queued.
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

    /// Takes the next task that is to be polled, out of its lane and out of its slot.
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
            // It completed after it had been queued once more.
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
        // No destructor for what is not there.
        mem::forget(before);
    }

    /// A task that was taken out has completed. Its place is free once it is in the queue no more.
    #[inline]
    pub(super) fn completed(&mut self, task: &TaskRef) {
        self.alive -= usize::from(task.id() != Id::HIDDEN);
        if !task.is_queued() {
            self.free.push(task.key());
        }
    }

    /// All tasks but the one that is being polled, by their places.
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

    /// Gives memory of a past burst back: half of what the `longest` queue of late has not needed.
    pub(super) fn trim(&mut self, longest: usize) {
        self.lanes.trim(|capacity| kept(capacity, longest));
        // The table could shrink from its end only, where a single long-lived task can sit.
        if self.alive == 0 && self.lanes.all(ROOT) && self.slots.capacity() > KEEP {
            self.slots = Vec::new();
            self.free = Vec::new();
        }
    }

    /// Room for tasks in the larger of the queue and the table.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.lanes.capacity().max(self.slots.capacity())
    }
}

/// Asks for what the next polls of a lane will need to be prefetched: first the slot; when that is there, the beginning of the
/// task; and when that is there, the rest of it.
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
