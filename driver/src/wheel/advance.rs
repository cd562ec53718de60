//! How the wheel moves on: slots are opened, cascade, and their timers expire (arrows 2 to 4 of [`Wheel`]). And what lies ahead
//! of it: until when one may sleep, which timer is next, and who waits at all.
//!
//! Rules:
//!
//! * A sleep never outlasts the earliest deadline plus slack, by the bounds of the slots, which are never too late.
//!   It may end early, when timers were cancelled or moved: that costs one look and no timer.
//! * What is exact, [`Wheel::next_deadline`], walks a slot for it, and changes nothing.

use super::level::SlotId;
use super::row::Timer;
use super::{Rank, Store, Wheel};
use crate::Nanos;

/// To sort so many cells costs one move.
const SORTED: usize = 32;
/// A move to the crowd, a tree, costs so many more.
const CROWDED: usize = 2;

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
    /// There may be more, but the moves that were granted are used up.
    Exhausted,
    /// Nothing further is due.
    Idle,
}

/// How long a park may last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Park {
    /// The earliest deadline that is filed.
    pub(crate) due: Nanos,
    /// See [`Wheel::next_wake`].
    pub(crate) wake: Nanos,
    /// The earliest deadline-plus-slack.
    pub(crate) most: Nanos,
}

impl<K: Copy + Eq, const SHORT: usize> Wheel<K, SHORT> {
    /// Takes out the next timer that is due at `now`, by (deadline, sequence number); moves the wheel on to `now`.
    ///
    /// Call it again, with the same `now`, until it is [`Due::Idle`]. Each cell that has to be moved costs one of `moves`, or
    /// three if it comes out of the order of many with its deadline, and so does every 32nd that has to be sorted. When none
    /// are left it stops with [`Due::Exhausted`], and goes on from there at the next call, so it needs at least one. A `now`
    /// before [`elapsed`](Wheel::elapsed) changes nothing; one that is only before that of the last call takes out what is due
    /// by it.
    pub fn next_due(&mut self, store: &mut impl Store<K>, now: Nanos, moves: &mut usize) -> Due<K> {
        if now < self.elapsed {
            return Due::Idle;
        }
        while *moves > 0 {
            let head = self.head();
            if let Some((when, source)) = head.filter(|&(when, _)| when <= now.min(self.clear_until)) {
                let Some(timer) = self.expire(store, source) else {
                    // Many holes: to pass over them is work, too.
                    *moves -= 1;
                    continue;
                };
                let deadline = store.deadline(timer.key, timer.when);
                // None of those that cascade is due at zero, which is their `when`.
                if deadline == when {
                    self.len -= 1;
                    self.debug_check();
                    return Due::Fire { key: timer.key, deadline, rank: timer.rank };
                }
                let crowd = self.crowd.len();
                self.file(store, Timer { when: deadline, ..timer });
                self.moved += 1;
                *moves = moves.saturating_sub(1 + CROWDED * (self.crowd.len() - crowd));
                self.debug_check();
                continue;
            }
            let earliest = self.occupied.earliest();
            let start = earliest.map_or(Nanos::NEVER, |id| id.start(self.elapsed));
            match earliest {
                Some(id) if start <= now && head.is_none_or(|(when, _)| start <= when) => {
                    self.open(store, id, now, moves);
                }
                _ => {
                    self.clear_until = Nanos::new(start.get() - u64::from(earliest.is_some()));
                    if head.is_none_or(|(when, _)| when > now) {
                        self.elapsed = now;
                        self.pool.release_some(now);
                        self.debug_check();
                        return Due::Idle;
                    }
                }
            }
        }
        Due::Exhausted
    }

