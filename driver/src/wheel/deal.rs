//! How a crowd is dealt. A long slot that is out of order cascades when its time comes, and whoever is due then waits for that (50,000
//! timers take about 5 ms). So its timers are dealt to lower slots before, a few at a time, while nothing is due.
//!
//! ```text
//!   level M        … ▏       current        ▏     the next      ▏ …      a crowd, out of order
//!                                                    │ deal
//!   level M-1   1, 2, 3 … of the next round ◀────────┘
//!               ▏▏▏▏▏▏▏ … ▏current▏                                      in this round, only the last slot is left
//! ```
//!
//! Rules:
//!
//! * A crowd is dealt from when the last slot of the level below is the current one. All other slots of that level are free, and are filled
//!   for the next round. What belongs to the last one stays, and what belongs to the first, which lies lower still: a sixty-fourth each.
//!   If that is a crowd again, it is dealt when the level below has come to its last slot.
//! * Whether a slot is a crowd is not asked for each timer, but when its row takes another block, when holes are filled in another
//!   block, when it loses its order, and when a reset makes its bounds wider. So it may be a few timers more than the longest row that
//!   is sorted.
//! * So a slot behind its level's current one belongs to the next round, which starts with the slot that was dealt. Until then the
//!   earliest slot is searched for on all levels, and a slot's bounds say nothing about those behind it.
//! * To deal a slot is to exchange it for an empty one, in which new timers wait, and to take its timers from the front. Its cells keep
//!   their indices, so their owners need not be told until they move.
//! * If its time comes before all have been dealt, the rest cascades.
//! * A sleep of the driver ends when there is a crowd to deal, though no timer fires then. One of an agenda does not: it is woken for
//!   its entries only.

use super::level::{LEVELS, SLOTS, SlotId, width};
use super::pool::LONGEST;
use super::row::Timer;
use super::slot::Slot;
use super::{Park, Store, Wheel};
use crate::Nanos;

/// So many timers are dealt at a time.
const DEALT: usize = 256;
/// A crowd that would be dealt to fewer slots is not: it is due at about the same time.
const FEW: u64 = 4;

/// Which slot is being dealt.
#[derive(Debug)]
pub(super) struct Deal {
    /// The slot to which the timers in [`SlotId::DEALT`] belong, if there are any.
    slot: SlotId,
    /// From here on no slot belongs to a next round.
    until: Nanos,
    /// No crowd is to be dealt before this.
    next: Nanos,
    /// No slot of a level is dealt before this.
    from: [Nanos; LEVELS],
}

impl Deal {
    pub(super) const fn new() -> Deal {
        Deal { slot: SlotId::DEALT, until: Nanos::ZERO, next: Nanos::NEVER, from: [Nanos::ZERO; LEVELS] }
    }
}

impl<K: Copy + Eq, const SHORT: usize> Wheel<K, SHORT> {
    /// Timers are dealt to this level and those above: a crowd in a slot of a few milliseconds is due at about the same time. (In tests,
    /// whose crowds are small, lower slots are dealt, too.)
    const LOWEST: usize = if SHORT < LONGEST { 1 } else { 3 };

    /// Whether there may be slots of the next round.
    #[inline]
    pub(super) fn has_next_round(&self) -> bool {
        self.elapsed < self.deal.until
    }

    /// Where timers that have yet to be dealt lie, if there are any.
    #[inline]
    pub(super) fn dealt(&self) -> Option<SlotId> {
        self.slots.get(SlotId::DEALT).filter(|slot| !slot.is_empty()).map(|_| SlotId::DEALT)
    }

    /// The slot on a level to which these timers belong, or any other slot itself.
    pub(super) fn on_level(&self, id: SlotId) -> SlotId {
        if id == SlotId::DEALT { self.deal.slot } else { id }
    }

    /// Whether a slot whose time has yet to come is the one that was dealt last.
    #[inline]
    pub(super) fn was_dealt(&self, id: SlotId) -> bool {
        self.has_next_round() && self.deal.slot == id
    }

    /// The slot that is being dealt and waits for its time, if there is one.
    pub(super) fn dealt_slot(&self) -> Option<SlotId> {
        self.dealt().filter(|_| self.has_next_round()).map(|_| self.deal.slot)
    }

    /// The slot that waits and starts first, and when that is.
    #[inline]
    pub(super) fn earliest_slot(&self) -> Option<(SlotId, Nanos)> {
        if self.has_next_round() {
            return self.earliest_of_all_rounds();
        }
        self.occupied.earliest().map(|id| (id, id.start(self.elapsed)))
    }

