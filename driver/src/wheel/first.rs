//! Which timer is next, by its true deadline, without changing anything.
//!
//! Ground rule: what it names is what [`Wheel::next_due`] gives next, once that is due, if nothing is put in,
//! taken out or moved before.

use super::{Rank, Wheel};
use crate::Nanos;

impl<K: Copy> Wheel<K> {
    /// The timer that is due next, if `deadline_of` tells the true deadlines: at or after those under which
    /// the timers are filed. Looks at every cell of the slots that start before the one it finds is due.
    pub(crate) fn first(&self, deadline_of: impl Fn(K) -> Nanos) -> Option<K> {
        let due = self.batch[self.cursor..].iter().flatten();
        // What was found due leaves first, save what has moved since: that is filed anew.
        if let Some(cell) = due.clone().find(|cell| deadline_of(cell.key) == cell.when) {
            return Some(cell.key);
        }
        let mut best: Option<(Nanos, Rank, K)> = None;
        let mut consider = |key: K, rank: Rank| {
            let when = deadline_of(key);
            if best.is_none_or(|(earliest, first, _)| (when, rank) < (earliest, first)) {
                best = Some((when, rank, key));
            }
            best.map(|(when, ..)| when)
        };
        for cell in due {
            consider(cell.key, cell.rank);
        }
        // A slot that is being dealt starts where the wheel stands, whatever its level.
        let mut found = None;
        for slot in self.dealing.into_iter().chain(self.occupied.iter()) {
            if found.is_some_and(|found| slot.start(self.elapsed) > found) {
                break;
            }
            for (cell, _) in self.slots.cells(slot) {
                found = consider(cell.key, cell.rank);
            }
        }
        best.map(|(.., key)| key)
    }
}
