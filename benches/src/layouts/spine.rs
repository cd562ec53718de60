//! Our own wheel with the other kind of slot: a vector of chunks, and places of (slot, index). Exact.
//!
//! Geometry, cells, bounds, sorting and prefetch are those of `mainspring_driver::Wheel`; only the way from
//! a slot to its chunks differs, so that the two can be compared. There a slot is a chain of chunks that know their
//! neighbours; here it has a spine that lists them, which grows, and is copied when it does.
//!
//! Left out: slicing, giving memory back, cancelling what is being fired, handing whole slots over, and letting a slot
//! that is in order leave without sorting it.

use mainspring_driver::wheel::{Rank, Slack};

use super::ours::Key;
use super::{Layout, Timer, Timers};

const SLOT_BITS: u32 = 16;
const LEVEL_BITS: u32 = 6;
const LEVELS: usize = 8;
const SLOTS: usize = 1 << LEVEL_BITS;
/// Cells of a chunk.
const CHUNK: usize = 32;
/// Owners this many cells ahead are fetched into the cache.
const AHEAD: usize = 12;
/// In a handle: due, not in a slot.
const BATCH: u64 = 1 << 63;

/// The wheel with spines.
#[derive(Debug)]
pub struct Spine {
    occupied: [u64; LEVELS],
    slots: Box<[Slot]>,
    /// Chunks not in use.
    free: Vec<Chunk>,
    elapsed: u64,
    batch: Vec<Option<Cell>>,
    inserted: u64,
}

type Chunk = Box<[Option<Cell>; CHUNK]>;

#[derive(Clone, Copy, Debug)]
struct Cell {
    when: u64,
    rank: Rank,
    key: Key,
}

#[derive(Debug)]
struct Slot {
    spine: Vec<Chunk>,
    len: usize,
    earliest: u64,
    wake: u64,
}

impl Slot {
    const EMPTY: Slot = Slot { spine: Vec::new(), len: 0, earliest: u64::MAX, wake: u64::MAX };

    #[inline]
    fn get(&self, index: usize) -> Option<Cell> {
        self.spine[index / CHUNK][index % CHUNK]
    }

    #[inline]
    fn note(&mut self, cell: &Cell) {
        self.earliest = self.earliest.min(cell.when);
        self.wake = self.wake.min(cell.when.saturating_add(cell.rank.slack().as_nanos()));
    }

    #[inline]
    fn push(&mut self, cell: Cell, free: &mut Vec<Chunk>) -> usize {
        let index = self.len;
        if index % CHUNK == 0 {
            self.spine.push(free.pop().unwrap_or_else(|| Box::new([const { None }; CHUNK])));
        }
        self.len += 1;
        self.note(&cell);
        self.spine[index / CHUNK][index % CHUNK] = Some(cell);
        index
    }

    #[inline]
    fn pop(&mut self, free: &mut Vec<Chunk>) -> Option<Cell> {
        let index = self.len.checked_sub(1)?;
        self.len = index;
        let cell = self.spine[index / CHUNK][index % CHUNK].take();
        if index % CHUNK == 0 {
            free.extend(self.spine.pop());
            if index == 0 {
                self.earliest = u64::MAX;
                self.wake = u64::MAX;
            }
        }
        cell
    }

    /// Takes a cell, and says who now lies in its place.
    #[inline]
    fn swap_remove(&mut self, index: usize, free: &mut Vec<Chunk>) -> (Option<Cell>, Option<Key>) {
        if index + 1 == self.len {
            return (self.pop(free), None);
        }
        let wanted = self.get(index);
        let moved = self.pop(free);
        self.spine[index / CHUNK][index % CHUNK] = moved;
        (wanted, moved.map(|cell| cell.key))
    }
}

#[inline]
fn handle(slot: usize, index: usize) -> u64 {
    (slot as u64) << 32 | index as u64
}

impl Spine {
    #[inline]
    fn file(&mut self, timers: &mut Timers, cell: Cell) {
        let when = cell.when.max(self.elapsed);
        let differs = (when ^ self.elapsed) >> SLOT_BITS;
        let level = (63 - (differs | 1).leading_zeros()) / LEVEL_BITS;
        let slot = (when >> (SLOT_BITS + LEVEL_BITS * level)) as usize % SLOTS;
        let id = level as usize * SLOTS + slot;
        let index = self.slots[id].push(cell, &mut self.free);
        self.occupied[level as usize] |= 1 << slot;
        timers[cell.key.get()].handle = handle(id, index);
    }

    /// The slot in use that starts first, and when it starts.
    #[inline]
    fn earliest(&self) -> Option<(usize, u64)> {
        let level = self.occupied.iter().position(|&bits| bits != 0)?;
        let id = level * SLOTS + self.occupied[level].trailing_zeros() as usize;
        Some((id, self.start(id)))
    }

    #[inline]
    fn start(&self, id: usize) -> u64 {
        let shift = SLOT_BITS + LEVEL_BITS * (id / SLOTS) as u32;
        let above = match shift + LEVEL_BITS {
            u64::BITS => 0,
            bits => self.elapsed >> bits << bits,
        };
        above | ((id % SLOTS) as u64) << shift
    }

