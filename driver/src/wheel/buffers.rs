//! `Buffers`: the memory of cells, in buffers of doubling size that go from slot to slot.
//!
//! Rules:
//!
//! * A buffer holds [`SMALLEST`] to [`PAGE`] cells. So no step copies, allocates or frees more than a page.
//! * A buffer that a slot no longer needs waits here for the next slot: in steady state nothing is allocated.
//! * Buffers that nobody needed for two whole windows of time are freed, two at each call of [`Buffers::release_some`].

use super::cells::{Cell, Rest};
use crate::Nanos;

/// Cells of the largest buffer: 48 KiB for keys of eight bytes.
pub(super) const PAGE: usize = 2048;
/// Cells of the smallest buffer.
const SMALLEST: usize = 8;
/// How many sizes there are.
const SIZES: usize = (PAGE / SMALLEST).ilog2() as usize + 1;
/// So many bytes of each size are kept, if they were needed once.
const KEPT: usize = 8192;
/// A window is two to this many nanoseconds: about a second.
const WINDOW_BITS: u32 = 30;

/// The buffers that are not in use, by size.
#[derive(Debug)]
pub(super) struct Buffers<K> {
    sizes: [Size<K>; SIZES],
    #[allow(clippy::vec_box, reason = "they go to rows and come back as they are")]
    rests: Vec<Box<Rest<K>>>,
    window: u64,
    /// Bytes of all buffers, those in use included.
    bytes: usize,
}

/// The buffers of one size that are not in use.
#[derive(Debug)]
struct Size<K> {
    free: Vec<Vec<Cell<K>>>,
    /// So many were not in use at any time in this window, and in the one before.
    low: usize,
    last_low: usize,
    /// So many of those are to be freed.
    surplus: usize,
}

impl<K> Buffers<K> {
    pub(super) fn new() -> Buffers<K> {
        let size = |_| Size { free: Vec::new(), low: 0, last_low: 0, surplus: 0 };
        Buffers { sizes: std::array::from_fn(size), rests: Vec::new(), window: 0, bytes: 0 }
    }

    /// An empty buffer of the smallest size.
    #[inline]
    pub(super) fn smallest(&mut self) -> Vec<Cell<K>> {
        self.take(0)
    }

    /// An empty buffer for so many cells: [`SMALLEST`], doubled some times.
    pub(super) fn of_capacity(&mut self, capacity: usize) -> Vec<Cell<K>> {
        self.take(size_of_capacity(capacity))
    }

    /// Replaces a full buffer by one of at least twice its size, with the same cells. It is not a page yet.
    #[cold]
    pub(super) fn grow(&mut self, cells: &mut Vec<Cell<K>>) {
        let mut larger = self.take(size_of_capacity(cells.capacity()) + 1);
        larger.append(cells);
        self.give_back(std::mem::replace(cells, larger));
    }

    /// Takes a buffer that is no longer needed, with whatever is in it. One that never had memory is nothing.
    #[inline]
    pub(super) fn give_back(&mut self, mut buffer: Vec<Cell<K>>) {
        if buffer.capacity() > 0 {
            buffer.clear();
            self.sizes[size_of_capacity(buffer.capacity())].free.push(buffer);
        }
    }

    /// What a row of more than one page needs.
    pub(super) fn rest(&mut self) -> Box<Rest<K>> {
        self.rests.pop().unwrap_or_else(|| Box::new(Rest::new()))
    }

    /// Takes back what was for a row of more than one page.
    pub(super) fn give_back_rest(&mut self, rest: Box<Rest<K>>) {
        self.rests.push(rest);
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
        }
        let mut left = 2;
        for size in self.sizes.iter_mut().rev() {
            while size.surplus > 0 && left > 0 {
                left -= 1;
                size.surplus -= 1;
                size.low = size.low.saturating_sub(1);
                size.last_low = size.last_low.saturating_sub(1);
                if let Some(buffer) = size.free.pop() {
                    self.bytes -= buffer.capacity() * size_of::<Cell<K>>();
                }
                if size.free.capacity() > 4 * size.free.len() + 64 {
                    size.free.shrink_to(2 * size.free.len());
                }
            }
        }
    }

    /// Bytes of all buffers, those in use included.
    pub(super) fn allocated_bytes(&self) -> usize {
        let lists = self.sizes.iter().map(|size| size.free.capacity() * size_of::<Vec<Cell<K>>>());
        let rests = self.rests.iter().map(|rest| rest.allocated_bytes());
        let list = self.rests.capacity() * size_of::<Box<Rest<K>>>();
        self.bytes + lists.sum::<usize>() + rests.sum::<usize>() + list
    }

    /// A buffer of this size, or a larger one if there is none.
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
        let buffer = Vec::with_capacity(SMALLEST << number);
        self.bytes += buffer.capacity() * size_of::<Cell<K>>();
        buffer
    }
}

/// The number of the size of a buffer with this capacity.
#[inline]
fn size_of_capacity(capacity: usize) -> usize {
    debug_assert!((SMALLEST..2 * PAGE).contains(&capacity));
    (capacity / SMALLEST).ilog2() as usize
}
