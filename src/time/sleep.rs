//! `Sleep`: a driver's timer, bound to its runtime.
//!
//! Ground rules:
//!
//! * A sleep that is made inside a runtime belongs to it. A sleep that is made outside belongs to the runtime of its
//!   first poll, and starts counting then. A timeout's sleep always belongs to the runtime of its first poll: most
//!   timeouts never need a runtime, and to remember one would cost them two atomic steps.
//! * A sleep of a given length has read the clock when it was made, and its first poll reads it only if the deadline is
//!   near. A sleep until a given moment reads the clock at its first poll, to learn whether that moment has passed.
//! * Nothing is registered before the first pending poll.
//! * A poll without budget begins the wait, too. When the runtime has ended the sleep, such a poll may be ready.
//! * A result costs the task one unit of its cooperative budget. A `Timeout`, an `Interval` and a `WallSleep` poll their
//!   sleep without that, and charge for their own results.

use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::future::FusedFuture;
use mainspring_driver::wheel::Slack;
use mainspring_driver::{Handle as Timers, Nanos, Shutdown, TimerEntry};
use pin_project_lite::pin_project;

use super::error::{Error, Kind};
use crate::clock::instant::{self, Instant};
use crate::coop::{self, Permit};
use crate::runtime::context;

/// Waits until `duration` has passed.
///
/// It never ends early: at least `duration` lies between the call and the end. (See [the module](super) for how late it
/// may end.) A duration of zero is ready at the first poll, and reads no clock; `Duration::MAX` never ends. A sleep
/// that is made outside a runtime starts counting at its first poll.
///
/// A sleep of more than a millisecond whose first poll comes after its deadline is ready at that poll if anything on
/// its runtime has read the clock since the deadline. Otherwise it is pending once, and ends in the next turn, which
/// does not sleep.
///
/// # Cancel safety
///
/// Dropping it cancels it; `&mut` of a pinned sleep may be awaited again and again.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::{Instant, sleep};
///
/// mainspring::block_on(async {
///     let start = Instant::now();
///     sleep(Duration::from_micros(300)).await;
///     assert!(start.elapsed() >= Duration::from_micros(300));
/// });
/// ```
#[inline]
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    // Most sleeps are made here, and what they wait for is known at compile time.
    Sleep::from_now(When::After(duration), |timers| timers.deadline_after(duration))
}

/// Waits until `deadline`. If that has passed by the first poll, the sleep is ready at that poll.
///
/// # Cancel safety
///
/// Dropping it cancels it; `&mut` of a pinned sleep may be awaited again and again.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::{Instant, sleep_until};
///
/// mainspring::block_on(async {
///     let deadline = Instant::now() + Duration::from_millis(1);
///     sleep_until(deadline).await;
///     assert!(Instant::now() >= deadline);
/// });
/// ```
#[inline]
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(When::At(deadline))
}

/// Waits as [`sleep`] does, but returns an error if the runtime is missing or gone, instead of panicking.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::try_sleep;
///
/// let outside = futures::executor::block_on(try_sleep(Duration::from_secs(1)));
/// assert!(outside.unwrap_err().is_no_runtime());
/// ```
#[track_caller]
pub fn try_sleep(duration: Duration) -> TrySleep {
    TrySleep { sleep: sleep(duration) }
}

/// Waits as [`sleep_until`] does, but returns an error if the runtime is missing or gone, instead of panicking.
///
/// # Cancel safety
///
/// Dropping it cancels it; `&mut` of a pinned sleep may be awaited again and again.
#[track_caller]
pub fn try_sleep_until(deadline: Instant) -> TrySleep {
    TrySleep { sleep: sleep_until(deadline) }
}

pin_project! {
    /// The future that [`sleep`] and [`sleep_until`] return.
    ///
    /// It may be polled, reset and dropped on any thread. A sleep that is polled again after it was ready is ready
    /// again. As a [`FusedFuture`] it is terminated then, so that `futures::select!` in a loop takes it only once,
    /// until it is [reset](Sleep::reset).
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::time::Duration;
    /// use futures::{StreamExt, select};
    /// use mainspring::time::{interval, sleep};
    ///
    /// mainspring::block_on(async {
    ///     let mut ticks = interval(Duration::from_millis(1));
    ///     let mut end = pin!(sleep(Duration::from_millis(4)));
    ///     loop {
    ///         select! {
    ///             _tick = ticks.select_next_some() => {}
    ///             () = end => break,
    ///         }
    ///     }
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// * If it was made outside a runtime and is polled outside one.
    /// * If its runtime was dropped while it waited, even if its deadline had passed by then and the runtime had not noticed
    ///   that; or before it waited, unless its deadline has passed by the runtime's latest reading of the clock.
    ///
    /// The message says where the sleep was made. [`try_sleep`] returns an error instead.
    ///
    /// # Cancel safety
    ///
    /// Dropping it cancels it; `&mut` of a pinned sleep may be awaited again and again.
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Sleep {
        #[pin]
        inner: Inner,
    }
}

