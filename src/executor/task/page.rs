//! A page of the pool: blocks of one size, and a header that lies among them.
//!
//! ```text
//!   0             place           place + HEAD                               BYTES
//!   | blocks, second | header     | blocks, first                               |
//! ```
//!
//! Ground rules:
//!
//! * A page is aligned to [`ALIGN`], so that a block's address names its page.
//! * Where the header lies follows from the page's address, and differs from page to page: were it always at the
//!   start, all headers would share a few sets of the processor's caches, and push each other out.
//! * A block is the page's while it is free, and nobody else's: its first word is the link to the next free one.
//! * No pointer to a page or a block is derived from a reference to a header: it has to reach all of the page.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Pages begin at multiples of this. Pages of 64 KiB were slower: an allocator that looks for twice the size, so as to
/// align what it finds, maps each of them on its own.
const ALIGN: usize = 1 << 13;

/// A page is a little shorter, so that an allocator which keeps a word or two beside each allocation can lay pages side
/// by side.
const BYTES: usize = ALIGN - 16;

/// What sizes and addresses of blocks are multiples of.
pub(super) const GRAIN: usize = 16;

/// The room of a header.
const HEAD: usize = size_of::<Page>();

/// The places where a header can lie, one for each line of the cache.
const PLACES: usize = (BYTES - HEAD) / 64 + 1;

const LAYOUT: Layout = match Layout::from_size_align(BYTES, ALIGN) {
    Ok(layout) => layout,
    Err(_) => panic!("a page has a layout"),
};

/// The header of a page.
#[repr(C, align(64))]
pub(super) struct Page {
    /// The neighbours in the list of pages with room, which is the pool's business.
    pub(super) next: Option<NonNull<Page>>,
    pub(super) previous: Option<NonNull<Page>>,
    /// The first of the free blocks that were in use before.
    free: Option<NonNull<u8>>,
    /// Where the next block lies that never was in use, if it does not lie beyond the end.
    fresh: NonNull<u8>,
    /// Where the page begins.
    start: NonNull<u8>,
    /// The size of a block.
    size: u16,
    /// Blocks in use, and how many there are.
    live: u16,
    capacity: u16,
    /// Which blocks are in use, by the grain they begin at.
    #[cfg(debug_assertions)]
    taken: [u64; ALIGN / GRAIN / 64],
}

/// How a page stands after a block was taken or put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// All blocks are in use.
    Full,
    /// All but this one had been in use.
    FirstRoom,
    /// Some are in use, and some are not.
    Room,
    /// No block is in use.
    Empty,
}

/// Where in the page that this address lies in its header is.
#[inline]
fn place(address: usize) -> usize {
    address / ALIGN % PLACES * 64
}

/// The header of the page that the block at this address belongs to. Also an address that is no block's gives one,
/// which must not be followed then.
#[inline]
pub(super) fn header_of<T>(block: *mut T) -> *mut Page {
    let in_page = |address: usize| (address & !(ALIGN - 1)) + place(address);
    block.map_addr(in_page).cast()
}

/// Where the first block of the page that begins here lies.
#[inline]
fn after_header(start: NonNull<u8>) -> NonNull<u8> {
    start.map_addr(|start| start.saturating_add(place(start.get()) + HEAD))
}

impl Page {
    /// A new page, whose blocks are of this size: a multiple of [`GRAIN`], not zero, and small against a page.
    pub(super) fn new(size: usize) -> NonNull<Page> {
        debug_assert!(size > 0 && size % GRAIN == 0 && size <= BYTES / 8);
        // SAFETY: The layout's size is not zero.
        let Some(start) = NonNull::new(unsafe { alloc(LAYOUT) }) else { handle_alloc_error(LAYOUT) };
        let place = place(start.addr().get());
        let capacity = (BYTES - place - HEAD) / size + place / size;
        let header = Page {
            next: None,
            previous: None,
            free: None,
            fresh: after_header(start),
            start,
            // Both are less than ALIGN / GRAIN.
            size: size as u16,
            live: 0,
            capacity: capacity as u16,
            #[cfg(debug_assertions)]
            taken: [0; ALIGN / GRAIN / 64],
        };
        let page = start.map_addr(|start| start.saturating_add(place)).cast();
        // SAFETY: The page is ours alone and `BYTES` long, and the header lies inside: `place` is at most
        // `BYTES - HEAD`, and a multiple of 64, as its alignment wants.
        unsafe { page.write(header) };
        page
    }

    /// Frees a page.
    ///
    /// # Safety
    ///
    /// The page was made by [`new`](Page::new), and nobody uses it or one of its blocks from now on.
    #[cold]
    pub(super) unsafe fn free(page: NonNull<Page>) {
        // SAFETY: By the caller's promise the header is there, and `start` is what `alloc` returned for this layout,
        // with its right to all of the page. It is not freed twice.
        unsafe { dealloc(page.as_ref().start.as_ptr(), LAYOUT) }
    }

    /// Takes a block of a page that is not full.
    ///
    /// # Safety
    ///
    /// The page is alive, and nobody else uses it or one of its free blocks meanwhile.
    #[inline]
    pub(super) unsafe fn take(this: NonNull<Page>) -> (NonNull<u8>, Stand) {
        // SAFETY: By the caller's promise the header is there, and ours for as long as this takes.
        let page = unsafe { &mut *this.as_ptr() };
        debug_assert!(page.live < page.capacity, "a block of a full page");
        page.live += 1;
        let block = match page.free {
            Some(block) => {
                // SAFETY: A block in the list is free and therefore ours, aligned for this, and its first word was
                // written by `put`.
                page.free = unsafe { block.cast().read() };
                block
            }
            None => {
                if page.fresh.addr().get() + page.size() > page.start.addr().get() + BYTES {
                    // What lies behind the header is used up.
                    page.fresh = page.start;
                }
                let block = page.fresh;
                page.fresh = block.map_addr(|block| block.saturating_add(page.size()));
                block
            }
        };
        page.mark(block, true);
        (block, if page.live == page.capacity { Stand::Full } else { Stand::Room })
    }

    /// Puts a block back.
    ///
    /// # Safety
    ///
    /// The block was taken from this page and not put back since, and nobody uses it any more; the page as for
    /// [`take`](Page::take).
    #[inline]
    pub(super) unsafe fn put(this: NonNull<Page>, block: NonNull<u8>) -> Stand {
        // SAFETY: As in `take`.
        let page = unsafe { &mut *this.as_ptr() };
        page.mark(block, false);
        let was_full = page.live == page.capacity;
        page.live -= 1;
        if page.live == 0 {
            // As new: the next blocks lie side by side again.
            page.free = None;
            page.fresh = after_header(page.start);
            return Stand::Empty;
        }
        // SAFETY: The block is the page's again, is at least a word long, and aligned to a grain.
        unsafe { block.cast().write(page.free) };
        page.free = Some(block);
        if was_full { Stand::FirstRoom } else { Stand::Room }
    }

    /// The size of a block.
    #[inline]
    pub(super) fn size(&self) -> usize {
        usize::from(self.size)
    }

    /// Notes that a block is in use or is not, which it was not or was.
    #[inline]
    fn mark(&mut self, _block: NonNull<u8>, _taken: bool) {
        #[cfg(debug_assertions)]
        {
            let grain = _block.as_ptr().addr() % ALIGN / GRAIN;
            let (word, bit) = (&mut self.taken[grain / 64], 1 << (grain % 64));
            assert_eq!(*word & bit == 0, _taken, "a block was given out or put back twice");
            *word ^= bit;
        }
    }
}
