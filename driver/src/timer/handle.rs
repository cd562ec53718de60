//! `Handle`: a driver as seen by code that makes timers; its counts ([`Stats`]), and the timers that wait ([`Pending`]).
//!
//! Ground rules:
//!
//! * It may be used on any thread. It reads the clock and the counts, and takes the lock only for state that the lock protects.
//! * What is published of the wheel is written under the lock, and may be read without it. It is never later than the time that it
//!   stands for.
//! * A reading of the clock never goes back: it is at least the latest reading that any thread took through this driver.
//! * To list pending timers, only bits are read under the lock: no waker is cloned, called or compared by foreign
//!   code. A listed timer may have fired, or have been dropped, before the list is read.

use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::time::Duration;

use super::TimerEntry;
use super::driver::{Inner, Shared};
use crate::sync::{BiasedGuard, Counted, Ordering};
use crate::wheel::Occupancy;
use crate::{Clock, Lateness, Nanos, Tolerance};

/// A pending poll reads the clock if the deadline lies no further than this from the latest reading.
const NEAR: u64 = 1_000_000;
/// Of this many pending polls since the last turn, one reads the clock in any case.
const POLLS_PER_READING: u32 = 64;

/// After this many pending polls since the last turn, no turn seems to come.
const NO_TURN: u32 = 4096;

/// Counts since the driver began; see [`Handle::stats`].
///
/// ```
/// use mainspring_driver::{Clock, Driver};
///
/// let driver = Driver::new(Clock::monotonic(), || {});
/// let stats = driver.handle().stats();
/// assert_eq!((stats.live, stats.armed), (0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Timers in the wheel now.
    pub live: usize,
    /// Timers that were registered.
    pub armed: u64,
    /// Timers that came due.
    pub fired: u64,
    /// Timers that were unregistered before their deadline, also by a shutdown. Every timer that was armed has fired,
    /// was cancelled, or is live.
    pub cancelled: u64,
    /// Resets of registered timers to a later time, or to the same time. Where several threads reset timers at once, a few may be
    /// missing.
    pub reset: u64,
    /// Moves of timers within the wheel.
    pub moved: u64,
    /// Timers that the wheel has filed with the wider slack that load allows; see [`Tolerance::Adaptive`](crate::Tolerance::Adaptive).
    pub timers_widened: u64,
    /// Parks that outlast the earliest deadline, so that timers end together: how often
    /// [`Driver::next_wake`](crate::Driver::next_wake) returned a time after the earliest deadline. (If that timer was cancelled
    /// or reset since, a time after the earliest deadline that was filed.) Paused time is not counted.
    pub parks_coalesced: u64,
}

/// A timer that was registered when [`Handle::pending`] looked.
///
/// ```
/// use std::task::{Context, Waker};
/// use std::time::Duration;
/// use futures::FutureExt;
/// use mainspring_driver::{Clock, Driver};
///
/// let driver = Driver::new(Clock::monotonic(), || {});
/// let mut sleep = Box::pin(driver.handle().sleep(Duration::from_secs(60)));
/// assert!(sleep.poll_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
/// let pending = driver.handle().pending();
/// assert_eq!(pending.len(), 1);
/// assert_eq!(pending[0].waker_data, Waker::noop().data() as usize);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pending {
    /// When the timer is due.
    pub deadline: Nanos,
    /// Its sequence number, in the order of registration: of two equal deadlines, the one with the lower number fires first.
    pub sequence: u64,
    /// Where the timer was made; see [`TimerEntry::origin`](crate::TimerEntry::origin).
    pub origin: &'static Location<'static>,
    /// What is woken when the timer fires: the address that is the [data](std::task::Waker::data) of its waker. It may be
    /// compared while the waker is known to live, and must never be followed.
    pub waker_data: usize,
    /// The address of that waker's [functions](std::task::Waker::vtable).
    pub waker_vtable: usize,
}

/// Makes timers. Cheap to clone; may be used on any thread.
#[derive(Clone)]
pub struct Handle {
    pub(super) shared: Counted<Shared>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("clock", self.clock()).finish_non_exhaustive()
    }
}

impl Handle {
    pub(super) fn new(shared: Counted<Shared>) -> Handle {
        Handle { shared }
    }

    /// Returns a timer that is due `duration` from now. Reads the clock, unless `duration` is zero.
    #[inline]
    #[track_caller]
    pub fn sleep(&self, duration: Duration) -> TimerEntry {
        TimerEntry::new(self.clone(), self.deadline_after(duration))
    }

