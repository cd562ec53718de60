//! What a task can do about the turns it takes: give one up, take part in the cooperative budget, or leave it.
//!
//! The budget itself, which every leaf future asks, is in `budget.rs`.

pub(crate) mod budget;

use pin_project_lite::pin_project;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Lets every other ready task run before this one goes on.
///
/// The calling task goes to the back of the lane of tasks that yielded; see
/// [`spawn`](crate::spawn#in-which-order-tasks-run). Before it goes on, each task that is ready now gets its turn; only
/// where the others have work for more than ten milliseconds is the time shared between them and the tasks that
/// yielded. When it is time to look at sockets and timers, that comes first too.
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

/// Charges the [cooperative budget](crate::task#the-cooperative-budget) for one result, and lets other tasks run if it is
/// used up.
///
/// For a loop over something that does not take part in the budget, such as a channel of another crate, which may always have
/// the next message ready.
///
/// # Cancel safety
///
/// Dropping the future early has no effect but one needless poll of the task.
///
/// # Examples
///
/// ```
/// use futures::{SinkExt, StreamExt, channel::mpsc};
/// use mainspring::task::consume_budget;
/// use mainspring::timeout;
/// use std::time::Duration;
///
/// let endless = async {
///     let (mut sender, mut receiver) = mpsc::channel(1);
///     loop {
///         sender.send(()).await.unwrap();
///         receiver.next().await;
///         // Without this no poll of the loop would ever end, and the timeout could not elapse.
///         consume_budget().await;
///     }
/// };
/// let elapsed = mainspring::block_on(timeout(Duration::from_millis(1), endless));
/// assert!(elapsed.is_err());
/// ```
pub async fn consume_budget() {
    poll_fn(|cx| {
        ready!(budget::poll_proceed(cx)).spend();
        Poll::Ready(())
    })
    .await;
}

/// Whether the running poll of this task may take another result before its
/// [cooperative budget](crate::task#the-cooperative-budget) is used up. Always true outside a task, and inside
/// [`unconstrained`].
///
/// ```
/// use mainspring::task::{has_budget_remaining, yield_now};
///
/// mainspring::block_on(async {
///     let mut lines = 0;
///     while lines < 1000 {
///         lines += 1;
///         if !has_budget_remaining() {
///             yield_now().await;
///         }
///     }
/// });
/// ```
pub fn has_budget_remaining() -> bool {
    budget::has_remaining()
}

/// Makes `future` take part in the [cooperative budget](crate::task#the-cooperative-budget): it is not polled while the
/// budget is used up, and is charged when it is ready.
///
/// For futures of other crates that may be ready each time, such as those of a channel.
///
/// # Cancel safety
///
/// That of `future`.
///
/// # Examples
///
/// ```
/// use futures::{StreamExt, channel::mpsc};
/// use mainspring::task::cooperative;
///
/// mainspring::block_on(async {
///     let (sender, mut receiver) = mpsc::unbounded();
///     (0..1000).for_each(|n| sender.unbounded_send(n).unwrap());
///     drop(sender);
///     let mut sum = 0;
///     // Other tasks run meanwhile, though a message is always there.
///     while let Some(n) = cooperative(receiver.next()).await {
///         sum += n;
///     }
///     assert_eq!(sum, 499_500);
/// });
/// ```
pub fn cooperative<F: Future>(future: F) -> Cooperative<F> {
    Cooperative { future }
}

pin_project! {
    /// A future that takes part in the cooperative budget. Made by [`cooperative`].
    ///
    /// ```
    /// use mainspring::task::{Cooperative, cooperative};
    /// use std::future::{Ready, ready};
    ///
    /// let future: Cooperative<Ready<i32>> = cooperative(ready(5));
    /// assert_eq!(mainspring::block_on(future), 5);
    /// ```
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are awaited or polled"]
    pub struct Cooperative<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Cooperative<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let permit = ready!(budget::poll_proceed(cx));
        let output = ready!(self.project().future.poll(cx));
        permit.spend();
        Poll::Ready(output)
    }
}

/// Takes `future` out of the cooperative budget.
///
/// One poll of a task may take 128 ready results from sockets, timers and join handles, or take them for about 100 µs;
/// after that they return `Pending` until the task's next turn, so that a task which always finds something ready does not
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
    ///
    /// ```
    /// use mainspring::task::{Unconstrained, unconstrained};
    /// use std::future::{Ready, ready};
    ///
    /// let future: Unconstrained<Ready<i32>> = unconstrained(ready(5));
    /// assert_eq!(mainspring::block_on(future), 5);
    /// ```
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
