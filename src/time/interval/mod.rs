//! `Interval`: ticks that do not drift.
//!
//! Ground rules:
//!
//! * One sleep serves all ticks; it is re-armed in place.
//! * The next tick is computed from the moment for which the last tick was scheduled, not from when that was taken: the
//!   lateness of one tick never adds to the next.
//! * Jitter delays a tick, and never the schedule: the next tick counts from the schedule.
//! * After a tick is ready, nothing is registered. The next pending poll arms the next tick.

mod schedule;

pub use self::schedule::MissedTickBehavior;

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_core::future::FusedFuture;
use futures_core::stream::FusedStream;

use self::schedule::{Jitter, whole_periods};
use super::error::Error;
use super::instant::Instant;
use super::sleep::{Sleep, When};

/// Makes an [`Interval`] that ticks at once, and then every `period`.
///
/// An interval that is made outside a runtime starts at its first poll. (If it is [reset](Interval::reset) before that, it has
/// a given moment, as [`interval_at`] has: its own runtime is not known, so "now" is the current moment of the thread that
/// resets it, outside a runtime by the system's clock.) With `Duration::MAX` it ticks once.
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

/// Makes an [`Interval`] that ticks at `start`, and then every `period`.
///
/// # Panics
///
/// If `period` is zero.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::{Instant, interval_at};
///
/// mainspring::block_on(async {
///     let start = Instant::now() + Duration::from_millis(1);
///     let mut ticks = interval_at(start, Duration::from_millis(2));
///     assert_eq!(ticks.tick().await, start);
///     assert_eq!(ticks.tick().await, start + Duration::from_millis(2));
/// });
/// ```
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    Interval::new(When::At(start), period)
}

/// Periodic ticks, made by [`interval`] and [`interval_at`]. It is also a [`Stream`] of the ticks, which never ends.
///
/// A setting is read by the method of its name ([`period`](Interval::period)), and can be changed at any time by the method
/// that begins with `set_` ([`set_period`](Interval::set_period)). `reset` and its variants move the next tick. As with
/// every timer, [`tolerance`](Interval::tolerance) and [`precise`](Interval::precise) are part of its construction: they
/// take the interval and return it.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::{MissedTickBehavior, interval};
///
/// mainspring::block_on(async {
///     // Without this a machine that stands still for 2 ms would have the second tick due before the period is set.
///     mainspring::time::pause();
///     let mut ticks = interval(Duration::from_millis(2)).tolerance(Duration::from_millis(1));
///     ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
///     let first = ticks.tick().await;
///     ticks.set_period(Duration::from_millis(3));
///     assert_eq!(ticks.period(), Duration::from_millis(3));
///     assert_eq!(ticks.tick().await, first + Duration::from_millis(3));
/// });
/// ```
pub struct Interval {
    delay: Pin<Box<Sleep>>,
    /// The moment for which the next tick is scheduled, once there is one. The sleep's own deadline will not
    /// do: it cannot lie before the first moment that the process asked for.
    next: Option<Instant>,
    /// From when a new period counts; `None` if the next tick was set to a given moment.
    base: Option<Instant>,
    period: Duration,
    missed: MissedTickBehavior,
    jitter: Option<Jitter>,
}

impl Interval {
    #[track_caller]
    fn new(start: When, period: Duration) -> Interval {
        assert_period(period);
        let delay = Box::pin(Sleep::new(start));
        let next = if let When::At(start) = start { Some(start) } else { None };
        Interval { delay, next, base: None, period, missed: MissedTickBehavior::default(), jitter: None }
    }

    /// Lets the runtime end the wait for each tick up to `most` late; see [`Sleep::tolerance`]. Lateness does
    /// not add up.
    #[must_use]
    pub fn tolerance(mut self, most: Duration) -> Interval {
        self.delay.as_mut().set_tolerance(most);
        self
    }

