//! The pool that the memory of tasks comes from: pages of blocks of one size, with a list of those that have room.
//!
//! A general allocator joins what is freed with its neighbours. If a great many tasks end in random order, that is
//! two far places in memory for each, which cost more than all else that the end of a task takes. Here the end of a
//! task touches its block and the header of its page.
//!
//! ```text
//!                  allocate                   free here, with the `Owner`
//!   page -----------------------> task --------------------------------------> page
//!                                   \                                           ^
//!                                    +--> returned ---- drain, at the next run --+
//!                                free elsewhere
//! ```
//!
//! Ground rules:
//!
//! * Only the owner thread touches a page, which it shows its [`Owner`] for; but the end of the pool, which is the
//!   end of the `Remote` and therefore comes after the end of every task: nobody else is left then.
//! * What is freed elsewhere waits in `returned`, a list that goes through the blocks themselves.
//! * A page whose last block goes is freed at once, but for one of each size, so that a steady state allocates
//!   nothing.
//! * No user code runs here. Only the global allocator is called.

use super::page::{GRAIN, Page, Stand, header_of};
use crate::executor::remote::{Owner, Remote};
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::sync::Arc;
// Not loom's, like the cell: no model waits for a block, and the tests below run under Miri.
use std::sync::atomic::{AtomicPtr, Ordering};

/// The largest block.
const LARGEST: usize = 512;

/// Whether the pool has blocks for this layout.
pub(super) const fn fits(layout: Layout) -> bool {
    layout.size() > 0 && layout.size() <= LARGEST && layout.align() <= GRAIN
}

/// The pages whose blocks have one size.
#[derive(Clone, Copy, Default)]
struct Class {
    /// The first of the pages that have both blocks in use and room.
    room: Option<NonNull<Page>>,
    /// A page with no block in use.
    spare: Option<NonNull<Page>>,
}

/// The classes, by the grains in a block, less one.
#[derive(Default)]
struct Classes([Class; LARGEST / GRAIN]);

/// The memory of an executor's tasks.
pub(in crate::executor) struct Pool {
    classes: UnsafeCell<Classes>,
    /// The first of the blocks that were freed elsewhere.
    returned: AtomicPtr<u8>,
}

// SAFETY: The pages and blocks it points at are the pool's own and bound to no thread.
unsafe impl Send for Pool {}
// SAFETY: A shared reference leads to the classes only together with the `Owner`, which stays on its thread; to
// `returned`, an atomic, from everywhere.
unsafe impl Sync for Pool {}

impl Pool {
    /// An empty pool. Allocates nothing.
    pub(in crate::executor) fn new() -> Pool {
        Pool { classes: UnsafeCell::default(), returned: AtomicPtr::default() }
    }

    /// A block for this layout, which [`fits`]: of the owner's pool, aligned, and not initialised. It is there for as
    /// long as the owner's `Remote` is, and can reach its page.
    #[inline]
    pub(super) fn allocate(owner: &Owner, layout: Layout) -> NonNull<u8> {
        debug_assert!(fits(layout));
        with(owner, |classes| classes.allocate(layout.size()))
    }

    /// Takes back what was freed elsewhere.
    #[inline]
    pub(in crate::executor) fn drain(owner: &Owner) {
        // Relaxed: what is not seen yet is there the next time.
        if !owner.remote().pool().returned.load(Ordering::Relaxed).is_null() {
            with(owner, |classes| classes.drain(&owner.remote().pool().returned));
        }
    }

    /// Takes back what was freed elsewhere, and keeps no more than it must: the owner ends.
    pub(in crate::executor) fn retire(owner: &Owner) {
        with(owner, |classes| {
            classes.drain(&owner.remote().pool().returned);
            classes.free_spares();
        });
    }
}

/// Works on the classes of the owner's pool.
#[inline]
fn with<R>(owner: &Owner, work: impl FnOnce(&mut Classes) -> R) -> R {
    // SAFETY: The pointer is valid, being an UnsafeCell's. Nobody else has a reference to the classes: only the owner
    // thread gets here, as `owner` shows, and what `work` does is in this file and calls nothing but the global
    // allocator.
    work(unsafe { &mut *owner.remote().pool().classes.get() })
}

