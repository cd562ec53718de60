//! `TimerMap`: keys whose values come out when their time has come.
//
// Ground rules:
//
// * An agenda keeps the times and the entries, and `Due` does the waiting; the `Index` leads from the user's keys to
//   the entries. Entry and index change together, and the user's code (drops, the waker) runs afterwards.
// * For what handles send, and what closing means, see `handle.rs`.

mod entries;
mod handle;

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
use mainspring_driver::agenda;

use super::due::Due;
use super::instant::{self, Instant};

pub use entries::Drain;
pub use handle::TimerMapHandle;

use entries::{Index, Item};
use handle::{Command, Inbox};

/// The maximum number of commands from other threads that one poll carries out; the others wait for the next poll.
const COMMANDS_PER_POLL: usize = 1024;

/// A map whose values come out when their time has come, in the order of their deadlines. It is also a [`Stream`] of
/// `(key, value)`.
///
/// A key is in the map once: [`insert`](TimerMap::insert) adds or replaces it, [`reset`](TimerMap::reset) gives it
/// another time, [`remove`](TimerMap::remove) removes it. That is what connection pools, caches and session tables need
/// from timers.
///
/// * Values never come out early; deadlines are exact to the nanosecond. Values with equal deadlines come out in the
///   order in which the keys were inserted. A reset keeps a key's place in that order; inserting the key again gives it
///   a new place.
/// * An entry comes out once: as an expiry, from `remove`, or from [`drain`](TimerMap::drain).
/// * A value may come out as late as a sleep may end, including its [tolerance](super#how-exact): values that are due at about
///   the same time come out at one wake-up. In virtual time each comes out at its own moment, except if time is
///   [paused](super::pause) while a task waits for the map already.
/// * If the thread was held up for more than two milliseconds while a task waited, the tasks that sockets have woken run before that one
///   takes values out: what has arrived in time may put them off.
/// * Every duration is legal: `Duration::MAX` means never, an entry with zero comes out at the next poll.
/// * After a stall, all entries that came due meanwhile come out, in order.
/// * No memory is allocated while entries come and go in similar numbers, except where entries that are due within the
///   same 16 ns, or overdue, are inserted in another order. A removed entry is gone at once. Memory that was not needed
///   for a second or two is released in small steps, as the map is polled, and is allocated again when it is needed.
/// * While it has entries, a map takes about 10 kB beside them if all are due in about the same time, and 6 kB more for each factor
///   of 64 between the nearest and the farthest, allocated when they are first needed: about 60 at most. A few deadlines take less as
///   sleeps.
/// * One timer of the runtime serves the whole map. Resetting to a later time touches nothing else.
///
/// A map belongs to the runtime in which it was made or, if it was made outside a runtime, in which it is first used.
///
/// # When it ends
///
/// An empty map waits for the next insertion. [`close`](TimerMap::close) says that only the owner will insert anything:
/// from then on the map ends when it is empty. Its owner may still do everything, and entries that it inserts come out
/// as before. If the map has no handles, its owner need not close it, and can loop with `while !map.is_empty()`.
///
/// # Examples
///
/// Connections that are closed after 30 ms of silence:
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::TimerMap;
///
/// const SILENCE: Duration = Duration::from_millis(30);
///
/// mainspring::block_on(async {
///     let mut pool = TimerMap::new();
///     pool.insert("a", "connection a", SILENCE);
///     pool.insert("b", "connection b", SILENCE);
///     mainspring::sleep(SILENCE / 2).await;
///     // A heartbeat of b.
///     assert!(pool.reset("b", SILENCE));
///
///     assert_eq!(pool.next_expired().await, Some(("a", "connection a")));
///     assert_eq!(pool.remove("b"), Some("connection b"));
///     pool.close();
///     assert!(pool.next_expired().await.is_none());
/// });
/// ```
///
/// A cache whose entries expire. An expired entry is never seen, because each look-up compares its deadline with the
/// time. The poll before that only frees memory: it may leave entries that are due, for example when the task's
/// [budget](crate::task#the-cooperative-budget) is used up. Lifetimes differ by a twentieth, so that entries that were
/// stored together are not all fetched again together.
///
/// ```
/// use std::future::poll_fn;
/// use std::task::Poll;
/// use std::time::Duration;
/// use mainspring::time::{Instant, TimerMap, sleep};
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
///         let _previous = self.entries.insert(key.to_owned(), value, self.lifetime - spread);
///     }
///
///     async fn get(&mut self, key: &str) -> Option<u64> {
///         // What is due leaves, as much of it as one poll may take.
///         poll_fn(|cx| {
///             while let Poll::Ready(Some(_expired)) = self.entries.poll_expired(cx) {}
///             Poll::Ready(())
///         })
///         .await;
///         if self.entries.deadline(key)? <= Instant::now() {
///             return None;
///         }
///         self.entries.get(key).copied()
///     }
/// }
///
/// // In virtual time, where nothing comes too late.
/// let runtime = mainspring::Builder::new().start_paused(true).build()?;
/// runtime.block_on(async {
///     let lifetime = Duration::from_millis(5);
///     let mut cache = Cache { entries: TimerMap::new(), lifetime, stored: 0 };
///     cache.put("answer", 42);
///     assert_eq!(cache.get("answer").await, Some(42));
///     sleep(lifetime).await;
///     assert_eq!(cache.get("answer").await, None);
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// ## Shared by tasks of one thread
///
/// Tasks of one thread need no handle: a `RefCell` that is borrowed for the length of a call, or of a poll, is enough.
/// The waiting task is woken by an insertion or a reset whose deadline comes before all others. (It is better to bind
/// what `insert` and `remove` return to a name: then it is dropped after the borrow of the map has ended.)
///
/// ```
/// use std::cell::RefCell;
/// use std::future::poll_fn;
/// use std::rc::Rc;
/// use std::time::Duration;
/// use mainspring::time::{TimerMap, sleep};
/// use mainspring::spawn;
///
/// // In virtual time, where nothing comes too late.
/// let runtime = mainspring::Builder::new().start_paused(true).build()?;
/// runtime.block_on(async {
///     let sessions = Rc::new(RefCell::new(TimerMap::new()));
///     for user in ["ann", "bob"] {
///         let sessions = sessions.clone();
///         spawn(async move {
///             sessions.borrow_mut().insert(user, (), Duration::from_millis(20));
///             if user == "ann" {
///                 sleep(Duration::from_millis(10)).await;
///                 sessions.borrow_mut().reset(user, Duration::from_millis(20));
///             }
///         });
///     }
///     let next = async || poll_fn(|cx| sessions.borrow_mut().poll_expired(cx)).await;
///     assert_eq!(next().await, Some(("bob", ())));
///     assert_eq!(next().await, Some(("ann", ())));
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// ## Fed by other threads
///
/// Each thread has a [`handle`](TimerMap::handle), which may also close the map.
///
/// ## Something to do for each entry
///
/// `futures::StreamExt::for_each_concurrent` calls a closure for each entry, in order, and lets a limited number of
/// calls run at a time. Entries that come due meanwhile wait in the map, where they can still be reset and removed. A
/// call that spawns a task keeps a panic away from the other calls: the task's handle returns the panic.
///
/// ```
/// use std::time::Duration;
/// use futures::StreamExt;
/// use mainspring::{spawn, time::TimerMap};
///
/// mainspring::block_on(async {
///     let mut jobs = TimerMap::new();
///     for (number, dividend) in [60, 0, 30].into_iter().enumerate() {
///         jobs.insert(number, dividend, Duration::from_millis(1));
///     }
///     jobs.close();
///     jobs.for_each_concurrent(2, async |(number, dividend)| {
///         let job = spawn(async move { 60_u32.checked_div(dividend).expect("not zero") });
///         match job.await {
///             Ok(quotient) => assert_eq!(quotient, 60 / dividend),
///             Err(error) => assert!(error.is_panic() && number == 1),
///         }
///     })
///     .await;
/// });
/// ```
///
/// ## Stop and drain
///
/// `futures::StreamExt::take_until` ends the loop when it is told to; calls that are running are completed. Entries that
/// have not come out are still in the map:
///
/// ```
/// use std::time::Duration;
/// use futures::{StreamExt, channel::oneshot};
/// use mainspring::time::TimerMap;
///
/// mainspring::block_on(async {
///     let (stop, stopped) = oneshot::channel();
///     let mut map = TimerMap::new();
///     let handle = map.handle();
///     std::thread::spawn(move || {
///         handle.insert("late", 2, Duration::from_secs(9)).unwrap();
///         handle.insert("soon", 1, Duration::from_secs(5)).unwrap();
///         stop.send(())
///     });
///     map.by_ref().take_until(stopped).for_each_concurrent(8, async |_| ()).await;
///     map.close();
///     assert_eq!(map.drain().collect::<Vec<_>>(), [("soon", 1), ("late", 2)]);
/// });
/// ```
pub struct TimerMap<K, V> {
    due: Due<Item<K, V>>,
    index: Index,
    inbox: Option<Inbox<Command<K, V>>>,
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
    /// Returns an empty map. Allocates nothing.
    #[track_caller]
    pub fn new() -> TimerMap<K, V> {
        TimerMap::with_capacity(0)
    }

