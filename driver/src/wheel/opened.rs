//! A [`Slot`] whose time has come: its timers are removed one by one, from the front.
//!
//! Rules:
//!
//! * Its timers lie in the order of (deadline, sequence number), once those in front of `ordered_from` have cascaded. The cells in front
//!   of `head` are consumed. A timer that is cancelled leaves a hole, and no cell moves.
//! * A slot that was in order is opened as it is: its timers lie at the places that their owners know. After a sort the owners are not
//!   told, because a write to each would cost more than the sort. Then a binary search finds a timer by its deadline, and new timers
//!   are not put into this slot.

use super::pool::Pool;
use super::row::Timer;
use super::slot::{AHEAD, NO_ORDER, SEARCHED, Slot};
use super::{Place, Rank, Slack, Store};
use crate::Nanos;

/// At most so many blocks without timers are skipped in one step: it takes about as long as a move.
const SKIPPED: usize = 16;

impl<K: Copy + Eq, const SHORT: usize> Slot<K, SHORT> {
    /// Sorts the timers if they are out of order and few, and prefetches the first owners. Returns whether it has sorted.
    pub(super) fn open(&mut self, store: &mut impl Store<K>, pool: &mut Pool<K>) -> bool {
        self.is_sorted = self.ordered_from > 0 && self.is_short();
        if self.is_sorted {
            self.row.sort(pool);
            self.ordered_from = 0;
        }
        (0..AHEAD).for_each(|index| self.prefetch(store, index));
        self.is_sorted
    }

    /// Lets all its timers cascade.
    pub(super) fn cascade(&mut self) {
        self.ordered_from = NO_ORDER;
    }

    /// Whether its first timer is to cascade.
    #[inline]
    pub(super) fn cascades(&self) -> bool {
        self.head < self.ordered_from
    }

    /// Puts a timer behind the last one and tells its owner, if that keeps the order, and the row is not long for the timers that it
    /// has: while time stands still, timers may come and leave without end. Returns whether it did.
    pub(super) fn push_opened(
        &mut self,
        store: &mut impl Store<K>,
        timer: Timer<K>,
        pool: &mut Pool<K>,
    ) -> bool {
        let has_order = self.ordered_from == 0 && !self.is_sorted;
        let takes = has_order && self.is_last(&timer) && (self.is_short() || !self.is_hollow());
        if takes {
            self.push(store, timer, pool);
        }
        takes
    }

    /// When the first timer is due, and its rank. A hole in front is due at once: it has to be skipped.
    #[inline]
    pub(super) fn head(&self) -> Option<(Nanos, Rank)> {
        let hole = || self.row.get(self.head as usize).map(|_| (Nanos::ZERO, Rank::new(0, Slack::ZERO)));
        self.first().map(Timer::order).or_else(hole)
    }

    /// The first timer, unless the first cell is a hole.
    #[inline]
    pub(super) fn first(&self) -> Option<&Timer<K>> {
        self.row.live_at(self.head as usize)
    }

    /// Removes the first timer. If the first cell is a hole, skips holes instead, and returns `None`.
    #[inline(always)]
    pub(super) fn pop(&mut self, store: &mut impl Store<K>, pool: &mut Pool<K>) -> Option<Timer<K>> {
        let head = self.head as usize;
        self.row.prefetch(head + 2 * AHEAD);
        self.prefetch(store, head + AHEAD);
        let popped = self.row.consume(head, pool);
        self.head += 1;
        if popped.is_none() {
            self.skip_holes(pool);
        }
        popped
    }

    /// The index of the timer of `key`.
    #[inline]
    pub(super) fn find(&self, key: K, place: Place) -> Option<usize> {
        let is_there = |index: usize| self.row.at(index, key).is_some();
        if !self.is_sorted {
            return Some(place.index as usize).filter(|index| is_there(*index));
        }
        let (mut from, mut to) = (self.head as usize, self.row.len());
        while from < to {
            let middle = from.midpoint(to);
            if self.row.get(middle)?.when < place.when { from = middle + 1 } else { to = middle }
        }
        let is_equal = |&index: &usize| self.row.get(index).is_some_and(|cell| cell.when == place.when);
        (from..self.row.len()).take_while(is_equal).find(|index| is_there(*index))
    }

    /// Removes the timer at `index`.
    pub(super) fn remove_opened(&mut self, index: usize, pool: &mut Pool<K>) {
        self.row.remove(index, None);
        // If it was the last timer, the slot is going to be cleared.
        if index == self.head as usize {
            self.skip_holes(pool);
        } else if index + 1 == self.row.len() && !self.is_empty() {
            self.row.trim(pool);
        }
    }

    /// When the park has to end for these timers, or `most` if that is earlier. An earlier time, if it would take long to find out.
    pub(super) fn wake_until(&self, mut most: Nanos) -> Nanos {
        let searched = self.head as usize + SEARCHED;
        for index in self.head as usize..searched {
            let Some(cell) = self.row.get(index).filter(|cell| cell.when < most) else { return most };
            if self.row.live_at(index).is_some() {
                most = most.min(cell.wake());
            }
        }
        let rest = self.row.get(searched);
        rest.map_or(most, |cell| most.min(cell.when.latest_wake(self.slack.as_nanos())))
    }

    /// The last deadline up to `most`, if there is one; or `most`, if it would take long to find out.
    pub(super) fn last_opened_until(&self, most: Nanos) -> Option<Nanos> {
        let last = self.row.live_at(self.row.len().wrapping_sub(1));
        if let Some(last) = last.filter(|last| last.when <= most) {
            return Some(last.when);
        }
        let mut found = None;
        for index in self.head as usize..self.head as usize + SEARCHED {
            let Some(cell) = self.row.get(index).filter(|cell| cell.when <= most) else { return found };
            if self.row.live_at(index).is_some() {
                found = Some(cell.when);
            }
        }
        Some(most)
    }

    /// Prefetches the owner of the timer at `index`, if there is one.
    #[inline]
    fn prefetch(&self, store: &mut impl Store<K>, index: usize) {
        if let Some(ahead) = self.row.live_at(index) {
            store.prefetch(ahead.key);
        }
    }

    /// Skips the holes in front, but not many at once.
    #[cold]
    fn skip_holes(&mut self, pool: &mut Pool<K>) {
        for _ in 0..SKIPPED {
            if self.is_empty() || self.row.live_at(self.head as usize).is_some() {
                return;
            }
            self.head = self.row.skip(self.head as usize, pool) as u32;
        }
    }
}
