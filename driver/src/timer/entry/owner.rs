//! The owner's side of an entry: the steps of a poll, a reset and a drop that need the lock, or a linked entry's waker. The
//! ground rules are at the top of the parent module.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::{Shutdown, TimerEntry};
use crate::Nanos;
use crate::timer::driver::Inner;
use crate::timer::state::State;

impl TimerEntry {
    #[inline]
    pub(super) fn poll_idle(self: Pin<&Self>, cx: &mut Context<'_>) -> Poll<Result<(), Shutdown>> {
        let deadline = self.deadline();
        if self.handle.has_passed(deadline) {
            self.state.settle();
            return Poll::Ready(Ok(()));
        }
        let waker = cx.waker().clone();
        let at_once =
            self.handle.section_own(waker, |inner, waker| self.link_at_once(deadline, waker, inner));
        if let Err(waker) | Ok(Err(waker)) = at_once {
            return self.link_slowly(deadline, waker);
        }
        self.traced().armed(deadline);
        Poll::Pending
    }

    #[inline]
    pub(super) fn poll_linked(
        self: Pin<&Self>,
        overdue: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Shutdown>> {
        if overdue {
            return self.poll_overdue();
        }
        let same = self.waker.with(|held| {
            // SAFETY: the state was a deadline when we, the owner, read it, so the waker has been written;
            // only we write it, and the driver at most copies it. If the entry fires meanwhile the bits
            // stay, and `will_wake` compares only them, and does not follow the data pointer.
            unsafe { (*held).assume_init_ref() }.will_wake(cx.waker())
        });
        if same { Poll::Pending } else { self.poll_with_another_waker(cx) }
    }

    /// Resets the timer to an earlier time than its present deadline.
    pub(super) fn bring_forward(self: Pin<&Self>, deadline: Nanos) {
        let passed = self.handle.has_passed(deadline);
        let mut locked = self.handle.lock_to_link();
        if !matches!(self.state.load(), State::Deadline(_)) {
            drop(locked);
            self.reset_unlinked(deadline);
            return;
        }
        if passed || deadline <= locked.published {
            locked.entries.remove(&self);
            let waker = self.take_waker();
            self.keep(deadline);
            self.state.settle();
            locked.fired += 1;
            drop(locked);
            waker.wake();
            self.traced().reset(deadline);
            self.traced().fired(0);
            return;
        }
        self.state.arm(deadline);
        locked.entries.refile(self, deadline);
        let unpark = self.handle.linked(&mut locked, self, deadline);
        drop(locked);
        if unpark {
            self.handle.unpark();
        }
        self.traced().reset(deadline);
    }

    /// Resets a timer that is not linked: it starts anew at its next poll.
    pub(super) fn reset_unlinked(self: Pin<&Self>, deadline: Nanos) {
        self.keep(deadline);
        if self.state.load() == State::Fired {
            self.state.forget();
        }
    }

    /// Removes the entry from the wheel, if it is still there, and drops its waker. `leave` makes the entry idle, unless it is
    /// being dropped: then its state is not read again.
    #[inline]
    pub(super) fn disarm(&self, leave: impl Fn(&Self, Nanos, &mut Inner)) {
        if let Some(waker) = self.unlink(leave) {
            drop(waker);
            self.traced().cancelled();
        }
    }

    /// Makes an entry idle that was linked and due at `deadline`.
    pub(super) fn rest(&self, deadline: Nanos, _: &mut Inner) {
        self.keep(deadline);
        self.state.disarm();
    }

    /// Polls a linked timer whose deadline has passed, while the driver has not been run to fire it.
    #[cold]
    fn poll_overdue(self: Pin<&Self>) -> Poll<Result<(), Shutdown>> {
        let (deadline, now) = (self.deadline(), self.handle.latest());
        let leave = |entry: &Self, deadline, inner: &mut Inner| {
            entry.keep(deadline);
            entry.state.settle();
            inner.count_fired(now.saturating_nanos_since(deadline));
        };
        match self.unlink(leave) {
            Some(waker) => {
                drop(waker);
                self.traced().fired(now.saturating_nanos_since(deadline));
                Poll::Ready(Ok(()))
            }
            None => self.poll_ended(),
        }
    }

    fn poll_with_another_waker(self: Pin<&Self>, cx: &mut Context<'_>) -> Poll<Result<(), Shutdown>> {
        let new = cx.waker().clone();
        let locked = self.handle.lock();
        let unwanted = match self.state.load() {
            State::Deadline(_) => Ok(self.waker.with_mut(|held| {
                // SAFETY: the lock is held and the entry is linked: the driver is not looking, and the waker
                // is present.
                let waker = unsafe { (*held).assume_init_mut() };
                std::mem::replace(waker, new)
            })),
            _ => Err(new),
        };
        drop(locked);
        match unwanted {
            Ok(old) => {
                drop(old);
                Poll::Pending
            }
            Err(new) => {
                drop(new);
                self.poll_ended()
            }
        }
    }

    /// Polls an entry that was linked a moment ago and is no longer linked.
    fn poll_ended(self: Pin<&Self>) -> Poll<Result<(), Shutdown>> {
        Poll::Ready(if self.state.load() == State::Shutdown { Err(Shutdown(())) } else { Ok(()) })
    }

    /// Links the entry if that takes a few steps and the driver is neither closed, nor past the deadline, nor parked. This is the
    /// common case.
    ///
    /// # Errors
    ///
    /// The waker, if the entry was not linked.
    #[inline]
    fn link_at_once(self: Pin<&Self>, deadline: Nanos, waker: Waker, inner: &mut Inner) -> Result<(), Waker> {
        let is_refused = inner.closed || deadline <= inner.published;
        if is_refused || inner.parked_until.is_some() || !inner.entries.has_room() {
            return Err(waker);
        }
        self.link(deadline, waker, inner);
        inner.entries.insert_at_once(self);
        self.handle.linked(inner, self, deadline);
        Ok(())
    }

    /// Links the entry, unless the driver is closed or past the deadline.
    #[inline(never)]
    fn link_slowly(self: Pin<&Self>, deadline: Nanos, waker: Waker) -> Poll<Result<(), Shutdown>> {
        let mut locked = self.handle.lock_to_link();
        let refused = if locked.closed {
            self.state.refuse();
            Some(Err(Shutdown(())))
        } else if deadline <= locked.published {
            self.state.settle();
            Some(Ok(()))
        } else {
            None
        };
        if let Some(result) = refused {
            drop(locked);
            drop(waker);
            return Poll::Ready(result);
        }
        self.link(deadline, waker, &mut locked);
        locked.entries.insert(self);
        let unpark = self.handle.linked(&mut locked, self, deadline);
        drop(locked);
        if unpark {
            self.handle.unpark();
        }
        self.traced().armed(deadline);
        Poll::Pending
    }

    /// Moves the state to `deadline`, before the entry is inserted.
    #[inline]
    fn link(self: Pin<&Self>, deadline: Nanos, waker: Waker, inner: &mut Inner) {
        self.waker.with_mut(|held| {
            // SAFETY: the entry is in no wheel and this is its owner, so nobody else looks; it holds no waker
            // that would be leaked.
            unsafe { (*held).write(waker) };
        });
        self.state.arm(deadline);
        inner.armed += 1;
    }

    /// Removes the entry from the wheel, moves its state on with `leave`, and returns its waker, which must be dropped
    /// without the lock. `None` if the entry is not linked any more.
    ///
    /// When many entries that are far away in memory are dropped, the processor waits for several of them at a time, as long as
    /// its queues can hold their stores. So the common path has few stores, and calls no function.
    #[inline]
    fn unlink(&self, leave: impl Fn(&Self, Nanos, &mut Inner)) -> Option<Waker> {
        let at_once = self.handle.section_own((), |inner, ()| {
            let State::Deadline(deadline) = self.state.load() else { return None };
            let removed = inner.entries.remove_at_once(self);
            removed.then(|| self.move_on(deadline, inner, &leave))
        });
        at_once.ok().flatten().or_else(|| self.unlink_slowly(&leave))
    }

    #[inline(never)]
    fn unlink_slowly(&self, leave: impl Fn(&Self, Nanos, &mut Inner)) -> Option<Waker> {
        let mut locked = self.handle.lock_at_hand();
        let State::Deadline(deadline) = self.state.load() else { return None };
        locked.entries.remove(self);
        Some(self.move_on(deadline, &mut locked, leave))
    }

    /// Moves the state on from `deadline` with `leave`, after the entry was removed from the wheel, and returns its waker.
    #[inline]
    fn move_on(&self, deadline: Nanos, inner: &mut Inner, leave: impl Fn(&Self, Nanos, &mut Inner)) -> Waker {
        let waker = self.take_waker();
        leave(self, deadline, inner);
        waker
    }

    /// Moves the waker out of an entry that has just been removed from the wheel. The caller changes the state before it
    /// unlocks, or never looks at it again.
    #[inline]
    fn take_waker(&self) -> Waker {
        self.waker.with(|held| {
            // SAFETY: the state is a deadline, so the waker is present; the lock is held and no pointer to the
            // entry is followed any more, so nobody copies it; the caller leaves the deadline state before
            // unlocking, or is the entry's drop, so it is moved out once.
            unsafe { (*held).assume_init_read() }
        })
    }
}
