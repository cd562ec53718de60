//! `Pages`: values at fixed numbers, on pages of sixty-four.
//!
//! Ground rules:
//!
//! * A value stays where it was put until it is taken: growing adds a page, and copies nothing.
//! * A page is full, partly filled (then it is in the list that starts at `partial`), empty (then it is in
//!   `empty`), or released (then it is in `vacant`, and has no memory).
//! * Taking a value allocates nothing: `empty` has room for all pages. (Where much small memory has been freed, glibc sorts it at
//!   the next request: 2 ms, when a million values leave that were due within the same 16 ns.)
//! * Pages are kept up to the number that was recently in use at once, or that was reserved; [`Pages::release_some`] releases
//!   the surplus of a burst, in small steps.
//! * A `Peak` is the number that was recently in use. A peak that recurs counts as long as it recurs, however long the pauses:
//!   if many values come and go with each tick, all of their memory is free between two ticks, and must not be released. A peak
//!   that does not recur is forgotten when the second window of time after it begins.

use crate::Nanos;
use crate::prefetch::prefetch;

/// The number of values of a page: one bit each in a word.
const PAGE: u32 = u64::BITS;
/// The maximum number of pages: values are numbered in 32 bits.
const MOST: u32 = u32::MAX / PAGE;
/// The number of empty pages that are kept, however few pages were in use.
const KEPT: usize = 4;
/// The length of a window of time: two to the power of this, in nanoseconds, which is about a second.
const WINDOW_BITS: u32 = 30;
/// No page.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Page<T> {
    /// Which of the slots hold a value.
    occupied: u64,
    /// The neighbours in the list of partly filled pages.
    before: u32,
    after: u32,
    slots: Box<[Option<T>]>,
}

/// Values at fixed numbers.
#[derive(Debug)]
pub(super) struct Pages<T> {
    pages: Vec<Option<Page<T>>>,
    /// The first of the partly filled pages.
    partial: u32,
    empty: Vec<u32>,
    vacant: Vec<u32>,
    len: usize,
    /// The number of pages that are kept, however few were recently in use.
    reserved: usize,
    /// How many pages were recently in use at once.
    peak: Peak,
}

impl<T> Pages<T> {
    pub(super) const fn new() -> Pages<T> {
        Pages {
            pages: Vec::new(),
            partial: NONE,
            empty: Vec::new(),
            vacant: Vec::new(),
            len: 0,
            reserved: 0,
            peak: Peak::new(),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many values there is memory for.
    pub(super) fn capacity(&self) -> usize {
        self.allocated() * PAGE as usize
    }

    /// How many values memory is always kept for.
    pub(super) fn reserved(&self) -> usize {
        self.reserved * PAGE as usize
    }

    /// Bytes that the pages have allocated.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.capacity() * size_of::<Option<T>>()
            + self.pages.capacity() * size_of::<Option<Page<T>>>()
            + (self.empty.capacity() + self.vacant.capacity()) * size_of::<u32>()
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&T> {
        self.pages.get((index / PAGE) as usize)?.as_ref()?.slots[(index % PAGE) as usize].as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.pages.get_mut((index / PAGE) as usize)?.as_mut()?.slots[(index % PAGE) as usize].as_mut()
    }

    /// Prefetches the memory of a value.
    #[inline]
    pub(super) fn prefetch(&self, index: u32) {
        if let Some(Some(page)) = self.pages.get((index / PAGE) as usize) {
            prefetch(&raw const page.slots[(index % PAGE) as usize]);
        }
    }

    /// Puts a value where there is room, and returns its number.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        let id = if self.partial != NONE { self.partial } else { self.begin_page() };
        let page = self.page_mut(id);
        let offset = page.occupied.trailing_ones();
        page.occupied |= 1 << offset;
        page.slots[offset as usize] = Some(value);
        if page.occupied == u64::MAX {
            self.unlink(id);
        }
        self.len += 1;
        id * PAGE + offset
    }

    /// Removes and returns a value.
    pub(super) fn take(&mut self, index: u32) -> Option<T> {
        let (id, offset) = (index / PAGE, index % PAGE);
        let page = self.pages.get_mut(id as usize)?.as_mut()?;
        let value = page.slots[offset as usize].take()?;
        let was_full = page.occupied == u64::MAX;
        page.occupied &= !(1 << offset);
        let is_empty = page.occupied == 0;
        if was_full {
            self.link(id);
        }
        if is_empty {
            self.unlink(id);
            self.empty.push(id);
        }
        self.len -= 1;
        Some(value)
    }

    /// All values with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let pages = self.pages.iter().enumerate().filter_map(|(id, page)| Some((id as u32, page.as_ref()?)));
        pages.flat_map(|(id, page)| {
            let slots = page.slots.iter().enumerate();
            slots.filter_map(move |(offset, slot)| Some((id * PAGE + offset as u32, slot.as_ref()?)))
        })
    }

