//! `Runtime` and `block_on`.
//!
//! Ground rules:
//!
//! * A runtime stays on the thread that made it: tasks need not be `Send`.
//! * `event_loop` is borrowed for the whole of a `block_on`. User code cannot reach it but by a nested
//!   `block_on`, which is refused first.
//! * A dropped runtime drops its tasks first, while sleeps and sockets still work as they are dropped; then
//!   it closes the timers and the reactor, so that what outlives it elsewhere is woken and told.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_task::{FutureObj, LocalFutureObj, LocalSpawn, Spawn, SpawnError, waker_ref};
use mainspring_driver::{Driver, Nanos, Unpark};

use super::builder::Builder;
use super::context::{BlockOnGuard, guarded};
use super::event_loop::EventLoop;
use super::handle::{Handle, Shared};
use super::inspect::Snapshot;
use crate::clock::system::ClockId;
use crate::clock::{Clock, RuntimeClock};
use crate::executor::{End, Executor, Local};
use crate::reactor::{Poller, Reactor};

/// A single-threaded runtime: tasks, timers and I/O on the thread that calls
/// [`block_on`](Runtime::block_on).
///
/// It is neither `Send` nor `Sync`; other threads use its [`Handle`]:
///
/// ```compile_fail
/// fn send<T: Send>(_: T) {}
/// send(mainspring::Runtime::new().unwrap());
/// ```
///
/// ```compile_fail
/// fn share<T: Sync>(_: T) {}
/// share(mainspring::Runtime::new().unwrap());
/// ```
///
/// Dropping it drops all its tasks, on this thread, in the order in which they were spawned. Sleeps and
/// sockets that live on elsewhere are woken, and say that the runtime is gone. Its descriptors are closed, also if a
/// waker, a handle or a socket outlives it.
///
/// A runtime belongs to the process that made it. After `fork` the child shares the parent's poller and alarm, and would
/// take its events: there [`block_on`](Runtime::block_on) panics, and one that was under way panics before it looks at
/// its sockets again. The child may drop its copy and what it has of the parent's sockets, which the parent does not feel, and
/// make a runtime of its own. A child that calls `exec` or `_exit` drops nothing and need not care. Two things are
/// for any other to mind:
///
/// * A lock that another thread held at the moment of the `fork` stays locked in the child. If other threads may have used the
///   runtime's handle then, the child is to [`forget`](std::mem::forget) its copy, not to drop it.
/// * A child that was made by `_Fork`, or by a bare system call, is not noticed, because what was given to `pthread_atfork` is
///   not called in it. It must leave the runtime and its sockets alone.
///
/// Two mistakes show no sign but that something does not happen:
///
/// * A task that holds an `Rc` of its own runtime keeps it from being dropped: the task, its timers and the runtime's
///   descriptors are leaked. A task needs no runtime of its own; [`Handle::current`] is at hand.
/// * A task that calls the `block_on` of another executor stops this thread, and with it all tasks. If that waits for
///   something that a task of this runtime is to do, it waits for ever: `.await` it instead.
///
/// ```
/// use std::time::Duration;
/// use mainspring::Runtime;
///
/// let runtime = Runtime::new()?;
/// let task = runtime.spawn(async {
///     mainspring::sleep(Duration::from_millis(2)).await;
///     "slept"
/// });
/// // Tasks and timers survive from one `block_on` to the next.
/// runtime.block_on(async { mainspring::task::yield_now().await });
/// assert_eq!(runtime.block_on(task).unwrap(), "slept");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Runtime {
    pub(super) executor: Executor,
    pub(super) event_loop: RefCell<EventLoop>,
    handle: Handle,
    /// Whose descriptor a foreign loop watches.
    #[cfg_attr(not(unix), expect(dead_code, reason = "there is no such descriptor"))]
    pub(super) poller: Arc<Poller>,
    _stays_here: PhantomData<*const ()>,
}

// A panic of user code, wherever it strikes, leaves a runtime that goes on with its next turn.
impl UnwindSafe for Runtime {}
impl RefUnwindSafe for Runtime {}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("tasks", &self.executor.alive()).finish_non_exhaustive()
    }
}

/// Runs `future` to its end on a new runtime, and returns its output. The runtime's tasks are dropped when it
/// returns.
///
/// # Panics
///
/// If this thread runs a `block_on` already, or if the system grants no poller (mostly because no descriptor
/// is left): [`Runtime::new`] returns that as an error. If `future` panics, so does this.
///
/// ```
/// use std::time::Duration;
///
/// let answer = mainspring::block_on(async {
///     mainspring::sleep(Duration::from_millis(1)).await;
///     42
/// });
/// assert_eq!(answer, 42);
/// ```
#[track_caller]
pub fn block_on<F: Future>(future: F) -> F::Output {
    match Runtime::new() {
        Ok(runtime) => runtime.block_on(future),
        Err(error) => {
            panic!("`block_on` could not make a runtime: {error}. Use `Runtime::new` to get this as an error")
        }
    }
}

impl Runtime {
    /// A runtime with the default configuration.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::build`].
    pub fn new() -> io::Result<Runtime> {
        Builder::new().build()
    }

