//! Slots: unordered arrays of cells, in chunks from a pool.
//!
//! A timer's cell is 24 bytes: when it is due, its number and slack, and whom it belongs to. A slot is a
//! stack of chunks of 32 cells, all full but the topmost, so it grows without copying, and it is read as a
//! stream. The owner of a cell keeps its [`Place`], so that it is found and removed in one step.
//!
//! Ground rules:
//!
//! * A place names a chunk of the pool and an offset in it. It is valid until the cell moves, and whoever
//!   moves a cell tells its owner.
//! * Removing a cell fills the hole with the slot's last one: only the topmost chunk is ever partly filled.
//! * A slot's bounds never lie later than the truth. Removal does not raise them; an empty slot has none.
//! * The pool keeps as many chunks as were in use at once lately (and a handful), so that what recurs does
//!   not allocate; the surplus of a burst is released in small steps by [`Pool::release_some`].

use super::level::SlotId;
use super::peak::Peak;
use super::{Place, Rank, Slack};
use crate::Nanos;

/// Cells of a chunk; a power of two.
pub(super) const CHUNK: u32 = 32;
/// Free chunks that are kept however few were in use.
const KEPT: usize = 16;
/// No chunk.
const NONE: u32 = u32::MAX;

/// One timer in the wheel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell<K> {
    /// The deadline under which the timer is filed; its true one may be later.
    pub(super) when: Nanos,
    pub(super) rank: Rank,
    pub(super) key: K,
}

impl<K> Cell<K> {
    /// The latest moment to which a park may put this timer off.
    #[inline]
    pub(super) fn wake(&self) -> Nanos {
        Nanos::new(self.when.get().saturating_add(self.rank.slack().as_nanos()))
    }
}

#[derive(Debug)]
struct Chunk<K> {
    /// The slot this chunk belongs to.
    slot: SlotId,
    /// The chunk under this one.
    below: u32,
    /// Filled from the front.
    cells: [Option<Cell<K>>; CHUNK as usize],
}

#[derive(Clone, Debug)]
struct Slot {
    /// The topmost chunk.
    top: u32,
    len: u32,
    /// No cell is due before this.
    earliest: Nanos,
    /// No cell wants the park to end before this.
    wake: Nanos,
}

/// A cell that [`Slots::swap_remove`] has removed.
pub(super) struct Removed<K> {
    pub(super) key: K,
    /// The slot in which it lay.
    pub(super) slot: SlotId,
    /// The owner of the cell that now lies in its place.
    pub(super) filler: Option<K>,
}

const EMPTY: Slot = Slot { top: NONE, len: 0, earliest: Nanos::NEVER, wake: Nanos::NEVER };

/// All slots of a wheel, and the chunks they are made of.
#[derive(Debug)]
pub(super) struct Slots<K> {
    slots: Box<[Slot]>,
    pool: Pool<K>,
}

impl<K: Copy> Slots<K> {
    pub(super) fn new(count: usize) -> Slots<K> {
        Slots { slots: vec![EMPTY; count].into_boxed_slice(), pool: Pool::new() }
    }

    #[inline]
    pub(super) fn is_empty(&self, id: SlotId) -> bool {
        self.slots[id.index()].len == 0
    }

    #[inline]
    pub(super) fn earliest(&self, id: SlotId) -> Nanos {
        self.slots[id.index()].earliest
    }

    #[inline]
    pub(super) fn wake(&self, id: SlotId) -> Nanos {
        self.slots[id.index()].wake
    }

    /// Puts a cell on top of a slot.
    #[inline]
    pub(super) fn push(&mut self, id: SlotId, cell: Cell<K>) -> Place {
        let slot = &mut self.slots[id.index()];
        let offset = slot.len % CHUNK;
        if offset == 0 {
            slot.top = self.pool.take(id, slot.top);
        }
        slot.len += 1;
        slot.earliest = slot.earliest.min(cell.when);
        slot.wake = slot.wake.min(cell.wake());
        self.pool.chunk_mut(slot.top).cells[offset as usize] = Some(cell);
        Place::in_slot(slot.top, offset)
    }

    /// Takes the topmost cell of a slot.
    #[inline]
    pub(super) fn pop(&mut self, id: SlotId) -> Option<Cell<K>> {
        let Slot { top, len, .. } = self.slots[id.index()];
        let last = len.checked_sub(1)? % CHUNK;
        let cell = self.pool.chunk_mut(top).cells[last as usize].take();
        debug_assert!(cell.is_some(), "a hole in a slot");
        self.shrink(id);
        cell
    }

