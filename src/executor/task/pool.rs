//! A task's memory, an allocation of its own; and free lists that keep it for tasks to come, one for each size.
//!
//! An allocator joins a freed chunk with its neighbours in memory. When many tasks end in random order, that is two cache
//! misses for each. A list writes its link into the block itself, where the end of the task has just been.
//!
//! Ground rules:
//!
//! * The lists are the owner thread's, and get back only what was taken there. A task that ends elsewhere frees its block.
//! * What has lain in a list for long goes back to the allocator, a few blocks a turn; and it is made to join them with their
//!   neighbours then. glibc leaves that for small ones until somebody asks for a large chunk or frees one, and then does all:
//!   the tasks that had ended in a second took 4 ms and more, in one turn.
//! * Under Miri and the sanitizers nothing is kept: they see each task's memory end with the task.

use super::header::{Header, prefetch};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::hint::black_box;
use std::mem::{ManuallyDrop, take};
use std::ptr::NonNull;

/// Sizes of tasks are multiples of this. It is their alignment, too, unless the future wants more.
const GRAIN: usize = align_of::<Header>();
/// The turns from one look at a list to the next, and the blocks that are freed in a turn.
const WINDOW: usize = 1024;
const STEP: usize = 32;
/// Bytes that are a large chunk for glibc.
const LARGE: usize = 2048;

/// Memory for a task, not initialised.
pub(in crate::executor) struct Block(NonNull<u8>, Layout);

impl Block {
    pub(super) fn new(layout: Layout) -> Block {
        assert!(layout.size() >= size_of::<Header>(), "a block has room for a header");
        // SAFETY: The size is not zero, as that of a header is not.
        let start = NonNull::new(unsafe { alloc(layout) });
        Block(start.unwrap_or_else(|| handle_alloc_error(layout)), layout)
    }

    /// The memory, which is the caller's from here on.
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

/// Free blocks of one size, last in, first out. Each begins with the next.
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
    /// By size in grains, up to 512 bytes: what was freed since the last look, and what lay there then and is taken last.
    lists: [[List; 2]; 512 / GRAIN + 1],
    /// The list that is looked at next, if there are so many.
    turn: usize,
}

impl Pool {
    pub(in crate::executor) fn new() -> Pool {
        Pool { lists: std::array::from_fn(|_| Default::default()), turn: 0 }
    }

    /// The lists for blocks of this layout, if they are kept.
    fn lists(&mut self, layout: Layout) -> Option<&mut [List; 2]> {
        let kept = !cfg!(any(miri, mainspring_sanitize)) && layout.align() == GRAIN;
        self.lists.get_mut(layout.size() / GRAIN).filter(|_| kept)
    }

    /// A free block, or a new one.
    pub(super) fn take(&mut self, layout: Layout) -> Block {
        let free = self.lists(layout).and_then(|lists| lists.iter_mut().find_map(List::pop));
        free.unwrap_or_else(|| Block::new(layout))
    }

    /// Takes back a block that was taken here.
    pub(in crate::executor) fn keep(&mut self, block: Block) {
        let Some([recent, _]) = self.lists(block.1) else { return };
        recent.push(block);
    }

    /// Frees a few blocks that were not needed from one look to the next. Once a turn.
    pub(in crate::executor) fn trim(&mut self) {
        if let Some([recent, idle]) = self.lists.get_mut(self.turn) {
            if (0..STEP).all(|_| idle.pop().is_some()) {
                // An allocation that is not used would be left out.
                drop(black_box(Vec::<u8>::with_capacity(LARGE)));
                return;
            }
            *idle = take(recent);
        }
        self.turn = (self.turn + 1) % WINDOW;
    }
}
