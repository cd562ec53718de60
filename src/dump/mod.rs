//! What is pending: every task with the line that spawned it, every timer with the line that made it.
//!
//! There are three ways to get a [`Dump`]. None of them can hang:
//!
//! | where | what |
//! |---|---|
//! | on the runtime's own thread, in a task or in `block_on`'s future | [`Handle::dump`] |
//! | where the [`Runtime`] is accessible, between two calls of `block_on` or `turn` | [`Runtime::dump`] |
//! | on any other thread | [`Handle::dump_within`], which waits for at most a given time; [`Handle::request_dump`], which does not wait |
//!
//! A runtime that is blocked by a task cannot answer. [`Handle::running`] says which task that is, from any thread and at
//! once.
//!
//! ```
//! use std::time::Duration;
//! use mainspring::{Handle, sleep, spawn, task};
//!
//! mainspring::block_on(async {
//!     spawn(sleep(Duration::from_secs(30)));
//!     task::yield_now().await;
//!     let dump = Handle::current().dump()?;
//!     assert_eq!((dump.tasks.len(), dump.timers.len()), (1, 1));
//!     assert_eq!(dump.tasks[0].spawned_at.file(), file!());
//!     println!("{dump}");
//!     # Ok::<(), mainspring::dump::DumpError>(())
//! })?;
//! # Ok::<(), mainspring::dump::DumpError>(())
//! ```
//!
//! It prints, with the names of files and the line numbers:
//!
//! ```text
//! 1 task, 1 timer
//! timers, by deadline:
//!   in 30.0s       made at src/main.rs:5:11    wakes task 0
//! tasks, in the order of spawning:
//!   task 0         spawned at src/main.rs:5:5  waiting, for 1 timer: in 30.0s
//! ```
//!
//! A task that waits and has no timer waits for something else: a socket, a channel, another task. Timers that are made and
//! not yet polled are not pending. A `DelayQueue` or a `TimerMap` appears as one timer, which is the one that it waits for
//! next, made where the queue was made.
//!
//! A dump takes about half a microsecond for a task and its timer, and memory for both. Timers are collected under the lock
//! that arming them takes: for a million timers, that is 40 ms. Between dumps nothing is maintained for them except eight
//! bytes per task.
//
// Ground rules:
//
// * A dump is a copy: it holds no part of the runtime.
// * Which task a timer wakes is found by comparing addresses, taken at one moment on the thread that owns the tasks. So
//   what the dump says about a task is true of that task.

mod running;
mod text;

pub use crate::executor::TaskState;
pub use running::Running;

use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::clock::{Instant, from_nanos};
use crate::runtime::{Handle, Runtime, Snapshot};
use crate::task::Id;

/// What a runtime had pending at one moment. See [the module](self).
///
/// ```
/// use std::time::Duration;
/// use mainspring::{Handle, sleep, spawn};
///
/// mainspring::block_on(async {
///     let task = spawn(sleep(Duration::from_secs(30)));
///     mainspring::task::yield_now().await;
///     let dump = Handle::current().dump()?;
///     assert_eq!(dump.timers_of(task.id()).count(), 1);
///     assert!(dump.timers[0].deadline > dump.at);
///     # Ok::<(), mainspring::dump::DumpError>(())
/// })?;
/// # Ok::<(), mainspring::dump::DumpError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Dump {
    /// When the dump was taken, by the runtime's clock.
    pub at: Instant,
    /// The tasks that had not ended, in the order of spawning.
    pub tasks: Vec<TaskInfo>,
    /// The timers that were armed, in the order in which they are due.
    pub timers: Vec<TimerInfo>,
}

/// A task.
///
/// ```
/// mainspring::block_on(async {
///     let worker = mainspring::task::Builder::new().name("worker");
///     let task = worker.spawn(std::future::pending::<()>());
///     let dump = mainspring::Handle::current().dump()?;
///     let info = &dump.tasks[0];
///     assert_eq!((info.id, info.name.as_deref()), (task.id(), Some("worker")));
///     assert_eq!(info.spawned_at.file(), file!());
///     # Ok::<(), mainspring::dump::DumpError>(())
/// })?;
/// # Ok::<(), mainspring::dump::DumpError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskInfo {
    /// Which task it is.
    pub id: Id,
    /// Its name, if it [has](crate::task::Builder) one.
    pub name: Option<Arc<str>>,
    /// The line that spawned it.
    pub spawned_at: &'static Location<'static>,
    /// What it is doing.
    pub state: TaskState,
}

