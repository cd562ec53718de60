//! Tasks: futures that run concurrently on the runtime's thread.
//!
//! [`spawn`] starts a task from within the runtime; the returned [`JoinHandle`] is a future of the task's result. A [`Builder`]
//! starts a task with a name. From another thread, [`Handle::spawn`](crate::runtime::Handle::spawn) starts a task whose future
//! is `Send`. [`Handle::spawn_with`](crate::runtime::Handle::spawn_with) takes a closure that makes the future, which then
//! need not be `Send`.
//!
//! # Tasks that belong to somebody
//!
//! When a [`JoinHandle`] is dropped, its task runs on. For helper tasks that must not outlive the future that spawned them, use
//! [`JoinHandle::abort_on_drop`] for a single helper, and [`JoinSet`] for any number; the set returns the results as the tasks
//! end. When a future that holds either is dropped, for example by a [timeout](crate::time::timeout), its helpers are aborted.
//!
//! To run several futures within one task, no spawning is needed. The macros and functions of other crates work here as
//! anywhere, among them `futures::{select, join}`, `futures_lite::future::{or, zip}` and `tokio::{select, join}`:
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
//!     // Whichever is first.
//!     let mut ticks = interval(Duration::from_millis(1));
//!     let mut work = pin!(async { sleep(Duration::from_millis(5)).await }.fuse());
//!     let mut seen = 0;
//!     loop {
//!         select! {
//!             _tick = ticks.tick() => seen += 1,
//!             () = work => break,
//!         }
//!     }
//!     assert!(seen > 0);
//! });
//! ```
//!
//! `futures::select!` has to know which futures must not be polled any more:
//!
//! * sleeps, ticks, join handles and [`unblock`] know it, and go in as they are;
//! * intervals, sets, queues, timer maps and signals are streams, and go in with `.select_next_some()`;
//! * all other futures, such as those of async methods and timeouts, go in with `.fuse()`. A future that is to wait on
//!   from one round of a loop to the next is fused and pinned before the loop, as `work` above.
//!
//! A server's loop with all three:
//!
//! ```
//! # #[cfg(all(unix, feature = "net", feature = "signal"))] {
//! use std::time::Duration;
//! use futures::{FutureExt, StreamExt, select};
//! use mainspring::net::UdpSocket;
//! use mainspring::signal::{SignalKind, signal};
//! use mainspring::task::JoinSet;
//! use mainspring::{interval, sleep};
//!
//! mainspring::block_on(async {
//!     let socket = UdpSocket::bind("127.0.0.1:0").await?;
//!     let mut stop = signal(SignalKind::terminate())?;
//!     let mut ticks = interval(Duration::from_secs(1));
//!     let mut answers = JoinSet::new();
//!     let mut buffer = [0; 1500];
//! #   let client = UdpSocket::bind("127.0.0.1:0").await?;
//! #   client.send_to(b"ping", socket.local_addr()?).await?;
//! #   let client = mainspring::spawn(async move {
//! #       let received = client.recv_from(&mut [0; 9]).await;
//! #       signal_hook::low_level::raise(15).unwrap();
//! #       received.map(|(len, _)| len)
//! #   });
//!     loop {
//!         select! {
//!             received = socket.recv_from(&mut buffer).fuse() => {
//!                 let (len, from) = received?;
//!                 let answer = buffer[..len].to_vec();
//!                 answers.spawn(async move {
//!                     sleep(Duration::from_millis(1)).await;
//!                     (answer, from)
//!                 });
//!             }
//!             answered = answers.select_next_some() => {
//!                 let (answer, to) = answered.expect("the task does not panic");
//!                 socket.send_to(&answer, to).await?;
//!             }
//!             _tick = ticks.tick() => println!("{} answers are under way", answers.len()),
//!             stopped = stop.select_next_some() => break stopped?,
//!         }
//!     }
//! #   assert_eq!(client.await.unwrap()?, 4);
//!     Ok::<_, std::io::Error>(())
//! })
//! # .unwrap();
//! # }
//! ```
//!
//! The [deadline](crate::time::deadline()) of a piece of work is inherited by the tasks that it spawns.
//!
//! Locks, channels and task-local values come from other crates too: `docs/channels.md` in the repository says which crate to
//! use for what, and which test shows that it runs here.
//!
//! # The cooperative budget
//!
//! A task that never waits would keep all other tasks waiting. So one poll of a task may take 128 ready results from the leaf
//! futures of this crate (sleeps, timeouts, ticks, sockets, join handles, closures), or take results for about 100 µs, whichever comes
//! first. After that, the next leaf future wakes the task and is pending, so that other tasks get their turn.
//! [`unconstrained`] opts out. The clock is read after every few results, for the first time after up to three: results that
//! take long each are noticed only then. What needs no operation of its own is not counted, such as the lines of a buffered
//! reader that one read has brought.
//!
//! The branches of a `select` or a `join` belong to one task, and share its budget. A branch that always finds
//! something ready may use it up in each poll, before the branches after it are polled. Timers are noticed in any place: when
//! the budget is used up, one timer that is overdue, or one value of a queue, may still end in each poll, as well as a
//! [`timeout`](crate::time::timeout()) around a branch that uses the budget up. (It is the first that is polled: a loop of sleeps of
//! length zero before it would always be that one.) So are signals and the ends of children, which are rare and need no budget.
//! Of sockets, join handles and closures, where the order is fixed, as in `futures::future::select`, the one that must not starve
//! goes first.
//!
//! Futures of other crates do not know the budget. If such a future may be ready each time, as a channel's may, wrap it
//! in [`cooperative`], or call [`consume_budget`] once per iteration. An executor that runs inside a task, such as
//! `futures::executor::block_on`, has no budget: with one it would poll on forever. It is recognised because it goes on
//! polling, which takes some milliseconds in each poll of its task that goes beyond the budget.
//!
//! # Work that blocks
//!
//! A call that blocks (reading a file, a library without async, a long computation) would stop the whole runtime, including
//! its timers. [`unblock`] runs a closure on another thread and returns a future of the closure's result; [`spawn_blocking`]
//! spawns a task that awaits such a future. The closure's time is not charged to the runtime or to the task.
//!
//! * **Threads.** There is one pool in the process, which also looks up names. It has a thread for each closure that runs, up
//!   to 512. Beyond that, closures wait, and begin in the order in which they came. So a closure must not wait for another.
//!   They also wait while the system refuses another thread; it is asked again when the next closure comes. A thread that has
//!   been idle for a second ends; without work there are no threads.
//! * **Cancelling.** A closure that has not begun is dropped with its future. A closure that has begun cannot be stopped: it
//!   runs on, and its result is dropped. The end of the runtime does not wait for it, and the end of the process ends it in the
//!   middle.
//! * **Panics** of the closure resurface where the result is awaited.
//! * **Virtual time** does not advance automatically from the call until the closure has ended, even if no task waits for it any
//!   more: no timeout overtakes it.
//!
//! Read and write files this way, as in the example, or with the crate [`async-fs`](https://docs.rs/async-fs). Virtual time
//! does not know the threads of `async-fs`: hold [`stand_still`](crate::time::stand_still) there. `docs/files.md` in the
//! repository compares the two.
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

