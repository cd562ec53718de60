//! Layouts: the data structures in which other systems keep their timers, written for the comparison with our own wheel.
//!
//! Each layout does what its original does as far as costs are concerned, and equally well. What is wrong in an original, or
//! has no place here (rounding that fires early, an overflow that no test reaches), is corrected or left out, and the file
//! says so. The comparison is about what a timer costs, not about what it promises.
//!
//! Ground rules:
//!
//! * A layout has no clock and no lock. A new layout is at time zero; times are nanoseconds since then.
//! * By [`Layout::advance`] to `now` exactly those timers have fired whose deadline, rounded up to whole [`Layout::TICK`]s,
//!   is not after `now` rounded down to them. None fires early, and none twice.
//! * The timers lie in [`Timers`], which the caller owns. A layout finds a timer again by what it has stored in the timer.

mod classic;
mod flat;
mod heap;
mod ours;
mod ring;
mod rounds;
mod skynet;
#[cfg(test)]
mod tests;
mod timers;
mod tree;

pub use classic::Classic;
pub use flat::Flat;
pub use heap::Heap;
pub use ours::Mainspring;
pub use ring::Ring;
pub use rounds::Rounds;
pub use skynet::Skynet;
pub use timers::{Timer, Timers};
pub use tree::Tree;

/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;
/// The latest deadline that any layout is given: 30 days, which is within the range of all of them.
pub const FARTHEST: u64 = 30 * 24 * 3_600_000 * MS;

/// A data structure in which timers wait.
pub trait Layout {
    /// The layout's name in a table.
    const NAME: &'static str;
    /// Deadlines are rounded up to a multiple of this: one nanosecond for an exact layout.
    const TICK: u64;
    /// Whether timers that are due at once fire in the order of their deadlines, and those with equal deadlines in the order
    /// of insertion.
    const ORDERED: bool;
    /// Whether the layout can tell the next wake-up. One that cannot must be called at each tick.
    const TELLS_NEXT: bool;

    /// Makes an empty layout, which is at time zero.
    fn new() -> Self;

    /// Files the timer `key`, which is not in the layout, under `deadline`. If the deadline has passed, the timer fires at
    /// the next tick at the latest.
    fn insert(&mut self, timers: &mut Timers, deadline: u64, key: u32);

    /// Removes the timer `key`, which is in the layout.
    fn cancel(&mut self, timers: &mut Timers, key: u32);

    /// Fires the timers that are due at `now`, which never goes back.
    fn advance(&mut self, timers: &mut Timers, now: u64, fire: &mut impl FnMut(u32, &Timer));

    /// Returns a time before which nothing has to be done; `None` if the layout is empty, or cannot tell.
    fn next_wake(&self) -> Option<u64>;
}

/// Calls a macro with each layout's type, our own first.
#[macro_export]
macro_rules! for_each_layout {
    ($call:ident ! ($($argument:tt)*)) => {
        $call!($($argument)* $crate::layouts::Mainspring);
        $call!($($argument)* $crate::layouts::Flat);
        $call!($($argument)* $crate::layouts::Classic);
        $call!($($argument)* $crate::layouts::Skynet::<8, 6, 10>);
        $call!($($argument)* $crate::layouts::Skynet::<8, 6, 1>);
        $call!($($argument)* $crate::layouts::Skynet::<12, 5, 1>);
        $call!($($argument)* $crate::layouts::Ring);
        $call!($($argument)* $crate::layouts::Rounds::<300>);
        $call!($($argument)* $crate::layouts::Rounds::<4096>);
        $call!($($argument)* $crate::layouts::Heap);
        $call!($($argument)* $crate::layouts::Tree);
    };
}
