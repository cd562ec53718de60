//! `Buffers`: the memory of the rows, which goes from slot to slot.
//!
//! Rules:
//!
//! * A buffer that a row no longer needs waits for the next row: in steady state nothing is allocated. Buffers that
//!   nobody needed for two whole windows of time are freed, two at each call of [`Buffers::release_some`].
//! * To give a buffer back allocates nothing: there is room for all that were made.

use super::cells::{Rest, Timer};
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

/// The buffers that are not in use, by size.
#[derive(Debug)]
pub(super) struct Buffers<K> {
    sizes: [Size<K>; SIZES],
    #[allow(clippy::vec_box, reason = "they go to rows and come back as they are")]
    pub(super) rests: Vec<Box<Rest<K>>>,
    /// Bytes of all of those, those in use included.
    pub(super) listed: usize,
    window: u64,
    /// Some size may have a surplus.
    releasing: bool,
}

/// The buffers of one size that are not in use.
#[derive(Debug)]
struct Size<K> {
    /// There is room for all that were made: nothing is allocated where timers leave, in the middle of what they leave behind.
    free: Vec<Vec<Timer<K>>>,
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
    pub(super) fn give_back(&mut self, mut buffer: Vec<Timer<K>>) {
        if buffer.capacity() > 0 {
            buffer.clear();
            self.sizes[size_for(buffer.capacity())].free.push(buffer);
        }
    }

    /// What a long row needs.
    pub(super) fn rest(&mut self) -> Box<Rest<K>> {
        self.rests.pop().unwrap_or_else(|| {
            let rest = Rest::new();
            self.listed += size_of::<Rest<K>>() + rest.live.capacity() * size_of::<u64>();
            Box::new(rest)
        })
    }

    /// Takes back what a row that is no longer long had besides.
    pub(super) fn give_rest_back(&mut self, rest: Box<Rest<K>>) {
        self.rests.push(rest);
    }

    /// Puts an item behind the last of a list that a row has besides, and counts what that grows by.
    #[inline]
    pub(super) fn list<T>(&mut self, list: &mut Vec<T>, item: T) {
        let before = list.capacity();
        list.push(item);
        self.listed += (list.capacity() - before) * size_of::<T>();
    }

    /// Frees a little of the memory that a burst has left behind.
    #[inline]
    pub(super) fn release_some(&mut self, now: Nanos) {
        let window = now.get() >> WINDOW_BITS;
        if window != self.window {
            self.window = window;
            for (number, size) in self.sizes.iter_mut().enumerate() {
                let kept = KEPT / size_of::<Timer<K>>() / (SMALLEST << number);
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
            let buffers = size.made * (SMALLEST << number) * size_of::<Timer<K>>();
            buffers + size.free.capacity() * size_of::<Vec<Timer<K>>>()
        });
        sizes.sum::<usize>() + self.listed + self.rests.capacity() * size_of::<Box<Rest<K>>>()
    }

    /// An empty buffer of the size with this number, or a larger one if there is none.
    #[inline]
    pub(super) fn take(&mut self, number: usize) -> Vec<Timer<K>> {
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
    fn allocate(&mut self, number: usize) -> Vec<Timer<K>> {
        let size = &mut self.sizes[number];
        size.made += 1;
        // None is free.
        size.free.reserve(size.made);
        Vec::with_capacity(SMALLEST << number)
    }
}

/// The number of the smallest size that has room for so many cells, of which there is one at least.
#[inline]
pub(super) fn size_for(cells: usize) -> usize {
    debug_assert!((1..=LARGEST).contains(&cells));
    (usize::BITS - ((cells - 1) / SMALLEST).leading_zeros()) as usize
}