/// A timer.
///
/// ```
/// use std::time::Duration;
/// use mainspring::{Handle, sleep, spawn};
///
/// mainspring::block_on(async {
///     spawn(sleep(Duration::from_secs(30)));
///     mainspring::task::yield_now().await;
///     let dump = Handle::current().dump()?;
///     let timer = &dump.timers[0];
///     assert!(timer.deadline - dump.at <= Duration::from_secs(30));
///     assert_eq!(timer.made_at.file(), file!());
///     # Ok::<(), mainspring::dump::DumpError>(())
/// })?;
/// # Ok::<(), mainspring::dump::DumpError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimerInfo {
    /// When it is due. If it is due already, the runtime has not processed it yet.
    pub deadline: Instant,
    /// The line that made it.
    pub made_at: &'static Location<'static>,
    /// What it wakes when it fires.
    pub wakes: Wakes,
}

/// What a timer wakes.
///
/// ```
/// use std::time::Duration;
/// use mainspring::dump::Wakes;
/// use mainspring::{Handle, sleep, spawn};
///
/// mainspring::block_on(async {
///     let task = spawn(sleep(Duration::from_secs(30)));
///     mainspring::task::yield_now().await;
///     let dump = Handle::current().dump()?;
///     assert_eq!(dump.timers[0].wakes, Wakes::Task(task.id()));
///     # Ok::<(), mainspring::dump::DumpError>(())
/// })?;
/// # Ok::<(), mainspring::dump::DumpError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wakes {
    /// The task with this [id](TaskInfo::id).
    Task(Id),
    /// The future of the `block_on` that is under way.
    BlockOn,
    /// A waker that is not the runtime's own, such as a waker of `FuturesUnordered`, of `join_all` or of another runtime;
    /// or the waker of a `block_on` that has returned.
    Foreign,
}

impl Dump {
    fn of(snapshot: Snapshot) -> Dump {
        let Snapshot { now, tasks: list, names, timers } = snapshot;
        let ids: HashMap<usize, Id> = list.tasks.iter().map(|task| (task.address, task.id)).collect();
        let tasks = list.tasks.iter().map(|task| TaskInfo {
            id: task.id,
            name: names.get(&task.id).cloned(),
            spawned_at: task.origin,
            state: task.state,
        });
        let timers = timers.iter().map(|timer| {
            let (data, functions) = (timer.waker_data, timer.waker_vtable);
            let task = ids.get(&data).filter(|_| functions == list.functions);
            let wakes = match task {
                Some(id) => Wakes::Task(*id),
                // The root lives while its `block_on` runs, so no other data is at its address.
                None if list.root != 0 && data == list.root => Wakes::BlockOn,
                None => Wakes::Foreign,
            };
            TimerInfo { deadline: from_nanos(timer.deadline), made_at: timer.origin, wakes }
        });
        Dump { at: from_nanos(now), tasks: tasks.collect(), timers: timers.collect() }
    }

    /// Returns the timers that wake a task, in the order in which they are due.
    pub fn timers_of(&self, task: Id) -> impl Iterator<Item = &TimerInfo> {
        self.timers.iter().filter(move |timer| timer.wakes == Wakes::Task(task))
    }
}

/// Why there is no dump.
///
/// ```
/// use std::time::Duration;
///
/// let runtime = mainspring::Runtime::new()?;
/// let handle = runtime.handle().clone();
/// assert!(handle.dump().unwrap_err().is_elsewhere());
/// drop(runtime);
/// assert!(handle.dump_within(Duration::from_secs(1)).unwrap_err().is_shutdown());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpError(Reason);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    Elsewhere,
    Shutdown,
    TimedOut(Duration, Option<Box<Running>>),
}

impl DumpError {
    /// Returns whether the runtime was dropped.
    pub fn is_shutdown(&self) -> bool {
        self.0 == Reason::Shutdown
    }

    /// Returns whether the runtime did not answer in time: it is in no `block_on` or `turn`, or a task blocks it.
    pub fn is_timed_out(&self) -> bool {
        matches!(self.0, Reason::TimedOut(..))
    }

    /// Returns the task that the runtime was polling when the time was up, if it did not answer in time. That may be the
    /// task that blocks the runtime. See [there](Running#for-how-long) for how long it has been polled.
    pub fn running(&self) -> Option<&Running> {
        match &self.0 {
            Reason::TimedOut(_, running) => running.as_deref(),
            _ => None,
        }
    }

    /// Returns whether [`Handle::dump`] was called on another thread than the runtime's own, or outside of its `block_on` and `turn`.
    pub fn is_elsewhere(&self) -> bool {
        self.0 == Reason::Elsewhere
    }
}

