//! The wheel's geometry: which slot a deadline waits in, when a slot starts, which slots are in use.
//!
//! Rules:
//!
//! * Level 0's slots are 2^4 ns wide; a slot of the next level is as wide as all 64 of this one.
//!   Ten levels are 4 + 10 * 6 = 64 bits: every `u64` of nanoseconds has its slot, and nothing wraps.
//! * A deadline's level is that of the highest bit in which it differs from `elapsed`. Above that bit both
//!   agree, at it the deadline is larger, so its slot lies ahead of the one `elapsed` is in. That is why the
//!   earliest slot of a level is simply its lowest occupied one: there is no rotation, and no far timer can hide a near
//!   one (tokio #8334).
//! * For the same reason a slot stays right while `elapsed` grows, until `elapsed` reaches its start. Then it is opened.
//! * A deadline in the level-0 slot that `elapsed` is in, or before it, has no slot: it is as good as due.

use crate::Nanos;

/// Levels of the wheel.
pub(super) const LEVELS: usize = 10;
/// Slots of a level.
pub(super) const SLOTS: usize = 64;
/// A level-0 slot is two to this many nanoseconds wide.
const SLOT_BITS: u32 = 4;
/// Two to this many slots make a level.
const LEVEL_BITS: u32 = 6;

const _: () = assert!(SLOT_BITS + LEVEL_BITS * LEVELS as u32 == u64::BITS);
const _: () = assert!(SLOTS == 1 << LEVEL_BITS);

/// A slot of the wheel, numbered through all levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotId(u16);

impl SlotId {
    #[inline]
    pub(super) fn new(level: usize, slot: usize) -> SlotId {
        debug_assert!(level < LEVELS && slot < SLOTS);
        SlotId((level * SLOTS + slot) as u16)
    }

    /// The slot in which `deadline` waits while the wheel stands at `elapsed`; `None` if it is past, or in the level-0
    /// slot in which the wheel stands.
    #[inline]
    pub(super) fn of(elapsed: Nanos, deadline: Nanos) -> Option<SlotId> {
        let (elapsed, when) = (elapsed.get() >> SLOT_BITS, deadline.get() >> SLOT_BITS);
        if when <= elapsed {
            return None;
        }
        let level = (elapsed ^ when).ilog2() / LEVEL_BITS;
        let slot = (when >> (level * LEVEL_BITS)) as usize & (SLOTS - 1);
        Some(SlotId::new(level as usize, slot))
    }

    /// The slot of a level in which a wheel stands that stands at `elapsed`.
    pub(super) fn current(elapsed: Nanos, level: usize) -> SlotId {
        SlotId::new(level, (elapsed.get() >> shift(level)) as usize & (SLOTS - 1))
    }

    #[inline]
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    #[inline]
    pub(super) fn level(self) -> usize {
        self.0 as usize / SLOTS
    }

    #[inline]
    pub(super) fn slot(self) -> usize {
        self.0 as usize % SLOTS
    }

    /// When the slot starts, for an occupied slot of a wheel that stands at `elapsed`.
    #[inline]
    pub(super) fn start(self, elapsed: Nanos) -> Nanos {
        let shift = shift(self.level());
        // What lies above this level's six bits is shared with `elapsed`; the top level has nothing above.
        let above = match shift + LEVEL_BITS {
            u64::BITS => 0,
            bits => elapsed.get() >> bits << bits,
        };
        Nanos::new(above | (self.slot() as u64) << shift)
    }
}

#[inline]
pub(super) const fn shift(level: usize) -> u32 {
    SLOT_BITS + LEVEL_BITS * level as u32
}

/// Which slots hold cells: a bit each. All levels lie in one cache line.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(super) struct Occupied([u64; LEVELS]);

impl Occupied {
    /// Says whether the bit is new.
    #[inline]
    pub(super) fn set(&mut self, id: SlotId) -> bool {
        let bits = &mut self.0[id.level()];
        let before = *bits;
        *bits |= 1 << id.slot();
        *bits != before
    }

    #[inline]
    pub(super) fn clear(&mut self, id: SlotId) {
        self.0[id.level()] &= !(1 << id.slot());
    }

    #[inline]
    pub(super) fn contains(&self, id: SlotId) -> bool {
        self.0[id.level()] & 1 << id.slot() != 0
    }

    /// The occupied slot that starts first: the lowest one of the lowest level that has any.
    #[inline]
    pub(super) fn earliest(&self) -> Option<SlotId> {
        let level = self.0.iter().position(|&bits| bits != 0)?;
        Some(SlotId::new(level, self.0[level].trailing_zeros() as usize))
    }

    /// The occupied slots in the order in which they start.
    pub(super) fn iter(&self) -> impl Iterator<Item = SlotId> + '_ {
        (0..LEVELS).flat_map(|level| bits(self.0[level]).map(move |slot| SlotId::new(level, slot)))
    }
}

/// The numbers of the bits that are set, from the lowest on.
#[inline]
pub(super) fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u64) -> Nanos {
        Nanos::new(n)
    }

    #[test]
    fn the_level_is_that_of_the_highest_differing_bit() {
        assert_eq!(SlotId::of(at(0), at(15)), None);
        assert_eq!(SlotId::of(at(0), at(16)), Some(SlotId::new(0, 1)));
        assert_eq!(SlotId::of(at(0), at(64 * 16)), Some(SlotId::new(1, 1)));
        assert_eq!(SlotId::of(at(5), Nanos::NEVER), Some(SlotId::new(9, 63)));
        // A near deadline on the far side of an edge waits high up, one slot ahead.
        let edge = 1 << 58;
        assert_eq!(SlotId::of(at(edge - 1), at(edge)), Some(SlotId::new(9, 1)));
        assert_eq!(SlotId::of(at(edge), at(3)), None);
    }

    #[test]
    fn an_occupied_slot_lies_ahead_and_holds_its_deadline() {
        // Around every level's edges, from both sides.
        let mut points = vec![0, 1, 15, 16, Nanos::NEVER.get()];
        for level in 0..LEVELS {
            for k in [1u64, 2, 63] {
                let edge = k << shift(level);
                points.extend([edge.saturating_sub(300), edge - 1, edge, edge + 1, edge + 300]);
            }
        }
        for &elapsed in &points {
            for &when in points.iter().filter(|&&when| when >= elapsed) {
                let Some(id) = SlotId::of(at(elapsed), at(when)) else {
                    assert_eq!(when >> SLOT_BITS, elapsed >> SLOT_BITS, "{when} has no slot at {elapsed}");
                    continue;
                };
                let start = id.start(at(elapsed)).get();
                let width = 1u64 << shift(id.level());
                assert!(start <= when && when - start < width, "{when} is not in its slot at {elapsed}");
                assert!(start > elapsed, "the slot of {when} does not lie ahead of {elapsed}");
            }
        }
    }

    #[test]
    fn earliest_and_iter_go_by_time() {
        let mut occupied = Occupied::default();
        assert_eq!(occupied.earliest(), None);
        let ids = [SlotId::new(0, 9), SlotId::new(0, 63), SlotId::new(2, 1), SlotId::new(9, 63)];
        for id in ids.into_iter().rev() {
            assert!(occupied.set(id) && !occupied.set(id));
            assert_eq!(occupied.earliest(), Some(id));
        }
        assert_eq!(occupied.iter().collect::<Vec<_>>(), ids);
        occupied.clear(ids[0]);
        assert!(!occupied.contains(ids[0]) && occupied.contains(ids[1]));
        assert_eq!(occupied.earliest(), Some(ids[1]));
    }
}
