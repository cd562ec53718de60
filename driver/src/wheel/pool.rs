//! `Pool`: memory that rows no longer need, for the next rows.
//!
//! Rules:
//!
//! * In a steady state nothing is allocated: what a row gives back, another takes. What was not needed during two whole windows of
//!   time is freed, a little at each call of [`Pool::release_some`].
//! * Giving back never allocates: the free lists have room for everything that was made.

use super::row::{BLOCK, Block, Cells, Timer};
use crate::Nanos;

/// A window is two to this many nanoseconds: about a second.
const WINDOW_BITS: u32 = 30;
/// So many blocks, and so many lists, however long, are never freed. (A list for a million timers takes 260 kB.)
const KEPT: usize = 16;
/// So many blocks that are free, and more, are worth a wake-up.
const MANY: usize = 256;
/// Cells of the longest row that is sorted at once.
pub(super) const LONGEST: usize = 2048;
/// A buffer to sort so many timers in is never freed.
const KEPT_SORTER: usize = KEPT * BLOCK;
/// A list is made with room for so many blocks, because the length of the row that takes it next is not known.
const LISTED: usize = 32;
/// At most so many of each kind are freed in one call.
const FREED: usize = 32;

/// What rows are made of.
#[derive(Debug)]
pub(super) struct Pool<K> {
    cells: Spare<Cells<K>>,
    lists: Spare<Vec<Block<K>>>,
    /// A buffer to sort timers in, as long as the longest row that was sorted, and in which window that was.
    sorter: Vec<Timer<K>>,
    sorted: u64,
    window: u64,
}

impl<K> Pool<K> {
    pub(super) const fn new() -> Pool<K> {
        Pool { cells: Spare::new(), lists: Spare::new(), sorter: Vec::new(), sorted: 0, window: 0 }
    }

    /// A block whose first cell is going to hold `timer`.
    #[inline]
    pub(super) fn block(&mut self, timer: Timer<K>) -> Block<K>
    where
        K: Copy,
    {
        Block::new(self.cells.take().unwrap_or_else(|| self.make(timer)))
    }

    #[cold]
    #[inline(never)]
    fn make(&mut self, timer: Timer<K>) -> Cells<K>
    where
        K: Copy,
    {
        self.cells.count(Box::new([timer; BLOCK]))
    }

    /// Appends a block to a list.
    pub(super) fn list(&mut self, blocks: &mut Vec<Block<K>>, block: Block<K>) {
        if blocks.capacity() == 0 {
            *blocks = self.lists.take().unwrap_or_else(|| self.lists.count(Vec::with_capacity(LISTED)));
        }
        blocks.push(block);
    }

    /// Takes back the cells of a block, unless it has given them back already.
    #[inline]
    pub(super) fn give_back(&mut self, cells: Option<Cells<K>>) {
        if let Some(cells) = cells {
            self.cells.free.push(cells);
        }
    }

    /// Takes back the list of a row, which must be empty.
    #[inline]
    pub(super) fn give_list_back(&mut self, blocks: Vec<Block<K>>) {
        debug_assert!(blocks.is_empty(), "a list has blocks still");
        self.lists.free.push(blocks);
    }

    /// Calls `sort` with an empty vector.
    pub(super) fn sort(&mut self, sort: impl FnOnce(&mut Pool<K>, &mut Vec<Timer<K>>)) {
        let mut sorter = std::mem::take(&mut self.sorter);
        sort(self, &mut sorter);
        sorter.clear();
        (self.sorter, self.sorted) = (sorter, self.window);
    }

    /// Frees a little of the memory that a burst needed.
    #[inline]
    pub(super) fn release_some(&mut self, now: Nanos) {
        let window = now.get() >> WINDOW_BITS;
        if window != self.window {
            self.window = window;
            self.cells.end_window();
            self.lists.end_window();
            if self.sorter.capacity() > KEPT_SORTER && window > self.sorted + 2 {
                self.sorter = Vec::new();
            }
        }
        if self.surplus() > 0 {
            self.release();
        }
    }

    /// How much is yet to be freed.
    #[inline]
    pub(super) fn surplus(&self) -> usize {
        self.cells.surplus + self.lists.surplus
    }

    /// Whether so much is free that a thread which sleeps should wake up to have it freed.
    #[inline]
    pub(super) fn is_large(&self) -> bool {
        self.cells.free.len() >= MANY
    }

