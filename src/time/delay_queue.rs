//! `DelayQueue`: values that come out when their time has come.
//
// Ground rules:
//
// * An agenda keeps the times, and `Due` does the waiting. This file has only the keys, and what happens to an unknown
//   key.
// * The waker runs last, when the queue is consistent again.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use futures_core::stream::FusedStream;
use mainspring_driver::{Nanos, agenda};

use super::due::Due;
use super::instant::{self, Instant};

/// Names a value in a [`DelayQueue`]. A key is never used for another value. It has a meaning in its own queue, and
/// finds nothing in any other.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::DelayQueue;
/// use mainspring::time::delay_queue::Key;
///
/// mainspring::block_on(async {
///     let mut queue = DelayQueue::new();
///     let key: Key = queue.insert("value", Duration::from_secs(60));
///     assert_eq!(queue.remove(&key).into_inner(), "value");
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(agenda::Key);

/// A value that came out of a [`DelayQueue`], or was removed from it.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::{DelayQueue, Instant};
///
/// mainspring::block_on(async {
///     let mut queue = DelayQueue::new();
///     let key = queue.insert("value", Duration::from_millis(1));
///     let expired = queue.next_expired().await.unwrap();
///     assert_eq!((expired.key(), *expired.get_ref()), (key, "value"));
///     assert!(expired.deadline() <= Instant::now());
/// });
/// ```
#[derive(Debug)]
pub struct Expired<T> {
    value: T,
    deadline: Instant,
    key: Key,
}

impl<T> Expired<T> {
    fn new(entry: agenda::Entry<T>) -> Expired<T> {
        Expired { value: entry.value, deadline: instant::from_nanos(entry.deadline), key: Key(entry.key) }
    }

    /// Returns the value.
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// Returns the value.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Returns when the value was due.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the key that the value had in the queue. The key is no longer valid.
    pub fn key(&self) -> Key {
        self.key
    }
}

/// A queue whose values come out when their time has come, in the order of their deadlines. It is also a [`Stream`] of
/// them, which ends when the queue is empty.
///
/// * Values never come out early; deadlines are exact to the nanosecond. Values with equal deadlines come out in the
///   order of insertion. A reset keeps a value's place in that order. A value that is inserted for a time that has
///   passed already may come out after other values that were due by then.
/// * A value may come out as late as a sleep may end, including its [tolerance](super#how-exact): values that are due at about
///   the same time come out at one wake-up. In virtual time each comes out at its own moment, except if time is
///   [paused](super::pause) while a task waits for the queue already.
/// * If the thread was held up for more than two milliseconds while a task waited, the tasks that sockets have woken run before that one
///   takes values out: what has arrived in time may put them off.
/// * Every duration is legal: `Duration::MAX` means never.
/// * A key is never used again: an old key, or one of another queue, finds nothing.
/// * No memory is allocated while values come and go in similar numbers, except where values that are due within the
///   same 16 ns, or overdue, are inserted in another order. Memory that was not needed for a second or two is released in
///   small steps, as the queue is polled, and is allocated again when it is needed.
/// * While it has values, a queue takes about 10 kB beside them if all are due in about the same time, and 6 kB more for each factor
///   of 64 between the nearest and the farthest, allocated when they are first needed: about 60 at most. A few deadlines take less as
///   sleeps.
/// * One timer of the runtime serves the whole queue. Moving a value to a later time touches nothing else.
/// * Only its owner feeds it. A [`TimerMap`](super::TimerMap), whose keys are the user's own, can be fed by other tasks
///   and threads, and its owner can wait for it while it is empty.
///
/// A queue belongs to the runtime in which it was made or, if it was made outside a runtime, in which it is first used.
///
/// The task that has polled the queue and waits is woken when a value comes due, when a value is inserted or moved
/// before all others, and when the last value is removed.
///
/// # Different from tokio-util
///
/// Values with equal deadlines come out first in, first out. Deadlines have no limit, and are not rounded to a
/// millisecond. Keys are never used again, and a key of another queue finds nothing.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::DelayQueue;
///
/// mainspring::block_on(async {
///     let mut queue = DelayQueue::new();
///     let late = queue.insert("late", Duration::from_millis(2));
///     queue.insert("soon", Duration::from_millis(1));
///     queue.insert("never", Duration::MAX);
///     let soon = queue.peek().unwrap();
///     queue.reset(&soon, Duration::from_millis(3));
///
///     let expired = queue.next_expired().await.unwrap();
///     assert_eq!((expired.key(), expired.into_inner()), (late, "late"));
///     assert!(queue.try_remove(&late).is_none());
///     assert_eq!(queue.next_expired().await.unwrap().into_inner(), "soon");
///     queue.clear();
///     assert!(queue.next_expired().await.is_none());
/// });
/// ```
pub struct DelayQueue<T> {
    due: Due<T>,
}