pub use crate::blocking::{Unblock, try_unblock, unblock};
pub use crate::coop::{
    Cooperative, Unconstrained, consume_budget, cooperative, has_budget_remaining, unconstrained, yield_now,
};
pub use crate::executor::{AbortHandle, Id, JoinError, JoinHandle};

use crate::blocking;
use crate::runtime::spawn;

/// Spawns `future` as a task of the runtime this thread is in. The future need not be `Send`.
///
/// That is the runtime whose `block_on` runs here, or, while the guard of
/// [`Handle::enter`](crate::runtime::Handle::enter) lives, the runtime of that handle, as for sleeps and sockets; it has to
/// be a runtime of this thread. If the runtime was dropped, the future is dropped immediately, and the handle's result says
/// that the task was cancelled.
///
/// # In which order tasks run
///
/// Ready tasks wait in lanes, each first in, first out:
///
/// 1. tasks that were woken by a timer, or by an expired entry of a queue or map, in the order of the deadlines;
/// 2. new tasks, and tasks that were woken by a socket, another task or another thread;
/// 3. tasks that used up their [budget](crate::task#the-cooperative-budget); and, in a separate lane, tasks that
///    [yielded](crate::task::yield_now) or woke themselves in another way.
///
/// The lanes are served in this order. While several lanes have more work than there is time, each gets an equal share of the
/// time: a lane that has had a tenth of a millisecond more than another lane with work waits until that lane has caught up. While
/// a lane has no work, it saves the time that others have, up to two milliseconds, and may go before them for so long. Next to
/// tasks that are woken continuously, a task that only yields has one turn per round, and not half of the time. A task that
/// waits in one lane stays there if it is woken again. The future of `block_on` takes its turn among the tasks.
///
/// If the thread was held up so long that a timer is late by a tenth of a second (the process was stopped, or a task computed meanwhile),
/// the timers that are due fire when the tasks have had their turn that sockets have woken by then. So a task that waits for a message or
/// a [`sleep`](crate::time::sleep()) gets the message first, if it came in time and another task had only to read and send it.
///
/// What other threads wake and what they spawn enters its lane a few tasks at a time, each in order, in turns. So neither a task
/// that becomes ready on this thread nor one that another thread wakes waits for all that other threads spawn, however much
/// it is; and next to tasks that are always ready, what other threads send has its share.
///
/// So a sleep ends on time even alongside a thousand tasks that compute and yield: at most the task that runs at that moment
/// has to end its poll first. [`Builder::wake_priority`](crate::runtime::Builder::wake_priority) switches the lanes off.
///
/// # Panics
///
/// If this thread is in no runtime, or in a runtime that belongs to another thread: use
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

/// Runs a closure that may block on another thread, and spawns a task that waits for its result.
///
/// Like [`unblock`], but with a [`JoinHandle`]: a panic of the closure is the handle's error. If the handle is dropped, the
/// closure still runs, and its result is dropped. [Aborting](JoinHandle::abort) the task drops a closure that has not begun. If
/// the closure has begun, that is too late: the handle says immediately that the task was cancelled, and the closure runs on.
/// The same happens if the runtime is dropped. If it was dropped before the call, the closure does not run.
///
/// The task belongs to the runtime that this thread is in, also under the guard of
/// [`Handle::enter`](crate::runtime::Handle::enter) on another thread. A [dump](crate::dump) shows it until the closure has
/// ended.
///
/// # Panics
///
/// If this thread is in no runtime; and if the system cannot create a thread and the pool has none.
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
    blocking::spawn(closure)
}
