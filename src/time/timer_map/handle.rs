//! `TimerMapHandle`: a timer map as other threads see it. And the map's side: the inbox for the commands that they
//! send.
//!
//! ```text
//!   Sender::send ──▶ queue ──▶ Inbox::next (the owner's next poll)
//!                      └─ the first command that finds the owner's waker wakes it
//! ```
//!
//! Ground rules:
//!
//! * A handle computes deadlines, by the clock of the map's runtime; everything else happens when the map is next
//!   polled or closed, in the order in which the commands were sent. No key is hashed or compared on the handle's side.
//! * No user code runs under the lock: no waker is woken, cloned or dropped there, and no command either.
//! * A poll stores the owner's waker before it reads the queue, so that no command that comes in between goes unseen.
//!   The first command takes the waker, so that the owner is woken once for all commands that it has not seen.
//! * The queue holds the commands that the owner has not taken yet, and has no limit: refusing a removal would be
//!   worse. The owner takes all of them at once, and carries out a limited number in each poll. Two buffers alternate;
//!   the memory of a burst is released a second or two after it, by a poll, unless the next burst comes before.
//! * No entry comes out before all commands have been carried out that were sent before the poll: one of them may
//!   remove it. Where one poll cannot carry out all of them, several polls do, and then entries may come out: as
//!   many as these commands were, before commands that were sent in the meantime are counted. Those might come without end,
//!   and with one entry for each backlog a map would fill up and its entries would come out seconds late ([`Inbox::debt`]).
//! * Closing ends the handles, and is no state of the map: it is recorded in the inbox, which is made with the first handle
//!   or by `close`. It is final: commands that are sent after it are given back; commands that were sent before are the
//!   owner's.

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

/// A handle to a [`TimerMap`], for other threads. Made by [`TimerMap::handle`]; it may be cloned, sent and shared.
///
/// A call takes a short lock, never waits, and takes effect at the map's next poll, after the calls before it. The task
/// that waits for the map is woken once for all calls that it has not seen yet. Calls are kept until then, without a
/// limit: a thread that may be faster than the map's task should check [`backlog`](TimerMapHandle::backlog).
///
/// A poll carries out at most 1,024 calls. If more wait, it wakes the task again and is `Pending`, and so are the polls
/// that follow, until all calls that were sent before the first of these polls have taken effect: until then no entry
/// comes out. Then entries that are due come out, at most as many as these calls were, and calls that are sent in the meantime
/// may take effect after that: calls without end would otherwise keep the entries in the map.
///
/// Times count from the call, by the clock of the map's runtime. If the map was closed, a call that would change it
/// fails with [`Closed`], which contains what the call was given.
///
/// Dropping a handle does not close the map. If a map must end with the last of the threads that feed it, let them
/// share a guard that closes the map when it is dropped:
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
    /// Inserts `value` under `key`, or replaces the value that is there, to come out `after` this call.
    ///
    /// # Errors
    ///
    /// [`Closed`], with key and value, if the map was closed or dropped.
    pub fn insert(&self, key: K, value: V, after: Duration) -> Result<(), Closed<(K, V)>> {
        self.insert_nanos(key, value, self.after(after))
    }

    /// Inserts `value` under `key`, or replaces the value that is there, to come out at `when`.
    ///
    /// # Errors
    ///
    /// As [`insert`](TimerMapHandle::insert).
    pub fn insert_at(&self, key: K, value: V, when: Instant) -> Result<(), Closed<(K, V)>> {
        self.insert_nanos(key, value, instant::to_nanos(when))
    }

    /// Gives `key` another time, if the key is there: `after` this call.
    ///
    /// # Errors
    ///
    /// [`Closed`], with the key, if the map was closed or dropped.
    pub fn reset(&self, key: K, after: Duration) -> Result<(), Closed<K>> {
        let at = self.after(after);
        self.sender.send(key, |key| Command::Reset { key, at })
    }

    /// Gives `key` another time, if the key is there: `when`.
    ///
    /// # Errors
    ///
    /// As [`reset`](TimerMapHandle::reset).
    pub fn reset_at(&self, key: K, when: Instant) -> Result<(), Closed<K>> {
        let at = instant::to_nanos(when);
        self.sender.send(key, |key| Command::Reset { key, at })
    }

    /// Drops a key and its value, if the key is there.
    ///
    /// # Errors
    ///
    /// As [`reset`](TimerMapHandle::reset).
    pub fn remove(&self, key: K) -> Result<(), Closed<K>> {
        self.sender.send(key, |key| Command::Remove { key })
    }

    /// Closes the map, as its owner's [`close`](TimerMap::close) does: no handle can change it any more. Calls that
    /// were sent before still count, and entries that are in the map come out when their time has come.
    pub fn close(&self) {
        self.sender.close();
    }

    /// Returns whether the map was closed or dropped.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Returns how many calls have not taken effect yet. (While the map is polled on another thread, calls that this
    /// poll has carried out may still count.)
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
    /// Returns a handle with which other threads feed the map, and close it. If the map is closed, so is the handle.
    ///
    /// # Panics
    ///
    /// If the map was made outside a runtime, and this thread is not in one either.
    #[track_caller]
    pub fn handle(&mut self) -> TimerMapHandle<K, V> {
        let timers = self.due.timers().clone();
        if self.inbox.is_none() {
            // A waiting task does not know of the inbox yet.
            self.due.wake();
        }
        let inbox = self.inbox.get_or_insert_with(Inbox::new);
        TimerMapHandle { sender: inbox.sender().clone(), timers }
    }

    /// Closes the map to its handles: from now on they get back what they send, in a [`Closed`]. Everything that they
    /// sent before is in the map when this returns.
    ///
    /// For the owner only one thing changes: an empty map is at its [end](TimerMap#when-it-ends) now. To stop at once,
    /// call [`drain`](TimerMap::drain) afterwards.
    pub fn close(&mut self) {
        self.inbox.get_or_insert_with(Inbox::new).sender().close();
        self.carry_out(usize::MAX);
        // There may be an earlier entry now, or no entry at all.
        self.due.wake();
    }

    /// Returns whether the map was closed, by its owner or by a handle.
    pub fn is_closed(&self) -> bool {
        self.inbox.as_ref().is_some_and(|inbox| inbox.sender().is_closed())
    }

    /// Carries out the commands that the handles have sent, up to a maximum number. Returns whether those were all.
    pub(super) fn carry_out(&mut self, most: usize) -> bool {
        for _ in 0..most {
            let Some(inbox) = &mut self.inbox else { return true };
            let Some(command) = inbox.next() else {
                inbox.settle();
                return true;
            };
            match command {
                Command::Insert { key, value, at } => {
                    self.due.tell_time();
                    drop(self.put(key, value, at));
                }
                Command::Reset { key, at } => {
                    if let Some(entry) = self.find(&key) {
                        self.due.tell_time();
                        self.due.move_to(entry, at);
                    }
                }
                Command::Remove { key } => {
                    if let Some(entry) = self.find(&key) {
                        drop(self.take(entry));
                    }
                }
            }
        }
        if let Some(inbox) = &self.inbox {
            inbox.count_taken();
        }
        false
    }
}

