//! The runtime: one thread that runs tasks, parks until the next timer or the next I/O event, and fires what
//! is due.
//!
//! [`block_on`] makes a runtime, runs a future on it and drops it. A [`Runtime`] of one's
//! own can be configured with a [`Builder`], be used for several `block_on` one after the other, and be
//! reached from other threads through its [`Handle`].
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

mod anchor;
mod builder;
pub(crate) mod clock;
pub(crate) mod context;
mod handle;
mod metrics;
#[cfg(all(test, loom))]
mod models;
mod names;
mod pace;
pub(crate) mod random;
mod registry;
mod snapshot;
pub(crate) mod spawn;
mod system_clock;
mod turn;
pub(crate) mod virtual_clock;
mod watch;

#[allow(clippy::module_inception, reason = "the room and its main piece share the name")]
mod runtime;

use anchor::suspended;
pub(crate) use anchor::{anchor, now};
pub use builder::Builder;
pub use context::{EnterGuard, NoRuntime};
pub use handle::Handle;
pub use mainspring_driver::Lateness;
pub use mainspring_driver::wheel::{LevelOccupancy, Occupancy};
pub use metrics::{LongestTurn, Metrics};
pub(crate) use registry::Number;
pub use runtime::{Runtime, block_on};
pub(crate) use snapshot::Snapshot;
pub(crate) use watch::Which;
