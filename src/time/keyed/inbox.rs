//! `Inbox`: commands from other threads to whoever owns timers.
//!
//! ```text
//!   Sender::send ──▶ queue ──▶ Inbox::next (the owner's next poll)
//!                      └─ the first one into an empty queue wakes the owner
//! ```
//!
//! Ground rules:
//!
//! * Nothing of the user's runs under the lock: no waker is woken, cloned or dropped, and no command either.
//! * The owner is woken once for all commands that it has not taken yet: when the queue stops being empty. It
//!   looks at the queue and leaves its waker under one lock, so that no command comes in between unseen.
//! * The queue holds what was sent since the owner's last poll, and has no other limit: to refuse a removal
//!   would be worse. Two buffers take turns; a burst's memory is given back after it.
//! * Closing is final. Who sends gets [`Closed`]; what was sent before is the owner's.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use crate::time::error::Closed;

/// The buffers keep room for so many commands.
const KEPT: usize = 64;

struct State<C> {
    queue: VecDeque<C>,
    /// The owner, if it waits.
    waker: Option<Waker>,
    senders: usize,
    closed: bool,
}

struct Shared<C>(Mutex<State<C>>);

impl<C> Shared<C> {
    /// Nothing can panic under the lock, so a poisoned one is as good.
    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The owner's side.
pub(in crate::time) struct Inbox<C> {
    shared: Arc<Shared<C>>,
    /// What was taken out and not yet carried out.
    taken: VecDeque<C>,
    /// How much was last taken at once.
    last: usize,
}

/// The side of the others.
pub(in crate::time) struct Sender<C> {
    shared: Arc<Shared<C>>,
}

impl<C> Inbox<C> {
    pub(in crate::time) fn new() -> Inbox<C> {
        let state = State { queue: VecDeque::new(), waker: None, senders: 0, closed: false };
        Inbox { shared: Arc::new(Shared(Mutex::new(state))), taken: VecDeque::new(), last: 0 }
    }

    /// Someone who may send; `waiting` is the owner's task, if it waits.
    pub(in crate::time) fn sender(&self, waiting: Option<&Waker>) -> Sender<C> {
        let waker = waiting.cloned();
        let mut state = self.shared.lock();
        state.senders += 1;
        let old = match waker {
            Some(waker) => state.waker.replace(waker),
            None => None,
        };
        drop(state);
        drop(old);
        Sender { shared: self.shared.clone() }
    }

    /// Whether somebody may still send.
    pub(in crate::time) fn is_open(&self) -> bool {
        let state = self.shared.lock();
        state.senders > 0 && !state.closed
    }

    /// Whether it was closed, from either side.
    pub(in crate::time) fn is_closed(&self) -> bool {
        self.shared.lock().closed
    }

    /// The next command, if any.
    pub(in crate::time) fn next(&mut self) -> Option<C> {
        if let Some(command) = self.taken.pop_front() {
            return Some(command);
        }
        // Both buffers are the owner's in turn. What recurs keeps its memory.
        let keep = 2 * KEPT.max(self.last);
        if self.taken.capacity() > 2 * keep {
            self.taken.shrink_to(keep);
        }
        let mut state = self.shared.lock();
        std::mem::swap(&mut state.queue, &mut self.taken);
        drop(state);
        self.last = self.taken.len();
        self.taken.pop_front()
    }

    /// Has the task woken when a command comes, the last sender goes, or somebody closes. Says whether
    /// something of that has happened already, so that it has to look again; `was_open` is what it knows.
    pub(in crate::time) fn watch(&self, cx: &Context<'_>, was_open: bool) -> bool {
        let state = self.shared.lock();
        if state.has_news(was_open) {
            return true;
        }
        if state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            return false;
        }
        drop(state);
        let waker = cx.waker().clone();
        let mut state = self.shared.lock();
        let news = state.has_news(was_open);
        let old = state.waker.replace(waker);
        drop(state);
        drop(old);
        news
    }

    /// Lets nobody send any more.
    pub(in crate::time) fn close(&self) {
        self.shared.lock().closed = true;
    }
}

impl<C> Drop for Inbox<C> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        let queue = std::mem::take(&mut state.queue);
        let waker = state.waker.take();
        drop(state);
        drop((queue, waker));
    }
}

impl<C> State<C> {
    fn has_news(&self, was_open: bool) -> bool {
        !self.queue.is_empty() || was_open != (self.senders > 0 && !self.closed)
    }
}

impl<C> Sender<C> {
    /// Sends a command.
    ///
    /// # Errors
    ///
    /// [`Closed`], if nobody will take it: then it is dropped.
    pub(in crate::time) fn send(&self, command: C) -> Result<(), Closed> {
        let mut state = self.shared.lock();
        if state.closed {
            drop(state);
            return Err(Closed(()));
        }
        state.queue.push_back(command);
        let waker = if state.queue.len() == 1 { state.waker.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Lets nobody send any more, and tells the owner.
    pub(in crate::time) fn close(&self) {
        let mut state = self.shared.lock();
        state.closed = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(in crate::time) fn is_closed(&self) -> bool {
        self.shared.lock().closed
    }

    /// How many commands the owner has not taken yet.
    pub(in crate::time) fn backlog(&self) -> usize {
        self.shared.lock().queue.len()
    }
}

impl<C> Clone for Sender<C> {
    fn clone(&self) -> Sender<C> {
        self.shared.lock().senders += 1;
        Sender { shared: self.shared.clone() }
    }
}

impl<C> Drop for Sender<C> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.senders -= 1;
        let waker = if state.senders == 0 { state.waker.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_batch_wakes_once() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let cx = Context::from_waker(&waker);
        let mut inbox = Inbox::new();
        let sender = inbox.sender(None);
        for batch in 1..=3 {
            assert!(!inbox.watch(&cx, true));
            for n in 0..100 {
                sender.send(n).unwrap();
            }
            assert_eq!((count.0.load(Ordering::SeqCst), sender.backlog()), (batch, 100));
            assert!(inbox.watch(&cx, true));
            assert!((0..100).all(|n| inbox.next() == Some(n)));
            assert_eq!(inbox.next(), None);
        }
        assert!(!inbox.watch(&cx, true));
        drop(sender);
        assert_eq!(count.0.load(Ordering::SeqCst), 4, "the end is news");
        assert!(inbox.watch(&cx, true) && !inbox.watch(&cx, false));
    }

    #[test]
    fn a_bursts_memory_is_given_back() {
        let mut inbox = Inbox::new();
        let sender = inbox.sender(None);
        (0..100_000).for_each(|n| sender.send(n).unwrap());
        while inbox.next().is_some() {}
        for _ in 0..8 {
            sender.send(0).unwrap();
            while inbox.next().is_some() {}
        }
        let kept = inbox.taken.capacity() + inbox.shared.lock().queue.capacity();
        assert!(kept <= 10 * KEPT, "room for {kept} is kept");
    }

    #[test]
    fn closed_is_closed_for_all() {
        let inbox = Inbox::new();
        let (one, other) = (inbox.sender(None), inbox.sender(None));
        one.send('a').unwrap();
        other.close();
        other.close();
        assert!(one.send('b').is_err() && inbox.is_closed() && !inbox.is_open());
        drop(inbox);
        assert!(one.is_closed() && one.clone().send('c').is_err());
        assert_eq!(one.backlog(), 0);
    }
}
