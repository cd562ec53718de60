//! Work that blocks, done on other threads: closures of the program, and name look-ups.
//!
//! ```text
//!   queue ──▶ Queued ──(a thread of the pool)──▶ Running ──▶ Done ──(poll)──▶ Over
//!               └───────(dropped)──▶ Over ◀──(dropped)──┴──────┘
//! ```
//!
//! Ground rules:
//!
//! * Virtual time is held from the start until the closure has ended and its waiter was woken. If a closure is dropped
//!   before it runs, the hold ends with it. For a closure that is only a pause it is not held (`start_beside`).
//! * The closure's thread stores the result first and takes the waker after. The future leaves its waker first and looks
//!   for the result again after. So one of the two sees what the other has left.
//! * The closure, its result, and wakers are foreign code: they run and are dropped without the lock. The waker's cell never
//!   clones, wakes or drops a foreign waker, because a panic there would make the cell unusable. It holds a waker of
//!   our own, which refers to the foreign one.
//! * The pool's threads belong to no task: a panic of the closure becomes its result, and any other panic is only reported.

mod pool;

use crate::coop;
use crate::executor::JoinHandle;
use crate::panics::{Payload, quietly};
use crate::runtime::{Handle, Hold, context};
use atomic_waker::AtomicWaker;
use futures_core::future::FusedFuture;
use std::fmt;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};

/// A future of the result of a closure that runs on another thread. Made by [`unblock`] and [`try_unblock`].
///
/// It may be awaited on any thread and by any executor.
///
/// # Panics
///
/// With the panic of the closure; and if it is polled after it was ready.
///
/// # Cancel safety
///
/// Dropping the future drops the closure if it has not begun. A closure that has begun runs on, and its result is dropped on
/// its thread.
#[must_use = "if it is dropped, the closure may never run"]
pub struct Unblock<T> {
    job: Arc<Job<T>>,
    /// Holds the waker of the waiting task. Kept while the job's cell may refer to it.
    task: Option<Arc<Task>>,
}

/// Runs a closure that may block on another thread, and returns a future of its result: for files, for libraries without
/// async, for computations that take longer than about ten microseconds.
///
/// The closure begins at once, whether or not the future is polled, if there is a thread for it.
/// [The module](crate::task#work-that-blocks) describes the threads, and what virtual time does meanwhile. The closure runs
/// in no runtime: to spawn from there, move a [`Handle`](crate::Handle) into it.
///
/// This function needs no runtime. [`spawn_blocking`](crate::task::spawn_blocking) spawns a task that waits for the closure.
///
/// # Panics
///
/// If the system cannot create a thread and the pool has none; [`try_unblock`] returns an error instead. Panics of the closure go to
/// the future.
///
/// # Examples
///
/// ```
/// use mainspring::task::unblock;
///
/// mainspring::block_on(async {
///     let entries = unblock(|| std::fs::read_dir("/").map(Iterator::count)).await?;
///     assert!(entries > 0);
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
///
/// Paused time waits for the closure:
///
/// ```
/// use mainspring::task::unblock;
/// use mainspring::time::timeout;
/// use std::time::Duration;
///
/// let runtime = mainspring::Builder::new().start_paused(true).build()?;
/// runtime.block_on(async {
///     let slow = unblock(|| std::thread::sleep(Duration::from_millis(20)));
///     assert!(timeout(Duration::from_millis(1), slow).await.is_ok());
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn unblock<T, F>(closure: F) -> Unblock<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match try_unblock(closure) {
        Ok(started) => started,
        Err(error) => panic!("{error}"),
    }
}

/// Spawns a task that waits for `closure`, which runs on another thread, in the runtime that this thread is in.
///
/// # Panics
///
/// If this thread is in no runtime; and if the system cannot create a thread and the pool has none.
#[track_caller]
pub(crate) fn spawn<T, F>(closure: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let handle = Handle::current();
    let queued = queue(closure, hold());
    let job = queued.job.clone();
    let task = handle.spawn(queued);
    // Submitted last: if the runtime is gone, it has refused the task, and the closure was dropped.
    if !task.is_finished() {
        if let Err(error) = submit(job) {
            task.abort();
            panic!("{error}");
        }
    }
    task
}

