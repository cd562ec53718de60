//! The half of an executor that any thread may use: the inbox, the means to unpark the owner, and what the owner is polling.
//!
//! A sender and an owner that is about to park must not miss one another. Each writes first and then looks:
//!
//! ```text
//!   sender                                     owner
//!   (1) puts its task in, notes it in `ready`  (1) "I am parking" (in the unparker's own state)
//!   (2) unpark: does the owner park?           (2) has_ready: is anything in `ready`?
//! ```
//!
//! Both writes and both reads are sequentially consistent, so at least one of the two sees the other.
//!
//! The owner writes which future is being polled ([`Polling`]), and other threads read it:
//!
//! ```text
//!   owner thread                        any thread
//!   (3) origin = where it was spawned   (3) word: if it is zero, nothing is polled
//!   (4) word = which poll it is         (4) origin, since
//!       polls                           (5) word again: if it is another, all over again
//!   (5) word = 0
//! ```
//!
//! Ground rules:
//!
//! * `ready` says of which kinds the inbox holds tasks; both change under the lock.
//! * No task is dropped and no thread unparked under the lock. A refused task goes back to its sender.
//! * Once closed, an inbox stays closed and empty.
//! * There is one [`Owner`] for each `Remote`, and it never leaves the thread that made it.
//! * The owner notes what it polls without a locked step: two stores before a poll, and one after.
//! * A stretch is the polls between two looks at I/O and timers. No two polls of a stretch have the same word, and `since`
//!   changes only between stretches. So what is read between two equal words belongs to that poll.

use super::entered;
use super::join::JoinHandle;
use super::local::Local;
use super::sent::{Kind, Kinds, Sent};
use super::task::{self, AtomicOrigin, Pool, TaskRef, Unsent};
use super::tasks::{Id, Numbers, Origin, Spawned, TaskList};
use crate::sync::{AtomicU8, AtomicU64, Mutex, MutexGuard, Ordering, lock};
use mainspring_driver::Unpark;
use std::cell::{RefCell, RefMut};
use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;

struct Inbox {
    sent: Sent,
    closed: bool,
}

/// The half of an executor that any thread may use.
pub(crate) struct Remote {
    inbox: Mutex<Inbox>,
    ready: AtomicU8,
    numbers: Numbers,
    polling: Polling,
    unpark: Arc<dyn Unpark>,
}

