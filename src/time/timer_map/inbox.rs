//! `Inbox`: what other threads have sent to the owner of a map.
//!
//! ```text
//!   Sender::send ──▶ queue ──▶ Inbox::next (the owner's next poll)
//!                      └─ the first command that finds the owner's waker wakes it
//! ```
//!
//! Ground rules:
//!
//! * Nothing of the user's runs under the lock: no waker is woken, cloned or dropped, and no command either.
//! * A poll leaves the owner's waker before it looks at the queue, so that no command comes in between unseen. The
//!   first one takes the waker, so that the owner is woken once for all that it has not seen.
//! * The queue holds what was sent since the owner's last poll, and has no other limit: to refuse a removal
//!   would be worse. Two buffers take turns; a burst's memory is given back after it.
//! * Closing is final. What is sent after it is given back; what was sent before is the owner's.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::time::error::Closed;

/// The buffers keep room for so many commands.
const KEPT: usize = 64;

struct State<C> {
    queue: VecDeque<C>,
    /// The owner's, until it is woken.
    waker: Option<Waker>,
    closed: bool,
}

/// The side of the others.
pub(super) struct Sender<C>(Arc<Mutex<State<C>>>);

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
    pub(super) fn send<P>(&self, payload: P, command: impl FnOnce(P) -> C) -> Result<(), Closed<P>> {
        let mut state = self.lock();
        if state.closed {
            return Err(Closed(payload));
        }
        state.queue.push_back(command(payload));
        wake(state);
        Ok(())
    }

    /// Lets nobody send any more, and tells the owner.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        wake(state);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// How many commands the owner has not taken yet.
    pub(super) fn backlog(&self) -> usize {
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
    pub(super) fn new() -> Inbox<C> {
        let state = State { queue: VecDeque::new(), waker: None, closed: false };
        Inbox { sender: Sender(Arc::new(Mutex::new(state))), taken: VecDeque::new(), last: 0 }
    }

    pub(super) fn sender(&self) -> &Sender<C> {
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
    pub(super) fn next(&mut self) -> Option<C> {
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
