//! `Driver` and `Handle`: the lock around the wheel, the next wake-up, firing, shutdown.
//!
//! Ground rules:
//!
//! * No foreign code runs under the lock: no waker is woken, cloned or dropped, no unpark called.
//! * The wheel and what the driver publishes about its park change under the same lock. So a timer that is
//!   armed either is seen by the driver before it parks, or sees that the driver has parked too long and
//!   unparks it.
//! * `process` publishes its `now` before it fires anything, and arming at or before it settles at once: so
//!   nothing joins the drain that is under way, and a waker that arms a timer in the past starves nobody.
//! * A drain that is cut short goes on at the next call with the same `now`.
//! * Every waker of a `process` call is woken, whatever the others do; the first panic is resumed last.

use std::fmt;
use std::panic::resume_unwind;
use std::time::Duration;

use crate::entry::{Entries, Next};
use crate::steer::Steering;
use crate::sync::{Arc, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, lock};
use crate::tolerance::Slacker;
use crate::wake_list::{PanicPayload, WakeList, keep_first};
use crate::wheel::{Occupancy, Slack};
use crate::{Clock, Nanos, TimerEntry, Tolerance};

/// A pending poll reads the clock if the deadline lies no further than this from the latest reading.
const NEAR: u64 = 1_000_000;
/// Of so many pending polls since the last turn, one reads the clock in any case.
const POLLS_PER_READING: u32 = 64;

/// How the driver's thread is roused from its park.
///
/// # Contract
///
/// * `unpark` may be called from any thread, at any time, also when nobody is parked.
/// * It must make the park that is under way, or else the next one, return soon.
/// * It is called without the driver's lock, and may call the driver.
///
/// Every `Fn() + Send + Sync` is one.
pub trait Unpark: Send + Sync + 'static {
    /// Rouses the driver's thread.
    fn unpark(&self);
}

impl<F: Fn() + Send + Sync + 'static> Unpark for F {
    fn unpark(&self) {
        self();
    }
}

/// What [`Driver::process`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "if `more` is set, `process` wants to be called again before a park"]
pub struct Processed {
    /// How many timers fired.
    pub fired: usize,
    /// Whether the budget was used up: there may be more that was due.
    pub more: bool,
}

/// Counts since the driver began; see [`Handle::stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Timers in the wheel now.
    pub live: usize,
    /// Timers that were registered.
    pub armed: u64,
    /// Timers that came due.
    pub fired: u64,
    /// Timers that were unregistered before their deadline, also by a shutdown. What was armed has fired,
    /// was cancelled, or is live.
    pub cancelled: u64,
    /// Resets of registered timers.
    pub reset: u64,
    /// Moves of timers within the wheel.
    pub moved: u64,
    /// Timers that were armed with the wider slack that load allows; see [`Tolerance::Adaptive`].
    pub widened: u64,
}

/// Fires timers for one thread that parks until the next.
///
/// # Contract, for whoever runs the loop
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
}

/// Makes timers. Cheap to clone; may be used on any thread.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    /// The latest reading of the clock that anybody took through this driver.
    latest: AtomicU64,
    /// Whether that clock is stopped, or was. Beside `latest`, which each reading touches.
    steering: Steering,
    /// Pending polls since the last turn.
    polls: AtomicU32,
    resets: AtomicU64,
    unpark: Box<dyn Unpark>,
    inner: Mutex<Inner>,
}

/// What the lock protects.
pub(crate) struct Inner {
    pub(crate) entries: Entries,
    /// The `now` of the latest drain.
    published: Nanos,
    /// Whether the latest drain is not finished.
    draining: bool,
    /// Until when the driver's thread is going to be parked; `None` while it runs, or is about to.
    parked_until: Option<Nanos>,
    closed: bool,
    slacker: Slacker,
    /// How many timers were registered; the next one's number.
    armed: u64,
    fired: u64,
    cancelled: u64,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("stats", &self.handle.stats()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("clock", &self.shared.clock).finish_non_exhaustive()
    }
}

