//! `Agenda`: values with the time at which each is due, under keys. A pure, safe data structure.
//!
//! It is the wheel together with an owner for the values. A runtime's keyed timers are built on it, and it can be used
//! without a runtime. It has no clock, no lock and no waker; its user tells it what time it is.
//
// Ground rules:
//
// * A key is the index of an entry and the entry's number. Numbers are given in the order of insertion and
//   never twice, so a key that has outlived its entry finds nothing, whatever lies at the index now. A key also has its
//   agenda's tag, so one of another agenda finds nothing either.
// * The entry has the true deadline. An entry that moved to a later time stays where the wheel has filed it; the
//   wheel asks for its deadline when it gets there ([`Store::deadline`]). An entry that moved to an earlier time is filed anew.
// * The wheel holds a cell for each entry. The cell has the entry's slack, as a timer's cell does.
// * The cell of a removed entry stays a little longer, as a dropped timer's does: cells lie anywhere in memory, and
//   several are removed in the time of one. Until then the entry is `leaving`. `Agenda::parts` removes such cells; between two
//   calls of it, removing them is all that happens to the wheel.
// * The user's code runs only when a value is dropped, and only after the agenda is in order again.

mod entry;
mod pages;

pub use entry::{Entry, Key, Popped};

use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pages::Pages;

use crate::Nanos;
use crate::slack::{Slack, SlackPolicy, Tolerance};
use crate::wheel::{Due, Place, Rank, Store, Wheel};

/// The number of entries that leave the wheel together.
const TOGETHER: usize = 16;

/// Values with the time at which each is due.
///
/// Inserting, removing and resetting an entry are O(1), whatever the time. Due entries come out by (deadline, order of
/// insertion), never before their deadline. A reset keeps an entry's order among entries with equal deadlines. An entry that is
/// inserted for, or moved to, a time that has passed may come out after others that were due by then, but before
/// any entry that comes due later.
///
/// While it has entries, it takes about 10 kB beside them if all are due in about the same time, and 6 kB more for each factor of 64
/// between the nearest and the farthest: about 60 at most. Nothing is allocated before the first insertion, and nothing while entries come
/// and go in similar numbers, except those 6 kB when they are first needed, and where entries that are due within the same 16 ns, or
/// overdue, are inserted in another order. Memory that was not needed for a second or two is released in small steps, a few
/// pages of sixty-four entries whenever [`pop_due`](Agenda::pop_due) finds nothing that is due, and is allocated again when it is
/// needed. A value that is taken out is gone at once.
///
/// ```
/// use mainspring_driver::{Agenda, Nanos};
///
/// let mut agenda = Agenda::new();
/// let tea = agenda.insert("tea", Nanos::new(300));
/// let call = agenda.insert("call", Nanos::new(100));
/// agenda.insert("letter", Nanos::new(200));
/// assert_eq!(agenda.peek(), Some(call));
///
/// assert!(agenda.reset(call, Nanos::new(400)));
/// assert_eq!(agenda.remove(tea).unwrap().value, "tea");
/// assert!(agenda.remove(tea).is_none());
///
/// // The loop of a program that embeds it: sleep until the next deadline, then take what is due.
/// let mut now = Nanos::ZERO;
/// let mut seen = vec![];
/// while let Some(next) = agenda.next_deadline() {
///     now = now.max(next);
///     while let Some(entry) = agenda.pop_due(now) {
///         seen.push((entry.deadline.get(), entry.value));
///     }
/// }
/// assert_eq!(seen, [(200, "letter"), (400, "call")]);
/// ```
pub struct Agenda<T> {
    entries: Pages<Slot<T>>,
    /// Made at the first insertion.
    wheel: Option<Wheel<u32>>,
    /// Removed entries with cells that are still in the wheel.
    leaving: Vec<(u32, Place)>,
    /// The latest time that the agenda was told.
    latest: Nanos,
    next_number: NonZeroU64,
    /// Distinguishes its keys from those of other agendas.
    tag: u32,
    slack: SlackPolicy,
    /// The slack of each entry, if it does not follow from the tolerance.
    fixed: Option<Slack>,
    /// The earliest entry, as it was found last, and its deadline. No entry is due before that. It is still the earliest as long as it
    /// is there and has that deadline.
    first: Option<(Key, Nanos)>,
}

