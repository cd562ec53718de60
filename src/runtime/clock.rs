//! Which clock a runtime's timers go by: the choice, and the clock that a test turns.
//!
//! Ground rules:
//!
//! * Every clock counts from the process's anchor, so that its instants lie beside the system's. What a test clock
//!   says of them as [`Instant`](crate::time::Instant) is said in
//!   `time/clock.rs`, above this room.
//! * Who turns a test clock rouses the runtimes that go by it, after it has been turned and without the lock.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mainspring_driver as driver;
use mainspring_driver::Nanos;

use crate::reactor::Io;

/// Which clock a runtime's timers go by; see [`Builder::clock`](crate::Builder::clock).
///
/// # While the machine is suspended
///
/// | platform | [`Monotonic`](Clock::Monotonic), which is [`std::time::Instant`] | [`Boottime`](Clock::Boottime) |
/// |---|---|---|
/// | Linux, Android | stands (`CLOCK_MONOTONIC`) | goes on (`CLOCK_BOOTTIME`) |
/// | macOS, iOS | stands (`CLOCK_UPTIME_RAW`) | unsupported |
/// | Windows | goes on (the performance counter), but the wait for a timer may be longer by the time asleep | unsupported |
/// | others | as std's does | unsupported |
///
/// Conversion between [`Instant`](crate::time::Instant) and std's then adds or takes away the time for which the machine
/// was suspended so far: see [there](crate::time::Instant#conversion-to-and-from-std).
///
/// Nothing here wakes a machine that sleeps: a timer that came due meanwhile fires when it is awake again.
///
/// ```
/// use mainspring::Builder;
/// use mainspring::time::Clock;
///
/// // Timers go on while the machine is suspended, where the system can do that.
/// let runtime = match Builder::new().clock(Clock::Boottime).build() {
///     Err(error) if error.kind() == std::io::ErrorKind::Unsupported => Builder::new().build()?,
///     runtime => runtime?,
/// };
/// assert_eq!(runtime.block_on(async { "done" }), "done");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Clock {
    /// The system's monotonic clock: the one of [`std::time::Instant`].
    #[default]
    Monotonic,
    /// The time since the machine was started, also that which it was suspended for: timers go on while it
    /// sleeps. Those that came due meanwhile fire, once and in order, when it awakes.
    ///
    /// On Linux and Android. Elsewhere [`Builder::build`](crate::Builder::build) says
    /// [`Unsupported`](io::ErrorKind::Unsupported).
    Boottime,
    /// A clock that is turned by hand.
    Test(TestClock),
}

impl Clock {
    /// The clock as the driver wants it.
    ///
    /// # Errors
    ///
    /// `Unsupported`, if this platform has no such clock.
    pub(super) fn open(&self) -> io::Result<driver::Clock> {
        match self {
            Clock::Monotonic => Ok(super::anchor::clock()),
            Clock::Boottime => super::system_clock::boottime(),
            Clock::Test(test) => Ok(test.shared.time.clock()),
        }
    }

    /// By how much the instants of a runtime that is built on this clock now, and whose time is virtual from its
    /// beginning, are ahead of std's; `None` if its time is not virtual. Its clock shows `now`.
    pub(super) fn ahead_of_std(&self, paused: bool, now: Nanos) -> Option<i64> {
        let count = |nanos: Nanos| i64::try_from(nanos.get()).unwrap_or(i64::MAX);
        match self {
            Clock::Test(test) => Some(test.shared.ahead_of_std),
            Clock::Monotonic | Clock::Boottime => paused.then(|| count(now) - count(super::now())),
        }
    }

    /// A test clock rouses this runtime from now on.
    pub(super) fn watch(&self, io: &Arc<Io>) {
        if let Clock::Test(test) = self {
            let mut watchers = test.lock();
            // Those of runtimes that are gone make room.
            watchers.retain(|watcher| watcher.strong_count() > 0);
            watchers.push(Arc::downgrade(io));
        }
    }
}

/// A clock that a program turns by hand, for code that wants its time injected. Clones are the same clock; it may
/// be turned on any thread, and several runtimes may go by it.
///
/// A runtime that goes by it fires a timer when the clock was turned to its deadline or beyond, however far: all
/// that are due then, each once, by (deadline, registration), [so many a turn](crate::Builder::timer_budget). Turned
/// back it shows the earlier time, but its runtimes' time stands until it has caught up.
///
/// It never moves by itself. For a clock that does when nothing is left to run, see [`pause`](crate::time::pause).
///
/// ```
/// use std::time::Duration;
/// use mainspring::runtime::Builder;
/// use mainspring::time::{Clock, Instant, TestClock, sleep};
///
/// let clock = TestClock::new();
/// let runtime = Builder::new().clock(Clock::Test(clock.clone())).build()?;
/// let turner = clock.clone();
/// std::thread::spawn(move || turner.advance(Duration::from_secs(86_400)));
/// runtime.block_on(async {
///     // Whether the other thread was quicker or not.
///     mainspring::time::sleep_until(clock.started_at() + Duration::from_secs(86_400)).await;
///     assert_eq!(Instant::now(), clock.now());
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct TestClock {
    shared: Arc<Shared>,
}

struct Shared {
    /// What it showed first.
    began: Nanos,
    /// By how much its count was ahead of std's when it was made.
    ahead_of_std: i64,
    time: driver::TestClock,
    /// The runtimes to be roused when it is turned.
    watchers: Mutex<Vec<Weak<Io>>>,
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elapsed = self.nanos().saturating_duration_since(self.began());
        f.debug_struct("TestClock").field("elapsed", &elapsed).finish_non_exhaustive()
    }
}

impl TestClock {
    /// A clock that shows `began`, counted as std's clock plus `ahead_of_std`.
    pub(crate) fn starting_at(began: Nanos, ahead_of_std: i64) -> TestClock {
        let time = driver::TestClock::new(began);
        TestClock { shared: Arc::new(Shared { began, ahead_of_std, time, watchers: Mutex::default() }) }
    }

    /// Turns the clock on by `duration`. It stops just before the end of time, in some 580 years.
    pub fn advance(&self, duration: Duration) {
        self.shared.time.advance(duration);
        self.rouse();
    }

    pub(crate) fn began(&self) -> Nanos {
        self.shared.began
    }

    pub(crate) fn nanos(&self) -> Nanos {
        self.shared.time.now()
    }

    pub(crate) fn set_nanos(&self, at: Nanos) {
        self.shared.time.set(at);
        self.rouse();
    }

    /// The runtimes that go by it look at it.
    fn rouse(&self) {
        let watchers: Vec<Arc<Io>> = self.lock().iter().filter_map(Weak::upgrade).collect();
        for io in watchers {
            io.unpark();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Io>>> {
        self.shared.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
