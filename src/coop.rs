//! The cooperative budget: how many ready results one poll of a task may take, and for how long. And what a task can do about
//! its turns: give one up, take part in the budget, or leave the budget.
//!
//! A task that awaits an always-readable socket, or sleeps of length zero, would never return to the executor, because each
//! of its leaf futures is ready at once. So every leaf future asks [`poll_proceed`] before it looks for a result. After
//! [`LIMIT`] results within one poll of a task, or when its slice of time is over, the leaf wakes its own task and returns
//! `Pending`, and all other tasks get a turn.
//!
//! Ground rules:
//!
//! * The budget belongs to the thread. [`fresh`] renews it around each poll of a task.
//! * The slice belongs to the thread too. The runtime sets it when it reads the clock, which it does not do before each poll.
//! * The clock is read after every few results: after the number of results that is expected to fit into an eighth of a
//!   slice, or into the rest of the slice, judging by recent results. The time that a result is expected to take grows
//!   at once and shrinks in small steps, because short and long results often alternate. The first two readings in a
//!   poll come after at most [`FIRST`] results each, because the recent results may be those of another task, and
//!   shorter. A poll with a result or two need not read the clock.
//! * Outside a task (a foreign executor, a plain thread) there is no limit. An executor that runs inside a task is recognised
//!   because it goes on polling although it is refused ([`REFUSALS`] times). From then on it has no limit.
//! * Only a result that was really taken is charged: a leaf that turns out to be pending is charged nothing.
//! * A late timeout or queue of timers waits for tasks that sockets have woken (`others.rs`). They have no turn before an executor inside
//!   a task returns: there it ends after as many refusals.
//! * When the budget of a poll is used up, one timer that is overdue may end all the same. Otherwise, where a task polls a socket
//!   that always has something before a timer, the timer would never end. Overdue are timers that the runtime has fired, and queues
//!   of timers that were refused the last time: there is no end to timers that are ready at once.

mod others;

pub(crate) use others::{LATE, is_behind, set_seen, take_waits, waits_for_others};

use crate::sync::thread_local;
use mainspring_driver::Nanos;
use pin_project_lite::pin_project;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Lets every other ready task run before this one goes on.
///
/// The calling task goes to the back of the lane of tasks that yielded; see [`spawn`](crate::spawn#in-which-order-tasks-run).
/// Before it goes on, each task that is ready now gets its turn. Only if those tasks have work for more than ten
/// milliseconds, or those of them that a timer woke for more than two, is the time shared between them and the tasks
/// that yielded. It is also shared after a task, which may be the calling one, has computed for tens of milliseconds in one
/// poll: then some that are ready may have to wait for their turn a little longer. If it is time to look at sockets and
/// timers, that is done first, too.
///
/// Tasks that another thread has spawned or woken are among those only if the runtime has taken them in. It takes in a few
/// before each look at the sockets, and a few at a time between. To wait for such a task, await its handle.
///
/// # Cancel safety
///
/// Dropping the future early has no effect except one needless poll of the task.
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

/// Charges the [cooperative budget](crate::task#the-cooperative-budget) for one result, and lets other tasks run if the
/// budget is used up.
///
/// Use it in a loop over something that does not take part in the budget, such as a channel of another crate, which may
/// always have the next message ready.
///
/// # Cancel safety
///
/// Dropping the future early has no effect except one needless poll of the task.
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
        ready!(poll_proceed(cx)).spend();
        Poll::Ready(())
    })
    .await;
}

/// Returns whether the running poll of this task may take another result before its [cooperative
/// budget](crate::task#the-cooperative-budget) is used up. Always true outside a task, and inside [`unconstrained`].
///
/// It reads no clock, and only results use the budget up. So this stays true in a loop that takes no results, because it
/// computes or reads from another crate's channel, however long it lasts. Such a loop calls [`consume_budget`] instead.
///
/// ```
/// use mainspring::sleep;
/// use mainspring::task::has_budget_remaining;
/// use std::time::Duration;
///
/// mainspring::block_on(async {
///     let mut results = 0;
///     while has_budget_remaining() {
///         // A sleep that does not wait is a result, too.
///         sleep(Duration::ZERO).await;
///         results += 1;
///     }
///     assert!(results <= 128);
/// });
/// ```
#[inline]
pub fn has_budget_remaining() -> bool {
    BUDGET.with(|budget| !budget.is_used_up())
}