impl Driver {
    /// A driver without timers, on this clock. `unpark` is how its thread is roused when a timer is armed
    /// that is due before its park would end.
    pub fn new(clock: Clock, unpark: impl Unpark) -> Driver {
        let now = clock.now();
        Driver::begin(clock, now, Steering::real(), unpark)
    }

    /// A driver whose time stands from the beginning, at zero, until [`Handle::resume`]; see
    /// [`Handle::pause`].
    pub fn paused(clock: Clock, unpark: impl Unpark) -> Driver {
        Driver::begin(clock, Nanos::ZERO, Steering::paused(Nanos::ZERO), unpark)
    }

    fn begin(clock: Clock, now: Nanos, steering: Steering, unpark: impl Unpark) -> Driver {
        let inner = Inner {
            entries: Entries::new(now),
            published: now,
            draining: false,
            parked_until: None,
            closed: false,
            slacker: Slacker::new(now),
            armed: 0,
            fired: 0,
            cancelled: 0,
        };
        let shared = Shared {
            clock,
            latest: AtomicU64::new(now.get()),
            steering,
            polls: AtomicU32::new(0),
            resets: AtomicU64::new(0),
            unpark: Box::new(unpark),
            inner: Mutex::new(inner),
        };
        Driver { handle: Handle { shared: Arc::new(shared) } }
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
        lock(&self.handle.shared.inner).slacker.set(tolerance);
        self
    }

    /// What makes timers for this driver.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Until when the driver's thread may park; `None` if no timer is armed. From now on, until the next
    /// [`process`](Driver::process), a timer that is due before that calls [`Unpark::unpark`].
    ///
    /// It lies at most the slack of a timer after its deadline (see [`TimerEntry::set_tolerance`]), and may lie
    /// before it when timers were cancelled: then `process` finds nothing due, and that is all.
    pub fn next_wake(&mut self) -> Option<Nanos> {
        let mut inner = lock(&self.handle.shared.inner);
        let wake = if inner.draining { Some(inner.published) } else { inner.entries.next_wake() };
        inner.parked_until = Some(wake.unwrap_or(Nanos::NEVER));
        wake
    }

    /// The earliest deadline of all, exactly; `None` if no timer is armed. Unlike
    /// [`next_wake`](Driver::next_wake) it knows no slack, publishes nothing, and may take O(n) once after
    /// many timers were reset: it is for clocks that are turned by hand.
    pub fn next_deadline(&mut self) -> Option<Nanos> {
        lock(&self.handle.shared.inner).entries.next_deadline()
    }

    /// Fires what is due at `now`, by (deadline, registration), until nothing is left or `budget` is used
    /// up: a timer that fires costs one, and so does each move of one within the wheel. So no more than
    /// `budget` fire. Those of one level-0 slot are sorted in one step, whatever the budget.
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
        let mut list = WakeList::new();
        let mut panic: Option<PanicPayload> = None;
        let mut fired = 0;
        let mut left = budget;
        // Relaxed: only a hint for the polls that come.
        shared.polls.store(0, Ordering::Relaxed);
        // A clock never reads NEVER, and a timer that never comes due must not fire.
        let now = now.min(Nanos::new(Nanos::NEVER.get() - 1));
        let _ = shared.note(now);