impl Drop for Pool {
    fn drop(&mut self) {
        let classes = self.classes.get_mut();
        classes.drain(&self.returned);
        classes.free_spares();
        // A task in a page would have kept the `Remote`, and so the pool.
        debug_assert!(
            classes.0.iter().all(|class| class.room.is_none()) || std::thread::panicking(),
            "the pool ended before its tasks"
        );
    }
}

impl Classes {
    #[inline]
    fn allocate(&mut self, size: usize) -> NonNull<u8> {
        let grains = size.div_ceil(GRAIN);
        let class = &mut self.0[grains - 1];
        let page = class.room.unwrap_or_else(|| class.more_room(grains * GRAIN));
        // SAFETY: A page with room is alive, and only who has the classes, which are borrowed mutably, uses it. It is
        // not full.
        let (block, stand) = unsafe { Page::take(page) };
        if stand == Stand::Full {
            class.unlink(page);
        }
        block
    }

    /// Puts a block back.
    ///
    /// # Safety
    ///
    /// The block was allocated here and not put back since, and nobody uses it any more.
    #[inline]
    unsafe fn put(&mut self, block: NonNull<u8>) {
        // SAFETY: Never null, as it lies in the block's page.
        let page = unsafe { NonNull::new_unchecked(header_of(block.as_ptr())) };
        // SAFETY: By the caller's promise this is the page that the block was taken from, which is alive as the block
        // is in use, and only who has the classes uses it.
        let (size, stand) = unsafe { (page.as_ref().size(), Page::put(page, block)) };
        let class = &mut self.0[size / GRAIN - 1];
        match stand {
            Stand::FirstRoom => class.link(page),
            Stand::Empty => class.emptied(page),
            Stand::Room | Stand::Full => {}
        }
    }

    /// Puts back all that is in the list.
    fn drain(&mut self, returned: &AtomicPtr<u8>) {
        // Acquire: what was done with the blocks, and the links in them, come before this.
        let mut next = NonNull::new(returned.swap(ptr::null_mut(), Ordering::Acquire));
        while let Some(block) = next {
            // SAFETY: The list was taken as a whole, so that its blocks are ours: each was put in once, by
            // `Remains::give_back`, which wrote the link, and belongs to this pool.
            unsafe {
                next = NonNull::new(block.cast::<*mut u8>().read());
                self.put(block);
            }
        }
    }

    fn free_spares(&mut self) {
        for page in self.0.iter_mut().filter_map(|class| class.spare.take()) {
            // SAFETY: No block of a spare page is in use, and nothing points at the page any more.
            unsafe { Page::free(page) };
        }
    }
}

impl Class {
    /// A page with room where none was.
    #[cold]
    fn more_room(&mut self, size: usize) -> NonNull<Page> {
        let page = self.spare.take().unwrap_or_else(|| Page::new(size));
        self.link(page);
        page
    }

    /// A page has no block in use any more.
    #[cold]
    fn emptied(&mut self, page: NonNull<Page>) {
        self.unlink(page);
        if self.spare.is_none() {
            self.spare = Some(page);
        } else {
            // SAFETY: As in `free_spares`: the page has just left the list.
            unsafe { Page::free(page) };
        }
    }

    /// Puts a page that is in no list at the front of those with room.
    fn link(&mut self, page: NonNull<Page>) {
        // SAFETY: The pages in the list, and this one, are alive, and only who has the classes uses their headers: the
        // references made here last for one statement each.
        unsafe {
            (*page.as_ptr()).next = self.room;
            (*page.as_ptr()).previous = None;
            if let Some(next) = self.room {
                (*next.as_ptr()).previous = Some(page);
            }
        }
        self.room = Some(page);
    }

    /// Takes a page out of the list of those with room.
    fn unlink(&mut self, page: NonNull<Page>) {
        // SAFETY: As in `link`.
        unsafe {
            let (next, previous) = (page.as_ref().next, page.as_ref().previous);
            match previous {
                Some(previous) => (*previous.as_ptr()).next = next,
                None => self.room = next,
            }
            if let Some(next) = next {
                (*next.as_ptr()).previous = previous;
            }
        }
    }
}

