//! Slots: arrays of cells, in chunks from a pool.
//!
//! A timer's cell is 24 bytes: when it is due, its number and slack, and whom it belongs to. The cells of a slot
//! lie in a chain of chunks of 32, so it grows without copying, and it is read as a stream.
//!
//! ```text
//!              begin          a chain's chunks, from the bottom to the top           end: the next push
//!                ▼                                                                     ▼
//!   bottom ▕ · · 3 4 5 … 31 ▏◀──above/below──▶▕ 0 … 31 ▏◀──▶ … ◀──▶▕ 0 1 2 3 4 5 6 · · · ▏ top
//!                └─▶ pop_front                                                 └─▶ pop_back, the filler of holes
//! ```
//!
//! The owner of a cell keeps its [`Place`], so that it is found and removed in one step.
//!
//! Ground rules:
//!
//! * A place names a chunk of the pool and an offset in it. It is valid until the cell moves, and whoever
//!   moves a cell tells its owner.
//! * Between its begin and its end a chain has no holes: a cell that is removed is replaced by the last one.
//! * A chain belongs to one slot, but not always to the same: two slots may swap theirs, and so a whole slot
//!   moves at once, whatever it holds. A chunk knows its chain, and the chain its slot.
//! * A slot's bounds enclose the truth: no cell is due, or wants the park to end, before the lower ones, nor is
//!   due after the upper one. Removal does not narrow them; an empty slot has none.
//! * `sorted` means that the cells lie by (when, rank) from the bottom to the top, as those do that were armed
//!   one after the other for the same length of time. What disturbs the order clears it.

use super::level::{LEVELS, SLOTS, SlotId};
use super::pool::{CHUNK, NONE, Pool};
use super::{Place, Rank, Slack};
use crate::Nanos;

/// A slot is searched for the last cell up to a time if it holds no more.
const SEARCHED: u32 = 64;

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

/// A cell that [`Slots::swap_remove`] has removed.
pub(super) struct Removed<K> {
    pub(super) key: K,
    /// The slot in which it lay.
    pub(super) slot: SlotId,
    /// The owner of the cell that now lies in its place.
    pub(super) filler: Option<K>,
}

/// What [`Slots::sift`] does with a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It stays in its slot.
    Keep,
    /// It is removed.
    Take,
    /// It stays, and so do those that were not judged yet.
    Stop,
}

/// The cells of a slot. A cache line of its own.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Chain {
    bottom: u32,
    top: u32,
    /// The offset of the first cell in the bottom chunk; zero if the chain is empty.
    begin: u32,
    len: u32,
    /// No cell is due before this.
    earliest: Nanos,
    /// No cell is due after this.
    latest: Nanos,
    /// No cell wants the park to end before this.
    wake: Nanos,
    /// The rank of the last cell, while the chain is sorted.
    last: Rank,
    sorted: bool,
    /// Whose chain it is.
    slot: SlotId,
}

impl Chain {
    fn empty(slot: SlotId) -> Chain {
        Chain {
            bottom: NONE,
            top: NONE,
            begin: 0,
            len: 0,
            earliest: Nanos::NEVER,
            latest: Nanos::ZERO,
            wake: Nanos::NEVER,
            last: Rank::FIRST,
            sorted: true,
            slot,
        }
    }

    /// The offset of the last cell in the top chunk.
    #[inline]
    fn last_offset(&self) -> u32 {
        (self.begin + self.len - 1) % CHUNK
    }
}

/// All slots of a wheel, and the chunks they are made of.
#[derive(Debug)]
pub(super) struct Slots<K> {
    /// Which chain is whose.
    chain_of: Box<[u16]>,
    chains: Box<[Chain]>,
    pool: Pool<K>,
}

impl<K: Copy> Slots<K> {
    pub(super) fn new() -> Slots<K> {
        let ids = || (0..LEVELS).flat_map(|level| (0..SLOTS).map(move |slot| SlotId::new(level, slot)));
        Slots {
            chain_of: ids().map(|id| id.index() as u16).collect(),
            chains: ids().map(Chain::empty).collect(),
            pool: Pool::new(),
        }
    }

