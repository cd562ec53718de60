//! The clocks: the system's, a runtime's, and the current clock, which is that of the runtime that this thread is in.
//!
//! ```text
//!   Instant::now, wall_now ──▶ the current clock, or outside a runtime the system's
//!                                │
//!                                ▼
//!   RuntimeClock ──▶ the driver's Handle::now: the clock that the runtime was built on, or the number at which its
//!                    time was stopped
//!   Clock, TestClock   which clock that is (test_clock.rs)
//!   system             the system's clocks, which count from this process's anchor (system.rs)
//!   Instant            a moment, counted from the same anchor (instant.rs)
//!   Waited             how long a thread has waited for a processor (waited.rs)
//!   Tick               whether some milliseconds may have passed (tick.rs)
//! ```
//!
//! Ground rules:
//!
//! * Every clock here counts from the process's anchor. So a moment by one clock is also a moment by any other, and a
//!   driver's [`Nanos`] becomes an [`Instant`] without arithmetic.
//! * When a runtime's time first becomes virtual, two values are fixed: its wall clock, and its distance from std's
//!   `Instant`. Both stay fixed, even after its time was resumed. So a moment that was converted once stays right.
//! * Only `runtime::context` sets the current clock, together with the current runtime. In the destructor of another
//!   thread-local it may already be gone; then the system's clock is used.

pub(crate) mod instant;
pub(crate) mod system;
mod test_clock;
mod tick;
mod waited;

pub use instant::Instant;
pub(crate) use instant::from_nanos;
pub use test_clock::{Clock, TestClock};
pub(crate) use tick::Tick;
pub(crate) use waited::Waited;

use mainspring_driver::{Handle as Timers, Nanos};
use std::cell::RefCell;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

thread_local! {
    static CURRENT: RefCell<Option<Arc<RuntimeClock>>> = const { RefCell::new(None) };
}

/// The clock of a runtime.
pub(crate) struct RuntimeClock {
    timers: Timers,
    /// The runtime was built on the system's monotonic clock, which is the process's own clock as long as it is not
    /// stopped.
    on_system_clock: bool,
    /// What the wall clock showed at a moment of the runtime's time. If not set, the wall clock is the system's.
    wall: OnceLock<(SystemTime, Nanos)>,
    /// By how many nanoseconds the runtime's instants were ahead of std's. If not set, its time was never virtual.
    ahead_of_std: OnceLock<i64>,
}

impl RuntimeClock {
    /// The clock of a runtime that has just been built on `clock`, with a wall clock that shows `wall`, if that is given.
    pub(crate) fn new(timers: Timers, clock: &Clock, wall: Option<SystemTime>) -> RuntimeClock {
        let now = timers.now();
        let ahead_of_std = clock.ahead_of_std(timers.is_paused(), now);
        let wall = wall.or_else(|| ahead_of_std.map(|_| SystemTime::now()));
        RuntimeClock {
            timers,
            on_system_clock: matches!(clock, Clock::Monotonic),
            wall: wall.map_or_else(OnceLock::new, |wall| (wall, now).into()),
            ahead_of_std: ahead_of_std.map_or_else(OnceLock::new, OnceLock::from),
        }
    }

    /// The time by this clock.
    #[inline]
    fn now(&self) -> Nanos {
        self.timers.now()
    }

    /// Whether this is the process's time: the runtime uses the system's monotonic clock, and was never paused.
    #[inline]
    pub(crate) fn is_system(&self) -> bool {
        self.on_system_clock && self.timers.clock_changes() == 0
    }

    /// Stops the clock. Returns false, and changes nothing, if it is stopped already.
    pub(crate) fn pause(&self) -> bool {
        // The values of the first call stay.
        let _ = self.wall.set((SystemTime::now(), self.timers.now()));
        let _ = self.ahead_of_std.set(self.ahead_of_std());
        self.timers.pause()
    }

    /// Whether the time of day follows this clock, and not the system's: then it is never set.
    pub(crate) fn has_own_wall(&self) -> bool {
        self.wall.get().is_some()
    }

    /// The time of day. It stops where the range of the system's type ends.
    pub(crate) fn wall_now(&self) -> SystemTime {
        let Some((wall, at)) = self.wall.get() else { return SystemTime::now() };
        let passed = self.timers.now().saturating_nanos_since(*at);
        instant::go(*wall, passed, SystemTime::checked_add)
    }

    /// By how many nanoseconds this clock's instants are ahead of std's, whose count is the process's.
    fn ahead_of_std(&self) -> i64 {
        match self.ahead_of_std.get() {
            Some(ahead) => *ahead,
            None if self.on_system_clock => 0,
            None => system::suspended(),
        }
    }
}

/// Makes `clock` the clock of this thread: that of the runtime that it has entered or, without a runtime, the system's.
pub(crate) fn set_current(clock: Option<Arc<RuntimeClock>>) {
    let before = CURRENT.try_with(|current| current.replace(clock));
    // It is dropped after the borrow has ended.
    drop(before);
}

/// Reads the clock of the runtime that this thread is in; `None` if it is in no runtime.
#[inline]
fn current<R>(look: impl FnOnce(&RuntimeClock) -> R) -> Option<R> {
    CURRENT.try_with(|current| current.borrow().as_deref().map(look)).ok().flatten()
}

/// The clock of the runtime that this thread is in, if it is in one.
pub(crate) fn current_clock() -> Option<Arc<RuntimeClock>> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Returns the value. It marks the branch that calls it as unlikely: the compiler emits a jump, and the processor does not wait
/// for what is computed from a reading of the clock.
#[cold]
fn rarely<T>(value: T) -> T {
    value
}

/// The time of day, by the runtime that this thread is in.
pub(crate) fn wall_now() -> SystemTime {
    current(RuntimeClock::wall_now).unwrap_or_else(SystemTime::now)
}