    /// Lets the runtime end the wait for each tick as exactly as the system can; see [`Sleep::precise`].
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
        let permit = ready!(self.delay.as_mut().poll_permit(cx));
        if let Err(error) = ready!(self.delay.as_mut().poll_elapsed(cx)) {
            permit.spend();
            return Poll::Ready(Err(error));
        }
        let scheduled = match self.next {
            Some(next) => next,
            None if self.jitter.is_none() => self.delay.deadline(),
            None => {
                // The interval was made outside a runtime: it begins now, and only now can its first tick be delayed.
                let start = self.delay.deadline();
                self.schedule(start, None);
                if let Err(error) = ready!(self.delay.as_mut().poll_elapsed(cx)) {
                    permit.spend();
                    return Poll::Ready(Err(error));
                }
                start
            }
        };
        let due = match &mut self.jitter {
            Some(jitter) => jitter.due(scheduled),
            None => scheduled,
        };
        let base = self.missed.base(scheduled, due, || self.delay.now(), self.period);
        self.schedule(base + self.period, Some(base));
        permit.spend();
        Poll::Ready(Ok(scheduled))
    }

    /// Moves the next tick to one period from now; the others follow it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::time::{Instant, interval};
    ///
    /// mainspring::block_on(async {
    ///     let period = Duration::from_millis(2);
    ///     let mut ticks = interval(period);
    ///     ticks.tick().await;
    ///     std::thread::sleep(Duration::from_millis(1));
    ///     let now = Instant::now();
    ///     ticks.reset();
    ///     assert!(ticks.tick().await >= now + period);
    /// });
    /// ```
    pub fn reset(&mut self) {
        let now = self.delay.now();
        self.forget_last();
        self.schedule(now + self.period, Some(now));
    }

    /// Moves the next tick to now; the others follow it.
    pub fn reset_immediately(&mut self) {
        self.reset_after(Duration::ZERO);
    }

    /// Moves the next tick to `after` from now; the others follow it.
    pub fn reset_after(&mut self, after: Duration) {
        let at = self.delay.now() + after;
        self.reset_at(at);
    }

    /// Moves the next tick to `deadline`, which may lie in the past; the others follow it.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.forget_last();
        self.schedule(deadline, None);
    }

    /// Returns the time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Changes the time between two ticks. The phase of the last tick stays: the following ticks are whole new periods
    /// after it. (If ticks were missed, it is the last one that [`Skip`](MissedTickBehavior::Skip) left out, and with
    /// [`Delay`](MissedTickBehavior::Delay) the moment at which the late one was taken.)
    ///
    /// * If less than a new period has passed since the last tick, the next tick is one new period after it. If more
    ///   has passed, the next tick is the first whole number of new periods after it that lies ahead: a shorter period
    ///   causes no missed ticks.
    /// * A tick that is due and was not taken yet stays, and the new period counts from it. The same holds for a first
    ///   tick that was not taken yet, and for a tick whose moment was set by [`reset_at`](Interval::reset_at),
    ///   [`reset_after`](Interval::reset_after) or [`reset_immediately`](Interval::reset_immediately); after
    ///   [`reset`](Interval::reset) the new period counts from that call.
    ///
    /// A task that waits for the tick meanwhile is woken at the new moment.
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
    ///     mainspring::time::pause();
    ///     let mut ticks = interval(Duration::from_secs(3600));
    ///     let first = ticks.tick().await;
    ///     ticks.set_period(Duration::from_millis(200));
    ///     assert_eq!(ticks.tick().await, first + Duration::from_millis(200));
    /// });
    /// ```
    #[track_caller]
    pub fn set_period(&mut self, period: Duration) {
        assert_period(period);
        self.period = period;
        let (Some(base), Some(next)) = (self.base, self.next) else { return };
        let now = self.delay.now();
        if next > now {
            // The start stays: the next change of the period, too, counts from the last tick.
            let next = base + whole_periods(now - base, period) + period;
            self.schedule(next, Some(base));
        }
    }

    /// Returns what the interval does about missed ticks.
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed
    }

    /// Sets what the interval does about missed ticks.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed = behavior;
    }

    /// Returns the longest delay of a tick; zero without jitter.
    pub fn jitter(&self) -> Duration {
        self.jitter.as_ref().map_or(Duration::ZERO, Jitter::most)
    }

    /// Delays each tick from the next one on, which may be the first, by a random time up to `most`, so that many
    /// intervals with the same period do not all tick at once.
    ///
    /// No tick comes before its schedule, and the schedule stays as it is: delays do not add up, and
    /// [`tick`](Interval::tick) returns the moment for which the tick was scheduled, without its delay. Such a delay
    /// does not make a tick a missed one. If `most` is longer than the period, ticks may come in bunches, but in order,
    /// and none is lost. `Duration::ZERO` removes the jitter.
    ///
    /// The random numbers differ for each interval, and in each run of the program, unless the interval has a
    /// [seed](Interval::set_jitter_seed) or the runtime [has one](crate::Builder::seed), as a runtime that [starts
    /// paused](crate::Builder::start_paused) has: then two runs are the same. Its runtime is the one in which it first draws:
    /// at this call, or at its first poll if it is made by [`interval`] outside a runtime. An [`interval_at`] that gets its
    /// jitter outside a runtime draws there, and needs a seed of its own.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::time::{Instant, interval};
    ///
    /// mainspring::block_on(async {
    ///     let mut ticks = interval(Duration::from_millis(2));
    ///     ticks.set_jitter(Duration::from_millis(1));
    ///     let first = ticks.tick().await;
    ///     let second = ticks.tick().await;
    ///     assert_eq!(second - first, Duration::from_millis(2));
    ///     assert!(Instant::now() >= second);
    /// });
    /// ```
    pub fn set_jitter(&mut self, most: Duration) {
        self.jitter.get_or_insert_default().set_most(most);
        self.draw_anew();
    }

    /// Sets the seed of the random numbers of the [jitter](Interval::set_jitter), whatever the runtime's
    /// [`seed`](crate::Builder::seed): the same seed produces the same delays. For tests and simulations.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::time::interval;
    ///
    /// mainspring::block_on(async {
    ///     let mut ticks = interval(Duration::from_millis(2));
    ///     ticks.set_jitter(Duration::from_millis(1));
    ///     ticks.set_jitter_seed(7);
    ///     ticks.tick().await;
    /// });
    /// ```
    pub fn set_jitter_seed(&mut self, seed: u64) {
        self.jitter.get_or_insert_default().set_seed(seed);
        self.draw_anew();
    }

    /// Schedules the next tick at `next`, which is a period after `base` if there is one, and draws its jitter.
    fn schedule(&mut self, next: Instant, base: Option<Instant>) {
        self.next = Some(next);
        self.base = base;
        let delay = self.jitter.as_mut().map_or(Duration::ZERO, Jitter::draw);
        self.delay.as_mut().reset(next + delay);
    }

    /// Draws another delay for the next tick. If it is not known yet when that tick is, the first poll does so.
    fn draw_anew(&mut self) {
        if let Some(next) = self.next.or_else(|| self.delay.known_deadline()) {
            self.schedule(next, self.base);
        }
    }

    /// The next tick does not follow the last one, but a reset.
    fn forget_last(&mut self) {
        if let Some(jitter) = &mut self.jitter {
            jitter.forget_last();
        }
    }

    fn next(&self) -> Instant {
        self.next.unwrap_or_else(|| self.delay.deadline())
    }
}

