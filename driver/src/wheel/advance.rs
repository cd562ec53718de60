//! How the wheel advances: slots are opened and cascade, and timers expire (arrows 2 to 4 of [`Wheel`]). And what lies ahead: how long
//! the thread may sleep, which timer is next, and which timers there are.
//!
//! Rules:
//!
//! * A sleep never outlasts the earliest deadline-plus-slack. It is computed from the bounds of the slots, which are never too late. They
//!   are too early after timers were cancelled or moved; then a sleep ends early, once, and no timer is affected.
//! * Where one timer that was put off is filed again, those that follow it are, too, before their old deadlines: the thread would wake up
//!   for each of them.
//! * [`Wheel::next_deadline`] is exact. It walks slots for that, as far as their order does not make it needless, and changes nothing.

use super::level::SlotId;
use super::row::{BLOCK, Timer};
use super::slot::Slot;
use super::{Rank, Store, Wheel};
use crate::Nanos;

/// Sorting so many cells counts as one move.
const SORTED: usize = 32;
/// A move into the tree counts as so many more.
const INTO_TREE: usize = 2;
/// At most so many timers that were put off are filed again before their old deadlines.
const PUT_OFF: usize = 64;

/// What [`Wheel::next_due`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due<K> {
    /// This timer is due and has left the wheel.
    Fire {
        /// Whose it is.
        key: K,
        /// Its deadline, as its owner named it when the timer left.
        deadline: Nanos,
        /// Its sequence number and slack.
        rank: Rank,
    },
    /// The granted moves are used up, and there may be more timers that are due.
    Exhausted,
    /// No timer that is left is due.
    Idle,
}

/// How long a park may last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Park {
    /// The earliest deadline.
    pub(crate) due: Nanos,
    /// See [`Wheel::next_wake`].
    pub(crate) wake: Nanos,
    /// The earliest deadline-plus-slack.
    pub(crate) most: Nanos,
}

/// The first timer that was found so far: its true deadline, its rank and its key.
struct First<K>(Option<((Nanos, Rank), K)>);

impl<K: Copy + Eq> First<K> {
    /// Whether a timer that is filed under `when` may come before it.
    fn may_precede(&self, when: Nanos) -> bool {
        self.0.as_ref().is_none_or(|((found, _), _)| when <= *found)
    }

    /// Looks at another timer. Returns whether one that is filed behind that may still be the first. Of timers that are filed under one
    /// deadline, which may be many, only the first is asked for its own.
    fn look(&mut self, timer: Timer<K>, deadline_of: &mut impl FnMut(K, Nanos) -> Option<Nanos>) -> bool {
        if self.0.as_ref().is_some_and(|(first, _)| *first <= timer.order()) {
            return false;
        }
        if let Some(deadline) = deadline_of(timer.key, timer.when) {
            let order = (deadline, timer.rank);
            if self.0.as_ref().is_none_or(|(first, _)| order < *first) {
                self.0 = Some((order, timer.key));
            }
        }
        true
    }

    /// Looks at the timers of a slot. Where they are in order, it stops at the first one that comes too late.
    fn look_at<const SHORT: usize>(
        &mut self,
        slot: &Slot<K, SHORT>,
        deadline_of: &mut impl FnMut(K, Nanos) -> Option<Nanos>,
    ) {
        let out_of_order = slot.ordered_from as usize;
        slot.timers().all(|(index, timer)| self.look(timer, deadline_of) || index < out_of_order);
    }
}

