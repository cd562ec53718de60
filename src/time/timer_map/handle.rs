//! `TimerMapHandle`: a timer map, as other threads see it; and the map's side of that.
//!
//! Ground rules:
//!
//! * A handle computes deadlines, by the clock of the map's runtime; all else happens when the map is next polled or
//!   closed, in the order in which it was sent. No key is hashed or compared on the handle's side.
//! * Closing is the handles' end and no state of the map: its inbox, made with the first handle or by `close`, knows.

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use mainspring_driver::{Handle as Timers, Nanos};

use super::TimerMap;
use super::inbox::{Inbox, Sender};
use crate::time::error::Closed;
use crate::time::instant::{self, Instant};

pub(super) enum Command<K, V> {
    Insert { key: K, value: V, at: Nanos },
    Reset { key: K, at: Nanos },
    Remove { key: K },
}

impl<K: Hash + Eq, V> TimerMap<K, V> {
    /// A handle with which other threads feed the map, and close it. If the map is closed, the handle is so, too.
    ///
    /// # Panics
    ///
    /// If the map was made outside a runtime, and this thread is not in one either.
    #[track_caller]
    pub fn handle(&mut self) -> TimerMapHandle<K, V> {
        let timers = self.due.timers().clone();
        if self.inbox.is_none() {
            // A task that waits does not know of it yet.
            self.due.wake();
        }
        let inbox = self.inbox.get_or_insert_with(Inbox::new);
        TimerMapHandle { sender: inbox.sender().clone(), timers }
    }

    /// Closes the map to its handles: what they send from now on they get back, in a [`Closed`]. What they sent
    /// before is in the map when this returns.
    ///
    /// For the owner nothing changes but this: an empty map is at its [end](TimerMap#when-it-ends) now. To stop at
    /// once, [`drain`](TimerMap::drain) follows.
    pub fn close(&mut self) {
        self.inbox.get_or_insert_with(Inbox::new).sender().close();
        self.carry_out(usize::MAX);
        // There may be something earlier now, or nothing at all.
        self.due.wake();
    }

    /// Whether the map was closed, by its owner or by a handle.
    pub fn is_closed(&self) -> bool {
        self.inbox.as_ref().is_some_and(|inbox| inbox.sender().is_closed())
    }

    /// Carries out what the handles have sent, up to so many commands. Says whether that was all.
    pub(super) fn carry_out(&mut self, most: usize) -> bool {
        for _ in 0..most {
            let Some(command) = self.inbox.as_mut().and_then(Inbox::next) else { return true };
            match command {
                Command::Insert { key, value, at } => drop(self.put(key, value, at)),
                Command::Reset { key, at } => {
                    if let Some(entry) = self.find(&key) {
                        self.due.agenda.reset(entry, at);
                    }
                }
                Command::Remove { key } => {
                    if let Some(entry) = self.find(&key) {
                        drop(self.take(entry));
                    }
                }
            }
        }
        false
    }
}

/// A [`TimerMap`], for other threads. Made by [`TimerMap::handle`]; it may be cloned, sent and shared.
///
/// A call takes a short lock, never waits, and takes effect at the map's next poll, after those before it. The
/// task that waits for the map is woken once for all that it has not seen yet. What is sent is kept until then,
/// without a limit: a thread that may be faster than the map's task looks at [`backlog`](TimerMapHandle::backlog).
///
/// Times count from the call, by the clock of the map's runtime. If the map was closed, a call that would change it
/// fails with [`Closed`], which contains what it was given.
///
/// Dropping a handle does not close the map. For a map that ends with the last of the threads that feed it, they share
/// a guard whose drop closes it:
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use mainspring::time::TimerMap;
/// use mainspring::time::timer_map::TimerMapHandle;
///
/// struct Feed(TimerMapHandle<&'static str, u32>);
///
/// impl Drop for Feed {
///     fn drop(&mut self) {
///         self.0.close();
///     }
/// }
///
/// mainspring::block_on(async {
///     let mut map = TimerMap::new();
///     let feed = Arc::new(Feed(map.handle()));
///     for (key, value) in [("a", 1), ("b", 2)] {
///         let feed = feed.clone();
///         std::thread::spawn(move || {
///             feed.0.insert(key, value, Duration::from_secs(60)).unwrap();
///             feed.0.reset(key, Duration::from_millis(u64::from(value))).unwrap();
///         });
///     }
///     drop(feed);
///     let mut seen = vec![];
///     while let Some((key, value)) = map.next_expired().await {
///         seen.push((key, value));
///     }
///     seen.sort();
///     assert_eq!(seen, [("a", 1), ("b", 2)]);
/// });
/// ```
pub struct TimerMapHandle<K, V> {
    sender: Sender<Command<K, V>>,
    timers: Timers,
}

