//! `Crowd`: timers whose time is now and that came out of order, in a tree.
//!
//! Rule: a timer's place has the number under which its rank is kept, because the tree is searched by (deadline, rank), and
//! its owner knows the deadline alone.

use std::collections::BTreeMap;

use super::cells::Timer;
use super::{Place, Rank};
use crate::Nanos;

/// Timers by (deadline, sequence number).
#[derive(Debug)]
pub(super) struct Crowd<K> {
    timers: BTreeMap<(Nanos, Rank), (K, u32)>,
    ranks: Vec<Rank>,
    /// Numbers that are not in use.
    free: Vec<u32>,
}

impl<K: Copy + Eq> Crowd<K> {
    pub(super) const fn new() -> Crowd<K> {
        Crowd { timers: BTreeMap::new(), ranks: Vec::new(), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.timers.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    /// Puts a timer in. Returns its place.
    pub(super) fn insert(&mut self, Timer { when, rank, key }: Timer<K>) -> Place {
        let index = self.free.pop().unwrap_or(self.ranks.len() as u32);
        match self.ranks.get_mut(index as usize) {
            Some(kept) => *kept = rank,
            None => self.ranks.push(rank),
        }
        self.timers.insert((when, rank), (key, index));
        Place { when, index }
    }

    /// Removes the timer of `key`, if it is at `place`. Returns its rank.
    pub(super) fn remove(&mut self, key: K, place: Place) -> Option<Rank> {
        let rank = *self.ranks.get(place.index as usize)?;
        let found = self.timers.get(&(place.when, rank)) == Some(&(key, place.index));
        found.then(|| self.timers.remove(&(place.when, rank)))?;
        self.is_free(place.index);
        Some(rank)
    }

    /// The first timer.
    pub(super) fn first(&self) -> Option<Timer<K>> {
        self.timers().next().map(|(timer, _)| timer)
    }

    /// Takes the first timer out.
    pub(super) fn pop_first(&mut self) -> Option<Timer<K>> {
        let ((when, rank), (key, index)) = self.timers.pop_first()?;
        self.is_free(index);
        Some(Timer { when, rank, key })
    }

    /// All timers and their places, in order.
    pub(super) fn timers(&self) -> impl Iterator<Item = (Timer<K>, Place)> {
        self.timers
            .iter()
            .map(|(&(when, rank), &(key, index))| (Timer { when, rank, key }, Place { when, index }))
    }

    /// Bytes that it has allocated, but for the tree's.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.ranks.capacity() * size_of::<Rank>() + self.free.capacity() * size_of::<u32>()
    }

    fn is_free(&mut self, index: u32) {
        self.free.push(index);
        if self.timers.is_empty() {
            // A crowd is rare: its memory goes with it.
            (self.ranks, self.free) = (Vec::new(), Vec::new());
        }
    }
}
