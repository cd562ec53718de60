//! `Cells`: what waits in a slot, in one row of [`Cell`]s; and [`Buffers`], the memory of the rows, which goes from slot to slot.
//!
//! Rules:
//!
//! * A page has `PAGE` cells, which is a power of two.
//! * A cell that was cancelled leaves a hole, so no other cell moves and the row keeps its order.
//! * A cell has 24 bytes. (With 16, and the rest with the owner, a sleep would have 16 bytes more.)
//! * The last page grows by doubling until it is full; then the next begins. So what is put in and taken out at the end is
//!   one step away, everything else at most two, and no step copies, allocates or frees more than a page.
//! * Pages may have been given back from the front ([`Cells::release_page`]); then nothing is asked of them any more.
//! * A buffer that a row no longer needs waits for the next row: in steady state nothing is allocated. Buffers that
//!   nobody needed for two whole windows of time are freed, two at each call of [`Buffers::release_some`].

use super::Rank;
use crate::Nanos;

/// Cells of the largest buffer: 48 KiB for keys of eight bytes.
pub(super) const LARGEST: usize = 2048;
/// Cells of the smallest buffer.
const SMALLEST: usize = 8;
/// How many sizes there are.
const SIZES: usize = (LARGEST / SMALLEST).ilog2() as usize + 1;
/// So many bytes of each size are kept, if they were needed once.
const KEPT: usize = 8192;
/// A window is two to this many nanoseconds: about a second.
const WINDOW_BITS: u32 = 30;

/// A timer in the wheel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer<K> {
    /// When it is due, as far as the wheel knows: its cached deadline.
    pub(super) when: Nanos,
    pub(super) rank: Rank,
    pub(super) key: K,
}

/// Where a timer is, or was: then it is a hole, and has no key. In a hole of a row that has lost its order, `when` is the index of
/// the next hole.
pub(super) type Cell<K> = Timer<Option<K>>;

impl<K: Copy> Cell<K> {
    #[inline]
    pub(super) fn timer(&self) -> Option<Timer<K>> {
        self.key.map(|key| Timer { when: self.when, rank: self.rank, key })
    }
}

impl<K> Timer<K> {
    #[inline]
    pub(super) fn order(&self) -> (Nanos, Rank) {
        (self.when, self.rank)
    }

    /// When the park has to end for it.
    #[inline]
    pub(super) fn wake(&self) -> Nanos {
        self.when.saturating_add_nanos(self.rank.slack().as_nanos())
    }

    #[inline]
    pub(super) fn into_cell(self) -> Cell<K> {
        Cell { when: self.when, rank: self.rank, key: Some(self.key) }
    }
}

/// A row of cells.
#[derive(Debug)]
pub(super) struct Cells<K, const PAGE: usize> {
    /// The last page.
    tail: Vec<Cell<K>>,
    rest: Option<Box<Rest<K>>>,
    /// How many cells lie in front of the last page.
    base: u32,
}

/// What a row of more than one page has besides.
#[derive(Debug)]
pub(super) struct Rest<K> {
    /// All pages but the last.
    pages: Vec<Vec<Cell<K>>>,
    /// How far the compaction of the row has come.
    pub(super) compaction: Option<Compaction>,
}

/// How far a compaction has come: the live cells in front of `read` lie in front of `write`, and between the two there
/// are holes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compaction {
    pub(super) write: usize,
    pub(super) read: usize,
}

impl Compaction {
    /// The row has become this short. What is put in from here on lies behind both.
    #[inline]
    fn end_by(&mut self, len: usize) {
        self.write = self.write.min(len);
        self.read = self.read.min(len);
    }
}

impl<K: Copy, const PAGE: usize> Cells<K, PAGE> {
    pub(super) const fn new() -> Cells<K, PAGE> {
        Cells { tail: Vec::new(), rest: None, base: 0 }
    }

