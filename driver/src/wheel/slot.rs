//! `Slot`: the timers that are due within a slot's time, and bounds of their deadlines. This file has what happens while the slot
//! waits for that time; `opened.rs` has the rest.
//!
//! Rules:
//!
//! * A slot without timers has no cells and no memory. It counts as in order, and its bounds are empty.
//! * From `ordered_from` on the timers lie in the order of (deadline, sequence number), and no hole's old deadline is later than those
//!   of the timers behind it. So timers that were armed in order stay in order while some are cancelled. If one of the first few comes
//!   out of order, the order begins anew with it. If a later one does, there is none any more, unless it begins anew with one of the
//!   first blocks.
//! * The bounds may be too wide, never too narrow: no timer is due before `earliest` or after `latest`, none wants the park to end
//!   before `wake`, and none has less slack than `slack`.
//! * A removal leaves a hole, except at the end of the row, which is shortened. In a slot out of order, while at least a third of the
//!   cells are holes, new timers fill them: the search begins at block `near`, and goes round. (If there are fewer, each would be
//!   elsewhere in memory.)
//! * At least about a quarter of a row's cells hold timers. With fewer, each removal moves a few timers from the end of the row
//!   into holes, and the slot is no longer in order. (To move timers over holes, and so to keep the order, takes several steps, and
//!   cells that are neither timers nor holes meanwhile.)

use super::pool::{LONGEST, Pool};
use super::row::{BLOCK, Row, Timer};
use super::tree::IN_TREE;
use super::{Place, Slack, Store};
use crate::Nanos;

/// A row with so many times as many cells as timers is shortened.
const SPARSE: usize = 4;
/// So many cells more are tolerated.
pub(super) const HOLES: usize = 32;
/// Owners are prefetched so many timers ahead.
pub(super) const AHEAD: usize = 16;
/// An `ordered_from` that lies behind every cell: no timers are in order.
pub(super) const NO_ORDER: u32 = u32::MAX;
/// The order of a row may begin anew with a block that begins up to here: no more cells cascade before it than are sorted at once.
const RESTORED: usize = LONGEST;
/// So many blocks are searched for a hole.
const NEAR: u32 = 2;
/// At most so many cells of a slot are read to find out how long a park may last.
pub(super) const SEARCHED: usize = 64;

/// The timers of a slot. Other files read its fields, and change them only through its functions.
#[derive(Debug)]
pub(super) struct Slot<K, const SHORT: usize> {
    pub(super) row: Row<K>,
    /// No timer is due before this.
    pub(super) earliest: Nanos,
    /// No timer is due after this.
    pub(super) latest: Nanos,
    /// No timer wants the park to end before this.
    pub(super) wake: Nanos,
    /// The block in which the search for a hole begins.
    near: u32,
    /// From this cell on the timers are in order: it is one of the first few, the first of one of the first blocks, or [`NO_ORDER`].
    pub(super) ordered_from: u32,
    /// How many cells have been consumed. None while the slot waits.
    pub(super) head: u32,
    /// It is open, and its timers were sorted since their owners were told.
    pub(super) is_sorted: bool,
    /// No timer has less slack.
    pub(super) slack: Slack,
    /// A timer has left or changed since the bounds were exact.
    is_loose: bool,
}

impl<K: Copy + Eq, const SHORT: usize> Slot<K, SHORT> {
    /// So many timers do not keep those that come after them from being in order. Fewer than a short row has.
    const FEW: usize = if SHORT < 32 { SHORT / 2 } else { 16 };

    pub(super) const fn new() -> Slot<K, SHORT> {
        Slot {
            row: Row::new(),
            earliest: Nanos::NEVER,
            latest: Nanos::ZERO,
            wake: Nanos::NEVER,
            near: 0,
            ordered_from: 0,
            head: 0,
            is_sorted: false,
            slack: Slack::MAX,
            is_loose: false,
        }
    }

    /// How many timers wait in it.
    #[inline]
    pub(super) fn live(&self) -> usize {
        self.row.live()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.live() == 0
    }

    /// Whether it has no trace of the timers that were in it.
    pub(super) fn is_as_new(&self) -> bool {
        let has_bounds = (self.earliest, self.latest) != (Nanos::NEVER, Nanos::ZERO);
        self.ordered_from == 0 && !has_bounds && self.row.len() == 0 && !self.is_sorted
    }

