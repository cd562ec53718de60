//! The two layers of [tower](https://docs.rs/tower) that depend on time, on this runtime's timers: [`TimeoutLayer`] and
//! [`RateLimitLayer`]. Feature `tower`.
//!
//! Tower's own `timeout` and `limit::rate` use tokio's timers, and panic here. These layers replace them.
//! Most of the rest of tower runs here unchanged, on its own or in a `ServiceBuilder` with these; `docs/ecosystem.md` in
//! the repository says what does not.
//!
//! ```
//! use std::convert::Infallible;
//! use std::time::Duration;
//! use mainspring::sleep;
//! use mainspring::time::error::Elapsed;
//! use mainspring::tower::{RateLimitLayer, TimeoutLayer};
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! let naps = service_fn(|length: Duration| async move {
//!     sleep(length).await;
//!     Ok::<_, Infallible>("rested")
//! });
//! mainspring::block_on(async {
//!     let mut naps = ServiceBuilder::new()
//!         .layer(RateLimitLayer::new(100, Duration::from_secs(1)))
//!         .layer(TimeoutLayer::new(Duration::from_millis(20)))
//!         .service(naps);
//!     assert_eq!(naps.ready().await.unwrap().call(Duration::from_millis(1)).await.unwrap(), "rested");
//!     let error = naps.ready().await.unwrap().call(Duration::from_secs(60)).await.unwrap_err();
//!     assert!(error.is::<Elapsed>());
//! });
//! ```

use crate::time::{self, Instant, Sleep};
use pin_project_lite::pin_project;
use std::error::Error;
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tower_layer::Layer;
use tower_service::Service;

/// The error of a service with a [`Timeout`]: the service's own, or an [`Elapsed`](time::error::Elapsed).
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Makes services with a [`Timeout`].
///
/// ```
/// use std::time::Duration;
/// use mainspring::tower::TimeoutLayer;
/// use tower::ServiceBuilder;
///
/// let stack = ServiceBuilder::new().layer(TimeoutLayer::new(Duration::from_secs(10)));
/// # drop(stack);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TimeoutLayer {
    duration: Duration,
    made_at: &'static Location<'static>,
}

impl TimeoutLayer {
    /// Makes a layer that limits each request to this time. `Duration::MAX` is no limit.
    #[track_caller]
    pub const fn new(duration: Duration) -> TimeoutLayer {
        TimeoutLayer { duration, made_at: Location::caller() }
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, service: S) -> Timeout<S> {
        Timeout { inner: service, duration: self.duration, made_at: self.made_at }
    }
}

/// A service that limits the time of each request. The time of a request begins with the first poll that finds it pending;
/// see [`timeout`](crate::timeout()). Waiting until the service is ready is not limited.
///
/// # Errors
///
/// Those of the service, and [`Elapsed`](time::error::Elapsed) if the time passes first. The request's future is dropped
/// together with the timeout's.
#[derive(Clone, Debug)]
pub struct Timeout<S> {
    inner: S,
    duration: Duration,
    /// Where this service was made, or its layer. A request is often called in a library, whose place would say little.
    made_at: &'static Location<'static>,
}

impl<S> Timeout<S> {
    /// Makes a service that limits each request to `inner` to this time.
    #[track_caller]
    pub const fn new(inner: S, duration: Duration) -> Timeout<S> {
        Timeout { inner, duration, made_at: Location::caller() }
    }
}

impl<S, Request> Service<Request> for Timeout<S>
where
    S: Service<Request, Error: Into<BoxError>>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = TimeoutFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> TimeoutFuture<S::Future> {
        let answer = self.inner.call(request);
        TimeoutFuture { answer: time::timeout(self.duration, answer).made_at(self.made_at) }
    }
}

pin_project! {
    /// The future of a request to a service with a [`Timeout`].
    ///
    /// # Panics
    ///
    /// As [`Sleep`] does, when a poll finds the answer pending: if there is no runtime, or the runtime was dropped. The
    /// message, like a dump, says where the service or its layer was made.
    ///
    /// # Cancel safety
    ///
    /// The same as for the inner future.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct TimeoutFuture<F> {
        #[pin]
        answer: time::Timeout<F>,
    }
}

impl<F, T, E> Future for TimeoutFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, BoxError>> {
        Poll::Ready(ready!(self.project().answer.poll(cx))?.map_err(Into::into))
    }
}

