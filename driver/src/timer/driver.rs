//! `Driver`: the next wake-up, firing, shutdown; `Shared`, what it and all its handles share; and `Inner`, what of that the lock
//! protects.
//!
//! Ground rules:
//!
//! * No foreign code runs under the lock: no waker is woken, cloned or dropped, no unpark called.
//! * What is atomic in `Shared` is a hint or a count: nothing hangs on the order in which it is seen. All else changes under
//!   the lock.
//! * The wheel and what the driver publishes about its park change under the same lock. So a timer that is
//!   armed either is seen by the driver before it parks, or sees that the driver has parked too long and
//!   unparks it.
//! * `process` publishes its `now` before it fires anything, and arming at or before it settles at once: so
//!   nothing joins the drain that is under way, and a waker that arms a timer in the past starves nobody.
//! * A drain that is cut short goes on at the next call with the same `now`.
//! * Every waker of a `process` call is woken, and every event sent, whatever the others do; the first panic is resumed
//!   last.

use std::fmt;

use super::Handle;
use super::entry::{Entries, Fired, Next};
use crate::sync::{AtomicU32, AtomicU64, Biased, Counted, Ordering};
use crate::time::PausableClock;
use crate::trace::{self, Batch};
use crate::wake::{Panics, WakeList};
use crate::{Clock, Lateness, Nanos, Tolerance};

/// How the driver's thread is unparked.
///
/// # Contract
///
/// * `unpark` may be called from any thread, at any time, also when nobody is parked.
/// * It must make the park that is under way, or else the next one, return soon.
/// * It is called without the driver's lock, and may call the driver.
///
/// Every `Fn() + Send + Sync` is one.
///
/// ```
/// use std::thread::{self, Thread};
/// use mainspring_driver::{Clock, Driver, Unpark};
///
/// struct Parked(Thread);
///
/// impl Unpark for Parked {
///     fn unpark(&self) {
///         self.0.unpark();
///     }
/// }
///
/// let driver = Driver::new(Clock::monotonic(), Parked(thread::current()));
/// # drop(driver);
/// ```
pub trait Unpark: Send + Sync + 'static {
    /// Unparks the driver's thread.
    fn unpark(&self);
}

impl<F: Fn() + Send + Sync + 'static> Unpark for F {
    fn unpark(&self) {
        self();
    }
}

/// What [`Driver::process`] did.
///
/// ```
/// use mainspring_driver::{Clock, Driver};
///
/// let mut driver = Driver::new(Clock::monotonic(), || {});
/// let now = driver.handle().now();
/// let processed = driver.process(now, 512);
/// assert_eq!((processed.fired, processed.more), (0, false));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "if `more` is set, `process` wants to be called again before a park"]
pub struct Processed {
    /// How many timers fired.
    pub fired: usize,
    /// Whether the budget was used up: there may be more that was due.
    pub more: bool,
}

/// Fires timers for one thread that parks until the next.
///
/// # Contract, for the host's loop
///
/// 1. Run what there is to run.
/// 2. If nothing is left to run: `next_wake()`, and park until then, or until [`Unpark::unpark`] is called,
///    whichever comes first. A park that ends earlier does no harm. If something is left, do not park.
/// 3. `process(now, budget)`, with a fresh reading of the driver's clock, after the park and at least now
///    and then while there is always something to run. If it says `more`, do not park before the next call.
///
/// Timers then fire never early, by (deadline, registration), each once.
///
/// Dropping the driver [shuts it down](Driver::shutdown).
///
/// ```
/// use std::time::Duration;
/// use mainspring_driver::{Clock, Driver};
/// use futures::FutureExt;
///
/// let clock = Clock::monotonic();
/// let thread = std::thread::current();
/// let mut driver = Driver::new(clock.clone(), move || thread.unpark());
/// let mut timer = Box::pin(driver.handle().sleep(Duration::from_millis(2)));
///
/// let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// while timer.poll_unpin(&mut cx).is_pending() {
///     if let Some(at) = driver.next_wake() {
///         std::thread::park_timeout(at.saturating_duration_since(clock.now()));
///     }
///     let _ = driver.process(clock.now(), 1024);
/// }
/// ```
pub struct Driver {
    handle: Handle,
    /// Empty between two calls.
    list: WakeList,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("stats", &self.handle.stats()).finish_non_exhaustive()
    }
}

