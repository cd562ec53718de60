//! The timers of slots that were opened, in order, to leave one by one: a `Run` for each level, and the `Crowd` of those that came
//! out of order for a time that is now.
//!
//! Rules:
//!
//! * The timers of a run lie in the order of (deadline, sequence number). Those in front of `head` have left; what was cancelled is a
//!   hole.
//! * The first `sorted` cells were sorted, and their owners were not told: a million writes to a million owners is what
//!   opening a slot as it is saves. They are found by their deadlines. All others lie where their owners believe.
//! * A run without timers has no cells.
//! * The crowd is a tree. A place in it holds the deadline and the low half of the sequence number, which leads to the timer by a
//!   search or two.

use std::collections::BTreeMap;

use super::buffers::Buffers;
use super::cells::{Cells, Timer};
use super::level::LEVELS;
use super::slot::{AHEAD, SEARCHED, Slot, follows};
use super::{Place, Rank, Slack, Store};
use crate::Nanos;

/// The number of the run of those that cascade; the others have the numbers of their levels.
pub(super) const CASCADING: usize = LEVELS;
/// At most so many holes are passed over in one step.
const PASSED: usize = 1024;
/// A timer that comes out of order is put in order, if no more than so many have to make room.
const SHIFTED: usize = 32;

/// Timers in order.
#[derive(Debug)]
pub(super) struct Run<K, const PAGE: usize> {
    cells: Cells<K, PAGE>,
    /// All cells in front of this one have left.
    head: usize,
    live: usize,
    sorted: usize,
    /// No timer has less.
    slack: Slack,
}

impl<K: Copy + Eq, const PAGE: usize> Run<K, PAGE> {
    pub(super) const fn new() -> Run<K, PAGE> {
        Run { cells: Cells::new(), head: 0, live: 0, sorted: 0, slack: Slack::MAX }
    }

    /// The timers of a slot: as they lie there, or sorted, if they are out of order and fill no more than a page.
    pub(super) fn of(store: &mut impl Store<K>, slot: Slot<K, PAGE>) -> Run<K, PAGE> {
        let (live, slack, is_sorted) = (slot.live(), slot.slack, slot.is_to_be_sorted());
        let mut run = Run { cells: slot.cells, head: 0, live, sorted: 0, slack };
        if is_sorted {
            run.sorted = live;
            run.cells.sort();
        }
        (0..AHEAD).for_each(|index| run.prefetch(store, index));
        run
    }

