//! The other design for the wheel's storage: a plain `Vec` of cells for each slot, and handles of (slot, index). Exact.
//!
//! Slots are 65 µs wide or more. When a slot comes due, it is split: the timers that are due are sorted, as a batch. The
//! hole of a cancelled cell is filled with the last cell.
//!
//! Left out: slicing, giving memory back in steps, cancelling a timer that is being fired, and firing from a slot that is
//! already in order without sorting it.

use mainspring_driver::wheel::{Rank, Slack};

use super::ours::Key;
use super::{Layout, Timer, Timers};

const SLOT_BITS: u32 = 16;
const LEVEL_BITS: u32 = 6;
const LEVELS: usize = 8;
const SLOTS: usize = 1 << LEVEL_BITS;
/// Owners this many cells ahead are fetched into the cache.
const AHEAD: usize = 12;
/// Set in the handle of a timer that is due, and no longer in a slot.
const BATCH: u64 = 1 << 63;

/// The wheel with a `Vec` for each slot.
#[derive(Debug)]
pub struct Flat {
    occupied: [u64; LEVELS],
    slots: Box<[Slot]>,
    /// Chunks not in use.
    free: Vec<Chunk>,
    elapsed: u64,
    batch: Vec<Option<Cell>>,
    inserted: u64,
}

type Chunk = Vec<Cell>;

#[derive(Clone, Copy, Debug)]
struct Cell {
    when: u64,
    rank: Rank,
    key: Key,
}

#[derive(Debug)]
struct Slot {
    cells: Vec<Cell>,
    earliest: u64,
    wake: u64,
}

impl Slot {
    const EMPTY: Slot = Slot { cells: Vec::new(), earliest: u64::MAX, wake: u64::MAX };

    #[inline]
    fn note(&mut self, cell: &Cell) {
        self.earliest = self.earliest.min(cell.when);
        self.wake = self.wake.min(cell.when.saturating_add(cell.rank.slack().as_nanos()));
    }

    #[inline]
    fn push(&mut self, cell: Cell, free: &mut Vec<Chunk>) -> usize {
        let index = self.cells.len();
        if index == 0
            && self.cells.capacity() == 0
            && let Some(buffer) = free.pop()
        {
            self.cells = buffer;
        }
        self.note(&cell);
        self.cells.push(cell);
        index
    }

    /// Removes a cell. Returns the cell, and the key of the one that now lies in its place.
    #[inline]
    fn swap_remove(&mut self, index: usize) -> (Option<Cell>, Option<Key>) {
        let cell = self.cells.swap_remove(index);
        if self.cells.is_empty() {
            self.earliest = u64::MAX;
            self.wake = u64::MAX;
        }
        (Some(cell), self.cells.get(index).map(|cell| cell.key))
    }
}

#[inline]
fn handle(slot: usize, index: usize) -> u64 {
    (slot as u64) << 32 | index as u64
}

impl Flat {
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

    /// Returns the slot in use that starts first, and when it starts.
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
        if self.slots[id].cells.is_empty() {
            self.occupied[id / SLOTS] &= !(1 << (id % SLOTS));
        }
    }

    fn deal(&mut self, timers: &mut Timers, id: usize) {
        let mut cells = std::mem::take(&mut self.slots[id].cells);
        self.slots[id].earliest = u64::MAX;
        self.slots[id].wake = u64::MAX;
        self.occupied[id / SLOTS] &= !(1 << (id % SLOTS));
        for index in 0..cells.len() {
            if let Some(ahead) = cells.get(index + AHEAD) {
                timers.prefetch(ahead.key.get());
            }
            let mut cell = cells[index];
            cell.when = timers[cell.key.get()].when;
            self.file(timers, cell);
        }
        cells.clear();
        if self.free.len() < 64 {
            self.free.push(cells);
        }
    }

    /// Removes the due timers from a level-0 slot and fires them in order.
    fn split(&mut self, timers: &mut Timers, id: usize, now: u64, fire: &mut impl FnMut(u32, &Timer)) {
        let Flat { slots, batch, .. } = self;
        let slot = &mut slots[id];
        let (mut earliest, mut wake) = (u64::MAX, u64::MAX);
        for index in (0..slot.cells.len()).rev() {
            let cell = slot.cells[index];
            if cell.when > now {
                earliest = earliest.min(cell.when);
                wake = wake.min(cell.when.saturating_add(cell.rank.slack().as_nanos()));
                continue;
            }
            let (due, filler) = slot.swap_remove(index);
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

impl Layout for Flat {
    const NAME: &'static str = "flat";
    const TICK: u64 = 1;
    const ORDERED: bool = true;
    const TELLS_NEXT: bool = true;

    fn new() -> Flat {
        Flat {
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
        let (removed, filler) = self.slots[id].swap_remove(index);
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