/// Makes `future` take part in the [cooperative budget](crate::task#the-cooperative-budget): the future is not polled while
/// the budget is used up, and the budget is charged when the future is ready.
///
/// Use it for futures of other crates that may be ready at each poll, such as the futures of a channel.
///
/// # Cancel safety
///
/// The same as for `future`.
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
        let permit = ready!(poll_proceed(cx));
        let output = ready!(self.project().future.poll(cx));
        permit.spend();
        Poll::Ready(output)
    }
}

/// Takes `future` out of the cooperative budget.
///
/// One poll of a task may take 128 ready results from sockets, timers and join handles, or take results for about 100 µs.
/// After that these return `Pending` until the task's next turn, so that a task that always finds something ready does not
/// keep other tasks waiting. Within `future` there is no such limit: the future itself must return `Pending` often enough,
/// for example with [`yield_now`].
///
/// # Cancel safety
///
/// The same as for `future`.
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
        unlimited(|| self.project().future.poll(cx))
    }
}

/// The number of ready results that one poll of a task may take from leaf futures.
pub(crate) const LIMIT: u32 = 128;

/// How long one poll of a task may go on taking ready results, in nanoseconds.
pub(crate) const SLICE: u64 = 100_000;

/// The time between two readings of the clock, in nanoseconds, unless a single result takes longer.
const APART: u64 = SLICE / 8;

/// The maximum number of results that are taken between two readings of the clock.
const MOST: u16 = 16;

/// The maximum number of results before the first reading of the clock in a poll, and between that reading and the
/// second. More than two, so that a poll that reads a request and writes the answer reads no clock.
const FIRST: u16 = 3;

/// The maximum number of times that one poll is refused a result. Code that still goes on asking does not return when
/// it should: it is an executor of its own. The number is large because a poll may rightly ask as often as it has
/// futures: a `select_all` asks once for each. It delays an executor by some milliseconds, once in each poll of its
/// task.
const REFUSALS: u32 = 100_000;

/// Until when a poll may take results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    /// The end, by the clock below.
    pub(crate) until: Nanos,
    /// How long it is, in nanoseconds.
    pub(crate) length: u64,
    /// Reads the clock.
    pub(crate) now: fn() -> Nanos,
}

/// What a poll may still take. It has eight bytes, which are saved and restored around each poll. With twelve bytes a yield
/// took 1.04 times as long.
#[derive(Clone, Copy)]
struct Left {
    /// Results until the clock is read, or the budget is used up. Zero: the budget is used up.
    until_look: u32,
    /// Results after that.
    after: u16,
    /// Results between the reading before and that reading; zero if that reading is the first in this poll.
    between: u16,
}

impl Left {
    const NO_LIMIT: Left = Left { until_look: u32::MAX, after: 0, between: 0 };

    /// The full budget, with the first reading of the clock after this number of results.
    #[inline]
    fn full(first: u16) -> Left {
        Left { until_look: u32::from(first), after: LIMIT as u16 - first, between: 0 }
    }
}

struct Budget {
    left: Cell<Left>,
    /// A poll has used up its budget since this flag was last taken.
    exhausted: Cell<bool>,
    /// A timer has ended since the running poll used up its budget.
    late: Cell<bool>,
    /// How often the running poll was refused since it used up its budget.
    refused: Cell<u32>,
    /// The time that a result may well take, in nanoseconds: the time that recent results took when they took long.
    each: Cell<u64>,
    /// Results between two readings of the clock, computed from that time; fewer than the limit.
    every: Cell<u16>,
    /// Results before the first reading in a poll, if there is a slice; no more than between two readings.
    first: Cell<u16>,
    /// The latest reading.
    looked: Cell<Nanos>,
    slice: Cell<Option<Slice>>,
    /// Whatever had arrived at a socket by the first moment has been read. The sockets were looked at last at the second.
    seen: Cell<(Nanos, Nanos)>,
    /// The task that wakes itself now waits for others: see [`waits_for_others`](others::waits_for_others).
    waits: Cell<bool>,
}

