//! A runtime under another event loop: turns, when the next turn is due, and what announces it. And the turns that a runtime
//! takes before it is shut down.
//!
//! ```text
//!   host: next_wake ──▶ sleeps, watching the descriptor ──▶ turn ──▶ turn, while it says more ──▶ next_wake
//!              │                     ▲                        │
//!              ▼                     │ readable               ▼
//!   driver: unpark if a timer is armed before then            look, dispatch, process; tasks
//!   alarm: set                   events, alarm, mio's waker
//!   wakefulness: PARKED          ▲
//!                                └── Io::unpark, from any thread
//! ```
//!
//! Ground rules:
//!
//! * From `next_wake` to the next turn the host sleeps in place of the runtime: everything that would end a park makes the
//!   descriptor readable. A spawn on this thread never ends a park, because the thread is not parked then; but it ends this
//!   sleep.
//! * The look of the next turn consumes what makes the descriptor readable, even in a turn that does not sleep. So a host
//!   that watches the descriptor level-triggered does not spin.
//! * A `block_on` between `next_wake` and the next turn consumes what was prepared. So it makes the descriptor readable when it
//!   ends.
//! * A turn for which the host has woken up begins as a `block_on` does: it sees everything that was announced before it
//!   began.

use std::ops::ControlFlow;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use super::Runtime;
use super::context::BlockOnGuard;
use super::spawn::DeadlineScope;

impl Runtime {
    /// Takes one turn, for a program whose thread belongs to another loop: looks at the I/O, fires the timers that are due,
    /// and polls the tasks that are ready, for about 50 µs. If nothing is ready or due, it sleeps first, for `max` at most;
    /// with zero it never sleeps. Returns whether there is more to do at once: then the next turn would not sleep.
    ///
    /// It may return early, for no reason. `max` is measured by the system's clock. If time is [paused](crate::time::pause),
    /// a turn that finds nothing to do moves time to the next deadline, even if `max` is zero.
    ///
    /// A loop that has other work, too, calls [`next_wake`](Runtime::next_wake), sleeps no longer than that while it watches
    /// the runtime's descriptor ([`AsFd`](std::os::fd::AsFd), on Unix), and then takes turns with a `max` of zero:
    ///
    /// ```
    /// # #[cfg(unix)] {
    /// use std::time::Duration;
    /// use mainspring::{Runtime, sleep};
    /// use rustix::event::{PollFd, PollFlags, poll};
    /// use rustix::io::Errno;
    ///
    /// let runtime = Runtime::new()?;
    /// let task = runtime.spawn(sleep(Duration::from_millis(20)));
    ///
    /// // The other loop, which has more to watch than this.
    /// loop {
    ///     while runtime.turn(Duration::ZERO) {}
    ///     if task.is_finished() {
    ///         break;
    ///     }
    ///     let timeout = runtime.next_wake().map(|left| left.try_into().expect("no timer is centuries away"));
    ///     match poll(&mut [PollFd::new(&runtime, PollFlags::IN)], timeout.as_ref()) {
    ///         // A signal ends the sleep, and is no reason to stop.
    ///         Ok(_) | Err(Errno::INTR) => {}
    ///         Err(error) => return Err(error.into()),
    ///     }
    /// }
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// If tasks never rest, `while runtime.turn(Duration::ZERO) {}` lasts forever. A host that has other work takes a few
    /// turns and then attends to that work, with a timeout of [`next_wake`](Runtime::next_wake), which is zero then.
    ///
    /// # Panics
    ///
    /// If this thread already runs a [`block_on`](Runtime::block_on) or a turn, of this runtime or another. If this process
    /// is a child by `fork` of the process that made the runtime. With the first panic of a foreign waker, after all have
    /// been woken; the next turn goes on. The panic of a task goes to the task's handle.
    #[track_caller]
    pub fn turn(&self, max: Duration) -> bool {
        let Some(_running) = BlockOnGuard::start() else {
            panic!(
                "`turn` was called inside a `block_on` or a `turn`: call it from the loop outside, which gives all tasks \
                 their turns"
            );
        };
        self.handle().io().assert_own_process();
        let _entered = self.handle().enter();
        let _no_deadline = DeadlineScope::leave();
        let _local = self.executor.enter();
        let mut event_loop = self.event_loop.borrow_mut();
        event_loop.begin(self.handle(), &self.executor, true);
        let may_sleep = !self.executor.has_ready();
        event_loop.turn(self.handle(), &self.executor, may_sleep, max);
        // There is no root that could run.
        self.run_ready(&mut event_loop, || ControlFlow::Continue(()));
        event_loop.end(self.handle());
        self.executor.has_ready() || event_loop.has_backlog() || event_loop.is_due()
    }

