//! `Row`: the cells of a slot, in blocks of 64. A cell holds a [`Timer`] or is a hole.
//!
//! ```text
//!   row: first ───────── 64 bits, 64 cells      a set bit: the cell holds a timer
//!        list of more ┬─ 64 bits, 64 cells      a clear bit: a hole, or behind the end
//!                     └─ 64 bits, 64 cells
//! ```
//!
//! Rules:
//!
//! * A timer that is removed leaves a hole, so no other cell moves and the row keeps its order. To make a hole is to clear a bit in the
//!   list of blocks. The cell itself, which may be far away in memory, need not be touched; the list of a million timers takes 260 kB.
//! * Behind the end no bit is set. There are as many blocks as the cells need. A row without timers may have cells, until it is
//!   cleared.
//! * Cells can be consumed one by one from the front ([`Row::consume`]). A block whose last cell is consumed gives its memory back.
//! * A slot with one timer takes a whole block, 1.5 KiB. (With blocks of 32, to arm, cancel and fire a million took 1.05 to 1.1 times as
//!   long.)
//! * A cell takes 24 bytes. (With 16, and the rest kept by the owner, a sleep would take 16 more.)
//! * A cell is at most two steps away, however long the row is. Only two things are ever copied: the list as it grows, which takes
//!   less than a hundredth of the memory of the cells, and what is sorted.

use super::Rank;
use super::level::bits;
use super::pool::Pool;
use crate::Nanos;
use crate::prefetch::prefetch;

/// Cells in a block: one for each bit of a word.
pub(super) const BLOCK: usize = u64::BITS as usize;

/// A timer in the wheel. A hole still holds the one that left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer<K> {
    /// Its cached deadline: its owner may have moved the true one to a later time.
    pub(super) when: Nanos,
    pub(super) rank: Rank,
    pub(super) key: K,
}

impl<K> Timer<K> {
    #[inline]
    pub(super) fn order(&self) -> (Nanos, Rank) {
        (self.when, self.rank)
    }

    /// When the park has to end for it.
    #[inline]
    pub(super) fn wake(&self) -> Nanos {
        self.when.latest_wake(self.rank.slack().as_nanos())
    }
}

/// The cells of a block.
pub(super) type Cells<K> = Box<[Timer<K>; BLOCK]>;

/// Which of 64 cells hold timers, and where they are.
#[derive(Debug)]
pub(super) struct Block<K> {
    live: u64,
    /// `None`: they have been given back.
    cells: Option<Cells<K>>,
}

impl<K> Block<K> {
    const NONE: Block<K> = Block { live: 0, cells: None };

    pub(super) fn new(cells: Cells<K>) -> Block<K> {
        Block { live: 0, cells: Some(cells) }
    }
}

/// A row of cells.
#[derive(Debug)]
pub(super) struct Row<K> {
    first: Block<K>,
    more: Vec<Block<K>>,
    len: u32,
    live: u32,
}

impl<K: Copy> Row<K> {
    pub(super) const fn new() -> Row<K> {
        Row { first: Block::NONE, more: Vec::new(), len: 0, live: 0 }
    }

    /// How many cells there are, including holes and consumed ones.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// For how many blocks its list has room.
    pub(super) fn listed(&self) -> usize {
        self.more.capacity()
    }

    /// How many timers there are.
    #[inline]
    pub(super) fn live(&self) -> usize {
        self.live as usize
    }

