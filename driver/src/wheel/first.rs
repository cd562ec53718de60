//! Which timer is next, by its true deadline, without changing anything.
//!
//! Ground rule: what it names is what [`Wheel::next_due`] gives next, once that is due, if nothing is put in,
//! taken out or moved before.

use super::level::SlotId;
use super::{Rank, Wheel};
use crate::Nanos;

impl<K: Copy> Wheel<K> {
    /// The timer that is due next, if `deadline_of` tells the true deadlines: at or after those under which
    /// the timers are filed. Looks at every cell of the slots that start before the one it finds is due.
    pub(crate) fn first(&self, deadline_of: impl Fn(K) -> Nanos) -> Option<K> {
        let due = self.batch[self.cursor..].iter().flatten();
        // What was found due leaves first, save what has moved since: that is filed anew.
        let settled = due.clone().filter(|cell| deadline_of(cell.key) == cell.when);
        if let Some((slot, now)) = self.splitting {
            // What is still to be found due in this slot, will be so by its true deadline.
            let rest = self.slots.cells(slot).filter(|(cell, _)| cell.when <= now).filter_map(|(cell, _)| {
                let when = deadline_of(cell.key);
                let stays = when <= now && SlotId::of(self.elapsed, when) == slot;
                stays.then_some((when, cell.rank, cell.key))
            });
            let settled = settled.map(|cell| (cell.when, cell.rank, cell.key));
            if let Some((.., key)) = settled.chain(rest).min_by_key(|&(when, rank, _)| (when, rank)) {
                return Some(key);
            }
        } else if let Some(cell) = { settled }.next() {
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
