//! `Wheel`: a hierarchical timing wheel with exact deadlines. A pure, safe data structure.
//!
//! The caller tells it the time; a [`Store`] is told where each timer lies. It owns no clock, no lock and no atomic, and calls no
//! foreign code but the store's.
//!
//! ```text
//!   level 9  ▕▏▏▏▏ … 64 slots of 2^58 ns (9 years)     1 insert: a timer waits in the slot of the highest bit in
//!     …                                                   which its deadline differs from `elapsed`: it lies ahead
//!   level 1  ▕▏▏▏▏ … 64 slots of 2^10 ns (1 µs)   ─┐
//!   level 0  ▕▏▏▏▏ … 64 slots of 2^4 ns           ─┤  2 open: `now` has reached the slot's start
//!                                                  ├──▶ in order, or short and sorted
//!                                                  └──▶ long and out of order ──3 cascade──▶ slots of lower levels
//!                                                       (5 deal: the same, before `now` has reached the slot's start)
//!   open slots, one on each level, and the `tree` ──4 expire: the earliest head of all──▶ next_due
//! ```
//!
//! What a slot may be, and where that is noted:
//!
//! * it *waits*: it starts after `elapsed` and has timers; `occupied` has its bit;
//! * it is *open*: `elapsed` is in it, and it has timers; `open` has its level's bit;
//! * it *cascades*: it is open and its timers are to be filed again; `cascading` names it;
//! * it is *dealt*: its timers are in `SlotId::DEALT`, and `deal.slot` says which slot that was;
//! * it belongs to the *next round*: it waits, behind its level's current slot; only a deal fills such slots.
//!
//! `SlotId::TREE` is the tree, and no slot: `slots` has none with this index.
//!
//! Rules:
//!
//! * Exact: no timer expires before its deadline, to the nanosecond. A slot is only where it waits. If its owner has moved the deadline
//!   to a later time ([`Store::deadline`]), the wheel finds out when it touches the timer anyway (in a cascade, on expiry, and in
//!   [`Wheel::next_deadline`]) and files it again.
//! * In order: timers expire by (deadline, sequence number). Before one expires, all slots that start at or before its deadline have
//!   been opened. A timer that is inserted after its deadline expires before all later deadlines, but timers that were due by then may
//!   come first.
//! * Ranks compare by sequence number. Each timer of a wheel has its own, so the slack in the low bits never decides.
//! * A place leads from a timer to its cell: the deadline says in which slot the cell lies, the index where in the slot. If the slot
//!   was sorted when it was opened, the index is out of date, and a binary search by deadline finds the cell.
//! * To remove a timer makes a hole and moves no other cell, until the slot is tidied. So several timers can be removed together after
//!   their owners are gone. A bitmap says which cells are holes; the cell itself is read only to verify whose it is.
//! * On each level, the slot in which the wheel stands is open: all its timers are due before the next slot starts. New timers
//!   go into an open slot on level 0 only.
//! * So that nobody waits for a cascade, a long slot that is out of order is dealt to lower slots before its time comes (`deal.rs`).
//! * A slot that cascades is open, too, but not in order, or mostly holes. It comes before all others, and each timer that leaves it
//!   is filed again, until those that are left are in order.
//! * A timer that is due in the 16 ns in which the wheel stands goes to the end of level 0's open slot if that keeps the order,
//!   and otherwise to `tree`. There, too, ends a cascade of many timers with nearly the same deadline.
//! * So does a timer that would upset the order of a long slot, or the last few of that slot, if it is they that come too early. The tree
//!   takes a few. So neither a ticker nor a long sleep among a crowd that was armed in order makes the crowd cascade; nor do those that
//!   were there before it, in up to 2048 cells.
//! * Work is sliced: a cascade may stop after any cell. No step sorts more than a short row, of up to 2048 cells. What a step moves,
//!   skips or frees besides takes no longer. There are two exceptions: the last timer of a row of millions that leaves frees the list of
//!   its blocks; and when hundreds of thousands leave the tree, the allocator gives its memory back at a time of its own choice.
//! * [`Wheel::check`] verifies all this; the driver's tests do it after every change of a small wheel.

mod advance;
mod check;
mod deal;
mod level;
mod opened;
mod pool;
mod row;
mod slot;
mod slots;
mod store;
mod tree;

use std::fmt;

