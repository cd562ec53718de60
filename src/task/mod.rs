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
//!
//! # Work that blocks
//!
//! What blocks would stop the whole runtime, timers included: reading a file, a library without async, a long computation.
//! [`unblock`] runs a closure on another thread and is a future of what it returns; [`spawn_blocking`] makes a task of that. The
//! closure's time is not charged to the runtime or to the task.
//!
//! * **Threads.** There is one pool in the process, also for look-ups of names. It has a thread for each
//!   closure that runs, up to 512; then closures wait, and begin in the order in which they came. So no closure shall wait for
//!   another. A thread that has been idle for a second ends; without work there is none.
//! * **Cancelling.** A closure that has not begun is dropped with its future. Nothing stops one that has: it runs on, and its
//!   result is dropped. Neither does the end of the runtime wait for it, and the end of the process ends it in the middle.
//! * **Panics** come out where the result is awaited.
//! * **Virtual time** does not move by itself from the call until the closure has ended, also if nobody waits for it any more:
//!   no timeout overtakes it.
//!
//! Files are read and written so, as in the example, or by the crate [`async-fs`](https://docs.rs/async-fs), whose threads
//! virtual time does not know of: hold [`stand_still`](crate::time::stand_still) there. `docs/files.md` in the repository compares
//! the two.
//!
//! ```
//! use mainspring::task::unblock;
//! use std::fs::File;
//! use std::io::{Read, Seek, Write};
//!
//! # let path = std::env::temp_dir().join(format!("mainspring-task-{}", std::process::id()));
//! mainspring::block_on(async {
//!     # let path = path.clone();
//!     // One closure for all that belongs together is faster than one for each call. The file comes back for the next.
//!     let mut file = unblock(move || {
//!         let mut file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
//!         file.write_all(b"hello")?;
//!         file.rewind()?;
//!         Ok::<_, std::io::Error>(file)
//!     })
//!     .await?;
//!     let text = unblock(move || {
//!         let mut text = String::new();
//!         file.read_to_string(&mut text).map(|_| text)
//!     });
//!     assert_eq!(text.await?, "hello");
//!     Ok::<_, std::io::Error>(())
//! })
//! # .unwrap();
//! # std::fs::remove_file(path).unwrap();
//! ```

mod abort_on_drop;
mod builder;
mod join_set;

pub use abort_on_drop::AbortOnDrop;
pub use builder::Builder;
pub use join_set::JoinSet;

pub use crate::blocking::{Unblock, unblock};
pub use crate::coop::{
    Cooperative, Unconstrained, consume_budget, cooperative, has_budget_remaining, unconstrained, yield_now,
};
pub use crate::executor::{AbortHandle, Id, JoinError, JoinHandle};

use crate::runtime::{Handle, spawn};

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
/// lane that has had two milliseconds more than another with work waits until that one has caught up. Beside tasks that
/// are woken without end one that does nothing but yield has one turn each time around, and not half of the time. A task that
/// waits in one lane stays there if it is woken again. The future of `block_on` takes its turn among the tasks.
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

/// Runs a closure that blocks on another thread, and makes a task that waits for what it returns.
///
/// As [`unblock`], but with a [`JoinHandle`]: a panic of the closure is its error, and dropping it lets the closure run and
/// forgets the result. [Aborting](JoinHandle::abort) it drops the closure if that has not begun, and is too late if it has: then
/// the handle says at once that it was cancelled, and the closure runs on. So it is if the runtime is dropped.
///
/// The task belongs to the runtime that this thread is in, also under the guard of
/// [`Handle::enter`](crate::runtime::Handle::enter) on another thread. A [dump](crate::dump) shows it until the closure has ended.
///
/// # Panics
///
/// If this thread is in no runtime; and if the system cannot make a thread and there is none.
///
/// # Examples
///
/// ```
/// use mainspring::task::spawn_blocking;
///
/// mainspring::block_on(async {
///     let sum = spawn_blocking(|| (1..=1_000_000_u64).sum::<u64>());
///     assert_eq!(sum.await.unwrap(), 500_000_500_000);
///
///     let error = spawn_blocking(|| panic!("boo")).await.map(drop::<()>).unwrap_err();
///     assert_eq!(error.into_panic().downcast_ref(), Some(&"boo"));
/// });
/// ```
#[track_caller]
pub fn spawn_blocking<T, F>(closure: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // Without a runtime nothing is begun.
    let handle = Handle::current();
    handle.spawn(unblock(closure))
}
