//! What lies ahead: until when one may sleep, the earliest deadline, and who waits at all.
//!
//! Ground rules:
//!
//! * A sleep never outlasts the earliest deadline plus slack, by the bounds of the slots, which are never too late.
//!   It may end early, when timers were cancelled or moved: that costs one look and no timer.
//! * A bound is made exact only by [`Wheel::next_deadline`], which walks a slot for it.

use super::level::SlotId;
use super::slot::Verdict;
use super::{Rank, Store, Wheel};
use crate::Nanos;

impl<K: Copy> Wheel<K> {
    /// Until when one may sleep: the last deadline that is not later than the earliest deadline-plus-slack, because
    /// to sleep on from there would gather nobody else. So a timer with nobody near is woken at its deadline,
    /// whatever its slack. `None` if the wheel is empty.
    ///
    /// While nothing is due it is never later than that earliest deadline-plus-slack. It may be later than the last deadline before that,
    /// where a crowded slot reaches beyond; and earlier than any, after timers were cancelled or moved.
    ///
    /// While timers are due that have not left yet, it is a time not later than the wheel's own.
    pub fn next_wake(&self) -> Option<Nanos> {
        self.next_park().map(|(wake, _)| wake)
    }

    /// [`next_wake`](Wheel::next_wake), and the earliest deadline that is filed: how far slack puts it off.
    pub(crate) fn next_park(&self) -> Option<(Nanos, Nanos)> {
        if self.len == 0 {
            return None;
        }
        if let Some(cell) = self.batch[self.cursor..].iter().flatten().next() {
            let at = cell.when.min(self.elapsed);
            return Some((at, at));
        }
        if self.is_under_way() {
            return Some((self.elapsed, self.elapsed));
        }
        // Slots come in the order of time and do not overlap, so the first has the earliest deadline.
        let due = self.slots.earliest(self.occupied.earliest()?);
        let mut most = Nanos::NEVER;
        for slot in self.occupied.iter() {
            if slot.start(self.elapsed) > most {
                break;
            }
            most = most.min(self.slots.wake(slot));
        }
        let mut last = most.min(self.elapsed);
        for slot in self.occupied.iter() {
            if slot.start(self.elapsed) > most || last == most {
                break;
            }
            if self.slots.earliest(slot) <= most {
                last = last.max(self.slots.last_until(slot, most));
            }
        }
        Some((last, due))
    }

    /// No timer in the wheel is due before this; [`Nanos::NEVER`] if it is empty. A few steps. While timers are due that
    /// have not left yet it is [`Nanos::ZERO`].
    #[inline]
    pub fn earliest(&self) -> Nanos {
        if self.cursor < self.batch.len() || self.is_under_way() {
            return Nanos::ZERO;
        }
        // Slots come in the order of time and do not overlap, so the first has the earliest deadline.
        self.occupied.earliest().map_or(Nanos::NEVER, |slot| self.slots.earliest(slot))
    }

    /// Whether a slot is being dealt out, split, or left.
    #[inline]
    fn is_under_way(&self) -> bool {
        self.dealing.is_some() || self.splitting.is_some() || self.leaving.is_some()
    }

    /// Calls `each` for every timer in the wheel, in no particular order: its key and its rank. O(n).
    pub fn for_each(&self, mut each: impl FnMut(K, Rank)) {
        for cell in self.batch[self.cursor..].iter().flatten() {
            each(cell.key, cell.rank);
        }
        for slot in self.occupied.iter() {
            for (cell, _) in self.slots.cells(slot) {
                each(cell.key, cell.rank);
            }
        }
    }

    /// The earliest deadline of all, exactly. Timers whose deadline has moved are filed anew on the way, so
    /// this may take O(n) once, where [`next_wake`](Wheel::next_wake) is a handful of steps.
    pub fn next_deadline(&mut self, store: &mut impl Store<K>) -> Option<Nanos> {
        let mut unlimited = usize::MAX;
        if let Some((slot, at)) = self.splitting {
            self.split(store, slot, at, &mut unlimited);
        }
        let mut due: Option<Nanos> = None;
        for cell in self.batch[self.cursor..].iter().flatten() {
            let when = store.deadline(cell.key, cell.when);
            due = Some(due.map_or(when, |due| due.min(when)));
            if when == cell.when {
                break;
            }
        }
        if let Some(slot) = self.dealing {
            self.deal(store, slot, &mut unlimited);
        }
        while let Some(slot) = self.occupied.earliest() {
            self.refile(store, slot);
            if !self.slots.is_empty(slot) {
                let earliest = self.slots.earliest(slot);
                return Some(due.map_or(earliest, |due| due.min(earliest)));
            }
        }
        due
    }

    /// Files those cells of a slot anew whose deadline has moved, and makes the slot's bounds exact.
    fn refile(&mut self, store: &mut impl Store<K>, slot: SlotId) {
        let mut late = std::mem::take(&mut self.late);
        let elapsed = self.elapsed;
        let store = std::cell::RefCell::new(store);
        self.slots.sift(
            slot,
            |cell| {
                let when = store.borrow_mut().deadline(cell.key, cell.when);
                cell.when = when;
                if SlotId::of(elapsed, when) == slot { Verdict::Keep } else { Verdict::Take }
            },
            |cell| late.push(cell),
            |key, place| store.borrow_mut().set_place(key, place),
            |key| store.borrow_mut().prefetch(key),
        );
        let store = store.into_inner();
        if self.slots.is_empty(slot) {
            self.occupied.clear(slot);
        }
        self.file_all(store, late);
        self.debug_check();
    }
}
