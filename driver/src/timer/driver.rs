//! `Driver`: the next wake-up, firing, shutdown; `Shared`, the state that it and all its handles share; and `Inner`, the part
//! of that state which the lock protects.
//!
//! Ground rules:
//!
//! * No foreign code runs under the lock: no waker is woken, cloned or dropped, no unpark called.
//! * Each atomic in `Shared` is a hint or a count: nothing depends on the order in which it is seen. Everything else changes
//!   under the lock.
//! * The wheel and what the driver publishes about its park change under the same lock. So either the
//!   driver sees an armed timer before it parks, or the arming thread sees that the driver has parked too long and
//!   unparks it.
//! * `process` publishes its `now` before it fires anything, and a timer that is armed for that time or an earlier one settles at
//!   once. So no timer joins the drain that is under way, and a waker that arms timers in the past starves no other timer.
//! * A drain that is cut short goes on at the next call with the same `now`.
//! * Every waker of a `process` call is woken, and every event is sent, whatever the others do. The first panic is resumed
//!   at the end.

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
/// * `unpark` may be called from any thread, at any time, also when no thread is parked.
/// * It must make the park that is under way, or else the next one, return soon.
/// * It is called without the driver's lock, and may call the driver.
///
/// Every `Fn() + Send + Sync` implements it.
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
    /// Whether the budget was used up: more timers may be due.
    pub more: bool,
    /// Whether some memory of a past burst was freed, and more is to be: the next call goes on. A host that has nothing to do
    /// need not park before.
    pub releasing: bool,
}

