//! `Wheel`: a hierarchical timing wheel with exact deadlines. A pure, safe data structure.
//!
//! It is told what time it is, and whom to tell of a cell's new place. It owns no clock, no lock and no
//! atomic, and calls no foreign code but its [`Store`]. It fails only if it holds two thousand million timers.
//!
//! ```text
//!   level 7  ▕▏▏▏▏ … 64 slots of 2^58 ns (9 years)     a deadline waits in the slot of the highest bit in
//!     …                                                which it differs from `elapsed`, always ahead of it
//!   level 1  ▕▏▏▏▏ … 64 slots of 2^22 ns (4.2 ms)   ─┐
//!   level 0  ▕▏▏▏▏ … 64 slots of 2^16 ns (65 µs)   ◀─┘ deal: `now` has reached the slot's start
//!               ├──▶ in order, and all due: one by one ─────────▶ next_due
//!               └──▶ batch: what is due in the slot, sorted ──▶ next_due
//! ```
//!
//! Ground rules:
//!
//! * Exact: nothing leaves before the deadline that its owner named when its order was settled, to the nanosecond. A slot
//!   is only where a cell waits. An owner that moves the deadline after that compares it when the timer leaves, and files it
//!   again.
//! * In order: what is due leaves by (deadline, number), as its owner's true deadline says at the moment at
//!   which its level-0 slot is split. Slots do not overlap, so the order holds across them too. What is inserted for a time
//!   that has passed leaves before anything that comes due later, but may leave after what had been found due before.
//! * When `now` passes the start of a slot of level 1 and up, the slot is dealt out, or handed over, earliest slot first,
//!   even if nothing in it is due: `level` rests on it. A slot being dealt is finished before anything else leaves; what
//!   is inserted meanwhile goes straight to lower levels. A slot of level 0 stays, and is split or left, when something in
//!   it may be due.
//! * A slot whose cells by its bounds all belong into the same lower slot, which is empty, is handed over to that as a
//!   whole, in one step; one of level 0 whose cells lie in order and are all due is left from its front, cell by cell. So a
//!   crowd with one deadline that has its slots to itself, armed one after the other, is neither moved nor sorted: its first
//!   fires at once.
//! * Work is sliced: a deal may stop after any cell, and a split before any that has to be filed anew. One step cannot be
//!   cut: of a slot that is out of order, those that are due are looked at, and sorted, before the first of them leaves.
//! * A cell lies in the slot that `level::SlotId::of` computes from its filed deadline, save those of the
//!   slot being dealt and of the batch. The occupied bit is set exactly while a slot holds cells. Bounds enclose the truth.
//!   [`Wheel::check`] says whether all that is so; debug builds ask a part of it after every change of a small wheel.
//! * The true deadline of a timer may be later than the filed one ([`Store::deadline`]). The wheel asks when
//!   it touches the cell anyway: when its slot is dealt, split or left, and in [`Wheel::next_deadline`].

mod ahead;
mod check;
mod first;
mod level;
mod occupancy;
mod peak;
mod place;
mod pool;
mod rank;
mod slot;

use std::fmt;

use level::{Occupied, SlotId};
pub(crate) use peak::Peak;
use slot::{Cell, Removed, Slots, Verdict};

pub use occupancy::{LevelOccupancy, Occupancy};
pub use place::Place;
pub use rank::Rank;

use crate::Nanos;
pub use crate::slack::Slack;

/// While a slot is dealt or a batch is sorted, owners this many cells ahead are fetched into the cache.
const AHEAD: u32 = 12;
/// A batch's memory up to this many cells is always kept.
const BATCH_KEPT: usize = 1024;

/// Whom the wheel tells where a key's cell lies, and asks for its true deadline.
pub trait Store<K> {
    /// The cell of `key` now lies at `place`.
    fn set_place(&mut self, key: K, place: Place);

    /// The deadline of `key`, which is filed under `filed`. It may have moved to a later time since, never
    /// to an earlier one; the default says that it has not moved.
    #[inline]
    fn deadline(&mut self, key: K, filed: Nanos) -> Nanos {
        let _ = key;
        filed
    }

