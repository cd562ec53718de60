//! Buffers that the copies of a thread share.
//!
//! A read needs a buffer before it is known whether there is anything to read. To allocate one for each attempt would mean to
//! fill it with zeros each time, which takes longer than to read a short message into it; to keep one for each direction would be
//! 128 KiB for each idle connection, and a cache that is always cold.
//!
//! Ground rules:
//!
//! * A buffer that is in use belongs to its user alone, so a reader that copies inside of its `poll_read` gets another.
//! * No user code runs while the free ones are borrowed.
//! * A thread keeps a few, so that a steady state allocates nothing; of what a burst needed beyond them nothing stays.

use std::cell::RefCell;
use std::mem;

/// So many free buffers a thread keeps.
const FREE: usize = 8;

thread_local! {
    static BUFFERS: RefCell<[Box<[u8]>; FREE]> = RefCell::default();
}

/// Bytes to read into, which go back to the thread that drops them.
#[derive(Debug)]
pub(super) struct Buffer(Box<[u8]>);

impl Buffer {
    /// A buffer of this size, which is not zero. What it held last is still in it.
    pub(super) fn take(size: usize) -> Buffer {
        let kept = BUFFERS.try_with(|free| {
            let mut free = free.borrow_mut();
            free.iter_mut().find(|buffer| buffer.len() == size).map(mem::take)
        });
        // In the destructor of another thread-local there are none.
        Buffer(kept.ok().flatten().unwrap_or_else(|| vec![0; size].into_boxed_slice()))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let buffer = mem::take(&mut self.0);
        let _ = BUFFERS.try_with(|free| {
            let mut free = free.borrow_mut();
            // An empty place, or else that of a size which is not asked for now.
            let place = free.iter().position(|kept| kept.is_empty());
            let place = place.or_else(|| free.iter().position(|kept| kept.len() != buffer.len()));
            if let Some(place) = place {
                free[place] = buffer;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free() -> Vec<usize> {
        BUFFERS.with(|free| free.borrow().iter().map(|kept| kept.len()).filter(|len| *len > 0).collect())
    }

    #[test]
    fn a_buffer_is_used_again_and_no_more_than_a_few_are_kept() {
        let first = Buffer::take(100).bytes().as_ptr();
        assert_eq!(free(), [100]);
        let again = Buffer::take(100);
        assert_eq!((again.bytes().as_ptr(), free()), (first, vec![]));
        let more: Vec<_> = (0..2 * FREE).map(|_| Buffer::take(100)).collect();
        drop((again, more));
        assert_eq!(free(), [100; FREE]);
    }

    #[test]
    fn a_size_that_is_asked_for_takes_the_place_of_one_that_is_not() {
        let old: Vec<_> = (0..FREE).map(|_| Buffer::take(7)).collect();
        drop(old);
        let other = Buffer::take(8).bytes().as_ptr();
        assert_eq!(Buffer::take(8).bytes().as_ptr(), other);
        assert_eq!(free().iter().filter(|len| **len == 8).count(), 1);
    }
}