    /// Takes out any timer, in no particular order, with its cached deadline: for emptying a wheel that is no longer needed.
    pub fn take_any(&mut self, store: &mut impl Store<K>) -> Option<(K, Nanos)> {
        while let Some((_, source)) = self.head() {
            if let Some(taken) = self.expire(store, source) {
                self.len -= 1;
                return Some((taken.key, taken.when));
            }
        }
        let id = self.occupied.earliest()?;
        let slot = &mut self.slots[id.index()];
        let taken = slot.pop_last(&mut self.pool)?;
        self.len -= 1;
        if slot.is_untidy() {
            self.tidy(store, id);
        }
        Some((taken.key, taken.when))
    }

    /// Until when one may sleep: the last deadline that is not later than the earliest deadline-plus-slack, because
    /// to sleep on from there would gather nobody else. So a timer with nobody near is woken at its deadline,
    /// whatever its slack. `None` if the wheel is empty.
    ///
    /// While nothing is due it is never later than that earliest deadline-plus-slack. It may be later than the last deadline before that,
    /// where a crowded slot reaches beyond; and earlier than any, after timers were cancelled or moved.
    ///
    /// While timers are due that have not left yet, it is not later than the deadline of the first of them.
    pub fn next_wake(&self) -> Option<Nanos> {
        self.next_park().map(|park| park.wake)
    }

    /// No timer in the wheel is due before this; [`Nanos::NEVER`] if it is empty. A few steps. While a slot cascades it is
    /// [`Nanos::ZERO`].
    #[inline]
    pub fn earliest(&self) -> Nanos {
        // Slots come in the order of time and do not overlap, so the first has the earliest deadline.
        let slot = self.occupied.earliest().map_or(Nanos::NEVER, |id| self.slots[id.index()].earliest);
        self.head().map_or(slot, |(when, _)| slot.min(when))
    }

    /// The earliest deadline of all, exactly. Looks at every cell of the slots that may hold it, where
    /// [`next_wake`](Wheel::next_wake) is a handful of steps.
    pub fn next_deadline(&self, store: &mut impl Store<K>) -> Option<Nanos> {
        self.first(|key, filed| Some(store.deadline(key, filed))).map(|(deadline, _)| deadline)
    }

    /// Calls `each` for every timer in the wheel, in no particular order: its key and its rank. O(n).
    pub fn for_each(&self, mut each: impl FnMut(K, Rank)) {
        self.crowd.timers().for_each(|(timer, _)| each(timer.key, timer.rank));
        for id in self.open_slots().chain(self.occupied.iter()) {
            self.slots[id.index()].timers().for_each(|(_, timer)| each(timer.key, timer.rank));
        }
    }

    /// [`next_wake`](Wheel::next_wake), and between what it lies. `None` if the wheel is empty.
    pub(crate) fn next_park(&self) -> Option<Park> {
        if self.len == 0 {
            return None;
        }
        let due = self.earliest();
        if due <= self.elapsed {
            return Some(Park { due, wake: due, most: due });
        }
        // The crowd is due within nanoseconds.
        let crowd = self.crowd.first().map_or(Nanos::NEVER, |timer| timer.when);
        let mut most = self.open_slots().fold(crowd, |most, id| self.slots[id.index()].wake_until(most));
        for slot in self.slots_until(most).map(|id| &self.slots[id.index()]) {
            most = most.min(slot.wake);
        }
        if most <= due {
            return Some(Park { due, wake: most, most });
        }
        let opened = self.open_slots().filter_map(|id| self.slots[id.index()].last_opened_until(most));
        let mut last = opened.fold(due, Nanos::max);
        for slot in self.slots_until(most).map(|id| &self.slots[id.index()]) {
            if slot.earliest <= most && last < most {
                last = last.max(slot.last_until(most));
            }
        }
        Some(Park { due, wake: last, most })
    }

