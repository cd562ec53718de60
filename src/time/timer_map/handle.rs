//! `TimerMapHandle`: a timer map, as other threads see it.
//!
//! Ground rule: a handle computes deadlines, by the clock of the map's runtime; all else happens when the map is
//! next polled, in the order in which it was sent. No key is hashed or compared on the handle's side.

use std::fmt;
use std::time::Duration;

use mainspring_driver::{Handle as Timers, Nanos};

use crate::time::error::Closed;
use crate::time::instant::{self, Instant};
use crate::time::keyed::Sender;

pub(super) enum Command<K, V> {
    Set { key: K, value: V, at: Nanos },
    Move { key: K, at: Nanos },
    Remove { key: K },
}

/// A [`TimerMap`](super::TimerMap), for other threads and tasks. Made by
/// [`TimerMap::handle`](super::TimerMap::handle); it may be cloned, sent and shared.
///
/// A call takes a short lock, never waits, and takes effect at the map's next poll, after those before it. The
/// task that waits for the map is woken once for all that it has not seen yet. What is sent is kept until then,
/// without a limit: who may be faster than the map's task looks at [`backlog`](TimerMapHandle::backlog).
///
/// Times count from the call, by the clock of the map's runtime.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::TimerMap;
///
/// mainspring::block_on(async {
///     let mut map = TimerMap::new();
///     let handle = map.handle();
///     std::thread::spawn(move || {
///         handle.set("a", 1, Duration::from_millis(1)).unwrap();
///         handle.set("b", 2, Duration::from_secs(60)).unwrap();
///         handle.move_to("b", Duration::from_millis(2)).unwrap();
///     });
///     // The map ends when it is empty and the handle is gone.
///     assert_eq!(map.next_expired().await, Some(("a", 1)));
///     assert_eq!(map.next_expired().await, Some(("b", 2)));
///     assert_eq!(map.next_expired().await, None);
/// });
/// ```
pub struct TimerMapHandle<K, V> {
    sender: Sender<Command<K, V>>,
    timers: Timers,
}

impl<K, V> TimerMapHandle<K, V> {
    pub(super) fn new(sender: Sender<Command<K, V>>, timers: Timers) -> TimerMapHandle<K, V> {
        TimerMapHandle { sender, timers }
    }

    /// Puts `value` in under `key`, or replaces what is there, to come out `after` this call.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the map was closed or dropped; key and value are dropped, too.
    pub fn set(&self, key: K, value: V, after: Duration) -> Result<(), Closed> {
        self.sender.send(Command::Set { key, value, at: self.timers.now().saturating_add(after) })
    }

    /// Puts `value` in under `key`, or replaces what is there, to come out at `when`.
    ///
    /// # Errors
    ///
    /// As [`set`](TimerMapHandle::set).
    pub fn set_at(&self, key: K, value: V, when: Instant) -> Result<(), Closed> {
        self.sender.send(Command::Set { key, value, at: instant::to_nanos(when) })
    }

    /// Gives `key` another time, if it is there: `after` this call.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the map was closed or dropped.
    pub fn move_to(&self, key: K, after: Duration) -> Result<(), Closed> {
        self.sender.send(Command::Move { key, at: self.timers.now().saturating_add(after) })
    }

    /// Gives `key` another time, if it is there: `when`.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the map was closed or dropped.
    pub fn move_to_at(&self, key: K, when: Instant) -> Result<(), Closed> {
        self.sender.send(Command::Move { key, at: instant::to_nanos(when) })
    }

    /// Drops a key and its value, if it is there.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the map was closed or dropped.
    pub fn remove(&self, key: K) -> Result<(), Closed> {
        self.sender.send(Command::Remove { key })
    }

    /// Closes the map: every later call returns [`Closed`], and the map's stream and its
    /// [`run`](super::TimerMap::run) come to their end. What was sent before still counts; what has not come out
    /// then is returned by the owner's [`close`](super::TimerMap::close).
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
