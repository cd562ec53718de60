//! `Slot`: the timers that are due within one slot's time, and what is known of all of them.
//!
//! Rules:
//!
//! * A slot without timers has no cells and no memory.
//! * `ordered` says that the live cells lie in the order of (deadline, sequence number), and that a hole is not due after the
//!   live cells behind it. So a crowd that was armed in order stays so while some of it is cancelled.
//! * The bounds enclose the truth: no cell is due before `earliest` or after `latest`, none wants the park to end
//!   before `wake`, and none has less slack than `slack`.
//! * A removal leaves a hole, unless it is the last cell that goes. A slot that has lost its order puts the next timer into the
//!   hole that was made last: `free` leads there, and from hole to hole. It is `NONE` while the slot is ordered, and begins anew
//!   when cells are compacted.
//! * Of a row's cells at least a quarter are live, but for a few: beyond that a short row is compacted at once, a long one a few
//!   cells with each removal, until it is so again. Compaction keeps the order.

use super::cells::{Buffers, Cell, Cells, Compaction, Timer};
use super::{Place, Rank, Slack, Store};
use crate::Nanos;

/// No hole.
const NONE: u32 = u32::MAX;
/// A row with so many times as many cells as timers is compacted.
const SPARSE: usize = 4;
/// So many cells more are no reason to.
pub(super) const HOLES: usize = 32;
/// A long row is compacted by so many cells with each removal.
const COMPACTED: usize = 16;
/// So many holes at the end are removed with the last cell.
const TRAILING: usize = 64;
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
    /// The hole that the next timer takes. It names the next hole.
    free: u32,
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
            free: NONE,
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

    /// Whether it is sorted as it is opened: it is out of order, and fills no more than a page.
    pub(super) fn is_to_be_sorted(&self) -> bool {
        !self.ordered && self.cells.is_one_page()
    }

    /// Puts a timer behind the last one or in a hole, and tells its owner.
    #[inline]
    pub(super) fn push(&mut self, store: &mut impl Store<K>, timer: Timer<K>, buffers: &mut Buffers<K>) {
        if self.live == 0 {
            self.forget_bounds();
            self.ordered = true;
        } else {
            self.ordered = self.ordered && follows(self.cells.last(), &timer);
        }
        self.include(&timer);
        self.live += 1;
        let index = match self.cells.get_mut(self.free as usize).filter(|_| self.free != NONE) {
            Some(hole) => {
                let next = hole.when.get() as u32;
                *hole = timer.into_cell();
                std::mem::replace(&mut self.free, next)
            }
            None => {
                let end = self.cells.len();
                assert!(end < NONE as usize, "more than four thousand million timers in a slot");
                self.cells.push(timer.into_cell(), buffers);
                end as u32
            }
        };
        store.set_place(timer.key, Place { when: timer.when, index });
    }

    /// Removes the timer of `key`, if it is at `index`, and leaves a hole or shortens the row. Returns its rank. The slot is to be
    /// [tidied](Slot::tidy) afterwards.
    #[inline]
    pub(super) fn remove(&mut self, key: K, index: u32, buffers: &mut Buffers<K>) -> Option<Rank> {
        let last = self.cells.len().checked_sub(1) == Some(index as usize);
        let cell = self.cells.get_mut(index as usize).filter(|cell| cell.key == Some(key))?;
        let rank = cell.rank;
        self.live -= 1;
        if last {
            self.cells.pop(buffers);
            if self.ordered {
                self.pop_holes(buffers);
            }
            return Some(rank);
        }
        cell.key = None;
        if !self.ordered {
            cell.when = Nanos::new(self.free.into());
            self.free = index;
        }
        Some(rank)
    }

    /// Whether no timer is left, or many cells are holes.
    #[inline]
    pub(super) fn is_untidy(&self) -> bool {
        self.live == 0 || self.cells.len() > SPARSE * self.live() + HOLES
    }

    /// Gives up the cells of a slot without timers, and compacts a row that has many holes.
    #[inline]
    pub(super) fn tidy(&mut self, store: &mut impl Store<K>, buffers: &mut Buffers<K>) {
        if self.live == 0 {
            self.clear(buffers);
        } else if self.is_untidy() {
            self.compact(store, buffers);
        }
    }

    #[inline]
    fn clear(&mut self, buffers: &mut Buffers<K>) {
        self.free = NONE;
        self.cells.clear(buffers);
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
        let Some(cell) = self.cells.get_mut(index as usize).filter(|cell| cell.key == Some(key)) else {
            return false;
        };
        let timer = Timer { when, rank: cell.rank.with_slack(slack), key };
        *cell = timer.into_cell();
        store.set_place(key, Place { when, index });
        if self.live == 1 {
            self.forget_bounds();
        }
        self.ordered = self.cells.len() == 1;
        self.include(&timer);
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

    /// Whether `free` leads to holes and ends.
    pub(super) fn finds_holes(&self) -> bool {
        let mut next = self.free;
        (0..=self.cells.len()).any(|_| match self.cells.get(next as usize) {
            Some(hole) if next != NONE && hole.key.is_none() => {
                next = hole.when.get() as u32;
                false
            }
            _ => true,
        }) && next == NONE
    }

    #[inline]
    fn forget_bounds(&mut self) {
        (self.earliest, self.latest) = (Nanos::NEVER, Nanos::ZERO);
        (self.wake, self.slack) = (Nanos::NEVER, Slack::MAX);
    }

    /// Widens the bounds by a timer.
    #[inline]
    fn include(&mut self, timer: &Timer<K>) {
        self.earliest = self.earliest.min(timer.when);
        self.latest = self.latest.max(timer.when);
        self.wake = self.wake.min(timer.wake());
        self.slack = self.slack.min(timer.rank.slack());
    }

    /// Removes the holes at the end, or some of them; and all, if there is nothing else.
    #[inline]
    fn pop_holes(&mut self, buffers: &mut Buffers<K>) {
        if self.live == 0 {
            return self.cells.clear(buffers);
        }
        for _ in 0..TRAILING {
            match self.cells.last() {
                Some(Cell { key: None, .. }) => self.cells.pop(buffers),
                _ => break,
            };
        }
    }

    /// Moves live cells over holes: a few, or all of a short slot. The order stays.
    #[cold]
    fn compact(&mut self, store: &mut impl Store<K>, buffers: &mut Buffers<K>) {
        let steps = if self.cells.is_one_page() { PAGE } else { COMPACTED };
        let len = self.cells.len();
        // Holes are going to be filled, and to be cut off.
        self.free = NONE;
        let Compaction { mut write, mut read } =
            self.cells.rest().and_then(|rest| rest.compaction).unwrap_or_default();
        for _ in 0..steps {
            let Some(cell) = self.cells.get(read) else { break };
            if let Some(timer) = cell.timer() {
                if read != write {
                    if let Some(from) = self.cells.get_mut(read) {
                        from.key = None;
                    }
                    if let Some(to) = self.cells.get_mut(write) {
                        *to = timer.into_cell();
                    }
                    store.set_place(timer.key, Place { when: timer.when, index: write as u32 });
                }
                write += 1;
            }
            read += 1;
        }
        let done = read == len;
        if let Some(rest) = self.cells.rest() {
            rest.compaction = (!done).then_some(Compaction { write, read });
        }
        if done {
            self.cells.truncate(write, buffers);
        }
    }
}

