//! Makes operations from bytes, with times at the points where wheels go wrong: at the edges of the levels.
//!
//! Uniform random times do not find these bugs: tokio #8334, a timer in the top level's current slot that
//! hides every near timer, passed 2000 uniform cases and failed 434 of 2000 biased ones.

use mainspring_driver::Nanos;
use mainspring_driver::wheel::Slack;

/// The latest time that a clock shows.
pub(crate) const LAST: u64 = Nanos::NEVER.get() - 1;

/// Four bytes: what to do, to which timer (or how much of it), and two for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) what: u8,
    pub(crate) who: u8,
    pub(crate) how: u8,
    pub(crate) amount: u8,
}

/// Splits a case into its start and its operations; bytes that are no whole operation are left out.
pub(crate) fn parse(bytes: &[u8]) -> (Op, impl Iterator<Item = Op> + '_) {
    let mut ops = bytes.chunks_exact(4).map(|b| Op { what: b[0], who: b[1], how: b[2], amount: b[3] });
    let start = ops.next().unwrap_or(Op { what: 0, who: 0, how: 0, amount: 0 });
    (start, ops)
}

impl Op {
    /// Where a case's clock starts: mostly just before or after a multiple of some level's slot.
    pub(crate) fn start(self) -> u64 {
        let level = u32::from(self.what >> 2 & 7);
        let edge = (1 + u64::from(self.who)) << (16 + 6 * level).min(56);
        let by = self.signed() << 16;
        match self.what & 3 {
            0 if self.how & 1 == 0 => 0,
            0 => LAST.saturating_sub(u64::from(self.amount) << (self.who & 31)),
            1 => u64::MAX / 2,
            _ => edge.saturating_add_signed(by).min(LAST),
        }
    }

    /// A time after `now`, or `now` itself; `how` and `amount` decide which one.
    pub(crate) fn time(self, now: u64) -> u64 {
        let level = u32::from(self.how >> 3 & 7);
        let shift = 4 + 6 * [0, 1, 2, 3, 4, 5, 7, 9][level as usize];
        let widths = (1 + u64::from(self.how >> 6)) << shift.min(61);
        let ahead = match self.how & 7 {
            0 => u64::from(self.amount),
            // Within the current slot of level 0, or the next few.
            1 => u64::from(self.amount) << 10,
            // Of every magnitude.
            2 => u64::from(self.amount) << (level * 8),
            // Near the end of time, or half way there.
            3 if self.how & 8 == 0 => u64::MAX - u64::from(self.amount),
            3 => u64::MAX / 2 - u64::from(self.amount),
            // A few slots' width from now, give or take nanoseconds or slots of level 0 …
            4 => widths.saturating_add_signed(self.signed()),
            5 => widths.saturating_add_signed(self.signed() << 16),
            // … and at an edge.
            edge => {
                let next = (now >> shift << shift).saturating_add(widths);
                let by = if edge == 6 { self.signed() } else { self.signed() << 16 };
                next.saturating_add_signed(by).saturating_sub(now)
            }
        };
        Nanos::new(now.saturating_add(ahead)).get()
    }

    /// A time that is past, or near.
    pub(crate) fn past(self, now: u64) -> u64 {
        now.saturating_sub(u64::from(self.amount) << (self.how & 31))
    }

    /// A number from about -300 to 300.
    fn signed(self) -> i64 {
        let amount = i64::from(self.amount as i8);
        amount * 300 / 127
    }

    /// None, a little, or any length of time.
    pub(crate) fn slack(self) -> Slack {
        match self.who & 3 {
            0 | 1 => Slack::ZERO,
            2 => Slack::at_most_nanos(u64::from(self.who) << 12),
            _ => Slack::at_most_nanos(1 << (self.who >> 2)),
        }
    }

    /// An index below `len`, which is not zero.
    pub(crate) fn pick(self, len: usize) -> usize {
        (usize::from(self.who) * len) >> 8
    }
}
