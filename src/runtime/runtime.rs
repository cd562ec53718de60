//! `Runtime` and `block_on`.
//!
//! Ground rules:
//!
//! * A runtime stays on the thread that made it: tasks need not be `Send`.
//! * `event_loop` is borrowed for the whole of a `block_on`. User code could reach it only by a nested `block_on`, which is
//!   refused first.
//! * A dropped runtime drops its tasks first, while sleeps and sockets still work as they are dropped. Then it closes the
//!   timers and the reactor, so that sleeps and sockets that outlive it elsewhere are woken and report that it is gone.

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
use super::spawn::DeadlineScope;
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
/// Dropping the runtime drops all its tasks, on this thread, in the order in which they were spawned. Sleeps and sockets that
/// live on elsewhere are woken, and report that the runtime is gone. The runtime's descriptors are closed, even if a waker, a
/// handle or a socket outlives it.
///
/// A runtime belongs to the process that made it. After `fork` the child shares the parent's poller and alarm, and would take
/// the parent's events. So [`block_on`](Runtime::block_on) panics in the child, and a call that was under way panics before
/// it looks at its sockets again. The child may drop its copies of the runtime and of the parent's sockets, which does not
/// affect the parent, and make a runtime of its own. A child that calls `exec` or `_exit` drops nothing and need not care.
/// Any other child has to observe three things:
///
/// * A lock that another thread held at the moment of the `fork` stays locked in the child. If other threads may have used
///   the runtime's handle at that moment, the child must [`forget`](std::mem::forget) its copy instead of dropping it.
/// * If another thread was handling a signal at that moment, or made or dropped a `Signal`, the child may wait forever as soon as it
///   makes or drops one: the locks of signal-hook are not its own. Make no child while other threads may do so.
/// * A child that was made by `_Fork`, or by a bare system call, is not noticed, because the functions given to
///   `pthread_atfork` are not called in it. Such a child must leave the runtime and its sockets alone.
///
/// The only sign of two mistakes is that something does not happen:
///
/// * A task that holds an `Rc` of its own runtime keeps the runtime from being dropped: the task, its timers and the
///   runtime's descriptors are leaked. A task need not hold its runtime; it can call [`Handle::current`].
/// * A task that calls the `block_on` of another executor stops this thread, and with it all tasks. If that `block_on` waits
///   for something that a task of this runtime must do, it waits forever: `.await` the future instead.
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
    /// The poller; a foreign loop watches its descriptor.
    #[cfg_attr(not(unix), expect(dead_code, reason = "there is no such descriptor"))]
    pub(super) poller: Arc<Poller>,
    _stays_here: PhantomData<*const ()>,
}

// After a panic of user code, wherever it happens, the runtime goes on with its next turn.
impl UnwindSafe for Runtime {}
impl RefUnwindSafe for Runtime {}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("tasks", &self.executor.unfinished()).finish_non_exhaustive()
    }
}