    /// How many cells there are, holes and what has been given back included.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.base as usize + self.tail.len()
    }

    /// Whether all cells lie on one page.
    #[inline]
    pub(super) fn is_one_page(&self) -> bool {
        self.base == 0
    }

    /// The last page.
    #[inline]
    pub(super) fn tail(&mut self) -> &mut Vec<Cell<K>> {
        &mut self.tail
    }

    /// What a row of more than one page has besides.
    #[inline]
    pub(super) fn rest(&mut self) -> Option<&mut Rest<K>> {
        self.rest.as_deref_mut()
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&Cell<K>> {
        match index.checked_sub(self.base as usize) {
            Some(index) => self.tail.get(index),
            None => self.rest.as_ref()?.pages.get(index / PAGE)?.get(index % PAGE),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Cell<K>> {
        match index.checked_sub(self.base as usize) {
            Some(index) => self.tail.get_mut(index),
            None => self.rest.as_mut()?.pages.get_mut(index / PAGE)?.get_mut(index % PAGE),
        }
    }

    /// Whether the cell at `index` is that of `key`.
    #[inline]
    pub(super) fn is_at(&self, index: usize, key: K) -> bool
    where
        K: Eq,
    {
        self.get(index).is_some_and(|cell| cell.key == Some(key))
    }

    #[inline]
    pub(super) fn last(&self) -> Option<&Cell<K>> {
        // It is never empty while there is another page.
        self.tail.last()
    }

    /// Puts a cell behind the last one.
    #[inline]
    pub(super) fn push(&mut self, cell: Cell<K>, buffers: &mut Buffers<K>) {
        if self.tail.len() == self.tail.capacity() {
            self.grow(buffers);
        }
        self.tail.push(cell);
    }

    #[cold]
    fn grow(&mut self, buffers: &mut Buffers<K>) {
        let is_page = self.tail.capacity() == PAGE;
        let larger = buffers.take(size_for(if is_page { PAGE } else { self.tail.capacity() + 1 }));
        let mut full = std::mem::replace(&mut self.tail, larger);
        if is_page {
            self.base += PAGE as u32;
            let pages = &mut self.rest.get_or_insert_with(|| buffers.rest()).pages;
            let before = pages.capacity();
            pages.push(full);
            buffers.listed += (pages.capacity() - before) * size_of::<Vec<Cell<K>>>();
        } else {
            self.tail.append(&mut full);
            buffers.give_back(full);
        }
    }

    /// Removes the last cell.
    #[inline]
    pub(super) fn pop(&mut self, buffers: &mut Buffers<K>) -> Option<Cell<K>> {
        let cell = self.tail.pop();
        let len = self.len();
        if let Some(compaction) = self.rest.as_deref_mut().and_then(|rest| rest.compaction.as_mut()) {
            compaction.end_by(len);
        }
        if self.tail.is_empty() {
            self.end_page(buffers);
        }
        cell
    }

    /// Nothing is left of the last page.
    #[cold]
    fn end_page(&mut self, buffers: &mut Buffers<K>) {
        let before = self.rest.as_mut().and_then(|rest| rest.pages.pop());
        self.base = self.base.saturating_sub(PAGE as u32);
        buffers.give_back(std::mem::replace(&mut self.tail, before.unwrap_or_default()));
        if self.tail.capacity() == 0 {
            self.clear(buffers);
        }
    }

    /// Removes all cells from `len` on.
    pub(super) fn truncate(&mut self, len: usize, buffers: &mut Buffers<K>) {
        while self.base > 0 && self.base as usize >= len {
            self.tail.clear();
            self.end_page(buffers);
        }
        self.tail.truncate(len - self.base as usize);
        if self.tail.is_empty() {
            self.end_page(buffers);
        }
    }

    /// Removes all cells.
    pub(super) fn clear(&mut self, buffers: &mut Buffers<K>) {
        buffers.give_back(std::mem::take(&mut self.tail));
        self.base = 0;
        if let Some(mut rest) = self.rest.take() {
            rest.pages.drain(..).for_each(|page| buffers.give_back(page));
            rest.compaction = None;
            buffers.rests.push(rest);
        }
    }

    /// Gives the page back that ends before `index`, if one does: no cell of it is needed any more.
    #[inline]
    pub(super) fn release_page(&mut self, index: usize, buffers: &mut Buffers<K>) {
        if index % PAGE == 0 {
            let page = self.rest.as_mut().and_then(|rest| rest.pages.get_mut(index / PAGE - 1));
            buffers.give_back(page.map(std::mem::take).unwrap_or_default());
        }
    }

    /// The cells from `index` on which are no holes, with their indices.
    pub(super) fn live_from(&self, index: usize) -> impl Iterator<Item = (usize, Timer<K>)> {
        (index..self.len()).filter_map(|index| Some((index, self.get(index)?.timer()?)))
    }
}

/// The buffers that are not in use, by size.
#[derive(Debug)]
pub(super) struct Buffers<K> {
    sizes: [Size<K>; SIZES],
    #[allow(clippy::vec_box, reason = "they go to rows and come back as they are")]
    rests: Vec<Box<Rest<K>>>,
    /// Bytes of all of those, those in use included.
    listed: usize,
    window: u64,
    /// Some size may have a surplus.
    releasing: bool,
}

/// The buffers of one size that are not in use.
#[derive(Debug)]
struct Size<K> {
    /// There is room for all that were made: nothing is allocated where timers leave, in the middle of what they leave behind.
    free: Vec<Vec<Cell<K>>>,
    /// So many there are, those in use included.
    made: usize,
    /// So many were not in use at any time in this window, and in the one before.
    low: usize,
    last_low: usize,
    /// So many of those are to be freed.
    surplus: usize,
}

impl<K> Buffers<K> {
    pub(super) fn new() -> Buffers<K> {
        let size = |_| Size { free: Vec::new(), made: 0, low: 0, last_low: 0, surplus: 0 };
        Buffers {
            sizes: std::array::from_fn(size),
            rests: Vec::new(),
            listed: 0,
            window: 0,
            releasing: false,
        }
    }

    /// Takes a buffer that is no longer needed, with whatever is in it. One that never had memory is nothing.
    #[inline]
    fn give_back(&mut self, mut buffer: Vec<Cell<K>>) {
        if buffer.capacity() > 0 {
            buffer.clear();
            self.sizes[size_for(buffer.capacity())].free.push(buffer);
        }
    }

    /// What a row of more than one page needs.
    fn rest(&mut self) -> Box<Rest<K>> {
        self.rests.pop().unwrap_or_else(|| {
            self.listed += size_of::<Rest<K>>();
            Box::new(Rest { pages: Vec::new(), compaction: None })
        })
    }

    /// Frees a little of the memory that a burst has left behind.
    #[inline]
    pub(super) fn release_some(&mut self, now: Nanos) {
        let window = now.get() >> WINDOW_BITS;
        if window != self.window {
            self.window = window;
            for (number, size) in self.sizes.iter_mut().enumerate() {
                let kept = KEPT / size_of::<Cell<K>>() / (SMALLEST << number);
                size.surplus = size.low.min(size.last_low).saturating_sub(kept);
                (size.last_low, size.low) = (size.low, size.free.len());
            }
            self.releasing = true;
        }
        if self.releasing {
            self.release_two();
        }
    }

    #[cold]
    fn release_two(&mut self) {
        let mut left = 2;
        for size in self.sizes.iter_mut().rev() {
            while size.surplus > 0 && left > 0 {
                left -= 1;
                size.surplus -= 1;
                size.low = size.low.saturating_sub(1);
                size.last_low = size.last_low.saturating_sub(1);
                size.made -= usize::from(size.free.pop().is_some());
                if size.free.capacity() > 4 * size.made + 64 {
                    size.free.shrink_to(2 * size.made);
                }
            }
        }
        self.releasing = left == 0;
    }

    /// Bytes of all buffers and lists, those in use included.
    pub(super) fn allocated_bytes(&self) -> usize {
        let sizes = self.sizes.iter().enumerate().map(|(number, size)| {
            let buffers = size.made * (SMALLEST << number) * size_of::<Cell<K>>();
            buffers + size.free.capacity() * size_of::<Vec<Cell<K>>>()
        });
        sizes.sum::<usize>() + self.listed + self.rests.capacity() * size_of::<Box<Rest<K>>>()
    }

    /// An empty buffer of the size with this number, or a larger one if there is none.
    #[inline]
    fn take(&mut self, number: usize) -> Vec<Cell<K>> {
        for size in &mut self.sizes[number..] {
            if let Some(buffer) = size.free.pop() {
                size.low = size.low.min(size.free.len());
                size.surplus = size.surplus.min(size.low);
                return buffer;
            }
        }
        self.allocate(number)
    }

    #[cold]
    fn allocate(&mut self, number: usize) -> Vec<Cell<K>> {
        let size = &mut self.sizes[number];
        size.made += 1;
        // None is free.
        size.free.reserve(size.made);
        Vec::with_capacity(SMALLEST << number)
    }
}

/// The number of the smallest size that has room for so many cells, of which there is one at least.
#[inline]
fn size_for(cells: usize) -> usize {
    debug_assert!((1..=LARGEST).contains(&cells));
    (usize::BITS - ((cells - 1) / SMALLEST).leading_zeros()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slack::Slack;

    const PAGE: usize = 8;

    fn row(len: usize, buffers: &mut Buffers<usize>) -> Cells<usize, PAGE> {
        let mut cells = Cells::new();
        for key in 0..len {
            let timer = Timer { when: Nanos::new(1), rank: Rank::new(key as u64, Slack::ZERO), key };
            cells.push(timer.into_cell(), buffers);
        }
        cells
    }

    #[test]
    fn a_row_is_cut_off_at_any_length() {
        let mut buffers = Buffers::new();
        for len in [1, 7, 8, 9, 15, 16, 17, 29, 30] {
            let mut cells = row(30, &mut buffers);
            cells.truncate(len, &mut buffers);
            assert_eq!((cells.len(), cells.last().and_then(|cell| cell.key)), (len, Some(len - 1)));
            assert_eq!(
                cells.live_from(0).map(|(_, timer)| timer.key).collect::<Vec<_>>(),
                Vec::from_iter(0..len)
            );
            // It goes on from there.
            let more = cells.get(0).copied();
            more.into_iter().for_each(|cell| cells.push(cell, &mut buffers));
            assert!(cells.is_at(len, 0) && cells.len() == len + 1);
            cells.clear(&mut buffers);
        }
    }

    #[test]
    fn to_give_buffers_back_allocates_nothing() {
        let mut buffers = Buffers::new();
        let mut rows: Vec<_> = (0..100).map(|_| row(5 * PAGE, &mut buffers)).collect();
        let allocated = buffers.allocated_bytes();
        rows.iter_mut().for_each(|row| row.clear(&mut buffers));
        // But the list of what the rows had besides.
        let rests = buffers.rests.capacity() * size_of::<Box<Rest<usize>>>();
        assert_eq!(buffers.allocated_bytes() - rests, allocated);
    }

    #[test]
    fn a_page_is_given_back_when_its_last_cell_is_left_behind() {
        let mut buffers = Buffers::new();
        let mut cells = row(3 * PAGE, &mut buffers);
        let allocated = buffers.allocated_bytes();
        for index in 1..=2 * PAGE {
            cells.release_page(index, &mut buffers);
        }
        // Two pages: they serve another row without new memory but for the list of them.
        let (lists, listed) = (buffers.allocated_bytes(), buffers.listed);
        let used = row(2 * PAGE, &mut buffers);
        assert_eq!((buffers.allocated_bytes() - buffers.listed, used.len()), (lists - listed, 2 * PAGE));
        assert!(lists < allocated + PAGE * size_of::<Cell<usize>>());
        assert_eq!(cells.live_from(2 * PAGE).count(), PAGE);
    }
}
