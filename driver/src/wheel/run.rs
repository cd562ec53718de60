//! The timers of slots that were opened, in order, to leave one by one: a `Run` for each level, and the `Crowd` of those that came
//! out of order for a time that is now.
//!
//! Rules:
//!
//! * The timers of a run lie in the order of (deadline, sequence number). Those in front of `head` have left; what was cancelled
//!   is a hole.
//! * The first `sorted` cells were sorted, and their owners were not told: a million writes to a million owners is what
//!   opening a slot as it is saves. They are found by their deadlines. All others lie where their owners believe.
//! * A run without timers has no cells.
//! * The crowd is a tree. A place in it holds the deadline and the low half of the sequence number, which leads to the timer by a
//!   search or two.

use std::collections::BTreeMap;

use super::level::LEVELS;
use super::pool::Pool;
use super::row::{Row, Timer};
use super::slot::{AHEAD, SEARCHED, Slot, follows};
use super::{Place, Rank, Slack, Store};
use crate::Nanos;

/// The number of the run of those that cascade; the others have the numbers of their levels.
pub(super) const CASCADING: usize = LEVELS;
/// At most so many holes are passed over in one step.
const PASSED: usize = 1024;

/// Timers in order.
#[derive(Debug)]
pub(super) struct Run<K> {
    row: Row<K>,
    /// All cells in front of this one have been passed.
    head: usize,
    sorted: usize,
    /// No timer has less.
    slack: Slack,
}

impl<K: Copy + Eq> Run<K> {
    pub(super) const fn new() -> Run<K> {
        Run { row: Row::new(), head: 0, sorted: 0, slack: Slack::MAX }
    }

    /// The timers of a slot: as they lie there, or sorted, if that is to be done.
    pub(super) fn of<const SHORT: usize>(
        store: &mut impl Store<K>,
        slot: Slot<K, SHORT>,
        pool: &mut Pool<K>,
    ) -> Run<K> {
        let is_sorted = slot.is_to_be_sorted();
        let mut run = Run { row: slot.row, head: 0, sorted: 0, slack: slot.slack };
        if is_sorted {
            run.row.sort(pool);
            run.sorted = run.row.len();
        }
        (0..AHEAD).for_each(|index| run.prefetch(store, index));
        run
    }

    #[inline]
    pub(super) fn live(&self) -> usize {
        self.row.live()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.live() == 0
    }

    /// The cell in front. If it is a hole, no timer is due before its deadline.
    #[inline]
    pub(super) fn head(&self) -> Option<Timer<K>> {
        self.row.get(self.head).copied()
    }

    /// The owner of the timer at `index`, if there is one, is going to be asked.
    #[inline]
    fn prefetch(&self, store: &mut impl Store<K>, index: usize) {
        if let Some(ahead) = self.row.live_at(index) {
            store.prefetch(ahead.key);
        }
    }

    /// Removes the timer in front; if it is a hole, some holes.
    #[inline]
    pub(super) fn pop(&mut self, store: &mut impl Store<K>, pool: &mut Pool<K>) -> Option<Timer<K>> {
        self.row.prefetch(self.head + 2 * AHEAD);
        self.prefetch(store, self.head + AHEAD);
        let popped = self.row.pass(self.head, pool);
        self.head += 1;
        if popped.is_none() || self.is_empty() {
            self.settle(pool);
        }
        popped
    }

    /// Where the cell of `key` lies.
    #[inline]
    pub(super) fn find(&self, key: K, place: Place) -> Option<usize> {
        let index = place.index as usize;
        if index >= self.head && self.row.at(index, key).is_some() {
            return Some(index);
        }
        let (mut from, mut to) = (self.head, self.sorted);
        while from < to {
            let middle = from.midpoint(to);
            if self.row.get(middle)?.when < place.when { from = middle + 1 } else { to = middle }
        }
        let equal =
            (from..self.sorted).take_while(|&i| self.row.get(i).is_some_and(|c| c.when == place.when));
        { equal }.find(|&index| self.row.at(index, key).is_some())
    }

    /// The rank of the timer at `index`.
    pub(super) fn rank(&self, index: usize) -> Option<Rank> {
        self.row.get(index).map(|cell| cell.rank)
    }

    /// Removes the timer at `index`.
    pub(super) fn remove(&mut self, index: usize, pool: &mut Pool<K>) {
        self.row.leave(index, None);
        if index == self.head || self.is_empty() {
            self.settle(pool);
        }
    }

    /// Puts a timer behind the last one and tells its owner, if it belongs there in the order. Says whether it did.
    #[inline]
    pub(super) fn push(&mut self, store: &mut impl Store<K>, timer: Timer<K>, pool: &mut Pool<K>) -> bool {
        let follows = follows(self.row.last(), &timer);
        if follows {
            store.set_place(timer.key, Place { when: timer.when, index: self.row.len() as u32 });
            self.slack = self.slack.min(timer.rank.slack());
            self.row.push(timer, pool);
        }
        follows
    }

