//! The wheel's geometry: in which slot a deadline waits, when a slot starts, which slots are occupied; and a view of how full they
//! are ([`Occupancy`]).
//!
//! Rules:
//!
//! * A slot of level 0 is 2^4 ns wide; a slot of each further level is as wide as all 64 slots of the level below.
//!   Ten levels are 4 + 10 * 6 = 64 bits: every `u64` of nanoseconds has a slot.
//! * A deadline's level is that of the highest bit in which it differs from `elapsed`. Above that bit they are
//!   equal, and in it the deadline is larger, so its slot lies ahead of the one in which `elapsed` is. Therefore the
//!   earliest slot of a level is its lowest occupied one: nothing rotates, and no far timer can hide a near
//!   one (tokio #8334). (While there are slots of the next round, which `deal.rs` fills, the start of each slot is compared.)
//! * For the same reason a timer's slot stays right while `elapsed` grows, until `elapsed` reaches its start. Then it is opened.
//! * A deadline in the level-0 slot in which `elapsed` is, or before it, has no slot: it is due, or will be in a few nanoseconds.
//! * A view reads the 640 lengths that the slots keep anyway, and no cell or timer. So it takes about a
//!   microsecond, however many timers there are. The number and the width of levels and slots are not part of its type.

use std::time::Duration;

use super::Wheel;
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

/// How many timers wait in each slot of a wheel. Made by `Wheel::occupancy` and `Handle::occupancy`.
///
/// The number of levels and the width of their slots may differ from version to version.
///
/// ```
/// use std::time::Duration;
/// use mainspring_driver::{Driver, Nanos, TestClock};
///
/// let clock = TestClock::new(Nanos::ZERO);
/// let driver = Driver::new(clock.clock(), || ());
/// let mut timer = Box::pin(driver.handle().sleep(Duration::from_millis(10)));
/// let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// assert!(timer.as_mut().poll(&mut cx).is_pending());
///
/// let occupancy = driver.handle().occupancy();
/// assert_eq!((occupancy.timers(), occupancy.opened(), occupancy.elapsed()), (1, 0, Duration::ZERO));
/// // It waits in the slot that spans its deadline.
/// let level = occupancy.levels().find(|level| level.slots.iter().any(|&timers| timers > 0)).unwrap();
/// let slot = level.slots.iter().position(|&timers| timers > 0).unwrap();
/// assert!(level.slot_width * slot as u32 <= Duration::from_millis(10));
/// assert!(level.slot_width * (slot as u32 + 1) > Duration::from_millis(10));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupancy {
    slots: [[u32; SLOTS]; LEVELS],
    cascading: Option<SlotId>,
    opened: usize,
    elapsed: Nanos,
}

/// One level of a wheel; see [`Occupancy::levels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelOccupancy<'a> {
    /// How much time a slot spans. A slot of the next level spans as much as all slots of this one together.
    pub slot_width: Duration,
    /// Timers in each slot. Slots do not rotate: those that lie ahead have larger indices than the current one. Smaller ones
    /// belong to the next round; they have timers only while the current slot is the last one.
    pub slots: &'a [u32],
    /// The slot in which the wheel stands. Above the first level it is empty, except while it cascades.
    pub current: usize,
    /// The slot whose timers are being moved to lower levels, if there is one: the next [`Wheel::next_due`] goes on with it. It may
    /// be that a call was cut short, that most timers of an open slot were removed, or that the slot is long and out of order, and
    /// its time will come soon.
    pub cascading: Option<usize>,
}

impl Occupancy {
    /// The levels, the one with the narrowest slots first.
    pub fn levels(&self) -> impl ExactSizeIterator<Item = LevelOccupancy<'_>> {
        self.slots.iter().enumerate().map(|(level, slots)| LevelOccupancy {
            slot_width: Duration::from_nanos(1 << shift(level)),
            slots,
            current: SlotId::current(self.elapsed, level).slot(),
            cascading: self.cascading.filter(|slot| slot.level() == level).map(SlotId::slot),
        })
    }

    /// Timers in the wheel.
    pub fn timers(&self) -> usize {
        self.slots.iter().flatten().map(|&timers| timers as usize).sum::<usize>() + self.opened
    }

    /// Timers whose slot has been opened because its time has come: they are in order, and due now or soon. And a few that were armed out
    /// of order.
    pub fn opened(&self) -> usize {
        self.opened
    }

    /// Up to when the wheel has been processed: the time since the driver's clock began.
    pub fn elapsed(&self) -> Duration {
        self.elapsed.as_duration()
    }
}