    #[inline]
    fn clear_if_empty(&mut self, id: usize) {
        if self.slots[id].len == 0 {
            self.occupied[id / SLOTS] &= !(1 << (id % SLOTS));
        }
    }

    fn deal(&mut self, timers: &mut Timers, id: usize) {
        loop {
            let slot = &mut self.slots[id];
            if let Some(Some(ahead)) = slot.len.checked_sub(1 + AHEAD).map(|index| slot.get(index)) {
                timers.prefetch(ahead.key.get());
            }
            let Some(mut cell) = slot.pop(&mut self.free) else { break };
            cell.when = timers[cell.key.get()].when;
            self.file(timers, cell);
        }
        self.clear_if_empty(id);
    }

    /// Takes what is due out of a level-0 slot and fires it in order.
    fn split(&mut self, timers: &mut Timers, id: usize, now: u64, fire: &mut impl FnMut(u32, &Timer)) {
        let Spine { slots, free, batch, .. } = self;
        let slot = &mut slots[id];
        let (mut earliest, mut wake) = (u64::MAX, u64::MAX);
        for index in (0..slot.len).rev() {
            let Some(cell) = slot.get(index) else { continue };
            if cell.when > now {
                earliest = earliest.min(cell.when);
                wake = wake.min(cell.when.saturating_add(cell.rank.slack().as_nanos()));
                continue;
            }
            let (due, filler) = slot.swap_remove(index, free);
            if let Some(key) = filler {
                timers[key.get()].handle = handle(id, index);
            }
            if let Some(mut due) = due {
                due.when = timers[due.key.get()].when;
                batch.push(Some(due));
            }
        }
        slot.earliest = earliest;
        slot.wake = wake;
        batch.sort_unstable_by_key(|cell| cell.map(|cell| (cell.when, cell.rank)));
        for index in 0..batch.len() {
            if let Some(Some(ahead)) = batch.get(index + AHEAD) {
                timers.prefetch(ahead.key.get());
            }
            if let Some(cell) = batch[index] {
                timers[cell.key.get()].handle = BATCH | index as u64;
            }
        }
        self.clear_if_empty(id);
        for index in 0..self.batch.len() {
            if let Some(cell) = self.batch[index].take() {
                if let Some(Some(ahead)) = self.batch.get(index + AHEAD) {
                    timers.prefetch(ahead.key.get());
                }
                fire(cell.key.get(), &timers[cell.key.get()]);
            }
        }
        self.batch.clear();
    }
}

impl Layout for Spine {
    const NAME: &'static str = "mainspring with spines";
    const TICK: u64 = 1;
    const ORDERED: bool = true;
    const TELLS_NEXT: bool = true;

    fn new() -> Spine {
        Spine {
            occupied: [0; LEVELS],
            slots: (0..LEVELS * SLOTS).map(|_| Slot::EMPTY).collect(),
            free: Vec::new(),
            elapsed: 0,
            batch: Vec::new(),
            inserted: 0,
        }
    }

    #[inline]
    fn insert(&mut self, timers: &mut Timers, deadline: u64, key: u32) {
        timers[key].when = deadline;
        self.inserted += 1;
        let rank = Rank::new(self.inserted, Slack::ZERO);
        self.file(timers, Cell { when: deadline, rank, key: Key::new(key) });
    }

    #[inline]
    fn cancel(&mut self, timers: &mut Timers, key: u32) {
        let place = timers[key].handle;
        debug_assert!(place & BATCH == 0, "it is in the wheel");
        let (id, index) = ((place >> 32) as usize, place as u32 as usize);
        let (removed, filler) = self.slots[id].swap_remove(index, &mut self.free);
        debug_assert_eq!(removed.map(|cell| cell.key), Some(Key::new(key)));
        if let Some(moved) = filler {
            timers[moved.get()].handle = place;
        }
        self.clear_if_empty(id);
    }

    fn advance(&mut self, timers: &mut Timers, now: u64, fire: &mut impl FnMut(u32, &Timer)) {
        while let Some((id, start)) = self.earliest().filter(|&(_, start)| start <= now) {
            if id >= SLOTS {
                self.elapsed = self.elapsed.max(start);
                self.deal(timers, id);
            } else if self.slots[id].earliest <= now {
                self.elapsed = self.elapsed.max(start);
                self.split(timers, id, now, fire);
            } else {
                break;
            }
        }
        self.elapsed = now;
    }

    fn next_wake(&self) -> Option<u64> {
        let mut best: Option<u64> = None;
        for (level, &bits) in self.occupied.iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                let id = level * SLOTS + bits.trailing_zeros() as usize;
                if best.is_some_and(|best| self.start(id) > best) {
                    return best;
                }
                let wake = self.slots[id].wake;
                best = Some(best.map_or(wake, |best| best.min(wake)));
                bits &= bits - 1;
            }
        }
        best
    }
}
