//! `VirtualTime`: what has been requested of a runtime's paused time. The driver keeps the time itself, and the event loop
//! moves it.
//!
//! ```text
//!   Advance (time/paused.rs) ──▶ begin: until when         ┐
//!   StandStill               ──▶ Hold: not by itself       ├─▶ EventLoop::step: once nothing is left to run
//!                                                          ┘         │
//!   Advance, ready           ◀── settle: time has come there ◀───────┘
//!   Advance, a plain timer   ◀── resume: time goes on by itself
//! ```
//!
//! Ground rules:
//!
//! * A runtime whose time is not paused looks at none of this.
//! * Wakers are cloned, dropped and woken without the lock.
//! * Time is resumed under the lock, and an advance begins under the lock, only while time is paused and the runtime lives.
//!   Advances are ended, because time was resumed or the runtime was dropped, under the same lock: so no advance is left
//!   behind.
//! * Advances that are under way at the same time do not add up: each has a moment of its own, and time passes through these
//!   moments in order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use mainspring_driver::{Handle as Timers, Nanos, Unpark};

use super::Handle;
use crate::panics;

/// What was requested of a paused clock.
#[derive(Default)]
pub(crate) struct VirtualTime {
    /// How many holds keep time from moving automatically.
    holds: AtomicUsize,
    advances: Mutex<Advances>,
}

#[derive(Default)]
struct Advances {
    begun: u64,
    /// In no order: there are hardly ever two.
    under_way: Vec<PendingAdvance>,
}

struct PendingAdvance {
    number: u64,
    until: Nanos,
    waker: Waker,
}

impl VirtualTime {
    /// Requests that the time of `handle`'s runtime, to which this clock belongs, pass until `until`. Returns the number of
    /// the advance; `None` if that time is not paused, or the runtime is gone.
    pub(crate) fn begin(&self, handle: &Handle, until: Nanos, cx: &mut Context<'_>) -> Option<u64> {
        let waker = cx.waker().clone();
        let mut advances = self.lock();
        if handle.is_shutdown() || !handle.timers().is_paused() {
            drop(advances);
            drop(waker);
            return None;
        }
        advances.begun += 1;
        let number = advances.begun;
        advances.under_way.push(PendingAdvance { number, until, waker });
        Some(number)
    }

    /// Resumes the time of `timers`, to which this clock belongs, and wakes the advances that are under way: nothing moves
    /// time for them any more. If time is not paused, returns false and changes nothing.
    ///
    /// # Panics
    ///
    /// With the first panic of a waker, after all have been woken.
    pub(crate) fn resume(&self, timers: &Timers) -> bool {
        let mut advances = self.lock();
        let resumed = timers.resume();
        let under_way = if resumed { std::mem::take(&mut advances.under_way) } else { Vec::new() };
        drop(advances);
        wake(under_way);
        resumed
    }

    /// Ready if advance `number` is not under way any more: time has reached its moment, and everything has come to rest; or
    /// time was resumed.
    pub(crate) fn poll(&self, number: u64, cx: &mut Context<'_>) -> Poll<()> {
        let mut waker = cx.waker().clone();
        let mut advances = self.lock();
        let found = advances.under_way.iter_mut().find(|advance| advance.number == number);
        let Some(advance) = found else { return Poll::Ready(()) };
        std::mem::swap(&mut advance.waker, &mut waker);
        drop(advances);
        // The old waker is dropped without the lock.
        drop(waker);
        Poll::Pending
    }

    /// Ends advance `number`, which is not wanted any more. Time stays at the moment that it has reached.
    pub(crate) fn give_up(&self, number: u64) {
        let mut advances = self.lock();
        let found = advances.under_way.iter().position(|advance| advance.number == number);
        let given_up = found.map(|at| advances.under_way.swap_remove(at));
        drop(advances);
        drop(given_up);
    }

    /// Returns whether time must not move automatically. Asked before the look at the I/O: a job that ends in between has
    /// woken a task, and that look sees it.
    pub(super) fn is_held(&self) -> bool {
        // Acquire pairs with the Release of `Hold`.
        self.holds.load(Ordering::Acquire) != 0
    }

    /// The nearest moment that an advance waits for.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.lock().under_way.iter().map(|advance| advance.until).min()
    }

    /// Ends the advances that waited for `now` or an earlier moment, and wakes them in the order of their moments, and of
    /// their beginnings where moments are equal.
    ///
    /// # Panics
    ///
    /// With the first panic of a waker, after all have been woken.
    pub(super) fn settle(&self, now: Nanos) {
        let mut advances = self.lock();
        let (there, far): (Vec<_>, Vec<_>) =
            advances.under_way.drain(..).partition(|advance| advance.until <= now);
        advances.under_way = far;
        drop(advances);
        wake(there);
    }

    fn lock(&self) -> MutexGuard<'_, Advances> {
        self.advances.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the advances in the order of their moments, and of their beginnings where moments are equal.
fn wake(mut advances: Vec<PendingAdvance>) {
    advances.sort_by_key(|advance| (advance.until, advance.number));
    panics::wake_all(advances.into_iter().map(|advance| advance.waker));
}

/// Keeps a paused clock from moving automatically while it lives.
pub(crate) struct Hold(Handle);

impl Hold {
    fn new(handle: &Handle) -> Hold {
        // Relaxed: a hold begins on the runtime's thread, or before the job that it is for begins there.
        handle.virtual_time().holds.fetch_add(1, Ordering::Relaxed);
        Hold(handle.clone())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Release: what was woken before is seen by the turn that finds no hold left; see `is_held`.
        self.0.virtual_time().holds.fetch_sub(1, Ordering::Release);
        // A runtime that waits for nothing else goes on.
        self.0.io().unpark();
    }
}

impl Handle {
    /// Keeps a paused clock from moving automatically until the returned hold is dropped.
    pub(crate) fn hold_time(&self) -> Hold {
        Hold::new(self)
    }
}