pin_project! {
    #[project = InnerProj]
    enum Inner {
        /// Does not count yet: it was made outside a runtime, or counts from its first poll. Without a runtime it belongs
        /// to the runtime of its first poll.
        Waiting {
            timers: Option<Timers>,
            when: When,
            tolerance: Option<Slack>,
            origin: &'static Location<'static>,
        },
        /// Belongs to a runtime, and counts.
        Bound { #[pin] entry: TimerEntry },
    }
}

/// What a sleep waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    After(Duration),
    At(Instant),
    /// The moment at which the sleep is bound.
    Now,
    Never,
}

impl When {
    /// The deadline of a sleep that starts to count now, at its first poll. For a given moment this reads the clock, to
    /// learn whether that moment has passed.
    #[inline(always)]
    fn deadline(&self, timers: &Timers) -> Nanos {
        match *self {
            When::After(duration) => timers.deadline_after(duration),
            When::At(deadline) => {
                timers.now();
                instant::to_nanos(deadline)
            }
            When::Now => timers.now(),
            When::Never => Nanos::NEVER,
        }
    }
}

impl Inner {
    /// Binds the sleep to a runtime, by whose clock it then counts, if it does not count yet.
    #[inline(never)]
    fn bind(mut self: Pin<&mut Self>) -> Result<(), Error> {
        if let InnerProj::Waiting { timers, when, tolerance, origin } = self.as_mut().project() {
            let (tolerance, origin) = (*tolerance, *origin);
            let timers = timers.take().or_else(|| context::timers().ok()).ok_or(Error(Kind::NoRuntime))?;
            let at = when.deadline(&timers);
            self.set(Inner::Bound { entry: TimerEntry::with_origin(timers, at, origin) });
            if let (InnerProj::Bound { entry }, Some(slack)) = (self.project(), tolerance) {
                entry.set_tolerance(Some(slack.as_duration()));
            }
        }
        Ok(())
    }
}

impl Sleep {
    #[inline]
    #[track_caller]
    pub(super) fn new(when: When) -> Sleep {
        let origin = Location::caller();
        if let When::At(_) = when {
            let timers = context::timers().ok();
            return Sleep { inner: Inner::Waiting { timers, when, tolerance: None, origin } };
        }
        Sleep::from_now(when, |timers| when.deadline(timers))
    }

    /// A sleep that counts from now, if there is a runtime; `deadline` returns the deadline that `when` then has.
    #[inline]
    #[track_caller]
    fn from_now(when: When, deadline: impl FnOnce(&Timers) -> Nanos) -> Sleep {
        let origin = Location::caller();
        // The entry is built in place, not passed through: a copy whose loads straddle fresh stores is slow.
        match context::with(|handle| (handle.timers().clone(), deadline(handle.timers()))) {
            Ok((timers, at)) => {
                Sleep { inner: Inner::Bound { entry: TimerEntry::with_origin(timers, at, origin) } }
            }
            Err(_) => Sleep { inner: Inner::Waiting { timers: None, when, tolerance: None, origin } },
        }
    }

    /// A sleep that belongs to the runtime of its first poll, and starts counting there.
    #[inline]
    #[track_caller]
    pub(super) fn from_first_poll(when: When) -> Sleep {
        Sleep { inner: Inner::Waiting { timers: None, when, tolerance: None, origin: Location::caller() } }
    }

    /// Dumps and panics say that this sleep, which must not count yet, was made at `place`.
    #[cfg(feature = "tower")]
    pub(crate) fn made_at(mut self, place: &'static Location<'static>) -> Sleep {
        if let Inner::Waiting { origin, .. } = &mut self.inner {
            *origin = place;
        }
        self
    }

    /// Makes a sleep that never ends, until it is [reset](Sleep::reset).
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::time::Duration;
    /// use mainspring::time::{Instant, Sleep};
    ///
    /// mainspring::block_on(async {
    ///     let mut sleep = pin!(Sleep::never());
    ///     assert!(futures::poll!(sleep.as_mut()).is_pending());
    ///     sleep.as_mut().reset(Instant::now() + Duration::from_millis(1));
    ///     sleep.await;
    /// });
    /// ```
    #[track_caller]
    pub fn never() -> Sleep {
        Sleep::new(When::Never)
    }

