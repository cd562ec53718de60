//! What the wheel and the owners of its timers tell each other: where a timer lies, in which order equal deadlines come, and
//! which deadline is the true one.
//!
//! Rule: what the wheel keeps of a timer is its key, its cached deadline and its rank; all else is its owner's.

use std::fmt;

use super::Slack;
use crate::Nanos;

/// The owner of the timers: the wheel tells it where a timer's cell lies, and asks for the rest.
///
/// None of its functions may panic: the wheel calls them in the middle of its work, and what it says of itself after that, such as
/// its [`len`](super::Wheel::len), need not be so.
pub trait Store<K> {
    /// The cell of `key` now lies at `place`.
    fn set_place(&mut self, key: K, place: Place);

    /// The place that was told last for `key`.
    fn place(&self, key: K) -> Place;

    /// The deadline of `key`, which is filed under `filed`. It may have moved to a later time since, never
    /// to an earlier one; the default says that it has not moved.
    #[inline]
    fn deadline(&mut self, key: K, filed: Nanos) -> Nanos {
        let _ = key;
        filed
    }

    /// The wheel is going to speak of `key` soon.
    #[inline]
    fn prefetch(&mut self, key: K) {
        let _ = key;
    }
}

/// Where a cell lies: what its owner shows to have it removed.
///
/// It is valid from the [`Store::set_place`] that announced it until the next one for the same key, or until
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

/// A timer's sequence number, which orders equal deadlines, and its slack.
///
/// ```
/// use mainspring_driver::wheel::{Rank, Slack};
///
/// let first = Rank::new(1, Slack::at_most_nanos(4096));
/// assert!(first < Rank::new(2, Slack::ZERO));
/// assert_eq!((first.sequence(), first.slack().as_nanos()), (1, 4096));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(u64);

impl Rank {
    const SLACK_BITS: u32 = 8;
    pub(super) const SEQUENCE_BITS: u32 = u64::BITS - Rank::SLACK_BITS;

    /// The rank of the timer with this sequence number, of which 56 bits are kept: at ten million timers a second
    /// they last for 228 years.
    #[inline]
    pub const fn new(sequence: u64, slack: Slack) -> Rank {
        Rank(sequence << Rank::SLACK_BITS | slack.to_byte() as u64)
    }

    /// The sequence number.
    #[inline]
    pub const fn sequence(self) -> u64 {
        self.0 >> Rank::SLACK_BITS
    }

    /// The slack.
    #[inline]
    pub const fn slack(self) -> Slack {
        Slack::from_byte(self.0 as u8)
    }

    /// The same sequence number with another slack.
    #[inline]
    pub const fn with_slack(self, slack: Slack) -> Rank {
        Rank::new(self.sequence(), slack)
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} +{:?}", self.sequence(), self.slack())
    }
}