use deal::Deal;
use level::{Occupied, SlotId, bits};
use pool::Pool;
use row::Timer;
use slots::Slots;
use tree::Tree;

pub use advance::Due;
pub(crate) use advance::Park;
pub use level::{LevelOccupancy, Occupancy};
pub use store::{Place, Rank, Store};

use crate::Nanos;
pub use crate::slack::Slack;

/// While the tree has fewer timers than this, it takes those that would upset the order of a long slot.
const STRAGGLERS: usize = 64;

/// A hierarchical timing wheel over keys that somebody else owns.
///
/// Insert and remove are O(1), amortized over the growth of its memory. A timer moves at most ten times between its
/// insertion and its end, and most never do; up to ten times more for each time that it is found to have been put off.
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
///     fn place(&self, key: usize) -> Place {
///         self.0[key]
///     }
/// }
///
/// let mut places = Places(vec![Place::NOWHERE; 3]);
/// let mut wheel = Wheel::new(Nanos::ZERO);
/// for (key, deadline) in [(0, 700), (1, 300), (2, 500)] {
///     wheel.insert(&mut places, key, Nanos::new(deadline), Rank::new(key as u64, Slack::ZERO));
/// }
/// assert!(wheel.remove(&mut places, 2));
/// assert_eq!(wheel.next_wake(), Some(Nanos::new(300)));
///
/// let mut moves = 1000;
/// let mut fired = vec![];
/// while let Due::Fire { key, .. } = wheel.next_due(&mut places, Nanos::new(1_000), &mut moves) {
///     fired.push(key);
/// }
/// assert_eq!(fired, [1, 0]);
/// ```
pub struct Wheel<K, const SHORT: usize = { pool::LONGEST }> {
    occupied: Occupied,
    slots: Slots<K, SHORT>,
    /// Up to when the wheel has been processed: all slots that start at or before it have been opened.
    elapsed: Nanos,
    /// No slot that waits starts at or before this.
    clear_until: Nanos,
    /// The levels whose open slot holds timers: a bit each.
    open: u64,
    /// The open slot that cascades, if one does.
    cascading: Option<SlotId>,
    /// No timer is or was in an open slot, or was dealt, that is due after this.
    latest_open: Nanos,
    /// Which slot is dealt, and when the next is to be.
    deal: Deal,
    /// Timers that are due in the 16 ns in which the wheel stands, and would break the order of level 0's open slot; and a few that would
    /// break the order of another.
    tree: Tree<K>,
    pool: Pool<K>,
    len: usize,
    moved: u64,
}

impl<K, const SHORT: usize> fmt::Debug for Wheel<K, SHORT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel")
            .field("elapsed", &self.elapsed)
            .field("len", &self.len)
            .field("occupied", &self.occupied)
            .finish_non_exhaustive()
    }
}

impl<K: Copy + Eq> Wheel<K> {
    /// An empty wheel that stands at `at`.
    pub fn new(at: Nanos) -> Wheel<K> {
        Wheel::with_short(at)
    }
}

impl<K: Copy + Eq, const SHORT: usize> Wheel<K, SHORT> {
    /// An empty wheel that stands at `at`, and sorts slots of up to `SHORT` cells, from 8 to 2048; longer ones cascade. It is meant
    /// for tests, which reach a cascade with few timers then.
    pub fn with_short(at: Nanos) -> Wheel<K, SHORT> {
        const { assert!(SHORT >= 8 && SHORT <= pool::LONGEST) }
        Wheel {
            occupied: Occupied::default(),
            slots: Slots::new(),
            elapsed: at,
            clear_until: Nanos::NEVER,
            open: 0,
            cascading: None,
            deal: Deal::new(),
            latest_open: Nanos::ZERO,
            tree: Tree::new(),
            pool: Pool::new(),
            len: 0,
            moved: 0,
        }
    }

    /// Lets the slots of a level be allocated when one of them is first needed, 6 kB, instead of all of them with the first timer, 56 kB:
    /// for a wheel that has few timers, or one of very many wheels.
    ///
    /// ```
    /// # use mainspring_driver::{Nanos, wheel::Wheel};
    /// let wheel = Wheel::<u64>::new(Nanos::ZERO).allocate_by_level();
    /// # assert_eq!(wheel.allocated_bytes(), 0);
    /// ```
    #[must_use]
    pub fn allocate_by_level(mut self) -> Wheel<K, SHORT> {
        self.slots.by_level = true;
        self
    }

