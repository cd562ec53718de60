//! `JoinSet`: many tasks, whose results are taken as the tasks end.
//!
//! ```text
//!   spawn ──▶ Reporting: the future and a Leave ── dropped as the task ends ──▶ Ended: which, in order; wakes the set
//!        └──▶ Member: the handle                                                   │
//!                ▲                                                                 │
//!                └──────────────── poll_join_next: the handle's result ◀───────────┘
//! ```
//!
//! Ground rules:
//!
//! * Each task reports its end exactly once, however it ends: the report is made when its future is dropped. So a poll
//!   of the set looks at one handle for each result, and at none while no task has ended.
//! * The report comes a moment before the handle has the result. On another thread, the set may see the report in between.
//!   Then it waits by polling the handle.
//! * A key is used again, a number is not. If a report's number is not that of the key's task, the report comes from a
//!   spawn that panicked, and is skipped.
//! * Wakers are cloned, dropped and woken without the lock.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use futures_core::stream::{FusedStream, Stream};
use pin_project_lite::pin_project;
use slab::Slab;

use super::{AbortHandle, Builder, JoinError, JoinHandle};
use crate::panics::quietly;
use crate::runtime::{Handle, spawn};

/// A set of tasks whose results are taken in the order in which the tasks end.
///
/// Dropping the set aborts all its tasks: a task that is spawned into a set does not outlive the set by more than the turn in
/// which the task's future is dropped. [`detach_all`](JoinSet::detach_all) lets the tasks run on.
///
/// The tasks need not be `Send`. The set may be sent to another thread if the results may, and awaited there by any executor.
/// [`spawn`](JoinSet::spawn) works only within the runtime, and [`spawn_on`](JoinSet::spawn_on) everywhere. A poll costs the
/// same for any number of tasks, and so does taking a result.
///
/// The set is a [`Stream`] of results. The stream ends when the set is empty, and continues when more tasks are spawned. As a
/// [`FusedStream`] it is terminated while the set is empty: `futures::select!` then skips it.
///
/// A [`JoinError`] does not say which task it is of. Where that matters, as in a supervisor that starts tasks again, a member
/// of the set can wait for the task and report for it:
///
/// ```
/// use mainspring::{spawn, task::JoinSet};
///
/// mainspring::block_on(async {
///     let mut set = JoinSet::new();
///     for (name, divisor) in [("good", 2), ("bad", 0)] {
///         let work = async move { 84_u32.checked_div(divisor).expect("no zero") };
///         // If the set is dropped, the member is, and with it the task.
///         set.spawn(async move { (name, spawn(work).abort_on_drop().await) });
///     }
///     while let Some(result) = set.join_next().await {
///         match result.expect("a member does not panic") {
///             (name, Ok(half)) => assert_eq!((name, half), ("good", 42)),
///             (name, Err(error)) => assert!(name == "bad" && error.is_panic()),
///         }
///     }
/// });
/// ```
///
/// ```
/// use std::rc::Rc;
/// use std::time::Duration;
/// use mainspring::{sleep, task::JoinSet};
///
/// mainspring::block_on(async {
///     let step = Rc::new(Duration::from_millis(5));
///     let mut set = JoinSet::new();
///     for n in [3, 1, 2] {
///         let step = step.clone();
///         set.spawn(async move {
///             sleep(*step * n).await;
///             n
///         });
///     }
///     let mut ended = Vec::new();
///     while let Some(result) = set.join_next().await {
///         ended.push(result?);
///     }
///     assert_eq!(ended, [1, 2, 3]);
///     # Ok::<(), mainspring::task::JoinError>(())
/// })?;
/// # Ok::<(), mainspring::task::JoinError>(())
/// ```
#[must_use = "dropping the set aborts its tasks"]
pub struct JoinSet<T> {
    tasks: Slab<Member<T>>,
    /// The number of the next task.
    next: u64,
    /// The report that has been taken, while the result of its task has not.
    taken: Option<Report>,
    ended: Arc<Ended>,
}

/// A task of the set.
struct Member<T> {
    number: u64,
    handle: JoinHandle<T>,
}

/// Says which task has ended.
#[derive(Clone, Copy)]
struct Report {
    key: usize,
    number: u64,
}

/// Where the tasks of a set report their ends.
#[derive(Default)]
struct Ended {
    inbox: Mutex<Inbox>,
}

#[derive(Default)]
struct Inbox {
    reports: VecDeque<Report>,
    /// The waker of the task that waits for the next report.
    waker: Option<Waker>,
}

impl<T> JoinSet<T> {
    /// An empty set. It allocates nothing until something is spawned.
    pub fn new() -> JoinSet<T> {
        JoinSet { tasks: Slab::new(), next: 0, taken: None, ended: Arc::default() }
    }

