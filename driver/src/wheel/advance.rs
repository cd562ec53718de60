//! How the wheel moves on: slots are opened, cascade, and their timers expire (arrows 2 to 4 of [`Wheel`]).

use super::cells::Timer;
use super::level::{SlotId, bits};
use super::run::Run;
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

/// Which of those that are in order has the earliest timer.
#[derive(Clone, Copy)]
pub(super) enum Source {
    Run(usize),
    Crowd,
}

impl<K: Copy + Eq, const PAGE: usize> Wheel<K, PAGE> {
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
        loop {
            if *moves == 0 {
                return Due::Exhausted;
            }
            if self.cascading.is_some() {
                self.cascade(store, moves);
                continue;
            }
            let head = self.head();
            if let Some((when, source)) = head.filter(|&(when, _)| when <= now.min(self.clear_until)) {
                let Some(timer) = self.expire(store, source) else {
                    // Many holes: to pass over them is work, too.
                    *moves -= 1;
                    continue;
                };
                debug_assert_eq!(timer.when, when);
                let deadline = store.deadline(timer.key, when);
                if deadline == when {
                    self.len -= 1;
                    self.debug_check();
                    return Due::Fire { key: timer.key, deadline, rank: timer.rank };
                }
                self.moved += 1;
                *moves -= 1;
                self.file(store, Timer { when: deadline, ..timer });
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
                        self.buffers.release_some(now);
                        self.debug_check();
                        return Due::Idle;
                    }
                }
            }
        }
    }

    /// Takes out any timer, in no particular order, with its cached deadline: for emptying a wheel that is no longer needed.
    pub fn take_any(&mut self, store: &mut impl Store<K>) -> Option<(K, Nanos)> {
        let taken = loop {
            if let Some(timer) = self.crowd.pop_first() {
                break timer;
            }
            let popped = if let Some((_, run)) = &mut self.cascading {
                let popped = run.pop(store, &mut self.buffers);
                if run.is_empty() {
                    self.cascading = None;
                }
                popped
            } else if let Some(level) = bits(self.running).next() {
                self.expire(store, Source::Run(level))
            } else {
                let id = self.occupied.earliest()?;
                let slot = &mut self.slots[id.index()];
                let popped = slot.pop(&mut self.buffers);
                if slot.is_empty() {
                    self.occupied.clear(id);
                }
                popped
            };
            if let Some(taken) = popped {
                break taken;
            }
        };
        self.len -= 1;
        Some((taken.key, taken.when))
    }

    /// The earliest of all that are in order, and where it is. If it is a hole, none is due before that.
    #[inline]
    pub(super) fn head(&self) -> Option<(Nanos, Source)> {
        if self.running.is_power_of_two() && self.crowd.is_empty() {
            let level = self.running.trailing_zeros() as usize;
            return self.runs[level].head().map(|cell| (cell.when, Source::Run(level)));
        }
        self.head_of_many()
    }

    #[inline(never)]
    fn head_of_many(&self) -> Option<(Nanos, Source)> {
        let crowd = self.crowd.first().map(|timer| (timer.order(), Source::Crowd));
        let heads = bits(self.running)
            .filter_map(|level| self.runs[level].head().map(|cell| (cell.order(), Source::Run(level))));
        heads.chain(crowd).min_by_key(|&(order, _)| order).map(|((when, _), source)| (when, source))
    }

    /// The head of `source`; `None` if it is a hole.
    pub(super) fn peek(&self, source: Source) -> Option<Timer<K>> {
        match source {
            Source::Run(level) => self.runs[level].head()?.timer(),
            Source::Crowd => self.crowd.first(),
        }
    }

    /// Takes out the head of `source`; `None` if it is a hole.
    #[inline]
    pub(super) fn expire(&mut self, store: &mut impl Store<K>, source: Source) -> Option<Timer<K>> {
        match source {
            Source::Run(level) => {
                let run = &mut self.runs[level];
                let popped = run.pop(store, &mut self.buffers);
                self.running &= !(u64::from(run.is_empty()) << level);
                popped
            }
            Source::Crowd => self.crowd.pop_first(),
        }
    }

    /// Opens the earliest slot, whose time has come.
    fn open(&mut self, store: &mut impl Store<K>, id: SlotId, now: Nanos, moves: &mut usize) {
        let slot = self.slots[id.index()].take();
        self.occupied.clear(id);
        // Nothing is due before the earliest of the slot, so the wheel may stand there already: those that have to cascade
        // come the nearer to their end.
        self.elapsed = self.elapsed.max(slot.earliest().min(now));
        let level = id.level();
        let in_order = if slot.is_ordered() {
            Run::of(store, slot)
        } else if slot.is_one_page() {
            *moves = moves.saturating_sub(slot.live() / SORTED);
            Run::sort(store, slot)
        } else {
            self.cascading = Some((id, Run::of(store, slot)));
            return self.debug_check();
        };
        debug_assert!(self.runs[level].is_empty(), "a level has two runs");
        self.runs[level] = in_order;
        self.running |= 1 << level;
        self.debug_check();
    }

    /// Moves the timers of a slot to lower ones, while there are `moves`.
    pub(super) fn cascade(&mut self, store: &mut impl Store<K>, moves: &mut usize) {
        while let Some((_, run)) = self.cascading.as_mut().filter(|_| *moves > 0) {
            *moves -= 1;
            if let Some(timer) = run.pop(store, &mut self.buffers) {
                if run.is_empty() {
                    self.cascading = None;
                }
                let (when, crowd) = (store.deadline(timer.key, timer.when), self.crowd.len());
                self.file(store, Timer { when, ..timer });
                self.moved += 1;
                if self.crowd.len() > crowd {
                    *moves = moves.saturating_sub(CROWDED);
                }
            }
        }
        self.debug_check();
    }
}