    /// Returns an empty map with room for the values of `capacity` keys, and keeps that room.
    ///
    /// # Panics
    ///
    /// If that is more than four thousand million.
    #[track_caller]
    pub fn with_capacity(capacity: usize) -> TimerMap<K, V> {
        TimerMap { due: Due::with_capacity(capacity), index: Index::default(), inbox: None }
    }

    /// Lets values come out up to `most` late, so that several come out at one wake-up. They still never come out early, and come
    /// out as soon as the map is polled and they are due. This replaces the runtime's [`Tolerance`](super::Tolerance).
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::time::TimerMap;
    ///
    /// mainspring::block_on(async {
    ///     // Leases of minutes: a second more does no harm.
    ///     let mut leases = TimerMap::new().tolerance(Duration::from_secs(1));
    ///     leases.insert("a", (), Duration::from_secs(60));
    ///     assert!(leases.contains_key("a"));
    /// });
    /// ```
    #[must_use]
    pub fn tolerance(self, most: Duration) -> TimerMap<K, V> {
        TimerMap { due: self.due.tolerance(most), ..self }
    }

    /// Lets each value come out as exactly as the system can: no tolerance, even under load.
    #[must_use]
    pub fn precise(self) -> TimerMap<K, V> {
        self.tolerance(Duration::ZERO)
    }