    /// Returns the moment `duration` from now. Reads the clock, unless `duration` is zero: then any reading will do,
    /// because that moment has passed.
    #[inline]
    pub fn deadline_after(&self, duration: Duration) -> Nanos {
        let now = if duration.is_zero() { self.latest() } else { self.now() };
        now.saturating_add(duration)
    }

    /// Returns a timer that is due at `deadline`.
    #[inline]
    #[track_caller]
    pub fn sleep_until(&self, deadline: Nanos) -> TimerEntry {
        TimerEntry::new(self.clone(), deadline)
    }

    /// Reads the driver's clock. If the clock has gone back, returns the latest reading: a timer that is set from it
    /// fires late rather than early.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.shared.note(self.shared.clock.now())
    }

    /// Returns what the clock shows, or the driver's own time if that has been stopped.
    #[inline]
    fn read(&self) -> Nanos {
        let now = self.shared.clock.now();
        let _ = self.shared.note(now);
        now
    }

    /// Returns the latest reading of the clock that was taken through this driver: it is not later than now.
    #[inline]
    pub fn latest(&self) -> Nanos {
        self.shared.latest()
    }

    /// Returns a time before which no timer of this driver is due. One relaxed load: it is for a host that asks between two polls
    /// whether it is time for [`Driver::process`](crate::Driver::process).
    ///
    /// Arming or resetting a timer to an earlier time lowers it. `process` raises it to the earliest time that is left, or to
    /// [`Nanos::NEVER`] if no timer is left; [`Nanos::ZERO`] means that the last `process` was cut short and must be called
    /// again. It may be too early after timers were cancelled or reset, which costs one call that finds nothing due. It is
    /// never too late on a thread that sees the arming; a timer that another thread arms may show a moment later.
    ///
    /// ```
    /// use std::time::Duration;
    /// use std::task::{Context, Waker};
    /// use mainspring_driver::{Driver, Nanos, TestClock};
    /// use futures::FutureExt;
    ///
    /// let test = TestClock::new(Nanos::ZERO);
    /// let mut driver = Driver::new(test.clock(), || ());
    /// assert_eq!(driver.handle().earliest_due(), Nanos::NEVER);
    ///
    /// let mut timer = Box::pin(driver.handle().sleep(Duration::from_millis(5)));
    /// assert!(timer.poll_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
    /// assert_eq!(driver.handle().earliest_due(), Nanos::new(5_000_000));
    ///
    /// test.advance(Duration::from_millis(5));
    /// assert_eq!(driver.process(test.now(), 1024).fired, 1);
    /// assert_eq!(driver.handle().earliest_due(), Nanos::NEVER);
    /// ```
    #[inline]
    pub fn earliest_due(&self) -> Nanos {
        // Relaxed: nothing is read on the strength of it except the clock, and then the lock orders everything else. A thread
        // sees its own stores; the stores of other threads need not be seen at once.
        Nanos::from_word(self.shared.earliest.load(Ordering::Relaxed))
    }

    /// Returns the clock that the driver was made on. Its readings are the driver's time as long as that time was not
    /// [stopped](Handle::pause).
    pub fn clock(&self) -> &Clock {
        self.shared.clock.clock()
    }

    /// Returns how much slack the driver gives to timers that have no tolerance of their own; see
    /// [`Driver::with_tolerance`](crate::Driver::with_tolerance).
    pub fn tolerance(&self) -> Tolerance {
        self.lock().entries.slack.tolerance
    }

    /// Whether the driver was shut down.
    pub fn is_shutdown(&self) -> bool {
        self.lock().closed
    }

    /// Whether two handles belong to one driver.
    pub fn same_driver(&self, other: &Handle) -> bool {
        self.shared.same(&other.shared)
    }

    /// Returns counts of what the driver has done so far.
    pub fn stats(&self) -> Stats {
        let inner = self.lock();
        Stats {
            live: inner.entries.len(),
            armed: inner.armed,
            fired: inner.fired,
            cancelled: inner.armed - inner.fired - inner.entries.len() as u64,
            reset: self.shared.resets.load(Ordering::Relaxed),
            moved: inner.entries.moved(),
            timers_widened: inner.entries.slack.widened(),
            parks_coalesced: inner.parks_coalesced,
        }
    }

    /// Returns how late timers fired so far. Copies about 800 bytes, under the lock.
    pub fn lateness(&self) -> Lateness {
        self.lock().lateness
    }

    /// Returns how full the wheel's slots are, for a view of the wheel. Takes about a microsecond, under the lock.
    pub fn occupancy(&self) -> Occupancy {
        self.lock().entries.occupancy()
    }

    /// Returns all registered timers, in the order of (deadline, sequence number): to show what is pending.
    ///
    /// They are collected under the driver's lock, in one go, because otherwise they would move meanwhile. Arming on another
    /// thread waits that long, about 40 ms for a million timers. They are sorted without the lock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring_driver::{Clock, Driver};
    /// use futures::FutureExt;
    ///
    /// let driver = Driver::new(Clock::monotonic(), || ());
    /// let mut timer = Box::pin(driver.handle().sleep(Duration::from_secs(5)));
    /// assert!(driver.handle().pending().is_empty());
    /// let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// assert!(timer.poll_unpin(&mut cx).is_pending());
    /// let pending = driver.handle().pending();
    /// assert_eq!((pending[0].deadline, pending[0].origin), (timer.deadline(), timer.origin()));
    /// ```
    pub fn pending(&self) -> Vec<Pending> {
        // Room for all timers, and for those armed until the lock is held again, so that no room is made under the lock.
        let expected = self.lock().entries.len();
        let mut found = Vec::with_capacity(expected + expected / 8 + 64);
        self.lock().entries.each(|pending| found.push(pending));
        found.sort_unstable_by_key(|pending: &Pending| (pending.deadline, pending.sequence));
        found
    }

    /// Asserts that the wheel's invariants hold and that every entry in it is linked and has the right place.
    /// O(n), under the lock; for tests of the driver. Only with the feature `check`.
    ///
    /// # Panics
    ///
    /// If an invariant does not hold: then the driver has a defect.
    #[cfg(feature = "check")]
    pub fn check(&self) {
        self.lock().entries.check();
    }

    /// Stops the driver's time at what it is now. Returns false if it was stopped already.
    ///
    /// From here on only [`advance_to`](Handle::advance_to) moves it. (If another thread is reading the clock at this moment, its
    /// reading counts, too, and time stops at the later of the two.) Deadlines are compared with it as before, and the
    /// driver's host decides when to move it: mostly to [`Driver::next_deadline`](crate::Driver::next_deadline)
    /// when nothing is left to run. A park that is under way is ended, because what it waits for has changed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring_driver::{Clock, Driver};
    ///
    /// let driver = Driver::new(Clock::monotonic(), || ());
    /// let handle = driver.handle();
    /// assert!(handle.pause());
    /// let stood = handle.now();
    /// assert!(handle.advance_to(stood.saturating_add(Duration::from_secs(3600))));
    /// assert_eq!(handle.now().saturating_duration_since(stood), Duration::from_secs(3600));
    /// assert!(handle.resume());
    /// assert!(handle.now().saturating_duration_since(stood) >= Duration::from_secs(3600));
    /// ```
    pub fn pause(&self) -> bool {
        let paused = self.shared.clock.pause(self.latest());
        if paused {
            self.unpark();
        }
        paused
    }

    /// Lets the driver's time go on from its present value, at the speed of its clock. Returns false if it was not
    /// stopped.
    pub fn resume(&self) -> bool {
        let resumed = self.shared.clock.resume();
        if resumed {
            self.unpark();
        }
        resumed
    }

    /// Moves a stopped clock forward to `at`. It stops just before the end of time, and a time in the past
    /// leaves it where it is. Returns false if the clock is not stopped.
    ///
    /// No timer fires: that is left to [`Driver::process`](crate::Driver::process).
    pub fn advance_to(&self, at: Nanos) -> bool {
        let advanced = self.shared.clock.advance_to(at);
        if advanced {
            self.now();
        }
        advanced
    }

    /// Whether the driver's time is stopped.
    #[inline]
    pub fn is_paused(&self) -> bool {
        self.clock_changes() % 2 == 1
    }

    /// Returns how often the driver's time was stopped or resumed. It is odd while the time is stopped, and zero as long as the
    /// driver's time is the time of [its clock](Handle::clock). A caller that keeps a difference between this time and another
    /// must measure it again when the count has changed.
    #[inline]
    pub fn clock_changes(&self) -> u32 {
        self.shared.clock.changes()
    }

    /// Takes the lock, and notes what time it is, for callers that link an entry or use the wheel.
    #[inline]
    pub(crate) fn lock(&self) -> BiasedGuard<'_, Inner> {
        let mut inner = self.shared.inner.lock();
        inner.entries.note(self.latest());
        inner
    }

    /// Takes the lock, to link an entry or bring it forward: its slack is computed from the latest reading of the clock.
    #[inline]
    pub(crate) fn lock_to_link(&self) -> BiasedGuard<'_, Inner> {
        let locked = self.lock();
        if locked.parked_until.is_none() { locked } else { self.lock_in_park(locked) }
    }

    #[cold]
    fn lock_in_park<'a>(&'a self, locked: BiasedGuard<'a, Inner>) -> BiasedGuard<'a, Inner> {
        // Nobody may have read the clock since the park began.
        drop(locked);
        self.now();
        self.lock()
    }

    /// Takes the lock, for an entry that may be far away in memory.
    #[inline]
    pub(crate) fn lock_at_hand(&self) -> BiasedGuard<'_, Inner> {
        self.shared.get().inner.lock()
    }

    /// Runs `section` with `input` under the lock, if the calling thread has the shared state at hand and gets the lock without
    /// an atomic step.
    ///
    /// # Errors
    ///
    /// The input, if not.
    #[inline]
    pub(crate) fn section_own<A, R>(
        &self,
        input: A,
        section: impl FnOnce(&mut Inner, A) -> R,
    ) -> Result<R, A> {
        match self.shared.at_hand() {
            Some(shared) => shared.inner.section_own(input, section),
            None => Err(input),
        }
    }

    /// Publishes that a timer has just been linked, or its deadline brought forward. Returns whether the driver's thread must be
    /// unparked for it.
    #[inline]
    pub(crate) fn linked(&self, locked: &mut Inner, entry: Pin<&TimerEntry>, deadline: Nanos) -> bool {
        self.shared.lower_earliest(locked, deadline);
        let Some(parked_until) = locked.parked_until else { return false };
        let slack = locked.entries.slack_of(entry, deadline);
        let wake = deadline.latest_wake(slack.as_nanos());
        if wake >= parked_until {
            return false;
        }
        // This thread is about to end the park, but may be held up before it does so. A thread that arms an even earlier timer
        // does not rely on it.
        locked.parked_until = Some(wake);
        true
    }

    pub(crate) fn unpark(&self) {
        self.shared.unpark.unpark();
    }

    /// Whether `deadline` has passed, for a timer that is not registered. Reads the clock only if the deadline is near.
    #[inline]
    pub(crate) fn has_passed(&self, deadline: Nanos) -> bool {
        let latest = self.latest();
        deadline <= latest || (deadline.saturating_nanos_since(latest) <= NEAR && deadline <= self.read())
    }

    /// Whether `deadline` has passed, for a poll of a registered timer, which the driver would have fired if it had been run. Reads the
    /// clock if the deadline is near, or now and then.
    #[inline]
    pub(crate) fn is_overdue(&self, deadline: Nanos) -> bool {
        let polls = self.count_poll();
        let near = deadline.saturating_nanos_since(self.latest()) <= NEAR;
        (near || polls % POLLS_PER_READING == 0) && deadline <= self.read()
    }

    /// Whether `deadline` has passed, and the driver seems not to be run any more.
    #[inline]
    pub(crate) fn is_stuck(&self, deadline: Nanos) -> bool {
        let polls = self.count_poll();
        // If several timers are polled in turns, every 64th poll may always be the same timer's: the others go by its reading.
        polls >= NO_TURN
            && (deadline <= self.latest() || (polls % POLLS_PER_READING == 0 && deadline <= self.read()))
    }

    /// Returns how many polls of registered timers there have been since the last turn, with this one.
    #[inline]
    fn count_poll(&self) -> u32 {
        // Relaxed, and not one atomic step: a count that is lost only delays a reading.
        let shared = self.shared.get();
        let polls = shared.polls.load(Ordering::Relaxed).wrapping_add(1);
        shared.polls.store(polls, Ordering::Relaxed);
        polls
    }

    #[inline]
    pub(crate) fn count_reset(&self) {
        // Relaxed, and not one atomic step: only a count, and mostly from one thread.
        let shared = self.shared.get();
        let resets = shared.resets.load(Ordering::Relaxed);
        shared.resets.store(resets + 1, Ordering::Relaxed);
    }
}
