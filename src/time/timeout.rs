//! `Timeout`: a limit to how long another future may take.
//!
//! Ground rules:
//!
//! * The inner future is polled first, and wins if it is ready, even past the deadline.
//! * The clock starts when a poll has found the inner future pending, and the timeout belongs to the runtime of that poll.
//!   So a future that is ready at once costs no clock, no lock, no registration, and no reference to a runtime.
//! * The timer is polled whenever the inner future is pending, even if it is pending only because it has used up
//!   the task's cooperative budget in this very poll.
//! * Once it waits, the runtime's turn ends it, which looks at the sockets first. So if the thread was held up, what
//!   has arrived in time is seen before the timeout that waits for it. Only where no turn comes does a poll end it, after
//!   some thousands.
//! * What has arrived may have to be read by another task, which a socket has woken: the timeout's task, which a timer has woken,
//!   runs before it. So a timeout that is found late lets the tasks run first that sockets have woken by then, if there are any.
//! * An elapsed timeout is a result like any other, and is charged to the budget. So a loop of timeouts that elapse at
//!   once lets other tasks run.

use std::future::IntoFuture;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::error::{Elapsed, Error};
use super::instant::Instant;
use super::sleep::{Sleep, When};
use crate::coop;

/// Limits how long `future` may take: if it is not ready after `duration`, the result is [`Elapsed`].
///
/// The clock starts when the first poll finds `future` pending: the time spent inside that poll does not count. A
/// future that is ready at once costs next to nothing, and a future that is ready wins over a deadline that has passed.
/// `Duration::MAX` never elapses.
///
/// If the thread was held up, what has arrived in time comes first: the runtime looks at the sockets before it ends a timeout, and one
/// that is late by more than two milliseconds lets the tasks run first that sockets have woken, because one of them may have to read the
/// answer, as the task of a connection does for a hyper client.
///
/// Unlike a [`sleep`](super::sleep()) a timeout belongs to the runtime in which that poll happens, wherever the timeout
/// was made.
///
/// # Errors
///
/// [`Elapsed`], if the time passes first; the future is dropped with the timeout.
///
/// # Panics
///
/// When a poll finds `future` pending, as [`Sleep`] does: without a runtime, or after it was dropped.
///
/// # Cancel safety
///
/// The same as that of the inner future.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::{sleep, timeout};
///
/// mainspring::block_on(async {
///     let slow = timeout(Duration::from_millis(1), sleep(Duration::from_secs(60))).await;
///     assert!(slow.is_err());
///     assert_eq!(timeout(Duration::ZERO, async { 5 }).await, Ok(5));
/// });
/// ```
#[inline]
#[track_caller]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout { value: future.into_future(), delay: Sleep::from_first_poll(When::After(duration)) }
}

/// Sets the moment by which `future` must be ready: if it is not ready at `deadline`, the result is [`Elapsed`].
///
/// Like [`timeout`], with a moment instead of a length of time. If that moment has passed when the first poll finds `future`
/// pending, the timeout elapses in that poll.
///
/// # Cancel safety
///
/// The same as that of the inner future.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::{Instant, timeout_at};
///
/// mainspring::block_on(async {
///     let deadline = Instant::now() + Duration::from_millis(1);
///     assert!(timeout_at(deadline, std::future::pending::<()>()).await.is_err());
///     assert!(Instant::now() >= deadline);
/// });
/// ```
#[track_caller]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout { value: future.into_future(), delay: Sleep::from_first_poll(When::At(deadline)) }
}

pin_project! {
    /// The future that [`timeout`] and [`timeout_at`] return.
    ///
    /// # Cancel safety
    ///
    /// The same as that of the inner future. `&mut` of a pinned timeout may be awaited again and again: its clock runs
    /// on.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Timeout<F> {
        #[pin]
        value: F,
        #[pin]
        delay: Sleep,
    }
}

impl<F> Timeout<F> {
    /// Returns when the time is up: `None` for a [`timeout`] whose clock has not started, because it was not polled
    /// yet.
    pub fn deadline(&self) -> Option<Instant> {
        self.delay.known_deadline()
    }

    /// Lets the runtime notice up to `most` late that the time is up; see [`Sleep::tolerance`].
    pub fn tolerance(self, most: Duration) -> Timeout<F> {
        Timeout { value: self.value, delay: self.delay.tolerance(most) }
    }

    /// Lets the runtime notice as exactly as the system can that the time is up; see [`Sleep::precise`].
    pub fn precise(self) -> Timeout<F> {
        self.tolerance(Duration::ZERO)
    }

    /// Dumps and panics say that this timeout, which must not have been polled yet, was made at `place`.
    #[cfg(feature = "tower")]
    pub(crate) fn made_at(self, place: &'static std::panic::Location<'static>) -> Timeout<F> {
        Timeout { value: self.value, delay: self.delay.made_at(place) }
    }

    /// Moves the deadline, to any moment, as [`Sleep::reset`] does.
    ///
    /// So one timeout can limit the waits for many things, one after the other, in code that polls them itself. While it waits
    /// it ends, unlike a [`Sleep`], only after a look at the sockets: what has arrived in time comes first, even if the thread was
    /// [held up](timeout).
    ///
    /// ```
    /// use std::future::pending;
    /// use std::pin::pin;
    /// use std::time::Duration;
    /// use mainspring::time::{Instant, timeout};
    ///
    /// mainspring::block_on(async {
    ///     let mut silence = pin!(timeout(Duration::from_secs(30), pending::<()>()));
    ///     assert!(futures::poll!(silence.as_mut()).is_pending());
    ///     silence.as_mut().reset(Instant::now() + Duration::from_millis(1));
    ///     assert!(silence.await.is_err());
    /// });
    /// ```
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.project().delay.reset(deadline);
    }

    /// Returns a reference to the inner future.
    pub fn get_ref(&self) -> &F {
        &self.value
    }

    /// Returns a mutable reference to the inner future.
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.value
    }

    /// Returns a pinned mutable reference to the inner future. Polling it there does not start the clock.
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::time::Duration;
    /// use mainspring::time::{Instant, sleep, timeout};
    ///
    /// mainspring::block_on(async {
    ///     let mut idle = pin!(timeout(Duration::from_secs(60), sleep(Duration::from_secs(30))));
    ///     assert!(futures::poll!(idle.as_mut()).is_pending());
    ///     // The inner sleep is moved, and the minute goes on.
    ///     idle.as_mut().get_pin_mut().reset(Instant::now() + Duration::from_millis(1));
    ///     assert_eq!(idle.await, Ok(()));
    /// });
    /// ```
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut F> {
        self.project().value
    }

    /// Returns the inner future, without its timeout.
    pub fn into_inner(self) -> F {
        self.value
    }
}

impl<F: Future> Timeout<F> {
    /// Polls the timeout; a runtime that is missing or gone is an error, not a panic.
    ///
    /// # Errors
    ///
    /// The outer error, if there is no runtime to bind to or it was dropped before the deadline.
    #[inline]
    pub fn try_poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Result<F::Output, Elapsed>, Error>> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(value) = this.value.poll(cx) {
            return Poll::Ready(Ok(Ok(value)));
        }
        this.delay.poll_beside(had_budget, cx).map_ok(|()| Err(Elapsed(())))
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.as_mut().try_poll(cx).map(|result| match result {
            Ok(result) => result,
            Err(error) => self.delay.fail(error),
        })
    }
}
