//! `TimerMap`: keys whose values come out when their time has come.
//!
//! Ground rules:
//!
//! * The times and the entries are an agenda's, the waiting is `Due`'s; the `Index` leads from the user's keys
//!   there. Entry and index change together, and what is the user's (drops, the waker) runs after.
//! * What handles send takes effect in a poll, in the order in which it was sent.
//! * A map is closed once and for all: by its owner, or by a handle, which the owner learns in its next poll.
//! * `ended` says that a poll has told of the end, and nothing has been put in and no handle made since.

mod handle;
mod index;
mod run;

use std::borrow::Borrow;
use std::fmt;
use std::future::poll_fn;
use std::hash::Hash;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_core::stream::FusedStream;
use mainspring_driver::Nanos;
use mainspring_driver::agenda::{self, Agenda};

use super::error::Closed;
use super::instant::{self, Instant};
use super::keyed::{COMMANDS_PER_POLL, Due, Inbox};
use crate::coop::budget;

pub use handle::TimerMapHandle;
pub use run::Ran;

use handle::Command;
use index::{Index, Item};

/// Keys whose values come out when their time has come, in the order of their deadlines; also a [`Stream`] of
/// `(key, value)`, which ends when the map is empty or closed.
///
/// A key is in the map once: [`set`](TimerMap::set) puts it in or replaces it, [`move_to`](TimerMap::move_to)
/// gives it another time, [`remove`](TimerMap::remove) takes it out. That is what connection pools, caches and
/// session tables want of timers.
///
/// * Never early, exact to the nanosecond; equal deadlines in the order in which the keys were set. Moving
///   keeps a key's place in that order; setting it again gives it a new one.
/// * An entry comes out once: as an expiry, from `remove`, or from [`drain`](TimerMap::drain).
/// * Every duration is legal: `Duration::MAX` means never, zero comes out at the next poll.
/// * After a stall, whatever came due meanwhile comes out, in order.
/// * Nothing is allocated when an entry comes out, and nothing at all while entries come and go in similar
///   numbers. A removed entry is gone at once; what a burst needed is given back in small steps.
/// * One timer of the runtime serves the whole map. Moving to a later time touches nothing else.
/// * [`handle`](TimerMap::handle) lets other threads and tasks feed the map, and close it;
///   [`run`](TimerMap::run) calls something back for each entry.
///
/// A map belongs to the runtime in which it was made or, if made outside, in which it is first used.
///
/// # Examples
///
/// Connections that are closed after half a minute of silence:
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::TimerMap;
///
/// const SILENCE: Duration = Duration::from_millis(30);
///
/// mainspring::block_on(async {
///     let mut pool = TimerMap::new();
///     pool.set("a", "connection a", SILENCE)?;
///     pool.set("b", "connection b", SILENCE)?;
///     mainspring::sleep(SILENCE / 2).await;
///     // A heartbeat of b.
///     assert!(pool.move_to("b", SILENCE)?);
///
///     assert_eq!(pool.next_expired().await, Some(("a", "connection a")));
///     assert_eq!(pool.remove("b")?, Some("connection b"));
///     assert!(pool.next_expired().await.is_none());
///     Ok::<(), mainspring::time::error::Closed>(())
/// }).unwrap();
/// ```
///
/// A cache whose entries expire, in which nobody sees an expired one: its owner takes out what is due before it
/// looks. Lifetimes differ by a twentieth, so that what was stored together is not all fetched again together.
///
/// ```
/// use std::future::poll_fn;
/// use std::task::Poll;
/// use std::time::Duration;
/// use mainspring::time::{TimerMap, sleep};
///
/// struct Cache {
///     entries: TimerMap<String, u64>,
///     lifetime: Duration,
///     stored: u32,
/// }
///
/// impl Cache {
///     fn put(&mut self, key: &str, value: u64) {
///         self.stored = self.stored.wrapping_add(1);
///         let spread = self.lifetime / 20 * (self.stored % 8) / 8;
///         let _previous = self.entries.set(key.to_owned(), value, self.lifetime - spread);
///     }
///
///     async fn get(&mut self, key: &str) -> Option<u64> {
///         // What is due leaves; the rest waits for the next time.
///         poll_fn(|cx| {
///             while let Poll::Ready(Some(_expired)) = self.entries.poll_expired(cx) {}
///             Poll::Ready(())
///         })
///         .await;
///         self.entries.get(key).ok()?.copied()
///     }
/// }
///
/// mainspring::block_on(async {
///     let lifetime = Duration::from_millis(5);
///     let mut cache = Cache { entries: TimerMap::new(), lifetime, stored: 0 };
///     cache.put("answer", 42);
///     assert_eq!(cache.get("answer").await, Some(42));
///     sleep(lifetime).await;
///     assert_eq!(cache.get("answer").await, None);
/// });
/// ```
pub struct TimerMap<K, V> {
    due: Due<Item<K, V>>,
    index: Index,
    /// Made with the first handle.
    inbox: Option<Inbox<Command<K, V>>>,
    closed: bool,
    ended: bool,
}

