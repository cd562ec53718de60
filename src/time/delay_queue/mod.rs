//! `DelayQueue`: values that come out when their time has come.
//!
//! Ground rules:
//!
//! * The times are an agenda's, the waiting is `Due`'s: here are only the keys, and what comes from other threads.
//! * A value that came from another thread has a ticket instead of the agenda's key, because its sender could
//!   not wait for that. `sent` leads from the one to the other, for as long as the value is in.
//! * The waker runs last, when the queue is in order.
//! * `ended` says that a poll has told of the end, and nothing has been put in and no handle made since.

mod handle;

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_core::stream::FusedStream;
use mainspring_driver::{Nanos, agenda};

use super::instant::{self, Instant};
use super::keyed::{COMMANDS_PER_POLL, Due, Inbox};
use crate::executor::budget;

pub use handle::DelayQueueHandle;
use handle::{Command, Ticket};

/// Names a value in a [`DelayQueue`]; it is never used for another one. It means something to its own queue
/// and that queue's handles, and to no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(Origin);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Origin {
    /// It was put in by the queue's owner.
    Own(agenda::Key),
    /// It was sent by a handle.
    Sent(Ticket),
}

/// A value that came out of a [`DelayQueue`], or was taken out.
#[derive(Debug)]
pub struct Expired<T> {
    value: T,
    deadline: Instant,
    key: Key,
}

impl<T> Expired<T> {
    /// The value.
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// The value.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// When it was due.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Under which key it was in the queue. The key is not valid any more.
    pub fn key(&self) -> Key {
        self.key
    }
}

struct Item<T> {
    value: T,
    ticket: Option<Ticket>,
}

