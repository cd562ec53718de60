//! `Rank`: a timer's sequence number and its slack, in one word.
//!
//! Rule: ranks compare by sequence number: at equal deadlines the lower one fires first. The numbers are unique in
//! a wheel, so the slack below them never decides.

use std::fmt;

use crate::slack::Slack;

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
    pub(crate) const SEQUENCE_BITS: u32 = u64::BITS - Rank::SLACK_BITS;

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