#[track_caller]
fn assert_period(period: Duration) {
    assert!(!period.is_zero(), "`period` must not be zero: the interval would tick without end");
}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("next", &self.next())
            .field("period", &self.period)
            .field("missed_tick_behavior", &self.missed)
            .field("jitter", &self.jitter())
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

/// Never terminated.
impl FusedStream for Interval {
    fn is_terminated(&self) -> bool {
        false
    }
}

/// The future that [`Interval::tick`] returns. Its output is the moment for which the tick was scheduled.
///
/// # Cancel safety
///
/// Dropping it loses no tick.
///
/// ```
/// use std::time::Duration;
/// use futures::future::{Either, select};
/// use mainspring::time::{interval, sleep};
/// use std::pin::pin;
///
/// // In virtual time, where nothing comes too late.
/// let runtime = mainspring::Builder::new().start_paused(true).build()?;
/// runtime.block_on(async {
///     let mut ticks = interval(Duration::from_millis(4));
///     let first = ticks.tick().await;
///     // The wait for the tick is given up, and the tick comes all the same.
///     let nap = pin!(sleep(Duration::from_millis(1)));
///     assert!(matches!(select(ticks.tick(), nap).await, Either::Right(_)));
///     assert_eq!(ticks.tick().await, first + Duration::from_millis(4));
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
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

/// Never terminated: polled again after a tick, it waits for the next one.
impl FusedFuture for Tick<'_> {
    fn is_terminated(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_on;

    #[test]
    fn one_seed_gives_one_sequence_on_one_schedule() {
        block_on(async {
            let (period, most) = (Duration::from_millis(10), Duration::from_millis(4));
            let start = Instant::now() - 200 * period;
            let delays = |seed| async move {
                let mut ticks = interval_at(start, period);
                ticks.set_jitter(most);
                ticks.set_jitter_seed(seed);
                let mut delays = Vec::new();
                for n in 0..100 {
                    let delay = ticks.jitter.as_ref().unwrap().drawn();
                    assert!(delay <= most);
                    delays.push(delay);
                    assert_eq!(ticks.tick().await, start + n * period);
                }
                delays
            };
            assert_eq!(delays(7).await, delays(7).await);
            assert_ne!(delays(7).await, delays(8).await);
        });
    }

    #[test]
    fn the_delay_comes_on_top_of_the_schedule() {
        block_on(async {
            let at = Instant::now() + Duration::from_secs(60);
            let mut ticks = interval_at(at, Duration::from_secs(1));
            ticks.set_jitter(Duration::from_secs(9));
            for _ in 0..100 {
                ticks.reset_at(at);
                let delay = ticks.delay.deadline() - at;
                assert_eq!(Some(delay), ticks.jitter.as_ref().map(Jitter::drawn));
                assert!(delay <= Duration::from_secs(9));
            }
            ticks.set_jitter(Duration::ZERO);
            assert_eq!(ticks.delay.deadline(), at);
        });
    }
}