impl<K, V> TimerMapHandle<K, V> {
    /// Puts `value` in under `key`, or replaces what is there, to come out `after` this call.
    ///
    /// # Errors
    ///
    /// [`Closed`], with key and value, if the map was closed or dropped.
    pub fn insert(&self, key: K, value: V, after: Duration) -> Result<(), Closed<(K, V)>> {
        self.insert_nanos(key, value, self.after(after))
    }

    /// Puts `value` in under `key`, or replaces what is there, to come out at `when`.
    ///
    /// # Errors
    ///
    /// As [`insert`](TimerMapHandle::insert).
    pub fn insert_at(&self, key: K, value: V, when: Instant) -> Result<(), Closed<(K, V)>> {
        self.insert_nanos(key, value, instant::to_nanos(when))
    }

    /// Gives `key` another time, if it is there: `after` this call.
    ///
    /// # Errors
    ///
    /// [`Closed`], with the key, if the map was closed or dropped.
    pub fn reset(&self, key: K, after: Duration) -> Result<(), Closed<K>> {
        let at = self.after(after);
        self.sender.send(key, |key| Command::Reset { key, at })
    }

    /// Gives `key` another time, if it is there: `when`.
    ///
    /// # Errors
    ///
    /// As [`reset`](TimerMapHandle::reset).
    pub fn reset_at(&self, key: K, when: Instant) -> Result<(), Closed<K>> {
        let at = instant::to_nanos(when);
        self.sender.send(key, |key| Command::Reset { key, at })
    }

    /// Drops a key and its value, if it is there.
    ///
    /// # Errors
    ///
    /// As [`reset`](TimerMapHandle::reset).
    pub fn remove(&self, key: K) -> Result<(), Closed<K>> {
        self.sender.send(key, |key| Command::Remove { key })
    }

    /// Closes the map, as its owner's [`close`](TimerMap::close) does: no handle can change it any more. What
    /// was sent before still counts, and what is in the map comes out when its time has come.
    pub fn close(&self) {
        self.sender.close();
    }

    /// Whether the map was closed or dropped.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// How many calls wait for the map to be polled.
    pub fn backlog(&self) -> usize {
        self.sender.backlog()
    }

    fn after(&self, duration: Duration) -> Nanos {
        self.timers.now().saturating_add(duration)
    }

    fn insert_nanos(&self, key: K, value: V, at: Nanos) -> Result<(), Closed<(K, V)>> {
        self.sender.send((key, value), |(key, value)| Command::Insert { key, value, at })
    }
}

impl<K, V> Clone for TimerMapHandle<K, V> {
    fn clone(&self) -> TimerMapHandle<K, V> {
        TimerMapHandle { sender: self.sender.clone(), timers: self.timers.clone() }
    }
}

impl<K, V> fmt::Debug for TimerMapHandle<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerMapHandle")
            .field("closed", &self.is_closed())
            .field("backlog", &self.backlog())
            .finish_non_exhaustive()
    }
}
