//! The entries of a map: the items that lie in its agenda, the `Index` from the user's keys to them, and `Drain`, which
//! returns an agenda's items as if the end of time had come.
//!
//! Ground rules:
//!
//! * The user's key lies in the agenda, once, with its value; the index has only hashes. Entries with the same hash
//!   form a chain, from `heads` through [`Item::after`].
//! * The user's `Hash`, `Eq` and `Borrow` run before anything is changed, so that a panic in them breaks nothing.
//! * The table's memory follows the agenda's, which releases the memory of a burst as the map is polled.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};

use mainspring_driver::Nanos;
use mainspring_driver::agenda::{Agenda, Key};

/// The entries that were in a [`TimerMap`](super::TimerMap), in the order of the deadlines. Made by
/// [`TimerMap::drain`](super::TimerMap::drain).
pub struct Drain<K, V> {
    pub(super) agenda: Agenda<Item<K, V>>,
}

impl<K, V> Iterator for Drain<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        // There is nothing after the end of time.
        let item = self.agenda.pop_due(Nanos::NEVER)?.value;
        Some((item.key, item.value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.agenda.len(), Some(self.agenda.len()))
    }
}

impl<K, V> ExactSizeIterator for Drain<K, V> {}
impl<K, V> std::iter::FusedIterator for Drain<K, V> {}

impl<K, V> fmt::Debug for Drain<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").field("left", &self.agenda.len()).finish()
    }
}

/// The item that a map puts into its agenda.
pub(super) struct Item<K, V> {
    pub(super) key: K,
    pub(super) value: V,
    hash: u64,
    /// The next entry with the same hash.
    after: Option<Key>,
}

/// Returns a hash as it is: the hashes are random already, and keyed against attacks.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a hash is a u64");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[derive(Default)]
pub(super) struct Index {
    hasher: RandomState,
    heads: HashMap<u64, Key, BuildHasherDefault<AsItIs>>,
}

impl Index {
    pub(super) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The entry of `key`, which has this hash.
    pub(super) fn find<K, V, Q>(&self, agenda: &Agenda<Item<K, V>>, hash: u64, key: &Q) -> Option<Key>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let mut at = self.heads.get(&hash).copied();
        while let Some(entry) = at {
            let item = agenda.get(entry)?;
            if item.key.borrow() == key {
                return Some(entry);
            }
            at = item.after;
        }
        None
    }

    /// The item to put into the agenda. Call [`link`](Index::link) afterwards.
    pub(super) fn item<K, V>(&self, key: K, value: V, hash: u64) -> Item<K, V> {
        Item { key, value, hash, after: self.heads.get(&hash).copied() }
    }

    /// Links the item, which is in the agenda now.
    pub(super) fn link(&mut self, hash: u64, entry: Key) {
        self.heads.insert(hash, entry);
    }

    /// Unlinks the item, which was taken out of the agenda, where it was `entry`.
    pub(super) fn unlink<K, V>(&mut self, agenda: &mut Agenda<Item<K, V>>, entry: Key, item: &Item<K, V>) {
        let Some(&head) = self.heads.get(&item.hash) else { return };
        if head == entry {
            match item.after {
                Some(after) => self.heads.insert(item.hash, after),
                None => self.heads.remove(&item.hash),
            };
            return;
        }
        let mut at = Some(head);
        while let Some(before) = at.and_then(|at| agenda.get_mut(at)) {
            if before.after == Some(entry) {
                before.after = item.after;
                return;
            }
            at = before.after;
        }
    }

    /// Frees memory as the agenda did, which now has room for `capacity` entries.
    #[inline]
    pub(super) fn follow(&mut self, capacity: usize) {
        let capacity = capacity.max(256);
        if self.heads.capacity() > 4 * capacity {
            self.heads.shrink_to(capacity);
        }
    }
}