    /// Makes room for `additional` more values. The room is kept until [`shrink`](Pages::shrink).
    ///
    /// # Panics
    ///
    /// If there would be more values than can be numbered.
    #[track_caller]
    pub(super) fn reserve(&mut self, additional: usize) {
        // Free slots on partly filled pages count as room, because those pages are filled first.
        let wanted = self.len.saturating_add(additional).div_ceil(PAGE as usize);
        assert!(
            wanted <= MOST as usize,
            "room was asked for {additional} more values, and there may be no more than {} in all",
            u64::from(MOST) * u64::from(PAGE)
        );
        self.reserved = self.reserved.max(wanted);
        while self.allocated() < wanted {
            let id = self.make();
            self.empty.push(id);
        }
    }

    /// Releases every empty page.
    pub(super) fn shrink(&mut self) {
        self.reserved = 0;
        while self.release() {}
        while let Some(None) = self.pages.last() {
            self.pages.pop();
        }
        let end = self.pages.len() as u32;
        self.vacant.retain(|&id| id < end);
        self.pages.shrink_to_fit();
        self.empty.shrink_to(self.pages.len());
        self.vacant.shrink_to_fit();
    }

    /// Releases a little of the memory that a burst has left behind: a page or two at a time.
    #[inline]
    pub(super) fn release_some(&mut self, now: Nanos) {
        let used = self.allocated() - self.empty.len();
        self.peak.pass(now, used);
        for _ in 0..2 {
            let keep = (self.peak.get() + KEPT).max(self.reserved);
            if self.allocated() <= keep || !self.release() {
                return;
            }
        }
    }

    /// Asserts the ground rules.
    pub(super) fn check(&self) {
        let mut partial = Vec::new();
        let (mut id, mut before) = (self.partial, NONE);
        while id != NONE {
            let page = self.pages[id as usize].as_ref().expect("a page of the list has memory");
            assert_eq!(page.before, before, "the list of partly filled pages is broken");
            partial.push(id);
            (before, id) = (id, page.after);
        }
        let mut len = 0;
        for (id, page) in self.pages.iter().enumerate() {
            let id = id as u32;
            let occupied = page.as_ref().map_or(0, |page| page.occupied);
            len += occupied.count_ones() as usize;
            let is_partial = occupied != 0 && occupied != u64::MAX;
            assert_eq!(partial.contains(&id), is_partial, "page {id} is in the wrong list");
            assert_eq!(self.vacant.contains(&id), page.is_none(), "page {id} is in the wrong list");
            assert_eq!(self.empty.contains(&id), page.is_some() && occupied == 0, "page {id} is not listed");
            for (offset, slot) in page.iter().flat_map(|page| page.slots.iter().enumerate()) {
                assert_eq!(slot.is_some(), occupied & 1 << offset != 0, "a bit of page {id} is wrong");
            }
        }
        assert_eq!(len, self.len, "the count is wrong");
    }

    fn allocated(&self) -> usize {
        self.pages.len() - self.vacant.len()
    }

    #[inline]
    fn page_mut(&mut self, id: u32) -> &mut Page<T> {
        // Only pages with memory are in the lists, and `take` has found the page.
        self.pages[id as usize].as_mut().expect("a listed page has memory")
    }

