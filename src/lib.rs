//! A small single-threaded async runtime whose timers are exact, cheap, and on time even when the program is busy.
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
//! * [`Runtime::turn`], [`Runtime::next_wake`]: a runtime whose thread belongs to another event loop.
//! * [`spawn`], [`task`]: tasks, which need not be `Send`. From another thread: [`Handle::spawn`], and for such tasks
//!   [`Handle::spawn_with`]. Sets of tasks: [`task::JoinSet`].
//! * [`task::unblock`], [`task::spawn_blocking`]: work that blocks, such as file I/O, on other threads.
//! * [`sleep`], [`timeout`], [`interval`], [`time`]: timers. [`time::deadline`]: a limit for a piece of work, including
//!   everything that it calls and spawns.
//! * [`time::pause`], [`time::advance`], [`Builder::start_paused`]: time that a program controls, for tests and
//!   simulations. [`Builder::clock`]: a clock other than the monotonic one.
//! * [`Handle::metrics`], [`Handle::dump`], [`dump`]: what a runtime does, and what is pending.
//! * [`net`]: TCP, UDP and Unix sockets, socket options before binding or connecting ([`net::TcpSocket`]), and name
//!   look-ups ([`net::lookup_host`]); feature `net`, on by default.
//! * [`io`]: what sockets have in common, and on Unix [any other descriptor](io#any-descriptor): pipes, terminals, pidfds,
//!   inotify, other libraries' sockets.
//! * `signal`: Ctrl-C and other signals; feature `signal`, Unix only.
//! * `process`: child processes; feature `process`, Unix only.
//! * `hyper`, `tower`: HTTP servers and clients, and services with timeouts; features of the same names.
//!
//! # The feature `membarrier`
//!
//! On by default, useful on Linux. It makes timers cheaper on a runtime's own thread: arming or cancelling a timer there
//! takes no atomic operation for the lock. Other threads pay for that with the system call `membarrier`: some
//! microseconds whenever one of them takes the lock after the own thread has been alone for a while. The first runtime of
//! a process asks the system whether the call is allowed, which takes up to 20 ms if the process has several threads by
//! then. If the call is not allowed, all threads take a mutex, as without the feature. A system call filter (seccomp)
//! that is installed later must allow the call. Otherwise the process is aborted, with a message, when a thread needs the
//! call. So allow it, install the filter first, or leave the feature out.
//!
//! # The feature `tracing`
//!
//! Off by default. It emits spans and events of the crate `tracing`; no lock is held while a subscriber is called. What
//! happens inside a subscriber is not reported, so it may use the runtime.
//!
//! | target | level | name | fields |
//! |---|---|---|---|
//! | `mainspring::task` | DEBUG | span `task`, entered while the task is polled, without a parent | `id` (as in a [dump]), `name` (if it [has](task::Builder) one), `spawned_at` |
//! | `mainspring::timer` | TRACE | `armed`, `reset` | `timer` (distinguishes timers that exist at the same time), `deadline_ns`, `made_at` |
//! | | TRACE | `fired` | `timer`, `late_ns`, `made_at` |
//! | | TRACE | `cancelled` | `timer`, `made_at` |
//! | | DEBUG | `shut down` | `timers` that still waited |
//! | `mainspring::park` | TRACE | `parking` | `timeout_ns` (absent: until something happens) |
//! | | TRACE | `woken` | `timer`, `io_events`, `thread` |
//! | `mainspring::turn` | WARN | `long turn`, of 10 ms or more | `duration_us`, `polls`, `timers` |

mod blocking;
mod clock;
mod coop;
pub mod dump;
mod executor;
mod fork;
#[cfg(feature = "hyper")]
pub mod hyper;
pub mod io;
#[cfg(feature = "net")]
pub mod net;
mod panics;
#[cfg(all(unix, feature = "process"))]
pub mod process;
mod reactor;
pub mod runtime;
#[cfg(all(unix, feature = "signal"))]
pub mod signal;
mod sync;
pub mod task;
pub mod time;
#[cfg(feature = "tower")]
pub mod tower;
mod trace;

pub use runtime::{Builder, Handle, Runtime, block_on};
pub use task::spawn;
pub use time::{interval, sleep, timeout};

/// The programs on the repository's pages, compiled and run with the tests.
#[cfg(all(doctest, feature = "net", feature = "process"))]
mod pages {
    #[doc = include_str!("../docs/from-tokio.md")]
    struct FromTokio;

    #[doc = include_str!("../docs/from-smol.md")]
    struct FromSmol;
}
