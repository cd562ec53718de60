//! `Cells`: what waits in a slot, in one row of [`Timer`]s.
//!
//! Rules:
//!
//! * A page has `PAGE` cells, which is a power of two.
//! * A bit for each cell says whether it holds a timer. A cell that was cancelled is a hole, so no other cell moves and the row keeps
//!   its order. A hole is made without a look at the cell, which may lie in memory far away; the bits of a million take 125 kB.
//! * Behind the end of the row no bit is set. The bits of the last cells lie in the row itself, so that to put one more timer behind
//!   them touches nothing else.
//! * A cell has 24 bytes. (With 16, and the rest with the owner, a sleep would have 16 bytes more.)
//! * The last page grows by doubling until it is full; then the next begins. So what is put in and taken out at the end is
//!   one step away, everything else at most two, and no step copies, allocates or frees more than a page; but for the list of the
//!   pages and that of the bits, which are less than a hundredth of them.
//! * Pages may have been given back from the front ([`Cells::release_page`]); then nothing is asked of them any more.

use super::Rank;
use super::buffers::{Buffers, LARGEST, size_for};
use crate::Nanos;

/// So many cells have their bits in one word.
pub(super) const WORD: usize = u64::BITS as usize;
/// A timer in the wheel; in a cell that is a hole, one that has left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer<K> {
    /// When it is due, as far as the wheel knows: its cached deadline.
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
        self.when.saturating_add_nanos(self.rank.slack().as_nanos())
    }
}

/// A row of cells.
#[derive(Debug)]
pub(super) struct Cells<K, const PAGE: usize> {
    /// The last page.
    tail: Vec<Timer<K>>,
    rest: Option<Box<Rest<K>>>,
    /// The bits of the last cells, from a multiple of [`WORD`] on.
    last: u64,
    /// How many cells lie in front of the last page.
    base: u32,
}

/// What a long row has besides.
#[derive(Debug)]
pub(super) struct Rest<K> {
    /// All pages but the last.
    pages: Vec<Vec<Timer<K>>>,
    /// The words of the bits but the last: so many as are full.
    pub(super) live: Vec<u64>,
    /// How far the compaction of the row has come.
    pub(super) compaction: Option<Compaction>,
}

impl<K> Rest<K> {
    /// With room for the bits of a page: which row it goes to next, and how long that is, nobody knows.
    pub(super) fn new() -> Rest<K> {
        Rest { pages: Vec::new(), live: Vec::with_capacity(LARGEST / WORD), compaction: None }
    }
}

