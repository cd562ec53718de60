//! Timers and their driver. They refer to each other, so they are one room.
//!
//! | file | what |
//! |---|---|
//! | `state` | the atomic word that says where a timer stands |
//! | `entry` | the timer: what a pinned future holds and the wheel points at |
//! | `entry/owner` | the owner's side of it: what needs the lock, or a linked entry's waker |
//! | `entry/linked` | the driver's side of it: the wheel of those that are linked, and the pointers in it |
//! | `driver` | the next wake-up, firing, shutdown; what the driver and its handles share, and what of it the lock protects |
//! | `handle` | what makes timers and tells of them |

mod driver;
mod entry;
mod handle;
mod state;

pub use driver::{Driver, Processed, Unpark};
pub use entry::{Shutdown, TimerEntry};
pub use handle::{Handle, Pending, Stats};
