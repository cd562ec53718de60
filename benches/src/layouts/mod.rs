//! Layouts: the data structures that other systems keep their timers in, written for the comparison, beside
//! our own wheel.
//!
//! Each does what its original does where costs are concerned, and as well. What is wrong in an original, or
//! has no place here (rounding that fires early, an overflow that no test reaches), is put right or left out,
//! and the file says so: what is compared is what a timer costs, not what it promises.
//!
//! Ground rules:
//!
//! * A layout has no clock and no lock. It stands at zero when it is new; times are nanoseconds since.
//! * By [`Layout::advance`] to `now` exactly those timers have fired whose deadline, rounded up to whole
//!   [`Layout::TICK`]s, is not after `now` rounded down to them. None fires early, and none twice.
//! * The timers lie in [`Timers`], which the caller owns. A layout finds its timer again by what it left there.

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

/// Nanoseconds of a millisecond.
pub const MS: u64 = 1_000_000;
/// No layout is given a deadline after this: 30 days, which is within the range of all of them.
pub const FARTHEST: u64 = 30 * 24 * 3_600_000 * MS;

/// A structure that timers wait in.
pub trait Layout {
    /// What it is called in a table.
    const NAME: &'static str;
    /// Deadlines are rounded up to a multiple of this; one nanosecond for a layout that is exact.
    const TICK: u64;
    /// Whether timers that are due at once fire in the order of their deadlines, equal ones in the order in
    /// which they were inserted.
    const ORDERED: bool;
    /// Whether it can say when to come next. One that cannot must be called at each tick.
    const TELLS_NEXT: bool;

    /// An empty one, which stands at zero.
    fn new() -> Self;

    /// Files the timer `key`, which is not in it, under `deadline`. One that has passed fires at the next tick at the latest.
    fn insert(&mut self, timers: &mut Timers, deadline: u64, key: u32);

    /// Takes out the timer `key`, which is in it.
    fn cancel(&mut self, timers: &mut Timers, key: u32);

    /// Fires what is due at `now`, which never goes back.
    fn advance(&mut self, timers: &mut Timers, now: u64, fire: &mut impl FnMut(u32, &Timer));

    /// Nothing has to be done before this; `None` if it is empty, or cannot tell.
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
