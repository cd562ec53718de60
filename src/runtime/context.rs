//! The thread-local context: which runtime this thread is in. The user-facing modules reach the running
//! runtime through this file alone.
//!
//! Ground rules:
//!
//! * A borrow of the thread-local lasts for one lookup, and no user code runs during it.
//! * Guards nest. Each guard removes its own entry from the stack, wherever the entry lies, so that a thread is in no runtime
//!   after all its guards were dropped. A guard panics if its entry is not on top: until then other code was in the wrong
//!   runtime.
//! * A poll of a task, or of `block_on`'s future, leaves the stack as it found it; see [`Guarded`].
//! * In the destructor of another thread-local the context may be gone already. Then this thread is in no runtime, not even
//!   within `block_on`: what needs one says so, and nothing else panics.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::{fmt, io, mem};

use mainspring_driver::{Handle as Timers, Nanos};
use pin_project_lite::pin_project;

use super::Handle;
use crate::{clock, coop};

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack { top: None, below: Vec::new() }) };
    /// What can be known about the top entry without a borrow.
    static TOP: Top = const { Top { serial: Cell::new(0), given: Cell::new(0) } };
    /// Whether a `block_on` or a `turn` runs on this thread.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// The runtimes this thread is in, of which the top one counts. Mostly there is one: then nothing is allocated.
struct Stack {
    top: Option<Entry>,
    below: Vec<Entry>,
}

/// A runtime that was entered.
struct Entry {
    handle: Handle,
    /// Identifies the entry on this thread: a later entry has a higher serial.
    serial: u64,
    /// Where it was entered.
    at: &'static Location<'static>,
}

struct Top {
    /// The serial of the top entry; zero if there is none.
    serial: Cell<u64>,
    /// The highest serial that was given on this thread.
    given: Cell<u64>,
}

impl Stack {
    fn push(&mut self, entry: Entry) {
        if let Some(below) = self.top.replace(entry) {
            self.below.push(below);
        }
        self.tell();
    }

    fn pop(&mut self) -> Option<Entry> {
        let left = mem::replace(&mut self.top, self.below.pop());
        self.tell();
        left
    }

    fn tell(&self) {
        TOP.with(|top| top.serial.set(self.top.as_ref().map_or(0, |entry| entry.serial)));
        clock::set_current(self.top.as_ref().map(|entry| entry.handle.clock().clone()));
    }
}

/// There is no runtime on this thread.
///
/// It converts to an [`io::Error`].
///
/// ```
/// use mainspring::Handle;
///
/// let error = Handle::try_current().unwrap_err();
/// assert!(error.to_string().starts_with("no Mainspring runtime on this thread"));
/// assert!(format!("{error:?}").contains("call this inside `mainspring::block_on`"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NoRuntime(());

/// With the message, so that an `unwrap` says what to do.
impl fmt::Debug for NoRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NoRuntime").field(&format_args!("{self}")).finish()
    }
}

impl fmt::Display for NoRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "no Mainspring runtime on this thread: call this inside `mainspring::block_on`, inside a task, \
             or while the guard of `Handle::enter` lives",
        )
    }
}

impl std::error::Error for NoRuntime {}

impl From<NoRuntime> for io::Error {
    fn from(error: NoRuntime) -> io::Error {
        io::Error::other(error)
    }
}

/// While this guard lives, this thread is in the guard's runtime. Made by [`Handle::enter`].
///
/// Guards must be dropped in the reverse order of their making, as happens automatically with local variables.
///
/// # Panics
///
/// When it is dropped, if a guard that was made later is still alive. The thread has left the guard's runtime nevertheless.
/// During another panic it does not panic.
///
/// ```
/// use mainspring::{Handle, Runtime};
///
/// let runtime = Runtime::new()?;
/// {
///     let _guard = runtime.handle().enter();
///     assert!(Handle::try_current().is_ok());
/// }
/// assert!(Handle::try_current().is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "the runtime is left when the guard is dropped"]
pub struct EnterGuard<'a> {
    /// The serial of its entry; zero if it has none.
    serial: u64,
    /// It belongs to this thread, and must not outlive the handle.
    _thread: PhantomData<(*const (), &'a Handle)>,
}

impl fmt::Debug for EnterGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterGuard").finish_non_exhaustive()
    }
}

