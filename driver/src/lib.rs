//! Exact, cheap timers for any async runtime.
//!
//! This crate has timers only: a timing wheel, a lock-free timer state, and a driver around them. It knows no
//! executor, no I/O and no poller, and by default depends on nothing but std. So any runtime, or any thread that can park, can
//! use it. The runtime `mainspring` is built on it.
//!
//! * [`TimerEntry`]: a timer, as a future. The wheel points at it: arming allocates nothing.
//! * [`Driver`] and [`Handle`]: the lock around the wheel. The loop asks [`Driver::next_wake`] before it parks
//!   and calls [`Driver::process`] after.
//! * [`Tolerance`]: how far a park may outlast a deadline, so that timers end together.
//! * [`Handle::stats`], [`Lateness`], [`Handle::pending`], [`Handle::occupancy`]: what was done, how late timers fired, and which
//!   timers wait.
//! * [`Clock`], [`TestClock`], [`Nanos`]: what time it is. [`Handle::pause`] stops a clock, also a real one.
//! * [`Agenda`]: values with the time at which each is due, under keys; it knows no runtime and no clock.
//! * [`wheel`]: the timing wheel alone, to build another driver or collection on; pure and safe. Its caller tells it
//!   what time it is.
//!
//! Promises: a timer never fires early and is never lost; timers that are due fire by (deadline,
//! registration); no foreign code runs under the lock; every duration is legal; the timers that a call
//! fires and moves are bounded by its budget; in a steady state nothing is allocated.
//!
//! The feature `tracing` (off by default) sends an event, at the level TRACE under the target `mainspring::timer`, when a timer is
//! `armed`, `reset` (both with `deadline_ns`), has `fired` (with `late_ns`) or is `cancelled`. Each has `timer`, which
//! distinguishes timers that exist at the same time, and `made_at`. It also sends an event at DEBUG when the driver is
//! `shut down`, with the number of `timers` that waited. No event is sent under the lock.
//!
//! With the feature `membarrier` (off by default; Linux), the lock around the timers costs no atomic step on the thread that
//! calls [`Driver::process`]: the first thread that does, for good. Another thread that takes the lock in between has the kernel
//! run a barrier on all running threads of the process, by the system call of that name, which takes some microseconds; if
//! several threads come, only the first of them does. The first driver of a process asks whether the call is allowed, which
//! takes up to 20 ms if the process has several threads by then. If the call is not allowed, and on other systems, the lock is
//! std's mutex. A filter of system calls (seccomp) that is installed later must allow the call: otherwise the process is
//! aborted, with a message, when a thread needs it.
//!
//! The feature `check` (off by default) adds `Handle::check`, which asserts the driver's own invariants: for tests of the
//! driver.
//!
//! Two examples use the driver: `examples/own_loop.rs` in a loop of a few lines around `park_timeout`, and
//! `examples/under_smol.rs` on a separate thread, with sleeps that tasks of another runtime await.
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
mod lateness;
mod nanos;
mod prefetch;
mod slack;
mod sync;
mod time;
mod timer;
mod trace;
mod wake;
pub mod wheel;

pub use agenda::Agenda;
pub use lateness::Lateness;
pub use nanos::Nanos;
pub use slack::Tolerance;
pub use time::{Clock, TestClock};
pub use timer::{Driver, Handle, Pending, Processed, Shutdown, Stats, TimerEntry, Unpark};

/// The README's program is a test of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