/// Like [`unblock`], but returns an error instead of panicking: for programs that go on although the system has no thread for
/// them now.
///
/// # Errors
///
/// If the system cannot create a thread and the pool has none. The closure is dropped.
///
/// ```
/// use mainspring::task::try_unblock;
///
/// mainspring::block_on(async {
///     let sum = try_unblock(|| (1..=100).sum::<u32>())?.await;
///     assert_eq!(sum, 5050);
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
pub fn try_unblock<T, F>(closure: F) -> io::Result<Unblock<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    submitted(queue(closure, hold()))
}

/// Like [`try_unblock`], but paused time does not wait for the closure.
#[cfg(all(unix, feature = "process"))]
pub(crate) fn start_beside<T, F>(closure: F) -> io::Result<Unblock<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    submitted(queue(closure, None))
}

/// Gives the job of a future to the pool, and returns the future.
fn submitted<T: Send + 'static>(queued: Unblock<T>) -> io::Result<Unblock<T>> {
    submit(queued.job.clone())?;
    Ok(queued)
}

/// Gives a job to the pool. The system's error is `WouldBlock`, which a caller would take for an answer of what it asks.
fn submit<T: Send + 'static>(job: Arc<Job<T>>) -> io::Result<()> {
    pool::submit(job).map_err(|error| {
        io::Error::other(format!(
            "no thread for blocking work could be created: {error}. Let this process have more threads or more memory (`ulimit -u`, \
             `ulimit -v`)"
        ))
    })
}

/// Holds the paused time of the runtime that this thread is in, if it is in one.
fn hold() -> Option<Hold> {
    context::with(Handle::hold_time).ok()
}

/// Returns the future of a closure that has yet to be submitted to the pool.
fn queue<T, F>(closure: F, hold: Option<Hold>) -> Unblock<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let stage = Stage::Queued(Box::new(closure), hold);
    Unblock { job: Arc::new(Job { stage: Mutex::new(stage), waker: AtomicWaker::new() }), task: None }
}

/// The state that the closure's thread and its future share.
struct Job<T> {
    stage: Mutex<Stage<T>>,
    waker: AtomicWaker,
}

/// No panic comes from within the waker's cell: see above.
impl<T> RefUnwindSafe for Job<T> {}

/// Our own waker, which refers to the foreign waker of the latest poll.
struct Task(Waker);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        // This may also run in a poll that leaves its waker just as the result comes: then the cell wakes it there.
        quietly(|| self.0.wake_by_ref());
    }
}

enum Stage<T> {
    Queued(Box<dyn FnOnce() -> T + Send>, Option<Hold>),
    Running,
    Done(Result<T, Payload>),
    /// The result has been returned, or the future was dropped.
    Over,
}

impl<T> Job<T> {
    fn lock(&self) -> MutexGuard<'_, Stage<T>> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the result, if it is there.
    ///
    /// # Panics
    ///
    /// With the panic of the closure; and if the result was already taken.
    fn take(&self) -> Option<T> {
        let mut stage = self.lock();
        if let Stage::Queued(..) | Stage::Running = *stage {
            return None;
        }
        let result = mem::replace(&mut *stage, Stage::Over);
        drop(stage);
        match result {
            Stage::Done(Ok(value)) => Some(value),
            Stage::Done(Err(payload)) => resume_unwind(payload),
            _ => panic!(
                "`Unblock` was polled after it returned its result: await it once, or check `FusedFuture::is_terminated` first"
            ),
        }
    }
}

impl<T: Send> pool::Work for Job<T> {
    fn run(self: Arc<Self>) {
        let mut stage = self.lock();
        let Stage::Queued(..) = *stage else { return };
        let queued = mem::replace(&mut *stage, Stage::Running);
        drop(stage);
        let Stage::Queued(closure, hold) = queued else { unreachable!("it was looked at") };
        let result = catch_unwind(AssertUnwindSafe(closure));
        let mut stage = self.lock();
        let unwanted = match *stage {
            Stage::Running => mem::replace(&mut *stage, Stage::Done(result)),
            _ => Stage::Done(result),
        };
        drop(stage);
        quietly(|| self.waker.wake());
        quietly(|| drop(unwanted));
        drop(hold);
    }