/// Values that come out when their time has come, in the order of their deadlines; also a [`Stream`] of them,
/// which ends when the queue is empty.
///
/// * Never early, exact to the nanosecond; equal deadlines in the order of insertion. A reset keeps a value's
///   place in that order. A value that is put in for a time that has passed already may come after others that
///   were due by then.
/// * Every duration is legal: `Duration::MAX` means never.
/// * A key is never used again: an old one finds nothing.
/// * Nothing is allocated when a value comes out, and nothing at all while values come and go in similar
///   numbers. What a burst needed is given back in small steps.
/// * One timer of the runtime serves the whole queue. Moving a value to a later time touches nothing else.
/// * [`handle`](DelayQueue::handle) lets other threads and tasks put values in, move and remove them.
///
/// A queue belongs to the runtime in which it was made or, if made outside, in which it is first used.
///
/// The task that has polled the queue and waits is woken when a value comes due, when one is put in or moved
/// before all others, and when the last one is removed.
///
/// # Different from tokio-util
///
/// Equal deadlines come out first in, first out. Deadlines have no limit, and no millisecond. Keys are never
/// used again. While a handle lives, an empty queue waits instead of ending.
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
    due: Due<Item<T>>,
    /// Made with the first handle.
    inbox: Option<Inbox<Command<T>>>,
    /// The values that came from handles.
    sent: HashMap<Ticket, agenda::Key>,
    /// How many tickets were given; shared with the handles.
    tickets: handle::Tickets,
    ended: bool,
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
    /// An empty queue. Allocates nothing.
    #[track_caller]
    pub fn new() -> DelayQueue<T> {
        DelayQueue::with_capacity(0)
    }

    /// An empty queue with room for `capacity` values, which it keeps.
    #[track_caller]
    pub fn with_capacity(capacity: usize) -> DelayQueue<T> {
        DelayQueue {
            due: Due::with_capacity(capacity),
            inbox: None,
            sent: HashMap::new(),
            tickets: handle::Tickets::default(),
            ended: false,
        }
    }

    /// Puts `value` in, to come out when `timeout` has passed.
    ///
    /// # Panics
    ///
    /// If the queue was made outside a runtime, and this thread is not in one either.
    #[track_caller]
    pub fn insert(&mut self, value: T, timeout: Duration) -> Key {
        let at = self.due.after(timeout);
        self.insert_nanos(value, at)
    }

    /// Puts `value` in, to come out at `when`: at the next poll, if that has passed.
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
        self.ended = false;
        let key = self.due.agenda.insert(Item { value, ticket: None }, at);
        self.due.sooner(at);
        Key(Origin::Own(key))
    }

    /// Takes a value out before its time.
    ///
    /// # Panics
    ///
    /// If it is not in the queue any more; [`try_remove`](DelayQueue::try_remove) returns `None`.
    #[track_caller]
    pub fn remove(&mut self, key: &Key) -> Expired<T> {
        match self.try_remove(key) {
            Some(expired) => expired,
            None => unknown(key),
        }
    }

    /// Takes a value out before its time; `None` if it is not in the queue any more.
    pub fn try_remove(&mut self, key: &Key) -> Option<Expired<T>> {
        let entry = self.due.agenda.remove(self.find(key)?)?;
        let expired = self.expired(entry);
        self.due.fewer();
        Some(expired)
    }

    /// Moves a value's time to `timeout` from now.
    ///
    /// # Panics
    ///
    /// If the value is not in the queue any more; [`try_reset`](DelayQueue::try_reset) says so instead.
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

    /// Moves a value's time to `timeout` from now. Says whether it is in the queue.
    pub fn try_reset(&mut self, key: &Key, timeout: Duration) -> bool {
        let Some(key) = self.find(key) else { return false };
        let at = self.due.after(timeout);
        self.reset_nanos(key, at)
    }

    /// Moves a value's time to `when`. Says whether it is in the queue.
    pub fn try_reset_at(&mut self, key: &Key, when: Instant) -> bool {
        let Some(key) = self.find(key) else { return false };
        let at = self.due.at(when);
        self.reset_nanos(key, at)
    }

    fn reset_nanos(&mut self, key: agenda::Key, at: Nanos) -> bool {
        let there = self.due.agenda.reset(key, at);
        if there {
            self.due.sooner(at);
        }
        there
    }

    /// When a value is due.
    ///
    /// # Panics
    ///
    /// If it is not in the queue any more; [`try_deadline`](DelayQueue::try_deadline) returns `None`.
    #[track_caller]
    pub fn deadline(&self, key: &Key) -> Instant {
        match self.try_deadline(key) {
            Some(deadline) => deadline,
            None => unknown(key),
        }
    }

    /// When a value is due; `None` if it is not in the queue any more.
    pub fn try_deadline(&self, key: &Key) -> Option<Instant> {
        let at = self.due.agenda.deadline(self.find(key)?)?;
        Some(instant::from_nanos(at))
    }

    /// The value that comes out next. It takes the longer the more values are due at about the same time.
    pub fn peek(&self) -> Option<Key> {
        let key = self.due.agenda.peek()?;
        let ticket = self.due.agenda.get(key)?.ticket;
        Some(Key(ticket.map_or(Origin::Own(key), Origin::Sent)))
    }

    /// Polls for the next value that is due. `None` if the queue is empty and nobody has a handle.
    ///
    /// Wakes the task of the latest poll.
    ///
    /// # Panics
    ///
    /// If there is no runtime to wait in, or the queue's was dropped. The message says where the queue was made.
    #[track_caller]
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        let permit = ready!(budget::poll_proceed(cx));
        let mut commands = COMMANDS_PER_POLL;
        loop {
            // In this order: what was sent before the last handle went still counts.
            let open = self.inbox.as_ref().is_some_and(Inbox::is_open);
            let all = self.obey(cx, &mut commands);
            let open = open || !all;
            if let Poll::Ready(entry) = self.due.poll(cx, !open) {
                permit.spend();
                self.ended = entry.is_none();
                return Poll::Ready(entry.map(|entry| self.expired(entry)));
            }
            // Nothing was due, so time has passed: what the agenda has given back, the tickets give back, too.
            let keep = self.due.agenda.capacity().max(256);
            if self.sent.capacity() > 4 * keep {
                self.sent.shrink_to(keep);
            }
            let news = self.inbox.as_ref().is_some_and(|inbox| inbox.watch(cx, open));
            if !news || commands == 0 {
                return Poll::Pending;
            }
        }
    }

    /// Waits for the next value that is due. `None` if the queue is empty and nobody has a handle.
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

    /// A handle with which other threads and tasks put values in, move and remove them.
    ///
    /// While one lives, an empty queue is not at its end.
    ///
    /// # Panics
    ///
    /// If the queue was made outside a runtime, and this thread is not in one either.
    #[track_caller]
    pub fn handle(&mut self) -> DelayQueueHandle<T> {
        let timers = self.due.timers().clone();
        self.ended = false;
        let inbox = self.inbox.get_or_insert_with(Inbox::new);
        DelayQueueHandle::new(inbox.sender(self.due.waiting()), timers, self.tickets.clone())
    }

    /// Drops all values. Their keys find nothing from now on.
    pub fn clear(&mut self) {
        let values = self.due.agenda.take_all();
        self.sent.clear();
        self.due.fewer();
        drop(values);
    }

    /// How many values are in the queue, without those that handles have sent since the last poll.
    pub fn len(&self) -> usize {
        self.due.agenda.len()
    }

    /// Whether no value is in the queue.
    pub fn is_empty(&self) -> bool {
        self.due.agenda.is_empty()
    }

    /// For how many values there is memory.
    pub fn capacity(&self) -> usize {
        self.due.agenda.capacity()
    }

    /// Makes room for `additional` more values, and keeps it until
    /// [`shrink_to_fit`](DelayQueue::shrink_to_fit).
    pub fn reserve(&mut self, additional: usize) {
        self.due.agenda.reserve(additional);
    }

    /// Releases all memory that holds no value, and what was reserved with it. Values lie on pages of sixty-four,
    /// and are not moved: a page with one value stays, and what is put in later lies there first.
    ///
    /// Without it, a burst's memory is released in small steps as time passes; pages that were reserved stay.
    pub fn shrink_to_fit(&mut self) {
        self.due.agenda.shrink_to_fit();
        self.sent.shrink_to_fit();
    }

    fn find(&self, key: &Key) -> Option<agenda::Key> {
        match key.0 {
            Origin::Own(key) => Some(key),
            Origin::Sent(ticket) => self.sent.get(&ticket).copied(),
        }
    }

    fn expired(&mut self, entry: agenda::Entry<Item<T>>) -> Expired<T> {
        let Item { value, ticket } = entry.value;
        if let Some(ticket) = ticket {
            self.sent.remove(&ticket);
        }
        let key = Key(ticket.map_or(Origin::Own(entry.key), Origin::Sent));
        Expired { value, deadline: instant::from_nanos(entry.deadline), key }
    }

    /// Carries out what the handles have sent, up to so many commands. If there may be more, the task is
    /// polled again. Says whether that was all.
    fn obey(&mut self, cx: &Context<'_>, left: &mut usize) -> bool {
        while let Some(inbox) = &mut self.inbox {
            if *left == 0 {
                cx.waker().wake_by_ref();
                return false;
            }
            let Some(command) = inbox.next() else { break };
            *left -= 1;
            match command {
                Command::Insert { value, at, ticket } => {
                    let key = self.due.agenda.insert(Item { value, ticket: Some(ticket) }, at);
                    self.sent.insert(ticket, key);
                }
                Command::Reset { key, at } => {
                    if let Some(key) = self.find(&key) {
                        self.due.agenda.reset(key, at);
                    }
                }
                Command::Remove { key } => {
                    if let Some(entry) = self.find(&key).and_then(|key| self.due.agenda.remove(key)) {
                        drop(self.expired(entry));
                    }
                }
            }
        }
        true
    }
}

#[cold]
#[track_caller]
fn unknown(key: &Key) -> ! {
    panic!("{key:?} is not in this DelayQueue: its value has expired or was removed; the `try_` forms say so")
}

impl<T> Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.get_mut().poll_expired(cx)
    }
}

/// Terminated once it has yielded `None`, until a value is put in or a [handle](DelayQueue::handle) made.
impl<T> FusedStream for DelayQueue<T> {
    fn is_terminated(&self) -> bool {
        self.ended
    }
}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueue").field("len", &self.len()).finish_non_exhaustive()
    }
}
