//! A task's memory, an allocation of its own; and free lists that keep the memory for later tasks, one for each size.
//!
//! An allocator joins a freed chunk with its neighbours in memory. When many tasks end in random order, that causes two cache
//! misses for each task. A list writes its link into the block itself, which the end of the task has just touched.
//!
//! Ground rules:
//!
//! * The lists belong to the owner thread, and get back only blocks that were taken there. A task that ends on another thread
//!   frees its block.
//! * Blocks that were in a list for a whole window of time go back to the allocator, a few per turn; and the allocator is then made to
//!   join them with their neighbours. glibc delays that for small chunks until a large chunk is requested or freed, and then
//!   joins all of them: for the tasks that had ended in a second this took 4 ms and more, in one turn.
//! * Under Miri and the sanitizers no memory is kept: they see each task's memory end with the task.

use super::header::{Header, prefetch};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::hint::black_box;
use std::mem::{ManuallyDrop, take};
use std::ptr::NonNull;

/// Sizes of tasks are multiples of this. It is also their alignment, unless the future needs more.
const GRAIN: usize = align_of::<Header>();
/// The number of blocks that are freed in a turn.
const STEP: usize = 32;
/// So many blocks and more are worth a wake-up.
const MANY: usize = 1024;
/// The number of sizes for which there are lists, those up to 512 bytes.
const SIZES: usize = 512 / GRAIN + 1;
/// The size in bytes of a chunk that is large for glibc.
const LARGE: usize = 2048;

/// Uninitialised memory for a task.
pub(in crate::executor) struct Block(NonNull<u8>, Layout);

impl Block {
    pub(super) fn new(layout: Layout) -> Block {
        assert!(layout.size() >= size_of::<Header>(), "a block has room for a header");
        // SAFETY: The size is not zero, as that of a header is not.
        let start = NonNull::new(unsafe { alloc(layout) });
        Block(start.unwrap_or_else(|| handle_alloc_error(layout)), layout)
    }

    /// Returns the memory, which belongs to the caller from here on.
    pub(super) fn into_raw(self) -> NonNull<u8> {
        ManuallyDrop::new(self).0
    }

    /// # Safety
    ///
    /// The pointer is what [`into_raw`](Block::into_raw) returned for this layout, and the caller gives the memory up.
    pub(super) unsafe fn from_raw(start: NonNull<u8>, layout: Layout) -> Block {
        Block(start, layout)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `new` allocated the memory with this layout. It is the block's alone, and the block ends here.
        unsafe { dealloc(self.0.as_ptr(), self.1) }
    }
}

/// Free blocks of one size, last in, first out. Each block begins with a link to the next.
#[derive(Default)]
struct List(Option<Block>);

impl List {
    fn push(&mut self, block: Block) {
        let link = block.0.cast::<Option<Block>>();
        let next = self.0.replace(block);
        // SAFETY: The block is ours, and has the size and the alignment of a header, which are enough for a link.
        unsafe { link.write(next) };
    }

    fn pop(&mut self) -> Option<Block> {
        let block = self.0.take()?;
        // SAFETY: `push` wrote the link, and nobody has touched the block since. The link is read once.
        self.0 = unsafe { block.0.cast::<Option<Block>>().read() };
        self.0.iter().for_each(|next| prefetch(next.0.as_ptr()));
        Some(block)
    }
}

impl Drop for List {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// The free blocks of an executor.
pub(in crate::executor) struct Pool {
    /// Two lists for each size in grains: the blocks that were freed since the last check, and those that were there at that
    /// check, which are taken last.
    lists: [[List; 2]; SIZES],
    /// The index of the size that is checked next; [`SIZES`] if all were checked in this window.
    turn: usize,
    window: u64,
    /// How many blocks there are in all lists.
    kept: usize,
}

impl Pool {
    pub(in crate::executor) fn new() -> Pool {
        Pool { lists: std::array::from_fn(|_| Default::default()), turn: SIZES, window: 0, kept: 0 }
    }

    /// Returns the lists for blocks of this layout, if such blocks are kept.
    fn lists(&mut self, layout: Layout) -> Option<&mut [List; 2]> {
        let kept = !cfg!(any(miri, mainspring_sanitize)) && layout.align() == GRAIN;
        self.lists.get_mut(layout.size() / GRAIN).filter(|_| kept)
    }

    /// Returns a free block, or a new one.
    pub(super) fn take(&mut self, layout: Layout) -> Block {
        let free = self.lists(layout).and_then(|lists| lists.iter_mut().find_map(List::pop));
        self.kept -= usize::from(free.is_some());
        free.unwrap_or_else(|| Block::new(layout))
    }

    /// Takes back a block that was taken here.
    pub(in crate::executor) fn keep(&mut self, block: Block) {
        let Some([recent, _]) = self.lists(block.1) else { return };
        recent.push(block);
        self.kept += 1;
    }

    /// Whether there are so many blocks that a thread which sleeps should wake up to have them freed.
    pub(in crate::executor) fn is_large(&self) -> bool {
        self.kept >= MANY
    }

    /// Frees a few blocks that were not needed from one check to the next, which is in a later window. To be called once per turn.
    /// Returns whether more are to be freed.
    pub(in crate::executor) fn trim(&mut self, window: u64) -> bool {
        if self.turn == SIZES && self.window != window {
            (self.turn, self.window) = (0, window);
        }
        let mut freed = 0;
        while let Some([recent, idle]) = self.lists.get_mut(self.turn) {
            freed += (freed..STEP).take_while(|_| idle.pop().is_some()).count();
            if freed == STEP {
                break;
            }
            *idle = take(recent);
            self.turn += 1;
        }
        self.kept -= freed;
        if freed > 0 {
            // Without `black_box` the compiler would remove the unused allocation.
            drop(black_box(Vec::<u8>::with_capacity(LARGE)));
        }
        freed == STEP
    }
}

#[cfg(all(test, not(any(loom, miri, mainspring_sanitize))))]
mod tests {
    use super::*;

    #[test]
    fn what_a_window_did_not_need_is_freed_in_steps() {
        let mut pool = Pool::new();
        let layouts = [64, 128].map(|size| Layout::from_size_align(size, GRAIN).unwrap());
        let blocks: Vec<_> =
            layouts.iter().flat_map(|&layout| (0..100).map(move |_| Block::new(layout))).collect();
        blocks.into_iter().for_each(|block| pool.keep(block));
        let kept = |pool: &mut Pool, window| (pool.trim(window), pool.kept);
        assert_eq!(kept(&mut pool, 1), (false, 200), "all may yet be needed");
        assert_eq!(kept(&mut pool, 1), (false, 200));
        // Ten of them are needed, and come back.
        let taken: Vec<_> = (0..10).map(|_| pool.take(layouts[0])).collect();
        assert_eq!(pool.kept, 190);
        taken.into_iter().for_each(|block| pool.keep(block));
        let expected = [168, 136, 104, 72, 40].map(|left| (true, left));
        assert_eq!(expected.map(|_| kept(&mut pool, 2)), expected);
        assert_eq!(kept(&mut pool, 2), (false, 10));
        assert_eq!(kept(&mut pool, 2), (false, 10));
        assert_eq!(kept(&mut pool, 3), (false, 0));
    }
}
