//! `Handle`: a runtime as other threads, and the user-facing modules, see it.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use futures_task::{FutureObj, Spawn, SpawnError};

use mainspring_driver::wheel::Occupancy;

use super::context::{self, EnterGuard, NoRuntime};
use super::inspect::LastSeen;
use super::metrics::{Counters, Metrics};
use super::random::Seeds;
use super::spawn::Names;
use super::virtual_time::VirtualTime;
use crate::clock::RuntimeClock;
use crate::executor::Remote;
use crate::reactor::Io;

/// A handle to a runtime, for use on any thread. It may be cloned, sent and shared.
///
/// A handle keeps nothing running: once the [`Runtime`](super::Runtime) is dropped, a task that is spawned through the handle
/// is cancelled at once.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) clock: Arc<RuntimeClock>,
    pub(super) timers: mainspring_driver::Handle,
    pub(super) io: Arc<Io>,
    pub(super) remote: Arc<Remote>,
    pub(super) counters: Counters,
    pub(super) virtual_time: VirtualTime,
    pub(super) seeds: Seeds,
    pub(super) names: Arc<Names>,
    pub(super) last_seen: LastSeen,
}

// As for the `Runtime`.
impl UnwindSafe for Handle {}
impl RefUnwindSafe for Handle {}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("shut_down", &self.shared.remote.is_closed()).finish_non_exhaustive()
    }
}

impl Handle {
    pub(super) fn new(shared: Shared) -> Handle {
        Handle { shared: Arc::new(shared) }
    }

    /// Returns the handle of the runtime this thread is in.
    ///
    /// # Panics
    ///
    /// If this thread is in no runtime; [`try_current`](Handle::try_current) returns an error instead.
    #[track_caller]
    pub fn current() -> Handle {
        match Handle::try_current() {
            Ok(handle) => handle,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the handle of the runtime this thread is in.
    ///
    /// # Errors
    ///
    /// [`NoRuntime`] if this thread is in no runtime.
    pub fn try_current() -> Result<Handle, NoRuntime> {
        context::with(Handle::clone)
    }

    /// Makes this runtime the one this thread is in, until the guard is dropped: sleeps and sockets that are made meanwhile
    /// belong to it, and so do tasks that are [spawned](crate::spawn), if this is the runtime's own thread. This method does
    /// not run the runtime.
    ///
    /// # Panics
    ///
    /// When guards are dropped out of order; see [`EnterGuard`]. And in a task, or in `block_on`'s future, that holds a guard
    /// across an `.await`: other tasks, which run meanwhile, would be in this runtime. That poll panics, and no other task is
    /// affected.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::runtime::Runtime;
    ///
    /// let runtime = Runtime::new()?;
    /// let sleep = {
    ///     let _guard = runtime.handle().enter();
    ///     mainspring::sleep(Duration::from_millis(1))
    /// };
    /// runtime.block_on(sleep);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn enter(&self) -> EnterGuard<'_> {
        context::enter(self)
    }

    /// Returns what the runtime has done so far. Can be called on any thread, at any time; takes the timers' lock for a
    /// moment.
    pub fn metrics(&self) -> Metrics {
        Metrics::new(&self.shared.counters, &self.shared.timers, self.shared.remote.unfinished_here())
    }

    /// Returns how many timers wait in each slot of the runtime's timing wheel, for a view of the wheel. Takes about a
    /// microsecond, whatever the number of timers.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::{runtime::Handle, sleep, spawn};
    ///
    /// mainspring::block_on(async {
    ///     for n in 1..=10 {
    ///         spawn(sleep(Duration::from_secs(n)));
    ///     }
    ///     mainspring::task::yield_now().await;
    ///     let occupancy = Handle::current().occupancy();
    ///     assert_eq!(occupancy.timers(), 10);
    /// });
    /// ```
    pub fn occupancy(&self) -> Occupancy {
        self.shared.timers.occupancy()
    }

    /// Returns whether the runtime was dropped.
    pub fn is_shutdown(&self) -> bool {
        self.shared.remote.is_closed()
    }

    /// Returns a seed for code that draws random numbers in this runtime.
    pub(crate) fn seed(&self) -> u64 {
        self.shared.seeds.next()
    }

    /// Returns what makes timers for this runtime.
    #[inline]
    pub(crate) fn timers(&self) -> &mainspring_driver::Handle {
        &self.shared.timers
    }

    pub(crate) fn io(&self) -> &Arc<Io> {
        &self.shared.io
    }

    /// Returns the runtime's clock.
    pub(crate) fn clock(&self) -> &Arc<RuntimeClock> {
        &self.shared.clock
    }

    pub(crate) fn virtual_time(&self) -> &VirtualTime {
        &self.shared.virtual_time
    }

    /// Whether this thread runs the runtime.
    #[inline]
    pub(crate) fn is_running_here(&self) -> bool {
        self.remote().is_entered()
    }

    #[inline]
    pub(super) fn remote(&self) -> &Arc<Remote> {
        &self.shared.remote
    }

    pub(super) fn names(&self) -> &Arc<Names> {
        &self.shared.names
    }

    pub(super) fn last_seen(&self) -> &LastSeen {
        &self.shared.last_seen
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.shared.counters
    }
}

impl Spawn for Handle {
    #[track_caller]
    fn spawn_obj(&self, future: FutureObj<'static, ()>) -> Result<(), SpawnError> {
        self.status()?;
        drop(self.spawn(future));
        Ok(())
    }

    fn status(&self) -> Result<(), SpawnError> {
        if self.is_shutdown() { Err(SpawnError::shutdown()) } else { Ok(()) }
    }
}
