//! `Runtime` and `block_on`.
//!
//! Ground rules:
//!
//! * A runtime stays on the thread that made it: tasks need not be `Send`.
//! * `turner` is borrowed for the whole of a `block_on`. User code cannot reach it but by a nested
//!   `block_on`, which is refused first.
//! * A dropped runtime drops its tasks first, while sleeps and sockets still work as they are dropped; then
//!   it closes the timers and the reactor, so that what outlives it elsewhere is woken and told.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, RefUnwindSafe, UnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use futures_task::{FutureObj, LocalFutureObj, LocalSpawn, Spawn, SpawnError, waker_ref};
use mainspring_driver::{Driver, Nanos};

use super::builder::Builder;
use super::clock::Clock;
use super::context::{Running, guarded};
use super::handle::{Handle, Shared};
use super::registry;
use super::snapshot::Snapshot;
use super::turn::Turner;
use crate::executor::{Executor, Local, Notify, Root, budget};
use crate::reactor::{Counted, Io, Reactor};

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
/// sockets that live on elsewhere are woken, and say that the runtime is gone.
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
    executor: Executor,
    turner: RefCell<Turner>,
    handle: Handle,
    event_interval: usize,
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

/// While it lives, it is known with which waker the root is polled.
struct Told<'a>(&'a Handle);

impl<'a> Told<'a> {
    fn root(handle: &'a Handle, waker: &Waker) -> Told<'a> {
        handle.questions().set_root(Some(waker));
        Told(handle)
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.questions().set_root(None);
    }
}

/// Ends a park through the reactor.
struct Rouse(Arc<Io>);

impl Notify for Rouse {
    fn notify(&self) {
        self.0.unpark();
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
        let counted = if let Clock::Boottime = builder.clock { Counted::Always } else { Counted::Awake };
        let clock = builder.clock.open()?;
        let reactor = Reactor::with_alarm(counted)?;
        let io = reactor.io().clone();
        builder.clock.watch(&io);
        let unpark = io.clone();
        let unpark = move || unpark.unpark();
        let driver = if builder.paused { Driver::paused(clock, unpark) } else { Driver::new(clock, unpark) };
        let driver = driver.with_tolerance(builder.tolerance);
        let executor = Executor::new(Arc::new(Rouse(io.clone())));
        let handle = Handle::new(Shared {
            number: registry::number(),
            on_system_clock: matches!(builder.clock, Clock::Monotonic),
            timers: driver.handle().clone(),
            io,
            remote: executor.remote().clone(),
            counters: Default::default(),
            virtual_clock: Default::default(),
            questions: Default::default(),
            names: Default::default(),
            sightings: Default::default(),
        });
        if builder.paused || driver.handle().clock().is_test() || builder.wall.is_some() {
            let wall = builder.wall.unwrap_or_else(SystemTime::now);
            handle.virtual_clock().anchor_wall(wall, driver.handle().now());
        }
        let turner = Turner::new(reactor, driver, counted, builder.timer_budget, builder.auto_advance);
        let turner = RefCell::new(turner);
        let event_interval = builder.event_interval;
        Ok(Runtime { executor, turner, handle, event_interval, _stays_here: PhantomData })
    }

    /// Runs `future` to its end, and everything else of this runtime meanwhile; returns its output.
    ///
    /// Tasks and timers that are not finished stay, and go on in the next call. Each call gives the tasks, the
    /// I/O and the timers at least one go, however soon its future is ready.
    ///
    /// # Panics
    ///
    /// If this thread runs a `block_on` already, of this runtime or another. If `future` panics, so does
    /// this; the runtime may be used further. The panic of a task goes to its handle.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let Some(_running) = Running::start() else {
            panic!(
                "`block_on` was called on a thread that runs a `block_on` already, which would stop all its \
                 tasks: `.await` the future there, or `spawn` it"
            );
        };
        let _entered = self.handle.enter();
        let _local = self.executor.enter();
        let mut turner = self.turner.borrow_mut();
        let counters = self.handle.counters();

        let root = Root::new(self.executor.remote());
        let waker = waker_ref(&root);
        let mut cx = Context::from_waker(&waker);
        let _root = Told::root(&self.handle, &waker);
        let mut future = pin!(guarded(future));
        let (polling, called_at) = (self.handle.remote().polling(), Location::caller());
        let mut turned = false;
        turner.begin(&self.handle);
        loop {
            let mut output = None;
            // So many polls of tasks, or goes of the root alone, are left until the I/O and the timers are looked
            // at. They are looked at before that only if nothing else is to be done.
            let mut left = self.event_interval;
            while left > 0 {
                if root.take_woken() {
                    counters.polls.add(1);
                    let poll = || budget::fresh(|| future.as_mut().poll(&mut cx));
                    if let Poll::Ready(ready) = polling.root(called_at, counters.polls.get(), poll) {
                        if turned {
                            return ready;
                        }
                        output = Some(ready);
                    }
                }
                // After the root's last poll of this stretch the tasks still get a go.
                let polled = self.executor.run(left);
                counters.polls.add(polled as u64);
                counters.tasks.set(self.executor.alive() as u64);
                // A go that polls nothing, because all it found was aborted, counts as well.
                left = left.saturating_sub(polled.max(1));
                if output.is_some() || !(root.is_woken() || self.executor.has_ready()) {
                    break;
                }
            }
            let may_sleep = output.is_none() && !root.is_woken() && !self.executor.has_ready();
            turner.turn(&self.handle, may_sleep);
            self.handle.answer();
            turned = true;
            if let Some(output) = output {
                return output;
            }
        }
    }

    pub(super) fn local(&self) -> &Local {
        self.executor.local()
    }

    /// What is pending.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::with(&self.handle, self.executor.census())
    }

    /// This runtime, as other threads see it.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Entered, so that what the tasks' futures do as they are dropped finds its runtime.
        let _entered = self.handle.enter();
        self.executor.shutdown();
        self.handle.counters().tasks.set(0);
        // An advance that is awaited elsewhere is told that it has no end.
        let result = catch_unwind(AssertUnwindSafe(|| self.handle.virtual_clock().settle(Nanos::NEVER)));
        // And so is who waits for a look at what is pending.
        let result = catch_unwind(AssertUnwindSafe(|| self.handle.close_questions())).and(result);
        // A second panic while one is under way would abort the process.
        if let (Err(payload), false) = (result, std::thread::panicking()) {
            resume_unwind(payload);
        }
        // The fields follow: the turner's reactor and driver close as they are dropped.
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