thread_local! {
    static BUDGET: Budget = const {
        Budget {
            left: Cell::new(Left::NO_LIMIT),
            exhausted: Cell::new(false),
            late: Cell::new(false),
            refused: Cell::new(0),
            each: Cell::new(APART / (MOST / 2) as u64),
            every: Cell::new(MOST / 2),
            first: Cell::new(FIRST),
            looked: Cell::new(Nanos::ZERO),
            slice: Cell::new(None),
            seen: Cell::new((Nanos::ZERO, Nanos::ZERO)),
            waits: Cell::new(false),
        }
    };
}

impl Budget {
    #[inline]
    fn spend(&self) {
        let left = self.left.get();
        match left.until_look {
            // No limit.
            u32::MAX => {}
            // A timer, or a permit that was given before the last result was taken.
            0 => self.late.set(true),
            1 => self.look_at_the_clock(left),
            n => self.left.set(Left { until_look: n - 1, ..left }),
        }
    }

    /// Ends the budget if it is used up or the slice is over; otherwise computes when to read the clock again.
    #[cold]
    fn look_at_the_clock(&self, Left { after, between, .. }: Left) {
        let mut over = after == 0;
        let mut next = self.every.get();
        if let (Some(slice), false) = (self.slice.get(), over) {
            let now = (slice.now)();
            over = now >= slice.until;
            let before = self.looked.replace(now);
            if between > 0 {
                let took = now.get().saturating_sub(before.get()) / u64::from(between);
                let each = self.each.get();
                self.expect(if took > each { took } else { each - (each - took).div_ceil(4) });
            } else {
                // The first reading in this poll. How long its results took is not known; but it was too long if the slice
                // ended more than the expected time of all results ago.
                let expected = u64::from(LIMIT as u16 - after) * self.each.get();
                if now.get().saturating_sub(slice.until.get()) > expected {
                    self.expect(APART / u64::from((self.every.get() / 2).max(1)));
                }
            }
            next = self.within(slice.until.get().saturating_sub(now.get()));
            if between == 0 {
                next = next.min(FIRST);
            }
        }
        if over {
            self.end();
        } else {
            let between = next.min(after);
            self.left.set(Left { until_look: u32::from(between), after: after - between, between });
        }
    }

    /// How many results to take before the next reading of the clock, if this number of nanoseconds is left. At least one.
    fn within(&self, left: u64) -> u16 {
        let every = self.every.get();
        if left >= APART { every } else { (left / self.each.get().max(1)).clamp(1, u64::from(every)) as u16 }
    }

    /// Ends the budget if it has a limit and the slice is over. A poll that has taken nothing yet may take one result:
    /// otherwise a task that does much else first would never get a result.
    #[cfg(any(feature = "net", test))]
    fn end_with_the_slice(&self) {
        let Left { until_look, after, .. } = self.left.get();
        let has_taken = (1..LIMIT).contains(&(until_look + u32::from(after)));
        if has_taken && self.slice.get().is_some_and(|slice| (slice.now)() >= slice.until) {
            self.end();
        }
    }

    /// Marks the budget as used up.
    fn end(&self) {
        self.exhausted.set(true);
        self.late.set(false);
        self.refused.set(0);
        self.left.set(Left { until_look: 0, after: 0, between: 0 });
    }

    /// Sets the time that a result may well take.
    fn expect(&self, each: u64) {
        self.each.set(each);
        // At most MOST.
        let every = (APART / each.max(1)).clamp(1, u64::from(MOST)) as u16;
        self.every.set(every);
        self.first.set(every.min(self.first.get()));
    }

    /// Returns whether the running poll, which has used up its budget, must not take another result.
    #[cold]
    fn refuse(&self) -> bool {
        let refused = self.refused.get() + 1;
        self.refused.set(refused);
        if refused > REFUSALS {
            self.left.set(Left::NO_LIMIT);
        }
        refused <= REFUSALS
    }

    #[inline]
    fn is_used_up(&self) -> bool {
        self.left.get().until_look == 0
    }

