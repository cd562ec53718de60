//! `StreamExt`: timeouts and throttles as methods of streams.
//!
//! Ground rules:
//!
//! * The inner stream is polled first, and a ready item wins over an elapsed time. A throttled stream is the exception:
//!   while it waits, the inner stream is not polled at all.
//! * One sleep serves all items; it is re-armed in place.
//! * The inner stream charges its own results to the cooperative budget. A result that is made here must be charged here,
//!   or a loop over the stream might never yield.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;

use super::error::Elapsed;
use super::sleep::{Sleep, When};
use crate::coop;

/// Timeouts and throttles as methods of every stream.
///
/// The trait shares its name with a trait of the `futures` crate, but none of its methods. To use both, import this one
/// without its name:
///
/// ```
/// use std::time::Duration;
/// use futures::{StreamExt, stream};
/// use mainspring::time::StreamExt as _;
///
/// mainspring::block_on(async {
///     let slowly = stream::iter(0..3).throttle(Duration::from_millis(1));
///     assert_eq!(slowly.collect::<Vec<_>>().await, [0, 1, 2]);
/// });
/// ```
pub trait StreamExt: Stream {
    /// Limits how long each item may take.
    ///
    /// The clock for an item starts when a poll has found that the item is not there yet, and stops when it comes. If
    /// the time is up first, the stream yields [`Elapsed`] and goes on: the next poll that finds no item starts a new
    /// clock. So while no item comes, there is one `Elapsed` every `duration` of waiting, and no item is lost. To stop,
    /// drop the stream. `Duration::MAX` never elapses.
    ///
    /// # Panics
    ///
    /// When polled, as [`Sleep`] does: without a runtime, or after it was dropped.
    ///
    /// # Cancel safety
    ///
    /// The same as that of the inner stream. The clock belongs to the stream and not to the future that asks for its
    /// next item: if that future is dropped, the clock runs on, so that a `select!` in a loop does not restart it.
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::time::Duration;
    /// use futures::StreamExt;
    /// use mainspring::time::{StreamExt as _, interval};
    ///
    /// // In virtual time, where nothing comes too late.
    /// let runtime = mainspring::Builder::new().start_paused(true).build()?;
    /// runtime.block_on(async {
    ///     let mut ticks = pin!(interval(Duration::from_millis(50)).timeout(Duration::from_millis(1)));
    ///     assert!(ticks.next().await.unwrap().is_ok());
    ///     assert!(ticks.next().await.unwrap().is_err());
    ///     assert!(ticks.next().await.unwrap().is_err());
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    fn timeout(self, duration: Duration) -> StreamTimeout<Self>
    where
        Self: Sized,
    {
        StreamTimeout {
            stream: self,
            delay: Sleep::from_first_poll(When::After(duration)),
            duration,
            clock: ItemClock::Fresh,
        }
    }

    /// Lets through at most one item per `duration`, the first at once.
    ///
    /// After an item, the inner stream is not polled until `duration` has passed: further items wait where they are made, and the
    /// end of the stream is seen no sooner than another item would be. No item is lost, and lateness is not made up for. A
    /// `duration` of zero lets all items through; `Duration::MAX` lets one through.
    ///
    /// # Panics
    ///
    /// When polled, as [`Sleep`] does: without a runtime, or after it was dropped.
    ///
    /// # Cancel safety
    ///
    /// The same as that of the inner stream. A wait that has begun runs on.
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::time::Duration;
    /// use futures::{StreamExt, stream};
    /// use mainspring::time::{Instant, StreamExt as _};
    ///
    /// mainspring::block_on(async {
    ///     let mut slowly = pin!(stream::repeat_with(Instant::now).throttle(Duration::from_millis(2)));
    ///     let first = slowly.next().await.unwrap();
    ///     let second = slowly.next().await.unwrap();
    ///     assert!(second - first >= Duration::from_millis(2));
    /// });
    /// ```
    #[track_caller]
    fn throttle(self, duration: Duration) -> Throttle<Self>
    where
        Self: Sized,
    {
        Throttle { stream: self, delay: Sleep::new(When::Never), duration, waiting: false }
    }
}

impl<S: Stream + ?Sized> StreamExt for S {}

/// The state of a [`StreamTimeout`]'s clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemClock {
    /// Never started; the first poll of the sleep starts it.
    Fresh,
    /// No item is waited for.
    Stopped,
    /// An item is waited for.
    Running,
}

