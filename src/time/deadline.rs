//! `Deadline`: a moment by which a piece of work must be done, with everything that it calls and spawns.
//!
//! Ground rules:
//!
//! * It is a [`Timeout`](super::Timeout) that is polled while its deadline is in force.
//! * A deadline that is begun inside another is cut to the outer one at its first poll, before its timer is armed: a
//!   scope costs one timer, whatever is nested in it.

use std::future::IntoFuture;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::error::Elapsed;
use super::instant::Instant;
use super::timeout::{Timeout, timeout_at};
use crate::runtime::spawn::{DeadlineScope, deadline_in_force};

/// Gives `future` until `at`, and lets everything that it calls and spawns know. If it is not ready by then, the result
/// is [`Elapsed`], and the future is dropped with the deadline.
///
/// While the future is polled, [`remaining`] returns how much time is left: so a client deep inside can give its own
/// request no more than that, or not begin it. A `deadline` inside another is cut to the outer one: deadlines are only
/// ever shortened. As with a [`timeout`](super::timeout()), a future that is ready wins over a deadline that has passed.
///
/// # What is spawned
///
/// A task that is spawned meanwhile, by [`spawn`](crate::spawn), a [`Builder`](crate::task::Builder) or a
/// [`JoinSet`](crate::task::JoinSet), inherits the moment, and passes it on to the tasks that it spawns. It does not
/// inherit the end: nothing drops the task when the time is up, because its handle may be held elsewhere, by code that
/// waits for its result. Put tasks that must end with the future into a `JoinSet` in it, or into an
/// [`AbortOnDrop`](crate::task::AbortOnDrop). A task that must end on its own needs a `deadline` of its own: with the
/// moment that it inherited, or a later one, that deadline ends at the same time.
///
/// Work that goes through a [`Handle`](crate::Handle), such as to another thread, or is spawned with
/// [`Runtime::spawn`](crate::Runtime::spawn), inherits nothing: it may have another clock. Nor does a closure of
/// [`unblock`](crate::task::unblock) inherit anything. Pass it [`remaining`].
///
/// # Cost
///
/// A scope costs one timer, and each poll of it sets and restores one thread-local. A task that inherits a deadline has
/// its future in a box. If no deadline is in force, a spawn reads a thread-local, and there is no other cost.
///
/// # Errors
///
/// [`Elapsed`], if the time is up first.
///
/// # Panics
///
/// As [`timeout_at`].
///
/// # Cancel safety
///
/// The same as that of the inner future.
///
/// ```
/// use std::time::Duration;
/// use mainspring::task::JoinSet;
/// use mainspring::time::{Instant, deadline, remaining, sleep};
///
/// /// Far inside: asks as many as there is time for.
/// async fn ask() -> usize {
///     let mut set = JoinSet::new();
///     for n in 1..=10 {
///         let takes = Duration::from_secs(n);
///         if remaining().is_none_or(|left| left > takes) {
///             set.spawn(async move {
///                 assert!(remaining().is_some(), "the task knows it too");
///                 sleep(takes).await;
///             });
///         }
///     }
///     let mut answers = 0;
///     while set.join_next().await.is_some() {
///         answers += 1;
///     }
///     answers
/// }
///
/// let runtime = mainspring::Builder::new().start_paused(true).build()?;
/// runtime.block_on(async {
///     let by = Instant::now() + Duration::from_millis(4_500);
///     assert_eq!(deadline(by, ask()).await, Ok(4));
///     let late = deadline(by, sleep(Duration::from_secs(3600))).await;
///     assert!(late.is_err() && Instant::now() == by);
///     assert_eq!(remaining(), None);
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn deadline<F: IntoFuture>(at: Instant, future: F) -> Deadline<F::IntoFuture> {
    Deadline { timeout: timeout_at(at, future), at, begun: false }
}

/// Returns how much time is left until the [`deadline`] in force: zero once it has passed, `None` if there is none. The
/// deadline in force is that of the innermost `deadline` whose future is being polled, or the one that the task
/// inherited.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::{self, Instant, deadline};
///
/// mainspring::block_on(async {
///     assert_eq!(time::remaining(), None);
///     let inside = deadline(Instant::now() + Duration::from_secs(60), async { time::remaining() }).await;
///     assert!(inside.unwrap().unwrap() <= Duration::from_secs(60));
/// });
/// ```
pub fn remaining() -> Option<Duration> {
    deadline_in_force().map(|at| at.saturating_duration_since(Instant::now()))
}

pin_project! {
    /// The future that [`deadline`] returns.
    ///
    /// # Cancel safety
    ///
    /// The same as that of the inner future. `&mut` of a pinned deadline may be awaited again and again.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Deadline<F> {
        #[pin]
        timeout: Timeout<F>,
        at: Instant,
        // It was polled, which cut it to the deadline around it.
        begun: bool,
    }
}

impl<F> Deadline<F> {
    /// Returns when the time is up: the moment that was asked for or, from the first poll on, the deadline around it if
    /// that is earlier.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::time::{Instant, deadline};
    ///
    /// let at = Instant::now() + Duration::from_secs(1);
    /// assert_eq!(deadline(at, async {}).at(), at);
    /// ```
    pub fn at(&self) -> Instant {
        self.at
    }
}

impl<F: Future> Future for Deadline<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if !*this.begun {
            *this.begun = true;
            if let Some(around) = deadline_in_force().filter(|around| around < this.at) {
                *this.at = around;
                this.timeout.as_mut().reset(around);
            }
        }
        let _scope = DeadlineScope::enter(*this.at);
        this.timeout.poll(cx)
    }
}