    #[track_caller]
    pub(super) fn with(builder: &Builder) -> io::Result<Runtime> {
        assert!(
            !(builder.paused && matches!(builder.clock, Clock::Test(_))),
            "`start_paused` with a `TestClock`: that one stands by itself, and is turned by its owner"
        );
        let alarm = if let Clock::Boottime = builder.clock { ClockId::Boottime } else { ClockId::Monotonic };
        let clock = builder.clock.open()?;
        let reactor = Reactor::with_alarm(alarm)?;
        let io = reactor.io().clone();
        let poller = io.poller().expect("a new reactor has a poller");
        builder.clock.add_runtime(&io);
        let unpark = io.clone();
        let unpark = move || unpark.unpark();
        let driver = if builder.paused { Driver::paused(clock, unpark) } else { Driver::new(clock, unpark) };
        let driver = driver.with_tolerance(builder.tolerance).stays_here();
        let executor = Executor::new(io.clone());
        let handle = Handle::new(Shared {
            clock: Arc::new(RuntimeClock::new(driver.handle().clone(), &builder.clock, builder.wall)),
            timers: driver.handle().clone(),
            io,
            remote: executor.remote().clone(),
            counters: Default::default(),
            virtual_time: Default::default(),
            names: Default::default(),
            seeds: builder.seeds(),
            last_seen: Default::default(),
        });
        if !builder.wake_priority {
            executor.make_single_lane();
        }
        let event_loop = RefCell::new(EventLoop::new(reactor, driver, alarm, builder));
        Ok(Runtime { executor, event_loop, handle, poller, _stays_here: PhantomData })
    }

    /// Runs `future` to its end, and everything else of this runtime meanwhile; returns its output.
    ///
    /// Tasks and timers that are not finished stay, and go on in the next call. Each call gives the tasks, the
    /// I/O and the timers at least one go, however soon its future is ready.
    ///
    /// # Panics
    ///
    /// If this thread runs a `block_on` or a [`turn`](Runtime::turn) already, of this runtime or another; if this process is a
    /// child by `fork` of the one that made the runtime. If `future` panics, so does this; the runtime may be used further.
    /// The panic of a task goes to its handle.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let Some(_running) = BlockOnGuard::start() else {
            panic!(
                "`block_on` was called on a thread that runs a `block_on` already, or a `turn`, which would stop all its \
                 tasks: `.await` the future there, or `spawn` it"
            );
        };
        self.handle.io().assert_own_process();
        let _entered = self.handle.enter();
        let _local = self.executor.enter();
        let mut event_loop = self.event_loop.borrow_mut();
        let counters = self.handle.counters();

        let root = self.executor.begin_root();
        let waker = waker_ref(root.root());
        let mut cx = Context::from_waker(&waker);
        let mut future = pin!(guarded(future));
        let called_at = Location::caller();
        let mut turned = false;
        event_loop.begin(&self.handle, &self.executor, false);
        loop {
            let mut output = None;
            let ended = self.run_ready(&mut event_loop, || {
                counters.polls.add(1);
                // After its end it may have been woken once more.
                if output.is_some() {
                    return ControlFlow::Continue(());
                }
                let poll = || future.as_mut().poll(&mut cx);
                match self.executor.poll_root(called_at, counters.polls.get(), poll) {
                    Poll::Pending => return ControlFlow::Continue(()),
                    Poll::Ready(ready) => output = Some(ready),
                }
                // If there was no turn yet, the others get a go before the end.
                if turned || self.is_alone() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            if ended {
                return output.expect("the root has ended");
            }
            let may_sleep = output.is_none() && !self.executor.has_ready();
            event_loop.turn(&self.handle, &self.executor, may_sleep, Duration::MAX);
            turned = true;
            if let Some(output) = output {
                return output;
            }
        }
    }

    /// Whether nothing waits for a turn: no task, no timer and no source of events.
    fn is_alone(&self) -> bool {
        let no_timer = self.handle.timers().earliest_due() == Nanos::NEVER;
        no_timer && self.executor.alive() == 0 && !self.handle.io().has_sources()
    }

    /// Runs what is ready, until I/O and timers are to be looked at. Where it is the root's turn it calls `root`, and returns
    /// true if that does not want to go on.
    #[inline]
    pub(super) fn run_ready(
        &self,
        event_loop: &mut EventLoop,
        mut root: impl FnMut() -> ControlFlow<()>,
    ) -> bool {
        let counters = self.handle.counters();
        loop {
            let most = event_loop.pace.stretch(&self.handle, &self.executor);
            let ran = self.executor.run(most, &mut root);
            counters.polls.add(ran.polls as u64);
            if ran.end == End::Root {
                return true;
            }
            counters.tasks.set(self.executor.alive() as u64);
            if !self.executor.has_ready() || event_loop.pace.is_over(&self.handle, &self.executor, ran.taken)
            {
                return false;
            }
        }
    }

    /// What makes tasks of it. A foreign loop on whose sleep the runtime relies is woken.
    pub(super) fn local(&self) -> &Local {
        self.handle.io().end_lent_sleep();
        self.executor.local()
    }

    /// What is pending.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::with(&self.handle, self.executor.task_list())
    }

    /// This runtime, as other threads see it.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // In a child its tasks' sockets would be taken out of the parent's poller.
        self.handle.io().forsake_in_child();
        // Entered, so that what the tasks' futures do as they are dropped finds its runtime.
        let _entered = self.handle.enter();
        self.executor.shutdown();
        self.handle.counters().tasks.set(0);
        // An advance that is awaited elsewhere is told that it has no end.
        self.handle.virtual_time().settle(Nanos::NEVER);
        // The fields follow: the event loop's reactor and driver close as they are dropped.
    }
}

impl Spawn for Runtime {
    #[track_caller]
    fn spawn_obj(&self, future: FutureObj<'static, ()>) -> Result<(), SpawnError> {
        drop(self.spawn(future));
        Ok(())
    }
}

impl LocalSpawn for Runtime {
    #[track_caller]
    fn spawn_local_obj(&self, future: LocalFutureObj<'static, ()>) -> Result<(), SpawnError> {
        drop(self.spawn(future));
        Ok(())
    }
}
