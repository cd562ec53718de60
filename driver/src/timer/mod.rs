//! Timers and their driver. They refer to each other, so they are one room.
//!
//! | file | what |
//! |---|---|
//! | `state` | the atomic word that holds a timer's state |
//! | `entry` | the timer: a pinned future holds it, and the wheel points at it |
//! | `entry/owner` | the owner's side of it: the steps that need the lock, or a linked entry's waker |
//! | `entry/linked` | the driver's side of it: the wheel of the linked entries, and the pointers in it |
//! | `driver` | the next wake-up, firing, shutdown; the state shared with all handles, and the part that the lock protects |
//! | `handle` | makes timers and reports on them |

mod driver;
mod entry;
mod handle;
mod state;

pub use driver::{Driver, Processed, Unpark};
pub use entry::{Shutdown, TimerEntry};
pub use handle::{Handle, Pending, Stats};