/// Fires timers for one thread, which parks until the next one is due.
///
/// # Contract, for the host's loop
///
/// 1. Run what there is to run.
/// 2. If nothing is left to run, call `next_wake()`, and park until the time it returns or until [`Unpark::unpark`] is
///    called, whichever comes first; if it returns `None` or [`Nanos::NEVER`], only `unpark` ends the park. A park that
///    ends earlier does no harm, except that the loop spins if a timeout is always rounded down: round up to the
///    poller's unit. If something is left to run, do not park. If memory matters, and the park would be longer than a second, ask
///    [`has_spare`](Driver::has_spare) whether it should be shorter.
/// 3. Call `process(now, budget)`, with a fresh reading of the driver's clock, after the park, and at least now
///    and then while there is always something to run. If it returns `more`, do not park before the next call.
///
/// Timers then never fire early. Each fires once, in the order of (deadline, registration).
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
    /// A driver without timers, on this clock. `unpark` unparks the driver's thread when a timer is armed that is due
    /// before the thread's park would end.
    pub fn new(clock: Clock, unpark: impl Unpark) -> Driver {
        Driver::begin(PausableClock::real(clock), unpark)
    }

    /// A driver with its time stopped from the beginning, at zero, until [`Handle::resume`]; see
    /// [`Handle::pause`].
    pub fn paused(clock: Clock, unpark: impl Unpark) -> Driver {
        Driver::begin(PausableClock::paused(clock, Nanos::ZERO), unpark)
    }

    fn begin(clock: PausableClock, unpark: impl Unpark) -> Driver {
        Driver { handle: Handle::new(Counted::new(Shared::new(clock, unpark))), list: WakeList::new() }
    }

    /// Sets how much slack a timer gets if it has no tolerance of its own. The default is
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

    /// Declares that the driver stays on the calling thread to the end. That thread then makes and drops handles and timers
    /// without an atomic step for their count; other threads do so as before.
    ///
    /// The driver may be moved all the same. But if it is dropped on another thread, what it shares with its handles is never
    /// freed: about 2 kB and what its wheel has allocated.
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

    /// The handle, which makes timers for this driver.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns until when the driver's thread may park; `None` if no timer is armed, and [`Nanos::NEVER`] if none of
    /// them ever comes due. Both mean to park without a timeout. If the poller's timeout is in milliseconds, round up:
    /// a park that ends before the returned time finds nothing due, and the loop would spin until then. From now on,
    /// until the next [`process`](Driver::process), a thread that arms a timer whose deadline plus slack lies before
    /// that time calls [`Unpark::unpark`]. After that call, so does a thread that arms a timer due before all those. So
    /// a thread that is held up before its call delays its own timer and later ones, and no earlier one.
    ///
    /// The returned time lies after a timer's deadline by at most the timer's slack (see
    /// [`set_tolerance`](crate::TimerEntry::set_tolerance)). It may lie before the earliest deadline if timers were cancelled:
    /// then `process` finds nothing due, which does no harm. So it may if thousands of timers are armed out of order: then `process`
    /// prepares them, some at each call, so that they keep nobody waiting when they are due.
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

    /// Returns whether much memory of a past burst of timers is kept. A [`process`](Driver::process) a second or two after the burst
    /// begins to free it. So a host that would park for longer parks for a second instead, and then calls `process`, until this returns
    /// false, which it does a few seconds after a burst. A host that does not ask keeps the memory while it parks. While the driver's
    /// time is [stopped](Handle::pause), nothing would be freed, and this returns false.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring_driver::{Clock, Driver, Nanos};
    ///
    /// fn longest_park(driver: &mut Driver, now: Nanos) -> Option<Duration> {
    ///     let most = driver.next_wake().map(|at| at.saturating_duration_since(now));
    ///     let second = Duration::from_secs(1);
    ///     if driver.has_spare() { Some(most.map_or(second, |most| most.min(second))) } else { most }
    /// }
    ///
    /// let mut driver = Driver::new(Clock::monotonic(), || {});
    /// let now = driver.handle().now();
    /// assert_eq!(longest_park(&mut driver, now), None);
    /// ```
    pub fn has_spare(&self) -> bool {
        !self.handle.is_paused() && self.handle.lock().entries.has_spare()
    }

    /// Returns the earliest deadline of all, exactly; `None` if no timer is armed. Unlike
    /// [`next_wake`](Driver::next_wake) it ignores slack, and may take O(n) after many timers were reset: it is for clocks that
    /// are paused or set.
    ///
    /// If it lies behind what `next_wake` has returned since the last [`process`](Driver::process), a thread that arms an earlier
    /// timer from now on calls [`Unpark::unpark`], too: so a host may park until this deadline instead.
    pub fn next_deadline(&mut self) -> Option<Nanos> {
        let mut inner = self.handle.lock();
        let deadline = inner.entries.next_deadline();
        if let Some(until) = &mut inner.parked_until {
            *until = (*until).max(deadline.unwrap_or(Nanos::NEVER));
        }
        deadline
    }

    /// Fires the timers that are due at `now`, in the order of (deadline, registration), until none is left or `budget` is used
    /// up. A timer that fires costs one, and so does each move of a timer within the wheel, either to a lower level or to where
    /// a reset has put it. So do 32 timers that are sorted, and a few other steps that are as short. So the timers that fire and
    /// the moves, taken together, are at most `budget`. Grant at least one.
    ///
    /// No step is long, however many timers there are and however they were armed: at most about two thousand are sorted at once.
    ///
    /// The wakers are called in batches, without the lock; they may arm, reset and drop timers. A timer that they
    /// arm at or before `now` is ready at its next poll and does not join this drain. A drain that was cut short by the
    /// budget goes on in the next call, with the `now` that it began with. Otherwise a `now` that lies before an
    /// earlier one fires nothing.
    ///
    /// # Panics
    ///
    /// If a waker panics: all others are woken first, then the first panic is resumed. Call it again then, as if it had returned
    /// that there is [more](Processed::more).
    pub fn process(&mut self, now: Nanos, budget: usize) -> Processed {
        let shared = &*self.handle.shared;
        let list = &mut self.list;
        let mut batch = Batch::new();
        let mut panics = Panics::new();
        let mut fired = 0;
        let mut left = budget;
        let mut releasing = false;
        // Relaxed: only a hint for the polls that come.
        shared.polls.store(0, Ordering::Relaxed);
        // A clock never reads NEVER, and a timer that never comes due must not fire.
        let now = now.min(Nanos::LAST);
        let _ = shared.note(now);

        // The thread that drives the driver mostly is the one that arms most timers.
        shared.inner.settle();
        self.handle.shared.keep_at_hand();
        let mut inner = self.handle.lock();
        inner.parked_until = None;
        if !inner.draining {
            inner.published = inner.published.max(now);
            inner.draining = true;
        }
        let surplus = inner.entries.surplus();
        // Timers left from an earlier drain are late by this reading, not by the one that the drain began with.
        let read = now.max(inner.published);
        let now = inner.published;
        let more = loop {
            let end = match inner.entries.fire_next(now, &mut left) {
                Next::Fired(Fired { waker, deadline, traced }) => {
                    // No timer fires when no moves are left.
                    left -= 1;
                    fired += 1;
                    let late = read.saturating_nanos_since(deadline);
                    inner.count_fired(late);
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
            if let Some(more) = end {
                let live = inner.entries.len();
                inner.entries.slack.count(now, fired, live);
                let earliest = if more { Nanos::ZERO } else { inner.entries.earliest() };
                shared.set_earliest(&inner, earliest);
                // If nothing was freed, because the clock has gone back, nothing will be soon.
                let rest = inner.entries.surplus();
                releasing = rest > 0 && rest != surplus;
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
        Processed { fired, more, releasing }
    }

    /// Closes the driver: every timer that is armed is woken and resolves to [`Shutdown`](crate::Shutdown), even if its deadline
    /// has passed and no [`process`](Driver::process) has fired it. So does every timer that would be armed later: one that
    /// was not armed and is polled before its deadline. (If that has passed by the latest reading of the clock, the
    /// timer is ready without an error.) A timer that fired before stays ready. One that has resolved
    /// to `Shutdown` does so again, whether it is reset, cancelled or just polled. Closing the driver again does nothing.
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

/// The state that the driver and all its handles share.
pub(super) struct Shared {
    pub(super) clock: PausableClock,
    /// The latest reading of the clock that any thread took through this driver.
    pub(super) latest: AtomicU64,
    /// No timer is due before this. Written under the lock, read without it.
    pub(super) earliest: AtomicU64,
    /// Pending polls since the last turn.
    pub(super) polls: AtomicU32,
    pub(super) resets: AtomicU64,
    pub(super) unpark: Box<dyn Unpark>,
    pub(super) inner: Biased<Inner>,
}

/// The state that the lock protects.
pub(crate) struct Inner {
    pub(crate) entries: Entries,
    /// The `now` of the latest drain. A timer that is armed at or before it is due already.
    pub(super) published: Nanos,
    /// Whether the latest drain is not finished.
    pub(super) draining: bool,
    /// By when the driver's thread will end its park, either on its own or because another thread is about to unpark it; `None`
    /// while it runs.
    pub(super) parked_until: Option<Nanos>,
    pub(super) closed: bool,
    /// How many timers were registered.
    pub(super) armed: u64,
    /// How many of those came due. The others were cancelled or are still linked.
    pub(super) fired: u64,
    /// How many parks were set to end after the earliest deadline.
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
        // Relaxed: a reading that is a little old is just as good.
        Nanos::from_word(self.latest.load(Ordering::Relaxed))
    }

    /// Remembers a reading of the clock. Returns the latest reading of all.
    #[inline]
    pub(super) fn note(&self, now: Nanos) -> Nanos {
        // Readings of several threads may overtake each other: the latest is only a hint of what time it is.
        let latest = self.latest();
        if now <= latest {
            return latest;
        }
        self.latest.store(now.get(), Ordering::Relaxed);
        now
    }

    /// Lowers the published bound for a timer that has just been filed and is due at `deadline`.
    #[inline]
    pub(super) fn lower_earliest(&self, _locked: &Inner, deadline: Nanos) {
        // Relaxed, and not one atomic step: only the thread that holds the lock writes it.
        if deadline.get() < self.earliest.load(Ordering::Relaxed) {
            self.earliest.store(deadline.get(), Ordering::Relaxed);
        }
    }

    /// Publishes a bound that has been computed from all timers.
    #[inline]
    pub(super) fn set_earliest(&self, _locked: &Inner, earliest: Nanos) {
        // Relaxed: see `lower_earliest`; `Handle::earliest_due` reads it.
        self.earliest.store(earliest.get(), Ordering::Relaxed);
    }
}

impl Inner {
    /// Counts a timer that had to wait and fired, `late` nanoseconds after its deadline.
    #[inline]
    pub(crate) fn count_fired(&mut self, late: u64) {
        self.fired += 1;
        self.lateness.note(late);
    }
}