    /// The wheel is going to speak of `key` soon.
    #[inline]
    fn prefetch(&mut self, key: K) {
        let _ = key;
    }
}

/// What [`Wheel::next_due`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due<K> {
    /// This timer is due and has left the wheel.
    Fire {
        /// Whose it is.
        key: K,
        /// The deadline under which it was filed when its order was settled.
        deadline: Nanos,
        /// Its number and slack.
        rank: Rank,
    },
    /// There may be more, but the moves that were granted are used up.
    Exhausted,
    /// Nothing further is due.
    Idle,
}

/// A hierarchical timing wheel over keys that somebody else owns.
///
/// Insert and remove are O(1), amortised over the growth of its memory. A timer moves at most seven times between its
/// insertion and its end, and eight times more for each time that it is found to have been put off.
///
/// ```
/// use mainspring_driver::wheel::{Due, Place, Rank, Slack, Store, Wheel};
/// use mainspring_driver::Nanos;
///
/// /// Keeps the place of each key, which here is an index.
/// struct Places(Vec<Place>);
/// impl Store<usize> for Places {
///     fn set_place(&mut self, key: usize, place: Place) {
///         self.0[key] = place;
///     }
/// }
///
/// let mut places = Places(vec![Place::NOWHERE; 3]);
/// let mut wheel = Wheel::new(Nanos::ZERO);
/// for (key, deadline) in [(0, 700), (1, 300), (2, 500)] {
///     wheel.insert(&mut places, key, Nanos::new(deadline), Rank::new(key as u64, Slack::ZERO));
/// }
/// let place = places.0[2];
/// assert_eq!(wheel.remove(&mut places, place), Some(2));
/// assert_eq!(wheel.next_wake(), Some(Nanos::new(300)));
///
/// let mut moves = 1000;
/// let mut fired = vec![];
/// while let Due::Fire { key, .. } = wheel.next_due(&mut places, Nanos::new(1_000), &mut moves) {
///     fired.push(key);
/// }
/// assert_eq!(fired, [1, 0]);
/// ```
pub struct Wheel<K> {
    occupied: Occupied,
    slots: Slots<K>,
    /// Where the wheel stands: all slots that start at or before it have been dealt or split.
    elapsed: Nanos,
    /// The slot being dealt.
    dealing: Option<SlotId>,
    /// The slot from which timers are leaving one by one, being in order: more that is due may be in it.
    leaving: Option<SlotId>,
    /// The level-0 slot being split, and at what time: a part of what is due in it is in the batch, in no order yet.
    splitting: Option<(SlotId, Nanos)>,
    /// Due cells in order; those that were cancelled since are `None`. Done with once `cursor` reaches the end.
    batch: Vec<Option<Cell<K>>>,
    /// What of the batch has left.
    cursor: usize,
    /// Recent batches, and lists of late cells, were no larger than this.
    batch_peak: Peak,
    /// Cells on their way to another slot, while a slot is split; empty otherwise. Kept for its memory.
    late: Vec<Cell<K>>,
    len: usize,
    moved: u64,
}

impl<K> fmt::Debug for Wheel<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel")
            .field("elapsed", &self.elapsed)
            .field("len", &self.len)
            .field("occupied", &self.occupied)
            .finish_non_exhaustive()
    }
}

impl<K: Copy> Wheel<K> {
    /// An empty wheel that stands at `at`.
    pub fn new(at: Nanos) -> Wheel<K> {
        Wheel {
            occupied: Occupied::default(),
            slots: Slots::new(),
            elapsed: at,
            dealing: None,
            leaving: None,
            splitting: None,
            batch: Vec::new(),
            cursor: 0,
            batch_peak: Peak::default(),
            late: Vec::new(),
            len: 0,
            moved: 0,
        }
    }

    /// Where the wheel stands: it never goes back. Nothing due before it is left in a slot, save what was inserted late and
    /// has not left yet.
    #[inline]
    pub fn elapsed(&self) -> Nanos {
        self.elapsed
    }

