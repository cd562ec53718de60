//! What the user of an agenda holds: the key of an entry, and an entry that has come out.
//
// Rule: a key finds its own entry, or nothing. Its number is never given twice in an agenda, and its tag is the agenda's.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;

use crate::Nanos;

/// Names an entry of an [`Agenda`](super::Agenda), and is never used for another one. Keys are ordered as their entries were inserted.
///
/// It is valid only in the agenda that returned it, and finds nothing in any other one.
///
/// ```
/// use mainspring_driver::{Agenda, Nanos};
/// use mainspring_driver::agenda::Key;
///
/// let mut agenda = Agenda::new();
/// let first: Key = agenda.insert("first", Nanos::new(10));
/// let second = agenda.insert("second", Nanos::new(10));
/// assert!(first < second);
/// assert_eq!(agenda.remove(first).map(|entry| entry.value), Some("first"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub(super) number: NonZeroU64,
    pub(super) index: u32,
    /// The agenda's.
    pub(super) tag: u32,
}

impl Key {
    /// The entry's number, from one on. Entries with equal deadlines are due in the order of their numbers.
    pub const fn number(self) -> u64 {
        self.number.get()
    }
}

/// Without the tag, which depends on how many agendas there were before: two runs do the same.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(#{})", self.number)
    }
}

/// A value that was put into an [`Agenda`](super::Agenda), with its key and its deadline.
///
/// ```
/// use mainspring_driver::{Agenda, Nanos};
///
/// let mut agenda = Agenda::new();
/// let key = agenda.insert("value", Nanos::new(10));
/// let entry = agenda.pop_due(Nanos::new(12)).unwrap();
/// assert_eq!((entry.key, entry.deadline, entry.value), (key, Nanos::new(10), "value"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry<T> {
    /// The key of the entry.
    pub key: Key,
    /// When it is due.
    pub deadline: Nanos,
    /// The value.
    pub value: T,
}

/// What [`Agenda::pop_due_within`](super::Agenda::pop_due_within) found.
///
/// ```
/// use mainspring_driver::agenda::Popped;
/// use mainspring_driver::{Agenda, Nanos};
///
/// let mut agenda = Agenda::new();
/// agenda.insert("value", Nanos::new(10));
/// let mut moves = 100;
/// let Popped::Entry(entry) = agenda.pop_due_within(Nanos::new(10), &mut moves) else { panic!("nothing is due") };
/// assert_eq!(entry.value, "value");
/// assert_eq!(agenda.pop_due_within(Nanos::new(10), &mut moves), Popped::Idle);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Popped<T> {
    /// This entry was due and has been removed.
    Entry(Entry<T>),
    /// The granted moves are used up, and there may be more entries that are due.
    Exhausted,
    /// No entry that is left is due.
    Idle,
}
