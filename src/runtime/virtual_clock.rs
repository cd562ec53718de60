//! `VirtualClock`: what a runtime whose time is paused has been asked to do with it. The driver keeps the time
//! itself, and the turn moves it.
//!
//! ```text
//!   Advance (time/paused.rs) ──▶ begin: until when         ┐
//!   StandStill               ──▶ hold: not by itself       ├─▶ Turner::step: once nothing is left to run
//!                                                          ┘         │
//!   Advance, ready           ◀── settle: time has come there ◀───────┘
//!   Advance, a plain timer   ◀── resume: time goes on by itself
//! ```
//!
//! Ground rules:
//!
//! * A runtime that is not paused looks at none of this.
//! * Wakers are cloned, dropped and woken without the lock.
//! * Time is resumed under the lock, and an advance begins under it only while time stands and the runtime lives. Who ends
//!   advances, because time goes on or the runtime is dropped, takes the lock afterwards: so none is left behind.
//! * The wall clock of virtual time, and its distance from std's `Instant`, are anchored once, when time first becomes
//!   virtual, and are kept from then on, also after that was resumed. So what was converted once stays right.
//! * Advances that are under way side by side do not add up: each has a moment of its own, and time passes
//!   through them in order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use mainspring_driver::{Handle as Timers, Nanos};

use super::Handle;
use crate::reactor::wake_all;

/// What was asked of a clock that stands.
#[derive(Default)]
pub(crate) struct VirtualClock {
    /// How many keep it from moving by itself.
    holds: AtomicUsize,
    advances: Mutex<Advances>,
    /// What the wall clock showed at a moment of the runtime's time. Not set: it is the system's.
    wall: OnceLock<(SystemTime, Nanos)>,
    /// By how many nanoseconds the count of the runtime's instants was ahead of that of std's. Not set: its time never
    /// was virtual.
    ahead_of_std: OnceLock<i64>,
}

#[derive(Default)]
struct Advances {
    begun: u64,
    /// In no order: there are hardly ever two.
    under_way: Vec<Advance>,
}

struct Advance {
    number: u64,
    until: Nanos,
    waker: Waker,
}

impl VirtualClock {
    /// Asks for the time of `handle`'s runtime, which this clock is of, to pass until `until`. Returns the number to ask for
    /// it by; `None` if that time does not stand, or the runtime is gone.
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
        advances.under_way.push(Advance { number, until, waker });
        Some(number)
    }

    /// Lets the time of `timers`, which this clock is of, go on, and wakes the advances that are under way: nobody moves
    /// time for them any more. False, and nothing is changed, if it does not stand.
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

    /// Ready if advance `number` is not under way any more: time has come where it wants it, and everything has come to
    /// rest; or time was resumed.
    pub(crate) fn poll(&self, number: u64, cx: &mut Context<'_>) -> Poll<()> {
        let mut waker = cx.waker().clone();
        let mut advances = self.lock();
        let found = advances.under_way.iter_mut().find(|advance| advance.number == number);
        let Some(advance) = found else { return Poll::Ready(()) };
        std::mem::swap(&mut advance.waker, &mut waker);
        drop(advances);
        // The old one goes without the lock.
        drop(waker);
        Poll::Pending
    }

    /// Advance `number` is not wanted any more. Time stays where it has come to.
    pub(crate) fn give_up(&self, number: u64) {
        let mut advances = self.lock();
        let found = advances.under_way.iter().position(|advance| advance.number == number);
        let given_up = found.map(|at| advances.under_way.swap_remove(at));
        drop(advances);
        drop(given_up);
    }

    /// Keeps time from moving by itself until [`release`](VirtualClock::release).
    pub(crate) fn hold(&self) {
        // Relaxed: whoever holds does so on the runtime's thread, or before its job begins there.
        self.holds.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn release(&self) {
        // Release: what the holder woke before is seen by the turn that finds no hold left; see `is_held`.
        self.holds.fetch_sub(1, Ordering::Release);
    }

    /// Whether time may not move by itself. Asked before the look at the I/O: a job that ends in between has
    /// woken somebody, and that look sees it.
    pub(super) fn is_held(&self) -> bool {
        // Acquire pairs with `release`.
        self.holds.load(Ordering::Acquire) != 0
    }

    /// The nearest moment that an advance wants.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.lock().under_way.iter().map(|advance| advance.until).min()
    }

    /// Ends the advances that wanted time to come to `now`, and wakes them in the order of their moments and
    /// beginnings.
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

    /// The wall clock shows `wall` when the runtime's time is `at`, and goes by that from then on. Only the first
    /// call counts.
    pub(crate) fn anchor_wall(&self, wall: SystemTime, at: Nanos) {
        // Whoever came first stays.
        let _ = self.wall.set((wall, at));
    }

    /// What the wall clock shows when the runtime's time is `now()`. It stops where the system's type ends.
    pub(crate) fn wall(&self, now: impl FnOnce() -> Nanos) -> SystemTime {
        match self.wall.get() {
            None => SystemTime::now(),
            Some((wall, at)) => {
                let mut passed = now().saturating_duration_since(*at);
                loop {
                    match wall.checked_add(passed) {
                        Some(wall) => return wall,
                        None => passed /= 2,
                    }
                }
            }
        }
    }

    /// The runtime's time becomes virtual, with its count so far ahead of std's. Only the first call counts.
    pub(crate) fn anchor_std(&self, ahead: i64) {
        // Whoever came first stays.
        let _ = self.ahead_of_std.set(ahead);
    }

    /// By how much the count of the runtime's instants is ahead of that of std's, if its time is or was virtual.
    pub(crate) fn ahead_of_std(&self) -> Option<i64> {
        self.ahead_of_std.get().copied()
    }

    fn lock(&self) -> MutexGuard<'_, Advances> {
        self.advances.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes them in the order of their moments and beginnings.
fn wake(mut advances: Vec<Advance>) {
    advances.sort_by_key(|advance| (advance.until, advance.number));
    wake_all(&mut advances.into_iter().map(|advance| advance.waker).collect());
}

/// Keeps a paused clock from moving by itself while it lives.
pub(crate) struct Hold(Handle);

impl Hold {
    pub(crate) fn new(handle: &Handle) -> Hold {
        handle.virtual_clock().hold();
        Hold(handle.clone())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.virtual_clock().release();
        // A runtime that waits for nothing else goes on.
        self.0.io().unpark();
    }
}
