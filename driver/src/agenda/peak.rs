//! `Peak`: how large something has been lately, so that memory which recurs is kept and a burst's is not.
//!
//! Rules:
//!
//! * A size that recurs counts for as long as it recurs, however long the pauses: between two ticks of a
//!   crowd all of its memory is free, and must not be released.
//! * A size that does not recur is forgotten when the second window of time after it begins.

use crate::Nanos;

/// A window is two to this many nanoseconds: about a second.
const WINDOW_BITS: u32 = 30;

/// The largest size of this window of time and of the one before in which anything happened.
#[derive(Debug, Default)]
pub(super) struct Peak {
    this: usize,
    last: usize,
    window: u64,
}

impl Peak {
    /// Nothing has happened yet.
    pub(super) const fn new() -> Peak {
        Peak { this: 0, last: 0, window: 0 }
    }

    /// It is this large now.
    #[inline]
    pub(super) fn reach(&mut self, size: usize) {
        self.this = self.this.max(size);
    }

    /// Time has come to `now`, at which the size is `size`.
    #[inline]
    pub(super) fn pass(&mut self, now: Nanos, size: usize) {
        let window = now.get() >> WINDOW_BITS;
        if window != self.window {
            self.window = window;
            self.last = self.this;
            self.this = size;
        }
    }

    /// How large it has been lately.
    #[inline]
    pub(super) fn get(&self) -> usize {
        self.this.max(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_forgotten_and_a_habit_is_not() {
        let second = 1 << WINDOW_BITS;
        let mut peak = Peak::default();
        peak.reach(1_000);
        for (window, expected) in [(0, 1_000), (1, 1_000), (1, 1_000), (2, 3), (9, 3)] {
            peak.pass(Nanos::new(window * second), 3);
            assert_eq!(peak.get(), expected, "in window {window}");
        }
        for tick in 2..6 {
            peak.pass(Nanos::new(tick * 50 * second), 0);
            peak.reach(70);
            assert_eq!(peak.get(), 70);
        }
    }
}