    #[inline]
    fn chain(&self, id: SlotId) -> &Chain {
        &self.chains[usize::from(self.chain_of[id.index()])]
    }

    #[inline]
    pub(super) fn is_empty(&self, id: SlotId) -> bool {
        self.chain(id).len == 0
    }

    /// How many cells a slot holds.
    pub(super) fn len(&self, id: SlotId) -> usize {
        self.chain(id).len as usize
    }

    #[inline]
    pub(super) fn earliest(&self, id: SlotId) -> Nanos {
        self.chain(id).earliest
    }

    #[inline]
    pub(super) fn latest(&self, id: SlotId) -> Nanos {
        self.chain(id).latest
    }

    #[inline]
    pub(super) fn wake(&self, id: SlotId) -> Nanos {
        self.chain(id).wake
    }

    /// The last time up to `most` at which a cell of a slot is due, which has one that is due by then; `most` where it
    /// would take long to find out. May be too late, as bounds may.
    #[inline]
    pub(super) fn last_until(&self, id: SlotId, most: Nanos) -> Nanos {
        let chain = self.chain(id);
        if chain.latest <= most {
            return chain.latest;
        }
        if chain.len > SEARCHED {
            return most;
        }
        let due = self.cells(id).map(|(cell, _)| cell.when).filter(|when| *when <= most);
        due.max().unwrap_or(most)
    }

    /// Whether a slot's cells lie in order, from the first to the last.
    #[inline]
    pub(super) fn is_sorted(&self, id: SlotId) -> bool {
        self.chain(id).sorted
    }

    /// Moves all cells of `from` to `to`, which is empty, in one step. Their places stay.
    pub(super) fn hand_over(&mut self, from: SlotId, to: SlotId) {
        debug_assert!(self.is_empty(to));
        self.chain_of.swap(from.index(), to.index());
        for id in [from, to] {
            self.chains[usize::from(self.chain_of[id.index()])].slot = id;
        }
    }

    /// Puts a cell behind the last one of a slot.
    #[inline]
    pub(super) fn push(&mut self, id: SlotId, cell: Cell<K>) -> Place {
        let number = self.chain_of[id.index()];
        let chain = &mut self.chains[usize::from(number)];
        let offset = (chain.begin + chain.len) % CHUNK;
        if offset == 0 {
            let new = self.pool.take(number, chain.top);
            if chain.len == 0 {
                chain.bottom = new;
            } else {
                self.pool.chunk_mut(chain.top).above = new;
            }
            chain.top = new;
        }
        chain.len += 1;
        chain.sorted &= cell.when > chain.latest
            || (cell.when == chain.latest && cell.rank > chain.last)
            || chain.len == 1;
        chain.last = cell.rank;
        chain.earliest = chain.earliest.min(cell.when);
        chain.latest = chain.latest.max(cell.when);
        chain.wake = chain.wake.min(cell.wake());
        self.pool.chunk_mut(chain.top).cells[offset as usize] = Some(cell);
        Place::in_slot(chain.top, offset)
    }

    /// Takes the first cell of a slot.
    #[inline]
    pub(super) fn pop_front(&mut self, id: SlotId) -> Option<Cell<K>> {
        let chain = &mut self.chains[usize::from(self.chain_of[id.index()])];
        if chain.len == 0 {
            return None;
        }
        let bottom = chain.bottom;
        let chunk = self.pool.chunk_mut(bottom);
        let cell = chunk.cells[chain.begin as usize].take();
        debug_assert!(cell.is_some(), "a hole in a slot");
        let above = chunk.above;
        chain.len -= 1;
        chain.begin += 1;
        if chain.len == 0 {
            *chain = Chain::empty(id);
            self.pool.give_back(bottom);
        } else if chain.begin == CHUNK {
            chain.begin = 0;
            chain.bottom = above;
            self.pool.chunk_mut(above).below = NONE;
            self.pool.give_back(bottom);
        }
        cell
    }