/// How far a compaction has come: the timers in front of `read` lie in front of `write`, and between the two there
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
        Cells { tail: Vec::new(), rest: None, last: 0, base: 0 }
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

    /// What a long row has besides.
    #[inline]
    pub(super) fn rest(&mut self) -> Option<&mut Rest<K>> {
        self.rest.as_deref_mut()
    }

    /// Whether a compaction has begun and not ended.
    #[inline]
    pub(super) fn is_being_compacted(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.compaction.is_some())
    }

    /// The cell at `index`, which may be a hole.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&Timer<K>> {
        match index.checked_sub(self.base as usize) {
            Some(index) => self.tail.get(index),
            None => self.rest.as_ref()?.pages.get(index / PAGE)?.get(index % PAGE),
        }
    }

    /// The cell at `index`, which may be a hole.
    #[inline]
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Timer<K>> {
        match index.checked_sub(self.base as usize) {
            Some(index) => self.tail.get_mut(index),
            None => self.rest.as_mut()?.pages.get_mut(index / PAGE)?.get_mut(index % PAGE),
        }
    }

    /// The last cell, which may be a hole.
    #[inline]
    pub(super) fn last(&self) -> Option<&Timer<K>> {
        // It is never empty while there is another page.
        self.tail.last()
    }

    /// Whether the cell at `index` holds a timer.
    #[inline]
    pub(super) fn is_live(&self, index: usize) -> bool {
        self.word(index / WORD) & bit(index) != 0
    }

    /// The cell at `index`, if it holds the timer of `key`.
    #[inline]
    pub(super) fn at(&self, index: usize, key: K) -> Option<&Timer<K>>
    where
        K: Eq,
    {
        self.get(index).filter(|cell| cell.key == key && self.is_live(index))
    }

    /// Makes the cell at `index` a hole, or a timer's. Says whether it was a timer's.
    #[inline]
    pub(super) fn set_live(&mut self, index: usize, live: bool) -> bool {
        let Some(word) = self.word_mut(index / WORD) else { return false };
        let before = *word & bit(index) != 0;
        *word = *word & !bit(index) | u64::from(live) << (index % WORD);
        before
    }

    /// The first hole of the word with this number.
    #[inline]
    pub(super) fn hole_in(&self, number: usize) -> Option<usize> {
        let cells = self.len().saturating_sub(number * WORD);
        let holes = !self.word(number) & ones(cells);
        (holes != 0).then(|| number * WORD + holes.trailing_zeros() as usize)
    }

    /// The first cell from `from` on that holds a timer.
    #[inline]
    pub(super) fn next_live(&self, from: usize) -> Option<usize> {
        let mut number = from / WORD;
        let mut word = self.word(number) & !(bit(from) - 1);
        while word == 0 {
            number += 1;
            if number * WORD >= self.len() {
                return None;
            }
            word = self.word(number);
        }
        Some(number * WORD + word.trailing_zeros() as usize)
    }

    /// The timers from `index` on, with their indices.
    pub(super) fn live_from(&self, index: usize) -> impl Iterator<Item = (usize, Timer<K>)> {
        let indices = std::iter::successors(self.next_live(index), |index| self.next_live(index + 1));
        indices.filter_map(|index| Some((index, *self.get(index)?)))
    }

    /// Puts a timer into the hole at `index`.
    #[inline]
    pub(super) fn fill(&mut self, index: usize, timer: Timer<K>) {
        if let Some(cell) = self.get_mut(index) {
            *cell = timer;
            self.set_live(index, true);
        }
    }

    /// Whether there is room for one more timer, and for its bit.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.tail.len() < self.tail.capacity() && (self.len() + 1) % WORD != 0
    }

    /// Puts a timer behind the last cell, for which there is room.
    #[inline]
    pub(super) fn push_within(&mut self, timer: Timer<K>) {
        self.last |= bit(self.len());
        self.tail.push(timer);
    }

    /// Puts a timer behind the last cell.
    #[inline]
    pub(super) fn push(&mut self, timer: Timer<K>, buffers: &mut Buffers<K>) {
        if self.tail.len() == self.tail.capacity() {
            self.grow(buffers);
        }
        self.push_within(timer);
        if self.len() % WORD == 0 {
            self.end_word(buffers);
        }
    }

    /// The last word of the bits is full.
    #[cold]
    fn end_word(&mut self, buffers: &mut Buffers<K>) {
        let live = &mut self.rest.get_or_insert_with(|| buffers.rest()).live;
        buffers.list(live, std::mem::take(&mut self.last));
    }

    /// The last page is full: it becomes larger, or the next one begins.
    #[inline(never)]
    fn grow(&mut self, buffers: &mut Buffers<K>) {
        let capacity = self.tail.capacity();
        let larger = buffers.take(size_for(PAGE.min(capacity + 1)));
        let mut full = std::mem::replace(&mut self.tail, larger);
        if capacity == PAGE {
            self.base += PAGE as u32;
            let pages = &mut self.rest.get_or_insert_with(|| buffers.rest()).pages;
            buffers.list(pages, full);
        } else if capacity > 0 {
            self.tail.append(&mut full);
            buffers.give_back(full);
        }
    }

    /// Removes the last cell.
    #[inline]
    pub(super) fn pop(&mut self, buffers: &mut Buffers<K>) {
        self.tail.pop();
        let len = self.len();
        self.cut_bits(len);
        if let Some(compaction) = self.rest().and_then(|rest| rest.compaction.as_mut()) {
            compaction.end_by(len);
        }
        if self.tail.is_empty() {
            self.end_page(buffers);
        }
    }

    /// Nothing is left of the last page.
    #[cold]
    fn end_page(&mut self, buffers: &mut Buffers<K>) {
        match self.rest.as_mut().and_then(|rest| rest.pages.pop()) {
            Some(before) => {
                self.base -= PAGE as u32;
                buffers.give_back(std::mem::replace(&mut self.tail, before));
            }
            None => self.clear(buffers),
        }
    }

    /// Removes all cells from `len` on.
    pub(super) fn truncate(&mut self, len: usize, buffers: &mut Buffers<K>) {
        self.cut_bits(len);
        while self.base > 0 && self.base as usize >= len {
            self.tail.clear();
            self.end_page(buffers);
        }
        self.tail.truncate(len - self.base as usize);
        if self.tail.is_empty() {
            self.end_page(buffers);
        }
    }

    /// Leaves the bits of the first `len` cells.
    #[inline]
    fn cut_bits(&mut self, len: usize) {
        if let Some(rest) = self.rest.as_mut().filter(|rest| len / WORD < rest.live.len()) {
            self.last = rest.live[len / WORD];
            rest.live.truncate(len / WORD);
        }
        self.last &= bit(len) - 1;
    }

    /// Removes all cells.
    pub(super) fn clear(&mut self, buffers: &mut Buffers<K>) {
        buffers.give_back(std::mem::take(&mut self.tail));
        (self.base, self.last) = (0, 0);
        if let Some(mut rest) = self.rest.take() {
            rest.pages.drain(..).for_each(|page| buffers.give_back(page));
            rest.live.clear();
            rest.compaction = None;
            buffers.give_rest_back(rest);
        }
    }

    /// Removes the holes of a row of one page, and puts the timers in order.
    pub(super) fn sort(&mut self) {
        let (mut len, mut from) = (0, 0);
        while let Some(index) = self.next_live(from) {
            self.tail[len] = self.tail[index];
            (len, from) = (len + 1, index + 1);
        }
        self.cut_bits(len);
        self.last = bit(len) - 1;
        self.rest.iter_mut().for_each(|rest| rest.live.fill(u64::MAX));
        self.tail.truncate(len);
        self.tail.sort_unstable_by_key(Timer::order);
    }

    /// Gives the page back that ends before `index`, if one does: no cell of it is needed any more.
    #[inline]
    pub(super) fn release_page(&mut self, index: usize, buffers: &mut Buffers<K>) {
        if index % PAGE == 0 {
            let page = self.rest.as_mut().and_then(|rest| rest.pages.get_mut(index / PAGE - 1));
            buffers.give_back(page.map(std::mem::take).unwrap_or_default());
        }
    }

    #[inline]
    fn word(&self, number: usize) -> u64 {
        match self.rest.as_ref().and_then(|rest| rest.live.get(number)) {
            Some(&word) => word,
            None if number == self.len() / WORD => self.last,
            None => 0,
        }
    }

    #[inline]
    fn word_mut(&mut self, number: usize) -> Option<&mut u64> {
        let is_last = number == self.len() / WORD;
        match self.rest.as_mut().and_then(|rest| rest.live.get_mut(number)) {
            None if is_last => Some(&mut self.last),
            word => word,
        }
    }
}

