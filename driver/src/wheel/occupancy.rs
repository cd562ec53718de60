//! How full the slots of a wheel are: for a view of it.
//!
//! Rules:
//!
//! * Only reads: 640 lengths that the slots keep anyway. It touches no cell and no timer, so it takes about a
//!   microsecond, however many timers there are.
//! * How many levels and slots there are, and how wide, is what the wheel says, and no part of a type.

use std::time::Duration;

use super::level::{LEVELS, SLOTS, SlotId, shift};
use super::run::Run;
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
/// assert_eq!((occupancy.timers(), occupancy.opened(), occupancy.elapsed()), (1, 0, Duration::ZERO));
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
    opened: usize,
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

    /// Timers in the wheel.
    pub fn timers(&self) -> usize {
        self.slots.iter().flatten().map(|&timers| timers as usize).sum::<usize>() + self.opened
    }

    /// Timers whose slot has been opened, because its time has come: they are due soon, or now, and in order.
    pub fn opened(&self) -> usize {
        self.opened
    }

    /// Up to when the wheel has been processed: the time since the driver's clock began.
    pub fn elapsed(&self) -> Duration {
        self.elapsed.as_duration()
    }
}

impl<K: Copy + Eq, const PAGE: usize> Wheel<K, PAGE> {
    /// How full the slots are. Reads 640 lengths and no timer.
    pub fn occupancy(&self) -> Occupancy {
        let mut slots = [[0; SLOTS]; LEVELS];
        for id in self.occupied.iter() {
            slots[id.level()][id.slot()] = self.slots[id.index()].live() as u32;
        }
        if let Some((id, run)) = &self.cascading {
            slots[id.level()][id.slot()] = run.live() as u32;
        }
        Occupancy {
            slots,
            current: std::array::from_fn(|level| SlotId::current(self.elapsed, level).slot() as u8),
            cascading: self.cascading.as_ref().map(|(id, _)| *id),
            opened: self.runs.iter().map(Run::live).sum::<usize>() + self.crowd.len(),
            elapsed: self.elapsed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Due, Place, Rank, Slack, Store};
    use super::*;

    /// Keeps the place of each key.
    struct Places(Vec<Place>);

    impl Store<usize> for Places {
        fn set_place(&mut self, key: usize, place: Place) {
            self.0[key] = place;
        }
        fn place(&self, key: usize) -> Place {
            self.0[key]
        }
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
        assert_eq!((before.timers(), before.opened(), before.current), (deadlines.len(), 1, [0; LEVELS]));

        // Those that leave are counted no more; one that is opened and not due yet is.
        let mut moves = 100;
        let now = Nanos::new((1 << 10) + 10);
        for left in (3..deadlines.len()).rev() {
            assert!(matches!(wheel.next_due(&mut places, now, &mut moves), Due::Fire { .. }));
            assert_eq!(wheel.occupancy().timers(), left);
        }
        assert_eq!(wheel.next_due(&mut places, now, &mut moves), Due::Idle);
        let after = wheel.occupancy();
        assert_eq!((after.current[0], after.current[1], after.opened()), (0, 1, 1));
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
        assert_eq!((wheel.crowd.len(), occupancy.opened(), occupancy.timers()), (5, 50, 50));
    }

    #[test]
    fn a_slot_that_cascades_is_named() {
        let mut wheel = Wheel::new(Nanos::ZERO);
        let mut places = Places(vec![Place::NOWHERE; 10_000]);
        for key in 0..10_000 {
            // More than a page, and out of order.
            let deadline = (1 << 22) + 1 + 300 * (key as u64 % 4_000);
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
