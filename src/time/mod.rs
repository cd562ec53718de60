//! Sleeping, deadlines and ticks.
//!
//! * [`sleep`] and [`sleep_until`] wait for a length of time or for a moment.
//! * [`sleep_until_wall`] waits for a time of day, even if the clock is set meanwhile.
//! * [`timeout`] and [`timeout_at`] limit how long another future may take.
//! * [`deadline`] limits a piece of work and everything that it calls and spawns; there [`remaining`] returns the time
//!   that is left.
//! * [`interval`] and [`interval_at`] tick.
//! * [`DelayQueue`] and [`TimerMap`] hold values until their time has come: any number of values on one timer, found by
//!   key.
//! * [`FutureExt`] and [`StreamExt`] have timeouts and throttles as methods.
//!
//! # How exact
//!
//! Never early: when a sleep of `d` ends, at least `d` has passed. Deadlines are kept to the nanosecond. How late a
//! sleep ends depends on the system's wake-up (some tens of microseconds on Linux), on what else runs on the thread, and
//! on the sleep's tolerance. So that timers end together instead of waking the processor one by one, a park may outlast
//! a deadline by 1/128 of its length, at most a millisecond; under load by more (see [`Tolerance`]). The length is the time
//! from when the timer is armed to its deadline. A sleep, or a value of a queue, that is moved to a later time keeps what
//! it had: one of half a minute that is moved, shortly before its end, to 3 ms from then may still be a millisecond late.
//! [`Sleep::tolerance`] sets the tolerance for one timer, [`DelayQueue::tolerance`] for the values of a queue;
//! [`Sleep::precise`] removes it, and [`Builder::timer_tolerance`](crate::Builder::timer_tolerance) sets the default.
//!
//! # To which runtime
//!
//! A sleep or interval that is made inside a runtime belongs to it, wherever it is polled. A sleep or interval that is
//! made outside a runtime belongs to the runtime in which it is first polled, and starts counting there. So does every
//! timeout, even one that is made inside another runtime: it counts from the poll that finds its future pending.
//!
//! # Virtual time
//!
//! [`pause`] stops the clock of the running runtime, and [`Builder::start_paused`](crate::Builder::start_paused) does so before
//! the runtime begins. From then on time jumps to the next deadline whenever nothing is left to run, or moves as far as
//! [`advance`] asks. A program that only waits runs as fast as the machine can, and two runs of it do the same things in the
//! same order, random numbers included ([`Builder::seed`](crate::Builder::seed)). Tolerance and load do not affect that. A
//! runtime that was never paused pays nothing for it. Code that wants its clock injected takes a [`TestClock`].
//!
//! Std's clocks do not follow virtual time: [`Instant`](Instant#conversion-to-and-from-std) describes how its moments
//! convert to std's, and [`wall_now`] returns the time of day.
//!
//! ## While other threads work
//!
//! Virtual time jumps when nothing is left to run *in this runtime*. It waits for closures of
//! [`task::unblock`](crate::task::unblock) and [`spawn_blocking`](crate::task::spawn_blocking) and for name look-ups. It does
//! not see that another thread, such as one of another crate's pool, works for the runtime. So a timeout of 30 s around 20 ms
//! of such work elapses at once: the task waits, nothing else is left to do, and the next deadline is the timeout's. Hold a
//! [`stand_still`] while the job runs: until it is dropped, time does not move on its own.
//!
//! ```
//! use std::time::Duration;
//! use futures::channel::oneshot;
//! use mainspring::time::{stand_still, timeout};
//!
//! /// Runs `job` on a thread. Virtual time waits for it; in a runtime that is not paused `stand_still` does nothing.
//! fn on_a_thread<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
//!     let (answer, question) = oneshot::channel();
//!     let still = stand_still();
//!     std::thread::spawn(move || {
//!         let _ = answer.send(job());
//!         // After the answer: what it woke is seen before time moves.
//!         drop(still);
//!     });
//!     question
//! }
//!
//! let runtime = mainspring::Builder::new().start_paused(true).build()?;
//! runtime.block_on(async {
//!     let job = on_a_thread(|| {
//!         std::thread::sleep(Duration::from_millis(20));
//!         42
//!     });
//!     assert_eq!(timeout(Duration::from_secs(30), job).await, Ok(Ok(42)));
//! });
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! If the thread is not yours to start, hold it around the wait:
//! `let still = stand_still(); let result = async_fs::read(path).await; drop(still);`.
//!
//! # What is different from elsewhere
//!
//! For readers who know these names from tokio:
//!
//! * [`timeout`]'s clock starts when its first poll finds the inner future pending; time spent inside that
//!   poll does not count. A future that is ready at once costs no reading of the clock.
//! * A sleep of zero length, a sleep until a moment that has passed by its first poll, and a sleep that is reset to the
//!   past are ready at the next poll, without waiting for the driver; so is a sleep that elapses while it is polled in a
//!   loop that never yields. There are exceptions, because reading the clock is expensive. If nothing on the runtime has read
//!   it for a millisecond, then a sleep that is reset to a moment that passed meanwhile, a value of a queue or map that is
//!   given such a moment, and a [`sleep`](sleep()) of more than a millisecond whose first poll comes after its deadline, are
//!   pending once, and end in the next turn of the runtime, which does not sleep.
//! * A [`timeout`] that waits ends in the runtime's turn, which looks at the sockets first. So what has arrived in time is seen,
//!   also if the task itself has held the thread up. In a loop that never yields, or polled by somebody else while the runtime
//!   does not run, a timeout elapses after some thousands of polls.
//! * Nothing panics on overflow: sums of instants and durations saturate, and `Duration::MAX` means never.
//! * Resolution is a nanosecond, not a millisecond.
//! * A stream's [`timeout`](StreamExt::timeout) reports again and again that the time is up while no item comes.
//! * An interval's period can be changed ([`Interval::set_period`]), and its ticks can be spread
//!   ([`Interval::set_jitter`]).
//! * Virtual time needs no feature. It stops at every deadline and nowhere else, in order. (There are four exceptions, in
//!   which it still stops once at an old moment, and the task is polled there: if the earliest value of a [`DelayQueue`] or
//!   [`TimerMap`] is removed or moved to a later time while a task waits for it; if an item comes before the [`timeout`
//!   of a stream](StreamExt::timeout) and the stream is not polled again by then; if bytes have moved since a copy of
//!   [`io`](crate::io) began to wait for its idle limit; and if a [`WallSleep`] has waited before time was paused.) [`advance`]
//!   stops at the deadlines on its way instead of skipping them; [`advance_to`] jumps. A ready socket comes before the
//!   jump, and the jump can be [switched off](crate::Builder::auto_advance).
//! * Missed ticks: `Burst` and `Skip` have no grace period; `Delay` has the smaller of 5 ms and the period.

mod deadline;
pub mod delay_queue;
mod due;
pub mod error;
mod future_ext;
mod interval;
mod paused;
mod sleep;
mod stream_ext;
mod timeout;
pub mod timer_map;
mod wall;

use crate::clock::instant;

pub use std::time::Duration;

pub use mainspring_driver::Tolerance;

pub use crate::clock::{Clock, Instant, TestClock};

pub use deadline::{Deadline, deadline, remaining};
pub use delay_queue::DelayQueue;
pub use future_ext::FutureExt;
pub use interval::{Interval, MissedTickBehavior, Tick, interval, interval_at};
pub use paused::{Advance, StandStill, advance, advance_to, is_paused, pause, resume, stand_still, wall_now};
pub use sleep::{Sleep, TrySleep, sleep, sleep_until, try_sleep, try_sleep_until};
pub use stream_ext::{StreamExt, StreamTimeout, Throttle};
pub use timeout::{Timeout, timeout, timeout_at};
pub use timer_map::TimerMap;
pub use wall::{WallSleep, sleep_until_wall};