/// Whether a timer belongs behind the last cell of a row that is in order.
#[inline]
pub(super) fn follows<K: Copy>(last: Option<&Cell<K>>, timer: &Timer<K>) -> bool {
    last.is_none_or(|last| last.order() < timer.order())
}

#[cfg(test)]
mod tests {
    use super::super::tests::Nowhere;
    use super::*;

    #[test]
    fn the_last_of_a_row_in_order_takes_the_holes_before_it_along() {
        let mut buffers = Buffers::new();
        for (deadlines, expected) in [([10, 20, 30, 40], 1), ([10, 20, 40, 30], 3)] {
            let mut slot = Slot::<usize, 8>::new();
            for (key, when) in deadlines.into_iter().enumerate() {
                let rank = Rank::new(key as u64, Slack::ZERO);
                slot.push(&mut Nowhere, Timer { when: Nanos::new(when), rank, key }, &mut buffers);
            }
            assert!(slot.remove(1, 1, &mut buffers).is_some() && slot.remove(2, 2, &mut buffers).is_some());
            assert!(slot.remove(3, 2, &mut buffers).is_none(), "it lies at the end");
            assert!(slot.remove(2, 3, &mut buffers).is_none(), "another lies at the end");
            assert!(slot.remove(3, 3, &mut buffers).is_some());
            // What has lost its order has its holes in a list, where they stay.
            assert_eq!((slot.live(), slot.cells.len()), (1, expected));
            assert!(slot.finds_holes());
        }
    }
}