#[derive(Debug)]
struct Slot<T> {
    /// Not zero, so that an `Option` of a slot takes no more memory.
    number: NonZeroU64,
    /// The true deadline: not earlier than the cached one.
    deadline: Nanos,
    place: Place,
    value: T,
}

/// The entries, as the wheel sees them.
struct Owners<'a, T>(&'a mut Pages<Slot<T>>);

impl<T> Store<u32> for Owners<'_, T> {
    #[inline]
    fn set_place(&mut self, index: u32, place: Place) {
        if let Some(slot) = self.0.get_mut(index) {
            slot.place = place;
        }
    }

    #[inline]
    fn place(&self, index: u32) -> Place {
        self.0.get(index).map_or(Place::NOWHERE, |slot| slot.place)
    }

    #[inline]
    fn deadline(&mut self, index: u32, filed: Nanos) -> Nanos {
        self.0.get(index).map_or(filed, |slot| slot.deadline)
    }

    #[inline]
    fn prefetch(&mut self, index: u32) {
        self.0.prefetch(index);
    }
}

impl<T> Default for Agenda<T> {
    fn default() -> Agenda<T> {
        Agenda::new()
    }
}

impl<T> Agenda<T> {
    /// Returns an empty agenda. Allocates nothing.
    pub fn new() -> Agenda<T> {
        static TAGS: AtomicU32 = AtomicU32::new(0);
        let slack = SlackPolicy::new(Nanos::ZERO, Tolerance::Precise);
        Agenda {
            entries: Pages::new(),
            wheel: None,
            leaving: Vec::new(),
            latest: Nanos::ZERO,
            next_number: NonZeroU64::MIN,
            // Relaxed: the number stands for itself.
            tag: TAGS.fetch_add(1, Ordering::Relaxed),
            slack,
            fixed: None,
            first: None,
        }
    }

    /// Returns an empty agenda with room for `capacity` entries, which it keeps.
    ///
    /// # Panics
    ///
    /// As [`reserve`](Agenda::reserve).
    #[track_caller]
    pub fn with_capacity(capacity: usize) -> Agenda<T> {
        let mut agenda = Agenda::new();
        agenda.reserve(capacity);
        agenda
    }

    /// Sets how far [`next_wake`](Agenda::next_wake) may lie after the deadline of an entry, so that several come out together.
    /// The time to the deadline counts from the latest time that the agenda was told, and the load is that of its own entries.
    /// Applies to entries that are inserted, or moved to an earlier time, from now on. The default is [`Tolerance::Precise`].
    ///
    /// # Panics
    ///
    /// If a fixed ratio does not lie between 0 and 1.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring_driver::{Agenda, Nanos, Tolerance};
    ///
    /// let mut agenda = Agenda::new();
    /// agenda.set_tolerance(Tolerance::Fixed { ratio: 0.5, max: Duration::from_nanos(64) });
    /// agenda.note(Nanos::new(1_000));
    /// agenda.insert("a", Nanos::new(1_128));
    /// agenda.insert("b", Nanos::new(1_160));
    /// agenda.insert("c", Nanos::new(2_000));
    /// assert_eq!((agenda.earliest(), agenda.next_wake()), (Some(Nanos::new(1_128)), Some(Nanos::new(1_160))));
    /// assert_eq!(agenda.next_park(), Some((Nanos::new(1_160), Duration::from_nanos(32))));
    /// ```
    #[track_caller]
    pub fn set_tolerance(&mut self, tolerance: Tolerance) {
        self.slack.set(tolerance);
        self.fixed = None;
    }

    /// Lets [`next_wake`](Agenda::next_wake) lie up to `most` after the deadline of an entry, however near that deadline is.
    /// Replaces the [tolerance](Agenda::set_tolerance), and applies to the same entries.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring_driver::{Agenda, Nanos};
    ///
    /// let mut agenda = Agenda::new();
    /// agenda.set_slack(Duration::from_millis(5));
    /// agenda.insert("a", Nanos::new(1_000_000));
    /// agenda.insert("b", Nanos::new(5_000_000));
    /// assert_eq!(agenda.next_wake(), Some(Nanos::new(5_000_000)));
    /// ```
    pub fn set_slack(&mut self, most: Duration) {
        self.fixed = Some(Slack::at_most(most));
    }