impl<K: Copy + Eq, const SHORT: usize> Wheel<K, SHORT> {
    /// Removes and returns the next timer that is due at `now`, by (deadline, sequence number). Advances the wheel to `now`.
    ///
    /// Call it again, with the same `now`, until it returns [`Due::Idle`]. Each timer that is moved to another slot costs one of `moves`
    /// (three if it goes into the tree of those that no slot holds in order), and so do 32 that are sorted. When no moves are left it
    /// returns [`Due::Exhausted`], and the next call goes on from there; so grant at least one. With what is left when nothing is due, it
    /// moves up to 256 timers whose time will come. A `now` before [`elapsed`](Wheel::elapsed) changes nothing. One between that and the
    /// last call's `now` returns what is due by it.
    pub fn next_due(&mut self, store: &mut impl Store<K>, now: Nanos, moves: &mut usize) -> Due<K> {
        if now < self.elapsed {
            return Due::Idle;
        }
        let mut put_off = false;
        while *moves > 0 {
            let head = self.head();
            if let Some((when, source)) = head.filter(|&(when, _)| when <= now.min(self.clear_until)) {
                let Some(timer) = self.expire(store, source) else {
                    // Holes: skipping them is work, too.
                    *moves -= 1;
                    continue;
                };
                let deadline = store.deadline(timer.key, timer.when);
                // For a slot that cascades `when` is zero, which is no deadline of a timer in a slot: each is filed again.
                if deadline == when {
                    self.len -= 1;
                    self.debug_check();
                    return Due::Fire { key: timer.key, deadline, rank: timer.rank };
                }
                put_off |= when > Nanos::ZERO;
                self.file_again(store, timer, deadline, moves);
                self.debug_check();
                continue;
            }
            let earliest = self.earliest_slot();
            match earliest {
                Some((id, start)) if start <= now && head.is_none_or(|(when, _)| start <= when) => {
                    self.open(store, id, start, now, moves);
                }
                _ => {
                    self.clear_until =
                        earliest.map_or(Nanos::NEVER, |(_, start)| Nanos::new(start.get() - 1));
                    if head.is_none_or(|(when, _)| when > now) {
                        self.elapsed = now;
                        self.pool.release_some(now);
                        if put_off {
                            self.file_put_off(store, moves);
                        }
                        self.deal(store, moves);
                        self.debug_check();
                        return Due::Idle;
                    }
                }
            }
        }
        Due::Exhausted
    }

    /// Files a timer that has left its slot, under its true deadline. Costs moves.
    #[inline]
    fn file_again(&mut self, store: &mut impl Store<K>, timer: Timer<K>, deadline: Nanos, moves: &mut usize) {
        let in_tree = self.tree.len();
        self.file(store, Timer { when: deadline, ..timer });
        self.moved += 1;
        *moves = moves.saturating_sub(1 + INTO_TREE * (self.tree.len() - in_tree));
    }

    /// Files the first timers of the open slots again that were put off, too: otherwise the caller would wake up for each of them.
    #[inline(never)]
    fn file_put_off(&mut self, store: &mut impl Store<K>, moves: &mut usize) {
        for _ in 0..PUT_OFF {
            let Some((when, source)) = self.head().filter(|_| *moves > 0) else { return };
            let first = self.slots.get(source).and_then(Slot::first);
            let Some(&timer) = first.filter(|timer| timer.when == when) else { return };
            let deadline = store.deadline(timer.key, when);
            if deadline <= when || self.expire(store, source).is_none() {
                return;
            }
            self.file_again(store, timer, deadline, moves);
        }
    }

    /// Removes any timer, and returns its key and its cached deadline: to empty a wheel that is no longer needed.
    pub fn take_any(&mut self, store: &mut impl Store<K>) -> Option<(K, Nanos)> {
        self.cascading = self.cascading.or(self.dealt());
        while let Some((_, source)) = self.head() {
            if let Some(taken) = self.expire(store, source) {
                self.len -= 1;
                return Some((taken.key, taken.when));
            }
        }
        let id = self.occupied.earliest()?;
        let slot = &mut self.slots[id];
        let taken = slot.pop_last(&mut self.pool)?;
        self.len -= 1;
        if slot.is_untidy() {
            self.tidy(store, id);
        }
        Some((taken.key, taken.when))
    }

    /// Until when the caller may sleep: until the last deadline that is not later than the earliest deadline-plus-slack, because no
    /// other timer would be gained by sleeping on. So a timer with no other near it is woken at its deadline, whatever its slack.
    /// `None` if the wheel is empty.
    ///
    /// While nothing is due, it is never later than that earliest deadline-plus-slack. It may be later than the last deadline before that
    /// if many timers wait in a slot, and earlier than any deadline after timers were cancelled or moved. It is earlier, too, where more
    /// than two thousand timers wait in a slot out of order: they are moved to lower slots, some at each call of
    /// [`next_due`](Wheel::next_due), before their time comes.
    ///
    /// While timers are due at [`elapsed`](Wheel::elapsed) that have not expired yet, it is not later than the deadline of the first of
    /// them. (Until [`next_due`](Wheel::next_due) returns [`Due::Idle`], `elapsed` may lie before its `now`.) The slack of timers that
    /// are due within 16 ns may be ignored, and that of up to 64 others.
    pub fn next_wake(&self) -> Option<Nanos> {
        self.next_park().map(|park| self.until_crowd(park).wake)
    }