    /// Puts an empty page at the head of the list.
    #[cold]
    fn begin_page(&mut self) -> u32 {
        let id = match self.empty.pop() {
            Some(id) => id,
            None => self.make(),
        };
        self.link(id);
        self.peak.reach(self.allocated() - self.empty.len());
        id
    }

    fn make(&mut self) -> u32 {
        let slots = (0..PAGE).map(|_| None).collect();
        let page = Some(Page { occupied: 0, before: NONE, after: NONE, slots });
        if let Some(id) = self.vacant.pop() {
            self.pages[id as usize] = page;
            return id;
        }
        let id = self.pages.len() as u32;
        assert!(id < MOST, "more than four thousand million values");
        self.pages.push(page);
        self.empty.reserve(self.pages.len() - self.empty.len());
        id
    }

    fn release(&mut self) -> bool {
        let Some(id) = self.empty.pop() else { return false };
        self.pages[id as usize] = None;
        self.vacant.push(id);
        true
    }

    #[inline]
    fn link(&mut self, id: u32) {
        let first = std::mem::replace(&mut self.partial, id);
        let page = self.page_mut(id);
        (page.before, page.after) = (NONE, first);
        if first != NONE {
            self.page_mut(first).before = id;
        }
    }

    #[inline]
    fn unlink(&mut self, id: u32) {
        let page = self.page_mut(id);
        let (before, after) = (page.before, page.after);
        (page.before, page.after) = (NONE, NONE);
        if after != NONE {
            self.page_mut(after).before = before;
        }
        if before != NONE {
            self.page_mut(before).after = after;
        } else {
            self.partial = after;
        }
    }
}

/// The largest size in this window of time and in the last one before it in which anything happened.
#[derive(Debug)]
struct Peak {
    this: usize,
    last: usize,
    window: u64,
}

impl Peak {
    /// Nothing has happened yet.
    const fn new() -> Peak {
        Peak { this: 0, last: 0, window: 0 }
    }

    /// Notes the current size.
    #[inline]
    fn reach(&mut self, size: usize) {
        self.this = self.this.max(size);
    }

    /// Advances the time to `now`, at which the size is `size`.
    #[inline]
    fn pass(&mut self, now: Nanos, size: usize) {
        let window = now.get() >> WINDOW_BITS;
        if window != self.window {
            self.window = window;
            self.last = self.this;
            self.this = size;
        }
    }