    /// How many timers are in the wheel.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no timer is in the wheel.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many times a cell was moved from a slot to a lower one, or filed anew because it was found to have been put off,
    /// so far. Slots that were handed over as a whole are not counted.
    #[inline]
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Files `key` under `deadline`; one that is past is due at once. O(1).
    #[inline]
    pub fn insert(&mut self, store: &mut impl Store<K>, key: K, deadline: Nanos, rank: Rank) {
        self.len += 1;
        self.file(store, Cell { when: deadline, rank, key });
        self.debug_check();
    }

    /// Files a timer anew that has just left but turned out to be due later. It counts as a move.
    #[inline]
    pub(crate) fn put_back(&mut self, store: &mut impl Store<K>, key: K, deadline: Nanos, rank: Rank) {
        self.moved += 1;
        self.insert(store, key, deadline, rank);
    }

    /// Takes the timer at `place` out, and returns its key; `None` if nothing lies there. O(1).
    #[inline]
    pub fn remove(&mut self, store: &mut impl Store<K>, place: Place) -> Option<K> {
        let key = match place.slot_parts() {
            Some(_) => {
                let Removed { key, slot, filler } = self.slots.swap_remove(place)?;
                if let Some(key) = filler {
                    store.set_place(key, place);
                }
                self.emptied(slot);
                key
            }
            None => self.batch.get_mut(place.batch_index())?.take()?.key,
        };
        self.len -= 1;
        self.debug_check();
        Some(key)
    }

    /// Files the timer at `place` under another deadline and with another slack; it keeps its number. Returns its key;
    /// `None` if nothing lies there. O(1), and cheapest if it stays in its slot.
    #[inline]
    pub fn refile_at(
        &mut self,
        store: &mut impl Store<K>,
        place: Place,
        deadline: Nanos,
        slack: Slack,
    ) -> Option<K> {
        if let Some(key) = self.slots.edit(place, SlotId::of(self.elapsed, deadline), deadline, slack) {
            self.debug_check();
            return Some(key);
        }
        let cell = match place.slot_parts() {
            Some(_) => self.slots.get(place),
            None => self.batch.get(place.batch_index()).copied().flatten(),
        };
        let Cell { key, rank, .. } = cell?;
        self.remove(store, place);
        self.insert(store, key, deadline, rank.with_slack(slack));
        Some(key)
    }

    /// Takes out the next timer that is due at `now`, by (deadline, number); moves the wheel on to `now`.
    ///
    /// Call it again, with the same `now`, until it is [`Due::Idle`]. Each cell that has to be moved costs
    /// one of `moves`; when none are left it stops with [`Due::Exhausted`], and goes on from there at the
    /// next call, so it needs at least one. A `now` before [`elapsed`](Wheel::elapsed) changes nothing; one that is only
    /// before that of the last call takes out what is due by it, and what was due by the other waits for that to return.
    pub fn next_due(&mut self, store: &mut impl Store<K>, now: Nanos, moves: &mut usize) -> Due<K> {
        if now < self.elapsed {
            return Due::Idle;
        }
        loop {
            if *moves == 0 {
                return Due::Exhausted;
            }
            if let Some((slot, at)) = self.splitting {
                self.split(store, slot, at, moves);
                continue;
            }
            while let Some(slot) = self.batch.get_mut(self.cursor) {
                if slot.is_some_and(|cell| cell.when > now) {
                    return Due::Idle;
                }
                self.cursor += 1;
                if let Some(Cell { key, when, rank }) = slot.take() {
                    if let Some(Some(ahead)) = self.batch.get(self.cursor + AHEAD as usize) {
                        store.prefetch(ahead.key);
                    }
                    self.len -= 1;
                    self.debug_check();
                    return Due::Fire { key, deadline: when, rank };
                }
            }
            self.end_batch();
            if let Some(slot) = self.dealing {
                self.deal(store, slot, moves);
                continue;
            }
            self.leaving = None;
            match self.occupied.earliest().map(|slot| (slot, slot.start(self.elapsed))) {
                Some((slot, start)) if start <= now && slot.level() > 0 => {
                    self.elapsed = self.elapsed.max(start);
                    if !self.hand_over(slot) {
                        self.dealing = Some(slot);
                    }
                }
                Some((slot, start)) if start <= now && self.slots.earliest(slot) <= now => {
                    self.elapsed = self.elapsed.max(start);
                    if !self.slots.is_sorted(slot) || self.slots.latest(slot) > now {
                        self.split(store, slot, now, moves);
                    } else if let Some(cell) = self.leave(store, slot) {
                        return Due::Fire { key: cell.key, deadline: cell.when, rank: cell.rank };
                    } else {
                        *moves -= 1;
                    }
                }
                _ => {
                    self.elapsed = now;
                    self.slots.release_some(now);
                    self.trim_lists();
                    self.debug_check();
                    return Due::Idle;
                }
            }
        }
    }

