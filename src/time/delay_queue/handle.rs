//! `DelayQueueHandle`: a delay queue, as other threads see it.
//!
//! Ground rule: a handle computes deadlines, by the clock of the queue's runtime, and gives tickets; all else
//! happens when the queue is next polled, in the order in which it was sent.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mainspring_driver::{Handle as Timers, Nanos};

use super::{Key, Origin};
use crate::time::error::Closed;
use crate::time::instant::{self, Instant};
use crate::time::keyed::Sender;

/// The number of a value that a handle has sent. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ticket(std::num::NonZeroU64);

/// The numbers that a queue's handles have given.
#[derive(Clone, Default)]
pub(super) struct Tickets(Arc<AtomicU64>);

impl Tickets {
    fn next(&self) -> Ticket {
        // Relaxed: the numbers only have to differ. 64 bits of them do not run out.
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        Ticket(std::num::NonZeroU64::MIN.saturating_add(number))
    }
}

pub(super) enum Command<T> {
    Insert { value: T, at: Nanos, ticket: Ticket },
    Reset { key: Key, at: Nanos },
    Remove { key: Key },
}

/// A [`DelayQueue`](super::DelayQueue), for other threads and tasks. Made by
/// [`DelayQueue::handle`](super::DelayQueue::handle); it may be cloned, sent and shared.
///
/// A call takes a short lock, never waits, and takes effect at the queue's next poll, after those before it.
/// The task that waits for the queue is woken once for all that it has not seen yet. What is sent is kept
/// until then, without a limit: who may be faster than the queue's task looks at
/// [`backlog`](DelayQueueHandle::backlog).
///
/// Times count from the call, by the clock of the queue's runtime.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::DelayQueue;
///
/// mainspring::block_on(async {
///     let mut queue = DelayQueue::new();
///     let handle = queue.handle();
///     std::thread::spawn(move || {
///         let first = handle.insert("first", Duration::from_millis(1)).unwrap();
///         handle.insert("second", Duration::from_millis(2)).unwrap();
///         handle.remove(&first).unwrap();
///     });
///     // The queue ends when it is empty and the handle is gone.
///     let mut seen = vec![];
///     while let Some(expired) = queue.next_expired().await {
///         seen.push(expired.into_inner());
///     }
///     assert_eq!(seen, ["second"]);
/// });
/// ```
pub struct DelayQueueHandle<T> {
    sender: Sender<Command<T>>,
    timers: Timers,
    tickets: Tickets,
}

impl<T> DelayQueueHandle<T> {
    pub(super) fn new(sender: Sender<Command<T>>, timers: Timers, tickets: Tickets) -> DelayQueueHandle<T> {
        DelayQueueHandle { sender, timers, tickets }
    }

    /// Puts `value` in, to come out `timeout` after this call. The key is good with handles at once, and with
    /// the queue itself from its next poll on.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the queue was dropped; the value is dropped, too.
    pub fn insert(&self, value: T, timeout: Duration) -> Result<Key, Closed> {
        self.insert_nanos(value, self.timers.now().saturating_add(timeout))
    }

    /// Puts `value` in, to come out at `when`.
    ///
    /// # Errors
    ///
    /// As [`insert`](DelayQueueHandle::insert).
    pub fn insert_at(&self, value: T, when: Instant) -> Result<Key, Closed> {
        self.insert_nanos(value, instant::to_nanos(when))
    }

    fn insert_nanos(&self, value: T, at: Nanos) -> Result<Key, Closed> {
        let ticket = self.tickets.next();
        self.sender.send(Command::Insert { value, at, ticket })?;
        Ok(Key(Origin::Sent(ticket)))
    }

    /// Moves a value's time to `timeout` after this call, if it is still in the queue.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the queue was dropped.
    pub fn reset(&self, key: &Key, timeout: Duration) -> Result<(), Closed> {
        self.sender.send(Command::Reset { key: *key, at: self.timers.now().saturating_add(timeout) })
    }

    /// Moves a value's time to `when`, if it is still in the queue.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the queue was dropped.
    pub fn reset_at(&self, key: &Key, when: Instant) -> Result<(), Closed> {
        self.sender.send(Command::Reset { key: *key, at: instant::to_nanos(when) })
    }

    /// Drops a value before its time, if it is still in the queue.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the queue was dropped.
    pub fn remove(&self, key: &Key) -> Result<(), Closed> {
        self.sender.send(Command::Remove { key: *key })
    }

    /// How many calls wait for the queue to be polled.
    pub fn backlog(&self) -> usize {
        self.sender.backlog()
    }

    /// Whether the queue was dropped.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

impl<T> Clone for DelayQueueHandle<T> {
    fn clone(&self) -> DelayQueueHandle<T> {
        DelayQueueHandle {
            sender: self.sender.clone(),
            timers: self.timers.clone(),
            tickets: self.tickets.clone(),
        }
    }
}

impl<T> fmt::Debug for DelayQueueHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueueHandle").field("backlog", &self.backlog()).finish_non_exhaustive()
    }
}