    /// Up to when the wheel has been processed. It never goes back, and nothing that is due before it waits in a slot.
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

    /// How many times, so far, a timer was moved to a lower slot, or filed again because its deadline had been put off.
    #[inline]
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Inserts `key` with this deadline. One that has passed is due at once. O(1).
    ///
    /// # Panics
    ///
    /// It may panic if another timer in the wheel has the same sequence number: each needs its own.
    #[inline]
    pub fn insert(&mut self, store: &mut impl Store<K>, key: K, deadline: Nanos, rank: Rank) {
        self.len += 1;
        self.file(store, Timer { when: deadline, rank, key });
        self.debug_check();
    }

    /// Files a timer again that has just expired but is due later. It counts as a move.
    #[inline]
    pub(crate) fn put_back(&mut self, store: &mut impl Store<K>, key: K, deadline: Nanos, rank: Rank) {
        self.moved += 1;
        self.insert(store, key, deadline, rank);
    }

    /// Removes a timer. Returns whether it was in the wheel. O(1); or, if its slot was sorted when it was opened, a binary search
    /// among up to 2048 cells and a look at each with the same deadline.
    #[inline]
    pub fn remove(&mut self, store: &mut impl Store<K>, key: K) -> bool {
        let place = store.place(key);
        let Some(untidy) = self.take_out(key, place, false) else { return false };
        self.len -= 1;
        if let Some(id) = untidy {
            self.tidy(store, id);
        }
        self.debug_check();
        true
    }

    /// Removes several timers, each of which lies at the place that was told last for it. The store is neither asked for
    /// these timers nor told of them: their owners may be gone. Returns whether all were found; if not, some may still be there.
    ///
    /// Debug builds verify that each place holds its timer; others verify it only where the timer may have moved, and
    /// elsewhere only that the place is no hole.
    pub(crate) fn remove_all(&mut self, store: &mut impl Store<K>, timers: &[(K, Place)]) -> bool {
        assert!(timers.len() < u64::BITS as usize, "too many at a time");
        let (mut found, mut untidy) = (0, 0);
        for (number, &(key, place)) in timers.iter().enumerate() {
            if let Some(id) = self.take_out(key, place, !cfg!(debug_assertions)) {
                untidy |= u64::from(id.is_some()) << number;
                found += 1;
            }
        }
        self.len -= found;
        // Cells move, and their owners are told, from here on only.
        if found == timers.len() {
            for when in bits(untidy).map(|number| timers[number].1.when) {
                let ids = [SlotId::of(self.elapsed, when), self.slot_ahead(when)];
                ids.into_iter().flatten().for_each(|id| self.tidy(store, id));
            }
        }
        self.debug_check();
        found == timers.len()
    }

    /// Gives a timer another deadline and another slack. It keeps its sequence number. Returns whether it was in the wheel.
    /// O(1), and cheapest if it stays in its slot.
    #[inline]
    pub fn refile(&mut self, store: &mut impl Store<K>, key: K, deadline: Nanos, slack: Slack) -> bool {
        let place = store.place(key);
        let id = SlotId::of(self.elapsed, place.when);
        let same = id.filter(|id| id.spans(place.when, deadline));
        if let Some((id, slot)) = same.and_then(|id| Some((id, self.slots.get_mut(id)?))) {
            let bounds = (slot.earliest, slot.latest);
            if slot.edit(store, key, place.index, deadline, slack) {
                if (slot.earliest, slot.latest) != bounds {
                    self.note_crowd(id);
                }
                self.debug_check();
                return true;
            }
        }
        let Some(rank) = self.rank(id, key, place) else { return false };
        let found = self.remove(store, key);
        self.insert(store, key, deadline, rank.with_slack(slack));
        found
    }

    /// Bytes that the wheel has allocated: 88 for each of 640 slots or of those that were [needed](Wheel::allocate_by_level), 24 for a
    /// timer whose key has eight bytes, at least 1,536 for a slot with timers, and 16 for each 64 timers that a slot with more than 64
    /// has had at most. The tree of timers that are due in the same 16 ns, or came out of order, is not counted.
    pub fn allocated_bytes(&self) -> usize {
        let listed = self.slots.iter().map(|slot| slot.row.listed()).sum();
        self.slots.iter().map(size_of_val).sum::<usize>() + self.pool.allocated_bytes(listed)
    }

