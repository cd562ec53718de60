//! `Place`: what leads from a timer to its cell.
//!
//! Rule: the deadline says in which slot the cell lies, and the index where in the slot. After the slot has been opened
//! the index may be out of date; then the deadline leads to the cell, because what was sorted is searched.

use std::fmt;

use crate::Nanos;

/// Where a cell lies: what its owner shows to have it removed.
///
/// It is valid from the [`Store::set_place`](super::Store::set_place) that announced it until the next one for the same key, or until
/// the cell leaves the wheel.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// The cached deadline: that under which the timer is filed.
    pub(crate) when: Nanos,
    pub(crate) index: u32,
}

impl Place {
    /// A place at which nothing lies: for owners that are in no wheel.
    pub const NOWHERE: Place = Place { when: Nanos::NEVER, index: u32::MAX };
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Place::NOWHERE => f.write_str("nowhere"),
            Place { when, index } => write!(f, "cell {index} of the slot of {when:?}"),
        }
    }
}
