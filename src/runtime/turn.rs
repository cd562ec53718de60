//! A runtime under a loop that is not its own: turns, when the next one is due, and what tells of it. And the turns that a
//! runtime takes before it is shut down.
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
//! * From `next_wake` to the next turn the host's sleep is the runtime's: all that would end a park makes the descriptor
//!   readable. A spawn on this thread would not end a park, because nobody parks then; it ends this sleep.
//! * What makes the descriptor readable is taken by the look of the next turn, also by one that does not sleep. So a host
//!   that watches it by level does not spin.
//! * A turn that the host has woken up for begins as a `block_on` does: what is told of before it begins is seen by it.

use std::ops::ControlFlow;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use super::Runtime;
use super::context::BlockOnGuard;

impl Runtime {
    /// Takes one turn, for a program whose thread belongs to another loop: looks at the I/O, fires the timers that are due,
    /// and polls the tasks that are ready, for about 50 µs. While nothing is ready or due it sleeps before that, for `max` at
    /// the most; zero never sleeps. Returns whether there is more to do at once: then the next turn would not sleep.
    ///
    /// It may return early, for no reason. `max` counts by the system's clock. Where time is
    /// [paused](crate::time::pause), a turn that finds nothing to do moves it to the next deadline, also if `max` is zero.
    ///
    /// A loop that serves others too calls [`next_wake`](Runtime::next_wake), sleeps no longer than that while it watches
    /// the runtime's descriptor ([`AsFd`](std::os::fd::AsFd), on Unix), and then takes turns of no length:
    ///
    /// ```
    /// # #[cfg(unix)] {
    /// use std::time::Duration;
    /// use mainspring::{Runtime, sleep};
    /// use rustix::event::{PollFd, PollFlags, poll};
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
    ///     poll(&mut [PollFd::new(&runtime, PollFlags::IN)], timeout.as_ref())?;
    /// }
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// Tasks that never rest make `while runtime.turn(Duration::ZERO) {}` last for ever: a host that has others to serve takes
    /// a few turns and then looks after them, with a timeout of [`next_wake`](Runtime::next_wake), which is zero then.
    ///
    /// # Panics
    ///
    /// If this thread runs a [`block_on`](Runtime::block_on) or a turn already, of this runtime or another; if this process
    /// is a child by `fork` of the one that made the runtime. With the first panic of a foreign waker, after all have been
    /// woken: the next turn goes on. The panic of a task goes to its handle.
    #[track_caller]
    pub fn turn(&self, max: Duration) -> bool {
        let Some(_running) = BlockOnGuard::start() else {
            panic!(
                "`turn` was called on a thread that runs a `block_on` already, or a `turn`: the tasks in there have their \
                 turns by themselves, and a task cannot take one for others"
            );
        };
        self.handle().io().assert_own_process();
        let _entered = self.handle().enter();
        let _local = self.executor.enter();
        let mut event_loop = self.event_loop.borrow_mut();
        event_loop.begin(self.handle(), &self.executor, true);
        let may_sleep = !self.executor.has_ready();
        event_loop.turn(self.handle(), &self.executor, may_sleep, max);
        // There is no root that could have its turn.
        self.run_ready(&mut event_loop, || ControlFlow::Continue(()));
        event_loop.end(self.handle());
        self.executor.has_ready() || event_loop.has_backlog()
    }

    /// Says for how long the thread may sleep before the next [`turn`](Runtime::turn), and prepares for that sleep: zero if
    /// something is ready or due, and then the descriptor is readable too; `None` if only the descriptor can tell.
    ///
    /// From now until the next turn the runtime's descriptor becomes readable when a turn is needed: when a socket has
    /// something to tell, when another thread wakes or spawns a task or arms an earlier timer, when one is spawned on this
    /// thread; and on Linux when the time is up, to within some tens of microseconds, so that there the timeout need not be
    /// given at all. Elsewhere it must be. A timeout in whole milliseconds is rounded up: rounded down, the loop would spin.
    ///
    /// A timer's [tolerance](crate::time::Tolerance) counts: the time may lie so much after the earliest deadline. If timers
    /// were cancelled it may lie before, and on Linux the descriptor may become readable for one of them: that turn finds
    /// nothing to do. Where time is [paused](crate::time::pause), it is zero if a turn would move time, and `None` if not.
    ///
    /// Without a turn in between it may be called again and again. It makes a system call or three, so a host that is about to
    /// take a turn in any case need not ask.
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
    /// If a task of this runtime calls it; if this process is a child by `fork` of the one that made the runtime.
    #[track_caller]
    pub fn next_wake(&self) -> Option<Duration> {
        let Ok(mut event_loop) = self.event_loop.try_borrow_mut() else {
            panic!(
                "`next_wake` was called inside the runtime's own `block_on` or `turn`: it is for the loop outside"
            );
        };
        event_loop.lend(self.handle(), &self.executor)
    }

    /// Runs the runtime until its tasks have ended, for `limit` at the most, and drops it. Returns how many tasks had not
    /// ended, whose futures were dropped.
    ///
    /// Tell the tasks to stop before, as by closing a channel that they wait for: nothing is told to them by this. They,
    /// and those that they spawn, run as in a [`block_on`](Runtime::block_on), with timers and sockets. When none is left
    /// this returns; once the time is up the tasks that are left are dropped, as [dropping](Runtime) the runtime does,
    /// and what they do as they are dropped is not waited for. A task that does not return from its poll delays that.
    ///
    /// `limit` counts by the runtime's time, also where that is virtual: where it stands, and is advanced by nobody, this waits
    /// for all tasks. Zero drops the tasks at once, without a turn; `Duration::MAX` waits for all of them.
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
    /// As [`turn`](Runtime::turn): mostly, if this thread runs a `block_on`. The runtime is dropped all the same.
    #[track_caller]
    pub fn shutdown_timeout(self, limit: Duration) -> usize {
        let mut cx = Context::from_waker(Waker::noop());
        // It keeps the turns from sleeping, or virtual time from going, past it.
        let mut up = pin!(self.handle().timers().sleep(limit));
        loop {
            if self.executor.alive() == 0 && !self.executor.has_ready() {
                return 0;
            }
            if up.as_mut().poll(&mut cx).is_ready() {
                return self.executor.alive();
            }
            self.turn(Duration::MAX);
        }
    }
}

/// The descriptor to watch in another loop, for being readable; see [`next_wake`](Runtime::next_wake). Nothing is to be
/// read from it: it is the system's poller, an epoll or kqueue. It is the same one as long as the runtime lives.
#[cfg(unix)]
impl std::os::fd::AsFd for Runtime {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

/// As [`AsFd`](std::os::fd::AsFd).
#[cfg(unix)]
impl std::os::fd::AsRawFd for Runtime {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        std::os::fd::AsFd::as_fd(self).as_raw_fd()
    }
}