    /// The number of tasks in the set, including those that have ended and whose result was not taken.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns whether the set has no tasks.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits until a task has ended, takes it out of the set and returns its result; `None` if the set is empty. Results
    /// come in the order in which the tasks ended.
    ///
    /// # Errors
    ///
    /// The inner result is an error if the task panicked or was cancelled, as [`JoinHandle`] says.
    ///
    /// # Cancel safety
    ///
    /// No result is lost if this is dropped before it is ready.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        std::future::poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// Like [`join_next`](JoinSet::join_next), but also returns `None` if no task has ended yet: it does not wait.
    ///
    /// ```
    /// use mainspring::task::{JoinSet, yield_now};
    ///
    /// mainspring::block_on(async {
    ///     let mut set = JoinSet::new();
    ///     set.spawn(async { 1 });
    ///     assert!(set.try_join_next().is_none());
    ///     while !set.is_empty() {
    ///         if let Some(result) = set.try_join_next() {
    ///             assert_eq!(result.unwrap(), 1);
    ///         }
    ///         yield_now().await;
    ///     }
    /// });
    /// ```
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        loop {
            let report = self.taken.take().or_else(|| self.ended.lock().reports.pop_front())?;
            let Some(handle) = member(&mut self.tasks, report) else { continue };
            let Some(result) = handle.try_take() else {
                self.taken = Some(report);
                return None;
            };
            self.tasks.remove(report.key);
            return Some(result);
        }
    }

    /// Polls for the next result, for which [`join_next`](JoinSet::join_next) waits.
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        loop {
            if self.tasks.is_empty() {
                return Poll::Ready(None);
            }
            let report = match self.taken {
                Some(report) => report,
                None => ready!(self.ended.poll_next(cx)),
            };
            let Some(handle) = member(&mut self.tasks, report) else {
                self.taken = None;
                continue;
            };
            self.taken = Some(report);
            let Poll::Ready(result) = Pin::new(handle).poll(cx) else {
                // The handle wakes the task, unless `detach_all` drops it.
                self.ended.keep_waker(cx.waker());
                return Poll::Pending;
            };
            self.taken = None;
            self.tasks.remove(report.key);
            return Poll::Ready(Some(result));
        }
    }

    /// Asks for all tasks to be cancelled, as [`JoinHandle::abort`] does. They stay in the set, and each still has a result:
    /// for tasks that had not ended, an error that [is cancelled](JoinError::is_cancelled).
    pub fn abort_all(&self) {
        self.tasks.iter().for_each(|(_, member)| member.handle.abort());
    }

    /// Aborts all tasks and waits until their futures are dropped. The results are dropped, including panics.
    ///
    /// # Cancel safety
    ///
    /// If this is dropped before it is ready, the tasks are aborted, and those that have not ended yet are still in the set.
    ///
    /// ```
    /// use std::rc::Rc;
    /// use mainspring::task::JoinSet;
    ///
    /// mainspring::block_on(async {
    ///     let held = Rc::new(());
    ///     let mut set = JoinSet::new();
    ///     for _ in 0..3 {
    ///         let held = held.clone();
    ///         set.spawn(async move {
    ///             std::future::pending::<()>().await;
    ///             drop(held);
    ///         });
    ///     }
    ///     set.shutdown().await;
    ///     assert!(set.is_empty());
    ///     assert_eq!(Rc::strong_count(&held), 1);
    /// });
    /// ```
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Takes all tasks out of the set and lets them run on, without a handle. A task that waits for the set is woken: the set
    /// is empty.
    ///
    /// ```
    /// use futures::channel::oneshot;
    /// use mainspring::task::JoinSet;
    ///
    /// mainspring::block_on(async {
    ///     let (send, receive) = oneshot::channel();
    ///     let mut set = JoinSet::new();
    ///     set.spawn(async { send.send("it ran").unwrap() });
    ///     set.detach_all();
    ///     assert!(set.is_empty());
    ///     drop(set);
    ///     assert_eq!(receive.await, Ok("it ran"));
    /// });
    /// ```
    pub fn detach_all(&mut self) {
        // The tasks still report their ends, but to an inbox that is no longer read.
        let unread = std::mem::take(&mut self.ended);
        self.taken = None;
        self.tasks = Slab::new();
        let waiting = unread.lock().waker.take();
        if let Some(waker) = waiting {
            waker.wake();
        }
    }
}