    /// Returns when the sleep ends. If it has not started to count, because it was made outside a runtime and has not
    /// been polled, returns when it would end if it were polled now. A moment before the first one that this process
    /// asked for is returned as that first one.
    pub fn deadline(&self) -> Instant {
        match &self.inner {
            Inner::Bound { entry } => instant::from_nanos(entry.deadline()),
            Inner::Waiting { when, .. } => match when {
                When::After(duration) => self.now() + *duration,
                When::At(deadline) => instant::from_nanos(instant::to_nanos(*deadline)),
                When::Now => self.now(),
                When::Never => self.now() + Duration::MAX,
            },
        }
    }

    /// Lets the runtime end this sleep up to `most` late, so that it ends together with other timers: the wake-up is
    /// the most expensive part of a timer. The sleep still never ends early, and ends as soon as the runtime is awake
    /// and the deadline has passed. This replaces the runtime's [`Tolerance`](super::Tolerance).
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::sleep;
    ///
    /// mainspring::block_on(async {
    ///     // About 20 ms: whenever something else wakes the runtime, or 5 ms later.
    ///     sleep(Duration::from_millis(20)).tolerance(Duration::from_millis(5)).await;
    /// });
    /// ```
    pub fn tolerance(self, most: Duration) -> Sleep {
        let inner = match self.inner {
            Inner::Waiting { timers, when, origin, .. } => {
                Inner::Waiting { timers, when, tolerance: Some(Slack::at_most(most)), origin }
            }
            Inner::Bound { entry } => Inner::Bound { entry: entry.tolerance(most) },
        };
        Sleep { inner }
    }

    /// Lets the runtime end this sleep as exactly as the system can: no tolerance, even under load.
    pub fn precise(self) -> Sleep {
        self.tolerance(Duration::ZERO)
    }

    /// As [`tolerance`](Sleep::tolerance), for a sleep that may have been polled: the tolerance holds from the next
    /// time it is armed.
    pub(super) fn set_tolerance(self: Pin<&mut Self>, most: Duration) {
        match self.project().inner.project() {
            InnerProj::Waiting { tolerance, .. } => *tolerance = Some(Slack::at_most(most)),
            InnerProj::Bound { entry } => entry.set_tolerance(Some(most)),
        }
    }

    /// Returns whether the runtime or a poll has found that the sleep has ended. Until the sleep is polled or its
    /// runtime takes a turn, it may not be known yet.
    pub fn is_elapsed(&self) -> bool {
        matches!(&self.inner, Inner::Bound { entry } if entry.is_elapsed())
    }

