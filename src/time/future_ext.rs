//! `FutureExt`: timeouts as methods of futures.
//!
//! Ground rules:
//!
//! * The trait adds nothing of its own: each method is a function of [the module](super), called on the future.

use std::future::IntoFuture;
use std::time::Duration;

use super::instant::Instant;
use super::timeout::{self, Timeout};

/// Timeouts as methods of every future.
///
/// The trait shares its name with a trait of the `futures` crate, but none of its methods. To use both, import this one
/// without its name:
///
/// ```
/// use std::time::Duration;
/// use futures::FutureExt;
/// use mainspring::time::FutureExt as _;
///
/// mainspring::block_on(async {
///     let doubled = async { 21 }.map(|n| 2 * n).timeout(Duration::from_secs(1)).await;
///     assert_eq!(doubled, Ok(42));
/// });
/// ```
pub trait FutureExt: IntoFuture {
    /// Limits how long this future may take; see [`timeout`](super::timeout()).
    ///
    /// # Errors
    ///
    /// The output is an [`Elapsed`](super::error::Elapsed), if the time passes first.
    ///
    /// # Cancel safety
    ///
    /// The same as that of the inner future.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::time::{FutureExt as _, sleep};
    ///
    /// mainspring::block_on(async {
    ///     let slow = sleep(Duration::from_secs(60)).timeout(Duration::from_millis(1)).await;
    ///     assert!(slow.is_err());
    /// });
    /// ```
    #[track_caller]
    fn timeout(self, duration: Duration) -> Timeout<Self::IntoFuture>
    where
        Self: Sized,
    {
        timeout::timeout(duration, self)
    }

    /// Sets the moment by which this future must be ready; see [`timeout_at`](super::timeout_at).
    ///
    /// # Errors
    ///
    /// The output is an [`Elapsed`](super::error::Elapsed), if the moment comes first.
    ///
    /// # Cancel safety
    ///
    /// The same as that of the inner future.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::time::{FutureExt as _, Instant};
    ///
    /// mainspring::block_on(async {
    ///     let deadline = Instant::now() + Duration::from_millis(1);
    ///     assert!(std::future::pending::<()>().timeout_at(deadline).await.is_err());
    /// });
    /// ```
    #[track_caller]
    fn timeout_at(self, deadline: Instant) -> Timeout<Self::IntoFuture>
    where
        Self: Sized,
    {
        timeout::timeout_at(deadline, self)
    }
}

impl<F: IntoFuture + ?Sized> FutureExt for F {}