/// Runs `future` to completion on a new runtime, and returns its output. The runtime's tasks are dropped when this function
/// returns.
///
/// # Panics
///
/// If this thread already runs a `block_on`. If the system grants no poller (mostly because no descriptor is left);
/// [`Runtime::new`] returns that as an error. If `future` or a foreign waker panics, this function panics too, as
/// [`Runtime::block_on`] does.
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
    /// Makes a runtime with the default configuration.
    ///
    /// # Errors
    ///
    /// The same as for [`Builder::build`].
    pub fn new() -> io::Result<Runtime> {
        Builder::new().build()
    }

    #[track_caller]
    pub(super) fn with(builder: &Builder) -> io::Result<Runtime> {
        assert!(
            !(builder.paused && matches!(builder.clock, Clock::Test(_))),
            "`start_paused` with a `TestClock`: a test clock moves only when it is set or advanced, so there is nothing to pause"
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

    /// Runs `future` to completion, and everything else of this runtime meanwhile. Returns the output of `future`.
    ///
    /// Tasks and timers that are not finished remain, and go on in the next call. Each call gives the tasks, the I/O and the
    /// timers at least one chance to run, however soon its future is ready. (If others are always ready, tasks that have had more than
    /// their share of the time wait for as many calls as it takes.)
    ///
    /// # Panics
    ///
    /// If this thread already runs a `block_on` or a [`turn`](Runtime::turn), of this runtime or another. If this
    /// process is a child by `fork` of the process that made the runtime. If `future` panics, this call panics too; the
    /// runtime can still be used. With the first panic of a foreign waker, after all have been woken: then `future` is
    /// dropped, or its output if it has ended. The panic of a task goes to the task's handle.
    ///
    /// While the thread ends, in the destructor of a thread-local value, it may be in no runtime any more, not even here:
    /// then timers, sockets and [`spawn`](crate::spawn) in `future` panic.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let Some(_running) = BlockOnGuard::start() else {
            panic!(
                "`block_on` was called inside a `block_on` or a `turn`, and would stop all tasks of this thread: `.await` the \
                 future, or `spawn` it"
            );
        };
        self.handle.io().assert_own_process();
        let _entered = self.handle.enter();
        let _no_deadline = DeadlineScope::leave();
        let _local = self.executor.enter();
        let mut event_loop = self.event_loop.borrow_mut();
        let _asks = event_loop.awaits_turn().then(|| AsksForTurn(&self.handle));
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
                // The future may have been woken once more after its end.
                if output.is_some() {
                    return ControlFlow::Continue(());
                }
                counters.polls.add(1);
                let poll = || future.as_mut().poll(&mut cx);
                match self.executor.poll_root(called_at, counters.polls.get(), poll) {
                    Poll::Pending => return ControlFlow::Continue(()),
                    Poll::Ready(ready) => output = Some(ready),
                }
                // If there was no turn yet, everything else gets a chance to run before the end.
                if turned || self.is_alone() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            if ended {
                // A single poll is not measured: that would take longer than a short one.
                if turned {
                    event_loop.end(&self.handle);
                }
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

    /// Returns whether nothing waits for a turn: no task, no timer and no source of events.
    fn is_alone(&self) -> bool {
        let no_timer = self.handle.timers().earliest_due() == Nanos::NEVER;
        no_timer && self.executor.unfinished() == 0 && !self.handle.io().has_sources()
    }

    /// Runs the tasks that are ready, until it is time to look at I/O and timers. When it is the root's turn, it calls
    /// `root`, and returns true if `root` does not want to go on.
    #[inline]
    pub(super) fn run_ready(
        &self,
        event_loop: &mut EventLoop,
        mut root: impl FnMut() -> ControlFlow<()>,
    ) -> bool {
        loop {
            let most = event_loop.pace.stretch(&self.handle, &self.executor);
            let counted = Counted { runtime: self, before: self.executor.polls() };
            let ran = self.executor.run(most, &mut root);
            drop(counted);
            let ended = ran.end == End::Root;
            if ended || !self.executor.has_ready() {
                event_loop.pace.rest(&self.handle, &self.executor);
                return ended;
            }
            if event_loop.pace.is_over(&self.handle, &self.executor, ran.taken) {
                return false;
            }
        }
    }

    /// Returns what spawns the runtime's tasks. If a foreign loop sleeps in place of the runtime, it is woken.
    pub(super) fn local(&self) -> &Local {
        self.handle.io().end_lent_sleep();
        self.executor.local()
    }

    /// What is pending.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::with(&self.handle, self.executor.task_list())
    }

    /// Returns the handle by which other threads reach this runtime.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

/// Counts the polls of a run when it ends, also with a panic.
struct Counted<'a> {
    runtime: &'a Runtime,
    before: u64,
}

impl Drop for Counted<'_> {
    #[inline]
    fn drop(&mut self) {
        let Runtime { executor, handle, .. } = self.runtime;
        handle.counters().polls.add(executor.polls().wrapping_sub(self.before));
        handle.counters().tasks.set(executor.alive() as u64);
    }
}

/// Asks the other event loop for a turn when a `block_on` ends, also with a panic: what that loop had prepared for its sleep,
/// the `block_on` has consumed.
struct AsksForTurn<'a>(&'a Handle);

impl Drop for AsksForTurn<'_> {
    fn drop(&mut self) {
        self.0.io().end_sleep();
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Otherwise the tasks' sockets would, in a child, be taken out of the parent's poller.
        self.handle.io().forsake_in_child();
        // Entered, so that the tasks' futures find their runtime as they are dropped.
        let _entered = self.handle.enter();
        self.executor.shutdown();
        self.handle.counters().tasks.set(0);
        // An advance that is awaited elsewhere is told that it will never end.
        self.handle.virtual_time().settle(Nanos::NEVER);
        // The fields are dropped next: the event loop's reactor and driver close then.
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
