//! What is pending: every task with the line that spawned it, every timer with the line that made it.
//!
//! Three ways lead to a [`Dump`], of which none can hang:
//!
//! | where | what |
//! |---|---|
//! | on the runtime's own thread, in a task or in `block_on`'s future | [`Handle::dump`] |
//! | where the [`Runtime`] is at hand, between two `block_on` | [`Runtime::dump`] |
//! | on any other thread | [`Handle::dump_within`], which waits so long and no longer; [`Handle::request_dump`], which does not wait |
//!
//! A runtime that a task blocks cannot answer. Which task that is, [`Handle::running`] says, from any thread and at once.
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
//! It prints, with the names of the files and the lines:
//!
//! ```text
//! 1 task, 1 timer
//! timers, by deadline:
//!   in 30.0s       made at src/main.rs:5:11    wakes task 0
//! tasks, in the order of spawning:
//!   task 0         spawned at src/main.rs:5:5  waiting, for 1 timer: in 30.0s
//! ```
//!
//! A task that waits and has no timer waits for something else: a socket, a channel, another task. Timers that are made
//! and not yet polled are not pending. A `DelayQueue` or a `TimerMap` shows as one timer, made where the queue was:
//! the one that it waits for next.
//!
//! It takes about half a microsecond for a task and its timer, and room for them. Timers are collected under the lock that
//! arming them takes: of a million, that is 40 ms. In between nothing is kept up for it but eight bytes a task.
//
// Ground rules:
//
// * A dump is a copy: it holds nothing of the runtime.
// * Who is woken is told by comparing addresses, taken at one moment on the thread that owns the tasks. So what is
//   said of a task is true of that task.

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
    /// When that was, by the runtime's clock.
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
    /// When it is due. If it is due already, the runtime has not come to it yet.
    pub deadline: Instant,
    /// The line that made it.
    pub made_at: &'static Location<'static>,
    /// Who is woken when it fires.
    pub wakes: Wakes,
}

/// Who is woken by a timer.
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
    /// The task of this [id](TaskInfo::id).
    Task(Id),
    /// The future of the `block_on` that is under way.
    BlockOn,
    /// A waker that is not the runtime's own, such as those of `FuturesUnordered` and `join_all` or of another
    /// runtime; or that of a `block_on` that has returned.
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
                // The root lives while its `block_on` runs, so nobody else's data lies there.
                None if list.root != 0 && data == list.root => Wakes::BlockOn,
                None => Wakes::Foreign,
            };
            TimerInfo { deadline: from_nanos(timer.deadline), made_at: timer.origin, wakes }
        });
        Dump { at: from_nanos(now), tasks: tasks.collect(), timers: timers.collect() }
    }

    /// The timers that wake a task, in the order in which they are due.
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
    /// Whether the runtime was dropped.
    pub fn is_shutdown(&self) -> bool {
        self.0 == Reason::Shutdown
    }

    /// Whether the runtime did not answer in time: it is in no `block_on`, or a task does not let it go on.
    pub fn is_timed_out(&self) -> bool {
        matches!(self.0, Reason::TimedOut(..))
    }

    /// If the runtime did not answer in time: the task that it was polling when the time was up, which may be the one that
    /// does not let it go on. See there for [how long](Running#for-how-long) it has been.
    pub fn running(&self) -> Option<&Running> {
        match &self.0 {
            Reason::TimedOut(_, running) => running.as_deref(),
            _ => None,
        }
    }

    /// Whether [`Handle::dump`] was called elsewhere than on the runtime's own thread, or outside of its `block_on`.
    pub fn is_elsewhere(&self) -> bool {
        self.0 == Reason::Elsewhere
    }
}

impl fmt::Display for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::Elsewhere => f.write_str(
                "only the runtime's own thread, inside `block_on`, can see its tasks at once: use \
                 `Handle::dump_within` or `Handle::request_dump` elsewhere",
            ),
            Reason::Shutdown => f.write_str("the runtime was dropped: nothing is pending"),
            Reason::TimedOut(waited, None) => write!(
                f,
                "the runtime did not answer within {waited:?}, and polls no task: it is in no `block_on`, or something else \
                 does not let it go on"
            ),
            Reason::TimedOut(waited, Some(running)) => {
                write!(f, "the runtime did not answer within {waited:?}: it runs {running}")
            }
        }
    }
}

impl std::error::Error for DumpError {}

impl Handle {
    /// What is pending, seen from the runtime's own thread: from a task, or from `block_on`'s future.
    ///
    /// # Errors
    ///
    /// If this is not that thread, or it is not inside `block_on`; or if the runtime was dropped.
    pub fn dump(&self) -> Result<Dump, DumpError> {
        if self.is_shutdown() {
            return Err(DumpError(Reason::Shutdown));
        }
        self.snapshot().map(Dump::of).ok_or(DumpError(Reason::Elsewhere))
    }

    /// What is pending, from any thread. The runtime answers between two polls, and is woken for it if it sleeps; this
    /// thread waits for at most `timeout`. On the runtime's own thread, inside `block_on`, it is
    /// [`dump`](Handle::dump).
    ///
    /// # Errors
    ///
    /// If the runtime was dropped, or does not answer in time. It does not while a task blocks it, and the error then says
    /// [which](DumpError::running); nor while it is in no `block_on`: on the thread that is to run it next, use
    /// [`Runtime::dump`].
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
        // The first look: if the next one finds the same poll, that has lasted for all the time between them.
        let _ = self.running();
        let (sender, receiver) = sync_channel(1);
        // If nobody waits any more, the answer goes nowhere.
        self.request_snapshot(move |snapshot| drop(sender.send(snapshot)));
        match receiver.recv_timeout(timeout) {
            // It is made into a dump here, and not on the runtime's time.
            Ok(Some(snapshot)) => Ok(Dump::of(snapshot)),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => Err(DumpError(Reason::Shutdown)),
            Err(RecvTimeoutError::Timeout) => {
                Err(DumpError(Reason::TimedOut(timeout, self.running().map(Box::new))))
            }
        }
    }

    /// Has `answer` called with what is pending, once: on the runtime's own thread, by a task that no dump shows and that
    /// takes its turn among the others. If the runtime is dropped before that, it is called with the error then; if it was
    /// dropped already, here and now. Nobody waits, so it may be called from anywhere.
    ///
    /// A panic of `answer` is that task's: it ends with it, and harms nobody.
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
    /// What is pending. As the runtime does not leave its thread, this is always possible.
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
