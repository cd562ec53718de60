//! How full the slots of a wheel are: for a view of it.
//!
//! Ground rules:
//!
//! * Only reads: 512 lengths that the slots keep anyway. It touches no cell and no timer, so it takes about a
//!   microsecond, however many timers there are.
//! * How many levels and slots there are, and how wide, is what the wheel says, and no part of a type.

use std::time::Duration;

use super::level::{LEVELS, SLOTS, SlotId, shift};
use super::{Nanos, Wheel};

/// How many timers wait in each slot of a wheel. Made by [`Wheel::occupancy`] and
/// [`Handle::occupancy`](crate::Handle::occupancy).
///
/// How many levels there are, and how wide their slots, may differ from version to version.
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
/// assert_eq!((occupancy.timers(), occupancy.due(), occupancy.elapsed()), (1, 0, Duration::ZERO));
/// // It waits in the slot in whose time its deadline lies.
/// let level = occupancy.levels().find(|level| level.slots.iter().any(|&timers| timers > 0)).unwrap();
/// let slot = level.slots.iter().position(|&timers| timers > 0).unwrap();
/// assert!(level.slot_width * slot as u32 <= Duration::from_millis(10));
/// assert!(level.slot_width * (slot as u32 + 1) > Duration::from_millis(10));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupancy {
    slots: [[u32; SLOTS]; LEVELS],
    current: [u8; LEVELS],
    cascading: Option<SlotId>,
    due: usize,
    elapsed: Nanos,
}

/// One level of a wheel; see [`Occupancy::levels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelOccupancy<'a> {
    /// How much time a slot spans. The next level's are as wide as all slots of this one together.
    pub slot_width: Duration,
    /// Timers in each slot. Slots do not rotate: those ahead of the current one have larger indices.
    pub slots: &'a [u32],
    /// The slot in which the wheel stands. Above the first level it is empty, except while it cascades.
    pub current: usize,
    /// The slot whose timers are being moved to lower levels, if the last call that did so was cut short.
    pub cascading: Option<usize>,
}

impl Occupancy {
    /// The levels, that with the narrowest slots first.
    pub fn levels(&self) -> impl ExactSizeIterator<Item = LevelOccupancy<'_>> {
        self.slots.iter().enumerate().map(|(level, slots)| LevelOccupancy {
            slot_width: Duration::from_nanos(1 << shift(level)),
            slots,
            current: self.current[level].into(),
            cascading: self.cascading.filter(|slot| slot.level() == level).map(SlotId::slot),
        })
    }

    /// Timers in the wheel, those that are due included.
    pub fn timers(&self) -> usize {
        self.slots.iter().flatten().map(|&timers| timers as usize).sum::<usize>() + self.due
    }

    /// Timers that have come due and left their slot, and are about to fire.
    pub fn due(&self) -> usize {
        self.due
    }

    /// Up to when the wheel has been processed: the time since the driver's clock began.
    pub fn elapsed(&self) -> Duration {
        self.elapsed.as_duration()
    }
}

impl<K: Copy> Wheel<K> {
    /// How full the slots are. Reads 512 lengths and no timer.
    pub fn occupancy(&self) -> Occupancy {
        let mut slots = [[0; SLOTS]; LEVELS];
        for id in self.occupied.iter() {
            slots[id.level()][id.slot()] = self.slots.len(id) as u32;
        }
        Occupancy {
            slots,
            current: std::array::from_fn(|level| SlotId::current(self.elapsed, level).slot() as u8),
            cascading: self.dealing,
            due: self.batch[self.cursor..].iter().flatten().count(),
            elapsed: self.elapsed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Due, Place, Rank, Slack, Store};
    use super::*;

    struct Nowhere;

    impl Store<u64> for Nowhere {
        fn set_place(&mut self, _: u64, _: Place) {}
    }

    #[test]
    fn every_timer_is_counted_where_it_waits() {
        let mut wheel = Wheel::new(Nanos::ZERO);
        let deadlines = [5, 65_536, 65_540, 1 << 22, (1 << 22) + 66_000, 1 << 40, Nanos::NEVER.get()];
        for (number, deadline) in deadlines.into_iter().enumerate() {
            let rank = Rank::new(number as u64, Slack::ZERO);
            wheel.insert(&mut Nowhere, number as u64, Nanos::new(deadline), rank);
        }
        let before = wheel.occupancy();
        let found = |level: usize, slot: usize| before.slots[level][slot];
        assert_eq!([found(0, 0), found(0, 1), found(1, 1), found(4, 1), found(7, 63)], [1, 2, 2, 1, 1]);
        assert_eq!((before.timers(), before.due, before.current), (deadlines.len(), 0, [0; 8]));

        // Half of what is due leaves; the other half is due, and still counted.
        let mut moves = 100;
        let now = Nanos::new((1 << 22) + 70_000);
        for left in (2..deadlines.len()).rev() {
            assert!(matches!(wheel.next_due(&mut Nowhere, now, &mut moves), Due::Fire { .. }));
            assert_eq!(wheel.occupancy().timers(), left);
        }
        assert_eq!(wheel.next_due(&mut Nowhere, now, &mut moves), Due::Idle);
        let after = wheel.occupancy();
        assert_eq!((after.current[0], after.current[1], after.elapsed), (1, 1, now));
        assert_eq!(wheel.moved(), 2);
    }

    #[test]
    fn a_slot_that_cascades_is_named() {
        let mut wheel = Wheel::new(Nanos::ZERO);
        for number in 0..10 {
            // For several slots of level 0: a slot that belongs into one is handed over as a whole.
            let deadline = Nanos::new((1 << 22) + 1 + 65_536 * (number % 4));
            wheel.insert(&mut Nowhere, number, deadline, Rank::new(number, Slack::ZERO));
        }
        let mut moves = 4;
        assert_eq!(wheel.next_due(&mut Nowhere, Nanos::new(1 << 23), &mut moves), Due::Exhausted);
        let occupancy = wheel.occupancy();
        let below: u32 = occupancy.slots[0].iter().sum();
        assert_eq!((occupancy.slots[1][1], below), (6, 4));
        let cascading: Vec<_> = occupancy.levels().map(|level| level.cascading).collect();
        assert_eq!(cascading, [None, Some(1), None, None, None, None, None, None]);
    }

    #[test]
    fn widths_are_those_of_the_levels() {
        let occupancy = Wheel::<u64>::new(Nanos::ZERO).occupancy();
        let widths: Vec<_> = occupancy.levels().map(|level| level.slot_width).collect();
        assert_eq!((widths[0].as_nanos(), widths.len()), (65_536, LEVELS));
        assert!(widths.windows(2).all(|pair| pair[1] == pair[0] * 64));
    }
}
