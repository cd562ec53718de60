//! Which timer is next, by its true deadline, without changing anything.
//!
//! Rule: what it names is what [`Wheel::next_due`] gives next, once that is due, if nothing is put in,
//! taken out or moved before.

use super::cells::Timer;
use super::level::bits;
use super::{Rank, Wheel};
use crate::Nanos;

impl<K: Copy + Eq, const PAGE: usize> Wheel<K, PAGE> {
    /// The timer that is due next, if `deadline_of` tells the true deadlines, at or after those under which the timers are
    /// filed. Looks at every cell of the slots that start before the one it finds is due.
    pub(crate) fn first(&self, deadline_of: impl Fn(K) -> Nanos) -> Option<K> {
        let mut best: Option<((Nanos, Rank), K)> = None;
        // Returns the deadline of the best so far.
        let mut consider = |timer: Timer<K>| {
            let order = (deadline_of(timer.key), timer.rank);
            let (first, _) =
                *best.insert(best.filter(|(first, _)| *first < order).unwrap_or((order, timer.key)));
            first.0
        };
        let mut found = Nanos::NEVER;
        for level in bits(self.running) {
            for (_, timer) in self.runs[level].timers() {
                if timer.when > found {
                    break;
                }
                found = consider(timer);
            }
        }
        for (timer, _) in self.crowd.timers() {
            if timer.when > found {
                break;
            }
            found = consider(timer);
        }
        if let Some((_, run)) = &self.cascading {
            run.timers().for_each(|(_, timer)| found = consider(timer));
        }
        for id in self.occupied.iter() {
            if id.start(self.elapsed) > found {
                break;
            }
            self.slots[id.index()].timers().for_each(|(_, timer)| found = consider(timer));
        }
        best.map(|(_, key)| key)
    }
}