    /// The key `depth` cells below the top of a slot, if it lies within the two topmost chunks: what a loop
    /// of `pop` will soon come to.
    #[inline]
    pub(super) fn peek(&self, id: SlotId, depth: u32) -> Option<K> {
        let slot = &self.slots[id.index()];
        let index = slot.len.checked_sub(1 + depth)?;
        let top = self.pool.chunk(slot.top);
        let chunk = if index / CHUNK == (slot.len - 1) / CHUNK { top } else { self.pool.chunk(top.below) };
        chunk.cells[(index % CHUNK) as usize].map(|cell| cell.key)
    }

    /// The cell at `place`.
    #[inline]
    pub(super) fn get(&self, place: Place) -> Option<Cell<K>> {
        let (chunk, offset) = place.slot_parts()?;
        self.pool.get(chunk)?.cells[offset as usize]
    }

    /// Removes the cell at `place`. Cells are not handed through, because to read back what has just been
    /// written in other pieces is slow.
    #[inline]
    pub(super) fn swap_remove(&mut self, place: Place) -> Option<Removed<K>> {
        let (chunk, offset) = place.slot_parts()?;
        let slot = self.pool.get(chunk)?.slot;
        let Slot { top, len, .. } = self.slots[slot.index()];
        let last = len.checked_sub(1)? % CHUNK;
        let key = self.pool.chunk(chunk).cells[offset as usize]?.key;
        let mut filler = None;
        if (chunk, offset) == (top, last) {
            self.pool.chunk_mut(top).cells[last as usize] = None;
        } else {
            let moved = self.pool.chunk_mut(top).cells[last as usize].take()?;
            self.pool.chunk_mut(chunk).cells[offset as usize] = Some(moved);
            filler = Some(moved.key);
        }
        self.shrink(slot);
        Some(Removed { key, slot, filler })
    }

    /// The topmost cell of a slot has been taken.
    #[inline]
    fn shrink(&mut self, id: SlotId) {
        let slot = &mut self.slots[id.index()];
        slot.len -= 1;
        if slot.len % CHUNK == 0 {
            let empty = slot.top;
            slot.top = self.pool.chunk(empty).below;
            self.pool.give_back(empty);
            if slot.len == 0 {
                *slot = EMPTY;
            }
        }
    }

    /// Gives the cell at `place` another deadline and slack, if it lies in the slot `id`; says whether it does.
    #[inline]
    pub(super) fn edit(&mut self, place: Place, id: SlotId, when: Nanos, slack: Slack) -> bool {
        let Some((chunk, offset)) = place.slot_parts() else { return false };
        let Some(chunk) = self.pool.get_mut(chunk).filter(|chunk| chunk.slot == id) else { return false };
        let Some(old) = chunk.cells[offset as usize] else { return false };
        let cell = Cell { when, rank: old.rank.with_slack(slack), key: old.key };
        chunk.cells[offset as usize] = Some(cell);
        let slot = &mut self.slots[id.index()];
        slot.earliest = slot.earliest.min(when);
        slot.wake = slot.wake.min(cell.wake());
        true
    }

    /// Walks a slot from its top to its bottom, and sets its bounds anew. `judge` sees each cell once, with
    /// its place; what it does not want kept is removed and handed to `removed`, and `moved` hears of the
    /// cell that fills the hole.
    pub(super) fn sift(
        &mut self,
        id: SlotId,
        mut judge: impl FnMut(&mut Cell<K>) -> bool,
        mut removed: impl FnMut(Cell<K>),
        mut moved: impl FnMut(K, Place),
    ) {
        let Slot { mut top, len, .. } = self.slots[id.index()];
        let (mut earliest, mut wake) = (Nanos::NEVER, Nanos::NEVER);
        let mut index = len;
        while index > 0 {
            // A whole chunk at a time, from its last cell to its first: the cell that fills a hole comes
            // from above and has been judged already.
            let below = self.pool.chunk(top).below;
            for offset in (0..=(index - 1) % CHUNK).rev() {
                index -= 1;
                let Some(cell) = &mut self.pool.chunk_mut(top).cells[offset as usize] else { continue };
                if judge(cell) {
                    earliest = earliest.min(cell.when);
                    wake = wake.min(cell.wake());
                    continue;
                }
                let (cell, place) = (*cell, Place::in_slot(top, offset));
                if let Some(Removed { filler, .. }) = self.swap_remove(place) {
                    removed(cell);
                    if let Some(key) = filler {
                        moved(key, place);
                    }
                }
            }
            top = below;
        }
        let slot = &mut self.slots[id.index()];
        if slot.len > 0 {
            slot.earliest = earliest;
            slot.wake = wake;
        }
    }

    /// Releases a little of the memory that a burst has left behind.
    #[inline]
    pub(super) fn release_some(&mut self, now: Nanos) {
        self.pool.release_some(now);
    }