pin_project! {
    /// The stream that [`StreamExt::timeout`] returns: the items of the inner stream, and [`Elapsed`] where an item took
    /// too long.
    ///
    /// ```
    /// use std::time::Duration;
    /// use futures::{StreamExt, stream};
    /// use mainspring::time::StreamExt as _;
    ///
    /// mainspring::block_on(async {
    ///     let limited = stream::iter([1, 2]).timeout(Duration::from_secs(1)).precise();
    ///     assert_eq!(limited.collect::<Vec<_>>().await, [Ok(1), Ok(2)]);
    /// });
    /// ```
    #[derive(Debug)]
    #[must_use = "streams do nothing unless they are polled"]
    pub struct StreamTimeout<S> {
        #[pin]
        stream: S,
        #[pin]
        delay: Sleep,
        duration: Duration,
        clock: ItemClock,
    }
}

impl<S> StreamTimeout<S> {
    /// Lets the runtime notice up to `most` late that the time is up; see [`Sleep::tolerance`].
    pub fn tolerance(self, most: Duration) -> StreamTimeout<S> {
        StreamTimeout { delay: self.delay.tolerance(most), ..self }
    }

    /// Lets the runtime notice as exactly as the system can that the time is up; see [`Sleep::precise`].
    pub fn precise(self) -> StreamTimeout<S> {
        self.tolerance(Duration::ZERO)
    }

    /// Returns a reference to the inner stream.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Returns a mutable reference to the inner stream.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Returns a pinned mutable reference to the inner stream.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut S> {
        self.project().stream
    }

    /// Returns the inner stream, without its timeouts.
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: Stream> Stream for StreamTimeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            if item.is_none() && *this.clock != ItemClock::Fresh {
                // No task must be woken after the end. Also if the item before it has stopped the clock, the sleep is armed.
                let never = this.delay.now() + Duration::MAX;
                this.delay.reset(never);
            }
            // After an item the sleep stays as it is: it will most likely be moved to a later time, which is
            // cheap, and at worst it wakes the task once for nothing.
            if *this.clock != ItemClock::Fresh {
                *this.clock = ItemClock::Stopped;
            }
            return Poll::Ready(item.map(Ok));
        }
        if *this.clock == ItemClock::Stopped {
            let at = this.delay.now() + *this.duration;
            this.delay.as_mut().reset(at);
        }
        *this.clock = ItemClock::Running;
        if let Err(error) = ready!(this.delay.as_mut().poll_beside(had_budget, cx)) {
            this.delay.fail(error);
        }
        *this.clock = ItemClock::Stopped;
        Poll::Ready(Some(Err(Elapsed(()))))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Between any two items the time may elapse any number of times.
        (self.stream.size_hint().0, None)
    }
}

impl<S: FusedStream> FusedStream for StreamTimeout<S> {
    fn is_terminated(&self) -> bool {
        self.stream.is_terminated()
    }
}

pin_project! {
    /// The stream that [`StreamExt::throttle`] returns: the items of the inner stream, at most one per duration.
    ///
    /// ```
    /// use std::time::Duration;
    /// use futures::{StreamExt, stream};
    /// use mainspring::time::StreamExt as _;
    ///
    /// mainspring::block_on(async {
    ///     let slowly = stream::iter([1, 2]).throttle(Duration::from_millis(1)).precise();
    ///     assert_eq!(slowly.collect::<Vec<_>>().await, [1, 2]);
    /// });
    /// ```
    #[derive(Debug)]
    #[must_use = "streams do nothing unless they are polled"]
    pub struct Throttle<S> {
        #[pin]
        stream: S,
        #[pin]
        delay: Sleep,
        duration: Duration,
        // An item has come, and no poll has seen yet that the time after it has passed.
        waiting: bool,
    }
}

impl<S> Throttle<S> {
    /// Lets the runtime end each wait up to `most` late; see [`Sleep::tolerance`].
    pub fn tolerance(self, most: Duration) -> Throttle<S> {
        Throttle { delay: self.delay.tolerance(most), ..self }
    }

    /// Ends each wait as exactly as the system can; see [`Sleep::precise`].
    pub fn precise(self) -> Throttle<S> {
        self.tolerance(Duration::ZERO)
    }

    /// Returns a reference to the inner stream.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Returns a mutable reference to the inner stream.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Returns a pinned mutable reference to the inner stream.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut S> {
        self.project().stream
    }

    /// Returns the inner stream, without its throttle.
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: Stream> Stream for Throttle<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let mut this = self.project();
        if *this.waiting {
            ready!(this.delay.as_mut().poll(cx));
            *this.waiting = false;
        }
        let item = ready!(this.stream.poll_next(cx));
        if item.is_some() && !this.duration.is_zero() {
            let at = this.delay.now() + *this.duration;
            this.delay.as_mut().reset(at);
            *this.waiting = true;
        }
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

impl<S: FusedStream> FusedStream for Throttle<S> {
    fn is_terminated(&self) -> bool {
        self.stream.is_terminated()
    }
}