impl Driver {
    /// A driver without timers, on this clock. `unpark` unparks its thread when a timer is armed that is due
    /// before its park would end.
    pub fn new(clock: Clock, unpark: impl Unpark) -> Driver {
        Driver::begin(PausableClock::real(clock), unpark)
    }

    /// A driver whose time stands from the beginning, at zero, until [`Handle::resume`]; see
    /// [`Handle::pause`].
    pub fn paused(clock: Clock, unpark: impl Unpark) -> Driver {
        Driver::begin(PausableClock::paused(clock, Nanos::ZERO), unpark)
    }

    fn begin(clock: PausableClock, unpark: impl Unpark) -> Driver {
        Driver { handle: Handle::new(Counted::new(Shared::new(clock, unpark))), list: WakeList::new() }
    }

    /// Sets how much slack timers get that ask for none in particular. The default is
    /// [`Tolerance::Adaptive`].
    ///
    /// # Panics
    ///
    /// If a fixed ratio does not lie between 0 and 1.
    #[track_caller]
    #[must_use]
    pub fn with_tolerance(self, tolerance: Tolerance) -> Driver {
        self.handle.lock().entries.slack.set(tolerance);
        self
    }

    /// Says that the driver stays on the calling thread, to the end. The thread then makes and drops handles and timers
    /// without an atomic step for their count; others do so as ever.
    ///
    /// It may be moved all the same. But if it is dropped on another thread, what it shares with its handles is never freed:
    /// about 2 kB and what its wheel has allocated.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring_driver::{Clock, Driver};
    ///
    /// let driver = Driver::new(Clock::monotonic(), || ()).stays_here();
    /// let timer = driver.handle().sleep(Duration::from_millis(5));
    /// // It may end anywhere.
    /// std::thread::spawn(move || drop(timer)).join().unwrap();
    /// ```
    #[must_use]
    pub fn stays_here(self) -> Driver {
        self.handle.shared.begin_own();
        self.handle.shared.inner.settle();
        self
    }

    /// What makes timers for this driver.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Until when the driver's thread may park; `None` if no timer is armed, and [`Nanos::NEVER`] if none of them ever comes due.
    /// From now on, until the next [`process`](Driver::process), a thread that arms a timer due before that calls [`Unpark::unpark`]; and
    /// after that, a thread that arms one that is due before all those: a thread that is held up before its call delays its own
    /// timer and later ones, and no earlier one.
    ///
    /// It lies at most the slack of a timer after its deadline (see [`set_tolerance`](crate::TimerEntry::set_tolerance)), and may lie
    /// before it when timers were cancelled: then `process` finds nothing due, and that is all.
    pub fn next_wake(&mut self) -> Option<Nanos> {
        let mut inner = self.handle.lock();
        let wake = if inner.draining {
            Some(inner.published)
        } else {
            let park = inner.entries.next_park();
            let coalesced = park.is_some_and(|park| park.wake > park.due);
            inner.parks_coalesced += u64::from(coalesced && !self.handle.is_paused());
            park.map(|park| park.wake)
        };
        inner.parked_until = Some(wake.unwrap_or(Nanos::NEVER));
        wake
    }

    /// The earliest deadline of all, exactly; `None` if no timer is armed. Unlike
    /// [`next_wake`](Driver::next_wake) it knows no slack, publishes nothing, and may take O(n) after
    /// many timers were reset: it is for clocks that are paused or set.
    pub fn next_deadline(&mut self) -> Option<Nanos> {
        self.handle.lock().entries.next_deadline()
    }