    /// Returns how long the thread may sleep before the next [`turn`](Runtime::turn), and prepares for that sleep. Zero if
    /// something is ready or due, or memory of a past burst is to be freed; then the descriptor is readable, too. `None` if only
    /// the descriptor can tell when a turn is needed. While much memory is kept that a past burst needed, which is for a few
    /// seconds, the result is a second at most.
    ///
    /// From now until the next turn the runtime's descriptor becomes readable when a turn is needed: when a socket has an
    /// event, when another thread wakes or spawns a task or arms an earlier timer, when a task is spawned on this thread, when a
    /// [`block_on`](Runtime::block_on) on this thread ends, because that consumes what was prepared; and
    /// on Linux when the time is up, to within some tens of microseconds, so that on Linux the host can sleep without a
    /// timeout, unless the process had no descriptor left for that when this was called. Elsewhere it needs the
    /// timeout. A timeout in whole milliseconds must be rounded up: if it were rounded down, the loop would spin.
    ///
    /// A timer's [tolerance](crate::time::Tolerance) counts: the sleep may end later than the earliest deadline by that much.
    /// If timers were cancelled, the sleep may end before the earliest deadline, and on Linux the descriptor may become
    /// readable for a cancelled timer: that turn finds nothing to do. If time is [paused](crate::time::pause), the result is
    /// zero if a turn would move time, and `None` otherwise.
    ///
    /// It may be called repeatedly without a turn in between. It makes one to three system calls, so a host that is about to
    /// take a turn in any case need not call it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::{Runtime, sleep};
    ///
    /// let runtime = Runtime::new()?;
    /// assert_eq!(runtime.next_wake(), None);
    /// let task = runtime.spawn(sleep(Duration::from_secs(60)));
    /// assert_eq!(runtime.next_wake(), Some(Duration::ZERO));
    /// while runtime.turn(Duration::ZERO) {}
    /// let left = runtime.next_wake().unwrap();
    /// assert!(left > Duration::from_secs(1) && left <= Duration::from_secs(61));
    /// task.abort();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If a task of this runtime calls it. If this process is a child by `fork` of the process that made the runtime.
    #[track_caller]
    pub fn next_wake(&self) -> Option<Duration> {
        let Ok(mut event_loop) = self.event_loop.try_borrow_mut() else {
            panic!(
                "`next_wake` was called inside the runtime's own `block_on` or `turn`: call it from the loop outside"
            );
        };
        event_loop.lend(self.handle(), &self.executor)
    }

    /// Runs the runtime until its tasks have ended, for `limit` at most, and drops it. Returns how many tasks had not ended;
    /// their futures were dropped.
    ///
    /// Tell the tasks to stop before the call, for example by closing a channel that they wait for: this method does not
    /// notify them. The tasks, and those that they spawn, run as in a [`block_on`](Runtime::block_on), with timers and
    /// sockets. When no task is left, the method returns. Once the time is up, the remaining tasks are dropped, as they are
    /// when the runtime is [dropped](Runtime); the method does not wait for what they do as they are dropped. A task that
    /// does not return from its poll delays that.
    ///
    /// `limit` is measured by the runtime's time, even if that is virtual: if time stands still, and nothing advances it,
    /// this waits for all tasks. Zero drops the tasks at once, without a turn; `Duration::MAX` waits for all tasks.
    ///
    /// ```
    /// use std::time::Duration;
    /// use futures::{FutureExt, channel::oneshot, select};
    /// use mainspring::{Runtime, sleep};
    ///
    /// let runtime = Runtime::new()?;
    /// let (stop, stopped) = oneshot::channel::<()>();
    /// let worker = runtime.spawn(async move {
    ///     let mut stopped = stopped.fuse();
    ///     select! {
    ///         () = sleep(Duration::from_secs(3600)) => "an hour's work",
    ///         _ = stopped => {
    ///             // There is time to tidy up.
    ///             sleep(Duration::from_millis(1)).await;
    ///             "tidied up"
    ///         }
    ///     }
    /// });
    /// runtime.spawn(std::future::pending::<()>()).detach();
    /// drop(stop);
    /// let unfinished = runtime.shutdown_timeout(Duration::from_millis(100));
    /// assert_eq!(unfinished, 1);
    /// assert_eq!(worker.now_or_never().unwrap().unwrap(), "tidied up");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// As [`turn`](Runtime::turn), if it takes one: mostly if this thread runs a `block_on`. The runtime is dropped nevertheless.
    /// If no task is left, or `limit` is zero, it takes none.
    #[track_caller]
    pub fn shutdown_timeout(self, limit: Duration) -> usize {
        let mut cx = Context::from_waker(Waker::noop());
        // This timer keeps the turns from sleeping past it, and virtual time from moving past it.
        let mut up = pin!(self.handle().timers().sleep(limit));
        loop {
            if self.executor.alive() == 0 && !self.executor.has_ready() {
                return 0;
            }
            if up.as_mut().poll(&mut cx).is_ready() {
                return self.executor.unfinished();
            }
            assert!(
                BlockOnGuard::start().is_some(),
                "`shutdown_timeout` was called inside a `block_on` or a `turn`: call it when that has returned, or drop the \
                 runtime"
            );
            self.turn(Duration::MAX);
        }
    }
}

/// The descriptor that another loop watches until it is readable; see [`next_wake`](Runtime::next_wake). Do not read from it:
/// it is the system's poller, an epoll or kqueue. It stays the same as long as the runtime lives.
#[cfg(unix)]
impl std::os::fd::AsFd for Runtime {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

/// The same descriptor as [`AsFd`](std::os::fd::AsFd) returns.
#[cfg(unix)]
impl std::os::fd::AsRawFd for Runtime {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        std::os::fd::AsFd::as_fd(self).as_raw_fd()
    }
}