    /// When the park has to end for these timers, if not before `most`; earlier where it would take long to find out.
    pub(super) fn wake(&self, mut most: Nanos) -> Nanos {
        for index in self.head..self.head + SEARCHED {
            let Some(cell) = self.row.get(index).filter(|cell| cell.when < most) else { return most };
            if self.row.live_at(index).is_some() {
                most = most.min(cell.wake());
            }
        }
        let rest = self.row.get(self.head + SEARCHED);
        rest.map_or(most, |cell| most.min(cell.when.saturating_add_nanos(self.slack.as_nanos())))
    }

    /// The last time up to `most` at which a timer is due, if one is by then; `most` where it would take long to find out.
    pub(super) fn last_until(&self, most: Nanos) -> Option<Nanos> {
        if let Some(last) = self.row.last().filter(|last| last.when <= most) {
            return Some(last.when);
        }
        let mut found = None;
        for index in self.head..self.head + SEARCHED {
            match self.row.get(index) {
                Some(cell) if cell.when <= most && self.row.live_at(index).is_some() => {
                    found = Some(cell.when)
                }
                Some(cell) if cell.when <= most => {}
                _ => return found,
            }
        }
        Some(most)
    }

    /// All timers with their indices, in order.
    pub(super) fn timers(&self) -> impl Iterator<Item = (usize, Timer<K>)> {
        self.row.live_from(self.head)
    }

    /// Passes the holes in front, but not many; a run without timers is as new.
    #[cold]
    fn settle(&mut self, pool: &mut Pool<K>) {
        if self.is_empty() {
            self.row.clear(pool);
            *self = Run::new();
        }
        for _ in 0..PASSED {
            if self.is_empty() || self.row.live_at(self.head).is_some() {
                return;
            }
            self.row.pass(self.head, pool);
            self.head += 1;
        }
    }
}

/// Timers by (deadline, sequence number).
#[derive(Debug)]
pub(super) struct Crowd<K>(BTreeMap<(Nanos, Rank), K>);

impl<K: Copy + Eq> Crowd<K> {
    pub(super) const fn new() -> Crowd<K> {
        Crowd(BTreeMap::new())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts a timer in. Returns its place.
    pub(super) fn insert(&mut self, timer: Timer<K>) -> Place {
        self.0.insert(timer.order(), timer.key);
        place(&timer)
    }

    /// The rank of the timer of `key`, if it is at `place`.
    pub(super) fn find(&self, key: K, place: Place) -> Option<Rank> {
        let mut sequence = u64::from(place.index);
        loop {
            let from = (place.when, Rank::new(sequence, Slack::ZERO));
            let (order, &found) = self.0.range(from..).next().filter(|((when, _), _)| *when == place.when)?;
            if found == key {
                return Some(order.1);
            }
            // The next number after the found one with the same low half. In a wheel that has counted to less than four
            // thousand million there is none.
            let ahead = place.index.wrapping_sub(order.1.sequence() as u32).wrapping_sub(1);
            sequence = order.1.sequence() + 1 + u64::from(ahead);
            if sequence >> Rank::SEQUENCE_BITS != 0 {
                return None;
            }
        }
    }

    /// Removes the timer that is due at `when` and has this rank.
    pub(super) fn remove(&mut self, when: Nanos, rank: Rank) {
        self.0.remove(&(when, rank));
    }

    /// The first timer.
    pub(super) fn first(&self) -> Option<Timer<K>> {
        self.timers().next().map(|(timer, _)| timer)
    }

    /// Takes the first timer out.
    pub(super) fn pop_first(&mut self) -> Option<Timer<K>> {
        self.0.pop_first().map(|((when, rank), key)| Timer { when, rank, key })
    }

    /// All timers and their places, in order.
    pub(super) fn timers(&self) -> impl Iterator<Item = (Timer<K>, Place)> {
        self.0.iter().map(|(&(when, rank), &key)| {
            let timer = Timer { when, rank, key };
            (timer, place(&timer))
        })
    }
}

fn place<K>(timer: &Timer<K>) -> Place {
    Place { when: timer.when, index: timer.rank.sequence() as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_whose_numbers_agree_in_the_low_half_are_told_apart() {
        let when = Nanos::new(7);
        let sequences = [5, 6, 5 + (1 << 32), 4 + (9 << 32), 5 + (9 << 32), u64::MAX >> 8];
        let mut crowd = Crowd::new();
        let timer = |key: usize| Timer { when, rank: Rank::new(sequences[key], Slack::MAX), key };
        let places: Vec<Place> = (0..sequences.len()).map(|key| crowd.insert(timer(key))).collect();
        for key in [4, 0, 5, 2, 1, 3] {
            assert_eq!(crowd.find(key, places[key]), Some(timer(key).rank));
            crowd.remove(when, timer(key).rank);
            assert_eq!(crowd.find(key, places[key]), None, "{key} is gone");
        }
        assert!(crowd.is_empty());
    }
}
