//! What a runtime has pending, and what its thread is polling: for a dump, and for `Handle::running`.
//!
//! ```text
//!   own thread      snapshot ───────────────────────────────────────▶ Snapshot
//!   any thread      request_snapshot: spawns a Request
//!                     │ 1 it is polled ──────────────────────────────▶ Snapshot
//!                     │ 2 it is dropped, as the runtime is ──────────▶ None
//!                     └ 3 the runtime was dropped before ────────────▶ None, at once
//!   any thread      running_poll ───────────────────────────────────▶ RunningPoll
//! ```
//!
//! Ground rules:
//!
//! * Tasks belong to their owner thread, so a snapshot is taken only there.
//! * A request is a task that is in no list of tasks. So it is answered once, without a lock or a borrow. If it panics or
//!   does not complete, it is treated like any other task.
//! * Nothing waits here. A caller that wants to wait does so elsewhere, and decides for how long.
//! * No poll reads a clock for `running_poll`. The lower bound of a poll's duration comes from two looks that find the same
//!   poll. The upper bound comes from the event loop's own reading of the clock, before its stretch of polls. Both bounds
//!   hold: the clock is read after the look that finds a poll first, before the look that finds it again, and for the upper
//!   bound after the look.

use std::collections::BTreeMap;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use mainspring_driver::{Nanos, Pending};

use super::Handle;
use super::context::{self, guarded};
use crate::executor::{Id, Spawned, TaskList};

/// What a runtime has pending.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) now: Nanos,
    pub(crate) tasks: TaskList,
    /// The names of the tasks that have one.
    pub(crate) names: BTreeMap<Id, Arc<str>>,
    /// Ordered by (deadline, number).
    pub(crate) timers: Vec<Pending>,
}

impl Snapshot {
    /// Makes a snapshot of the timers and of these tasks.
    pub(super) fn with(handle: &Handle, tasks: TaskList) -> Snapshot {
        let (timers, names) = (handle.timers(), handle.names().all());
        Snapshot { now: timers.now(), tasks, names, timers: timers.pending() }
    }
}

/// The task that answers a request.
struct Request<A: FnOnce(Option<Snapshot>)> {
    answer: Option<A>,
}

impl<A: FnOnce(Option<Snapshot>)> Unpin for Request<A> {}

impl<A: FnOnce(Option<Snapshot>)> Future for Request<A> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let handle = context::with(Handle::clone).ok();
        let snapshot = handle.and_then(|handle| handle.snapshot());
        if let Some(answer) = self.answer.take() {
            answer(snapshot);
        }
        Poll::Ready(())
    }
}

impl<A: FnOnce(Option<Snapshot>)> Drop for Request<A> {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            answer(None);
        }
    }
}

/// The poll that was seen last, and when it was first seen.
#[derive(Debug, Default)]
pub(super) struct LastSeen(Mutex<Option<(PollId, Instant)>>);

/// What identifies a poll: the turn it belongs to, and its word.
pub(crate) type PollId = (u64, u64);

/// A poll that is under way.
#[derive(Clone, Debug)]
pub(crate) struct RunningPoll {
    pub(crate) poll: PollId,
    /// None: the future of `block_on`.
    pub(crate) id: Option<Id>,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) origin: &'static Location<'static>,
    pub(crate) at_least: Duration,
    pub(crate) at_most: Option<Duration>,
}

impl LastSeen {
    /// Notes that a look between `before` and `after` saw this poll. Returns how long the poll is known to have lasted.
    fn known_for(&self, poll: PollId, before: Instant, after: Instant) -> Duration {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *last {
            Some((seen, first)) if seen == poll => before.saturating_duration_since(first),
            _ => {
                *last = Some((poll, after));
                Duration::ZERO
            }
        }
    }
}

impl Handle {
    /// What is pending, if this is the runtime's thread and inside its `block_on`.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        self.remote().task_list_here().map(|tasks| Snapshot::with(self, tasks))
    }

    /// Has `answer` called once: by a task of the runtime, or with `None` when the runtime is dropped; if it was dropped
    /// before, at once, on this thread.
    #[track_caller]
    pub(crate) fn request_snapshot(&self, answer: impl FnOnce(Option<Snapshot>) + Send + 'static) {
        let spawned = Spawned { id: Id::HIDDEN, at: Location::caller() };
        drop(self.remote().spawn_as(guarded(Request { answer: Some(answer) }), spawned));
    }

    /// What is being polled, if anything is. Can be called on any thread.
    pub(crate) fn running_poll(&self) -> Option<RunningPoll> {
        let before = Instant::now();
        let found = self.remote().polling().get().filter(|poll| poll.id != Some(Id::HIDDEN))?;
        let after = Instant::now();
        let poll = (self.counters().turns.get(), found.word);
        let at_least = self.last_seen().known_for(poll, before, after);
        let timers = self.timers();
        // A clock that is advanced by the program, or stopped, says nothing about how long anything had to wait.
        let counts = timers.clock_changes() == 0 && !timers.clock().is_test();
        let at_most = counts.then(|| timers.now().saturating_duration_since(Nanos::new(found.since)));
        let name = found.id.and_then(|id| self.names().get(id));
        Some(RunningPoll { poll, id: found.id, name, origin: found.origin, at_least, at_most })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::panics::bomb::Bomb;
    use crate::{Runtime, spawn};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn who_asks_is_answered_whatever_the_other_answers_do() {
        let runtime = Runtime::new().unwrap();
        let answered = Arc::new(AtomicUsize::new(0));
        let ask = |alive: bool| {
            let answered = answered.clone();
            runtime.handle().request_snapshot(move |snapshot| {
                assert_eq!(snapshot.is_some(), alive);
                answered.fetch_add(1, Ordering::Relaxed);
                Bomb::raise(9);
            });
        };
        (0..3).for_each(|_| ask(true));
        runtime.block_on(async { spawn(async {}).await.unwrap() });
        assert_eq!(answered.load(Ordering::Relaxed), 3);
        (0..3).for_each(|_| ask(false));
        drop(runtime);
        assert_eq!(answered.load(Ordering::Relaxed), 6);
    }
}
