//! Timers and their driver. They refer to each other, so they are one room.
//!
//! | file | what |
//! |---|---|
//! | `state` | the atomic word that says where a timer stands |
//! | `entry` | the timer: what a pinned future holds and the wheel points at |
//! | `entry/linked` | the driver's side of it: the wheel of those that are linked, and the pointers in it |
//! | `shared` | what the driver and its handles share, and what of it the lock protects |
//! | `driver` | the next wake-up, firing, shutdown |
//! | `handle`, `pending` | what makes timers and tells of them |

mod driver;
mod entry;
mod handle;
mod pending;
mod shared;
mod state;

pub use driver::{Driver, Processed, Unpark};
pub use entry::{Shutdown, TimerEntry};
pub use handle::{Handle, Stats};
pub use pending::Pending;