    /// Puts a timer behind the last one and tells its owner, if that takes no new block, keeps an order that there is, and no hole is to
    /// be filled instead. Returns whether it did. This is the fast path: all of it is inlined.
    #[inline]
    pub(super) fn push_at_once(&mut self, store: &mut impl Store<K>, timer: Timer<K>) -> bool {
        let (has_order, fills_holes) = (self.has_order(), self.fills_holes());
        let allows = |last: &Timer<K>| if has_order { last.order() < timer.order() } else { !fills_holes };
        let index = self.row.len();
        // Whoever makes a short row long, in tests, does it slowly.
        let is_full = SHORT % BLOCK != 0 && index == SHORT;
        let has_pushed = !is_full && self.row.push_if(timer, allows);
        if has_pushed {
            self.placed(store, &timer, index);
        }
        has_pushed
    }

    /// Puts a timer behind the last one and tells its owner. (Inlined: a function would be passed the timer by a pointer. See
    /// `Wheel::file_slowly`.)
    #[inline(always)]
    pub(super) fn push(&mut self, store: &mut impl Store<K>, timer: Timer<K>, pool: &mut Pool<K>) {
        self.restore_order();
        if !self.is_last(&timer) {
            self.upset(self.row.len());
        }
        let index = self.row.len();
        assert!(index + SHORT < IN_TREE as usize, "a slot holds fewer than 2^31 timers");
        self.row.push(timer, pool);
        self.placed(store, &timer, index);
    }

    /// Whether new timers fill holes: it is out of order and has many.
    #[inline]
    fn fills_holes(&self) -> bool {
        !self.has_order() && 3 * self.live() <= 2 * self.row.len()
    }

    /// Puts a timer into a hole and tells its owner, if holes are to be filled, and there is one where the last was. Returns whether it
    /// did. This is the other fast path.
    #[inline]
    pub(super) fn fill_at_once(&mut self, store: &mut impl Store<K>, timer: Timer<K>) -> bool {
        let filled = if self.fills_holes() { self.row.fill_in(self.near as usize, timer) } else { None };
        let Some(index) = filled else { return false };
        self.placed(store, &timer, index);
        true
    }

    /// Like [`fill_at_once`](Slot::fill_at_once), but goes on to the next block if there is no hole.
    #[inline]
    pub(super) fn fill(&mut self, store: &mut impl Store<K>, timer: Timer<K>) -> bool {
        self.fills_holes() && self.fill_near(store, timer)
    }

    #[inline(never)]
    fn fill_near(&mut self, store: &mut impl Store<K>, timer: Timer<K>) -> bool {
        let blocks = self.row.len().div_ceil(BLOCK) as u32;
        for _ in 0..blocks.min(NEAR) {
            if self.fill_at_once(store, timer) {
                return true;
            }
            self.near = if self.near + 1 < blocks { self.near + 1 } else { 0 };
        }
        false
    }

    /// Widens the bounds by a timer that was put at `index`, and tells its owner.
    #[inline]
    fn placed(&mut self, store: &mut impl Store<K>, timer: &Timer<K>, index: usize) {
        self.widen(timer);
        store.set_place(timer.key, Place { when: timer.when, index: index as u32 });
    }

    /// Whether a timer comes after the last cell in the order.
    #[inline]
    pub(super) fn is_last(&self, timer: &Timer<K>) -> bool {
        self.row.last().is_none_or(|last| last.order() < timer.order())
    }

    /// Whether its cells are in order, but for the first few.
    #[inline]
    pub(super) fn has_order(&self) -> bool {
        self.ordered_from != NO_ORDER
    }

    /// From `index` on, the order may begin anew; or there is none, if it is too late for that.
    fn upset(&mut self, index: usize) {
        self.ordered_from = if index < Self::FEW { index as u32 } else { NO_ORDER };
    }

    /// If the row ends with a block that is full and in order, and is one of the first, the order begins anew with it: the crowd that
    /// comes after it may be long.
    #[inline]
    fn restore_order(&mut self) {
        let len = self.row.len();
        // An empty row has an order.
        let is_due = !self.has_order() && len % BLOCK == 0 && len - BLOCK <= RESTORED;
        if is_due && self.row.is_in_order(len / BLOCK - 1) {
            self.ordered_from = (len - BLOCK) as u32;
        }
    }

    /// Whether so many timers would cascade that others would have to wait. (A cascade of fewer takes as long as a sort.)
    #[inline]
    pub(super) fn is_crowd(&self) -> bool {
        !self.has_order() && self.live() > SHORT
    }

    /// Whether more timers than could be sorted are in order, and would cascade with this one.
    pub(super) fn is_upset_by(&self, timer: &Timer<K>) -> bool {
        self.has_order() && !self.is_short() && !self.is_last(timer)
    }