    #[cold]
    fn release(&mut self) {
        let cells = self.cells.release().map(drop).count();
        self.lists.release().for_each(drop);
        if cells > 0 {
            // glibc merges freed chunks at the next request that is not small. Now there are few; later it would merge all of them at
            // once (0.5 ms after a million timers).
            drop(std::hint::black_box(Vec::<Timer<K>>::with_capacity(3 * BLOCK)));
        }
    }

    /// Bytes of everything that was made, including what is in use, if the lists in use have room for so many blocks.
    pub(super) fn allocated_bytes(&self, listed: usize) -> usize {
        let listed = listed + self.lists.free.iter().map(Vec::capacity).sum::<usize>();
        let spare = self.cells.free.capacity() * size_of::<Cells<K>>()
            + self.lists.free.capacity() * size_of::<Vec<Block<K>>>();
        let cells = self.cells.made * BLOCK + self.sorter.capacity();
        cells * size_of::<Timer<K>>() + listed * size_of::<Block<K>>() + spare
    }
}

/// Things of one kind that are free.
#[derive(Debug)]
struct Spare<T> {
    /// It has room for all that were made.
    free: Vec<T>,
    /// How many there are, including those in use.
    made: usize,
    /// So many were free at all times in this window, and in the one before.
    low: usize,
    last_low: usize,
    /// How many are to be freed.
    surplus: usize,
}

impl<T> Spare<T> {
    const fn new() -> Spare<T> {
        Spare { free: Vec::new(), made: 0, low: 0, last_low: 0, surplus: 0 }
    }

    #[inline]
    fn take(&mut self) -> Option<T> {
        let taken = self.free.pop();
        self.low = self.low.min(self.free.len());
        taken
    }

    /// Counts one more that has been made, because none was free.
    #[cold]
    fn count<M>(&mut self, made: M) -> M {
        self.made += 1;
        self.free.reserve(self.made);
        made
    }

    fn end_window(&mut self) {
        self.surplus = self.low.min(self.last_low).saturating_sub(KEPT);
        (self.last_low, self.low) = (self.low, self.free.len());
    }

    /// Removes some of the surplus.
    fn release(&mut self) -> impl Iterator<Item = T> {
        self.surplus = self.surplus.min(self.low);
        let count = self.surplus.min(FREED);
        self.surplus -= count;
        self.low = self.low.saturating_sub(count);
        self.last_low = self.last_low.saturating_sub(count);
        self.made -= count;
        if self.free.capacity() > 4 * self.made + 64 {
            self.free.shrink_to(2 * self.made);
        }
        self.free.drain(self.free.len() - count..)
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::Row;
    use super::super::{Rank, Slack};
    use super::*;

    #[test]
    fn what_two_windows_did_not_need_is_freed_a_little_at_a_time() {
        let mut pool = Pool::new();
        let fill = |row: &mut Row<usize>, pool: &mut Pool<usize>, count: usize| {
            (0..count).for_each(|key| {
                row.push(Timer { when: Nanos::ZERO, rank: Rank::new(0, Slack::ZERO), key }, pool)
            });
        };
        let mut rows: Vec<Row<usize>> = (0..100).map(|_| Row::new()).collect();
        rows.iter_mut().for_each(|row| fill(row, &mut pool, BLOCK + 1));
        rows[0].sort(&mut pool);
        pool.sort(|_, sorter| sorter.reserve(LONGEST));
        assert_eq!((pool.cells.made, pool.lists.made, pool.sorter.capacity()), (200, 100, LONGEST));
        // From now on 170 blocks are in use, and no list.
        rows.iter_mut().for_each(|row| row.clear(&mut pool));
        rows.resize_with(170, Row::new);
        rows.iter_mut().for_each(|row| fill(row, &mut pool, 1));
        let mut made = vec![];
        for window in 0..5 {
            for step in 0..5 {
                pool.release_some(Nanos::new((window << WINDOW_BITS) + step));
                made.push((pool.cells.made, pool.lists.made, pool.sorter.capacity()));
            }
        }
        made.dedup();
        // They end with sixteen of each kind that are free.
        assert_eq!(made, [(200, 100, LONGEST), (186, 68, 0), (186, 36, 0), (186, 16, 0)]);
        assert!(pool.lists.free.iter().all(|list| list.capacity() == LISTED));
        assert_eq!(pool.cells.surplus + pool.lists.surplus, 0);
    }
}