    /// No timer in the wheel is due before this; [`Nanos::NEVER`] if the wheel is empty, and [`Nanos::ZERO`] while a slot cascades
    /// or holes have to be skipped. It takes a few steps.
    #[inline]
    pub fn earliest(&self) -> Nanos {
        let waiting = self.earliest_waiting();
        self.head().map_or(waiting, |(when, _)| waiting.min(when))
    }

    /// The earliest deadline of all, exactly. It reads the timers of the slots that may hold it, where they are in order only as far as
    /// is needed, while [`next_wake`](Wheel::next_wake) takes a handful of steps.
    pub fn next_deadline(&self, store: &mut impl Store<K>) -> Option<Nanos> {
        self.first(|key, filed| Some(store.deadline(key, filed))).map(|(deadline, _)| deadline)
    }

    /// Calls `each` for every timer in the wheel, in no particular order: its key and its rank. O(n).
    pub fn for_each(&self, mut each: impl FnMut(K, Rank)) {
        self.tree.iter().for_each(|((_, rank), key)| each(*key, *rank));
        for id in self.open_slots().chain(self.occupied.iter()).chain(self.dealt()) {
            self.slots[id].timers().for_each(|(_, timer)| each(timer.key, timer.rank));
        }
    }

    /// Until when the caller may sleep for its timers' sake, and the two times between which that lies. `None` if the wheel is empty.
    pub(crate) fn next_park(&self) -> Option<Park> {
        if self.len == 0 {
            return None;
        }
        let due = self.earliest();
        if due <= self.elapsed {
            return Some(Park { due, wake: due, most: due });
        }
        // What is in the tree is due within nanoseconds, or there are few: their slack is not used.
        let first = self.tree.first_key_value().map_or(Nanos::NEVER, |((when, _), _)| *when);
        let mut most = self.open_slots().fold(first, |most, id| self.slots[id].wake_until(most));
        // An agenda sleeps while a crowd is being dealt.
        most = self.dealt().map_or(most, |id| most.min(self.slots[id].wake));
        let (mut last, mut before) = (None, None);
        for id in self.occupied.iter() {
            if id.start(self.elapsed) > most {
                if self.has_next_round() {
                    continue;
                }
                break;
            }
            most = most.min(self.slots[id].wake);
            (before, last) = (last, Some(id));
        }
        if most <= due {
            return Some(Park { due, wake: most, most });
        }
        let opened = self.open_slots().filter_map(|id| self.slots[id].last_opened_until(most));
        // All timers of the slot before the last one are due before the last one begins, so no other slot has to be asked.
        let mut waiting = [last, before].into_iter().flatten();
        let waiting = waiting.find_map(|id| self.slots[id].last_until(most));
        Some(Park { due, wake: opened.chain(waiting).fold(due, Nanos::max), most })
    }

    /// The timer that is due next, and its deadline. `deadline_of` is given a key and the deadline under which it is filed, and returns
    /// the true one, which is not earlier, or `None` if the timer does not count. It is the timer that
    /// [`next_due`](Wheel::next_due) returns next, once it is due, unless timers are inserted, removed or reset before. Changes
    /// nothing.
    pub(crate) fn first(&self, mut deadline_of: impl FnMut(K, Nanos) -> Option<Nanos>) -> Option<(Nanos, K)> {
        let mut best = First(None);
        // What is open is read when nothing that waits is due before it: otherwise all timers of an open slot that were moved to later
        // times would be read for each timer that is due before that slot.
        let mut opened = Some(self.head().map_or(Nanos::NEVER, |(when, _)| when));
        for slot in self.occupied.iter().map(|id| &self.slots[id]) {
            if opened.take_if(|when| *when <= slot.earliest).is_some() {
                self.look_at_opened(&mut best, &mut deadline_of);
            }
            if !best.may_precede(slot.earliest) {
                if self.has_next_round() {
                    continue;
                }
                break;
            }
            best.look_at(slot, &mut deadline_of);
        }
        if opened.is_some() {
            self.look_at_opened(&mut best, &mut deadline_of);
        }
        best.0.map(|((deadline, _), key)| (deadline, key))
    }

