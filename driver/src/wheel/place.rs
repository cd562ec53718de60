//! `Place`: where a cell lies.
//!
//! Ground rule: one word, so that an entry stays small. The highest bit tells the batch of due cells from the
//! slots; in a slot it is the chunk's number in the pool and the offset in the chunk.

use std::fmt;

/// Where a cell lies: what its owner shows to have it removed.
///
/// It is valid from the [`Store::set_place`](super::Store::set_place) that announced it until the next one for the same key, or until
/// the cell leaves the wheel.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place(u32);

impl Place {
    /// In the batch of due cells, not in a slot.
    const BATCH: u32 = 1 << 31;
    const OFFSET_BITS: u32 = 5;
    pub(super) const MAX_CHUNKS: u32 = Place::BATCH >> Place::OFFSET_BITS;

    /// A place at which nothing lies: for owners that are in no wheel.
    pub const NOWHERE: Place = Place(u32::MAX);

    #[inline]
    pub(super) fn in_slot(chunk: u32, offset: u32) -> Place {
        Place(chunk << Place::OFFSET_BITS | offset)
    }

    #[inline]
    pub(super) fn in_batch(index: usize) -> Place {
        Place(Place::BATCH | index as u32)
    }

    #[inline]
    pub(super) fn slot_parts(self) -> Option<(u32, u32)> {
        let in_slot = self.0 & Place::BATCH == 0;
        in_slot.then_some((self.0 >> Place::OFFSET_BITS, self.0 & ((1 << Place::OFFSET_BITS) - 1)))
    }

    #[inline]
    pub(super) fn batch_index(self) -> usize {
        (self.0 & !Place::BATCH) as usize
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.slot_parts() {
            Some((chunk, offset)) => write!(f, "chunk {chunk} cell {offset}"),
            None if *self == Place::NOWHERE => f.write_str("nowhere"),
            None => write!(f, "due {}", self.batch_index()),
        }
    }
}
