//! `Slot`: the timers that are due within one slot's time, and what is known of all of them.
//!
//! Rules:
//!
//! * A slot without timers has no cells and no memory. It is in order, and its bounds enclose nothing.
//! * `ordered` says that the live cells lie in the order of (deadline, sequence number), and that a hole is not due after the
//!   live cells behind it. So a crowd that was armed in order stays so while some of it is cancelled.
//! * The bounds enclose the truth: no cell is due before `earliest` or after `latest`, none wants the park to end
//!   before `wake`, and none has less slack than `slack`.
//! * A removal leaves a hole, unless it is the last cell that goes. A slot that has lost its order fills its holes while a third of
//!   its cells are some, one after the other: `near` is the word of the bits in which it looks first, and goes round. (Were they
//!   fewer, each would lie elsewhere in memory.) None is filled while the row is being compacted, which would cut it off.
//! * Of a row's cells at least a quarter are live, but for a few: beyond that a row of one page is compacted at once, a longer one some
//!   cells now and then, until it is so again. Compaction keeps the order.

use super::buffers::Buffers;
use super::cells::{Cells, Compaction, Timer, WORD};
use super::{Place, Slack, Store};
use crate::Nanos;

/// A row with so many times as many cells as timers is compacted.
const SPARSE: usize = 4;
/// So many cells more are no reason to.
pub(super) const HOLES: usize = 32;
/// A row of several pages is compacted by so many cells at a time.
const COMPACTED: usize = 512;
/// That is done each time that so many holes have been left.
pub(super) const LEFT: usize = 32;
/// Owners so many timers ahead are fetched into the cache.
pub(super) const AHEAD: usize = 12;
/// So many holes at the end are removed with the last cell.
const TRAILING: usize = 64;
/// So many words of the bits are searched for a hole.
const WORDS: usize = 2;
/// At most so many cells are looked at to find out how long a park may last.
pub(super) const SEARCHED: usize = 64;

/// The timers of a slot. Others read it, and change nothing but through its functions.
#[derive(Debug)]
pub(super) struct Slot<K, const PAGE: usize> {
    pub(super) cells: Cells<K, PAGE>,
    /// No cell is due before this.
    pub(super) earliest: Nanos,
    /// No cell is due after this.
    pub(super) latest: Nanos,
    /// No cell wants the park to end before this.
    pub(super) wake: Nanos,
    live: u32,
    /// In this word of the bits a hole is looked for first.
    near: u32,
    /// No cell has less.
    pub(super) slack: Slack,
    pub(super) ordered: bool,
}

impl<K: Copy + Eq, const PAGE: usize> Slot<K, PAGE> {
    pub(super) const fn new() -> Slot<K, PAGE> {
        Slot {
            cells: Cells::new(),
            earliest: Nanos::NEVER,
            latest: Nanos::ZERO,
            wake: Nanos::NEVER,
            live: 0,
            near: 0,
            slack: Slack::MAX,
            ordered: true,
        }
    }