    /// The cell at `index`, which may be a hole.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&Timer<K>> {
        if index >= self.len() {
            return None;
        }
        self.block(index / BLOCK)?.cells.as_ref().map(|cells| &cells[index % BLOCK])
    }

    /// The last cell, which may be a hole.
    #[inline]
    pub(super) fn last(&self) -> Option<&Timer<K>> {
        self.get(self.len().wrapping_sub(1))
    }

    /// The timer at `index`, if one is there.
    #[inline]
    pub(super) fn live_at(&self, index: usize) -> Option<&Timer<K>> {
        let block = self.block(index / BLOCK).filter(|block| block.live & bit(index) != 0)?;
        block.cells.as_ref().map(|cells| &cells[index % BLOCK])
    }

    /// The timer at `index`, if it is that of `key`.
    #[inline]
    pub(super) fn at(&self, index: usize, key: K) -> Option<&Timer<K>>
    where
        K: Eq,
    {
        self.live_at(index).filter(|timer| timer.key == key)
    }

    /// The same, mutable.
    #[inline]
    pub(super) fn at_mut(&mut self, index: usize, key: K) -> Option<&mut Timer<K>>
    where
        K: Eq,
    {
        let block = self.block_mut(index / BLOCK).filter(|block| block.live & bit(index) != 0)?;
        let cell = block.cells.as_mut().map(|cells| &mut cells[index % BLOCK]);
        cell.filter(|timer| timer.key == key)
    }

    /// Prefetches the cell at `index`.
    #[inline]
    pub(super) fn prefetch(&self, index: usize) {
        if let Some(Block { cells: Some(cells), .. }) = self.block(index / BLOCK) {
            prefetch(&raw const cells[index % BLOCK]);
        }
    }

    /// Whether the cells of the full block with this number are in order, holes included.
    pub(super) fn is_in_order(&self, number: usize) -> bool {
        let cells = self.block(number).and_then(|block| block.cells.as_ref());
        cells.is_some_and(|cells| cells.is_sorted_by_key(Timer::order))
    }

    /// The index of the first timer at `from` or behind it.
    #[inline]
    pub(super) fn next_live(&self, from: usize) -> Option<usize> {
        let mut number = from / BLOCK;
        let mut bits = self.bits(number) & !(bit(from) - 1);
        while bits == 0 {
            number += 1;
            bits = self.block(number)?.live;
        }
        Some(number * BLOCK + bits.trailing_zeros() as usize)
    }

    /// The timers at `index` and behind it, with their indices.
    pub(super) fn live_from(&self, index: usize) -> impl Iterator<Item = (usize, Timer<K>)> {
        let indices = std::iter::successors(self.next_live(index), |index| self.next_live(index + 1));
        indices.filter_map(|index| Some((index, *self.live_at(index)?)))
    }

    /// Puts a timer behind the last cell, if no new block is needed and `allows` says yes to the last cell. Returns whether it did.
    #[inline]
    pub(super) fn push_if(&mut self, timer: Timer<K>, allows: impl FnOnce(&Timer<K>) -> bool) -> bool {
        let index = self.len() % BLOCK;
        match self.more.last_mut().or(Some(&mut self.first)) {
            Some(Block { live, cells: Some(cells) }) if index > 0 && allows(&cells[index - 1]) => {
                cells[index] = timer;
                *live |= bit(index);
                self.len += 1;
                self.live += 1;
                true
            }
            _ => false,
        }
    }

    /// Puts a timer behind the last cell.
    #[inline(always)]
    pub(super) fn push(&mut self, timer: Timer<K>, pool: &mut Pool<K>) {
        let index = self.len();
        if index % BLOCK == 0 {
            let block = pool.block(timer);
            if index == 0 { self.first = block } else { pool.list(&mut self.more, block) }
        }
        self.len += 1;
        self.fill(index, timer);
    }

    /// Puts a timer into the hole at `index`.
    #[inline]
    pub(super) fn fill(&mut self, index: usize, timer: Timer<K>) {
        if let Some(Block { live, cells: Some(cells) }) = self.block_mut(index / BLOCK) {
            cells[index % BLOCK] = timer;
            *live |= bit(index);
            self.live += 1;
        }
    }

    /// Puts a timer into the first hole of the block with this number. Returns its index.
    #[inline]
    pub(super) fn fill_in(&mut self, number: usize, timer: Timer<K>) -> Option<usize> {
        let cells = self.len().saturating_sub(number * BLOCK);
        let Some(Block { live, cells: Some(block) }) = self.block_mut(number) else { return None };
        let holes = !*live & ones(cells);
        let index = holes.trailing_zeros() as usize;
        *block.get_mut(index)? = timer;
        *live |= bit(index);
        self.live += 1;
        Some(number * BLOCK + index)
    }

    /// Removes the timer at `index`, if there is one, and if it is that of `key` where a key is given. Returns whether it did.
    #[inline]
    pub(super) fn remove(&mut self, index: usize, key: Option<K>) -> bool
    where
        K: Eq,
    {
        let Some(block) = self.block_mut(index / BLOCK) else { return false };
        let is = |key| block.cells.as_ref().is_some_and(|cells| cells[index % BLOCK].key == key);
        // A branch and no arithmetic, so that the stores below, which the next removal reads, do not wait for the cell.
        if block.live & bit(index) == 0 || !key.is_none_or(is) {
            return false;
        }
        block.live &= !bit(index);
        self.live -= 1;
        true
    }

    /// Consumes the cell at `index`, the first that is not consumed yet. Returns its timer, if it holds one.
    #[inline]
    pub(super) fn consume(&mut self, index: usize, pool: &mut Pool<K>) -> Option<Timer<K>> {
        let block = self.block_mut(index / BLOCK)?;
        let cells = block.cells.as_ref().filter(|_| block.live & bit(index) != 0);
        let removed = cells.map(|cells| cells[index % BLOCK]);
        block.live &= !bit(index);
        if (index + 1) % BLOCK == 0 {
            pool.give_back(block.cells.take());
        }
        self.live -= u32::from(removed.is_some());
        removed
    }

    /// Consumes the holes from `index` on, up to the next timer in the same block or to the end of the block. Returns the index of the
    /// cell behind them.
    pub(super) fn skip(&mut self, index: usize, pool: &mut Pool<K>) -> usize {
        let rest = self.bits(index / BLOCK) >> (index % BLOCK);
        if rest != 0 {
            return index + rest.trailing_zeros() as usize;
        }
        if let Some(block) = self.block_mut(index / BLOCK) {
            pool.give_back(block.cells.take());
        }
        (index / BLOCK + 1) * BLOCK
    }

    /// Removes the holes at the end, of two blocks at the most.
    #[inline]
    pub(super) fn trim(&mut self, pool: &mut Pool<K>) {
        for _ in 0..2 {
            let last = self.more.last().unwrap_or(&self.first);
            let cells = BLOCK - last.live.leading_zeros() as usize;
            self.truncate(self.more.len() * BLOCK + cells, pool);
        }
    }

    /// Removes all cells from `len` on, which must be holes.
    pub(super) fn truncate(&mut self, len: usize, pool: &mut Pool<K>) {
        while self.more.len() * BLOCK >= len.max(1) {
            pool.give_back(self.more.pop().and_then(|block| block.cells));
        }
        if self.more.is_empty() && self.more.capacity() > 0 {
            pool.give_list_back(std::mem::take(&mut self.more));
        }
        self.len = len as u32;
    }

    /// Removes all cells.
    #[inline]
    pub(super) fn clear(&mut self, pool: &mut Pool<K>) {
        if self.more.capacity() > 0 {
            self.truncate(0, pool);
        }
        pool.give_back(self.first.cells.take());
        (self.first.live, self.len, self.live) = (0, 0, 0);
    }

    /// Removes the holes, and puts the timers in order.
    pub(super) fn sort(&mut self, pool: &mut Pool<K>) {
        pool.sort(|pool, sorted| {
            sorted.reserve(self.live as usize);
            for block in std::iter::once(&self.first).chain(&self.more) {
                let cells = block.cells.iter();
                sorted.extend(cells.flat_map(|cells| bits(block.live).map(|index| cells[index % BLOCK])));
            }
            sorted.sort_unstable_by_key(Timer::order);
            self.truncate(sorted.len(), pool);
            let blocks = std::iter::once(&mut self.first).chain(&mut self.more);
            for (block, timers) in blocks.zip(sorted.chunks(BLOCK)) {
                block.live = ones(timers.len());
                block.cells.iter_mut().for_each(|cells| cells[..timers.len()].copy_from_slice(timers));
            }
        });
    }

    /// The bits of the block with this number.
    #[inline]
    fn bits(&self, number: usize) -> u64 {
        self.block(number).map_or(0, |block| block.live)
    }

    #[inline]
    fn block(&self, number: usize) -> Option<&Block<K>> {
        if number == 0 { Some(&self.first) } else { self.more.get(number - 1) }
    }

    #[inline]
    fn block_mut(&mut self, number: usize) -> Option<&mut Block<K>> {
        if number == 0 { Some(&mut self.first) } else { self.more.get_mut(number - 1) }
    }
}

