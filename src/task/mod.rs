//! Tasks: futures that run beside each other on the runtime's thread.
//!
//! [`spawn`] starts one, from within the runtime; its [`JoinHandle`] is a future of its result. A [`Builder`] starts one that
//! has a name. From another thread [`Handle::spawn`](crate::runtime::Handle::spawn) starts one that is `Send`, and
//! [`Handle::spawn_with`](crate::runtime::Handle::spawn_with) one that need not be: it takes a closure that makes the future.
//!
//! # Tasks that belong to somebody
//!
//! A dropped [`JoinHandle`] lets its task run on. Where helpers are not to outlive who spawned them, there is
//! [`JoinHandle::abort_on_drop`] for one of them, and [`JoinSet`] for any number, whose results come as the tasks end. A
//! future that holds either takes its helpers along when it is dropped, as by a [timeout](crate::time::timeout).
//!
//! Several futures within one task need no spawning. The macros of other crates work here as anywhere, among them
//! `futures::{select, join}`, `futures_lite::future::{or, zip}` and `tokio::{select, join}`:
//!
//! ```
//! use std::pin::pin;
//! use std::time::Duration;
//! use futures::{FutureExt, StreamExt, join, select};
//! use mainspring::{interval, sleep, spawn};
//!
//! mainspring::block_on(async {
//!     // Both, side by side.
//!     let (six, seven) = join!(async { 6 }, spawn(async { 7 }));
//!     assert_eq!(six * seven.unwrap(), 42);
//!
//!     // Whichever is first. Timers, handles and sets are fused already; other futures are with `.fuse()`.
//!     let mut ticks = interval(Duration::from_millis(1));
//!     let mut work = pin!(async { sleep(Duration::from_millis(5)).await }.fuse());
//!     let mut seen = 0;
//!     loop {
//!         select! {
//!             _tick = ticks.select_next_some() => seen += 1,
//!             () = work => break,
//!         }
//!     }
//!     assert!(seen > 0);
//! });
//! ```
//!
//! A [deadline](crate::time::deadline()) goes with a piece of work to the tasks that it spawns.
//!
//! Locks and channels, and values that belong to a task, come from other crates too: `docs/channels.md` in the repository
//! says which one to take for what, and which test shows that it runs here.
//!
//! # The cooperative budget
//!
//! A task that never waits would keep everybody else waiting. So one poll of a task may take 128 ready
//! results from the leaf futures of this crate (sleeps, timeouts, ticks, sockets, join handles), or take them for about
//! 100 µs, whichever comes first; the next one wakes the
//! task and is pending, so that others get their turn. [`unconstrained`] opts out.
//!
//! Futures of other crates know nothing of it. Where one of them may be ready each time, as a channel's may, put it into
//! [`cooperative`], or call [`consume_budget`] once a round. An executor that runs inside a task, such as
//! `futures::executor::block_on`, has no budget: it would poll on for ever.

mod abort_on_drop;
mod builder;
mod join_set;

pub use abort_on_drop::AbortOnDrop;
pub use builder::Builder;
pub use join_set::JoinSet;

pub use crate::coop::{
    Cooperative, Unconstrained, consume_budget, cooperative, has_budget_remaining, unconstrained, yield_now,
};
pub use crate::executor::{AbortHandle, Id, JoinError, JoinHandle};

use crate::runtime::spawn;

/// Makes `future` a task of the runtime this thread is in. It need not be `Send`.
///
/// That is the runtime whose `block_on` runs here, or, while the guard of
/// [`Handle::enter`](crate::runtime::Handle::enter) lives, that of the handle, as for sleeps and sockets; it has to be a
/// runtime of this thread. If it was dropped, the future is dropped here and now, and the handle's result says that it
/// was cancelled.
///
/// # In which order tasks run
///
/// Ready tasks wait in lanes, each first in, first out:
///
/// 1. tasks that a timer woke, or an expired entry of a queue or map, in the order of the deadlines;
/// 2. new tasks, and tasks that a socket, another task or another thread woke;
/// 3. tasks that used up their [budget](crate::task#the-cooperative-budget), and in a lane of their own
///    tasks that [yielded](crate::task::yield_now) or woke themselves otherwise.
///
/// The lanes are served in this order. While several have more to do than there is time, each gets an equal share of it: a
/// lane that has had two milliseconds more than another with work waits until that one has caught up. A task that waits in one
/// lane stays there if it is woken again. The future of `block_on` takes its turn among the tasks.
///
/// So a sleep that ends is on time also beside a thousand tasks that compute and yield: at most what runs just then has
/// to end first. [`Builder::wake_priority`](crate::runtime::Builder::wake_priority) switches the lanes off.
///
/// # Panics
///
/// If this thread is in no runtime, or in one of another thread: use
/// [`Handle::spawn`](crate::runtime::Handle::spawn) or [`spawn_with`](crate::runtime::Handle::spawn_with) there.
/// [`Runtime::spawn`](crate::Runtime::spawn) needs no guard.
///
/// ```
/// use mainspring::{Runtime, spawn};
///
/// mainspring::block_on(async {
///     let shared = std::rc::Rc::new(5);
///     let copy = shared.clone();
///     let task = spawn(async move { *copy + 1 });
///     assert_eq!(task.await.unwrap(), 6);
/// });
///
/// let runtime = Runtime::new()?;
/// let task = {
///     let _guard = runtime.handle().enter();
///     spawn(async { 7 })
/// };
/// assert_eq!(runtime.block_on(task).unwrap(), 7);
/// # Ok::<(), std::io::Error>(())
/// ```
#[inline]
#[track_caller]
pub fn spawn<F: Future + 'static>(future: F) -> JoinHandle<F::Output> {
    spawn::here(future)
}