    /// Removes the last timer, if only a few, of which it is one, would not be in order with `timer` behind them. Not if the row ends with
    /// holes: there may be many.
    pub(super) fn pop_straggler(&mut self, timer: &Timer<K>, pool: &mut Pool<K>) -> Option<Timer<K>> {
        let before = self.row.get(self.row.len().checked_sub(Self::FEW)?)?;
        let last = self.row.len() - 1;
        let straggler = *self.row.live_at(last).filter(|_| before.order() < timer.order())?;
        self.remove(last as u32, None, pool);
        Some(straggler)
    }

    /// Removes the timer at `index`, if there is one, and if it is that of `key` where a key is given. Returns whether it did. The
    /// slot may be [untidy](Slot::is_untidy) then.
    #[inline]
    pub(super) fn remove(&mut self, index: u32, key: Option<K>, pool: &mut Pool<K>) -> bool {
        let index = index as usize;
        if !self.row.remove(index, key) {
            return false;
        }
        self.is_loose = true;
        // If it was the last timer, the slot is going to be cleared.
        if index + 1 == self.row.len() && !self.is_empty() {
            self.row.trim(pool);
        }
        true
    }

    /// Whether it is to be [tidied](Slot::tidy). To be asked when a timer has been removed.
    #[inline]
    pub(super) fn is_untidy(&self) -> bool {
        self.is_empty() || self.is_sparse()
    }

    /// Whether few of the cells that are not consumed hold timers.
    #[inline]
    pub(super) fn is_sparse(&self) -> bool {
        self.is_few_for(self.row.len() - self.head as usize)
    }

    /// Whether few of all cells hold timers, the consumed ones included.
    #[inline]
    pub(super) fn is_hollow(&self) -> bool {
        self.is_few_for(self.row.len())
    }

    #[inline]
    fn is_few_for(&self, cells: usize) -> bool {
        cells > SPARSE * self.live() + HOLES
    }

    /// Shortens a slot with many holes.
    pub(super) fn tidy(&mut self, store: &mut impl Store<K>, pool: &mut Pool<K>) {
        // As much as a removal takes off the length that is allowed.
        for _ in 0..SPARSE {
            if self.is_sparse() {
                self.shorten(store, pool);
            }
        }
    }

    /// Moves the last timer into a hole, if there is one near, or removes holes at the end.
    #[cold]
    fn shorten(&mut self, store: &mut impl Store<K>, pool: &mut Pool<K>) {
        let last = self.row.len() - 1;
        let Some(&timer) = self.row.live_at(last) else { return self.row.trim(pool) };
        self.ordered_from = NO_ORDER;
        if !self.fill(store, timer) {
            return;
        }
        self.row.remove(last, None);
        self.row.trim(pool);
        if let Some(next) = last.checked_sub(AHEAD).and_then(|next| self.row.live_at(next)) {
            store.prefetch(next.key);
        }
        // The end of a long row was last read when its timers came.
        self.row.prefetch(last.saturating_sub(2 * AHEAD));
    }

    /// Gives back the memory of a slot without timers.
    #[inline]
    pub(super) fn clear(&mut self, pool: &mut Pool<K>) {
        self.row.clear(pool);
        // It owns no memory any more. An assignment would look whether it does: to arm and cancel a timer takes 1.05 times as long.
        std::mem::forget(std::mem::replace(self, Slot::new()));
    }

    /// Removes the last timer.
    pub(super) fn pop_last(&mut self, pool: &mut Pool<K>) -> Option<Timer<K>> {
        while !self.is_empty() {
            let last = self.row.len() - 1;
            if let Some(timer) = self.row.live_at(last).copied() {
                self.remove(last as u32, None, pool);
                return Some(timer);
            }
            self.row.trim(pool);
        }
        None
    }

    /// Gives the timer of `key`, if it lies at `index`, another deadline in this slot, and another slack. Returns whether it did: not if it
    /// lies elsewhere, nor if that would upset the order of many.
    #[inline]
    pub(super) fn edit(
        &mut self,
        store: &mut impl Store<K>,
        key: K,
        index: u32,
        when: Nanos,
        slack: Slack,
    ) -> bool {
        if index >= self.ordered_from && !self.is_short() {
            return false;
        }
        let Some(cell) = self.row.at_mut(index as usize, key) else { return false };
        let timer = Timer { when, rank: cell.rank.with_slack(slack), key };
        *cell = timer;
        store.set_place(key, Place { when, index });
        if self.live() == 1 {
            (self.earliest, self.latest) = (when, when);
            (self.wake, self.slack) = (timer.wake(), slack);
        } else {
            self.widen(&timer);
            self.is_loose = true;
        }
        if index >= self.ordered_from {
            self.upset(if self.row.len() == 1 { 0 } else { index as usize + 1 });
        }
        true
    }

