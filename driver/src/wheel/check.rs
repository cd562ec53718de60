//! Whether the wheel's invariants hold.
//!
//! Rule: a check changes nothing. The oracle test runs the whole check after every step; debug builds with the feature `check`,
//! which the driver's own tests have, run a quicker one after every change of a small wheel. (Programs do not: in their tests, with
//! a few dozen timers in virtual time, it took three quarters of the time.)

use super::level::{LEVELS, SLOTS, SlotId};
use super::row::BLOCK;
use super::slot::{HOLES, Slot};
use super::{Place, Wheel, tree};

/// Wheels of up to so many timers are checked after every change.
const CHECKED_UP_TO: usize = 64;

impl<K: Copy + Eq, const SHORT: usize> Wheel<K, SHORT> {
    /// Asserts the invariants of the wheel. `place_of` tells the place that the owner of a key knows.
    ///
    /// # Panics
    ///
    /// If one does not hold: then the wheel has a defect.
    ///
    /// It takes O(n).
    pub fn check(&self, place_of: impl Fn(K) -> Place) {
        for id in (0..LEVELS).flat_map(|l| (0..SLOTS).map(move |s| SlotId::new(l, s))) {
            let slot = self.slots.get(id);
            let has_timers = slot.is_some_and(|slot| !slot.is_empty());
            let is_open = self.open_slots().any(|open| open == id);
            assert!(!is_open || !self.occupied.contains(id), "{id:?} is open and waits");
            assert_eq!(is_open || self.occupied.contains(id), has_timers, "the bit of {id:?} is wrong");
            assert!(has_timers || slot.is_none_or(Slot::is_as_new), "{id:?} is empty, and not as new");
        }
        let mut open = self.open_slots().chain(self.dealt());
        assert!(self.cascading.is_none_or(|id| open.any(|open| open == id)), "nothing cascades");
        self.check_by(|key| Some(place_of(key)));
    }

    #[inline]
    pub(super) fn debug_check(&self) {
        if cfg!(all(debug_assertions, feature = "check")) && self.len <= CHECKED_UP_TO {
            self.check_by(|_| None);
        }
    }

    fn check_by(&self, place_of: impl Fn(K) -> Option<Place>) {
        let is_at = |key, place| {
            assert!(place_of(key).is_none_or(|known| known == place), "an owner has a wrong place");
        };
        let mut len = self.tree.len();
        for id in self.occupied.iter() {
            let slot = &self.slots[id];
            let live = slot.live();
            assert!(live > 0, "the bit of {id:?} is wrong");
            assert_eq!(slot.timers().count(), live, "{id:?} counts wrong");
            // A removal takes four off the length that is allowed, and may find no hole near.
            assert!(slot.row.len() <= 6 * live + 8 * BLOCK + HOLES, "{id:?} has too many holes");
            assert!(slot.row.next_live(slot.row.len()).is_none(), "{id:?} has timers behind its end");
            for (index, timer) in slot.timers() {
                let when = timer.when;
                let slots = [SlotId::of(self.elapsed, when), self.slot_ahead(when)];
                assert!(slots.contains(&Some(id)), "{when:?} lies in the wrong slot");
                assert!(slot.earliest <= when, "{id:?} starts too late for {when:?}");
                assert!(slot.latest >= when, "{id:?} ends too early for {when:?}");
                assert!(slot.wake <= timer.wake(), "{id:?} wakes too late for {when:?}");
                is_at(timer.key, Place { when, index: index as u32 });
            }
            assert!(is_ordered(slot), "{id:?} is out of order");
            len += live;
        }
        for id in self.open_slots().chain(self.dealt()) {
            let slot = &self.slots[id];
            assert!(!slot.is_empty(), "{id:?} is open and has no timers");
            assert!(is_ordered(slot), "{id:?} is open and out of order");
            assert!(slot.cascades() || self.cascading != Some(id), "{id:?} is in order and cascades");
            assert!(!slot.cascades() || self.cascading.or(self.dealt()).is_some(), "{id:?} does not cascade");
            for (index, timer) in slot.timers() {
                assert!(timer.when <= self.latest_open, "a timer is due after `latest_open`");
                let is_at =
                    |place: Place| place.when == timer.when && slot.find(timer.key, place) == Some(index);
                assert!(place_of(timer.key).is_none_or(is_at), "an owner has a wrong place");
            }
            assert_eq!(slot.timers().count(), slot.live(), "an open slot counts wrong");
            len += slot.live();
        }
        self.tree.iter().for_each(|(&(when, rank), &key)| is_at(key, tree::place(when, rank)));
        let earliest = self.earliest_slot();
        assert!(earliest.is_none_or(|(_, start)| self.clear_until < start), "a slot is overlooked");
        let waiting = self.occupied.iter().chain(self.dealt_slot()).map(|id| id.start(self.elapsed)).min();
        assert_eq!(waiting, earliest.map(|(_, start)| start), "a slot waits that starts earlier");
        assert_eq!(len, self.len, "the count is wrong");
        let slots = self.occupied.iter().chain(self.open_slots()).chain(self.dealt());
        let timers = slots.flat_map(|id| self.slots[id].timers());
        let wake = timers.map(|(_, timer)| timer.wake()).chain(self.tree.keys().map(|(when, _)| *when)).min();
        assert!(self.next_park().is_none_or(|park| Some(park.most) <= wake), "a park is too long");
    }
}

/// Whether the timers are in order that should be.
fn is_ordered<K: Copy + Eq, const SHORT: usize>(slot: &Slot<K, SHORT>) -> bool {
    let timers = slot.timers().skip_while(|(index, _)| *index < slot.ordered_from as usize);
    timers.map(|(_, timer)| timer.order()).is_sorted()
}
