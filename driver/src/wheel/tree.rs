//! `Tree`: timers that came out of order, and are due within the 16 ns in which the wheel stands, or are few.
//!
//! Rule: a place in it holds the deadline and the low 31 bits of the sequence number, behind a bit that no index in a slot has. One search
//! finds the timer, or a few if there are timers with the same deadline whose numbers agree in those bits.

use std::collections::BTreeMap;

use super::{Place, Rank, Slack};
use crate::Nanos;

/// Timers by (deadline, sequence number).
pub(super) type Tree<K> = BTreeMap<(Nanos, Rank), K>;

/// Indices in a slot are less than this.
pub(super) const IN_TREE: u32 = 1 << 31;

/// The place of a timer in a tree.
pub(super) fn place(when: Nanos, rank: Rank) -> Place {
    Place { when, index: rank.sequence() as u32 | IN_TREE }
}

/// The rank of the timer of `key`, if it is at `place`.
pub(super) fn find<K: Copy + Eq>(tree: &Tree<K>, key: K, place: Place) -> Option<Rank> {
    let mut sequence = u64::from(place.index % IN_TREE);
    loop {
        let from = (place.when, Rank::new(sequence, Slack::ZERO));
        let (order, &found) = tree.range(from..).next().filter(|((when, _), _)| *when == place.when)?;
        if found == key {
            return Some(order.1);
        }
        // Go on at the next number with the same low bits. Until the wheel has counted to 2^31 there is none.
        let next = order.1.sequence() + 1;
        sequence = next + u64::from(place.index.wrapping_sub(next as u32) % IN_TREE);
        if sequence >> Rank::SEQUENCE_BITS != 0 {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_whose_numbers_agree_in_the_low_bits_are_told_apart() {
        let when = Nanos::new(7);
        let sequences = [5, 6, 5 + (1 << 31), 4 + (9 << 31), 5 + (9 << 31), u64::MAX >> 8];
        let mut tree = Tree::new();
        let ranks = sequences.map(|sequence| Rank::new(sequence, Slack::MAX));
        ranks.into_iter().enumerate().for_each(|(key, rank)| _ = tree.insert((when, rank), key));
        for key in [4, 0, 5, 2, 1, 3] {
            let at = place(when, ranks[key]);
            assert_eq!(find(&tree, key, at), Some(ranks[key]));
            tree.remove(&(when, ranks[key]));
            assert_eq!(find(&tree, key, at), None, "{key} is gone");
        }
        assert!(tree.is_empty());
    }
}