// A value is never pinned: it is moved out when it comes out.
impl<T> Unpin for DelayQueue<T> {}

impl<T> Default for DelayQueue<T> {
    #[track_caller]
    fn default() -> DelayQueue<T> {
        DelayQueue::new()
    }
}

impl<T> DelayQueue<T> {
    /// Returns an empty queue. Allocates nothing.
    #[track_caller]
    pub fn new() -> DelayQueue<T> {
        DelayQueue::with_capacity(0)
    }

    /// Returns an empty queue with room for `capacity` values, and keeps that room.
    ///
    /// # Panics
    ///
    /// As [`reserve`](DelayQueue::reserve).
    #[track_caller]
    pub fn with_capacity(capacity: usize) -> DelayQueue<T> {
        DelayQueue { due: Due::with_capacity(capacity) }
    }

    /// Lets values come out up to `most` late, so that several come out at one wake-up. They still never come out early, and come
    /// out as soon as the queue is polled and they are due. This replaces the runtime's [`Tolerance`](super::Tolerance).
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::time::DelayQueue;
    ///
    /// mainspring::block_on(async {
    ///     let mut queue = DelayQueue::new().tolerance(Duration::from_millis(5));
    ///     queue.insert("expired", Duration::from_millis(1));
    ///     queue.insert("expired, too", Duration::from_millis(5));
    ///     // The thread sleeps once, until the second one is due.
    ///     assert_eq!(queue.next_expired().await.unwrap().into_inner(), "expired");
    ///     assert_eq!(queue.next_expired().await.unwrap().into_inner(), "expired, too");
    /// });
    /// ```
    #[must_use]
    pub fn tolerance(self, most: Duration) -> DelayQueue<T> {
        DelayQueue { due: self.due.tolerance(most) }
    }

    /// Lets each value come out as exactly as the system can: no tolerance, even under load.
    #[must_use]
    pub fn precise(self) -> DelayQueue<T> {
        self.tolerance(Duration::ZERO)
    }

    /// Inserts `value`, to come out when `timeout` has passed.
    ///
    /// # Panics
    ///
    /// If the queue was made outside a runtime, and this thread is not in one either.
    #[track_caller]
    pub fn insert(&mut self, value: T, timeout: Duration) -> Key {
        let at = self.due.after(timeout);
        self.insert_nanos(value, at)
    }

    /// Inserts `value`, to come out at `when`; if that has passed, at the next poll or [in the turn
    /// after it](crate::time#what-is-different-from-elsewhere).
    ///
    /// # Panics
    ///
    /// As [`insert`](DelayQueue::insert).
    #[track_caller]
    pub fn insert_at(&mut self, value: T, when: Instant) -> Key {
        let at = self.due.at(when);
        self.insert_nanos(value, at)
    }

    fn insert_nanos(&mut self, value: T, at: Nanos) -> Key {
        let key = self.due.insert(value, at);
        self.due.sooner(at);
        Key(key)
    }

    /// Removes a value before its time.
    ///
    /// # Panics
    ///
    /// If the value is not in the queue (any more); [`try_remove`](DelayQueue::try_remove) returns `None` instead.
    #[track_caller]
    pub fn remove(&mut self, key: &Key) -> Expired<T> {
        match self.try_remove(key) {
            Some(expired) => expired,
            None => unknown(key),
        }
    }

    /// Removes a value before its time; `None` if it is no longer in the queue.
    pub fn try_remove(&mut self, key: &Key) -> Option<Expired<T>> {
        let entry = self.due.agenda.remove(key.0)?;
        self.due.fewer();
        Some(Expired::new(entry))
    }

    /// Moves a value's time to `timeout` from now.
    ///
    /// # Panics
    ///
    /// If the value is no longer in the queue; [`try_reset`](DelayQueue::try_reset) returns false instead.
    #[track_caller]
    pub fn reset(&mut self, key: &Key, timeout: Duration) {
        if !self.try_reset(key, timeout) {
            unknown(key);
        }
    }