    /// How many timers wait in it.
    #[inline]
    pub(super) fn live(&self) -> usize {
        self.live as usize
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Whether nothing is left of the timers that were in it.
    pub(super) fn is_as_new(&self) -> bool {
        self.ordered && (self.earliest, self.latest) == (Nanos::NEVER, Nanos::ZERO) && self.cells.len() == 0
    }

    /// Whether it is sorted as it is opened: it is out of order, and fills no more than a page.
    pub(super) fn is_to_be_sorted(&self) -> bool {
        !self.ordered && self.cells.is_one_page()
    }

    /// Puts a timer behind the last one, if that needs no memory, loses no order and no hole is to be filled instead, and tells its
    /// owner. Says how many there are then. It calls nothing.
    #[inline]
    pub(super) fn push_at_once(&mut self, store: &mut impl Store<K>, timer: Timer<K>) -> Option<u32> {
        let is_behind = if self.ordered { self.follow(&timer) } else { !self.has_many_holes() };
        if !is_behind || !self.cells.has_room() {
            return None;
        }
        let index = self.cells.len();
        self.cells.push_within(timer);
        self.admit(store, &timer, index);
        Some(self.live)
    }

    /// Puts a timer behind the last one or in a hole, and tells its owner.
    #[inline]
    pub(super) fn push(&mut self, store: &mut impl Store<K>, timer: Timer<K>, buffers: &mut Buffers<K>) {
        self.ordered = self.ordered && self.follow(&timer);
        let hole = if self.ordered { None } else { self.hole() };
        let index = hole.unwrap_or(self.cells.len());
        assert!(index + PAGE < u32::MAX as usize, "about four thousand million timers in a slot");
        match hole {
            Some(hole) => self.cells.fill(hole, timer),
            None => self.cells.push(timer, buffers),
        }
        self.admit(store, &timer, index);
    }

    /// The timer has been put at `index`.
    #[inline]
    fn admit(&mut self, store: &mut impl Store<K>, timer: &Timer<K>, index: usize) {
        self.include(timer);
        self.live += 1;
        store.set_place(timer.key, Place { when: timer.when, index: index as u32 });
    }

    /// Whether a timer belongs behind the last cell, if those before are in order.
    #[inline]
    fn follow(&self, timer: &Timer<K>) -> bool {
        follows(self.cells.last(), timer)
    }

    #[inline]
    fn has_many_holes(&self) -> bool {
        3 * self.live() <= 2 * self.cells.len()
    }

    /// A hole that the next timer may take, in a slot that is out of order.
    fn hole(&mut self) -> Option<usize> {
        if !self.has_many_holes() || self.cells.is_being_compacted() {
            return None;
        }
        let words = self.cells.len().div_ceil(WORD) as u32;
        for _ in 0..words.min(WORDS as u32) {
            let hole = self.cells.hole_in(self.near as usize);
            if hole.is_some() {
                return hole;
            }
            self.near = if self.near + 1 < words { self.near + 1 } else { 0 };
        }
        None
    }

    /// Removes the timer at `index`, if there is one, and if it is that of `key`, if one is given: leaves a hole, or shortens the
    /// row. Says whether it did. Then the slot may be [untidy](Slot::is_untidy).
    #[inline]
    pub(super) fn remove(&mut self, index: u32, key: Option<K>, buffers: &mut Buffers<K>) -> bool {
        let index = index as usize;
        let is_other = |key| self.cells.get(index).is_none_or(|cell| cell.key != key);
        if key.is_some_and(is_other) || !self.cells.set_live(index, false) {
            return false;
        }
        self.live -= 1;
        // Of the last timer nothing is left in the end.
        if index + 1 == self.cells.len() && self.live > 0 {
            self.pop_holes(buffers);
        }
        true
    }

    /// Whether it is to be [tidied](Slot::tidy), now that one more timer has left.
    #[inline]
    pub(super) fn is_untidy(&self) -> bool {
        self.live == 0 || self.is_sparse() && (self.cells.is_one_page() || self.holes() % LEFT == 0)
    }

    #[inline]
    fn holes(&self) -> usize {
        self.cells.len() - self.live()
    }

    #[inline]
    fn is_sparse(&self) -> bool {
        self.cells.len() > SPARSE * self.live() + HOLES
    }

    /// Gives up the cells of a slot without timers, and compacts a row that has many holes.
    pub(super) fn tidy(&mut self, store: &mut impl Store<K>, buffers: &mut Buffers<K>) {
        if self.live == 0 {
            self.cells.clear(buffers);
            (self.earliest, self.latest) = (Nanos::NEVER, Nanos::ZERO);
            (self.wake, self.slack) = (Nanos::NEVER, Slack::MAX);
            (self.near, self.ordered) = (0, true);
        } else if self.is_sparse() {
            self.compact(store, buffers);
        }
    }

    /// Gives the timer of `key`, if it is at `index`, another deadline in this slot, and another slack. Says whether it was.
    #[inline]
    pub(super) fn edit(
        &mut self,
        store: &mut impl Store<K>,
        key: K,
        index: u32,
        when: Nanos,
        slack: Slack,
    ) -> bool {
        if self.cells.at(index as usize, key).is_none() {
            return false;
        }
        let Some(cell) = self.cells.get_mut(index as usize) else { return false };
        let timer = Timer { when, rank: cell.rank.with_slack(slack), key };
        *cell = timer;
        store.set_place(key, Place { when, index });
        if self.live == 1 {
            (self.earliest, self.latest) = (when, when);
            (self.wake, self.slack) = (timer.wake(), slack);
        } else {
            self.include(&timer);
        }
        self.ordered = self.cells.len() == 1;
        true
    }

    /// All cells; the slot is empty after it.
    pub(super) fn take(&mut self) -> Slot<K, PAGE> {
        std::mem::replace(self, Slot::new())
    }

    /// The last time up to `most` at which a cell of this slot is due, which has one that is due by then; `most` where it
    /// would take long to find out.
    pub(super) fn last_until(&self, most: Nanos) -> Nanos {
        if self.latest <= most || self.cells.len() > SEARCHED {
            return self.latest.min(most);
        }
        let due = self.cells.live_from(0).map(|(_, timer)| timer.when).filter(|when| *when <= most);
        due.max().unwrap_or(most)
    }

    /// All timers with their indices.
    pub(super) fn timers(&self) -> impl Iterator<Item = (usize, Timer<K>)> {
        self.cells.live_from(0)
    }

    /// Widens the bounds by a timer. Mostly it lies within, and then nothing is written: the fewer stores wait for memory, the more
    /// timers are filed meanwhile.
    #[inline]
    fn include(&mut self, timer: &Timer<K>) {
        let (when, wake, slack) = (timer.when, timer.wake(), timer.rank.slack());
        if (when < self.earliest) | (when > self.latest) | (wake < self.wake) | (slack < self.slack) {
            (self.earliest, self.latest) = (self.earliest.min(when), self.latest.max(when));
            (self.wake, self.slack) = (self.wake.min(wake), self.slack.min(slack));
        }
    }

    /// Removes the holes at the end, or some of them.
    #[inline(never)]
    fn pop_holes(&mut self, buffers: &mut Buffers<K>) {
        for _ in 0..TRAILING {
            match self.cells.len().checked_sub(1) {
                Some(last) if !self.cells.is_live(last) => self.cells.pop(buffers),
                _ => return,
            }
        }
    }

    /// Moves timers over holes: a few, or all of a short slot. The order stays.
    #[cold]
    fn compact(&mut self, store: &mut impl Store<K>, buffers: &mut Buffers<K>) {
        let Compaction { mut write, mut read } =
            self.cells.rest().and_then(|rest| rest.compaction).unwrap_or_default();
        let steps = if self.cells.is_one_page() { PAGE } else { COMPACTED };
        let end = self.cells.len().min(read + steps);
        let mut ahead = self.cells.next_live(read);
        (0..AHEAD).for_each(|_| ahead = self.fetch(store, ahead, end));
        while let Some(index) = self.cells.next_live(read).filter(|index| *index < end) {
            ahead = self.fetch(store, ahead, end);
            if index != write {
                let Some(&timer) = self.cells.get(index) else { break };
                self.cells.set_live(index, false);
                self.cells.fill(write, timer);
                store.set_place(timer.key, Place { when: timer.when, index: write as u32 });
            }
            write += 1;
            read = index + 1;
        }
        let is_done = end == self.cells.len();
        if let Some(rest) = self.cells.rest() {
            rest.compaction = (!is_done).then_some(Compaction { write, read: end });
        }
        if is_done {
            self.cells.truncate(write, buffers);
        }
    }

    /// Fetches the owner of the timer at `index`, if that is in front of `end`. Returns where the next timer is.
    fn fetch(&self, store: &mut impl Store<K>, index: Option<usize>, end: usize) -> Option<usize> {
        let index = index.filter(|index| *index < end)?;
        store.prefetch(self.cells.get(index)?.key);
        self.cells.next_live(index + 1)
    }
}

/// Whether a timer belongs behind the last cell of a row that is in order.
#[inline]
pub(super) fn follows<K: Copy>(last: Option<&Timer<K>>, timer: &Timer<K>) -> bool {
    last.is_none_or(|last| last.order() < timer.order())
}

#[cfg(test)]
mod tests {
    use super::super::{Rank, tests::Nowhere};
    use super::*;

    #[test]
    fn the_last_of_a_row_takes_the_holes_before_it_along() {
        let mut buffers = Buffers::new();
        for deadlines in [[10, 20, 30, 40], [10, 20, 40, 30]] {
            let mut slot = Slot::<usize, 8>::new();
            for (key, when) in deadlines.into_iter().enumerate() {
                let rank = Rank::new(key as u64, Slack::ZERO);
                slot.push(&mut Nowhere, Timer { when: Nanos::new(when), rank, key }, &mut buffers);
            }
            assert!([1, 2].into_iter().all(|index| slot.remove(index, None, &mut buffers)));
            assert_eq!((slot.live(), slot.cells.len()), (2, 4));
            assert!(!slot.remove(3, Some(0), &mut buffers) && slot.remove(3, Some(3), &mut buffers));
            assert_eq!((slot.live(), slot.cells.len()), (1, 1));
        }
    }
}
