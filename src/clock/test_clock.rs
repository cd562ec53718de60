//! Which clock a runtime's timers go by: the choice, and the clock that a test turns.
//!
//! Ground rule: who turns a test clock unparks the runtimes that go by it, after it has been turned and without the lock.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mainspring_driver::{self as driver, Nanos, Unpark};

use super::instant::{self, Instant};
use super::system;

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
    /// The time since the machine was started, also while it was suspended: timers go on while it
    /// sleeps. Those that came due meanwhile fire, once and in order, when it awakes.
    ///
    /// On Linux and Android. Elsewhere [`Builder::build`](crate::Builder::build) says
    /// [`Unsupported`](io::ErrorKind::Unsupported).
    Boottime,
    /// A clock that is advanced by the program.
    Test(TestClock),
}

impl Clock {
    /// The clock as the driver wants it.
    ///
    /// # Errors
    ///
    /// `Unsupported`, if this platform has no such clock.
    pub(crate) fn open(&self) -> io::Result<driver::Clock> {
        match self {
            Clock::Monotonic => Ok(driver::Clock::from_fn(system::now)),
            Clock::Boottime => system::boottime(),
            Clock::Test(test) => Ok(test.state.time.clock()),
        }
    }

    /// By how much the instants of a runtime that is built on this clock now, and whose time is virtual from its
    /// beginning, are ahead of std's; `None` if its time is not virtual. Its clock shows `now`.
    pub(super) fn ahead_of_std(&self, paused: bool, now: Nanos) -> Option<i64> {
        let count = |nanos: Nanos| i64::try_from(nanos.get()).unwrap_or(i64::MAX);
        match self {
            Clock::Test(test) => Some(test.state.ahead_of_std),
            Clock::Monotonic | Clock::Boottime => paused.then(|| count(now) - count(system::now())),
        }
    }

    /// A test clock unparks this runtime, each time it is turned, from now on.
    pub(crate) fn add_runtime(&self, unpark: &Arc<impl Unpark>) {
        if let Clock::Test(test) = self {
            let unpark = Arc::downgrade(unpark);
            let mut runtimes = test.lock();
            // Those that are gone make room.
            runtimes.retain(|runtime| runtime.strong_count() > 0);
            runtimes.push(unpark);
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
    state: Arc<TestClockState>,
}

struct TestClockState {
    /// What it showed first.
    began: Nanos,
    /// By how much its count was ahead of std's when it was made.
    ahead_of_std: i64,
    time: driver::TestClock,
    /// What unparks the runtimes that go by it.
    runtimes: Mutex<Vec<Weak<dyn Unpark>>>,
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elapsed = self.state.time.now().saturating_duration_since(self.state.began);
        f.debug_struct("TestClock").field("elapsed", &elapsed).finish_non_exhaustive()
    }
}

impl TestClock {
    /// A clock that shows the present moment until it is turned.
    pub fn new() -> TestClock {
        let began = instant::to_nanos(Instant::now());
        let (ahead_of_std, time) = (instant::ahead_of_std(), driver::TestClock::new(began));
        TestClock {
            state: Arc::new(TestClockState { began, ahead_of_std, time, runtimes: Mutex::default() }),
        }
    }

    /// The moment that it shows. Inside a runtime that goes by this clock, [`Instant::now`] is the same.
    pub fn now(&self) -> Instant {
        instant::from_nanos(self.state.time.now())
    }

    /// The moment that it showed first.
    pub fn started_at(&self) -> Instant {
        instant::from_nanos(self.state.began)
    }

    /// Sets the clock to `moment`, which may lie in its past. A sleep then lasts the longer: a runtime's
    /// time does not go back, but stands until its clock has caught up.
    pub fn set(&self, moment: Instant) {
        self.state.time.set(instant::to_nanos(moment));
        self.unpark_all();
    }

    /// Turns the clock on by `duration`. It stops just before the end of time, in some 580 years.
    pub fn advance(&self, duration: Duration) {
        self.state.time.advance(duration);
        self.unpark_all();
    }

    /// The runtimes that go by it look at it.
    fn unpark_all(&self) {
        let runtimes: Vec<Arc<dyn Unpark>> = self.lock().iter().filter_map(Weak::upgrade).collect();
        for runtime in runtimes {
            runtime.unpark();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<dyn Unpark>>> {
        self.state.runtimes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for TestClock {
    fn default() -> TestClock {
        TestClock::new()
    }
}