    #[cold]
    fn earliest_of_all_rounds(&self) -> Option<(SlotId, Nanos)> {
        let slots = self.occupied.iter().chain(self.dealt_slot());
        slots.map(|id| (id, id.start(self.elapsed))).min_by_key(|(_, start)| *start)
    }

    /// No timer that waits is due before this.
    #[inline]
    pub(super) fn earliest_waiting(&self) -> Nanos {
        let earliest = |id: SlotId| self.slots[id].earliest;
        if self.has_next_round() {
            let slots = self.occupied.iter().chain(self.dealt());
            return slots.map(earliest).min().unwrap_or(Nanos::NEVER);
        }
        // Slots are in the order of time and do not overlap, so the first one has the earliest deadline.
        self.occupied.earliest().map_or(Nanos::NEVER, earliest)
    }

    /// The slot of the next round to which a timer that is due at `when` can be dealt, or has been.
    pub(super) fn slot_ahead(&self, when: Nanos) -> Option<SlotId> {
        let id = SlotId::of(self.elapsed, when).filter(|_| self.has_next_round())?;
        let start = id.start(self.elapsed);
        let to = SlotId::of(start, when).filter(|to| (Self::LOWEST..id.level()).contains(&to.level()))?;
        let is_free = self.elapsed >= free_from(start, to.level()) && to.slot() < SLOTS - 1;
        is_free.then_some(to)
    }

    /// To be called when a slot that waits may have become a crowd, or the timers of a crowd are due at more times than before.
    #[inline]
    pub(super) fn note_crowd(&mut self, id: SlotId) {
        if self.slots[id].is_crowd() {
            self.deal.next = self.deal.next.min(self.dealt_from(id));
        }
    }

    /// The slot that is to be dealt next, and from when on.
    fn next_crowd(&self) -> Option<(SlotId, Nanos)> {
        let crowds = self.occupied.iter().filter(|id| self.slots[*id].is_crowd());
        let crowds = crowds.map(|id| (id, self.dealt_from(id)));
        crowds.filter(|(_, from)| *from < Nanos::NEVER).min_by_key(|(_, from)| *from)
    }

    /// From when on a slot, which is a crowd, is to be dealt; [`Nanos::NEVER`] if it is not.
    fn dealt_from(&self, id: SlotId) -> Nanos {
        let (slot, start) = (&self.slots[id], id.start(self.elapsed));
        let spread = slot.latest.saturating_nanos_since(slot.earliest);
        let levels = (Self::LOWEST..id.level()).rev().filter(|level| spread >= FEW * width(*level));
        let mut from = levels.map(|level| free_from(start, level));
        from.find(|from| *from >= self.deal.from[id.level()]).unwrap_or(Nanos::NEVER)
    }

    /// Shortens a park so that a crowd is dealt in time.
    #[inline]
    pub(crate) fn until_crowd(&self, park: Park) -> Park {
        let until = self.deal.next.max(self.elapsed);
        Park { due: park.due.min(until), wake: park.wake.min(until), most: park.most.min(until) }
    }

    /// Deals some timers of a crowd whose time will come soon. To be called when no timer is due.
    #[inline]
    pub(super) fn deal(&mut self, store: &mut impl Store<K>, moves: &mut usize) {
        if self.deal.next <= self.elapsed {
            self.deal_some(store, moves);
        }
    }

    #[cold]
    fn deal_some(&mut self, store: &mut impl Store<K>, moves: &mut usize) {
        if self.dealt_slot().is_none() {
            let crowd = self.next_crowd().filter(|(_, from)| *from <= self.elapsed);
            crowd.into_iter().for_each(|(id, _)| self.begin_to_deal(id));
        }
        if self.dealt_slot().is_some() {
            self.deal_slot(store, self.deal.slot, moves);
        }
        if self.dealt_slot().is_none() {
            self.deal.next = self.next_crowd().map_or(Nanos::NEVER, |(_, from)| from);
        }
        self.debug_check();
    }

    fn deal_slot(&mut self, store: &mut impl Store<K>, id: SlotId, moves: &mut usize) {
        for _ in 0..DEALT.min(*moves) {
            *moves -= 1;
            let slot = &mut self.slots[SlotId::DEALT];
            let popped = slot.pop(store, &mut self.pool);
            if slot.is_empty() {
                slot.clear(&mut self.pool);
            }
            if let Some(timer) = popped {
                self.moved += 1;
                let when = store.deadline(timer.key, timer.when);
                self.file_ahead(store, Timer { when, ..timer });
            }
            if self.dealt().is_none() {
                // What is left in the slot, or comes to it, may be dealt to lower levels, later.
                let start = id.start(self.elapsed);
                let mut later = (Self::LOWEST..id.level()).rev().map(|level| free_from(start, level));
                let later = later.find(|from| *from > self.elapsed);
                self.deal.from[id.level()] = later.unwrap_or(start);
                return;
            }
        }
    }

