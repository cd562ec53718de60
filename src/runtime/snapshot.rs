//! `Snapshot`: all that a runtime has pending at one moment, and how those who are elsewhere ask for it.
//!
//! ```text
//!   own thread      look ───────────────────────────────────────────────▶ Snapshot
//!   any thread      ask ─▶ waits in Questions, the runtime is roused
//!                            │ 1 the next turn ends: answer ────────────▶ Snapshot, one for all who asked
//!                            │ 2 the runtime is dropped: close ─────────▶ None
//!                   ask, and it was dropped before ─────────────────────▶ None, at once
//! ```
//!
//! Ground rules:
//!
//! * Tasks are their owner thread's, so only there a snapshot is taken.
//! * A question is answered once, without a lock or a borrow, for what it is answered by is user code.
//! * Nobody waits here. Who wants to does it elsewhere, and decides for how long.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use mainspring_driver::{Nanos, Pending};

use super::Handle;
use crate::executor::{Census, Id};
use crate::panics::Panics;

/// What a runtime has pending.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) now: Nanos,
    pub(crate) census: Census,
    /// Those of the tasks that have one.
    pub(crate) names: BTreeMap<Id, Arc<str>>,
    /// By (deadline, sequence number).
    pub(crate) timers: Vec<Pending>,
    /// What the data pointer of the waker is with which `block_on` polls its future; zero outside of it.
    pub(crate) root: usize,
}

impl Snapshot {
    /// The timers, with these tasks.
    pub(super) fn with(handle: &Handle, census: Census) -> Snapshot {
        let (timers, names) = (handle.timers(), handle.names().all());
        Snapshot {
            now: timers.now(),
            census,
            names,
            timers: timers.pending(),
            root: handle.questions().root(),
        }
    }
}

/// What is done with a snapshot, or when there will be none because the runtime is gone.
pub(crate) type Answer = Box<dyn FnOnce(Option<Snapshot>) + Send>;

/// Who waits for a snapshot.
#[derive(Default)]
pub(super) struct Questions {
    /// Whether there is one: the only part of this that a turn looks at.
    any: AtomicBool,
    list: Mutex<List>,
    root: AtomicUsize,
}

#[derive(Default)]
struct List {
    answers: Vec<Answer>,
    closed: bool,
}

impl Questions {
    /// Puts a question, or hands it back if nobody is going to answer. The caller rouses the runtime.
    fn put(&self, answer: Answer) -> Result<(), Answer> {
        let mut list = self.lock();
        if list.closed {
            return Err(answer);
        }
        list.answers.push(answer);
        // Release, together with the Acquire in `take`, is more than is needed: the list has its lock, and that the
        // turn comes to look here is the unparker's part.
        self.any.store(true, Ordering::Release);
        Ok(())
    }

    #[inline]
    fn take(&self) -> Vec<Answer> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut list = self.lock();
        // Relaxed: it is set again under the lock only, hence after this.
        self.any.store(false, Ordering::Relaxed);
        mem::take(&mut list.answers)
    }

    fn close(&self) -> Vec<Answer> {
        let mut list = self.lock();
        list.closed = true;
        mem::take(&mut list.answers)
    }

    /// A `block_on` polls its future with this waker, or ends.
    pub(super) fn set_root(&self, waker: Option<&Waker>) {
        // Relaxed: only the owner thread reads it.
        self.root.store(waker.map_or(0, |waker| waker.data() as usize), Ordering::Relaxed);
    }

    fn root(&self) -> usize {
        self.root.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    /// What is pending, if this is the runtime's thread and inside its `block_on`.
    pub(crate) fn look(&self) -> Option<Snapshot> {
        self.remote().census_here().map(|census| Snapshot::with(self, census))
    }

    /// Has `answer` called once: by the runtime's thread after its next turn, or with `None` as the runtime is dropped;
    /// if it was dropped before, here and now.
    pub(crate) fn ask(&self, answer: Answer) {
        match self.questions().put(answer) {
            Ok(()) => self.io().unpark(),
            Err(answer) => answer(None),
        }
    }

    /// Answers all who have asked.
    ///
    /// # Panics
    ///
    /// With the first panic of an answer, after all have been called.
    #[inline]
    pub(super) fn answer(&self) {
        let answers = self.questions().take();
        if !answers.is_empty() {
            call(answers, || self.look());
        }
    }

    /// Tells all who have asked, and all who will, that there is no runtime any more.
    ///
    /// # Panics
    ///
    /// As [`answer`](Handle::answer).
    pub(super) fn close_questions(&self) {
        call(self.questions().close(), || None);
    }
}

#[cold]
fn call(answers: Vec<Answer>, snapshot: impl Fn() -> Option<Snapshot>) {
    let mut panics = Panics::new();
    // Without a snapshot they are answered all the same: nobody waits for ever.
    let seen = panics.catch(snapshot).flatten();
    for answer in answers {
        let seen = panics.catch(|| seen.clone()).flatten();
        panics.catch(|| answer(seen));
    }
    panics.resume();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::panics::bomb::Bomb;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    #[test]
    fn who_asked_is_answered_also_if_the_snapshot_panics() {
        let answered = Arc::new(AtomicUsize::new(0));
        let answer = |_| -> Answer {
            let answered = answered.clone();
            Box::new(move |seen| {
                assert!(seen.is_none());
                answered.fetch_add(1, Ordering::Relaxed);
                Bomb::raise(9);
            })
        };
        let panicked =
            catch_unwind(AssertUnwindSafe(|| call((0..3).map(answer).collect(), || panic!("the snapshot"))));
        assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "the snapshot");
        assert_eq!(answered.load(Ordering::Relaxed), 3);
    }
}