    /// Inserts `value` under `key`, to come out `after` from now. Returns the value that it replaces, if the key was
    /// there.
    ///
    /// # Panics
    ///
    /// If the map was made outside a runtime, and this thread is not in one either.
    #[track_caller]
    pub fn insert(&mut self, key: K, value: V, after: Duration) -> Option<V> {
        let at = self.due.after(after);
        self.insert_nanos(key, value, at)
    }

    /// Inserts `value` under `key`, to come out at `when`; if that has passed, at the next poll or [in the turn after
    /// it](crate::time#what-is-different-from-elsewhere). Returns the value that it replaces.
    ///
    /// # Panics
    ///
    /// As [`insert`](TimerMap::insert).
    #[track_caller]
    pub fn insert_at(&mut self, key: K, value: V, when: Instant) -> Option<V> {
        let at = self.due.at(when);
        self.insert_nanos(key, value, at)
    }

    /// Gives `key` another time: `after` from now, whatever the old one was. Returns whether the key was there.
    pub fn reset<Q: Hash + Eq + ?Sized>(&mut self, key: &Q, after: Duration) -> bool
    where
        K: Borrow<Q>,
    {
        let Some(entry) = self.find(key) else { return false };
        let at = self.due.after(after);
        self.due.reset(entry, at)
    }

    /// Gives `key` another time: `when`. Returns whether the key was there.
    pub fn reset_at<Q: Hash + Eq + ?Sized>(&mut self, key: &Q, when: Instant) -> bool
    where
        K: Borrow<Q>,
    {
        let Some(entry) = self.find(key) else { return false };
        self.due.reset_at(entry, when)
    }