    /// Tells the agenda what time it is. A time before the latest that it was told changes nothing.
    #[inline]
    pub fn note(&mut self, now: Nanos) {
        self.latest = self.latest.max(now);
    }

    /// How many entries there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inserts `value`, due at `deadline`: at once if that is past, and never if it is [`Nanos::NEVER`]. (`pop_due` takes all
    /// entries out, these too, if it is given `NEVER`.)
    pub fn insert(&mut self, value: T, deadline: Nanos) -> Key {
        let number = self.next_number;
        self.next_number = number.saturating_add(1);
        let slot = Slot { number, deadline, place: Place::NOWHERE, value };
        let index = self.entries.insert(slot);
        let rank = Rank::new(number.get(), self.slack.give(self.fixed, self.latest, deadline));
        self.wheel.get_or_insert_with(|| Wheel::new(self.latest).allocate_by_level());
        let (wheel, mut owners) = self.parts().expect("made above");
        wheel.insert(&mut owners, index, deadline, rank);
        let key = Key { number, index, tag: self.tag };
        self.note_first(key, deadline);
        key
    }

    /// Removes and returns an entry; `None` if it is not there any more.
    pub fn remove(&mut self, key: Key) -> Option<Entry<T>> {
        let place = self.slot(key)?.place;
        self.leaving.push((key.index, place));
        if self.leaving.len() == TOGETHER {
            self.remove_leaving();
        }
        self.take(key.index)
    }

    /// Moves an entry to another time. Returns whether the entry was there. A move to a later time takes a few
    /// instructions and does not touch the wheel.
    pub fn reset(&mut self, key: Key, deadline: Nanos) -> bool {
        let Some(slot) = self.slot_mut(key) else { return false };
        let earlier = deadline < slot.deadline;
        slot.deadline = deadline;
        if earlier {
            let slack = self.slack.give(self.fixed, self.latest, deadline);
            let (wheel, mut owners) = self.parts().expect("an entry has a wheel");
            let found = wheel.refile(&mut owners, key.index, deadline, slack);
            assert!(found, "the wheel does not find an entry");
            self.note_first(key, deadline);
        }
        true
    }

    /// Returns an entry's value.
    pub fn get(&self, key: Key) -> Option<&T> {
        self.slot(key).map(|slot| &slot.value)
    }

