//! What a task can do about the turns it takes: give one up, or keep the budget from ending one.

use super::budget;
use pin_project_lite::pin_project;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Gives every other ready task a turn before this one goes on.
///
/// The calling task goes to the back of the run queue. Timers and I/O are looked at between turns as usual.
///
/// # Cancel safety
///
/// Dropping the future early has no effect but one needless poll of the task.
///
/// # Examples
///
/// ```
/// use mainspring::task::yield_now;
///
/// mainspring::block_on(async {
///     let other = mainspring::spawn(async { println!("second") });
///     println!("first");
///     yield_now().await;
///     println!("third");
///     other.await.unwrap();
/// });
/// ```
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Takes `future` out of the cooperative budget.
///
/// One poll of a task may take 128 ready results from sockets, timers and join handles; after that they
/// return `Pending` until the task's next turn, so that a task which always finds something ready does not
/// keep the others waiting. Within `future` there is no such limit: it is then up to the future to return
/// `Pending` often enough, with [`yield_now`] for example.
///
/// # Cancel safety
///
/// That of `future`.
///
/// # Examples
///
/// ```
/// use mainspring::task::unconstrained;
///
/// let sum = mainspring::block_on(unconstrained(async {
///     let mut sum = 0;
///     for n in 0..1000 {
///         sum += mainspring::spawn(async move { n }).await.unwrap();
///     }
///     sum
/// }));
/// assert_eq!(sum, 499_500);
/// ```
pub fn unconstrained<F: Future>(future: F) -> Unconstrained<F> {
    Unconstrained { future }
}

pin_project! {
    /// A future that the cooperative budget does not limit. Made by [`unconstrained`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are awaited or polled"]
    pub struct Unconstrained<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Unconstrained<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        budget::unlimited(|| self.project().future.poll(cx))
    }
}