    /// As [`refuse`](Budget::refuse), for a timer.
    #[cold]
    fn refuse_timer(&self, is_overdue: impl FnOnce() -> bool) -> bool {
        (self.late.get() || !is_overdue()) && self.refuse()
    }
}

/// Permission to take one result. Spent with [`Permit::spend`] once the result is in hand.
#[derive(Debug)]
#[must_use = "a permit that is not spent charges nothing"]
pub(crate) struct Permit(());

impl Permit {
    /// Charges the running poll for one result.
    #[inline]
    pub(crate) fn spend(self) {
        BUDGET.with(Budget::spend);
    }
}

/// Asks whether the running poll may take another result. If it may not, the task is woken, so that it goes on in a later
/// turn.
#[inline]
pub(crate) fn poll_proceed(cx: &mut Context<'_>) -> Poll<Permit> {
    proceed_unless(BUDGET.with(|budget| budget.is_used_up() && budget.refuse()), cx)
}

/// As [`poll_proceed`], for a timer. Whether it `is_overdue` is asked only if the budget is used up.
#[inline]
pub(crate) fn poll_proceed_timer(cx: &mut Context<'_>, is_overdue: impl FnOnce() -> bool) -> Poll<Permit> {
    proceed_unless(BUDGET.with(|budget| budget.is_used_up() && budget.refuse_timer(is_overdue)), cx)
}

#[inline]
fn proceed_unless(refused: bool, cx: &mut Context<'_>) -> Poll<Permit> {
    if refused {
        cx.waker().wake_by_ref();
        return Poll::Pending;
    }
    Poll::Ready(Permit(()))
}

/// Waits until the running poll may take another result. For operations that the system completes at once but slowly, such as
/// the beginning of a connection: the clock is read before each of them.
#[cfg(any(feature = "net", test))]
pub(crate) async fn permit() -> Permit {
    poll_fn(|cx| {
        BUDGET.with(Budget::end_with_the_slice);
        poll_proceed(cx)
    })
    .await
}

/// Charges for an error that comes before anything else could be charged: code that tries again and again must let others run.
#[cfg(any(feature = "net", unix))]
pub(crate) async fn charge_error<R, E>(result: Result<R, E>) -> Result<R, E> {
    if result.is_err() {
        consume_budget().await;
    }
    result
}

/// The poll form of [`charge_error`].
#[cfg(unix)]
pub(crate) fn poll_charge_error<R, E>(cx: &mut Context<'_>, result: Result<R, E>) -> Poll<Result<R, E>> {
    if result.is_err() {
        ready!(poll_proceed(cx)).spend();
    }
    Poll::Ready(result)
}

/// Returns whether a poll has used up its budget since the last call.
#[inline]
pub(crate) fn take_exhausted() -> bool {
    BUDGET.with(|budget| budget.exhausted.get() && budget.exhausted.replace(false))
}

/// Sets until when polls on this thread may take results. `None`: for as long as they want.
pub(crate) fn set_slice(slice: Option<Slice>) {
    BUDGET.with(|budget| {
        // The polls that follow are others.
        budget.refused.set(0);
        budget.slice.set(slice);
        budget.first.set(slice.map_or(budget.every.get(), |slice| budget.within(slice.length).min(FIRST)));
    });
}

/// Runs `f`, one poll of a task, with a full budget. The caller's own budget does not change.
#[inline]
pub(crate) fn fresh<R>(f: impl FnOnce() -> R) -> R {
    with(|budget| Left::full(budget.first.get()), f)
}

/// Runs `f` without a limit.
#[inline]
pub(crate) fn unlimited<R>(f: impl FnOnce() -> R) -> R {
    with(|_| Left::NO_LIMIT, f)
}

#[inline]
fn with<R>(left: impl FnOnce(&Budget) -> Left, f: impl FnOnce() -> R) -> R {
    /// Puts the caller's count back, also when `f` panics.
    struct Restore(Left);
    impl Drop for Restore {
        fn drop(&mut self) {
            BUDGET.with(|budget| budget.left.set(self.0));
        }
    }
    let _restore = BUDGET.with(|budget| Restore(budget.left.replace(left(budget))));
    f()
}

#[cfg(test)]
mod tests;