    /// Fires what is due at `now`, by (deadline, registration), until nothing is left or `budget` is used
    /// up: a timer that fires costs one, and so does each move of one within the wheel, be it to a lower level or to where
    /// a reset has put it. So no more than `budget` fire and move, taken together.
    ///
    /// No step is long, however many timers there are and however they were armed: at most some two thousand are sorted at once.
    ///
    /// The wakers are called in batches, without the lock; they may arm, reset and drop timers. What they
    /// arm at or before `now` is ready at its next poll and does not join this drain. A drain that the
    /// budget cut short goes on, at the `now` it began with, in the next call. A `now` that lies before an
    /// earlier one fires nothing.
    ///
    /// # Panics
    ///
    /// If a waker panics: all others are woken first, then the first panic is resumed.
    pub fn process(&mut self, now: Nanos, budget: usize) -> Processed {
        let shared = &*self.handle.shared;
        let list = &mut self.list;
        let mut batch = Batch::new();
        let mut panics = Panics::new();
        let mut fired = 0;
        let mut counted = 0;
        let mut left = budget;
        // Relaxed: only a hint for the polls that come.
        shared.polls.store(0, Ordering::Relaxed);
        // A clock never reads NEVER, and a timer that never comes due must not fire.
        let now = now.min(Nanos::LAST);
        let _ = shared.note(now);

        // Who drives it mostly is who arms most.
        shared.inner.settle();
        self.handle.shared.keep_at_hand();
        let mut inner = self.handle.lock();
        inner.parked_until = None;
        if !inner.draining {
            inner.published = inner.published.max(now);
            inner.draining = true;
        }
        // What is left of an earlier drain is late by this reading, not by the one that the drain began with.
        let read = now.max(inner.published);
        let now = inner.published;
        let more = loop {
            let end = match inner.entries.fire_next(now, &mut left) {
                Next::Fired(Fired { waker, deadline, traced }) => {
                    // It fires nothing with none left.
                    left -= 1;
                    fired += 1;
                    let late = read.saturating_nanos_since(deadline);
                    inner.lateness.note(late);
                    batch.push(traced, late);
                    list.push(waker);
                    None
                }
                Next::Exhausted => Some(true),
                Next::Idle => {
                    inner.draining = false;
                    Some(false)
                }
            };
            if list.is_full() || end.is_some() {
                inner.fired += (fired - counted) as u64;
                counted = fired;
            }
            if let Some(more) = end {
                let live = inner.entries.len();
                inner.entries.slack.count(now, fired, live);
                let earliest = if more { Nanos::ZERO } else { inner.entries.earliest() };
                shared.set_earliest(&inner, earliest);
            }
            if list.is_full() || end.is_some() {
                drop(inner);
                list.wake_all(&mut panics);
                batch.send(&mut panics);
                if let Some(more) = end {
                    break more;
                }
                inner = self.handle.lock();
            }
        };
        panics.resume();
        Processed { fired, more }
    }

    /// Closes the driver: every timer that waits is woken and resolves to [`Shutdown`](crate::Shutdown), and
    /// so does every one that is polled later, unless it fired before. Closing it again does nothing.
    ///
    /// # Panics
    ///
    /// If a waker panics: all others are woken first, then the first panic is resumed.
    pub fn shutdown(&mut self) {
        self.close().resume();
    }