impl<K: Copy + Eq, const SHORT: usize> Wheel<K, SHORT> {
    /// How full the slots are. It reads 640 lengths, and no timer.
    pub fn occupancy(&self) -> Occupancy {
        let mut slots = [[0; SLOTS]; LEVELS];
        let mut opened = self.tree.len();
        for id in self.open_slots().chain(self.occupied.iter()).chain(self.dealt()) {
            let slot = &self.slots[id];
            if slot.cascades() || self.occupied.contains(id) {
                let id = self.on_level(id);
                slots[id.level()][id.slot()] += slot.live() as u32;
            } else {
                opened += slot.live();
            }
        }
        let cascading = self.cascading.or(self.dealt()).map(|id| self.on_level(id));
        Occupancy { slots, cascading, opened, elapsed: self.elapsed }
    }
}

/// A slot of the wheel, numbered through all levels. (It is a whole word on purpose. An `Option` of a narrower number is written in two
/// stores and read in one load, which stalls until both are done: firing took 1.7 times as long.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotId(usize);

impl SlotId {
    /// What is left of a slot that is being dealt. It is on no level.
    pub(super) const DEALT: SlotId = SlotId(LEVELS * SLOTS);
    /// Not a slot: the tree.
    pub(super) const TREE: SlotId = SlotId(LEVELS * SLOTS + 1);

    #[inline]
    pub(super) fn new(level: usize, slot: usize) -> SlotId {
        debug_assert!(level < LEVELS && slot < SLOTS);
        SlotId(level * SLOTS + slot)
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

    /// Whether `other` waits in this slot, as `deadline` does.
    #[inline]
    pub(super) fn spans(self, deadline: Nanos, other: Nanos) -> bool {
        (deadline.get() ^ other.get()) >> shift(self.level()) == 0
    }

    /// The slot of a level in which `elapsed` is.
    #[inline]
    pub(super) fn current(elapsed: Nanos, level: usize) -> SlotId {
        SlotId::new(level, (elapsed.get() >> shift(level)) as usize & (SLOTS - 1))
    }

    #[inline]
    pub(super) fn level(self) -> usize {
        self.0 / SLOTS
    }

    #[inline]
    pub(super) fn slot(self) -> usize {
        self.0 % SLOTS
    }

    /// When an occupied slot starts, if the wheel stands at `elapsed`.
    #[inline]
    pub(super) fn start(self, elapsed: Nanos) -> Nanos {
        let shift = shift(self.level());
        // What lies above this level's six bits is shared with `elapsed`, or one more in the next round; the top level has nothing
        // above.
        let is_next_round = self.slot() < SlotId::current(elapsed, self.level()).slot();
        let above = match shift + LEVEL_BITS {
            u64::BITS => 0,
            bits => ((elapsed.get() >> bits) + u64::from(is_next_round)) << bits,
        };
        Nanos::new(above | (self.slot() as u64) << shift)
    }
}

#[inline]
const fn shift(level: usize) -> u32 {
    SLOT_BITS + LEVEL_BITS * level as u32
}

/// How many nanoseconds a slot of a level spans.
#[inline]
pub(super) const fn width(level: usize) -> u64 {
    1 << shift(level)
}

/// Which slots hold timers and wait, and which levels have such slots: a bit each.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(super) struct Occupied {
    levels: u64,
    slots: [u64; LEVELS],
}

impl Occupied {
    #[inline]
    pub(super) fn set(&mut self, id: SlotId) {
        self.slots[id.level()] |= 1 << id.slot();
        self.levels |= 1 << id.level();
    }

    #[inline]
    pub(super) fn clear(&mut self, id: SlotId) {
        let slots = &mut self.slots[id.level()];
        *slots &= !(1 << id.slot());
        self.levels &= !(u64::from(*slots == 0) << id.level());
    }

    #[inline]
    pub(super) fn contains(&self, id: SlotId) -> bool {
        self.slots[id.level()] & 1 << id.slot() != 0
    }

    /// The occupied slot that starts first, if none belongs to the next round: the lowest of the lowest level that has any.
    #[inline]
    pub(super) fn earliest(&self) -> Option<SlotId> {
        let level = bits(self.levels).next()?;
        Some(SlotId::new(level, self.slots[level].trailing_zeros() as usize))
    }

    /// The occupied slots, in the order in which they start unless some belong to the next round.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = SlotId> + '_ {
        bits(self.levels).flat_map(|level| bits(self.slots[level]).map(move |slot| SlotId::new(level, slot)))
    }
}