// Keys and values are never pinned: they are moved out when they come out.
impl<K, V> Unpin for TimerMap<K, V> {}

impl<K: Hash + Eq, V> Default for TimerMap<K, V> {
    #[track_caller]
    fn default() -> TimerMap<K, V> {
        TimerMap::new()
    }
}

impl<K: Hash + Eq, V> TimerMap<K, V> {
    /// An empty map. Allocates nothing.
    #[track_caller]
    pub fn new() -> TimerMap<K, V> {
        TimerMap::with_capacity(0)
    }

    /// An empty map with room for the values of `capacity` keys, which it keeps.
    #[track_caller]
    pub fn with_capacity(capacity: usize) -> TimerMap<K, V> {
        TimerMap {
            due: Due::with_capacity(capacity),
            index: Index::default(),
            inbox: None,
            closed: false,
            ended: false,
        }
    }

    /// Puts `value` in under `key`, to come out `after` from now. Returns the value that it replaces, if the key
    /// was there.
    ///
    /// # Errors
    ///
    /// [`Closed`] after [`close`](TimerMap::close); key and value are dropped.
    ///
    /// # Panics
    ///
    /// If the map was made outside a runtime, and this thread is not in one either.
    #[track_caller]
    pub fn set(&mut self, key: K, value: V, after: Duration) -> Result<Option<V>, Closed> {
        self.check_open()?;
        let at = self.due.after(after);
        Ok(self.set_nanos(key, value, at))
    }

    /// Puts `value` in under `key`, to come out at `when`: at the next poll, if that has passed. Returns the
    /// value that it replaces.
    ///
    /// # Errors
    ///
    /// As [`set`](TimerMap::set).
    ///
    /// # Panics
    ///
    /// As [`set`](TimerMap::set).
    #[track_caller]
    pub fn set_at(&mut self, key: K, value: V, when: Instant) -> Result<Option<V>, Closed> {
        self.check_open()?;
        let at = self.due.at(when);
        Ok(self.set_nanos(key, value, at))
    }