/// Makes services with a [`RateLimit`].
///
/// ```
/// use std::time::Duration;
/// use mainspring::tower::RateLimitLayer;
/// use tower::ServiceBuilder;
///
/// // Five requests in each second.
/// let stack = ServiceBuilder::new().layer(RateLimitLayer::new(5, Duration::from_secs(1)));
/// # drop(stack);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RateLimitLayer {
    number: u64,
    period: Duration,
    made_at: &'static Location<'static>,
}

impl RateLimitLayer {
    /// Makes a layer that lets `number` requests through in each `period`.
    ///
    /// # Panics
    ///
    /// If either is zero.
    #[track_caller]
    pub const fn new(number: u64, period: Duration) -> RateLimitLayer {
        check(number, period);
        RateLimitLayer { number, period, made_at: Location::caller() }
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, service: S) -> RateLimit<S> {
        RateLimit { made_at: self.made_at, ..RateLimit::new(service, self.number, self.period) }
    }
}

#[track_caller]
const fn check(number: u64, period: Duration) {
    assert!(number > 0, "the number of requests must not be zero: the service would never be ready");
    assert!(!period.is_zero(), "the period must not be zero");
}

/// A service that is ready for a limited number of requests in each period, and pending for the rest of the period.
///
/// A period begins with the first request after the end of the previous period. So within any stretch of that length there
/// are at most twice that number of requests. A task that waits until the service is ready is woken when the period ends.
/// (Tower's own begins a period already when `poll_ready` finds that a full one is over.)
///
/// It is not `Clone`, because two copies would let twice as many requests through. To share one service among many, put a
/// `tower::buffer::Buffer` around it.
///
/// Its timer belongs to the runtime in which a task waited for it first, until that runtime is dropped. If the service moves to
/// another runtime before that, the first one has to go on running, or a wait does not end.
///
/// # Panics
///
/// `call` panics if the limit is reached and `poll_ready` was not called before. `poll_ready` panics as [`Sleep`] does, if
/// the limit is reached and there is no runtime. Its message, like a dump, says where the service or its layer was made.
pub struct RateLimit<S> {
    inner: S,
    number: u64,
    period: Duration,
    /// How many more requests are let through in this period.
    left: u64,
    /// When the period ends; set by the first request of a period.
    end: Option<Instant>,
    /// Expires when the period ends, if a task has to wait for that. It is kept, and reset.
    sleep: Option<Pin<Box<Sleep>>>,
    /// Where the service was made, or its layer.
    made_at: &'static Location<'static>,
}

impl<S> RateLimit<S> {
    /// Makes a service that lets `number` requests to `inner` through in each `period`.
    ///
    /// # Panics
    ///
    /// If either is zero.
    #[track_caller]
    pub const fn new(inner: S, number: u64, period: Duration) -> RateLimit<S> {
        check(number, period);
        let made_at = Location::caller();
        RateLimit { inner, number, period, left: number, end: None, sleep: None, made_at }
    }
}

impl<S: fmt::Debug> fmt::Debug for RateLimit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("inner", &self.inner)
            .field("number", &self.number)
            .field("period", &self.period)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl<S, Request> Service<Request> for RateLimit<S>
where
    S: Service<Request>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if let (0, Some(end)) = (self.left, self.end) {
            let sleep =
                self.sleep.get_or_insert_with(|| Box::pin(time::sleep_until(end).made_at(self.made_at)));
            if ready!(sleep.as_mut().poll_charged(cx)).is_err() {
                // The runtime of an earlier wait is gone, or there is none.
                sleep.set(time::sleep_until(end).made_at(self.made_at));
                ready!(sleep.as_mut().poll(cx));
            }
            // The next period begins with the next request.
            (self.left, self.end) = (self.number, None);
        }
        self.inner.poll_ready(cx)
    }

    #[track_caller]
    fn call(&mut self, request: Request) -> S::Future {
        let now = Instant::now();
        if self.end.is_none_or(|end| now >= end) {
            (self.left, self.end) = (self.number, Some(now + self.period));
        }
        self.left = self.left.checked_sub(1).expect("`poll_ready` must return `Ready` before each `call`");
        if let (0, Some(sleep), Some(end)) = (self.left, &mut self.sleep, self.end) {
            sleep.as_mut().reset(end);
        }
        self.inner.call(request)
    }
}
