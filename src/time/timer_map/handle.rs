//! `TimerMapHandle`: a timer map, as other threads see it; and the map's side of that, the inbox for what they send.
//!
//! ```text
//!   Sender::send ──▶ queue ──▶ Inbox::next (the owner's next poll)
//!                      └─ the first command that finds the owner's waker wakes it
//! ```
//!
//! Ground rules:
//!
//! * A handle computes deadlines, by the clock of the map's runtime; all else happens when the map is next polled or
//!   closed, in the order in which it was sent. No key is hashed or compared on the handle's side.
//! * Nothing of the user's runs under the lock: no waker is woken, cloned or dropped, and no command either.
//! * A poll leaves the owner's waker before it looks at the queue, so that no command comes in between unseen. The
//!   first one takes the waker, so that the owner is woken once for all that it has not seen.
//! * The queue holds what was sent since the owner's last poll, and has no other limit: to refuse a removal
//!   would be worse. Two buffers take turns; a burst's memory is given back after it.
//! * Closing is the handles' end and no state of the map: its inbox, made with the first handle or by `close`, knows. It is
//!   final: what is sent after it is given back; what was sent before is the owner's.

use std::collections::VecDeque;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use mainspring_driver::{Handle as Timers, Nanos};

use super::TimerMap;
use crate::time::error::Closed;
use crate::time::instant::{self, Instant};

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

/// The buffers keep room for so many commands.
const KEPT: usize = 64;

struct State<C> {
    queue: VecDeque<C>,
    /// The owner's, until it is woken.
    waker: Option<Waker>,
    closed: bool,
}

/// The side of the others.
struct Sender<C>(Arc<Mutex<State<C>>>);

/// The owner's side.
pub(super) struct Inbox<C> {
    sender: Sender<C>,
    /// What was taken out and not yet carried out.
    taken: VecDeque<C>,
    /// How much was last taken at once.
    last: usize,
}

impl<C> Sender<C> {
    /// Sends what `command` makes of `payload`.
    ///
    /// # Errors
    ///
    /// [`Closed`], with the payload, if nobody will take it.
    fn send<P>(&self, payload: P, command: impl FnOnce(P) -> C) -> Result<(), Closed<P>> {
        let mut state = self.lock();
        if state.closed {
            return Err(Closed(payload));
        }
        state.queue.push_back(command(payload));
        wake(state);
        Ok(())
    }

    /// Lets nobody send any more, and tells the owner.
    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        wake(state);
    }

    fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// How many commands the owner has not taken yet.
    fn backlog(&self) -> usize {
        self.lock().queue.len()
    }

    /// Nothing can panic under the lock, so a poisoned one is as good.
    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Unlocks, and wakes the owner if that is still to be done.
fn wake<C>(mut state: MutexGuard<'_, State<C>>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl<C> Clone for Sender<C> {
    fn clone(&self) -> Sender<C> {
        Sender(self.0.clone())
    }
}

impl<C> Inbox<C> {
    fn new() -> Inbox<C> {
        let state = State { queue: VecDeque::new(), waker: None, closed: false };
        Inbox { sender: Sender(Arc::new(Mutex::new(state))), taken: VecDeque::new(), last: 0 }
    }

    fn sender(&self) -> &Sender<C> {
        &self.sender
    }

    /// Has the task woken when a command comes, or a handle closes. What has come already is for
    /// [`next`](Inbox::next), afterwards. Says whether it was closed before.
    pub(super) fn watch(&self, waker: &Waker) -> bool {
        let state = self.sender.lock();
        if state.closed || state.waker.as_ref().is_some_and(|old| old.will_wake(waker)) {
            return state.closed;
        }
        drop(state);
        let waker = waker.clone();
        let mut state = self.sender.lock();
        let (closed, old) = (state.closed, state.waker.replace(waker));
        drop(state);
        drop(old);
        closed
    }

    /// The next command, if any.
    fn next(&mut self) -> Option<C> {
        if self.taken.is_empty() {
            // Both buffers are the owner's in turn. What recurs keeps its memory.
            let keep = 2 * KEPT.max(self.last);
            if self.taken.capacity() > 2 * keep {
                self.taken.shrink_to(keep);
            }
            std::mem::swap(&mut self.sender.lock().queue, &mut self.taken);
            self.last = self.taken.len();
        }
        self.taken.pop_front()
    }
}

impl<C> Drop for Inbox<C> {
    fn drop(&mut self) {
        let mut state = self.sender.lock();
        state.closed = true;
        let left = (std::mem::take(&mut state.queue), state.waker.take());
        drop(state);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bursts_memory_is_given_back() {
        let mut inbox = Inbox::new();
        let send = |inbox: &Inbox<u32>| inbox.sender().send(0, |n| n).unwrap();
        (0..100_000).for_each(|_| send(&inbox));
        while inbox.next().is_some() {}
        for _ in 0..8 {
            send(&inbox);
            while inbox.next().is_some() {}
        }
        let kept = inbox.taken.capacity() + inbox.sender().lock().queue.capacity();
        assert!(kept <= 10 * KEPT, "room for {kept} is kept");
    }
}
