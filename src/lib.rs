//! A small single-threaded async runtime whose timers are exact, cheap and provably right.
//!
//! One thread runs the tasks, parks until the next timer or the next I/O event, and fires what is due.
//!
//! ```
//! use std::time::Duration;
//! use mainspring::{interval, sleep, spawn, timeout};
//!
//! mainspring::block_on(async {
//!     let nap = spawn(async {
//!         sleep(Duration::from_micros(500)).await;
//!         "rested"
//!     });
//!     let mut ticks = interval(Duration::from_millis(1));
//!     for _ in 0..3 {
//!         ticks.tick().await;
//!     }
//!     assert_eq!(timeout(Duration::from_secs(1), nap).await.unwrap().unwrap(), "rested");
//! });
//! ```
//!
//! * [`block_on`], [`Runtime`], [`runtime`]: running programs, and the knobs.
//! * [`spawn`], [`task`]: tasks, which need not be `Send`.
//! * [`sleep`], [`timeout`], [`interval`], [`time`]: timers.
//! * [`time::pause`], [`time::advance`], [`Builder::start_paused`]: time that a program controls, for tests and
//!   simulations. [`Builder::clock`]: another clock than the monotonic one.
//! * [`Handle::metrics`], [`Handle::dump`], [`dump`]: what a runtime does, and what is pending.
//! * [`net`]: TCP and UDP sockets (feature `net`, on by default).

pub mod dump;
mod executor;
#[cfg(feature = "net")]
pub mod io;
#[cfg(feature = "net")]
pub mod net;
mod reactor;
pub mod runtime;
mod sync;
pub mod task;
pub mod time;
mod trace;

pub use runtime::{Builder, Handle, Runtime, block_on};
pub use task::spawn;
pub use time::{interval, sleep, timeout};
