//! The runtime: one thread that runs tasks, parks until the next timer or the next I/O event, and fires what
//! is due.
//!
//! [`block_on`] makes a runtime, runs a future on it and drops it. A [`Runtime`] that a program makes itself can be
//! configured with a [`Builder`], can be used for several calls of `block_on` one after the other, and can be reached from
//! other threads through its [`Handle`].
//!
//! ```
//! use mainspring::runtime::Runtime;
//!
//! let runtime = Runtime::new()?;
//! let handle = runtime.handle().clone();
//! let other = std::thread::spawn(move || handle.spawn(async { 6 * 7 }));
//! let task = other.join().unwrap();
//! assert_eq!(runtime.block_on(task).unwrap(), 42);
//! # Ok::<(), std::io::Error>(())
//! ```

mod builder;
pub(crate) mod context;
mod event_loop;
mod handle;
mod inspect;
mod metrics;
#[cfg(all(test, loom))]
mod models;
mod pace;
pub(crate) mod random;
pub(crate) mod spawn;
mod turn;
mod virtual_time;

#[allow(clippy::module_inception, reason = "the room and its main piece share the name")]
mod runtime;
mod seen;

pub use builder::Builder;
pub use context::{EnterGuard, NoRuntime};
pub use handle::Handle;
pub(crate) use inspect::{PollId, Snapshot};
pub use mainspring_driver::Lateness;
pub use mainspring_driver::wheel::{LevelOccupancy, Occupancy};
pub use metrics::{LongestTurn, Metrics};
pub use runtime::{Runtime, block_on};
pub(crate) use virtual_time::Hold;
