//! Exact, cheap timers for any async runtime.
//!
//! This crate is timers only: a timing wheel, a lock-free timer state, and a driver around them. It knows no
//! executor, no I/O and no poller, and depends on nothing, so any runtime, or any thread that can park, can
//! embed it. The runtime `mainspring` is built on it.
//!
//! * [`Wheel`]: a hierarchical timing wheel with exact deadlines; pure and safe. It is told what time it is.
//! * [`Agenda`]: values with the time at which each is due, under keys; it knows no runtime and no clock.
//! * [`TimerEntry`]: a timer, as a future. The wheel points at it: arming allocates nothing.
//! * [`StateCell`]: the atomic word in it that says where the timer stands.
//! * [`Driver`] and [`Handle`]: the lock around the wheel. The loop asks [`Driver::next_wake`] before it parks
//!   and calls [`Driver::process`] after.
//! * [`Tolerance`]: how far a park may outlast a deadline, so that timers end together.
//! * [`Handle::stats`], [`Lateness`], [`Handle::pending`]: what was done, how late, and what waits.
//! * [`WakeList`]: a batch of wakers, woken without the lock.
//! * [`Clock`], [`TestClock`], [`Nanos`]: what time it is. [`Handle::pause`] stops a clock, also a real one.
//!
//! Promises: a timer never fires early and is never lost; timers that are due fire by (deadline,
//! registration); no foreign code runs under the lock; every duration is legal; the timers that a call
//! fires and moves are bounded by its budget; in a steady state nothing is allocated.
//!
//! The feature `tracing` (off by default) sends an event, at the level TRACE under the target `mainspring::timer`, when a timer is
//! `armed`, `reset` (both with `deadline_ns`), has `fired` (with `late_ns`) or is `cancelled`, each with `timer`, which
//! tells those that live at the same time apart, and `made_at`; and one at DEBUG when the driver is `shut down`, with the
//! number of `timers` that waited. None is sent under the lock.
//!
//! Two examples embed it: `examples/own_loop.rs` in a loop of a few lines around `park_timeout`, and
//! `examples/under_smol.rs` on a thread of its own, its sleeps awaited by tasks of another runtime.
//!
//! ```
//! use std::time::Duration;
//! use mainspring_driver::{Driver, Nanos, TestClock};
//! use futures::{FutureExt, future::join};
//!
//! let test = TestClock::new(Nanos::ZERO);
//! let mut driver = Driver::new(test.clock(), || ());
//! let handle = driver.handle().clone();
//! let mut both = Box::pin(join(
//!     handle.sleep(Duration::from_millis(1)),
//!     handle.sleep(Duration::from_secs(3600)),
//! ));
//!
//! let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
//! while both.poll_unpin(&mut cx).is_pending() {
//!     let next = driver.next_deadline().expect("a timer is armed");
//!     test.set(next);
//!     let _ = driver.process(next, 1024);
//! }
//! assert_eq!(test.now(), Nanos::new(3_600_000_000_000));
//! ```

pub mod agenda;
mod clock;
mod driver;
mod entry;
mod lateness;
mod nanos;
mod panics;
mod state;
mod steer;
mod sync;
mod tolerance;
mod trace;
mod wake_list;
pub mod wheel;

pub use agenda::Agenda;
pub use clock::{Clock, TestClock};
pub use driver::{Driver, Handle, Pending, Processed, Stats, Unpark, Waits};
pub use entry::{Shutdown, TimerEntry};
pub use lateness::Lateness;
pub use nanos::Nanos;
pub use panics::PanicPayload;
pub use state::{State, StateCell};
pub use tolerance::Tolerance;
pub use wake_list::WakeList;
pub use wheel::Wheel;