    /// Moves a value's time to `when`.
    ///
    /// # Panics
    ///
    /// As [`reset`](DelayQueue::reset).
    #[track_caller]
    pub fn reset_at(&mut self, key: &Key, when: Instant) {
        if !self.try_reset_at(key, when) {
            unknown(key);
        }
    }

    /// Moves a value's time to `timeout` from now. Returns whether the value is in the queue.
    pub fn try_reset(&mut self, key: &Key, timeout: Duration) -> bool {
        if self.due.agenda.get(key.0).is_none() {
            return false;
        }
        let at = self.due.after(timeout);
        self.due.reset(key.0, at)
    }

    /// Moves a value's time to `when`. Returns whether the value is in the queue.
    pub fn try_reset_at(&mut self, key: &Key, when: Instant) -> bool {
        self.due.reset_at(key.0, when)
    }

    /// Returns when a value is due.
    ///
    /// # Panics
    ///
    /// If the value is no longer in the queue; [`try_deadline`](DelayQueue::try_deadline) returns `None` instead.
    #[track_caller]
    pub fn deadline(&self, key: &Key) -> Instant {
        match self.try_deadline(key) {
            Some(deadline) => deadline,
            None => unknown(key),
        }
    }

    /// Returns when a value is due; `None` if it is no longer in the queue.
    pub fn try_deadline(&self, key: &Key) -> Option<Instant> {
        self.due.agenda.deadline(key.0).map(instant::from_nanos)
    }

    /// Returns the key of the value that comes out next. This takes longer the more values are due at about the same
    /// time, if they were inserted in another order.
    pub fn peek(&self) -> Option<Key> {
        self.due.agenda.peek().map(Key)
    }

    /// Polls for the next value that is due. `None` if the queue is empty.
    ///
    /// Wakes the task of the latest poll.
    ///
    /// # Panics
    ///
    /// If a value has to be waited for, and the queue's runtime was dropped. (A value that was due by then still comes
    /// out, and an empty queue is at its end, with and without a runtime.) The message says where the queue was made.
    #[track_caller]
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.due.poll(cx, true).map(|entry| entry.map(Expired::new))
    }

    /// Waits for the next value that is due. `None` if the queue is empty.
    ///
    /// # Panics
    ///
    /// As [`poll_expired`](DelayQueue::poll_expired).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no value.
    pub async fn next_expired(&mut self) -> Option<Expired<T>> {
        poll_fn(|cx| self.poll_expired(cx)).await
    }

    /// Drops all values. Their keys find nothing from now on.
    pub fn clear(&mut self) {
        let values = self.due.agenda.take_all();
        self.due.fewer();
        drop(values);
    }

    /// Returns how many values are in the queue.
    pub fn len(&self) -> usize {
        self.due.agenda.len()
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.due.agenda.is_empty()
    }

    /// Returns for how many values there is memory.
    pub fn capacity(&self) -> usize {
        self.due.agenda.capacity()
    }

    /// Makes room for `additional` more values, and keeps that room until [`shrink_to_fit`](DelayQueue::shrink_to_fit).
    ///
    /// # Panics
    ///
    /// If that would be room for more than four thousand million values.
    #[track_caller]
    pub fn reserve(&mut self, additional: usize) {
        self.due.agenda.reserve(additional);
    }

    /// Releases all memory that holds no value, including reserved memory. Values lie on pages of sixty-four, and are
    /// not moved: a page with one value stays, and later values are put there first.
    ///
    /// Without this call, a burst's memory is released in small steps: up to two pages in each poll that finds nothing due, once
    /// they have not been needed for a second or two. A queue that is never polled keeps them, and pages that were reserved
    /// stay.
    pub fn shrink_to_fit(&mut self) {
        self.due.agenda.shrink_to_fit();
    }
}

#[cold]
#[track_caller]
fn unknown(key: &Key) -> ! {
    panic!(
        "key #{} is not in this DelayQueue: its value has expired or was removed, or it is a key of another \
         queue; the `try_` forms report that without a panic",
        key.0.number()
    )
}

impl<T> Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.get_mut().poll_expired(cx)
    }
}

/// Terminated once it has yielded `None`, until a value is inserted.
impl<T> FusedStream for DelayQueue<T> {
    fn is_terminated(&self) -> bool {
        self.due.is_ended()
    }
}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueue").field("len", &self.len()).finish_non_exhaustive()
    }
}
