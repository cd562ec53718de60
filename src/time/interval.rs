//! `Interval`: ticks that do not drift.
//!
//! Ground rules:
//!
//! * One sleep serves all ticks; it is re-armed in place.
//! * The next tick is computed from the moment for which the last was scheduled, not from when it was taken:
//!   what lateness adds to one tick never adds to the next.
//! * A tick that is ready leaves nothing registered. The next one is armed by the next pending poll.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;

use super::error::Error;
use super::instant::Instant;
use super::sleep::{Sleep, When};
use crate::executor::budget;

/// How late a tick may be before [`MissedTickBehavior::Delay`] takes it for missed, unless the period is
/// shorter.
const DELAY_GRACE: Duration = Duration::from_millis(5);

/// Ticks at once, and then every `period`.
///
/// Made outside a runtime, it starts at its first poll. `Duration::MAX` ticks once.
///
/// # Panics
///
/// If `period` is zero.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::interval;
///
/// mainspring::block_on(async {
///     let mut interval = interval(Duration::from_millis(1));
///     let first = interval.tick().await;
///     let second = interval.tick().await;
///     assert_eq!(second - first, Duration::from_millis(1));
/// });
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    Interval::new(When::Now, period)
}

/// Ticks at `start`, and then every `period`.
///
/// # Panics
///
/// If `period` is zero.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    Interval::new(When::At(start), period)
}

/// What an [`Interval`] does about ticks that were not taken in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissedTickBehavior {
    /// Makes up for them: ticks without a pause until none is missing, then on schedule. The default.
    #[default]
    Burst,
    /// Ticks on from now: the next tick is a period after the late one was taken. A tick that is no later than
    /// the smaller of 5 ms and the period counts as in time, and keeps the schedule.
    Delay,
    /// Leaves them out: the next tick is the next one on schedule.
    Skip,
}

impl MissedTickBehavior {
    /// When to tick after the tick of `scheduled`, which is being taken at `now()`.
    fn next(self, scheduled: Instant, now: impl FnOnce() -> Instant, period: Duration) -> Instant {
        match self {
            MissedTickBehavior::Burst => scheduled + period,
            MissedTickBehavior::Delay => {
                let now = now();
                let late = now - scheduled > DELAY_GRACE.min(period);
                if late { now + period } else { scheduled + period }
            }
            MissedTickBehavior::Skip => {
                let late = (now() - scheduled).as_nanos();
                // Neither is longer than 292 years of nanoseconds, or nothing was missed.
                let into = u64::try_from(late % period.as_nanos()).unwrap_or(0);
                let whole = Duration::from_nanos(u64::try_from(late).unwrap_or(0) - into);
                scheduled + whole + period
            }
        }
    }
}

/// Ticks, made by [`interval`] and [`interval_at`]. Also a [`Stream`] of the ticks, which never ends.
pub struct Interval {
    delay: Pin<Box<Sleep>>,
    /// The moment for which the next tick is scheduled, once there is one. The sleep's own deadline will not
    /// do: it cannot lie before the runtime began.
    next: Option<Instant>,
    period: Duration,
    missed: MissedTickBehavior,
}

impl Interval {
    #[track_caller]
    fn new(start: When, period: Duration) -> Interval {
        assert_period(period);
        let delay = Box::pin(Sleep::new(start));
        let next = if let When::At(start) = start { Some(start) } else { None };
        Interval { delay, next, period, missed: MissedTickBehavior::default() }
    }

    /// Lets the runtime end the wait for each tick up to `most` late; see [`Sleep::tolerance`]. Lateness does
    /// not add up.
    #[must_use]
    pub fn tolerance(mut self, most: Duration) -> Interval {
        self.delay.as_mut().set_tolerance(most);
        self
    }

    /// Ends the wait for each tick as exactly as the system can; see [`Sleep::precise`].
    #[must_use]
    pub fn precise(self) -> Interval {
        self.tolerance(Duration::ZERO)
    }

    /// Waits for the next tick. Returns the moment for which it was scheduled, which may lie in the past.
    ///
    /// # Panics
    ///
    /// As [`Sleep`] does: without a runtime, or after it was dropped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no tick.
    pub fn tick(&mut self) -> Tick<'_> {
        Tick { interval: self }
    }

    /// Polls for the next tick.
    ///
    /// # Panics
    ///
    /// As [`tick`](Interval::tick).
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        self.try_poll_tick(cx).map(|result| match result {
            Ok(at) => at,
            Err(error) => self.delay.fail(error),
        })
    }

    /// Polls for the next tick; a runtime that is missing or gone is an error, not a panic.
    ///
    /// # Errors
    ///
    /// If there is no runtime to bind to, or it was dropped.
    pub fn try_poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Result<Instant, Error>> {
        let permit = ready!(budget::poll_proceed(cx));
        if let Err(error) = ready!(self.delay.as_mut().poll_elapsed(cx)) {
            return Poll::Ready(Err(error));
        }
        let scheduled = self.next();
        let next = self.missed.next(scheduled, || self.delay.now(), self.period);
        self.reset_at(next);
        permit.spend();
        Poll::Ready(Ok(scheduled))
    }

    /// The next tick is one period from now.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// The next tick is now.
    pub fn reset_immediately(&mut self) {
        self.reset_after(Duration::ZERO);
    }

    /// The next tick is `after` from now.
    pub fn reset_after(&mut self, after: Duration) {
        let at = self.delay.now() + after;
        self.reset_at(at);
    }

    /// The next tick is at `deadline`.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.next = Some(deadline);
        self.delay.as_mut().reset(deadline);
    }

    /// What it does about missed ticks.
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed
    }

    /// Sets what it does about missed ticks.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed = behavior;
    }

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }

    fn next(&self) -> Instant {
        self.next.unwrap_or_else(|| self.delay.deadline())
    }
}

#[track_caller]
fn assert_period(period: Duration) {
    assert!(!period.is_zero(), "`period` must be non-zero: an interval without one would tick for ever");
}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("next", &self.next())
            .field("period", &self.period)
            .field("missed_tick_behavior", &self.missed)
            .finish()
    }
}

impl Stream for Interval {
    type Item = Instant;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.get_mut().poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

/// The future of [`Interval::tick`].
#[derive(Debug)]
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Tick<'a> {
    interval: &'a mut Interval,
}

impl Future for Tick<'_> {
    type Output = Instant;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        self.interval.poll_tick(cx)
    }
}
