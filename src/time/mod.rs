//! Sleeping, deadlines and ticks.
//!
//! * [`sleep`] and [`sleep_until`] wait for a length of time or for a moment.
//! * [`timeout`] and [`timeout_at`] give another future so long and no longer.
//! * [`interval`] and [`interval_at`] tick.
//! * [`DelayQueue`] and [`TimerMap`] hold values until their time has come: any number of them on one timer,
//!   found by key.
//!
//! # How exact
//!
//! Never early: when a sleep of `d` ends, at least `d` has passed. Deadlines are kept to the nanosecond. How
//! late a sleep ends is up to the system's wake-up (some tens of microseconds on Linux), what else runs on
//! the thread, and the sleep's tolerance: so that timers end together instead of waking the processor one by
//! one, a park may outlast a deadline by 1/128 of its length, at most a millisecond; under load by more (see
//! [`Tolerance`]). [`Sleep::tolerance`] sets it for one timer, [`Sleep::precise`] takes it away, and
//! [`Builder::timer_tolerance`](crate::Builder::timer_tolerance) sets the default.
//!
//! # To which runtime
//!
//! A sleep, timeout or interval that is made inside a runtime belongs to it, wherever it is polled. One that
//! is made outside binds to the runtime in which it is first polled, and starts counting there.
//!
//! # What is different from elsewhere
//!
//! For those who know these names from tokio:
//!
//! * [`timeout`]'s clock starts when its first poll finds the inner future pending; time spent inside that
//!   poll does not count. A future that is ready at once costs no reading of the clock.
//! * A sleep of no length, one to a past or present moment, and a reset to the past are ready at the next
//!   poll, without waiting for the driver; so is a sleep that elapses while it is polled in a loop that never
//!   yields.
//! * Nothing panics on overflow: sums of instants and durations saturate, and `Duration::MAX` means never.
//! * Resolution is a nanosecond, not a millisecond.
//! * Missed ticks: `Burst` and `Skip` have no grace period; `Delay` has the smaller of 5 ms and the period.

pub mod delay_queue;
pub mod error;
mod instant;
mod interval;
mod keyed;
mod sleep;
mod timeout;
pub mod timer_map;

pub use std::time::Duration;

pub use mainspring_driver::Tolerance;

pub use delay_queue::DelayQueue;
pub use instant::Instant;
pub use interval::{Interval, MissedTickBehavior, Tick, interval, interval_at};
pub use sleep::{Sleep, TrySleep, sleep, sleep_until, try_sleep, try_sleep_until};
pub use timeout::{Timeout, timeout, timeout_at};
pub use timer_map::TimerMap;