    /// Takes the last cell of a slot.
    #[inline]
    pub(super) fn pop_back(&mut self, id: SlotId) -> Option<Cell<K>> {
        let chain = self.chain(id);
        if chain.len == 0 {
            return None;
        }
        let (top, last) = (chain.top, chain.last_offset());
        let cell = self.pool.chunk_mut(top).cells[last as usize].take();
        debug_assert!(cell.is_some(), "a hole in a slot");
        self.shrink(self.chain_of[id.index()]);
        cell
    }

    /// The last cell of a chain has been taken.
    #[inline]
    fn shrink(&mut self, number: u16) {
        let chain = &mut self.chains[usize::from(number)];
        let (top, last) = (chain.top, chain.last_offset());
        chain.len -= 1;
        if chain.len == 0 {
            *chain = Chain::empty(chain.slot);
            self.pool.give_back(top);
            return;
        }
        if last == 0 {
            chain.top = self.pool.chunk(top).below;
            self.pool.give_back(top);
        }
        // Who is the last now is not looked up: the order stands as long as what is pushed is due after all.
        chain.last = Rank::LAST;
    }

    /// The key `depth` cells behind the first of a slot, if it lies within the two first chunks: what a loop of
    /// `pop_front` will soon come to.
    #[inline]
    pub(super) fn peek(&self, id: SlotId, depth: u32) -> Option<K> {
        let chain = self.chain(id);
        if depth >= chain.len {
            return None;
        }
        let bottom = self.pool.chunk(chain.bottom);
        let index = chain.begin + depth;
        let chunk = if index < CHUNK { bottom } else { self.pool.chunk(bottom.above) };
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
        let number = self.pool.get(chunk)?.chain;
        let key = self.pool.chunk(chunk).cells[offset as usize]?.key;
        let chain = &mut self.chains[usize::from(number)];
        let (slot, top, last) = (chain.slot, chain.top, chain.last_offset());
        let mut filler = None;
        if (chunk, offset) == (top, last) {
            self.pool.chunk_mut(top).cells[last as usize] = None;
        } else {
            chain.sorted = false;
            let moved = self.pool.chunk_mut(top).cells[last as usize].take()?;
            self.pool.chunk_mut(chunk).cells[offset as usize] = Some(moved);
            filler = Some(moved.key);
        }
        self.shrink(number);
        Some(Removed { key, slot, filler })
    }

    /// Gives the cell at `place` another deadline and slack, and returns its key, if it lies in the slot `id`.
    #[inline]
    pub(super) fn edit(&mut self, place: Place, id: SlotId, when: Nanos, slack: Slack) -> Option<K> {
        let (chunk, offset) = place.slot_parts()?;
        let number = self.chain_of[id.index()];
        let chunk = self.pool.get_mut(chunk).filter(|chunk| chunk.chain == number)?;
        let old = chunk.cells[offset as usize]?;
        let cell = Cell { when, rank: old.rank.with_slack(slack), key: old.key };
        chunk.cells[offset as usize] = Some(cell);
        let chain = &mut self.chains[usize::from(number)];
        chain.sorted = chain.len == 1;
        chain.last = cell.rank;
        chain.earliest = chain.earliest.min(when);
        chain.latest = chain.latest.max(when);
        chain.wake = chain.wake.min(cell.wake());
        Some(old.key)
    }