    /// Moves the deadline, to any moment. The sleep then waits for that moment, even if it had ended.
    ///
    /// Moving it to a later moment takes no lock, and so it keeps the tolerance that it had, which the runtime computed from
    /// its [length](super#how-exact) when it was armed. If it is moved to a past moment, the sleep is ready at its next poll, and
    /// a task that waits for it is woken.
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::time::Duration;
    /// use mainspring::time::{Instant, sleep};
    ///
    /// mainspring::block_on(async {
    ///     let mut idle = pin!(sleep(Duration::from_secs(30)));
    ///     // Something arrived: the half minute begins anew.
    ///     idle.as_mut().reset(Instant::now() + Duration::from_secs(30));
    ///     assert!(futures::poll!(idle).is_pending());
    /// });
    /// ```
    #[inline]
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        match self.project().inner.project() {
            InnerProj::Waiting { when, .. } => *when = When::At(deadline),
            InnerProj::Bound { entry } => entry.reset(instant::to_nanos(deadline)),
        }
    }

    /// When the sleep ends. `None` for a sleep of a given length that has not begun to count.
    pub(super) fn known_deadline(&self) -> Option<Instant> {
        match &self.inner {
            Inner::Waiting { when: When::At(deadline), .. } => Some(*deadline),
            Inner::Waiting { .. } => None,
            Inner::Bound { .. } => Some(self.deadline()),
        }
    }

    /// The current moment by this sleep's clock.
    pub(super) fn now(&self) -> Instant {
        match &self.inner {
            Inner::Waiting { timers: None, .. } => Instant::now(),
            Inner::Waiting { timers: Some(timers), .. } => instant::from_nanos(timers.now()),
            Inner::Bound { entry } => instant::from_nanos(entry.handle().now()),
        }
    }

    /// Polls the sleep, without regard to the cooperative budget, and returns an error instead of panicking.
    ///
    /// # Errors
    ///
    /// If there is no runtime to bind to, or its runtime was dropped before the deadline.
    #[inline]
    pub(super) fn poll_elapsed(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.poll_entry(|entry| entry.poll_elapsed(cx))
    }

    /// Polls the sleep's entry with `poll`. Binds the sleep first if it does not count yet.
    #[inline]
    fn poll_entry(
        self: Pin<&mut Self>,
        poll: impl FnOnce(Pin<&mut TimerEntry>) -> Poll<Result<(), Shutdown>>,
    ) -> Poll<Result<(), Error>> {
        let mut inner = self.project().inner;
        if let InnerProj::Waiting { .. } = inner.as_mut().project() {
            inner.as_mut().bind()?;
        }
        match inner.project() {
            InnerProj::Bound { entry } => poll(entry).map_err(|_shutdown| Error(Kind::Shutdown)),
            InnerProj::Waiting { .. } => unreachable!("the sleep was bound above"),
        }
    }

    /// Asks whether the running poll may take the end of this sleep.
    #[inline]
    pub(super) fn poll_permit(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit> {
        let permit = coop::poll_proceed_timer(cx, || self.is_elapsed());
        if permit.is_pending() {
            self.begin(cx);
        }
        permit
    }

    /// Begins to wait, if the sleep does not yet. What has ended is found again by the next poll.
    #[cold]
    fn begin(self: Pin<&mut Self>, cx: &mut Context<'_>) {
        let _ = self.poll_entry(|entry| entry.poll_fired(cx));
    }

    /// As [`poll_elapsed`](Sleep::poll_elapsed), and charges the budget for the result.
    #[inline]
    pub(crate) fn poll_charged(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let permit = ready!(self.as_mut().poll_permit(cx));
        let result = ready!(self.poll_elapsed(cx));
        permit.spend();
        Poll::Ready(result)
    }

    /// Polls the sleep after a future that was polled just before; `had` says whether the budget had something left
    /// before that. If that future has used the budget up, the deadline is checked all the same: the future must not
    /// keep an elapsed deadline from being noticed. A sleep that waits ends in the runtime's next turn, after a look at the
    /// sockets: what that future waits for may have arrived in time. If that turn is late, the tasks that sockets have woken run first: one
    /// of them may have to read what has arrived.
    #[inline]
    pub(super) fn poll_beside(
        mut self: Pin<&mut Self>,
        had: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        let permit = if had && !coop::has_budget_remaining() {
            None
        } else {
            Some(ready!(self.as_mut().poll_permit(cx)))
        };
        let result = ready!(self.poll_entry(|mut entry| {
            if entry.is_elapsed() && coop::waits_for_others(entry.deadline(), cx.waker()) {
                return Poll::Pending;
            }
            entry.as_mut().poll_fired(cx)
        }));
        if let Some(permit) = permit {
            permit.spend();
        }
        Poll::Ready(result)
    }

    /// Polls the sleep as a timeout that waits, without regard to the budget: ready when the runtime's turn has ended it.
    #[cfg(feature = "hyper")]
    pub(crate) fn poll_fired(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.poll_entry(|entry| entry.poll_fired(cx))
    }

    /// Panics with `error`, naming the place where the sleep was made.
    #[cold]
    #[track_caller]
    pub(crate) fn fail(&self, error: Error) -> ! {
        let origin = match &self.inner {
            Inner::Waiting { origin, .. } => origin,
            Inner::Bound { entry } => entry.origin(),
        };
        panic!("{error} (the timer was made at {origin})")
    }
}

impl Future for Sleep {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let permit = ready!(self.as_mut().poll_permit(cx));
        // The entry is polled as a future, so that it knows when it is terminated.
        match ready!(self.as_mut().poll_entry(|entry| entry.poll(cx))) {
            Ok(()) => {
                permit.spend();
                Poll::Ready(())
            }
            Err(error) => self.fail(error),
        }
    }
}

/// Terminated once a poll was ready, until it is [reset](Sleep::reset).
impl FusedFuture for Sleep {
    fn is_terminated(&self) -> bool {
        matches!(&self.inner, Inner::Bound { entry } if entry.is_terminated())
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline())
            .field("elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}

pin_project! {
    /// The future that [`try_sleep`] and [`try_sleep_until`] return.
    ///
    /// # Errors
    ///
    /// Where a [`Sleep`] would panic: if it is in no runtime, or its runtime was dropped.
    ///
    /// # Cancel safety
    ///
    /// Dropping it cancels it; `&mut` of a pinned sleep may be awaited again and again.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::time::{Instant, try_sleep_until};
    ///
    /// mainspring::block_on(async {
    ///     let deadline = Instant::now() + Duration::from_millis(1);
    ///     assert_eq!(try_sleep_until(deadline).await, Ok(()));
    ///     assert!(Instant::now() >= deadline);
    /// });
    /// ```
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct TrySleep {
        #[pin]
        sleep: Sleep,
    }
}

impl Future for TrySleep {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().sleep.poll_charged(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timeout;

    #[test]
    fn a_sleep_is_small() {
        // With one word more, an allocation of a sleep would take 16 bytes more. A `Timeout` holds a sleep and its future,
        // and nothing else.
        assert!(size_of::<Sleep>() <= 56, "a Sleep takes {} bytes", size_of::<Sleep>());
        assert_eq!(size_of::<Timeout<[u64; 3]>>(), 24 + size_of::<Sleep>());
    }
}