    fn is_wanted(&self) -> bool {
        !matches!(*self.lock(), Stage::Over)
    }
}

impl<T> Future for Unblock<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Charged like other results: a closure may have ended before it is awaited, again and again.
        let permit = ready!(coop::poll_proceed(cx));
        if let Some(value) = self.job.take() {
            permit.spend();
            return Poll::Ready(value);
        }
        if !self.task.as_ref().is_some_and(|task| task.0.will_wake(cx.waker())) {
            let task = Arc::new(Task(cx.waker().clone()));
            self.job.waker.register(&task.clone().into());
            // Only now has the cell let go of the waker before. If its drop panics, the result is there for the next poll.
            drop(self.task.replace(task));
        }
        let Some(value) = self.job.take() else { return Poll::Pending };
        permit.spend();
        Poll::Ready(value)
    }
}

/// Terminated once it has returned its result.
impl<T> FusedFuture for Unblock<T> {
    fn is_terminated(&self) -> bool {
        matches!(*self.job.lock(), Stage::Over)
    }
}

impl<T> Drop for Unblock<T> {
    fn drop(&mut self) {
        let mut stage = self.job.lock();
        let unwanted = mem::replace(&mut *stage, Stage::Over);
        drop(stage);
        if let Stage::Queued(..) = unwanted {
            pool::note_unwanted();
        }
        // As a task's handle drops an output. The thread may be unwinding: a panic would end the process then.
        quietly(|| drop(unwanted));
        drop(self.job.waker.take());
    }
}

impl<T> fmt::Debug for Unblock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match *self.job.lock() {
            Stage::Queued(..) => "queued",
            Stage::Running => "running",
            Stage::Done(_) => "done",
            Stage::Over => "over",
        };
        f.debug_struct("Unblock").field("stage", &stage).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::task::Wake;

    struct PanicsInDrop;

    impl Wake for PanicsInDrop {
        fn wake(self: Arc<Self>) {
            mem::forget(self);
        }
    }

    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic!("in the drop");
        }
    }

    #[test]
    fn what_panics_as_it_is_dropped_with_its_future_harms_nobody() {
        fn dropped<T: Send + 'static>(closure: impl FnOnce() -> T + Send + 'static) {
            let job = unblock(closure);
            while !matches!(*job.job.lock(), Stage::Done(_)) {
                std::thread::yield_now();
            }
            let panicked = catch_unwind(move || {
                let _job = job;
                panic!("outside");
            });
            // Not reached if the drop panics: that would end the process.
            assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "outside");
        }
        dropped(|| PanicsInDrop);
        dropped(|| std::panic::panic_any(PanicsInDrop));
    }

    struct Tells(AtomicUsize, mpsc::Sender<()>);

    impl Wake for Tells {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
            self.1.send(()).unwrap();
        }
    }

    #[test]
    fn a_waker_that_panics_as_it_is_replaced_leaves_a_job_that_can_be_awaited() {
        let (go, wait) = mpsc::channel::<()>();
        let mut job = unblock(move || wait.recv().unwrap());
        let mut job = Pin::new(&mut job);
        let (tell, told) = mpsc::channel();
        let tells = Arc::new(Tells(AtomicUsize::new(0), tell));
        let good = Waker::from(tells.clone());
        let mut good = Context::from_waker(&good);
        {
            let bad = Waker::from(Arc::new(PanicsInDrop));
            assert!(job.as_mut().poll(&mut Context::from_waker(&bad)).is_pending());
        }
        let replaced = catch_unwind(AssertUnwindSafe(|| job.as_mut().poll(&mut good)));
        assert!(replaced.is_err());
        assert!(job.as_mut().poll(&mut good).is_pending());
        go.send(()).unwrap();
        told.recv().unwrap();
        assert_eq!(tells.0.load(Ordering::Relaxed), 1);
        assert!(job.as_mut().poll(&mut good).is_ready());
    }
}