impl Remote {
    /// Spawns `future` as a task of the executor. If the executor has shut down, the future is dropped immediately, and
    /// the handle says that the task was cancelled.
    pub(crate) fn spawn_as<F>(self: &Arc<Self>, future: F, spawned: Spawned) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.send(task::remote(future, spawned, self.clone()))
    }

    /// Like [`spawn_as`](Remote::spawn_as), but `build` makes the task's future on the owner's thread, when the task is
    /// polled for the first time. Only `build` need be Send.
    pub(crate) fn spawn_built<B, F>(self: &Arc<Self>, build: B, spawned: Spawned) -> JoinHandle<F::Output>
    where
        B: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        self.send(task::built(build, spawned, self.clone()))
    }

    /// Whether this thread is in a turn of the executor.
    #[inline]
    pub(crate) fn is_entered(self: &Arc<Self>) -> bool {
        entered::is_current(self)
    }

    fn send<F: Future + 'static>(
        self: &Arc<Self>,
        (task, mut claim): (TaskRef, Unsent<F>),
    ) -> JoinHandle<F::Output> {
        if let Err(task) = self.push(Kind::Spawned, task) {
            // The inbox did not keep it, so this thread has the task to itself again.
            drop(task);
            claim.refuse();
        }
        JoinHandle::new(claim.claim())
    }

    /// Returns the handle of a task that the executor does not take in, because it has shut down. The future is dropped
    /// immediately.
    #[cold]
    pub(crate) fn refuse<F: Future + 'static>(
        self: &Arc<Self>,
        future: F,
        spawned: Spawned,
    ) -> JoinHandle<F::Output> {
        JoinHandle::new(task::refused(future, spawned, self.clone()))
    }

    /// Returns what is known of the next task, which is spawned at `at`.
    pub(crate) fn next(self: &Arc<Self>, at: Origin) -> Spawned {
        // The owner thread has numbers of its own.
        let local = entered::here(self, |local| local.next(at));
        local.unwrap_or_else(|| Spawned { id: self.numbers.take(), at })
    }

    /// Returns whether the executor has shut down.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Returns the number of tasks that have not completed, if this is the owner thread.
    pub(crate) fn unfinished_here(self: &Arc<Self>) -> Option<usize> {
        let local = Local::entered(self).or_else(|| Local::owned(self))?;
        Some(local.unfinished())
    }

    /// Returns a list of the tasks as they are now, if this is the owner thread and it has entered the executor.
    pub(crate) fn task_list_here(self: &Arc<Self>) -> Option<TaskList> {
        entered::here(self, TaskList::new)
    }

    /// What the owner thread is polling.
    #[inline]
    pub(crate) fn polling(&self) -> &Polling {
        &self.polling
    }

    /// Makes the owner's current or next park end at once.
    pub(super) fn unpark(&self) {
        self.unpark.unpark();
    }

    /// Returns of which kinds the inbox holds tasks.
    #[inline]
    pub(super) fn ready(&self) -> Kinds {
        // SeqCst: step (2) of the owner. It orders this load after the owner's "I am parking".
        self.ready.load(Ordering::SeqCst)
    }

    /// Returns how many tasks in the inbox were spawned, except hidden ones.
    pub(super) fn spawned(&self) -> usize {
        self.lock().sent.spawned()
    }

    /// The capacity of the inbox, in tasks.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.lock().sent.capacity()
    }

    /// Puts `task` into the inbox and unparks the owner; returns the task if the executor has shut down.
    ///
    /// From here on the task may be gone, and with it everything it kept alive: the caller must hold
    /// an `Arc` of this `Remote` that is not the task's.
    pub(super) fn push(self: &Arc<Self>, kind: Kind, task: TaskRef) -> Result<(), TaskRef> {
        let mut inbox = self.lock();
        if inbox.closed {
            drop(inbox);
            return Err(task);
        }
        debug_assert_eq!(self.ready.load(Ordering::Relaxed), inbox.sent.kinds());
        inbox.sent.push(kind, task);
        // SeqCst: step (1) of the sender. The store is not skipped when it changes nothing, because the
        // sender's own later read, in `unpark`, must not move before it.
        self.ready.store(inbox.sent.kinds(), Ordering::SeqCst);
        drop(inbox);
        self.unpark();
        Ok(())
    }

    /// The numbers of the executor's tasks.
    #[inline]
    pub(super) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        lock(&self.inbox)
    }
}

/// The proof that the code which holds it runs on the owner thread. It cannot be sent to another thread, nor made a
/// second time for the same [`Remote`].
pub(super) struct Owner {
    remote: Arc<Remote>,
    /// Free memory for tasks. A borrow lasts for one statement, which calls at most the allocator.
    pool: RefCell<Pool>,
    _stays_here: PhantomData<*const ()>,
}

impl Owner {
    /// Makes this thread the owner of a new inbox. Tasks are numbered from `first` on.
    pub(super) fn new(unpark: Arc<dyn Unpark>, first: u64) -> Owner {
        let remote = Remote {
            inbox: Mutex::new(Inbox { sent: Sent::default(), closed: false }),
            ready: AtomicU8::new(0),
            numbers: Numbers::new(first),
            polling: Polling::new(),
            unpark,
        };
        Owner { remote: Arc::new(remote), pool: RefCell::new(Pool::new()), _stays_here: PhantomData }
    }

    /// The half for the other threads.
    #[inline]
    pub(super) fn remote(&self) -> &Arc<Remote> {
        &self.remote
    }

