//! How full the slots of a wheel are: for whoever wants to look at it.
//!
//! Ground rules:
//!
//! * Only reads: 512 lengths that the slots keep anyway. It touches no cell and no timer, so it takes about a
//!   microsecond, however many timers there are.

use super::level::{LEVELS, SLOTS, SlotId};
use super::{Nanos, Wheel};

/// How many timers wait in each slot of a wheel. Made by [`Wheel::occupancy`] and
/// [`Handle::occupancy`](crate::Handle::occupancy).
///
/// ```
/// use std::time::Duration;
/// use mainspring_driver::wheel::Occupancy;
/// use mainspring_driver::{Driver, Nanos, TestClock};
///
/// let clock = TestClock::new(Nanos::ZERO);
/// let driver = Driver::new(clock.clock(), || ());
/// let mut timer = Box::pin(driver.handle().sleep(Duration::from_millis(10)));
/// let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// assert!(timer.as_mut().poll(&mut cx).is_pending());
///
/// let occupancy = driver.handle().occupancy();
/// // 10 ms are two slots of level 1, of 4.2 ms each, and a bit.
/// assert_eq!(occupancy.slots[1][2], 1);
/// assert_eq!(Occupancy::slot_width(1), Duration::from_nanos(1 << 22));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupancy {
    /// Timers in each slot of each level, level 0 first. Slots are counted from zero and do not rotate: those
    /// ahead of the current one have larger numbers.
    pub slots: [[u32; 64]; 8],
    /// The slot of each level in which the wheel stands. Above level 0 it is empty, except while it is being
    /// dealt out.
    pub current: [u8; 8],
    /// The slot that is being dealt out to lower levels, as (level, slot), if the last drain stopped in the
    /// middle of one.
    pub dealing: Option<(u8, u8)>,
    /// Timers that have come due and left their slot, and are about to fire.
    pub due: usize,
    /// Up to when the wheel has been processed.
    pub elapsed: Nanos,
    /// Moves of timers within the wheel so far.
    pub moved: u64,
}

impl Occupancy {
    /// How much time a slot of a level spans; the next level's is 64 times as much.
    ///
    /// # Panics
    ///
    /// If there is no such level: there are eight.
    pub const fn slot_width(level: usize) -> std::time::Duration {
        assert!(level < LEVELS, "a wheel has eight levels");
        std::time::Duration::from_nanos(1 << super::level::shift(level))
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
            dealing: self.dealing.map(|id| (id.level() as u8, id.slot() as u8)),
            due: self.batch[self.cursor..].iter().flatten().count(),
            elapsed: self.elapsed,
            moved: self.moved,
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

    fn total(occupancy: &Occupancy) -> usize {
        occupancy.slots.iter().flatten().map(|&n| n as usize).sum::<usize>() + occupancy.due
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
        assert_eq!((total(&before), before.due, before.current), (deadlines.len(), 0, [0; 8]));

        // Half of what is due leaves; the other half is due, and still counted.
        let mut moves = 100;
        let now = Nanos::new((1 << 22) + 70_000);
        for left in (2..deadlines.len()).rev() {
            assert!(matches!(wheel.next_due(&mut Nowhere, now, &mut moves), Due::Fire { .. }));
            assert_eq!(total(&wheel.occupancy()), left);
        }
        assert_eq!(wheel.next_due(&mut Nowhere, now, &mut moves), Due::Idle);
        let after = wheel.occupancy();
        assert_eq!((after.current[0], after.current[1], after.elapsed), (1, 1, now));
        assert_eq!(after.moved, 2);
    }

    #[test]
    fn a_slot_being_dealt_is_named() {
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
        assert_eq!((occupancy.dealing, occupancy.slots[1][1], below), (Some((1, 1)), 6, 4));
    }

    #[test]
    fn widths_are_those_of_the_levels() {
        assert_eq!(Occupancy::slot_width(0).as_nanos(), 65_536);
        for level in 1..LEVELS {
            assert_eq!(Occupancy::slot_width(level), Occupancy::slot_width(level - 1) * 64);
        }
    }
}