/// The bit of the cell at `index`, in its block.
#[inline]
fn bit(index: usize) -> u64 {
    1 << (index % BLOCK)
}

/// The bits of the first `count` cells of a block.
#[inline]
fn ones(count: usize) -> u64 {
    if count < BLOCK { bit(count) - 1 } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slack::Slack;

    fn timer(key: usize) -> Timer<usize> {
        Timer { when: Nanos::new(1), rank: Rank::new(key as u64, Slack::ZERO), key }
    }

    fn row(keys: impl Iterator<Item = usize>, pool: &mut Pool<usize>) -> Row<usize> {
        let mut row = Row::new();
        keys.for_each(|key| row.push(timer(key), pool));
        row
    }

    fn keys(row: &Row<usize>) -> Vec<usize> {
        row.live_from(0).map(|(_, timer)| timer.key).collect()
    }

    #[test]
    fn a_row_is_cut_off_at_any_length() {
        let mut pool = Pool::new();
        for len in [0, 1, 63, 64, 65, 127, 128, 129, 199, 200] {
            let mut row = row(0..200, &mut pool);
            assert!((len..200).all(|index| row.remove(index, None)));
            row.truncate(len, &mut pool);
            assert_eq!(
                (row.len(), row.live(), row.last().map(|last| last.key)),
                (len, len, len.checked_sub(1))
            );
            assert_eq!(keys(&row), Vec::from_iter(0..len));
            // It goes on from there.
            row.push(timer(1_000), &mut pool);
            assert!(row.at(len, 1_000).is_some() && row.at(len, 0).is_none() && row.len() == len + 1);
            assert!(row.at_mut(len, 0).is_none() && row.at_mut(len + 1, 1_000).is_none());
            row.at_mut(len, 1_000).into_iter().for_each(|timer| timer.key = 2_000);
            assert!(row.at(len, 2_000).is_some());
            row.clear(&mut pool);
            assert_eq!((row.len(), row.live(), row.get(0).is_none()), (0, 0, true));
        }
    }

    #[test]
    fn holes_at_the_end_are_cut_off_two_blocks_at_a_time() {
        let mut pool = Pool::new();
        let mut row = row(0..400, &mut pool);
        assert!((100..400).all(|index| row.remove(index, None)));
        for len in [320, 192, 100, 100] {
            row.trim(&mut pool);
            assert_eq!((row.len(), row.live()), (len, 100));
        }
    }

    #[test]
    fn a_timer_is_put_behind_the_last_where_there_is_room_and_it_is_allowed() {
        let mut pool = Pool::new();
        for len in [0, 1, 63, 64, 65, 127, 128] {
            let mut row = row(0..len, &mut pool);
            let has_room = len % BLOCK != 0;
            assert!(!row.push_if(timer(len), |last| last.key + 1 != len) && row.len() == len);
            assert_eq!(row.push_if(timer(len), |last| last.key + 1 == len), has_room);
            assert_eq!(keys(&row), Vec::from_iter(0..len + usize::from(has_room)));
        }
    }

    #[test]
    fn a_bit_tells_a_timer_from_a_hole() {
        let mut pool = Pool::new();
        let mut row = row(0..200, &mut pool);
        let holes = [0, 1, 63, 64, 100, 127, 128, 191, 192, 198];
        assert!(holes.iter().all(|&index| !row.remove(index, Some(1_000)) && row.remove(index, Some(index))));
        assert!(holes.iter().all(|&index| !row.remove(index, None)), "they were holes");
        assert!(
            holes.iter().all(|&index| row.at(index, index).is_none() && row.at_mut(index, index).is_none())
        );
        assert!(!row.remove(200, None) && !row.remove(1_000, None), "they lie behind the end");
        assert_eq!(keys(&row), (0..200).filter(|index| !holes.contains(index)).collect::<Vec<_>>());
        assert!((0..1_000).all(|i| row.live_at(i).is_some() == (i < 200 && !holes.contains(&i))));
        // The first of a block is filled first, and when there is none any more, nothing is; nor behind the end.
        for &index in &holes {
            assert_eq!(row.fill_in(index / BLOCK, timer(index)), Some(index));
        }
        assert!((0..5).all(|block| row.fill_in(block, timer(0)).is_none()));
        assert_eq!((keys(&row), row.live()), (Vec::from_iter(0..200), 200));
    }

    #[test]
    fn what_is_left_is_put_in_order() {
        let mut pool = Pool::new();
        let mut row = row((0..160).rev(), &mut pool);
        (0..160).filter(|index| index % 3 != 0).for_each(|index| _ = row.remove(index, None));
        row.sort(&mut pool);
        assert_eq!(keys(&row), (0..160).filter(|key| key % 3 == 0).collect::<Vec<_>>());
        assert_eq!((row.len(), row.live(), row.next_live(54)), (54, 54, None));
    }

    #[test]
    fn to_give_memory_back_allocates_nothing() {
        let mut pool = Pool::new();
        let mut rows: Vec<_> = (0..100).map(|_| row(0..300, &mut pool)).collect();
        let bytes = |pool: &Pool<usize>, rows: &[Row<usize>]| {
            pool.allocated_bytes(rows.iter().map(Row::listed).sum())
        };
        let allocated = bytes(&pool, &rows);
        rows.iter_mut().for_each(|row| row.clear(&mut pool));
        assert_eq!(bytes(&pool, &rows), allocated);
        // All of it serves the next rows.
        rows.iter_mut().for_each(|row| (0..300).for_each(|key| row.push(timer(key), &mut pool)));
        assert_eq!(bytes(&pool, &rows), allocated);
    }

    #[test]
    fn a_block_gives_its_cells_back_when_the_last_one_is_consumed() {
        let mut pool = Pool::new();
        let mut passing = row(0..300, &mut pool);
        assert!(passing.remove(10, None));
        let allocated = pool.allocated_bytes(passing.listed());
        for key in 0..128 {
            assert_eq!(passing.consume(key, &mut pool).map(|timer| timer.key), (key != 10).then_some(key));
        }
        assert_eq!((passing.live(), keys(&passing)[0]), (172, 128));
        assert!(passing.get(127).is_none());
        // Two blocks: they serve another row.
        let used = row(0..64, &mut pool);
        let more = row(0..64, &mut pool);
        assert_eq!((pool.allocated_bytes(passing.listed()), used.len() + more.len()), (allocated, 128));
    }
}