    /// Removes a key and returns its value; `None` if the key is not there.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let item = self.take(self.find(key)?)?;
        self.due.fewer();
        Some(item.value)
    }

    /// Returns the value of a key. A key whose time has passed is there until a poll takes it out.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.due.agenda.get(self.find(key)?).map(|item| &item.value)
    }

    /// Returns a mutable reference to the value of a key.
    pub fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let entry = self.find(key)?;
        self.due.agenda.get_mut(entry).map(|item| &mut item.value)
    }

    /// Returns whether a key is there.
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_some()
    }

    /// Returns when a key is due.
    pub fn deadline<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Instant>
    where
        K: Borrow<Q>,
    {
        self.due.agenda.deadline(self.find(key)?).map(instant::from_nanos)
    }

    /// Returns when the next entry is due; `None` if there is no entry. This takes longer after entries were reset or
    /// removed.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        self.due.agenda.next_deadline().map(instant::from_nanos)
    }

    /// The keys and their values, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.due.agenda.iter().map(|(_, _, item)| (&item.key, &item.value))
    }

    /// The keys, in no particular order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// The values, in no particular order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Drops the entries for which `keep` returns `false`. It is called in no particular order. The other entries keep
    /// their times.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::time::TimerMap;
    ///
    /// mainspring::block_on(async {
    ///     let mut map = TimerMap::new();
    ///     (0..10).for_each(|n| drop(map.insert(n, n * n, Duration::from_secs(n))));
    ///     map.retain(|_, square| *square % 2 == 1);
    ///     assert_eq!((map.len(), map.get(&3), map.get(&4)), (5, Some(&9), None));
    /// });
    /// ```
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        let all: Vec<agenda::Key> = self.due.agenda.iter().map(|(entry, ..)| entry).collect();
        let mut dropped = Vec::new();
        for entry in all {
            let item = self.due.agenda.get_mut(entry);
            if item.is_some_and(|item| !keep(&item.key, &mut item.value)) {
                dropped.extend(self.take(entry));
            }
        }
        self.due.fewer();
    }

    /// Removes all entries, and returns them in the order of the deadlines. The map is empty at once, whether or not
    /// the iterator is used, and its keys may be inserted again.
    pub fn drain(&mut self) -> Drain<K, V> {
        let agenda = self.due.agenda.take_all();
        self.index = Index::default();
        self.due.fewer();
        Drain { agenda }
    }

    /// Returns how many keys there are. What handles have sent counts when a poll, or [`close`](TimerMap::close), has
    /// carried it out.
    pub fn len(&self) -> usize {
        self.due.agenda.len()
    }

    /// Returns whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.due.agenda.is_empty()
    }

    /// Polls for the next entry that is due. `None` if the map is closed and empty.
    ///
    /// `Pending` although an entry is due, and wakes the task at once, if handles have sent [more calls](TimerMapHandle)
    /// than one poll carries out, and if the task's [budget](crate::task#the-cooperative-budget) is used up.
    ///
    /// Wakes the task of the latest poll.
    ///
    /// # Panics
    ///
    /// If an entry has to be waited for, and the map's runtime was dropped. (An entry that was due by then still comes out, and
    /// an empty map waits or ends, with and without a runtime.) The message says where the map was made.
    #[track_caller]
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<(K, V)>> {
        if let Some(inbox) = self.inbox.as_mut().filter(|inbox| inbox.may_let_out()) {
            let permit = ready!(self.due.poll_permit(cx));
            match self.due.poll_with(permit, cx, false) {
                Poll::Ready(entry) => return Poll::Ready(self.come_out(entry)),
                Poll::Pending => inbox.settle(),
            }
        }
        // In this order, because commands that were sent before the map was closed still count.
        let closed = self.inbox.as_mut().is_some_and(|inbox| inbox.watch(cx.waker()));
        let all = self.carry_out(COMMANDS_PER_POLL);
        if !all {
            cx.waker().wake_by_ref();
            if self.inbox.as_ref().is_some_and(Inbox::is_owing) {
                return Poll::Pending;
            }
        }
        let polled = self.due.poll(cx, closed && all);
        if !matches!(polled, Poll::Ready(Some(_))) {
            // Nothing was due, so time has passed: a good moment to release memory.
            self.index.follow(self.due.agenda.capacity());
            // A map that was closed has an inbox, also if it has been in no runtime yet.
            if let (Some(inbox), Some(now)) = (&mut self.inbox, self.due.latest()) {
                inbox.pass(now);
            }
        }
        polled.map(|entry| self.come_out(entry))
    }

    /// Waits for the next entry that is due. `None` if the map is closed and empty.
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

    fn find<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<agenda::Key>
    where
        K: Borrow<Q>,
    {
        self.index.find(&self.due.agenda, self.index.hash(key), key)
    }

    fn insert_nanos(&mut self, key: K, value: V, at: Nanos) -> Option<V> {
        let old = self.put(key, value, at);
        self.due.sooner(at);
        old.map(|old| old.value)
    }

    /// Inserts an entry and returns the entry that it replaces.
    fn put(&mut self, key: K, value: V, at: Nanos) -> Option<Item<K, V>> {
        let hash = self.index.hash(&key);
        let old = self.index.find(&self.due.agenda, hash, &key).and_then(|old| self.take(old));
        let entry = self.due.insert(self.index.item(key, value, hash), at);
        self.index.link(hash, entry);
        old
    }

    /// What comes out as this entry, which was taken out of the agenda.
    fn come_out(&mut self, entry: Option<agenda::Entry<Item<K, V>>>) -> Option<(K, V)> {
        let entry = entry?;
        if let Some(inbox) = &mut self.inbox {
            inbox.let_out();
        }
        self.index.unlink(&mut self.due.agenda, entry.key, &entry.value);
        Some((entry.value.key, entry.value.value))
    }

    fn take(&mut self, entry: agenda::Key) -> Option<Item<K, V>> {
        let item = self.due.agenda.remove(entry)?.value;
        self.index.unlink(&mut self.due.agenda, entry, &item);
        Some(item)
    }
}

impl<K: Hash + Eq, V> Stream for TimerMap<K, V> {
    type Item = (K, V);

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<(K, V)>> {
        self.get_mut().poll_expired(cx)
    }
}

/// Terminated once it has yielded `None`, until an entry is inserted.
impl<K: Hash + Eq, V> FusedStream for TimerMap<K, V> {
    fn is_terminated(&self) -> bool {
        self.due.is_ended()
    }
}

impl<K, V> fmt::Debug for TimerMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerMap").field("len", &self.due.agenda.len()).finish_non_exhaustive()
    }
}