    /// Free memory for tasks.
    #[inline]
    pub(super) fn pool(&self) -> RefMut<'_, Pool> {
        self.pool.borrow_mut()
    }

    /// Returns whether `remote` belongs to this owner.
    #[inline]
    pub(super) fn owns(&self, remote: &Arc<Remote>) -> bool {
        Arc::ptr_eq(&self.remote, remote)
    }

    /// Moves the inbox's tasks of those kinds of which there are none in `sent` there. Returns the [capacity](Sent::capacity) of what
    /// goes back.
    pub(super) fn take(&self, sent: &mut Sent) -> usize {
        let mut inbox = self.remote.lock();
        sent.refill(&mut inbox.sent);
        // Relaxed: it changes next under the lock, hence after this.
        self.remote.ready.store(inbox.sent.kinds(), Ordering::Relaxed);
        inbox.sent.capacity()
    }

    /// Frees memory of a past burst, as [`Sent::trim`] does. Only the allocator is called under the lock. Returns the capacity
    /// that is left.
    pub(super) fn trim(&self, kept: impl Fn(usize) -> usize) -> usize {
        let mut inbox = self.remote.lock();
        inbox.sent.trim(kept);
        inbox.sent.capacity()
    }

    /// Closes the inbox, which refuses all tasks from now on. Returns those that had been put in before.
    pub(super) fn close(&self) -> Sent {
        let mut inbox = self.remote.lock();
        inbox.closed = true;
        self.remote.ready.store(0, Ordering::Relaxed);
        mem::take(&mut inbox.sent)
    }
}

/// The word of a poll is the task's number, below it this bit and the next, and below these the lowest bits of the count of
/// polls.
const POLLED: u64 = 1 << 15;
/// Set if the root is polled, which has no number.
const ROOT: u64 = 1 << 14;
const COUNT: u64 = ROOT - 1;
/// How far the number is shifted. The number has 48 bits.
const NUMBER: u32 = 16;

/// How often a reader tries. If the owner polls so quickly that this is not enough, it is not stuck in a poll.
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
    /// None: the root is polled.
    pub(crate) id: Option<Id>,
    /// Where the task was spawned, or the root's `block_on` called.
    pub(crate) origin: Origin,
    /// When the stretch began to which the poll belongs.
    pub(crate) since: u64,
    /// Distinguishes the poll from the other polls of the stretch.
    pub(crate) word: u64,
}

impl Polling {
    pub(super) fn new() -> Polling {
        Polling { word: AtomicU64::new(0), origin: AtomicOrigin::new(), since: AtomicU64::new(0) }
    }

    /// Notes that a stretch of polls begins.
    #[inline]
    pub(crate) fn set_since(&self, since: u64) {
        // Release: as for the origin, below.
        self.since.store(since, Ordering::Release);
    }

    /// Calls `poll`, which polls the root for the `count`th time. `origin` is where its `block_on` was called.
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

    /// Notes that a poll of this task, or of the root if there is no task, begins. `count` differs for each of its polls.
    #[inline]
    pub(super) fn begin(&self, id: Option<Id>, origin: Origin, count: u64) {
        // Release: a thread that reads this origin finds that the poll before it has ended.
        self.origin.store(origin, Ordering::Release);
        let who = id.map_or(ROOT, |id| id.number() << NUMBER);
        // Release: a thread that reads this word finds the origin, or a later one.
        self.word.store(who | POLLED | (count & COUNT), Ordering::Release);
    }

    /// Notes that the poll has ended.
    #[inline]
    pub(super) fn end(&self) {
        // Relaxed: what comes after is released by the stores that begin the next poll.
        self.word.store(0, Ordering::Relaxed);
    }

    /// Returns the poll that is running, if there is one.
    pub(crate) fn get(&self) -> Option<Poll> {
        for _ in 0..TRIES {
            // Acquire: what is read after this load belongs to this poll or to a later one.
            let word = self.word.load(Ordering::Acquire);
            if word == 0 {
                return None;
            }
            // Acquire: if this belongs to a later poll, the word is seen to be another, too.
            let origin = self.origin.load(Ordering::Acquire);
            let since = self.since.load(Ordering::Acquire);
            // Relaxed: the loads above come before this one, because they acquire.
            if let (Some(origin), true) = (origin, self.word.load(Ordering::Relaxed) == word) {
                let id = (word & ROOT == 0).then(|| Id::new(word >> NUMBER));
                return Some(Poll { id, origin, since, word });
            }
        }
        // Polls that end so quickly are of no interest to the caller.
        None
    }
}
