//! `Drain`: what was in a map, as an iterator. It is the map's agenda, at the end of time.

use std::fmt;

use mainspring_driver::Nanos;
use mainspring_driver::agenda::Agenda;

use super::index::Item;

/// What was in a [`TimerMap`](super::TimerMap), in the order of the deadlines. Made by
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