/// The numbers of the bits that are set, the lowest first.
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
    use super::super::tests::Places;
    use super::super::{Due, Place, Rank, Slack};
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
            assert!(!occupied.contains(id));
            occupied.set(id);
            assert!(occupied.contains(id) && occupied.earliest() == Some(id));
        }
        assert_eq!(occupied.iter().collect::<Vec<_>>(), ids);
        occupied.clear(ids[0]);
        assert!(!occupied.contains(ids[0]) && occupied.contains(ids[1]));
        assert_eq!(occupied.earliest(), Some(ids[1]));
    }

    fn rank(key: usize) -> Rank {
        Rank::new(key as u64, Slack::ZERO)
    }

    #[test]
    fn every_timer_is_counted_where_it_waits() {
        let mut wheel = Wheel::new(Nanos::ZERO);
        let deadlines = [5, 16, 20, 1 << 10, (1 << 10) + 20, 1 << 40, Nanos::NEVER.get()];
        let mut places = Places(vec![Place::NOWHERE; deadlines.len()]);
        for (key, deadline) in deadlines.into_iter().enumerate() {
            wheel.insert(&mut places, key, Nanos::new(deadline), rank(key));
        }
        let before = wheel.occupancy();
        let found = |level: usize, slot: usize| before.slots[level][slot];
        assert_eq!([found(0, 1), found(1, 1), found(6, 1), found(9, 63)], [2, 2, 1, 1]);
        assert_eq!((before.timers(), before.opened()), (deadlines.len(), 1));
        let current = |view: &Occupancy| view.levels().map(|level| level.current).collect::<Vec<_>>();
        assert_eq!(current(&before), [0; LEVELS]);

        // Those that leave are counted no more; one that is opened and not due yet is.
        let mut moves = 100;
        let now = Nanos::new((1 << 10) + 10);
        for left in (3..deadlines.len()).rev() {
            assert!(matches!(wheel.next_due(&mut places, now, &mut moves), Due::Fire { .. }));
            assert_eq!(wheel.occupancy().timers(), left);
        }
        assert_eq!(wheel.next_due(&mut places, now, &mut moves), Due::Idle);
        let after = wheel.occupancy();
        assert_eq!((&current(&after)[..2], after.opened()), (&[0, 1][..], 1));
        assert_eq!(after.elapsed(), Duration::from_nanos(now.get()));
        assert_eq!(wheel.moved(), 0);
    }

    #[test]
    fn timers_that_no_slot_can_tell_apart_are_counted_as_opened() {
        let mut wheel = Wheel::new(Nanos::ZERO);
        let mut places = Places(vec![Place::NOWHERE; 50]);
        // More than make room for the last ones, which are due before them.
        for key in 0..50 {
            wheel.insert(&mut places, key, Nanos::new(if key < 45 { 15 } else { 3 }), rank(key));
        }
        let occupancy = wheel.occupancy();
        assert_eq!((wheel.tree.len(), occupancy.opened(), occupancy.timers()), (5, 50, 50));
    }

    #[test]
    fn a_slot_that_cascades_is_named() {
        let mut wheel = Wheel::new(Nanos::ZERO);
        let mut places = Places(vec![Place::NOWHERE; 10_000]);
        for key in 0..10_000 {
            // More than are sorted, and out of order.
            let deadline = (1 << 22) + 1 + 300 * (4_000 - key as u64 % 4_000);
            wheel.insert(&mut places, key, Nanos::new(deadline), rank(key));
        }
        let mut moves = 4;
        assert_eq!(wheel.next_due(&mut places, Nanos::new(1 << 23), &mut moves), Due::Exhausted);
        let occupancy = wheel.occupancy();
        assert_eq!((occupancy.slots[3][1], occupancy.timers(), wheel.moved()), (9_996, 10_000, 4));
        let cascading: Vec<_> = occupancy.levels().map(|level| level.cascading).collect();
        assert_eq!(cascading.iter().flatten().collect::<Vec<_>>(), [&1]);
        assert_eq!(cascading[3], Some(1));
    }

    #[test]
    fn widths_are_those_of_the_levels() {
        let occupancy = Wheel::<u64>::new(Nanos::ZERO).occupancy();
        let widths: Vec<_> = occupancy.levels().map(|level| level.slot_width).collect();
        assert_eq!((widths[0].as_nanos(), widths.len()), (16, LEVELS));
        assert!(widths.windows(2).all(|pair| pair[1] == pair[0] * 64));
    }
}