impl fmt::Display for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::Elsewhere => f.write_str(
                "only the runtime's own thread, inside `block_on` or `turn`, can list its tasks at once: elsewhere, use \
                 `Handle::dump_within` or `Handle::request_dump`",
            ),
            Reason::Shutdown => f.write_str("the runtime was dropped: nothing is pending"),
            Reason::TimedOut(waited, None) => write!(
                f,
                "the runtime did not answer within {waited:?}, and polls no task: it is in no `block_on` or `turn`, or code \
                 outside its tasks blocks its thread"
            ),
            Reason::TimedOut(waited, Some(running)) => {
                write!(f, "the runtime did not answer within {waited:?}: it runs {running}")
            }
        }
    }
}

impl std::error::Error for DumpError {}

impl Handle {
    /// Returns what is pending. Call it on the runtime's own thread: in a task, or in `block_on`'s future.
    ///
    /// # Errors
    ///
    /// If this is not the runtime's own thread, or the thread is not inside `block_on` or `turn`; or if the runtime was dropped.
    pub fn dump(&self) -> Result<Dump, DumpError> {
        if self.is_shutdown() {
            return Err(DumpError(Reason::Shutdown));
        }
        self.snapshot().map(Dump::of).ok_or(DumpError(Reason::Elsewhere))
    }

    /// Returns what is pending, from any thread. The runtime answers between two polls, and is woken for that if it sleeps;
    /// this thread waits for at most `timeout`. On the runtime's own thread, inside `block_on` or `turn`, it does the same as
    /// [`dump`](Handle::dump).
    ///
    /// # Errors
    ///
    /// If the runtime was dropped, or does not answer in time. It does not answer while a task blocks it, and the error
    /// then says [which](DumpError::running); nor while it is in no `block_on` or `turn`; in that case use [`Runtime::dump`], on
    /// the thread that will run it next.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::{Runtime, sleep};
    ///
    /// let runtime = Runtime::new()?;
    /// let handle = runtime.handle().clone();
    /// let other = std::thread::spawn(move || handle.dump_within(Duration::from_secs(10)));
    /// let dump = runtime.block_on(async {
    ///     while !other.is_finished() {
    ///         sleep(Duration::from_millis(1)).await;
    ///     }
    ///     other.join().unwrap()
    /// });
    /// assert!(dump?.tasks.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dump_within(&self, timeout: Duration) -> Result<Dump, DumpError> {
        match self.dump() {
            Err(DumpError(Reason::Elsewhere)) => {}
            known => return known,
        }
        // The first observation: if the next one finds the same poll, that poll has lasted for all the time between them.
        let _ = self.running();
        let (sender, receiver) = sync_channel(1);
        // If the caller no longer waits, the answer is dropped.
        self.request_snapshot(move |snapshot| drop(sender.send(snapshot)));
        match receiver.recv_timeout(timeout) {
            // The snapshot is made into a dump here, and not on the runtime's time.
            Ok(Some(snapshot)) => Ok(Dump::of(snapshot)),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => Err(DumpError(Reason::Shutdown)),
            Err(RecvTimeoutError::Timeout) => {
                Err(DumpError(Reason::TimedOut(timeout, self.running().map(Box::new))))
            }
        }
    }

    /// Has `answer` called once with what is pending, on the runtime's own thread. The call is made by a task that no dump
    /// shows, and that is scheduled like the others. If the runtime is dropped before that, `answer` is called with the
    /// error then; if it was dropped already, here and now. No thread waits, so this may be called from anywhere.
    ///
    /// A panic of `answer` ends that task, and does no other harm.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::{Handle, sleep};
    ///
    /// mainspring::block_on(async {
    ///     Handle::current().request_dump(|dump| match dump {
    ///         Ok(dump) => eprintln!("{dump}"),
    ///         Err(error) => eprintln!("{error}"),
    ///     });
    ///     sleep(Duration::from_millis(1)).await;
    /// });
    /// ```
    pub fn request_dump(&self, answer: impl FnOnce(Result<Dump, DumpError>) + Send + 'static) {
        self.request_snapshot(move |snapshot| {
            answer(snapshot.map(Dump::of).ok_or(DumpError(Reason::Shutdown)));
        });
    }
}

impl Runtime {
    /// Returns what is pending. As the runtime does not leave its thread, this is always possible.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::{Runtime, sleep};
    ///
    /// let runtime = Runtime::new()?;
    /// let _nap = runtime.spawn(async { sleep(Duration::from_secs(30)).await });
    /// assert_eq!(runtime.dump().tasks.len(), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn dump(&self) -> Dump {
        Dump::of(self.snapshot())
    }
}