    fn begin_to_deal(&mut self, id: SlotId) {
        let start = id.start(self.elapsed);
        self.occupied.clear(id);
        let mut dealt = std::mem::replace(&mut self.slots[id], Slot::new());
        dealt.cascade();
        *self.slots.make(SlotId::DEALT) = dealt;
        // A dealt timer's place leads to the slot from which it has come: whoever looks there has to read the cell.
        self.latest_open = self.latest_open.max(Nanos::new(start.get() + (width(id.level()) - 1)));
        self.deal.slot = id;
        self.deal.until = self.deal.until.max(start);
    }

    /// Puts a timer into a slot of the next round if it can be dealt.
    fn file_ahead(&mut self, store: &mut impl Store<K>, timer: Timer<K>) {
        let stays = SlotId::of(self.elapsed, timer.when) == Some(self.deal.slot);
        let ahead = self.slot_ahead(timer.when).filter(|_| stays);
        let Some(id) = ahead else { return self.file(store, timer) };
        let slot = self.slots.make(id);
        if !slot.push_at_once(store, timer) && !slot.fill(store, timer) {
            slot.push(store, timer, &mut self.pool);
            self.occupied.set(id);
        }
    }
}

/// From when on the slots of this level are free for what is due after `start`.
fn free_from(start: Nanos, level: usize) -> Nanos {
    Nanos::new(start.get() - width(level))
}

#[cfg(test)]
mod tests {
    use super::super::tests::Places;
    use super::super::{Due, Place, Rank, Slack};
    use super::*;

    #[test]
    fn timers_that_were_dealt_can_leave_together() {
        let mut wheel = Wheel::<usize, 8>::with_short(Nanos::ZERO);
        let mut places = Places(vec![Place::NOWHERE; 50]);
        let start = 5 * width(3);
        // All but the first ten go to one slot.
        for key in 0..50 {
            let part = if key < 10 { 2 + key % 5 * 8 } else { 1 };
            let deadline = start + part as u64 * width(2) + 50 - key as u64;
            wheel.insert(&mut places, key, Nanos::new(deadline), Rank::new(key as u64, Slack::ZERO));
        }
        let dealt = Nanos::new(start - width(2));
        assert_eq!(wheel.next_due(&mut places, dealt, &mut 100), Due::Idle);
        assert_eq!(
            (wheel.moved(), wheel.occupancy().levels().nth(2).map(|level| level.slots[1])),
            (50, Some(40))
        );
        let leave = Vec::from_iter((10..50).map(|key| (key, places.0[key])));
        assert!(wheel.remove_all(&mut places, &leave));
        wheel.check(|key| places.0[key]);
        assert_eq!((wheel.len(), wheel.occupancy().timers()), (10, 10));
    }

    #[test]
    fn a_crowd_that_has_grown_by_filling_holes_is_dealt() {
        let mut wheel = Wheel::<usize, 64>::with_short(Nanos::ZERO);
        let mut places = Places(vec![Place::NOWHERE; 420]);
        let start = 5 * width(3);
        let insert = |wheel: &mut Wheel<_, 64>, places: &mut Places, keys: std::ops::Range<usize>| {
            for key in keys {
                // In no order.
                let deadline = start + (key as u64 * 167 % 420) * (width(3) / 420);
                wheel.insert(places, key, Nanos::new(deadline), Rank::new(key as u64, Slack::ZERO));
            }
        };
        insert(&mut wheel, &mut places, 0..280);
        let gone = (0..280).filter(|key| key % 5 != 0);
        assert!(gone.into_iter().all(|key| wheel.remove(&mut places, key)));
        // Those that are left are no crowd when one would be dealt.
        let dealt = Nanos::new(start - width(2));
        assert_eq!((wheel.next_due(&mut places, dealt, &mut 1_000), wheel.moved()), (Due::Idle, 0));
        insert(&mut wheel, &mut places, 280..380);
        assert_eq!(wheel.next_due(&mut places, dealt, &mut 1_000), Due::Idle);
        assert!(wheel.moved() > 0, "{:?}", wheel.occupancy());
        wheel.check(|key| places.0[key]);
    }
}