    /// Walks a slot from its last cell to its first, and sets its bounds anew. `judge` sees each cell once, and
    /// may change its time; what it does not want kept is removed and handed to `removed`, and `moved` hears of
    /// the cell that fills the hole. `soon` hears of most a while before their turn. Says whether it came to the end;
    /// if it was stopped, the bounds are what they were, and enclose what was removed, too.
    pub(super) fn sift(
        &mut self,
        id: SlotId,
        mut judge: impl FnMut(&mut Cell<K>) -> Verdict,
        mut removed: impl FnMut(Cell<K>),
        mut moved: impl FnMut(K, Place),
        mut soon: impl FnMut(K),
    ) -> bool {
        let number = self.chain_of[id.index()];
        let Chain { mut top, begin, len, .. } = self.chains[usize::from(number)];
        let (mut earliest, mut latest, mut wake) = (Nanos::NEVER, Nanos::ZERO, Nanos::NEVER);
        let mut changed = false;
        let mut index = begin + len;
        while index > begin {
            // A whole chunk at a time, from its last cell to its first: the cell that fills a hole comes
            // from behind and has been judged already.
            let below = self.pool.chunk(top).below;
            let first = if index <= CHUNK { begin } else { 0 };
            for offset in (first..=(index - 1) % CHUNK).rev() {
                index -= 1;
                if let Some(ahead) = offset.checked_sub(super::AHEAD) {
                    if let Some(cell) = &self.pool.chunk(top).cells[ahead as usize] {
                        soon(cell.key);
                    }
                }
                let Some(cell) = &mut self.pool.chunk_mut(top).cells[offset as usize] else { continue };
                let before = cell.when;
                match judge(cell) {
                    Verdict::Keep => {
                        changed |= cell.when != before;
                        earliest = earliest.min(cell.when);
                        latest = latest.max(cell.when);
                        wake = wake.min(cell.wake());
                        continue;
                    }
                    Verdict::Take => {}
                    Verdict::Stop => return false,
                }
                changed = true;
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
        let chain = &mut self.chains[usize::from(number)];
        if chain.len > 0 {
            chain.earliest = earliest;
            chain.latest = latest;
            chain.wake = wake;
            chain.sorted &= !changed || chain.len == 1;
        }
        true
    }

    /// Releases a little of the memory that a burst has left behind.
    #[inline]
    pub(super) fn release_some(&mut self, now: Nanos) {
        self.pool.release_some(now);
    }

    /// Chunks in use.
    pub(super) fn chunks(&self) -> usize {
        self.pool.used()
    }

    /// How many chunks a slot uses.
    pub(super) fn chunks_of(&self, id: SlotId) -> usize {
        let chain = self.chain(id);
        (chain.begin + chain.len).div_ceil(CHUNK) as usize
    }

    /// Bytes that the slots have allocated.
    pub(super) fn allocated_bytes(&self) -> usize {
        size_of_val(&*self.chain_of) + size_of_val(&*self.chains) + self.pool.allocated_bytes()
    }

    /// Visits all cells of a slot with their places, from the first to the last; for checks and listings.
    pub(super) fn cells(&self, id: SlotId) -> impl Iterator<Item = (&Cell<K>, Place)> {
        let chain = self.chain(id);
        let (mut next, mut index) = (chain.bottom, chain.begin);
        let end = chain.begin + chain.len;
        std::iter::from_fn(move || {
            if index == end {
                return None;
            }
            let (chunk, offset) = (next, index % CHUNK);
            index += 1;
            if offset == CHUNK - 1 {
                next = self.pool.chunk(chunk).above;
            }
            let cell = self.pool.chunk(chunk).cells[offset as usize].as_ref()?;
            Some((cell, Place::in_slot(chunk, offset)))
        })
    }

    /// Asserts that a slot's chain and its chunks agree about each other.
    ///
    /// # Panics
    ///
    /// If they do not.
    pub(super) fn check(&self, id: SlotId) {
        let number = self.chain_of[id.index()];
        let chain = &self.chains[usize::from(number)];
        assert_eq!(chain.slot, id, "a chain belongs to another slot");
        let (mut below, mut next) = (NONE, chain.bottom);
        for _ in 0..self.chunks_of(id) {
            let chunk = self.pool.chunk(next);
            assert_eq!((chunk.chain, chunk.below), (number, below), "a chunk in the wrong chain");
            (below, next) = (next, chunk.above);
        }
        assert!(chain.len == 0 || below == chain.top, "a chain does not end at its top");
        let keys = self.cells(id).map(|(cell, _)| (cell.when, cell.rank));
        assert!(!chain.sorted || keys.is_sorted(), "{id:?} is not in order");
    }
}