    /// Takes out any timer, in no particular order: for emptying a wheel that is no longer needed.
    pub fn take_any(&mut self) -> Option<(K, Nanos)> {
        while self.cursor < self.batch.len() {
            self.cursor += 1;
            if let Some(cell) = self.batch[self.cursor - 1].take() {
                self.len -= 1;
                return Some((cell.key, cell.when));
            }
        }
        let slot = self.occupied.earliest()?;
        let cell = self.slots.pop_back(slot)?;
        self.emptied(slot);
        self.len -= 1;
        Some((cell.key, cell.when))
    }

    /// Files a cell in the slot that its deadline has from where the wheel stands.
    #[inline]
    fn file(&mut self, store: &mut impl Store<K>, cell: Cell<K>) {
        let slot = SlotId::of(self.elapsed, cell.when);
        let place = self.slots.push(slot, cell);
        self.occupied.set(slot);
        store.set_place(cell.key, place);
    }

    /// A cell has been taken from `slot`: if it was the last, there is nothing more to do with the slot.
    #[inline]
    fn emptied(&mut self, slot: SlotId) {
        if self.slots.is_empty(slot) {
            self.occupied.clear(slot);
            if self.dealing == Some(slot) {
                self.dealing = None;
            }
            if self.leaving == Some(slot) {
                self.leaving = None;
            }
        }
    }

    /// Moves a slot's cells to a lower slot all at once, if they all belong into the same one: so a million timers
    /// with one deadline cost no more than one. Says whether they did.
    fn hand_over(&mut self, from: SlotId) -> bool {
        let to = SlotId::of(self.elapsed, self.slots.earliest(from));
        if to != SlotId::of(self.elapsed, self.slots.latest(from)) || !self.slots.is_empty(to) {
            return false;
        }
        self.slots.hand_over(from, to);
        self.occupied.clear(from);
        self.occupied.set(to);
        self.debug_check();
        true
    }

    /// Takes the first cell out of a level-0 slot whose cells lie in order and are all due. `None` if its timer's
    /// deadline has moved: then it has been filed anew, and it may be that the order is lost.
    #[inline(always)]
    fn leave(&mut self, store: &mut impl Store<K>, slot: SlotId) -> Option<Cell<K>> {
        if let Some(ahead) = self.slots.peek(slot, AHEAD) {
            store.prefetch(ahead);
        }
        let mut cell = self.slots.pop_front(slot)?;
        self.leaving = Some(slot);
        self.emptied(slot);
        let when = store.deadline(cell.key, cell.when);
        if when == cell.when {
            self.len -= 1;
            self.debug_check();
            return Some(cell);
        }
        cell.when = when;
        self.moved += 1;
        self.file(store, cell);
        self.debug_check();
        None
    }

    /// Deals a slot out to lower ones, a cell for each of `moves`.
    fn deal(&mut self, store: &mut impl Store<K>, slot: SlotId, moves: &mut usize) {
        debug_assert!(slot.level() > 0 && slot.start(self.elapsed) == self.elapsed);
        while *moves > 0 {
            if let Some(ahead) = self.slots.peek(slot, AHEAD) {
                store.prefetch(ahead);
            }
            let Some(mut cell) = self.slots.pop_front(slot) else { break };
            cell.when = store.deadline(cell.key, cell.when);
            self.file(store, cell);
            self.moved += 1;
            *moves -= 1;
        }
        if self.slots.is_empty(slot) {
            self.occupied.clear(slot);
            self.dealing = None;
        }
        self.debug_check();
    }