/// What is left of a task that has ended: its memory, and its reference to the `Remote`, which keeps that memory
/// there.
pub(in crate::executor) struct Remains {
    block: Option<NonNull<u8>>,
    remote: Arc<Remote>,
}

impl Remains {
    /// Of a task whose memory was not the pool's and has been freed.
    #[inline]
    pub(super) fn without_block(remote: Arc<Remote>) -> Remains {
        Remains { block: None, remote }
    }

    /// Of a task whose memory is a block.
    ///
    /// # Safety
    ///
    /// The block was allocated from the pool of this `Remote`, nobody uses it any more, and this is done once.
    #[inline]
    pub(super) unsafe fn with_block(block: NonNull<u8>, remote: Arc<Remote>) -> Remains {
        Remains { block: Some(block), remote }
    }

    /// The executor that the task belonged to.
    #[inline]
    pub(in crate::executor) fn remote(&self) -> &Arc<Remote> {
        &self.remote
    }

    /// Frees the memory, on the owner thread.
    #[inline]
    pub(in crate::executor) fn free(self, owner: &Owner) -> Arc<Remote> {
        assert!(
            owner.owns(&self.remote),
            "the memory of a task was freed by an executor that is not its own"
        );
        if let Some(block) = self.block {
            // SAFETY: The block is of the `Remote`'s pool, which is the owner's, nobody uses it, and `self` ends here.
            with(owner, |classes| unsafe { classes.put(block) });
        }
        self.remote
    }

