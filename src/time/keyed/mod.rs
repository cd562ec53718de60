//! What [`DelayQueue`](super::DelayQueue) and [`TimerMap`](super::TimerMap) are made of: an agenda that a task
//! can wait for, and the way in from other threads.

mod due;
mod inbox;

pub(super) use due::Due;
pub(super) use inbox::{Inbox, Sender};

/// Commands from other threads that one poll carries out; the others wait for the next.
pub(super) const COMMANDS_PER_POLL: usize = 1024;
