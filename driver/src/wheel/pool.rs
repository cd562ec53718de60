//! `Pool`: the chunks of all slots.
//!
//! Ground rules:
//!
//! * A chunk is in use, free (its memory kept), or vacant (its memory released). Its number stays the same, so a place
//!   that names it does.
//! * As many chunks are kept as were in use at once lately, and a handful, so that what recurs does not allocate; the
//!   surplus of a burst is released in small steps by [`Pool::release_some`].

use super::Place;
use super::peak::Peak;
use super::slot::Cell;
use crate::Nanos;

/// Cells of a chunk; a power of two.
pub(super) const CHUNK: u32 = 32;
/// No chunk.
pub(super) const NONE: u32 = u32::MAX;
/// Free chunks that are kept however few were in use.
const KEPT: usize = 16;

#[derive(Debug)]
pub(super) struct Chunk<K> {
    /// The chain this chunk belongs to.
    pub(super) chain: u16,
    /// The chunk under this one. In the pool's list of free chunks: the next.
    pub(super) below: u32,
    /// The chunk over this one.
    pub(super) above: u32,
    pub(super) cells: [Option<Cell<K>>; CHUNK as usize],
}

/// The chunks of all slots. A chunk that is not in use is either free, its memory kept, or vacant.
#[derive(Debug)]
pub(super) struct Pool<K> {
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
    pub(super) fn new() -> Pool<K> {
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
    pub(super) fn get(&self, id: u32) -> Option<&Chunk<K>> {
        self.chunks.get(id as usize)?.as_deref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Chunk<K>> {
        self.chunks.get_mut(id as usize)?.as_deref_mut()
    }

    #[inline]
    pub(super) fn chunk(&self, id: u32) -> &Chunk<K> {
        // A slot's chunk is in the pool: `take` put it there, and only `give_back` frees it.
        self.get(id).expect("a slot's chunk is in the pool")
    }

    #[inline]
    pub(super) fn chunk_mut(&mut self, id: u32) -> &mut Chunk<K> {
        self.chunks[id as usize].as_deref_mut().expect("a slot's chunk is in the pool")
    }

    /// A chunk for a chain, to lie on top of `below`.
    #[inline]
    pub(super) fn take(&mut self, chain: u16, below: u32) -> u32 {
        self.used += 1;
        self.peak.reach(self.used);
        if self.first_free != NONE {
            let id = self.first_free;
            let chunk = self.chunk_mut(id);
            let next = chunk.below;
            chunk.chain = chain;
            chunk.below = below;
            chunk.above = NONE;
            self.first_free = next;
            self.free -= 1;
            return id;
        }
        self.make(chain, below)
    }

    #[cold]
    fn make(&mut self, chain: u16, below: u32) -> u32 {
        let chunk = Box::new(Chunk { chain, below, above: NONE, cells: [const { None }; CHUNK as usize] });
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
    pub(super) fn give_back(&mut self, id: u32) {
        let first_free = self.first_free;
        self.chunk_mut(id).below = first_free;
        self.first_free = id;
        self.free += 1;
        self.used -= 1;
    }

    /// Chunks in use.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Bytes that the pool has allocated.
    pub(super) fn allocated_bytes(&self) -> usize {
        (self.used + self.free) * size_of::<Chunk<K>>()
            + self.chunks.capacity() * size_of::<Option<Box<Chunk<K>>>>()
            + self.vacant.capacity() * size_of::<u32>()
    }

    /// Releases a little of the memory that a burst has left behind.
    #[inline]
    pub(super) fn release_some(&mut self, now: Nanos) {
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