impl Drop for EnterGuard<'_> {
    fn drop(&mut self) {
        let found = STACK.try_with(|stack| {
            let mut stack = stack.borrow_mut();
            let top = stack.top.as_ref().filter(|top| top.serial != self.serial).map(|top| top.at);
            let Some(later) = top else { return (stack.pop(), None) };
            // The entry is missing if the poll that kept it has removed it.
            let place = stack.below.iter().rposition(|entry| entry.serial == self.serial);
            (place.map(|place| stack.below.remove(place)), Some(later))
        });
        // What was taken off the stack is dropped after the borrow has ended.
        let Ok((Some(left), Some(later))) = found else { return };
        if !std::thread::panicking() {
            panic!(
                "the guard of `Handle::enter` made at {} was dropped before the one made later at {later}: drop guards in \
                 the reverse order in which they were made",
                left.at
            );
        }
    }
}

/// Makes `handle`'s runtime the one this thread is in.
#[track_caller]
pub(super) fn enter(handle: &Handle) -> EnterGuard<'_> {
    let serial = TOP.with(|top| top.given.get()) + 1;
    let entry = Entry { handle: handle.clone(), serial, at: Location::caller() };
    let entered = STACK.try_with(|stack| {
        stack.borrow_mut().push(entry);
        TOP.with(|top| top.given.set(serial));
    });
    EnterGuard { serial: entered.map_or(0, |()| serial), _thread: PhantomData }
}

pin_project! {
    /// A future that leaves the thread, after each poll, in the runtime in which the poll began.
    ///
    /// A guard of [`Handle::enter`] that is held across an `.await` puts everything that is polled meanwhile into its
    /// runtime: timers would be armed where they may never fire. So the guard's entry is removed, and the poll panics.
    #[derive(Debug)]
    pub(super) struct Guarded<F> {
        #[pin]
        future: F,
    }
}

/// Wraps `future`, which is the future of a task or of `block_on`.
#[inline]
pub(super) fn guarded<F: Future>(future: F) -> Guarded<F> {
    Guarded { future }
}

impl<F: Future> Future for Guarded<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let before = TOP.with(|top| top.serial.get());
        let polled = self.project().future.poll(cx);
        if TOP.with(|top| top.serial.get()) != before {
            leave_above(before);
        }
        polled
    }
}

/// Removes all entries above the one with this serial.
///
/// # Panics
///
/// If there was one.
#[cold]
fn leave_above(serial: u64) {
    let left = STACK.try_with(|stack| {
        let mut stack = stack.borrow_mut();
        let mut left = Vec::new();
        while stack.top.as_ref().is_some_and(|top| top.serial > serial) {
            left.extend(stack.pop());
        }
        left
    });
    let Some(first) = left.ok().and_then(|mut left| left.pop()) else { return };
    if !std::thread::panicking() {
        panic!(
            "the guard of `Handle::enter` made at {} was held across an `.await`, where it puts other tasks into its \
             runtime: drop the guard before the `.await`; futures that were made under it stay in its runtime",
            first.at
        );
    }
}

/// Looks at the runtime this thread is in.
///
/// # Errors
///
/// [`NoRuntime`] if this thread is in no runtime.
#[inline]
pub(crate) fn with<R>(look: impl FnOnce(&Handle) -> R) -> Result<R, NoRuntime> {
    let look = |stack: &RefCell<Stack>| stack.borrow().top.as_ref().map(|entry| look(&entry.handle));
    STACK.try_with(look).ok().flatten().ok_or(NoRuntime(()))
}

/// Returns what makes timers for the runtime this thread is in.
///
/// # Errors
///
/// [`NoRuntime`] if this thread is in no runtime.
#[inline]
pub(crate) fn timers() -> Result<Timers, NoRuntime> {
    with(|handle| handle.timers().clone())
}

/// The reactor of the runtime this thread is in.
///
/// # Errors
///
/// [`NoRuntime`], as an [`io::Error`], if this thread is in no runtime.
#[cfg(any(feature = "net", unix))]
pub(crate) fn io() -> io::Result<std::sync::Arc<crate::reactor::Io>> {
    Ok(with(|handle| handle.io().clone())?)
}

/// Marks this thread as running a `block_on` or a `turn`.
pub(super) struct BlockOnGuard(());

impl BlockOnGuard {
    /// Returns `None` if the thread runs one already.
    pub(super) fn start() -> Option<BlockOnGuard> {
        let nested = RUNNING.try_with(|running| running.replace(true)).unwrap_or(false);
        // Only the outer call may make a guard: dropping a guard for a refused call would remove the mark.
        if nested { None } else { Some(BlockOnGuard(())) }
    }
}

impl Drop for BlockOnGuard {
    fn drop(&mut self) {
        coop::set_seen(Nanos::ZERO, Nanos::ZERO);
        // Without the thread-local there is nothing to mark.
        let _ = RUNNING.try_with(|running| running.set(false));
    }
}