    /// How much memory of a past burst is yet to be freed, a little at each [`Due::Idle`].
    #[inline]
    pub(crate) fn surplus(&self) -> usize {
        self.pool.surplus()
    }

    /// Whether so much memory of a past burst is kept that it is worth a wake-up.
    #[inline]
    pub(crate) fn has_spare(&self) -> bool {
        self.pool.is_large()
    }

    /// Takes out the timer of `key`, if it lies at `place`. Returns its slot if that has to be [tidied](Wheel::tidy). If the place is
    /// `known` to be right, the cell, which may be far away in memory, is not read, unless its slot may be open.
    #[inline]
    fn take_out(&mut self, key: K, place: Place, known: bool) -> Option<Option<SlotId>> {
        let whose = if known && place.when > self.latest_open { None } else { Some(key) };
        let id = SlotId::of(self.elapsed, place.when);
        if let Some(slot) = id.and_then(|id| self.slots.get_mut(id)) {
            if slot.remove(place.index, whose, &mut self.pool) {
                return Some(id.filter(|_| slot.is_untidy()));
            }
        }
        self.take_out_opened(key, place)
    }

    /// The same for a timer whose slot may be open, or that may have been dealt.
    #[inline(never)]
    fn take_out_opened(&mut self, key: K, place: Place) -> Option<Option<SlotId>> {
        let ahead = self.slot_ahead(place.when);
        if let Some((id, slot)) = ahead.and_then(|id| Some((id, self.slots.get_mut(id)?))) {
            if slot.remove(place.index, Some(key), &mut self.pool) {
                return Some(Some(id).filter(|_| slot.is_untidy()));
            }
        }
        let (id, index, rank) = self.find_opened(key, place)?;
        if let Some(slot) = self.slots.get_mut(id) {
            slot.remove_opened(index, &mut self.pool);
            self.cascade_if_sparse(id);
            self.close_if_empty(id);
        } else {
            self.tree.remove(&(place.when, rank));
        }
        Some(None)
    }

    /// The open slot in which a timer lies, its index there, and its rank. The index means nothing if it is the tree.
    fn find_opened(&self, key: K, place: Place) -> Option<(SlotId, usize, Rank)> {
        let find = |id: SlotId| {
            let slot = &self.slots[id];
            let index = slot.find(key, place)?;
            Some((id, index, slot.row.get(index)?.rank))
        };
        self.open_slots()
            .chain(self.dealt())
            .find_map(find)
            .or_else(|| Some((SlotId::TREE, 0, tree::find(&self.tree, key, place)?)))
    }

    /// The slots that are open and hold timers.
    #[inline]
    fn open_slots(&self) -> impl Iterator<Item = SlotId> {
        bits(self.open).map(|level| SlotId::current(self.elapsed, level))
    }

    /// To be called when a timer has left an open slot.
    #[inline]
    fn close_if_empty(&mut self, id: SlotId) {
        let slot = &mut self.slots[id];
        if slot.is_empty() {
            slot.clear(&mut self.pool);
            self.open &= !(1 << id.level());
        }
        if self.cascading == Some(id) && !slot.cascades() {
            self.cascading = None;
            bits(self.open).for_each(|level| self.cascade_if_sparse(SlotId::current(self.elapsed, level)));
        }
    }

    /// To be called when a timer has left an open slot. What is left in much memory is filed again.
    #[inline]
    fn cascade_if_sparse(&mut self, id: SlotId) {
        if self.cascading.is_some() || id == SlotId::DEALT {
            return;
        }
        if self.is_sparse(id) {
            self.slots[id].cascade();
        }
        if self.slots[id].cascades() {
            self.cascading = Some(id);
        }
    }

    /// Whether an open slot has much memory for few timers. (A slot of level 0 is over in 16 ns.)
    #[inline]
    fn is_sparse(&self, id: SlotId) -> bool {
        let slot = &self.slots[id];
        slot.is_sparse() && !slot.is_short() && id.level() > 0
    }

    /// The rank of the timer of `key`, if it lies at `place`, in the slot `id`, in one of the next round, or in an open one.
    fn rank(&self, id: Option<SlotId>, key: K, place: Place) -> Option<Rank> {
        let cell = |id: SlotId| self.slots.get(id)?.row.at(place.index as usize, key);
        let waiting = id.and_then(cell).or_else(|| self.slot_ahead(place.when).and_then(cell));
        waiting.map(|cell| cell.rank).or_else(|| self.find_opened(key, place).map(|(_, _, rank)| rank))
    }

