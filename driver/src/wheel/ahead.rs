//! What lies ahead: until when one may sleep, the earliest deadline, and who waits at all.
//!
//! Rules:
//!
//! * A sleep never outlasts the earliest deadline plus slack, by the bounds of the slots, which are never too late.
//!   It may end early, when timers were cancelled or moved: that costs one look and no timer.
//! * A bound is made exact only by [`Wheel::next_deadline`], which walks a slot for it.

use super::cells::Timer;
use super::level::{SlotId, bits};
use super::{Rank, Store, Wheel};
use crate::Nanos;

impl<K: Copy + Eq, const PAGE: usize> Wheel<K, PAGE> {
    /// Until when one may sleep: the last deadline that is not later than the earliest deadline-plus-slack, because
    /// to sleep on from there would gather nobody else. So a timer with nobody near is woken at its deadline,
    /// whatever its slack. `None` if the wheel is empty.
    ///
    /// While nothing is due it is never later than that earliest deadline-plus-slack. It may be later than the last deadline before that,
    /// where a crowded slot reaches beyond; and earlier than any, after timers were cancelled or moved.
    ///
    /// While timers are due that have not left yet, it is not later than the deadline of the first of them.
    pub fn next_wake(&self) -> Option<Nanos> {
        self.next_park().map(|(wake, _)| wake)
    }

    /// [`next_wake`](Wheel::next_wake), and the earliest deadline that is filed: how far slack puts it off.
    pub(crate) fn next_park(&self) -> Option<(Nanos, Nanos)> {
        if self.len == 0 {
            return None;
        }
        let due = self.earliest();
        if due <= self.elapsed {
            return Some((due, due));
        }
        // The crowd is due within nanoseconds.
        let crowd = self.crowd.first().map_or(Nanos::NEVER, |timer| timer.when);
        let mut most = bits(self.running).fold(crowd, |most, level| self.runs[level].wake(most));
        for slot in self.slots_until(most).map(|id| &self.slots[id.index()]) {
            most = most.min(slot.wake());
        }
        if most <= due {
            return Some((most, due));
        }
        let runs = bits(self.running).filter_map(|level| self.runs[level].last_until(most));
        let mut last = runs.fold(due, Nanos::max);
        for slot in self.slots_until(most).map(|id| &self.slots[id.index()]) {
            if slot.earliest() <= most && last < most {
                last = last.max(slot.last_until(most));
            }
        }
        Some((last, due))
    }

    /// No timer in the wheel is due before this; [`Nanos::NEVER`] if it is empty. A few steps. While a slot cascades it is
    /// [`Nanos::ZERO`].
    #[inline]
    pub fn earliest(&self) -> Nanos {
        if self.cascading.is_some() {
            return Nanos::ZERO;
        }
        // Slots come in the order of time and do not overlap, so the first has the earliest deadline.
        let slot = self.occupied.earliest().map_or(Nanos::NEVER, |id| self.slots[id.index()].earliest());
        let run = |level: usize| self.runs[level].head().map_or(Nanos::NEVER, |cell| cell.when);
        let earliest = bits(self.running).map(run).fold(slot, Nanos::min);
        self.crowd.first().map_or(earliest, |timer| earliest.min(timer.when))
    }

    /// Calls `each` for every timer in the wheel, in no particular order: its key and its rank. O(n).
    pub fn for_each(&self, mut each: impl FnMut(K, Rank)) {
        self.crowd.timers().for_each(|(timer, _)| each(timer.key, timer.rank));
        let runs = bits(self.running).map(|level| &self.runs[level]);
        for run in runs.chain(self.cascading.iter().map(|(_, run)| run)) {
            run.timers().for_each(|(_, timer)| each(timer.key, timer.rank));
        }
        for id in self.occupied.iter() {
            self.slots[id.index()].timers().for_each(|(_, timer)| each(timer.key, timer.rank));
        }
    }

    /// The earliest deadline of all, exactly. Timers whose deadline has moved are filed again on the way, so
    /// this may take O(n) once, where [`next_wake`](Wheel::next_wake) is a handful of steps.
    pub fn next_deadline(&mut self, store: &mut impl Store<K>) -> Option<Nanos> {
        let mut unlimited = usize::MAX;
        self.cascade(store, &mut unlimited);
        loop {
            let head = self.next_in_order(store);
            let Some(id) = self.occupied.earliest() else { return head };
            if head.is_some_and(|head| head < id.start(self.elapsed)) {
                return head;
            }
            self.refile_moved(store, id);
            let slot = &self.slots[id.index()];
            if !slot.is_empty() {
                return Some(head.map_or(slot.earliest(), |head| head.min(slot.earliest())));
            }
        }
    }

    /// The earliest deadline of the runs and the crowd, exactly.
    fn next_in_order(&mut self, store: &mut impl Store<K>) -> Option<Nanos> {
        loop {
            let (when, source) = self.head()?;
            let deadline = self.peek(source).map(|timer| store.deadline(timer.key, when));
            if deadline == Some(when) {
                return deadline;
            }
            if let Some((timer, when)) = self.expire(store, source).zip(deadline) {
                self.moved += 1;
                self.file(store, Timer { when, ..timer });
            }
        }
    }

    /// Files those timers of a slot again whose deadline has moved, and makes the slot's bounds exact.
    fn refile_moved(&mut self, store: &mut impl Store<K>, id: SlotId) {
        // From the last: whoever comes to another index meanwhile comes from behind, or to a lower one.
        for index in (0..self.slots[id.index()].len_with_holes()).rev() {
            let Some(timer) = self.slots[id.index()].timer_at(index) else { continue };
            let deadline = store.deadline(timer.key, timer.when);
            if deadline != timer.when {
                let found = self.refile(store, timer.key, deadline, timer.rank.slack());
                debug_assert!(found, "a timer of the slot is not in it");
                self.moved += 1;
            }
        }
        self.slots[id.index()].set_bounds();
        self.debug_check();
    }

    /// The occupied slots that start by `most`.
    fn slots_until(&self, most: Nanos) -> impl Iterator<Item = SlotId> {
        self.occupied.iter().take_while(move |id| id.start(self.elapsed) <= most)
    }
}