/// The bit of the cell at `index`, in its word.
#[inline]
fn bit(index: usize) -> u64 {
    1 << (index % WORD)
}

/// The bits of the first `count` cells of a word.
#[inline]
fn ones(count: usize) -> u64 {
    if count < WORD { bit(count) - 1 } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slack::Slack;

    const PAGE: usize = 8;

    fn row(len: usize, buffers: &mut Buffers<usize>) -> Cells<usize, PAGE> {
        row_of(0..len, buffers)
    }

    fn row_of<const PAGE: usize>(
        sequence: impl Iterator<Item = usize>,
        buffers: &mut Buffers<usize>,
    ) -> Cells<usize, PAGE> {
        let mut cells = Cells::new();
        for key in sequence {
            let timer = Timer { when: Nanos::new(1), rank: Rank::new(key as u64, Slack::ZERO), key };
            cells.push(timer, buffers);
        }
        cells
    }

    #[test]
    fn a_row_is_cut_off_at_any_length() {
        let mut buffers = Buffers::new();
        for len in [1, 7, 8, 9, 17, 63, 64, 65, 127, 128, 129, 199, 200] {
            let mut cells = row(200, &mut buffers);
            cells.truncate(len, &mut buffers);
            assert_eq!((cells.len(), cells.last().map(|cell| cell.key)), (len, Some(len - 1)));
            assert_eq!(
                cells.live_from(0).map(|(_, timer)| timer.key).collect::<Vec<_>>(),
                Vec::from_iter(0..len)
            );
            // It goes on from there.
            let more = cells.get(0).copied();
            more.into_iter().for_each(|cell| cells.push(cell, &mut buffers));
            assert!(cells.at(len, 0).is_some() && cells.len() == len + 1);
            cells.clear(&mut buffers);
        }
    }

    #[test]
    fn a_bit_tells_a_timer_from_a_hole() {
        let mut buffers = Buffers::new();
        let mut cells = row(200, &mut buffers);
        let holes = [0, 1, 63, 64, 100, 127, 128, 191, 192, 198];
        assert!(holes.iter().all(|&index| cells.set_live(index, false)));
        assert!(holes.iter().all(|&index| !cells.set_live(index, false)), "they were holes");
        let live =
            |cells: &Cells<usize, PAGE>| cells.live_from(0).map(|(index, _)| index).collect::<Vec<_>>();
        assert_eq!(live(&cells), (0..200).filter(|index| !holes.contains(index)).collect::<Vec<_>>());
        assert!((0..210).all(|index| cells.is_live(index) == (index < 200 && !holes.contains(&index))));
        assert_eq!(
            (0..5).map(|word| cells.hole_in(word)).collect::<Vec<_>>(),
            [Some(0), Some(64), Some(128), Some(192), None]
        );
        // They are filled one by one, and then there is none; nor behind the end.
        for &index in &holes {
            assert_eq!(cells.hole_in(index / WORD), Some(index));
            let timer = *cells.get(index).expect("it is in the row");
            cells.fill(index, timer);
        }
        assert!((0..5).all(|word| cells.hole_in(word).is_none()) && live(&cells).len() == 200);
        // Of two words and a half every third cell stays, and is put in order.
        let mut cells = row_of::<256>((0..160).rev(), &mut buffers);
        (0..160).filter(|index| index % 3 != 0).for_each(|index| _ = cells.set_live(index, false));
        cells.sort();
        assert!(
            cells.live_from(0).map(|(_, timer)| timer.rank.sequence()).eq((0..160).filter(|n| n % 3 == 0))
        );
        assert_eq!((cells.len(), cells.next_live(54)), (54, None));
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
        assert!(lists < allocated + PAGE * size_of::<Timer<usize>>());
        assert_eq!(cells.live_from(2 * PAGE).count(), PAGE);
    }
}