    /// Shortens or clears a slot that [says](Slot::is_untidy) it needs it.
    #[inline(never)]
    fn tidy(&mut self, store: &mut impl Store<K>, id: SlotId) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        if slot.is_empty() {
            slot.clear(&mut self.pool);
            self.occupied.clear(id);
            return;
        }
        let had_order = slot.has_order();
        slot.tidy(store, &mut self.pool);
        if had_order {
            // What is left may be out of order now, and a crowd.
            self.note_crowd(id);
        }
    }

    /// Puts a timer into its slot.
    #[inline]
    fn file(&mut self, store: &mut impl Store<K>, timer: Timer<K>) {
        let Timer { when, rank, key } = timer;
        let id = SlotId::of(self.elapsed, when).unwrap_or(SlotId::TREE);
        let slot = self.slots.get_mut(id);
        if !slot.is_some_and(|slot| slot.push_at_once(store, timer) || slot.fill_at_once(store, timer)) {
            self.file_slowly(store, id, when, rank, key);
        }
    }

    /// Puts a timer into a slot that has no room for it at the end, or holes to fill. A timer without a slot, because it is due or will be
    /// in the 16 ns in which the wheel stands, goes behind all others that are due then, or into the tree; as do the first few of those
    /// that a long slot cannot hold in order. (It is passed in pieces on purpose. As a whole it would be written to the stack and read
    /// back in wider words, which stalls until all its stores are done.)
    #[inline(never)]
    fn file_slowly(&mut self, store: &mut impl Store<K>, id: SlotId, when: Nanos, rank: Rank, key: K) {
        let timer = Timer { when, rank, key };
        let is_due_now = id == SlotId::TREE;
        let current = SlotId::current(self.elapsed, 0);
        self.slots.make(if is_due_now { current } else { id });
        while let Some(slot) = self.slots.get_mut(id) {
            if slot.fill(store, timer) {
                return self.note_crowd(id);
            }
            if self.tree.len() >= STRAGGLERS || !slot.is_upset_by(&timer) {
                slot.push(store, timer, &mut self.pool);
                self.occupied.set(id);
                self.clear_until = self.clear_until.min(Nanos::new(id.start(self.elapsed).get() - 1));
                self.note_crowd(id);
                return;
            }
            let Some(straggler) = slot.pop_straggler(&timer, &mut self.pool) else { break };
            if slot.is_untidy() {
                self.tidy(store, id);
            }
            self.file_in_tree(store, straggler);
        }
        if is_due_now && self.slots[current].push_opened(store, timer, &mut self.pool) {
            self.latest_open = self.latest_open.max(when);
            self.open |= 1;
        } else {
            self.file_in_tree(store, timer);
        }
    }

    /// Puts a timer into the tree.
    fn file_in_tree(&mut self, store: &mut impl Store<K>, Timer { when, rank, key }: Timer<K>) {
        let other = self.tree.insert((when, rank), key);
        assert!(other.is_none(), "two timers of a wheel have one sequence number: give each its own");
        store.set_place(key, tree::place(when, rank));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps no places.
    pub(super) struct Nowhere;

    impl<K> Store<K> for Nowhere {
        fn set_place(&mut self, _: K, _: Place) {}
        fn place(&self, _: K) -> Place {
            Place::NOWHERE
        }
    }

    /// Keeps the place of each key.
    pub(super) struct Places(pub(super) Vec<Place>);

    impl Store<usize> for Places {
        fn set_place(&mut self, key: usize, place: Place) {
            self.0[key] = place;
        }
        fn place(&self, key: usize) -> Place {
            self.0[key]
        }
    }

    #[test]
    fn a_timer_that_is_put_back_counts_as_moved_and_expires_at_its_new_deadline() {
        let mut wheel = Wheel::new(Nanos::ZERO);
        wheel.insert(&mut Nowhere, 0, Nanos::new(10), Rank::new(0, Slack::ZERO));
        for deadline in [10, 100, 5_000] {
            let now = Nanos::new(deadline);
            let due = wheel.next_due(&mut Nowhere, now, &mut 10);
            let Due::Fire { key, deadline, rank } = due else { panic!("{due:?}") };
            assert_eq!((deadline, wheel.len()), (now, 0));
            let later = if now == Nanos::new(10) { Nanos::new(100) } else { Nanos::new(5_000) };
            wheel.put_back(&mut Nowhere, key, later, rank);
            assert_eq!(
                wheel.next_due(&mut Nowhere, now, &mut 10),
                if later == now { due } else { Due::Idle }
            );
        }
        assert_eq!((wheel.moved(), wheel.len()), (3, 0));
    }

    #[test]
    fn a_cell_whose_timer_is_known_is_looked_at_only_where_it_may_be_in_an_open_slot() {
        let place = |when, index| Place { when: Nanos::new(when), index };
        let (slot, reach) = (1 << 22, (1 << 22) + 1_000_000);
        let taken = |is_open: bool, key, place, known| {
            let mut wheel = Wheel::<usize>::new(Nanos::ZERO);
            let mut add = |key: usize, when| {
                wheel.insert(&mut Nowhere, key, Nanos::new(when), Rank::new(key as u64, Slack::ZERO));
            };
            [slot, slot + 1_000, reach].into_iter().enumerate().for_each(|(key, when)| add(key, when));
            if is_open {
                // The slot is open then. Of two with the same place one is in it, and one has come since, to another.
                let due = wheel.next_due(&mut Nowhere, Nanos::new(slot), &mut 10);
                assert!(matches!(due, Due::Fire { key: 0, .. }));
                for (key, when) in [(3, reach), (4, slot + 1_000), (5, slot + 1_000), (6, reach + (1 << 22))]
                {
                    wheel.insert(&mut Nowhere, key, Nanos::new(when), Rank::new(key as u64, Slack::ZERO));
                }
            }
            wheel.take_out(key, place, known).is_some()
        };
        // Another's key shows whether the cell is looked at.
        for (known, expected) in [(true, true), (false, false)] {
            assert_eq!(taken(false, 7, place(slot + 1_000, 1), known), expected);
            assert!(taken(false, 1, place(slot + 1_000, 1), known));
            assert!(!taken(false, 1, place(slot + 1_000, 3), known), "it lies behind the end");
            assert!(taken(true, 1, place(slot + 1_000, 1), known), "it is in the open slot");
            assert!(taken(true, 5, place(slot + 1_000, 1), known), "it is in a slot that waits");
            assert!(!taken(true, 7, place(slot + 1_000, 1), known));
            assert_eq!(taken(true, 7, place(reach + (1 << 22), 0), known), expected);
        }
    }

    #[test]
    fn who_is_due_as_late_as_any_in_an_open_slot_is_found_there() {
        let place = |when, index| Place { when: Nanos::new(when), index };
        let (slot, reach) = (1 << 22, (1 << 22) + 1_000_000);
        let mut wheel = Wheel::<usize>::new(Nanos::ZERO);
        let add = |wheel: &mut Wheel<usize>, key: usize, when| {
            wheel.insert(&mut Nowhere, key, Nanos::new(when), Rank::new(key as u64, Slack::ZERO));
        };
        [slot, slot + 1_000, reach]
            .into_iter()
            .enumerate()
            .for_each(|(key, when)| add(&mut wheel, key, when));
        let due = wheel.next_due(&mut Nowhere, Nanos::new(slot), &mut 10);
        assert!(matches!(due, Due::Fire { key: 0, .. }));
        // These come to another slot, the last of them to the same place as the third, which is in the open one.
        (3..6).for_each(|key| add(&mut wheel, key, reach));
        assert!(wheel.take_out(2, place(reach, 2), true).is_some());
        assert!(wheel.take_out(5, place(reach, 2), false).is_some(), "another was taken for it");
    }

    #[test]
    fn debug_builds_look_whether_who_leaves_is_there() {
        let mut wheel = Wheel::<usize>::new(Nanos::ZERO);
        wheel.insert(&mut Nowhere, 0, Nanos::new(1 << 22), Rank::new(0, Slack::ZERO));
        let place = Place { when: Nanos::new(1 << 22), index: 0 };
        assert_eq!(wheel.remove_all(&mut Nowhere, &[(1, place)]), !cfg!(debug_assertions));
        assert_eq!(wheel.remove_all(&mut Nowhere, &[(0, place)]), cfg!(debug_assertions));
    }
}