    /// The recent largest size.
    #[inline]
    fn get(&self) -> usize {
        self.this.max(self.last)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn taking_values_allocates_nothing() {
        let mut pages = Pages::new();
        for count in [20_000, 6_400] {
            (0..count).for_each(|value| _ = pages.insert(value));
            let bytes = pages.allocated_bytes();
            assert!((1..count).all(|index| pages.take(index).is_some()));
            assert_eq!(pages.allocated_bytes(), bytes);
            pages.shrink();
            pages.take(0);
        }
    }

    #[test]
    fn values_stay_where_they_are_and_pages_come_and_go() {
        let mut pages = Pages::new();
        let numbers: Vec<u32> = (0..1_000).map(|n| pages.insert(n)).collect();
        assert_eq!((pages.len(), pages.capacity()), (1_000, 1_024));
        pages.check();
        for (n, &number) in numbers.iter().enumerate().filter(|(n, _)| n % 100 != 7) {
            assert_eq!(pages.take(number), Some(n));
        }
        pages.check();
        assert_eq!(pages.take(numbers[0]), None);
        assert_eq!(
            pages.iter().map(|(_, &n)| n).collect::<Vec<_>>(),
            (7..1_000).step_by(100).collect::<Vec<_>>()
        );
        let again: Vec<u32> = (0..600).map(|n| pages.insert(n)).collect();
        assert_eq!(pages.capacity(), 1_024, "pages are reused");
        assert!(again.into_iter().all(|number| pages.take(number).is_some()));
        pages.shrink();
        pages.check();
        assert!(pages.capacity() <= 640, "ten values lie on ten pages");
    }

    #[test]
    fn a_value_is_found_and_changed_under_its_number_and_its_memory_is_counted() {
        let mut pages = Pages::new();
        let numbers: Vec<u32> = (0..1_000).map(|n| pages.insert(n)).collect();
        for (n, &number) in numbers.iter().enumerate() {
            assert_eq!(pages.get(number), Some(&n));
            *pages.get_mut(number).unwrap() += 7;
        }
        let listed: Vec<_> = pages.iter().collect();
        assert_eq!(
            listed,
            (0..1_000).map(|n| (numbers[n], pages.get(numbers[n]).unwrap())).collect::<Vec<_>>()
        );
        assert!((0..1_000).all(|n| pages.take(numbers[n]) == Some(n + 7)));
        for beyond in [numbers[0], 1_023, 1_024, u32::MAX] {
            assert!(pages.get(beyond).is_none() && pages.get_mut(beyond).is_none(), "{beyond}");
        }
        // Only the reserved ones of the sixteen pages are kept.
        pages.reserve(600);
        assert_eq!(pages.reserved(), 640);
        (1..100).for_each(|second| pages.release_some(Nanos::new(second << 31)));
        assert_eq!((pages.capacity(), pages.vacant.len(), pages.empty.len()), (640, 6, 10));
        let lists = (pages.empty.capacity() + pages.vacant.capacity()) * size_of::<u32>();
        let table = pages.pages.capacity() * size_of::<Option<Page<usize>>>();
        assert_eq!(pages.allocated_bytes(), 640 * size_of::<Option<usize>>() + table + lists);
    }

    #[test]
    fn a_burst_is_given_back_and_a_reserve_is_kept() {
        let mut pages = Pages::new();
        // Fewer values where a step costs a thousand times as much. It is still a burst, of 31 pages.
        let (values, seconds) = if cfg!(miri) { (2_000, 100) } else { (100_000, 2_000) };
        let numbers: Vec<u32> = (0..values).map(|n| pages.insert(n)).collect();
        assert!(numbers.into_iter().all(|number| pages.take(number).is_some()));
        let mut most = 0;
        for second in 1..seconds {
            let before = pages.capacity();
            pages.release_some(Nanos::new(second << 31));
            most = most.max(before - pages.capacity());
        }
        assert_eq!(most, 2 * PAGE as usize, "it is given back in small steps");
        assert_eq!(pages.capacity(), KEPT * PAGE as usize);
        pages.check();
        // There is room for the first two already, but not for a page more.
        let number = pages.insert(7);
        for (additional, room) in
            [(0, KEPT), (KEPT * PAGE as usize - 1, KEPT), (KEPT * PAGE as usize, KEPT + 1)]
        {
            pages.reserve(additional);
            assert_eq!(pages.capacity(), room * PAGE as usize, "{additional} more");
        }
        assert_eq!(pages.take(number), Some(7));
        pages.reserve(5_000);
        for second in seconds..seconds + 100 {
            pages.release_some(Nanos::new(second << 31));
        }
        assert!(pages.capacity() >= 5_000);
        pages.shrink();
        assert_eq!((pages.capacity(), pages.allocated_bytes()), (0, 0));
    }

    #[test]
    fn a_burst_is_given_back_while_a_few_values_come_and_go() {
        let mut pages = Pages::new();
        let numbers: Vec<u32> = (0..2_000).map(|n| pages.insert(n)).collect();
        assert!(numbers.into_iter().all(|number| pages.take(number).is_some()));
        for second in 1..100 {
            let number = pages.insert(7);
            pages.release_some(Nanos::new(second << 31));
            assert_eq!(pages.take(number), Some(7));
        }
        assert_eq!(pages.capacity(), (KEPT + 1) * PAGE as usize);
    }

    #[test]
    fn a_burst_is_forgotten_and_a_habit_is_not() {
        let second = 1 << WINDOW_BITS;
        let mut peak = Peak::new();
        peak.reach(1_000);
        for (window, expected) in [(0, 1_000), (1, 1_000), (1, 1_000), (2, 3), (9, 3)] {
            peak.pass(Nanos::new(window * second), 3);
            assert_eq!(peak.get(), expected, "in window {window}");
        }
        for tick in 2..6 {
            peak.pass(Nanos::new(tick * 50 * second), 0);
            peak.reach(70);
            assert_eq!(peak.get(), 70);
        }
    }
}
