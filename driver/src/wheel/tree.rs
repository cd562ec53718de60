//! `Tree`: timers that are due within the 16 ns in which the wheel stands, and came out of order.
//!
//! Rule: a place in it holds the deadline and the low half of the sequence number. One search finds the timer, or a few if there are
//! timers with the same deadline whose numbers agree in that half.

use std::collections::BTreeMap;

use super::row::Timer;
use super::{Place, Rank, Slack};
use crate::Nanos;

/// Timers by (deadline, sequence number).
#[derive(Debug)]
pub(super) struct Tree<K>(BTreeMap<(Nanos, Rank), K>);

impl<K: Copy + Eq> Tree<K> {
    pub(super) const fn new() -> Tree<K> {
        Tree(BTreeMap::new())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Inserts a timer, and returns its place.
    pub(super) fn insert(&mut self, timer: Timer<K>) -> Place {
        self.0.insert(timer.order(), timer.key);
        place(&timer)
    }

    /// The rank of the timer of `key`, if it is at `place`.
    pub(super) fn find(&self, key: K, place: Place) -> Option<Rank> {
        let mut sequence = u64::from(place.index);
        loop {
            let from = (place.when, Rank::new(sequence, Slack::ZERO));
            let (order, &found) = self.0.range(from..).next().filter(|((when, _), _)| *when == place.when)?;
            if found == key {
                return Some(order.1);
            }
            // Go on at the next number with the same low half. Until the wheel has counted to 2^32 there is none.
            let ahead = place.index.wrapping_sub(order.1.sequence() as u32).wrapping_sub(1);
            sequence = order.1.sequence() + 1 + u64::from(ahead);
            if sequence >> Rank::SEQUENCE_BITS != 0 {
                return None;
            }
        }
    }

    /// Removes the timer that is due at `when` and has this rank.
    pub(super) fn remove(&mut self, when: Nanos, rank: Rank) {
        self.0.remove(&(when, rank));
    }

    /// The first timer.
    pub(super) fn first(&self) -> Option<Timer<K>> {
        self.timers().next().map(|(timer, _)| timer)
    }

    /// Removes the first timer.
    pub(super) fn pop_first(&mut self) -> Option<Timer<K>> {
        self.0.pop_first().map(|((when, rank), key)| Timer { when, rank, key })
    }

    /// All timers and their places, in order.
    pub(super) fn timers(&self) -> impl Iterator<Item = (Timer<K>, Place)> {
        self.0.iter().map(|(&(when, rank), &key)| {
            let timer = Timer { when, rank, key };
            (timer, place(&timer))
        })
    }
}

fn place<K>(timer: &Timer<K>) -> Place {
    Place { when: timer.when, index: timer.rank.sequence() as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_whose_numbers_agree_in_the_low_half_are_told_apart() {
        let when = Nanos::new(7);
        let sequences = [5, 6, 5 + (1 << 32), 4 + (9 << 32), 5 + (9 << 32), u64::MAX >> 8];
        let mut tree = Tree::new();
        let timer = |key: usize| Timer { when, rank: Rank::new(sequences[key], Slack::MAX), key };
        let places: Vec<Place> = (0..sequences.len()).map(|key| tree.insert(timer(key))).collect();
        for key in [4, 0, 5, 2, 1, 3] {
            assert_eq!(tree.find(key, places[key]), Some(timer(key).rank));
            tree.remove(when, timer(key).rank);
            assert_eq!(tree.find(key, places[key]), None, "{key} is gone");
        }
        assert!(tree.is_empty());
    }
}
