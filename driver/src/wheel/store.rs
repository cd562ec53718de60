//! What the wheel and the owners of its timers tell each other: where a timer lies, in which order equal deadlines expire, and
//! what a timer's deadline is by now.
//!
//! Rule: of a timer the wheel keeps its key, its cached deadline and its rank. Everything else is kept by its owner.

use std::fmt;

use super::Slack;
use crate::Nanos;

/// The owner of the timers: the wheel tells it where a timer's cell lies, and asks for the rest.
///
/// None of its functions may panic: the wheel calls them in the middle of its work, and may be inconsistent afterwards, for
/// instance in its [`len`](super::Wheel::len).
pub trait Store<K> {
    /// The cell of `key` now lies at `place`.
    fn set_place(&mut self, key: K, place: Place);

    /// The place that [`set_place`](Store::set_place) last gave for `key`.
    fn place(&self, key: K) -> Place;

    /// The deadline of `key`, which is filed under `filed`. The owner may have moved it to a later time since, never
    /// to an earlier one. By default it has not moved.
    #[inline]
    fn deadline(&mut self, key: K, filed: Nanos) -> Nanos {
        let _ = key;
        filed
    }

    /// The wheel is about to call one of the other functions for `key`: its memory can be prefetched.
    #[inline]
    fn prefetch(&mut self, key: K) {
        let _ = key;
    }
}

/// Where a timer's cell lies in the wheel. The owner keeps it, because the wheel needs it to remove the timer.
///
/// It is valid from the [`Store::set_place`] that announced it until the next one for the same key, or until
/// the cell leaves the wheel.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// The cached deadline, under which the timer is filed.
    pub(crate) when: Nanos,
    pub(crate) index: u32,
}

impl Place {
    /// The place of a timer that is in no wheel.
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

    /// The rank of a timer with this sequence number and slack. Each timer of a wheel needs its own number. 56 bits of it are kept,
    /// which last for 228 years at ten million timers a second.
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
