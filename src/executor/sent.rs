//! What other threads have sent to an executor: tasks that they woke, and tasks that they spawned.
//!
//! ```text
//!   any thread ── push ──▶ inbox's Sent ── refill, under the inbox's lock ──▶ owner's Sent ── pop ──▶ lanes
//! ```
//!
//! Ground rules:
//!
//! * Each of the two queues is first in, first out. They take turns: so a message to a task that lives does not wait until
//!   all the tasks that were spawned before have had their turn, however many these are, and neither queue starves the other.
//! * An abort may wake a task that was spawned and has yet to be taken in. Whichever is popped first: such a task counts as
//!   queued from the beginning, so the wake-up does nothing, and its first turn finds the abort.
//! * No user code runs here, and no reference to a task is dropped.

use super::task::TaskRef;
use super::tasks::Id;
use std::collections::VecDeque;
use std::mem;

/// Why a task is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is ready: a task of the executor.
    Woken,
    /// It is new: register it and queue it.
    Spawned,
}

/// A set of kinds: one bit for each.
pub(super) type Kinds = u8;

/// How far ahead tasks are prefetched, counted from the one that is taken: they were made or touched on another core.
const AHEAD: usize = 16;

/// Tasks of both kinds, each kind in order.
#[derive(Default)]
pub(super) struct Sent {
    woken: VecDeque<TaskRef>,
    spawned: VecDeque<TaskRef>,
    /// How many of those are [hidden](Id::HIDDEN).
    hidden: usize,
    /// Whose turn it is, if there are tasks of both kinds.
    spawned_next: bool,
}

impl Sent {
    pub(super) fn len(&self) -> usize {
        self.woken.len() + self.spawned.len()
    }

    /// Of which kinds there are tasks.
    pub(super) fn kinds(&self) -> Kinds {
        u8::from(!self.woken.is_empty()) | u8::from(!self.spawned.is_empty()) << 1
    }

    /// The number of tasks that were spawned, except hidden ones.
    pub(super) fn spawned(&self) -> usize {
        self.spawned.len() - self.hidden
    }

    pub(super) fn push(&mut self, kind: Kind, task: TaskRef) {
        self.hidden += usize::from(is_hidden(kind, &task));
        self.queue(kind).push_back(task);
    }

    /// Takes the next task.
    pub(super) fn pop(&mut self) -> Option<(Kind, TaskRef)> {
        let spawned = !self.spawned.is_empty() && (self.spawned_next || self.woken.is_empty());
        self.spawned_next = !spawned;
        let kind = if spawned { Kind::Spawned } else { Kind::Woken };
        let queue = self.queue(kind);
        if let Some(task) = queue.get(AHEAD) {
            task.prefetch_head();
        }
        let task = queue.pop_front()?;
        self.hidden -= usize::from(is_hidden(kind, &task));
        Some((kind, task))
    }

    /// Takes all tasks of those kinds of which there are none here. Empty queues go back, so that they need not be allocated again.
    pub(super) fn refill(&mut self, from: &mut Sent) {
        if self.spawned.is_empty() {
            mem::swap(&mut self.hidden, &mut from.hidden);
        }
        for kind in [Kind::Woken, Kind::Spawned] {
            if self.queue(kind).is_empty() {
                mem::swap(self.queue(kind), from.queue(kind));
            }
        }
    }

    /// Frees memory of a past burst: an empty queue shrinks to what `kept` returns for its capacity.
    pub(super) fn trim(&mut self, kept: impl Fn(usize) -> usize) {
        for kind in [Kind::Woken, Kind::Spawned] {
            let queue = self.queue(kind);
            // If tasks are left, they would have to be copied: leave it to the next trim.
            if queue.is_empty() {
                queue.shrink_to(kept(queue.capacity()));
            }
        }
    }

    /// The capacity, in tasks, of the larger queue.
    pub(super) fn capacity(&self) -> usize {
        self.woken.capacity().max(self.spawned.capacity())
    }

    fn queue(&mut self, kind: Kind) -> &mut VecDeque<TaskRef> {
        match kind {
            Kind::Woken => &mut self.woken,
            Kind::Spawned => &mut self.spawned,
        }
    }
}

fn is_hidden(kind: Kind, task: &TaskRef) -> bool {
    kind == Kind::Spawned && task.id() == Id::HIDDEN
}