    /// Gives `key` another time: `after` from now, whatever it was. Says whether the key was there.
    ///
    /// # Errors
    ///
    /// [`Closed`] after [`close`](TimerMap::close).
    pub fn move_to<Q>(&mut self, key: &Q, after: Duration) -> Result<bool, Closed>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let Some(entry) = self.find(key)? else { return Ok(false) };
        let at = self.due.after(after);
        Ok(self.move_nanos(entry, at))
    }

    /// Gives `key` another time: `when`. Says whether the key was there.
    ///
    /// # Errors
    ///
    /// [`Closed`] after [`close`](TimerMap::close).
    pub fn move_to_at<Q>(&mut self, key: &Q, when: Instant) -> Result<bool, Closed>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let Some(entry) = self.find(key)? else { return Ok(false) };
        let at = self.due.at(when);
        Ok(self.move_nanos(entry, at))
    }

    /// Takes a key out; `None` if it is not there.
    ///
    /// # Errors
    ///
    /// [`Closed`] after [`close`](TimerMap::close).
    pub fn remove<Q>(&mut self, key: &Q) -> Result<Option<V>, Closed>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let Some(entry) = self.find(key)? else { return Ok(None) };
        let item = self.take(entry);
        self.due.fewer();
        Ok(item.map(|item| item.value))
    }

    /// The value of a key. One whose time has passed is there until it is polled for.
    ///
    /// # Errors
    ///
    /// [`Closed`] after [`close`](TimerMap::close).
    pub fn get<Q>(&self, key: &Q) -> Result<Option<&V>, Closed>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let entry = self.find(key)?;
        Ok(entry.and_then(|entry| self.due.agenda.get(entry)).map(|item| &item.value))
    }

    /// The value of a key, to be changed.
    ///
    /// # Errors
    ///
    /// [`Closed`] after [`close`](TimerMap::close).
    pub fn get_mut<Q>(&mut self, key: &Q) -> Result<Option<&mut V>, Closed>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let entry = self.find(key)?;
        Ok(entry.and_then(|entry| self.due.agenda.get_mut(entry)).map(|item| &mut item.value))
    }

    /// Whether a key is there.
    ///
    /// # Errors
    ///
    /// [`Closed`] after [`close`](TimerMap::close).
    pub fn contains_key<Q>(&self, key: &Q) -> Result<bool, Closed>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        Ok(self.find(key)?.is_some())
    }

    /// When a key is due.
    ///
    /// # Errors
    ///
    /// [`Closed`] after [`close`](TimerMap::close).
    pub fn deadline<Q>(&self, key: &Q) -> Result<Option<Instant>, Closed>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let entry = self.find(key)?;
        Ok(entry.and_then(|entry| self.due.agenda.deadline(entry)).map(instant::from_nanos))
    }

    /// The keys and their values, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.due.agenda.iter().map(|(_, _, item)| (&item.key, &item.value))
    }

    /// Takes everything out, in the order of the deadlines. The map is empty at once, whether or not the
    /// iterator is used, and its keys may be set again.
    pub fn drain(&mut self) -> Drain<K, V> {
        let agenda = self.due.agenda.take_all();
        self.index.clear();
        self.due.fewer();
        Drain { agenda }
    }

    /// Closes the map: nothing can be put in any more, every later call that concerns a key returns [`Closed`],
    /// and so do those of the handles; whoever waits for an expiry is told that there will be none.
    ///
    /// Returns what has not come out, in the order of the deadlines, with what handles have sent before. If the
    /// map is closed, that is what is left since.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::time::TimerMap;
    ///
    /// mainspring::block_on(async {
    ///     let mut map = TimerMap::new();
    ///     map.set(2, "late", Duration::from_secs(9)).unwrap();
    ///     map.set(1, "soon", Duration::from_secs(5)).unwrap();
    ///     assert_eq!(map.close().collect::<Vec<_>>(), [(1, "soon"), (2, "late")]);
    ///     assert!(map.set(3, "no", Duration::ZERO).is_err());
    ///     assert_eq!(map.close().count(), 0);
    /// });
    /// ```
    pub fn close(&mut self) -> Drain<K, V> {
        if let Some(inbox) = &self.inbox {
            inbox.close();
        }
        let mut unlimited = usize::MAX;
        self.obey(&mut unlimited);
        self.closed = true;
        let rest = self.drain();
        // There may have been nothing in it, and a handle to wait for.
        self.due.ended();
        rest
    }

    /// Whether the map was closed, by its owner or by a handle.
    pub fn is_closed(&self) -> bool {
        self.closed || self.inbox.as_ref().is_some_and(Inbox::is_closed)
    }

    /// How many keys there are, without those that handles have sent since the last poll.
    pub fn len(&self) -> usize {
        self.due.agenda.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.due.agenda.is_empty()
    }

    /// Polls for the next entry that is due. `None` if the map is closed, or if it is empty and nobody has a
    /// handle.
    ///
    /// Wakes the task of the latest poll.
    ///
    /// # Panics
    ///
    /// If there is no runtime to wait in, or the map's was dropped. The message says where the map was made.
    #[track_caller]
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<(K, V)>> {
        let permit = ready!(budget::poll_proceed(cx));
        let mut commands = COMMANDS_PER_POLL;
        loop {
            let open = self.poll_commands(cx, &mut commands);
            if self.closed {
                permit.spend();
                self.ended = true;
                return Poll::Ready(None);
            }
            if let Poll::Ready(entry) = self.due.poll(cx, !open) {
                permit.spend();
                self.ended = entry.is_none();
                return Poll::Ready(entry.map(|entry| self.expired(entry)));
            }
            // Nothing was due, so time has passed: a good moment.
            self.index.follow(self.due.agenda.capacity());
            let news = self.inbox.as_ref().is_some_and(|inbox| inbox.watch(cx, open));
            if !news || commands == 0 {
                return Poll::Pending;
            }
        }
    }

    /// Waits for the next entry that is due. `None` if the map is closed, or if it is empty and nobody has a
    /// handle.
    ///
    /// # Panics
    ///
    /// As [`poll_expired`](TimerMap::poll_expired).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no entry.
    pub async fn next_expired(&mut self) -> Option<(K, V)> {
        poll_fn(|cx| self.poll_expired(cx)).await
    }

    /// A handle with which other threads and tasks feed the map, and close it.
    ///
    /// While one lives, an empty map is not at its end.
    ///
    /// # Panics
    ///
    /// If the map was made outside a runtime, and this thread is not in one either.
    #[track_caller]
    pub fn handle(&mut self) -> TimerMapHandle<K, V> {
        let timers = self.due.timers().clone();
        let closed = self.closed;
        self.ended &= closed;
        let inbox = self.inbox.get_or_insert_with(Inbox::new);
        if closed {
            inbox.close();
        }
        TimerMapHandle::new(inbox.sender(self.due.waiting()), timers)
    }

    fn check_open(&self) -> Result<(), Closed> {
        if self.is_closed() { Err(Closed(())) } else { Ok(()) }
    }

    fn find<Q>(&self, key: &Q) -> Result<Option<agenda::Key>, Closed>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.check_open()?;
        Ok(self.index.find(&self.due.agenda, self.index.hash(key), key))
    }

    fn set_nanos(&mut self, key: K, value: V, at: Nanos) -> Option<V> {
        let old = self.put(key, value, at);
        self.due.sooner(at);
        old.map(|old| old.value)
    }

    /// Puts an entry in and returns the one that it replaces.
    fn put(&mut self, key: K, value: V, at: Nanos) -> Option<Item<K, V>> {
        self.ended = false;
        let hash = self.index.hash(&key);
        let old = self.index.find(&self.due.agenda, hash, &key);
        let old = old.and_then(|old| self.take(old));
        let entry = self.due.agenda.insert(self.index.item(key, value, hash), at);
        self.index.link(hash, entry);
        old
    }

    fn move_nanos(&mut self, entry: agenda::Key, at: Nanos) -> bool {
        let there = self.due.agenda.reset(entry, at);
        self.due.sooner(at);
        there
    }

    fn take(&mut self, entry: agenda::Key) -> Option<Item<K, V>> {
        let item = self.due.agenda.remove(entry)?.value;
        self.index.unlink(&mut self.due.agenda, entry, &item);
        Some(item)
    }

    fn expired(&mut self, entry: agenda::Entry<Item<K, V>>) -> (K, V) {
        self.index.unlink(&mut self.due.agenda, entry.key, &entry.value);
        (entry.value.key, entry.value.value)
    }

    /// Carries out what the handles have sent, up to so many commands; if there may be more, the task is polled
    /// again. Says whether more may be sent.
    fn poll_commands(&mut self, cx: &Context<'_>, left: &mut usize) -> bool {
        // In this order: what was sent before a handle closed the map, or the last one went, still counts.
        let closed = self.is_closed();
        let open = self.inbox.as_ref().is_some_and(Inbox::is_open);
        self.obey(left);
        if *left == 0 {
            cx.waker().wake_by_ref();
            return true;
        }
        self.closed |= closed;
        open
    }

    /// As a poll, but leaves what is due in the map.
    fn poll_inbox(&mut self, cx: &Context<'_>) {
        let mut commands = COMMANDS_PER_POLL;
        loop {
            let open = self.poll_commands(cx, &mut commands);
            let news = self.inbox.as_ref().is_some_and(|inbox| inbox.watch(cx, open));
            if !news || commands == 0 {
                return;
            }
        }
    }

    fn obey(&mut self, left: &mut usize) {
        while *left > 0 {
            let Some(command) = self.inbox.as_mut().and_then(Inbox::next) else { return };
            *left -= 1;
            match command {
                Command::Set { key, value, at } => drop(self.put(key, value, at)),
                Command::Move { key, at } => {
                    let hash = self.index.hash(&key);
                    if let Some(entry) = self.index.find(&self.due.agenda, hash, &key) {
                        self.due.agenda.reset(entry, at);
                    }
                }
                Command::Remove { key } => {
                    let hash = self.index.hash(&key);
                    if let Some(entry) = self.index.find(&self.due.agenda, hash, &key) {
                        drop(self.take(entry));
                    }
                }
            }
        }
    }
}

impl<K: Hash + Eq, V> Stream for TimerMap<K, V> {
    type Item = (K, V);

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<(K, V)>> {
        self.get_mut().poll_expired(cx)
    }
}

/// Terminated once it has yielded `None`: if it was closed then for good, otherwise until a key is set or a
/// [handle](TimerMap::handle) made.
impl<K: Hash + Eq, V> FusedStream for TimerMap<K, V> {
    fn is_terminated(&self) -> bool {
        self.ended
    }
}

impl<K, V> fmt::Debug for TimerMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerMap")
            .field("len", &self.due.agenda.len())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

/// What was in a [`TimerMap`], in the order of the deadlines. Made by [`TimerMap::drain`] and
/// [`TimerMap::close`].
pub struct Drain<K, V> {
    agenda: Agenda<Item<K, V>>,
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