    /// Splits the current level-0 slot at `now`: what is due becomes the batch, in order; the rest stays. Those whose
    /// deadline has moved to a later slot, or beyond `now`, are filed there, one for each of `moves`; if these do not
    /// suffice, the next call goes on.
    fn split(&mut self, store: &mut impl Store<K>, slot: SlotId, now: Nanos, moves: &mut usize) {
        let mut late = std::mem::take(&mut self.late);
        let mut unplaced = self.batch.len();
        let batch = &mut self.batch;
        let elapsed = self.elapsed;
        // Whether the cell that is taken has to be filed anew.
        let is_late = std::cell::Cell::new(false);
        // Two of the closures tell the store something, at different times.
        let store = std::cell::RefCell::new(store);
        let done = self.slots.sift(
            slot,
            |cell| {
                if cell.when > now {
                    return Verdict::Keep;
                }
                let when = store.borrow_mut().deadline(cell.key, cell.when);
                let has_moved = when != cell.when;
                // One that now waits in a later slot must not overtake those between, even if it is due.
                is_late.set(has_moved && (when > now || SlotId::of(elapsed, when) != slot));
                if is_late.get() {
                    if *moves == 0 {
                        return Verdict::Stop;
                    }
                    *moves -= 1;
                }
                cell.when = when;
                Verdict::Take
            },
            |cell| if is_late.get() { late.push(cell) } else { batch.push(Some(cell)) },
            |key, place| store.borrow_mut().set_place(key, place),
            |key| store.borrow_mut().prefetch(key),
        );
        let store = store.into_inner();
        if self.slots.is_empty(slot) {
            self.occupied.clear(slot);
        }
        self.file_all(store, late);
        self.splitting = if done { None } else { Some((slot, now)) };
        if done {
            self.batch.sort_unstable_by_key(|cell| cell.map(|cell| (cell.when, cell.rank)));
            unplaced = 0;
        }
        for index in unplaced..self.batch.len() {
            if let Some(Some(ahead)) = self.batch.get(index + AHEAD as usize) {
                store.prefetch(ahead.key);
            }
            if let Some(cell) = self.batch[index] {
                store.set_place(cell.key, Place::in_batch(index));
            }
        }
        self.debug_check();
    }

    /// Files the cells that left a slot for a later one, and keeps the list's memory for the next.
    fn file_all(&mut self, store: &mut impl Store<K>, mut late: Vec<Cell<K>>) {
        self.moved += late.len() as u64;
        self.batch_peak.reach(late.len());
        for cell in late.drain(..) {
            self.file(store, cell);
        }
        self.late = late;
    }

    /// Makes room for the next batch. A large one's memory is kept while batches of that size recur.
    #[inline]
    fn end_batch(&mut self) {
        if self.cursor == 0 {
            return;
        }
        self.batch_peak.reach(self.batch.len());
        self.batch.clear();
        self.cursor = 0;
    }

    /// Gives back the memory of a large batch, or of many late cells, unless such recur.
    #[inline]
    fn trim_lists(&mut self) {
        self.batch_peak.pass(self.elapsed, 0);
        let keep = BATCH_KEPT.max(self.batch_peak.get());
        if self.batch.capacity() > 2 * keep {
            self.batch.shrink_to(keep);
        }
        if self.late.capacity() > 2 * keep {
            self.late.shrink_to(keep);
        }
    }

    /// Bytes that the wheel has allocated, about.
    pub fn allocated_bytes(&self) -> usize {
        self.slots.allocated_bytes()
            + self.batch.capacity() * size_of::<Option<Cell<K>>>()
            + self.late.capacity() * size_of::<Cell<K>>()
    }
}
