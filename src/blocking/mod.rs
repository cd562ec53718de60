//! Work that blocks, done on other threads: closures of the program, and the look-ups of names.
//!
//! ```text
//!   start ──▶ Queued ──(a thread of the pool)──▶ Running ──▶ Done ──(poll)──▶ Over
//!               └───────(dropped)──▶ Over ◀──(dropped)──┴──────┘
//! ```
//!
//! Ground rules:
//!
//! * Virtual time is held from the start until the closure has ended and its waiter was woken; a closure that is
//!   dropped before it runs holds it no longer.
//! * The result is stored first and the waker taken after; the future leaves its waker first and looks for the result
//!   again after that. So one of the two sees what the other has left.
//! * The closure, its result, and wakers are foreign: they run and are dropped without the lock. Nor does the cell of the
//!   waker clone, wake or drop one that is foreign: a panic there would leave it dead. It has a reference to ours.
//! * The pool's threads belong to nobody: a panic of the closure is its result's, and any other is only reported.

mod pool;

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
use std::task::{Context, Poll, Wake, Waker};

/// A future of what a closure returns that runs on another thread. Made by [`unblock`].
///
/// It may be awaited on any thread and by any executor.
///
/// # Panics
///
/// With the panic of the closure; and if it is polled after it was ready.
///
/// # Cancel safety
///
/// Dropping it drops the closure if that has not begun; one that has runs on, and its result is dropped on its thread.
#[must_use = "if it is dropped, the closure may never run"]
pub struct Unblock<T> {
    job: Arc<Job<T>>,
    /// Who waits, while the job's cell may refer to it.
    task: Option<Arc<Task>>,
}

/// Runs a closure that blocks on another thread, and returns a future of what it returns: for files, for libraries that
/// know nothing of async, for computations that take longer than some ten microseconds.
///
/// The closure begins at once, whether or not the future is polled, if there is a thread for it; see
/// [the module](crate::task#work-that-blocks) for the threads, and for what holds of time. It is in no runtime: take a
/// [`Handle`](crate::Handle) along to spawn from there.
///
/// This needs no runtime. [`spawn_blocking`](crate::task::spawn_blocking) makes a task that waits for the closure.
///
/// # Panics
///
/// If the system cannot make a thread and there is none. The future has the panics of the closure.
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
/// Paused time waits for it:
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
    match start(closure) {
        Ok(started) => started,
        Err(error) => panic!("the system makes no thread for work that blocks: {error}"),
    }
}

/// As [`unblock`].
///
/// # Errors
///
/// The system's, if it cannot make a thread and there is none.
pub(crate) fn start<T, F>(closure: F) -> io::Result<Unblock<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let hold = context::with(Handle::hold_time).ok();
    let stage = Stage::Queued(Box::new(closure), hold);
    let job = Arc::new(Job { stage: Mutex::new(stage), waker: AtomicWaker::new() });
    pool::submit(job.clone())?;
    Ok(Unblock { job, task: None })
}

/// What the closure's thread and its future share.
struct Job<T> {
    stage: Mutex<Stage<T>>,
    waker: AtomicWaker,
}

/// No panic comes from within the cell of the waker: see above.
impl<T> RefUnwindSafe for Job<T> {}

/// The waker of the latest poll, which is foreign, in one that is not.
struct Task(Waker);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        // Also in a poll that leaves its waker just as the result comes: then the cell wakes there.
        quietly(|| self.0.wake_by_ref());
    }
}

enum Stage<T> {
    Queued(Box<dyn FnOnce() -> T + Send>, Option<Hold>),
    Running,
    Done(Result<T, Payload>),
    /// The result was given, or nobody wants it.
    Over,
}

impl<T> Job<T> {
    fn lock(&self) -> MutexGuard<'_, Stage<T>> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result, if it is there.
    ///
    /// # Panics
    ///
    /// With the panic of the closure; and if the result was given.
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
                "`Unblock` was polled after it gave its result: await it once, or ask `FusedFuture::is_terminated` before"
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
}

impl<T> Future for Unblock<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if let Some(value) = self.job.take() {
            return Poll::Ready(value);
        }
        if !self.task.as_ref().is_some_and(|task| task.0.will_wake(cx.waker())) {
            let task = Arc::new(Task(cx.waker().clone()));
            self.job.waker.register(&task.clone().into());
            // Only now has the cell let go of the one before. If its drop panics, the result is there for the next poll.
            drop(self.task.replace(task));
        }
        self.job.take().map_or(Poll::Pending, Poll::Ready)
    }
}

/// Terminated once it gave its result.
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
        drop((unwanted, self.job.waker.take()));
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