    fn close(&mut self) -> Panics {
        let shared = &*self.handle.shared;
        let list = &mut self.list;
        let mut panics = Panics::new();
        let mut waited = 0;
        let mut inner = shared.inner.lock();
        if inner.closed {
            return panics;
        }
        inner.closed = true;
        shared.set_earliest(&inner, Nanos::NEVER);
        inner.draining = false;
        inner.parked_until = None;
        loop {
            let next = inner.entries.shut_down_next();
            let end = next.is_none();
            if let Some(waker) = next {
                waited += 1;
                list.push(waker);
            }
            if list.is_full() || end {
                drop(inner);
                list.wake_all(&mut panics);
                if end {
                    panics.catch(|| trace::shut_down(waited));
                    return panics;
                }
                inner = shared.inner.lock();
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let panics = self.close();
        self.handle.shared.end_own();
        panics.resume();
    }
}

/// What the driver and all its handles share.
pub(super) struct Shared {
    pub(super) clock: PausableClock,
    /// The latest reading of the clock that anybody took through this driver.
    pub(super) latest: AtomicU64,
    /// No timer is due before this. Written under the lock, read without.
    pub(super) earliest: AtomicU64,
    /// Pending polls since the last turn.
    pub(super) polls: AtomicU32,
    pub(super) resets: AtomicU64,
    pub(super) unpark: Box<dyn Unpark>,
    pub(super) inner: Biased<Inner>,
}

/// What the lock protects.
pub(crate) struct Inner {
    pub(crate) entries: Entries,
    /// The `now` of the latest drain. What is armed at or before it is due already.
    pub(super) published: Nanos,
    /// Whether the latest drain is not finished.
    pub(super) draining: bool,
    /// By when the driver's thread will end its park, by itself or unparked by a thread that has undertaken to; `None`
    /// while it runs.
    pub(super) parked_until: Option<Nanos>,
    pub(super) closed: bool,
    /// How many timers were registered.
    pub(super) armed: u64,
    /// How many of those came due. All others were cancelled, if they are not linked still.
    pub(super) fired: u64,
    /// Parks whose end lies after the earliest deadline.
    pub(super) parks_coalesced: u64,
    pub(super) lateness: Lateness,
}

impl Shared {
    pub(super) fn new(clock: PausableClock, unpark: impl Unpark) -> Shared {
        let now = clock.now();
        let inner = Inner {
            entries: Entries::new(now),
            published: now,
            draining: false,
            parked_until: None,
            closed: false,
            armed: 0,
            fired: 0,
            parks_coalesced: 0,
            lateness: Lateness::default(),
        };
        Shared {
            clock,
            latest: AtomicU64::new(now.get()),
            earliest: AtomicU64::new(Nanos::NEVER.get()),
            polls: AtomicU32::new(0),
            resets: AtomicU64::new(0),
            unpark: Box::new(unpark),
            inner: Biased::new(inner),
        }
    }

    /// The latest reading of the clock.
    #[inline]
    pub(super) fn latest(&self) -> Nanos {
        // Relaxed: a reading that is a little old is as good.
        Nanos::from_word(self.latest.load(Ordering::Relaxed))
    }

    /// Remembers a reading of the clock; returns the latest of all.
    #[inline]
    pub(super) fn note(&self, now: Nanos) -> Nanos {
        // Readings of several threads may overtake each other: it is only a hint of how late it is.
        let latest = self.latest();
        if now <= latest {
            return latest;
        }
        self.latest.store(now.get(), Ordering::Relaxed);
        now
    }

    /// A timer that is due at `deadline` has just been filed.
    #[inline]
    pub(super) fn lower_earliest(&self, _locked: &Inner, deadline: Nanos) {
        // Relaxed, and not one atomic step: only who holds the lock writes it.
        if deadline.get() < self.earliest.load(Ordering::Relaxed) {
            self.earliest.store(deadline.get(), Ordering::Relaxed);
        }
    }

    /// Publishes a bound that has been computed from all timers.
    #[inline]
    pub(super) fn set_earliest(&self, _locked: &Inner, earliest: Nanos) {
        // Relaxed: see `lower_earliest`, and `Handle::earliest_due` for who reads it.
        self.earliest.store(earliest.get(), Ordering::Relaxed);
    }
}

impl Inner {
    /// A timer that was due at `deadline` has been found due by its own poll, at `now`.
    #[inline]
    pub(crate) fn count_overdue(&mut self, deadline: Nanos, now: Nanos) {
        self.fired += 1;
        self.lateness.note(now.saturating_nanos_since(deadline));
    }
}