    /// The last deadline up to `most`, if there is one; or `most`, if it would take long to find out.
    pub(super) fn last_until(&self, most: Nanos) -> Option<Nanos> {
        if self.earliest > most {
            return None;
        }
        if self.latest <= most && !self.is_loose || self.row.len() > SEARCHED {
            return Some(self.latest.min(most));
        }
        self.timers().map(|(_, timer)| timer.when).filter(|when| *when <= most).max()
    }

    /// All timers with their indices.
    pub(super) fn timers(&self) -> impl Iterator<Item = (usize, Timer<K>)> {
        self.row.live_from(self.head as usize)
    }

    /// Widens the bounds by a timer. Mostly it lies within them, and nothing is written: a store that waits for memory delays the timers
    /// that are filed next.
    #[inline]
    fn widen(&mut self, timer: &Timer<K>) {
        let (when, wake, slack) = (timer.when, timer.wake(), timer.rank.slack());
        if (when < self.earliest) | (when > self.latest) | (wake < self.wake) | (slack < self.slack) {
            (self.earliest, self.latest) = (self.earliest.min(when), self.latest.max(when));
            (self.wake, self.slack) = (self.wake.min(wake), self.slack.min(slack));
        }
    }

    /// Whether it has so few cells that all may be sorted in one step.
    #[inline]
    pub(super) fn is_short(&self) -> bool {
        self.row.len() <= SHORT
    }
}

#[cfg(test)]
mod tests {
    use super::super::Rank;
    use super::super::tests::{Nowhere, Places};
    use super::*;

    #[test]
    fn the_last_of_a_row_takes_the_holes_before_it_along() {
        let mut pool = Pool::new();
        for deadlines in [[10, 20, 30, 40], [10, 20, 40, 30]] {
            let mut slot = Slot::<usize, 8>::new();
            for (key, when) in deadlines.into_iter().enumerate() {
                let rank = Rank::new(key as u64, Slack::ZERO);
                slot.push(&mut Nowhere, Timer { when: Nanos::new(when), rank, key }, &mut pool);
            }
            assert!([1, 2].into_iter().all(|index| slot.remove(index, None, &mut pool)));
            assert_eq!((slot.live(), slot.row.len()), (2, 4));
            assert!(!slot.remove(3, Some(0), &mut pool) && slot.remove(3, Some(3), &mut pool));
            assert_eq!((slot.live(), slot.row.len()), (1, 1));
        }
    }

    /// A slot whose row is soon no longer short, and the places of its timers.
    struct Busy {
        slot: Slot<usize, 8>,
        pool: Pool<usize>,
        places: Places,
    }

    impl Busy {
        /// With so many timers, in order or out of order.
        fn of(timers: usize, ordered: bool) -> Busy {
            let mut busy = Busy { slot: Slot::new(), pool: Pool::new(), places: Places(vec![]) };
            (0..timers).for_each(|key| busy.comes(if ordered { 1 } else { (timers - key) as u64 }));
            assert_eq!(busy.slot.ordered_from, if ordered { 0 } else { NO_ORDER });
            busy
        }

        fn comes(&mut self, when: u64) {
            let key = self.places.0.len();
            self.places.0.push(Place::NOWHERE);
            let timer = Timer { when: Nanos::new(when), rank: Rank::new(key as u64, Slack::ZERO), key };
            if !self.slot.fill(&mut self.places, timer) {
                self.slot.push(&mut self.places, timer, &mut self.pool);
            }
        }

        fn leaves(&mut self, key: usize) {
            let place = self.places.0[key];
            assert!(self.slot.remove(place.index, Some(key), &mut self.pool));
            if self.slot.is_empty() {
                self.slot.clear(&mut self.pool);
            } else if self.slot.is_untidy() {
                self.slot.tidy(&mut self.places, &mut self.pool);
            }
            let (len, live) = (self.slot.row.len(), self.slot.live());
            assert!(len <= 6 * live + 8 * BLOCK + HOLES, "{live} timers in {len} cells");
        }