/// The number of commands for which the buffers keep room.
const KEPT: usize = 64;

/// A window is two to this many nanoseconds: about a second.
const WINDOW_BITS: u32 = 30;

struct State<C> {
    queue: VecDeque<C>,
    /// How many commands the owner has taken and not carried out. May be too high while the owner carries out commands.
    taken: usize,
    /// The owner's waker, until the owner is woken.
    waker: Option<Waker>,
    closed: bool,
}

/// The handles' side.
struct Sender<C>(Arc<Mutex<State<C>>>);

/// What keeps entries from coming out, where one poll cannot carry out all commands.
#[derive(Clone, Copy, Debug, Default)]
struct Debt {
    /// How many commands must be carried out before an entry may come out.
    owed: usize,
    /// How many commands were carried out since these were counted: so many entries may come out after that.
    paid: usize,
}

/// The owner's side.
pub(super) struct Inbox<C> {
    sender: Sender<C>,
    /// The commands that were taken out and not yet carried out.
    taken: VecDeque<C>,
    /// How many commands were taken at once, at most, in this window of time and in the one before.
    most: [usize; 2],
    /// The number of this window.
    window: u64,
    debt: Debt,
}

impl<C> Sender<C> {
    /// Sends the command that `command` makes from `payload`.
    ///
    /// # Errors
    ///
    /// [`Closed`], with the payload, if the map was closed or dropped.
    fn send<P>(&self, payload: P, command: impl FnOnce(P) -> C) -> Result<(), Closed<P>> {
        let mut state = self.lock();
        if state.closed {
            return Err(Closed(payload));
        }
        state.queue.push_back(command(payload));
        wake(state);
        Ok(())
    }