    /// Chunks in use.
    pub(super) fn chunks(&self) -> usize {
        self.pool.used
    }

    /// Bytes that the slots have allocated.
    pub(super) fn allocated_bytes(&self) -> usize {
        size_of_val(&*self.slots)
            + (self.pool.used + self.pool.free) * size_of::<Chunk<K>>()
            + self.pool.chunks.capacity() * size_of::<Option<Box<Chunk<K>>>>()
            + self.pool.vacant.capacity() * size_of::<u32>()
    }

    /// Visits all cells of a slot with their places, from the top; for checks and listings.
    pub(super) fn cells(&self, id: SlotId) -> impl Iterator<Item = (&Cell<K>, Place)> {
        let mut next = self.slots[id.index()].top;
        let mut left = self.slots[id.index()].len;
        std::iter::from_fn(move || {
            let index = left.checked_sub(1)?;
            let (chunk, offset) = (next, index % CHUNK);
            left = index;
            if offset == 0 {
                next = self.pool.chunk(chunk).below;
            }
            let cell = self.pool.chunk(chunk).cells[offset as usize].as_ref()?;
            Some((cell, Place::in_slot(chunk, offset)))
        })
    }

    /// How many cells a slot holds.
    pub(super) fn len(&self, id: SlotId) -> usize {
        self.slots[id.index()].len as usize
    }
}

/// The chunks of all slots. A chunk that is not in use is either free, its memory kept, or vacant.
#[derive(Debug)]
struct Pool<K> {
    chunks: Vec<Option<Box<Chunk<K>>>>,
    /// The free chunks, a list through `below`.
    first_free: u32,
    free: usize,
    /// Chunks whose memory was released.
    vacant: Vec<u32>,
    used: usize,
    /// How many were in use at once lately.
    peak: Peak,
}

impl<K: Copy> Pool<K> {
    fn new() -> Pool<K> {
        Pool {
            chunks: Vec::new(),
            first_free: NONE,
            free: 0,
            vacant: Vec::new(),
            used: 0,
            peak: Peak::default(),
        }
    }

    #[inline]
    fn get(&self, id: u32) -> Option<&Chunk<K>> {
        self.chunks.get(id as usize)?.as_deref()
    }

    #[inline]
    fn get_mut(&mut self, id: u32) -> Option<&mut Chunk<K>> {
        self.chunks.get_mut(id as usize)?.as_deref_mut()
    }

    #[inline]
    fn chunk(&self, id: u32) -> &Chunk<K> {
        // A slot's chunk is in the pool: `take` put it there, and only `give_back` frees it.
        self.get(id).expect("a slot's chunk is in the pool")
    }

    #[inline]
    fn chunk_mut(&mut self, id: u32) -> &mut Chunk<K> {
        self.chunks[id as usize].as_deref_mut().expect("a slot's chunk is in the pool")
    }

    /// A chunk for `slot`, to lie on top of `below`.
    #[inline]
    fn take(&mut self, slot: SlotId, below: u32) -> u32 {
        self.used += 1;
        self.peak.reach(self.used);
        if self.first_free != NONE {
            let id = self.first_free;
            let chunk = self.chunk_mut(id);
            let next = chunk.below;
            chunk.slot = slot;
            chunk.below = below;
            self.first_free = next;
            self.free -= 1;
            return id;
        }
        self.make(slot, below)
    }

    #[cold]
    fn make(&mut self, slot: SlotId, below: u32) -> u32 {
        let chunk = Box::new(Chunk { slot, below, cells: [const { None }; CHUNK as usize] });
        if let Some(id) = self.vacant.pop() {
            self.chunks[id as usize] = Some(chunk);
            return id;
        }
        let id = self.chunks.len() as u32;
        assert!(id < Place::MAX_CHUNKS, "more than two thousand million timers in one wheel");
        self.chunks.push(Some(chunk));
        id
    }

    /// Frees a chunk, whose cells have all been taken.
    #[inline]
    fn give_back(&mut self, id: u32) {
        let first_free = self.first_free;
        self.chunk_mut(id).below = first_free;
        self.first_free = id;
        self.free += 1;
        self.used -= 1;
    }

    #[inline]
    fn release_some(&mut self, now: Nanos) {
        self.peak.pass(now, self.used);
        for _ in 0..8 {
            if self.used + self.free <= self.peak.get() + KEPT || self.free == 0 {
                return;
            }
            let id = self.first_free;
            self.first_free = self.chunk(id).below;
            self.chunks[id as usize] = None;
            self.vacant.push(id);
            self.free -= 1;
        }
    }
}