    /// Leaves the memory for the owner to free, which it does at its next run; or the end of the pool.
    #[cold]
    pub(in crate::executor) fn give_back(self) -> Arc<Remote> {
        let Some(block) = self.block else { return self.remote };
        let returned = &self.remote.pool().returned;
        let mut first = returned.load(Ordering::Relaxed);
        loop {
            // SAFETY: Nobody else uses the block, which is at least a word long and aligned to a grain.
            unsafe { block.cast().write(first) };
            // Release: what was done with the block, and the link in it, are seen by whoever takes the list. Blocks are
            // never taken one by one, so that a first one that went and came back is linked to rightly.
            match returned.compare_exchange_weak(first, block.as_ptr(), Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return self.remote,
                Err(now) => first = now,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::executor::remote::Notify;
    use std::thread;

    struct Silent;

    impl Notify for Silent {
        fn notify(&self) {}
    }

    fn owner() -> Owner {
        Owner::new(Arc::new(Silent))
    }

    /// A block full of one byte.
    struct Filled {
        remains: Remains,
        size: usize,
        byte: u8,
    }

    impl Filled {
        fn new(owner: &Owner, size: usize, byte: u8) -> Filled {
            let block = Pool::allocate(owner, Layout::from_size_align(size, 16).unwrap());
            assert_eq!(block.addr().get() % 16, 0);
            // SAFETY: The block is new, and so long. What is left of the task that never was is made once.
            let remains = unsafe {
                block.write_bytes(byte, size);
                Remains::with_block(block, owner.remote().clone())
            };
            Filled { remains, size, byte }
        }

        /// Looks whether all bytes are as they were.
        fn end(self) -> Remains {
            let block = self.remains.block.unwrap();
            for at in 0..self.size {
                // SAFETY: The block is still ours, and so long.
                assert_eq!(unsafe { block.add(at).read() }, self.byte, "byte {at} of {}", self.size);
            }
            self.remains
        }
    }

    // SAFETY: As a task, which any thread may end.
    unsafe impl Send for Filled {}

    /// Pages with room, by the list and back again, and spare ones.
    fn pages(owner: &Owner) -> (usize, usize) {
        with(owner, |classes| {
            let mut room = 0;
            for class in &classes.0 {
                let (mut next, mut before) = (class.room, None);
                while let Some(page) = next {
                    // SAFETY: Pages in the list are alive.
                    let header = unsafe { page.as_ref() };
                    assert_eq!(header.previous, before);
                    (before, next) = (next, header.next);
                    room += 1;
                }
            }
            (room, classes.0.iter().filter(|class| class.spare.is_some()).count())
        })
    }

    fn random(state: &mut u64) -> usize {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 20) as usize
    }

    #[test]
    fn blocks_of_all_sizes_come_and_go_in_random_order() {
        let owner = owner();
        let mut state = 0x9e37_79b9_7f4a_7c15;
        let mut blocks: Vec<Filled> = Vec::new();
        let steps = if cfg!(miri) { 300 } else { 100_000 };
        for step in 0..steps {
            // Waves: the blocks grow many, and few again.
            let grows = step / (steps / 6) % 2 == 0;
            if blocks.is_empty() || (random(&mut state) % 4 != 0) == grows {
                // Few sizes, so that pages fill up, and the extremes.
                let size = [1, 16, 500, LARGEST][random(&mut state) % 4];
                blocks.push(Filled::new(&owner, size, step as u8));
            } else {
                let one = blocks.swap_remove(random(&mut state) % blocks.len());
                let remains = one.end();
                // Some by way of the list.
                drop(if random(&mut state) % 8 == 0 { remains.give_back() } else { remains.free(&owner) });
            }
            if step % 64 == 0 {
                Pool::drain(&owner);
                pages(&owner);
            }
        }
        for one in blocks {
            drop(one.end().free(&owner));
        }
        Pool::drain(&owner);
        assert_eq!(pages(&owner), (0, 2), "a spare page for each size of block, and no other");
        assert_eq!(Arc::strong_count(owner.remote()), 1);
    }

    #[test]
    fn a_block_is_used_again_and_a_full_page_has_room_again() {
        let owner = owner();
        let first = Filled::new(&owner, 200, 1);
        let address = first.remains.block;
        drop(first.end().free(&owner));
        let mut blocks: Vec<Filled> = (0..100).map(|n| Filled::new(&owner, 200, n)).collect();
        assert_eq!(blocks[0].remains.block, address);
        let (room, _) = pages(&owner);
        assert!(room <= 1, "full pages are in no list");
        let middle = blocks.remove(50);
        let address = middle.remains.block;
        drop(middle.end().free(&owner));
        blocks.push(Filled::new(&owner, 200, 0));
        assert_eq!(blocks[99].remains.block, address);
        for one in blocks {
            drop(one.end().free(&owner));
        }
        assert_eq!(pages(&owner), (0, 1));
    }

    #[test]
    fn other_threads_hand_blocks_back_while_the_owner_works() {
        let owner = owner();
        let threads: Vec<_> = (0..3)
            .map(|n| {
                let blocks: Vec<Filled> = (0..40).map(|_| Filled::new(&owner, 128, n)).collect();
                thread::spawn(move || blocks.into_iter().for_each(|one| drop(one.end().give_back())))
            })
            .collect();
        for n in 0..40 {
            Pool::drain(&owner);
            drop(Filled::new(&owner, 128, n).end().free(&owner));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        Pool::drain(&owner);
        assert_eq!(pages(&owner), (0, 1));
    }

    #[test]
    fn the_pages_outlive_the_owner_until_the_last_block() {
        let owner = owner();
        let blocks: Vec<Filled> = (0..100).map(|n| Filled::new(&owner, 300, n)).collect();
        let waiting = Filled::new(&owner, 64, 7);
        drop(waiting.end().give_back());
        let remote = Arc::downgrade(owner.remote());
        drop(owner);
        let ended = thread::spawn(move || {
            for one in blocks {
                assert!(remote.upgrade().is_some());
                drop(one.end().give_back());
            }
            assert!(remote.upgrade().is_none());
        });
        // Miri sees whether all pages are freed.
        ended.join().unwrap();
    }

    #[test]
    #[cfg(debug_assertions)]
    fn a_block_put_back_twice_is_noticed() {
        let owner = owner();
        let kept = Filled::new(&owner, 64, 0);
        let block = Filled::new(&owner, 64, 1).remains.block.unwrap();
        let twice = || {
            // SAFETY: None, the second time, which is noticed before anything is done.
            unsafe { Remains::with_block(block, owner.remote().clone()) }
        };
        drop(twice().free(&owner));
        let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(twice().free(&owner))));
        let payload = again.expect_err("nobody noticed");
        assert!(payload.downcast_ref::<String>().is_some_and(|text| text.contains("put back twice")));
        // Nothing was done: the other block is whole, and with it its page is freed.
        drop(kept.end().free(&owner));
    }
}
