//! Buffers that the copies of a thread share.
//!
//! A read needs a buffer before it is known whether there is anything to read. Allocating a buffer for each attempt would mean
//! filling it with zeros each time, which takes longer than reading a short message into it. Keeping a buffer for each
//! direction would take 128 KiB for each idle connection, and the buffers would always be cold in the cache.
//!
//! Ground rules:
//!
//! * A buffer that is in use belongs to its user alone, so a reader that runs a copy inside of its `poll_read` gets another
//!   one.
//! * No user code runs while the free buffers are borrowed.
//! * A thread keeps a few free buffers, so that a steady state allocates nothing. What a burst needed beyond them is freed.

use std::cell::RefCell;
use std::mem;

/// The maximum number of free buffers that a thread keeps.
const FREE: usize = 8;

thread_local! {
    static BUFFERS: RefCell<[Box<[u8]>; FREE]> = RefCell::default();
}

/// A buffer to read into. It goes back to the thread that drops it.
#[derive(Debug)]
pub(super) struct Buffer(Box<[u8]>);

impl Buffer {
    /// Returns a buffer of this size, which must not be zero. Its last contents are still in it.
    pub(super) fn take(size: usize) -> Buffer {
        let kept = BUFFERS.try_with(|free| {
            let mut free = free.borrow_mut();
            free.iter_mut().find(|buffer| buffer.len() == size).map(mem::take)
        });
        // In the destructor of another thread-local there are no free buffers.
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
            // An empty place, or else the place of a buffer of another size, which is not wanted now.
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