    /// Returns an entry's value.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.slot_mut(key).map(|slot| &mut slot.value)
    }

    /// Returns when an entry is due.
    pub fn deadline(&self, key: Key) -> Option<Nanos> {
        self.slot(key).map(|slot| slot.deadline)
    }

    /// Returns the entry that is due next. It searches the wheel's first slots, which takes longer the more entries
    /// are due at about the same time, in another order than that in which they were inserted, or have been moved to later times.
    pub fn peek(&self) -> Option<Key> {
        // A cell without an entry is that of one that is leaving.
        let deadline_of = |index, _| self.entries.get(index).map(|slot| slot.deadline);
        let (_, index) = self.wheel.as_ref()?.first(deadline_of)?;
        self.entries.get(index).map(|slot| Key { number: slot.number, index, tag: self.tag })
    }

    /// Returns a time before which no entry comes due: the earliest deadline, or less after entries were moved or removed; zero,
    /// if [`pop_due`](Agenda::pop_due) first has to move or skip what is left of them. While entries are due already, it is some time
    /// that has passed. A few steps. `None` if there is no entry.
    pub fn earliest(&mut self) -> Option<Nanos> {
        let (wheel, _) = self.parts()?;
        (!wheel.is_empty()).then(|| wheel.earliest())
    }

    /// Returns until when the caller may sleep: until [`earliest`](Agenda::earliest), or later, as far as the
    /// [tolerance](Agenda::set_tolerance) of all entries that come due until then allows, if another entry is gained
    /// by that. While an entry is due that was not taken yet, it has passed. It takes a few steps. `None` if there is no entry.
    pub fn next_wake(&mut self) -> Option<Nanos> {
        self.next_park().map(|(wake, _)| wake)
    }

    /// Returns [`next_wake`](Agenda::next_wake), and how much longer the caller may sleep if the sleep can then end
    /// together with another wake-up.
    pub fn next_park(&mut self) -> Option<(Nanos, Duration)> {
        let latest = self.latest;
        let park = self.parts()?.0.next_park()?;
        if park.due <= latest {
            return Some((park.due, Duration::ZERO));
        }
        Some((park.wake, park.most.saturating_duration_since(park.wake)))
    }

    /// Returns the earliest deadline, exactly. It takes longer than [`earliest`](Agenda::earliest) after the earliest entry
    /// was moved or removed, or came out.
    pub fn next_deadline(&mut self) -> Option<Nanos> {
        let is_there = |(key, deadline): &(Key, Nanos)| self.deadline(*key) == Some(*deadline);
        if let Some((_, deadline)) = self.first.filter(is_there) {
            return Some(deadline);
        }
        let key = self.peek()?;
        let deadline = self.deadline(key)?;
        self.first = Some((key, deadline));
        Some(deadline)
    }

    /// Notes an entry that is new, or was moved to an earlier time, if none is due before it.
    #[inline]
    fn note_first(&mut self, key: Key, deadline: Nanos) {
        if self.first.is_some_and(|(_, first)| deadline <= first) {
            self.first = Some((key, deadline));
        }
    }

    /// Removes and returns the next entry that is due at `now`. Time does not go back: a `now` before the latest time that this
    /// agenda was told counts as that latest time, even if entries that were due by it were left, or all were removed since.
    ///
    /// The first call after a long time may move many entries within the wheel;
    /// [`pop_due_within`](Agenda::pop_due_within) does it in slices.
    pub fn pop_due(&mut self, now: Nanos) -> Option<Entry<T>> {
        let mut unlimited = usize::MAX;
        match self.pop_due_within(now, &mut unlimited) {
            Popped::Entry(entry) => Some(entry),
            Popped::Exhausted | Popped::Idle => None,
        }
    }

    /// Like [`pop_due`](Agenda::pop_due), but each entry that has to be moved within the wheel costs one of
    /// `moves`. When no moves are left, no entry is removed, and the next call with some goes on from there.
    pub fn pop_due_within(&mut self, now: Nanos, moves: &mut usize) -> Popped<T> {
        self.note(now);
        let now = self.latest;
        let Some((wheel, mut owners)) = self.parts() else { return Popped::Idle };
        let index = match wheel.next_due(&mut owners, now, moves) {
            Due::Fire { key: index, .. } => index,
            Due::Exhausted => return Popped::Exhausted,
            Due::Idle => {
                self.entries.release_some(now);
                return Popped::Idle;
            }
        };
        let entry = self.take(index);
        self.slack.count(now, 1, self.len());
        entry.map_or(Popped::Idle, Popped::Entry)
    }

    /// Returns all entries with their keys and deadlines, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Key, Nanos, &T)> {
        self.entries.iter().map(|(index, slot)| {
            (Key { number: slot.number, index, tag: self.tag }, slot.deadline, &slot.value)
        })
    }

    /// Moves all entries, with their keys, to a new agenda, returns it, and leaves this one empty. Their keys
    /// are never valid in this one again. The room that was reserved here is reserved anew.
    ///
    /// ```
    /// use mainspring_driver::{Agenda, Nanos};
    ///
    /// let mut agenda = Agenda::new();
    /// let key = agenda.insert('x', Nanos::new(5));
    /// let mut rest = agenda.take_all();
    /// let other = agenda.insert('y', Nanos::new(5));
    /// assert_eq!((agenda.get(key), agenda.get(other)), (None, Some(&'y')));
    /// // `NEVER` is after every deadline: everything comes out, in order.
    /// assert_eq!(rest.pop_due(Nanos::NEVER).unwrap().value, 'x');
    /// ```
    pub fn take_all(&mut self) -> Agenda<T> {
        let mut rest = Agenda {
            next_number: self.next_number,
            latest: self.latest,
            slack: self.slack.clone(),
            fixed: self.fixed,
            ..Agenda::new()
        };
        rest.reserve(self.entries.reserved());
        std::mem::replace(self, rest)
    }

    /// Drops all entries, and releases the memory that was not reserved.
    pub fn clear(&mut self) {
        drop(self.take_all());
    }

    /// How many entries there is memory for.
    pub fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// Makes room for `additional` more entries. The room is kept until [`shrink_to_fit`](Agenda::shrink_to_fit).
    ///
    /// The wheel's own memory, 24 bytes an entry, is allocated as it is needed.
    ///
    /// # Panics
    ///
    /// If that would be room for more than four thousand million entries: a key has 32 bits for the index.
    #[track_caller]
    pub fn reserve(&mut self, additional: usize) {
        self.entries.reserve(additional);
    }

    /// Releases all memory of entries that can be released without moving one, including what was reserved. Entries lie on
    /// pages of sixty-four, and a page with one entry stays: new entries are put there first. The wheel's own memory is
    /// released at once only if there is no entry, and otherwise in small steps.
    pub fn shrink_to_fit(&mut self) {
        if self.is_empty() {
            self.wheel = None;
            self.leaving = Vec::new();
        }
        self.entries.shrink();
    }

    /// About how many bytes the agenda has allocated.
    pub fn allocated_bytes(&self) -> usize {
        let wheel = self.wheel.as_ref().map_or(0, Wheel::allocated_bytes);
        self.entries.allocated_bytes() + wheel + self.leaving.capacity() * size_of::<(u32, Place)>()
    }

    /// Asserts that the invariants hold. O(n); for tests.
    ///
    /// # Panics
    ///
    /// If an invariant does not hold: then the agenda has a defect.
    pub fn check(&self) {
        self.entries.check();
        assert!(self.leaving.len() < TOGETHER, "too many are leaving");
        let Some(wheel) = &self.wheel else { return assert!(self.is_empty() && self.leaving.is_empty()) };
        let cells = self.len() + self.leaving.len();
        assert_eq!(wheel.len(), cells, "entries without a cell, or cells without an entry");
        let place_of = |index| {
            let leaving = self.leaving.iter().find(|(leaving, _)| *leaving == index).map(|(_, place)| *place);
            leaving.or_else(|| self.entries.get(index).map(|slot| slot.place))
        };
        wheel.check(|index| place_of(index).expect("a cell has an entry, or had one"));
    }

    /// The entry of `key`, if it is there.
    #[inline]
    fn slot(&self, key: Key) -> Option<&Slot<T>> {
        self.entries.get(key.index).filter(|slot| (slot.number, self.tag) == (key.number, key.tag))
    }

    #[inline]
    fn slot_mut(&mut self, key: Key) -> Option<&mut Slot<T>> {
        let tag = self.tag;
        self.entries.get_mut(key.index).filter(|slot| (slot.number, tag) == (key.number, key.tag))
    }

    /// The wheel, with a cell for each entry and no other cells, and the entries.
    #[inline]
    fn parts(&mut self) -> Option<(&mut Wheel<u32>, Owners<'_, T>)> {
        if !self.leaving.is_empty() {
            self.remove_leaving();
        }
        Some((self.wheel.as_mut()?, Owners(&mut self.entries)))
    }

    #[inline(never)]
    fn remove_leaving(&mut self) {
        let Some(wheel) = &mut self.wheel else { return };
        let found = wheel.remove_all(&mut Owners(&mut self.entries), &self.leaving);
        self.leaving.clear();
        // If it fails, the wheel has a defect. No pointer dangles because of it, so a panic is enough.
        assert!(found, "the wheel does not find an entry");
    }

    /// Takes an entry that is no longer in the wheel.
    fn take(&mut self, index: u32) -> Option<Entry<T>> {
        let Slot { number, deadline, value, .. } = self.entries.take(index)?;
        Some(Entry { key: Key { number, index, tag: self.tag }, deadline, value })
    }
}

impl<T: fmt::Debug> fmt::Debug for Agenda<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