        /// The keys of the timers that are there, all of which are where their owners believe.
        fn keys(&self) -> Vec<usize> {
            let mut keys = Vec::from_iter(self.slot.timers().map(|(index, timer)| {
                assert_eq!(self.places.0[timer.key].index as usize, index);
                timer.key
            }));
            assert_eq!(keys.len(), self.slot.live());
            keys.sort_unstable();
            keys
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of timers take Miri long")]
    fn a_row_is_shortened_whose_timers_leave_from_both_ends() {
        // Those at the end leave no holes. Three quarters have left from the front, and some holes more or less.
        for holes in [1_500, 1_501, 1_515, 1_531] {
            let mut busy = Busy::of(2_000, true);
            (0..holes).chain((holes..2_000).rev()).for_each(|key| busy.leaves(key));
            assert!(busy.slot.is_as_new());
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of timers take Miri long")]
    fn a_row_is_shortened_to_which_as_many_come_as_leave() {
        // Whatever their number is: it changes by no more than one.
        for timers in 1..=32 {
            let mut busy = Busy::of(timers, true);
            for key in 0..1_000 {
                busy.comes(1);
                busy.leaves(key);
            }
            assert_eq!(busy.keys(), Vec::from_iter(1_000..1_000 + timers));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of timers take Miri long")]
    fn who_comes_while_a_row_is_shortened_is_not_lost_with_its_holes() {
        for ordered in [true, false] {
            let mut busy = Busy::of(4_000, ordered);
            let mut left = Vec::from_iter(0..4_000);
            for (gone, key) in (0..4_000).filter(|key| key % 8 != 5).enumerate() {
                busy.leaves(key);
                left.retain(|other| *other != key);
                if gone % 32 == 0 {
                    left.push(busy.places.0.len());
                    busy.comes(1);
                }
            }
            assert!(!busy.slot.has_order());
            assert_eq!(busy.keys(), left);
        }
    }

    /// A removal takes as many steps as the length that is allowed shrinks by, wherever the holes are.
    #[test]
    #[cfg_attr(miri, ignore = "thousands of timers take Miri long")]
    fn a_long_gap_is_left_behind_in_small_steps() {
        let mut busy = Busy::of(30_000, true);
        // The front is full, and there is one timer at the end.
        (8_000..29_999).for_each(|key| busy.leaves(key));
        (0..7_000).for_each(|key| {
            let before = busy.slot.row.len();
            busy.leaves(key);
            assert!(before - busy.slot.row.len() <= (SPARSE + 1) * 2 * BLOCK);
        });
        assert_eq!(busy.keys(), Vec::from_iter((7_000..8_000).chain([29_999])));
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of timers take Miri long")]
    fn holes_of_a_row_out_of_order_are_filled_wherever_they_are() {
        let mut busy = Busy::of(3_000, false);
        let mut random = 1_u64;
        let mut left = Vec::from_iter(0..3_000);
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let gone = (random >> 33) as usize % left.len();
            busy.leaves(left.swap_remove(gone));
            left.push(busy.places.0.len());
            busy.comes(1);
            // A third of the cells may be holes, and some more where none was found near.
            let cells = busy.slot.row.len();
            assert!(cells < 3_000 + 1_500 + 2 * BLOCK, "{cells} cells");
        }
        left.sort_unstable();
        assert_eq!(busy.keys(), left);
    }

    #[test]
    fn each_bound_is_widened_by_itself() {
        let mut busy = Busy::of(0, true);
        let mut add = |when: u64, slack: u64| {
            let (key, slack) = (busy.places.0.len(), Slack::at_most_nanos(slack));
            busy.places.0.push(Place::NOWHERE);
            let timer = Timer { when: Nanos::new(when), rank: Rank::new(key as u64, slack), key };
            busy.slot.push(&mut busy.places, timer, &mut busy.pool);
            let slot = &busy.slot;
            [slot.earliest, slot.latest, slot.wake, Nanos::new(slot.slack.as_nanos())].map(Nanos::get)
        };
        assert_eq!(add(100, 48), [100, 100, 148, 48]);
        assert_eq!(add(200, 48), [100, 200, 148, 48], "the latest alone");
        assert_eq!(add(150, 40), [100, 200, 148, 40], "the slack alone");
        assert_eq!(add(104, 40), [100, 200, 144, 40], "the wake-up alone");
        assert_eq!(add(90, 64), [90, 200, 144, 40], "the earliest alone");
        assert_eq!(add(160, 64), [90, 200, 144, 40], "none");
        assert_eq!(add(80, 16), [80, 200, 96, 16], "three at once");
        assert_eq!(add(70, 16), [70, 200, 86, 16], "two at once");
    }
}