    /// The timer that is due next and its deadline, if `deadline_of` tells the true deadlines of keys, at or after those under which
    /// they are filed, and `None` for those that do not count. It is the one that [`next_due`](Wheel::next_due) gives next, once it
    /// is due, if nothing is put in, taken out or moved before. Changes nothing. Looks at every cell of the slots that may hold it.
    pub(crate) fn first(&self, mut deadline_of: impl FnMut(K, Nanos) -> Option<Nanos>) -> Option<(Nanos, K)> {
        type Best<K> = Option<((Nanos, Rank), K)>;
        let is_ahead = |best: &Best<K>, when| best.is_none_or(|((found, _), _)| when <= found);
        // Says whether one that is filed later may still be the first.
        let mut look = |best: &mut Best<K>, timer: Timer<K>| {
            if !is_ahead(best, timer.when) {
                return false;
            }
            if let Some(deadline) = deadline_of(timer.key, timer.when) {
                let order = (deadline, timer.rank);
                *best = best.filter(|(first, _)| *first < order).or(Some((order, timer.key)));
            }
            true
        };
        let mut best = None;
        self.crowd.timers().all(|(timer, _)| look(&mut best, timer));
        for id in self.open_slots() {
            let is_cascading = self.cascading == Some(id);
            self.slots[id.index()].timers().all(|(_, timer)| look(&mut best, timer) || is_cascading);
        }
        for slot in self.occupied.iter().map(|id| &self.slots[id.index()]) {
            if !is_ahead(&best, slot.earliest) {
                break;
            }
            slot.timers().for_each(|(_, timer)| _ = look(&mut best, timer));
        }
        best.map(|((deadline, _), key)| (deadline, key))
    }

    /// The earliest of all that are in order, and in which slot it is. If it is a hole, none is due before that. What cascades is not
    /// in order, and comes first.
    #[inline]
    fn head(&self) -> Option<(Nanos, SlotId)> {
        if let Some(id) = self.cascading {
            return Some((Nanos::ZERO, id));
        }
        let is_one_at_most = self.open & self.open.wrapping_sub(1) == 0;
        if is_one_at_most && self.crowd.is_empty() {
            let id = self.open_slots().next()?;
            return self.slots[id.index()].head().map(|cell| (cell.when, id));
        }
        self.head_of_many()
    }

    #[inline(never)]
    fn head_of_many(&self) -> Option<(Nanos, SlotId)> {
        let crowd = self.crowd.first().map(|timer| (timer.order(), SlotId::CROWD));
        let heads = self.open_slots().filter_map(|id| {
            let head = self.slots[id.index()].head();
            head.map(|cell| (cell.order(), id))
        });
        heads.chain(crowd).min_by_key(|&(order, _)| order).map(|((when, _), source)| (when, source))
    }

    /// Takes out the head of `source`; `None` if it is a hole.
    #[inline]
    fn expire(&mut self, store: &mut impl Store<K>, source: SlotId) -> Option<Timer<K>> {
        let Some(slot) = self.slots.get_mut(source.index()) else { return self.crowd.pop_first() };
        let popped = slot.pop(store, &mut self.pool);
        self.close_if_empty(source);
        popped
    }

    /// Opens the earliest slot, whose time has come.
    fn open(&mut self, store: &mut impl Store<K>, id: SlotId, now: Nanos, moves: &mut usize) {
        debug_assert!(self.open & (1 << id.level()) == 0, "a level has two open slots");
        let slot = &mut self.slots[id.index()];
        // Nothing is due before the earliest of the slot, so the wheel may stand there already: those that have to cascade
        // come the nearer to their end.
        self.elapsed = self.elapsed.max(slot.earliest.min(now));
        self.reach = self.reach.max(slot.latest);
        if slot.open(store, &mut self.pool) {
            *moves = moves.saturating_sub(slot.live() / SORTED);
        }
        self.cascading = (!slot.ordered).then_some(id);
        self.occupied.clear(id);
        self.open |= 1 << id.level();
        self.debug_check();
    }

    /// The occupied slots that start by `most`.
    fn slots_until(&self, most: Nanos) -> impl Iterator<Item = SlotId> {
        self.occupied.iter().take_while(move |id| id.start(self.elapsed) <= most)
    }
}