        let mut inner = lock(&shared.inner);
        inner.parked_until = None;
        if !inner.draining {
            inner.published = inner.published.max(now);
            inner.draining = true;
        }
        let now = inner.published;
        let more = loop {
            let next = if left == 0 { Next::Exhausted } else { inner.entries.fire_next(now, &mut left) };
            let end = match next {
                Next::Fired(waker) => {
                    left = left.saturating_sub(1);
                    fired += 1;
                    inner.fired += 1;
                    list.push(waker);
                    None
                }
                Next::Exhausted => Some(true),
                Next::Idle => {
                    inner.draining = false;
                    Some(false)
                }
            };
            if end.is_some() {
                let live = inner.entries.len();
                inner.slacker.count(now, fired, live);
            }
            if list.is_full() || end.is_some() {
                drop(inner);
                if let Some(payload) = list.wake_all() {
                    keep_first(&mut panic, payload);
                }
                if let Some(more) = end {
                    break more;
                }
                inner = lock(&shared.inner);
            }
        };
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
        Processed { fired, more }
    }

    /// Closes the driver: every timer that waits is woken and resolves to [`Shutdown`](crate::Shutdown), and
    /// so does every one that is polled later, unless it fired before. Closing it again does nothing.
    ///
    /// # Panics
    ///
    /// If a waker panics: all others are woken first, then the first panic is resumed.
    pub fn shutdown(&mut self) {
        if let Some(payload) = self.close() {
            resume_unwind(payload);
        }
    }

    fn close(&mut self) -> Option<PanicPayload> {
        let shared = &*self.handle.shared;
        let mut list = WakeList::new();
        let mut panic = None;
        let mut inner = lock(&shared.inner);
        inner.closed = true;
        inner.draining = false;
        inner.parked_until = None;
        loop {
            let next = inner.entries.shut_down_next();
            let end = next.is_none();
            if let Some(waker) = next {
                inner.cancelled += 1;
                list.push(waker);
            }
            if list.is_full() || end {
                drop(inner);
                if let Some(payload) = list.wake_all() {
                    keep_first(&mut panic, payload);
                }
                if end {
                    return panic;
                }
                inner = lock(&shared.inner);
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let panic = self.close();
        // A second panic while one is under way would abort the process.
        if let (Some(payload), false) = (panic, std::thread::panicking()) {
            resume_unwind(payload);
        }
    }
}

impl Handle {
    /// A timer that is due `duration` from now. Reads the clock, unless `duration` is zero.
    #[inline]
    pub fn sleep(&self, duration: Duration) -> TimerEntry {
        TimerEntry::new(self.clone(), self.deadline_after(duration))
    }

    /// The moment `duration` from now. Reads the clock, unless `duration` is zero: then any reading will do,
    /// for that moment has passed.
    #[inline]
    pub fn deadline_after(&self, duration: Duration) -> Nanos {
        let now = if duration.is_zero() { self.latest() } else { self.now() };
        now.saturating_add(duration)
    }

    /// A timer that is due at `deadline`.
    #[inline]
    pub fn sleep_until(&self, deadline: Nanos) -> TimerEntry {
        TimerEntry::new(self.clone(), deadline)
    }

    /// Reads the driver's clock. If that has gone back, the latest reading stands: what is timed from it
    /// ends rather late than early.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.shared.note(self.shared.steering.read(&self.shared.clock))
    }

    /// As [`now`](Handle::now), for someone who has just read this driver's clock himself and got `now`. Only while
    /// [nobody has stopped it](Handle::clock_changes).
    #[inline]
    pub fn now_is(&self, now: Nanos) -> Nanos {
        self.shared.note(now)
    }

    /// What the clock shows, or the driver's own time if that has been stopped.
    #[inline]
    fn read(&self) -> Nanos {
        let now = self.shared.steering.read(&self.shared.clock);
        let _ = self.shared.note(now);
        now
    }

    /// The latest reading of the clock that was taken through this driver: not later than now.
    #[inline]
    pub fn latest(&self) -> Nanos {
        // Relaxed: a reading that is a little old is as good.
        Nanos::new(self.shared.latest.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn steering(&self) -> &Steering {
        &self.shared.steering
    }

    /// The clock that the driver was made on. Its readings are the driver's time as long as that was not
    /// [stopped](Handle::pause).
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Whether the driver was shut down.
    pub fn is_shutdown(&self) -> bool {
        lock(&self.shared.inner).closed
    }

    /// Whether two handles belong to one driver.
    pub fn same_driver(&self, other: &Handle) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// What the driver has done so far.
    pub fn stats(&self) -> Stats {
        let inner = lock(&self.shared.inner);
        Stats {
            live: inner.entries.len(),
            armed: inner.armed,
            fired: inner.fired,
            cancelled: inner.cancelled,
            reset: self.shared.resets.load(Ordering::Relaxed),
            moved: inner.entries.moved(),
            widened: inner.slacker.widened(),
        }
    }

    /// How full the wheel's slots are, for a view of it. Takes about a microsecond, under the lock.
    pub fn occupancy(&self) -> Occupancy {
        lock(&self.shared.inner).entries.occupancy()
    }

    /// Asserts that the wheel's invariants hold and that every entry in it is linked and knows its place.
    /// O(n), under the lock; for tests.
    ///
    /// # Panics
    ///
    /// If one does not hold: then the driver has a defect.
    pub fn check(&self) {
        lock(&self.shared.inner).entries.check();
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.shared.inner)
    }

    pub(crate) fn unpark(&self) {
        self.shared.unpark.unpark();
    }

    /// Whether `deadline` has passed, for a timer that is not registered. Reads the clock only if it is near.
    #[inline]
    pub(crate) fn has_passed(&self, deadline: Nanos) -> bool {
        let latest = self.latest();
        deadline <= latest || (deadline.get() - latest.get() <= NEAR && deadline <= self.read())
    }

    /// Whether a poll of a timer that is registered should read the clock, because the driver would have fired it
    /// had it been let: if the deadline is near, or now and then.
    #[inline]
    pub(crate) fn is_time_to_look(&self, deadline: Nanos) -> bool {
        // Relaxed, and not one atomic step: a count that is lost only delays a reading.
        let polls = self.shared.polls.load(Ordering::Relaxed).wrapping_add(1);
        self.shared.polls.store(polls, Ordering::Relaxed);
        let near = deadline.get() <= self.latest().get().saturating_add(NEAR);
        near || polls % POLLS_PER_READING == 0
    }

    /// Whether `deadline` has passed by the clock, which is read.
    pub(crate) fn has_passed_now(&self, deadline: Nanos) -> bool {
        deadline <= self.read()
    }

    #[inline]
    pub(crate) fn count_reset(&self) {
        // Relaxed, and not one atomic step: only a count, and mostly from one thread.
        let resets = self.shared.resets.load(Ordering::Relaxed);
        self.shared.resets.store(resets + 1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Remembers a reading of the clock; returns the latest of all.
    #[inline]
    fn note(&self, now: Nanos) -> Nanos {
        // Relaxed: only a hint of how late it is; readings of several threads may overtake each other.
        let latest = Nanos::new(self.latest.load(Ordering::Relaxed));
        if now <= latest {
            return latest;
        }
        self.latest.store(now.get(), Ordering::Relaxed);
        now
    }
}

impl Inner {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// What is armed at or before this is due already.
    #[inline]
    pub(crate) fn published(&self) -> Nanos {
        self.published
    }

    /// The number of a timer that is registered now.
    #[inline]
    pub(crate) fn next_number(&mut self) -> u64 {
        self.armed += 1;
        self.armed
    }

    /// The slack of a timer that is armed now and asks for none in particular.
    #[inline]
    pub(crate) fn default_slack(&mut self, latest: Nanos, deadline: Nanos) -> Slack {
        self.slacker.slack(latest, deadline)
    }

    /// Whether the driver's thread is parked for longer than a timer that has just been filed may wait.
    #[inline]
    pub(crate) fn must_unpark(&mut self, deadline: Nanos, slack: Slack) -> bool {
        let Some(until) = self.parked_until else { return false };
        let wake = Nanos::new(deadline.get().saturating_add(slack.as_nanos()));
        if wake >= until {
            return false;
        }
        // The park is about to be ended, so nobody needs to end it again, however early the timer.
        self.parked_until = None;
        true
    }

    #[inline]
    pub(crate) fn count_fired(&mut self) {
        self.fired += 1;
    }

    #[inline]
    pub(crate) fn count_cancelled(&mut self) {
        self.cancelled += 1;
    }
}
