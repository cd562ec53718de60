//! The thread-local context: which runtime this thread is in. The user-facing modules reach the running
//! runtime through this file alone.
//!
//! Ground rules:
//!
//! * A borrow of the thread-local lasts for one lookup, and no user code runs in it.
//! * Guards nest: each puts back what it found. In the destructor of another thread-local the context may be
//!   gone already; then there is no runtime, and nothing panics.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::{fmt, io};

use super::Handle;
use super::registry::Number;

thread_local! {
    static CURRENT: RefCell<Option<Handle>> = const { RefCell::new(None) };
    /// The number of the current runtime: for those who do not need more, read without a borrow.
    static NUMBER: Cell<Option<Number>> = const { Cell::new(None) };
    /// Whether a `block_on` runs on this thread.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// There is no runtime on this thread.
///
/// It converts to an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRuntime(());

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

/// While it lives, its runtime is the one this thread is in. Made by [`Handle::enter`].
///
/// Guards are dropped in the reverse order of their making, as happens by itself with local variables.
#[must_use = "the runtime is left when the guard is dropped"]
pub struct EnterGuard<'a> {
    previous: Option<Handle>,
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
        let previous = self.previous.take();
        NUMBER.with(|number| number.set(previous.as_ref().map(Handle::number)));
        // What it held is dropped after the borrow has ended.
        let left = CURRENT.try_with(|current| current.replace(previous));
        drop(left);
    }
}

/// Makes `handle`'s runtime the one this thread is in.
pub(super) fn enter(handle: &Handle) -> EnterGuard<'_> {
    let handle = handle.clone();
    NUMBER.with(|number| number.set(Some(handle.number())));
    let previous = CURRENT.try_with(|current| current.replace(Some(handle))).unwrap_or_default();
    EnterGuard { previous, _thread: PhantomData }
}

/// Looks at the runtime this thread is in.
///
/// # Errors
///
/// [`NoRuntime`] if it is in none.
#[inline]
pub(crate) fn with<R>(look: impl FnOnce(&Handle) -> R) -> Result<R, NoRuntime> {
    CURRENT.try_with(|current| current.borrow().as_ref().map(look)).ok().flatten().ok_or(NoRuntime(()))
}

/// The number of the runtime this thread is in.
#[inline]
pub(crate) fn number() -> Option<Number> {
    NUMBER.with(Cell::get)
}

/// Looks at the runtime that was the current one where `number` was asked for: mostly it still is.
///
/// # Errors
///
/// [`NoRuntime`] if nobody knows it any more.
#[inline]
pub(crate) fn with_number<R>(wanted: Number, look: impl FnOnce(&Handle) -> R) -> Result<R, NoRuntime> {
    if number() == Some(wanted) {
        return with(look);
    }
    Handle::find(wanted).as_ref().map(look).ok_or(NoRuntime(()))
}

/// The reactor of the runtime this thread is in.
///
/// # Errors
///
/// [`NoRuntime`], as an [`io::Error`], if it is in none.
#[cfg(feature = "net")]
pub(crate) fn io() -> io::Result<std::sync::Arc<crate::reactor::Io>> {
    Ok(with(|handle| handle.io().clone())?)
}

/// Marks this thread as running a `block_on`.
pub(super) struct Running(());

impl Running {
    /// `None` if it runs one already.
    pub(super) fn start() -> Option<Running> {
        let nested = RUNNING.try_with(|running| running.replace(true)).unwrap_or(false);
        // Only the outer one may come to be: to drop one that is refused would take the mark away.
        if nested { None } else { Some(Running(())) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Without the thread-local there is nothing to mark.
        let _ = RUNNING.try_with(|running| running.set(false));
    }
}
