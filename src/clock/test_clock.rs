//! The clock that a runtime's timers use: the choice, and the clock that a test sets.
//!
//! Ground rule: a call that sets a test clock unparks the runtimes that use it, after the clock has been set and without
//! the lock.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mainspring_driver::{self as driver, Nanos, Unpark};

use super::instant::{self, Instant};
use super::system;

/// The clock that a runtime's timers use; see [`Builder::clock`](crate::Builder::clock).
///
/// # While the machine is suspended
///
/// | platform | [`Monotonic`](Clock::Monotonic), which is [`std::time::Instant`] | [`Boottime`](Clock::Boottime) |
/// |---|---|---|
/// | Linux, Android | stops (`CLOCK_MONOTONIC`) | goes on (`CLOCK_BOOTTIME`) |
/// | macOS, iOS | stops (`CLOCK_UPTIME_RAW`) | unsupported |
/// | Windows | goes on (the performance counter), but the wait for a timer may be longer by the time asleep | unsupported |
/// | others | as std's does | unsupported |
///
/// With [`Boottime`](Clock::Boottime), conversion between [`Instant`](crate::time::Instant) and std's adds or subtracts
/// the time for which the machine was suspended so far: see [there](crate::time::Instant#conversion-to-and-from-std).
///
/// No clock here wakes a suspended machine: a timer that came due meanwhile fires when the machine is awake again.
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
    /// The system's monotonic clock, which [`std::time::Instant`] uses.
    #[default]
    Monotonic,
    /// The time since the machine was started, including the time for which it was suspended: timers go on while it
    /// sleeps. Timers that came due meanwhile fire, once and in order, when it wakes.
    ///
    /// For Linux and Android. Elsewhere [`Builder::build`](crate::Builder::build) returns
    /// [`Unsupported`](io::ErrorKind::Unsupported).
    Boottime,
    /// A clock that is advanced by the program.
    Test(TestClock),
}

impl Clock {
    /// The clock in the driver's type.
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

    /// For a runtime that is built on this clock now: if its time is virtual from its beginning, by how much its
    /// instants are ahead of std's; `None` if its time is not virtual. The clock shows `now`.
    pub(super) fn ahead_of_std(&self, paused: bool, now: Nanos) -> Option<i64> {
        let count = |nanos: Nanos| i64::try_from(nanos.get()).unwrap_or(i64::MAX);
        match self {
            Clock::Test(test) => Some(test.state.ahead_of_std),
            Clock::Monotonic | Clock::Boottime => paused.then(|| count(now) - count(system::now())),
        }
    }

    /// Makes a test clock unpark this runtime, from now on, each time the clock is set.
    pub(crate) fn add_runtime(&self, unpark: &Arc<impl Unpark>) {
        if let Clock::Test(test) = self {
            let unpark = Arc::downgrade(unpark);
            let mut runtimes = test.lock();
            // Forget runtimes that are gone.
            runtimes.retain(|runtime| runtime.strong_count() > 0);
            runtimes.push(unpark);
        }
    }
}

/// A clock that the program moves by hand, for code that wants its clock injected. Clones are the same clock; it may be
/// moved on any thread, and several runtimes may use it.
///
/// A runtime that uses it fires a timer when the clock was moved to its deadline or beyond, however far: all timers
/// that are due then, each once, by (deadline, registration), [a limited number in each
/// turn](crate::Builder::timer_budget). If the clock is set back, it shows the earlier time, but its runtimes' time
/// stands still until the clock has caught up.
///
/// It never moves on its own. For a clock that does so when nothing is left to run, see [`pause`](crate::time::pause).
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
    /// What the clock showed first.
    began: Nanos,
    /// By how much the clock's count was ahead of std's when it was made.
    ahead_of_std: i64,
    time: driver::TestClock,
    /// Unparks the runtimes that use the clock.
    runtimes: Mutex<Vec<Weak<dyn Unpark>>>,
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elapsed = self.state.time.now().saturating_duration_since(self.state.began);
        f.debug_struct("TestClock").field("elapsed", &elapsed).finish_non_exhaustive()
    }
}

impl TestClock {
    /// Returns a clock that shows the present moment until it is set or advanced.
    pub fn new() -> TestClock {
        let began = instant::to_nanos(Instant::now());
        let (ahead_of_std, time) = (instant::ahead_of_std(), driver::TestClock::new(began));
        TestClock {
            state: Arc::new(TestClockState { began, ahead_of_std, time, runtimes: Mutex::default() }),
        }
    }

    /// Returns the moment that the clock shows. Inside a runtime that uses this clock, [`Instant::now`] returns the
    /// same, unless the clock was set back.
    pub fn now(&self) -> Instant {
        instant::from_nanos(self.state.time.now())
    }

    /// Returns the moment that the clock showed first.
    pub fn started_at(&self) -> Instant {
        instant::from_nanos(self.state.began)
    }

    /// Sets the clock to `moment`, which may lie in its past. A sleep then lasts longer: a runtime's time does not go
    /// back, but stands still until its clock has caught up.
    pub fn set(&self, moment: Instant) {
        self.state.time.set(instant::to_nanos(moment));
        self.unpark_all();
    }

    /// Advances the clock by `duration`. Calls on several threads add up. The clock stops just before the end of time, in some
    /// 580 years; an [`Instant`] reaches only [292 years](Instant#beyond-292-years).
    pub fn advance(&self, duration: Duration) {
        self.state.time.advance(duration);
        self.unpark_all();
    }

    /// Has the runtimes that use this clock read it.
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