    /// Refuses all further commands, and tells the owner.
    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        wake(state);
    }

    fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// How many commands the owner has not carried out yet.
    fn backlog(&self) -> usize {
        let state = self.lock();
        state.queue.len() + state.taken
    }

    /// Locks the state. Nothing can panic under the lock, so a poisoned lock is as good.
    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Unlocks, and wakes the owner if that has not been done yet.
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
        let state = State { queue: VecDeque::new(), taken: 0, waker: None, closed: false };
        Inbox {
            sender: Sender(Arc::new(Mutex::new(state))),
            taken: VecDeque::new(),
            most: [0; 2],
            window: 0,
            debt: Debt::default(),
        }
    }

    fn sender(&self) -> &Sender<C> {
        &self.sender
    }

    /// Has the task woken when a command comes, or a handle closes the map. Commands that have come already are for
    /// [`next`](Inbox::next), afterwards. Returns whether the map was closed before.
    pub(super) fn watch(&mut self, waker: &Waker) -> bool {
        let state = self.sender.lock();
        if self.debt.owed == 0 && self.debt.paid == 0 {
            self.debt.owed = self.taken.len() + state.queue.len();
        }
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
            // The owner has both buffers in turn. A load that recurs keeps its memory.
            let keep = 2 * KEPT.max(self.most[0]).max(self.most[1]);
            if self.taken.capacity() > 2 * keep {
                self.taken.shrink_to(keep);
            }
            let mut state = self.sender.lock();
            std::mem::swap(&mut state.queue, &mut self.taken);
            state.taken = self.taken.len();
            self.most[0] = self.most[0].max(state.taken);
        }
        let command = self.taken.pop_front()?;
        if self.debt.owed > 0 {
            self.debt.owed -= 1;
            self.debt.paid += 1;
        }
        Some(command)
    }

    /// Whether commands must be carried out before an entry may come out.
    pub(super) fn is_owing(&self) -> bool {
        self.debt.owed > 0
    }

    /// Whether an entry may come out before further commands are carried out.
    pub(super) fn may_let_out(&self) -> bool {
        self.debt.owed == 0 && self.debt.paid > 0
    }

    /// An entry has come out.
    pub(super) fn let_out(&mut self) {
        self.debt.paid = self.debt.paid.saturating_sub(1);
    }

    /// Time has passed until `now`: a past burst may be one no more.
    pub(super) fn pass(&mut self, now: Nanos) {
        let window = now.get() >> WINDOW_BITS;
        if window != self.window {
            self.window = window;
            self.most = [0, self.most[0]];
        }
    }

    /// No command is left, or no entry is due: the commands that wait from now on come first.
    pub(super) fn settle(&mut self) {
        self.debt = Debt::default();
    }

    /// Tells the handles how many of the taken commands are left.
    fn count_taken(&self) {
        self.sender.lock().taken = self.taken.len();
    }
}

impl<C> Drop for Inbox<C> {
    fn drop(&mut self) {
        let mut state = self.sender.lock();
        state.closed = true;
        state.taken = 0;
        let left = (std::mem::take(&mut state.queue), state.waker.take());
        drop(state);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bursts_memory_is_given_back_although_nothing_is_sent_any_more() {
        let mut inbox = Inbox::new();
        for _ in 0..2 {
            (0..100_000).for_each(|n| inbox.sender().send(n, |n| n).unwrap());
            while inbox.next().is_some() {}
        }
        let mut kept = vec![];
        for window in 0..4 {
            inbox.pass(Nanos::new(window << WINDOW_BITS));
            // One for each buffer.
            (0..2).for_each(|_| assert!(inbox.next().is_none()));
            kept.push(inbox.taken.capacity() + inbox.sender().lock().queue.capacity());
        }
        assert!(kept[1] >= 100_000 && kept[2] <= 4 * KEPT && kept[3] == kept[2], "{kept:?}");
    }

    #[test]
    fn bursts_with_single_commands_between_them_keep_their_memory() {
        let mut inbox = Inbox::new();
        let mut rooms = vec![];
        for _ in 0..20 {
            for burst in [1_000, 1, 1, 1, 1] {
                (0..burst).for_each(|n| inbox.sender().send(n, |n| n).unwrap());
                while inbox.next().is_some() {}
            }
            rooms.push(inbox.taken.capacity() + inbox.sender().lock().queue.capacity());
        }
        assert!(rooms[4..].iter().all(|&room| room == rooms[4]), "{rooms:?}");
        assert!(rooms[4] >= 1_000, "{rooms:?}");
    }
}