impl<T: 'static> JoinSet<T> {
    /// Spawns `future` in the runtime this thread is in, as [`task::spawn`](super::spawn) does, and adds the task to the set.
    /// [`Builder::spawn_in`] gives the task a name.
    ///
    /// # Panics
    ///
    /// As [`task::spawn`](super::spawn): if this thread is in no runtime, or in a runtime that belongs to another thread. Then
    /// the set is unchanged.
    #[track_caller]
    pub fn spawn<F: Future<Output = T> + 'static>(&mut self, future: F) -> AbortHandle {
        let (report, future) = self.prepare(future);
        self.insert(report, spawn::here(future))
    }

    /// Spawns `future` in the runtime of `handle`, from any thread, as [`Handle::spawn`] does, and adds the task to the set.
    ///
    /// ```
    /// use mainspring::{Runtime, task::JoinSet};
    ///
    /// let runtime = Runtime::new()?;
    /// let handle = runtime.handle().clone();
    /// let mut set = std::thread::spawn(move || {
    ///     let mut set = JoinSet::new();
    ///     set.spawn_on(async { 6 * 7 }, &handle);
    ///     set
    /// })
    /// .join()
    /// .unwrap();
    /// assert_eq!(runtime.block_on(set.join_next()).unwrap().unwrap(), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn_on<F>(&mut self, future: F, handle: &Handle) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        let (report, future) = self.prepare(future);
        self.insert(report, handle.spawn(future))
    }

    /// Returns the future of the set's next task, and the report that it will make.
    fn prepare<F: Future<Output = T>>(&mut self, future: F) -> (Report, Reporting<F>) {
        let report = Report { key: self.tasks.vacant_key(), number: self.next };
        self.next += 1;
        (report, Reporting { future, _leave: Leave { report, ended: self.ended.clone() } })
    }

    fn insert(&mut self, report: Report, handle: JoinHandle<T>) -> AbortHandle {
        let abort = handle.abort_handle();
        let key = self.tasks.insert(Member { number: report.number, handle });
        debug_assert_eq!(key, report.key, "another task has the key");
        abort
    }
}

impl Builder {
    /// Spawns `future` in the runtime this thread is in, and adds the task to `set`, as [`JoinSet::spawn`] does.
    ///
    /// # Panics
    ///
    /// As [`JoinSet::spawn`].
    ///
    /// ```
    /// use mainspring::{Handle, task};
    ///
    /// mainspring::block_on(async {
    ///     let mut set = task::JoinSet::new();
    ///     task::Builder::new().name("worker").spawn_in(std::future::pending::<()>(), &mut set);
    ///     let dump = Handle::current().dump()?;
    ///     assert_eq!(dump.tasks[0].name.as_deref(), Some("worker"));
    ///     # Ok::<(), mainspring::dump::DumpError>(())
    /// })?;
    /// # Ok::<(), mainspring::dump::DumpError>(())
    /// ```
    #[track_caller]
    pub fn spawn_in<F>(&self, future: F, set: &mut JoinSet<F::Output>) -> AbortHandle
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let (report, future) = set.prepare(future);
        set.insert(report, self.spawn(future))
    }
}

/// The handle of the task that has reported its end, if it is in the set.
fn member<T>(tasks: &mut Slab<Member<T>>, report: Report) -> Option<&mut JoinHandle<T>> {
    let member = tasks.get_mut(report.key).filter(|member| member.number == report.number);
    member.map(|member| &mut member.handle)
}

impl Ended {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps `waker` for the next report, and for `detach_all`.
    #[cold]
    fn keep_waker(&self, waker: &Waker) {
        let waker = waker.clone();
        let old = self.lock().waker.replace(waker);
        drop(old);
    }

    /// Polls for the next report. If there is none, the task is woken when one comes.
    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Report> {
        let mut inbox = self.lock();
        if let Some(report) = inbox.reports.pop_front() {
            return Poll::Ready(report);
        }
        if inbox.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        drop(inbox);
        let waker = cx.waker().clone();
        let mut inbox = self.lock();
        // The old or unused waker is dropped without the lock, and before a report is taken: if its drop panics, no report is lost.
        if inbox.reports.is_empty() {
            let old = inbox.waker.replace(waker);
            drop(inbox);
            drop(old);
            return Poll::Pending;
        }
        // A task has reported meanwhile, on another thread or as the waker was cloned.
        drop(inbox);
        drop(waker);
        self.lock().reports.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

/// Reports the end of a task when it is dropped.
struct Leave {
    report: Report,
    ended: Arc<Ended>,
}

impl Drop for Leave {
    fn drop(&mut self) {
        let mut inbox = self.ended.lock();
        inbox.reports.push_back(self.report);
        let waker = inbox.waker.take();
        drop(inbox);
        if let Some(waker) = waker {
            // A panic of the waker is not this task's.
            quietly(|| waker.wake());
        }
    }
}

pin_project! {
    /// A task's future that reports the task's end.
    struct Reporting<F> {
        #[pin]
        future: F,
        // Fields are dropped in order: the future comes first.
        _leave: Leave,
    }
}

impl<F: Future> Future for Reporting<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().future.poll(cx)
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.abort_all();
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> JoinSet<T> {
        JoinSet::new()
    }
}

impl<T> Stream for JoinSet<T> {
    type Item = Result<T, JoinError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_join_next(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

/// Terminated while the set is empty.
impl<T> FusedStream for JoinSet<T> {
    fn is_terminated(&self) -> bool {
        self.is_empty()
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish_non_exhaustive()
    }
}