    #[inline]
    pub(super) fn live(&self) -> usize {
        self.live
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The cell in front. If it is a hole, no timer is due before its deadline.
    #[inline]
    pub(super) fn head(&self) -> Option<Timer<K>> {
        self.cells.get(self.head).copied()
    }

    /// The owner of the timer at `index`, if there is one, is going to be asked.
    #[inline]
    fn prefetch(&self, store: &mut impl Store<K>, index: usize) {
        if let Some(ahead) = self.cells.get(index).filter(|_| self.cells.is_live(index)) {
            store.prefetch(ahead.key);
        }
    }

    /// Removes the timer in front; if it is a hole, some holes.
    #[inline]
    pub(super) fn pop(&mut self, store: &mut impl Store<K>, buffers: &mut Buffers<K>) -> Option<Timer<K>> {
        self.prefetch(store, self.head + AHEAD);
        let timer = *self.cells.get(self.head)?;
        if !self.cells.is_live(self.head) {
            self.pass_holes(buffers);
            return None;
        }
        self.live -= 1;
        self.pass(buffers);
        Some(timer)
    }

    /// Where the cell of `key` lies.
    #[inline]
    pub(super) fn find(&self, key: K, place: Place) -> Option<usize> {
        let index = place.index as usize;
        if index >= self.head && self.cells.at(index, key).is_some() {
            return Some(index);
        }
        let (mut from, mut to) = (self.head, self.sorted);
        while from < to {
            let middle = from.midpoint(to);
            if self.cells.get(middle)?.when < place.when { from = middle + 1 } else { to = middle }
        }
        let equal =
            (from..self.sorted).take_while(|&i| self.cells.get(i).is_some_and(|c| c.when == place.when));
        { equal }.find(|&index| self.cells.at(index, key).is_some())
    }

    /// The rank of the timer at `index`.
    pub(super) fn rank(&self, index: usize) -> Option<Rank> {
        self.cells.get(index).map(|cell| cell.rank)
    }

    /// Removes the timer at `index`.
    pub(super) fn remove(&mut self, index: usize, buffers: &mut Buffers<K>) {
        self.cells.set_live(index, false);
        self.live -= 1;
        if index == self.head || self.live == 0 {
            self.pass_holes(buffers);
        }
    }

    /// Puts a timer where it belongs in the order, if that is among the last; tells all who have moved. Says whether it did.
    #[inline]
    pub(super) fn insert(
        &mut self,
        store: &mut impl Store<K>,
        timer: Timer<K>,
        buffers: &mut Buffers<K>,
    ) -> bool {
        let last = self.cells.len();
        let mut at = last;
        while at > self.head && !follows(self.cells.get(at - 1), &timer) {
            at -= 1;
            if last - at > SHIFTED {
                return false;
            }
        }
        let (mut cell, mut is_live) = (timer, true);
        for index in at..last {
            if let Some(there) = self.cells.get_mut(index) {
                std::mem::swap(there, &mut cell);
            }
            is_live = self.cells.set_live(index, is_live);
        }
        self.cells.push(cell, buffers);
        self.cells.set_live(last, is_live);
        self.slack = self.slack.min(timer.rank.slack());
        self.live += 1;
        self.sorted = self.sorted.min(at);
        for (index, moved) in self.cells.live_from(at) {
            store.set_place(moved.key, Place { when: moved.when, index: index as u32 });
        }
        true
    }

    /// When the park has to end for these timers, if not before `most`; earlier where it would take long to find out.
    pub(super) fn wake(&self, mut most: Nanos) -> Nanos {
        for index in self.head..self.head + SEARCHED {
            let Some(cell) = self.cells.get(index).filter(|cell| cell.when < most) else { return most };
            if self.cells.is_live(index) {
                most = most.min(cell.wake());
            }
        }
        let rest = self.cells.get(self.head + SEARCHED);
        rest.map_or(most, |cell| most.min(cell.when.saturating_add_nanos(self.slack.as_nanos())))
    }

    /// The last time up to `most` at which a timer is due, if one is by then; `most` where it would take long to find out.
    pub(super) fn last_until(&self, most: Nanos) -> Option<Nanos> {
        if let Some(last) = self.cells.last().filter(|last| last.when <= most) {
            return Some(last.when);
        }
        let mut found = None;
        for index in self.head..self.head + SEARCHED {
            match self.cells.get(index) {
                Some(cell) if cell.when <= most && self.cells.is_live(index) => found = Some(cell.when),
                Some(cell) if cell.when <= most => {}
                _ => return found,
            }
        }
        Some(most)
    }

    /// All timers with their indices, in order.
    pub(super) fn timers(&self) -> impl Iterator<Item = (usize, Timer<K>)> {
        self.cells.live_from(self.head)
    }

    /// Moves the head over one cell; gives back the page that it leaves behind.
    #[inline]
    fn pass(&mut self, buffers: &mut Buffers<K>) {
        self.head += 1;
        if self.live == 0 {
            self.cells.clear(buffers);
            (self.head, self.sorted, self.slack) = (0, 0, Slack::MAX);
        } else {
            self.cells.release_page(self.head, buffers);
        }
    }

    /// Moves the head over holes, but not over many.
    #[cold]
    fn pass_holes(&mut self, buffers: &mut Buffers<K>) {
        for _ in 0..PASSED {
            if self.head >= self.cells.len() || self.cells.is_live(self.head) {
                return;
            }
            self.pass(buffers);
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

    /// Keeps the place of each key, and counts how often one was told.
    #[derive(Default)]
    struct Places {
        at: std::collections::BTreeMap<u64, Place>,
        told: usize,
    }

    impl Store<u64> for Places {
        fn set_place(&mut self, key: u64, place: Place) {
            self.told += 1;
            self.at.insert(key, place);
        }
        fn place(&self, key: u64) -> Place {
            self.at[&key]
        }
    }

    fn timer(when: u64, key: u64) -> Timer<u64> {
        Timer { when: Nanos::new(when), rank: Rank::new(key, Slack::ZERO), key }
    }

    #[test]
    fn a_timer_is_put_in_order_if_it_is_among_the_last() {
        let (mut store, mut buffers) = (Places::default(), Buffers::new());
        let mut run = Run::<u64, 2048>::new();
        for key in 0..100 {
            assert!(run.insert(&mut store, timer(key, key), &mut buffers));
        }
        store.told = 0;
        // Before so many it has room, and they are told; before one more it has not, and nothing is changed.
        assert!(run.insert(&mut store, timer(99 - SHIFTED as u64, 100), &mut buffers));
        assert_eq!((run.live(), store.told), (101, SHIFTED + 1));
        assert!(!run.insert(&mut store, timer(99 - SHIFTED as u64, 80), &mut buffers));
        assert_eq!((run.live(), store.told), (101, SHIFTED + 1));
        let mut left = Vec::new();
        while let Some(timer) = run.pop(&mut store, &mut buffers) {
            left.push(timer.order());
        }
        assert!(left.len() == 101 && left.is_sorted());
    }

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
