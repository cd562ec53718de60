//! Which future the owner thread is polling, for other threads to see.
//!
//! ```text
//!   owner thread                        any thread
//!   (1) origin = where it was spawned   (1) word: if it is zero, nothing is polled
//!   (2) word = which poll it is         (2) origin, since
//!       polls                           (3) word again: if it is another, all over again
//!   (3) word = 0
//! ```
//!
//! Ground rules:
//!
//! * Only the owner thread writes, and takes no step for it that is locked: two stores before a poll, and one after.
//! * No two polls of one stretch, between two looks at I/O and timers, have the same word, and `since` changes only
//!   between stretches. So what is read between two equal words belongs to that poll.

use super::numbers::Id;
use super::task::AtomicOrigin;
use super::task_list::Origin;
use crate::sync::{AtomicU64, Ordering};

/// The word of a poll: the task's number, and below it these two, and the lowest bits of the count of polls.
const POLLED: u64 = 1 << 15;
/// It is the root that is polled, which has no number.
const ROOT: u64 = 1 << 14;
const COUNT: u64 = ROOT - 1;
/// How far the number is shifted. It has 48 bits.
const NUMBER: u32 = 16;

/// So often a reader tries again. Who polls so much that this is not enough does not hang.
const TRIES: usize = if cfg!(loom) { 2 } else { 64 };

/// What the owner thread is polling.
pub(crate) struct Polling {
    word: AtomicU64,
    origin: AtomicOrigin,
    /// When the stretch of polls began, by a clock that the executor does not know.
    since: AtomicU64,
}

/// A poll that another thread has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Poll {
    /// None: the root's.
    pub(crate) id: Option<Id>,
    /// Where the task was spawned, or the root's `block_on` called.
    pub(crate) origin: Origin,
    /// When the stretch of polls began to which it belongs.
    pub(crate) since: u64,
    /// Tells it from the others of the stretch.
    pub(crate) word: u64,
}

impl Polling {
    pub(super) fn new() -> Polling {
        Polling { word: AtomicU64::new(0), origin: AtomicOrigin::new(), since: AtomicU64::new(0) }
    }

    /// A stretch of polls begins.
    #[inline]
    pub(crate) fn set_since(&self, since: u64) {
        // Release: as for the origin, below.
        self.since.store(since, Ordering::Release);
    }

    /// Calls `poll`, which polls the root for the `count`th time; its `block_on` was called there.
    #[inline]
    pub(crate) fn root<R>(&self, origin: Origin, count: u64, poll: impl FnOnce() -> R) -> R {
        /// Notes that the poll has ended, also after a panic.
        struct Ends<'a>(&'a Polling);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.end();
            }
        }
        self.begin(None, origin, count);
        let _ends = Ends(self);
        poll()
    }

    /// A poll of this task begins, or if there is none, of the root; `count` is another for each of its polls.
    #[inline]
    pub(super) fn begin(&self, id: Option<Id>, origin: Origin, count: u64) {
        // Release: who reads this origin finds that the poll before it has ended.
        self.origin.store(origin, Ordering::Release);
        let who = id.map_or(ROOT, |id| id.number() << NUMBER);
        // Release: who reads this word finds the origin, or a later one.
        self.word.store(who | POLLED | (count & COUNT), Ordering::Release);
    }

    /// The poll has ended.
    #[inline]
    pub(super) fn end(&self) {
        // Relaxed: what comes after is released by the stores that begin the next.
        self.word.store(0, Ordering::Relaxed);
    }

    /// What is being polled, if anything is.
    pub(crate) fn get(&self) -> Option<Poll> {
        for _ in 0..TRIES {
            // Acquire: what is read after it belongs to this poll or to a later one.
            let word = self.word.load(Ordering::Acquire);
            if word == 0 {
                return None;
            }
            // Acquire: if it is of a later one, the word is seen to be another, too.
            let origin = self.origin.load(Ordering::Acquire);
            let since = self.since.load(Ordering::Acquire);
            // Relaxed: the loads above come before it, as they acquire.
            if let (Some(origin), true) = (origin, self.word.load(Ordering::Relaxed) == word) {
                let id = (word & ROOT == 0).then(|| Id::new(word >> NUMBER));
                return Some(Poll { id, origin, since, word });
            }
        }
        // Polls that are over so quickly are not what anybody looks for.
        None
    }
}
