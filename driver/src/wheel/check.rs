//! Whether the wheel's invariants hold.
//!
//! Ground rule: a check reads, and changes nothing. The oracle test asks for the whole one after every step;
//! debug builds ask for the quick one after every change of a small wheel.

use super::level::{LEVELS, SLOTS, SlotId};
use super::{Place, Wheel};

/// Above this many cells, debug builds check the wheel no longer after every change.
const CHECKED_UP_TO: usize = 64;

impl<K: Copy> Wheel<K> {
    /// Asserts the invariants of the wheel, with the place that each key's owner knows.
    ///
    /// # Panics
    ///
    /// If one does not hold: then the wheel has a defect. It takes O(n); debug builds do it after every
    /// change of a small wheel, without the owners' places.
    pub fn check(&self, mut place_of: impl FnMut(K) -> Place) {
        let mut len = 0;
        let mut chunks = 0;
        for id in (0..LEVELS).flat_map(|l| (0..SLOTS).map(move |s| SlotId::new(l, s))) {
            let count = self.slots.len(id);
            assert_eq!(self.occupied.contains(id), count > 0, "the bit of {id:?} is wrong");
            for (cell, place) in self.slots.cells(id) {
                let at = SlotId::of(self.elapsed, cell.when);
                assert!(at == id || self.dealing == Some(id), "{:?} lies in {id:?}, not {at:?}", cell.when);
                assert!(self.slots.earliest(id) <= cell.when, "{id:?} starts too late for {:?}", cell.when);
                assert!(self.slots.latest(id) >= cell.when, "{id:?} ends too early for {:?}", cell.when);
                assert!(self.slots.wake(id) <= cell.wake(), "{id:?} wakes too late for {:?}", cell.when);
                assert_eq!(place_of(cell.key), place, "an owner has a wrong place");
                len += 1;
            }
            assert_eq!(self.slots.cells(id).count(), count, "{id:?} has a hole");
            self.slots.check(id);
            chunks += self.slots.chunks_of(id);
        }
        for (index, cell) in self.batch.iter().enumerate() {
            assert!(index >= self.cursor || cell.is_none(), "a cell that has left is still in the batch");
            if let Some(cell) = cell {
                assert_eq!(place_of(cell.key), Place::in_batch(index), "an owner has a wrong place");
                len += 1;
            }
        }
        let batch = self.batch[self.cursor..].iter().flatten().map(|cell| (cell.when, cell.rank));
        assert!(self.splitting.is_some() || batch.is_sorted(), "the batch is out of order");
        assert_eq!(len, self.len, "the count is wrong");
        assert_eq!(self.slots.chunks(), chunks, "chunks were lost");
    }

    #[inline]
    pub(super) fn debug_check(&self) {
        if cfg!(debug_assertions) && self.len <= CHECKED_UP_TO {
            self.check_bits();
        }
    }

    /// The part of [`Wheel::check`] that needs no owners and is quick enough for every change.
    fn check_bits(&self) {
        let mut len = self.batch[self.cursor..].iter().flatten().count();
        for id in self.occupied.iter() {
            self.slots.check(id);
            assert!(!self.slots.is_empty(id), "the bit of {id:?} is wrong");
            for (cell, _) in self.slots.cells(id) {
                let at = SlotId::of(self.elapsed, cell.when);
                assert!(at == id || self.dealing == Some(id), "{:?} lies in {id:?}, not {at:?}", cell.when);
                assert!(self.slots.earliest(id) <= cell.when && self.slots.wake(id) <= cell.wake());
                assert!(self.slots.latest(id) >= cell.when);
                len += 1;
            }
        }
        assert_eq!(len, self.len, "the count is wrong");
    }
}