    /// Looks at the timers of the tree and of open slots, as far as one of them may be the first.
    fn look_at_opened(&self, best: &mut First<K>, deadline_of: &mut impl FnMut(K, Nanos) -> Option<Nanos>) {
        self.tree.iter().all(|(&(when, rank), &key)| best.look(Timer { when, rank, key }, deadline_of));
        for slot in self.open_slots().chain(self.dealt()).map(|id| &self.slots[id]) {
            if best.may_precede(slot.earliest) {
                best.look_at(slot, deadline_of);
            }
        }
    }

    /// When the earliest of the first timers of all open slots and the tree is due, and where it is. Zero, if holes have to be skipped
    /// before that is known, or if a slot cascades: it has no order.
    #[inline(always)]
    fn head(&self) -> Option<(Nanos, SlotId)> {
        if let Some(id) = self.cascading {
            return Some((Nanos::ZERO, id));
        }
        let is_one_at_most = self.open & self.open.wrapping_sub(1) == 0;
        if is_one_at_most && self.tree.is_empty() {
            let id = self.open_slots().next()?;
            return self.slots[id].head().map(|(when, _)| (when, id));
        }
        self.head_of_many()
    }

    #[inline(never)]
    fn head_of_many(&self) -> Option<(Nanos, SlotId)> {
        let first = self.tree.first_key_value().map(|(order, _)| (*order, SlotId::TREE));
        let heads = self.open_slots().filter_map(|id| Some((self.slots[id].head()?, id)));
        // (With `min_by_key` this takes nearly twice as many instructions.)
        let first = heads.fold(first, |first, head| first.filter(|first| first.0 < head.0).or(Some(head)));
        first.map(|((when, _), source)| (when, source))
    }

    /// Removes the head of `source`; `None` if it is a hole.
    #[inline]
    fn expire(&mut self, store: &mut impl Store<K>, source: SlotId) -> Option<Timer<K>> {
        let Some(slot) = self.slots.get_mut(source) else {
            return self.tree.pop_first().map(|((when, rank), key)| Timer { when, rank, key });
        };
        let block = slot.head as usize / BLOCK;
        let popped = slot.pop(store, &mut self.pool);
        if slot.head as usize / BLOCK != block {
            self.cascade_if_sparse(source);
        }
        self.close_if_empty(source);
        popped
    }

    /// Opens the earliest slot, whose time has come.
    fn open(&mut self, store: &mut impl Store<K>, id: SlotId, start: Nanos, now: Nanos, moves: &mut usize) {
        debug_assert!(self.open & (1 << id.level()) == 0, "a level has two open slots");
        let (has_next_round, was_dealt) = (self.has_next_round(), self.was_dealt(id));
        let dealt = self.dealt().filter(|_| was_dealt);
        let slot = &mut self.slots[id];
        // Nothing is due before the slot's `earliest`, so the wheel can advance to it at once. Then timers that cascade go to lower
        // levels, with fewer moves left.
        let earliest = if has_next_round { start } else { slot.earliest };
        self.elapsed = self.elapsed.max(earliest.min(now));
        self.latest_open = self.latest_open.max(slot.latest);
        if was_dealt && !slot.is_empty() {
            // Sorted, it would stay open until its last part is due, and each timer that fires before would be compared with it.
            slot.cascade();
        } else if slot.open(store, &mut self.pool) {
            *moves = moves.saturating_sub(slot.live() / SORTED);
        }
        self.cascading = dealt.or(slot.cascades().then_some(id));
        self.occupied.clear(id);
        self.open |= u64::from(!slot.is_empty()) << id.level();
        self.debug_check();
    }
}
