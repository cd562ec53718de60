//! The deadline that is in force where this thread runs: what `time::deadline` sets for the polls of its future, and what
//! tasks that are spawned meanwhile inherit.
//!
//! ```text
//!   Deadline (time/deadline.rs), Inherited ── Scope, for each poll ──▶ IN_FORCE ──▶ remaining, spawn
//! ```
//!
//! Ground rules:
//!
//! * It is kept by the future that is polled, and shown by the thread while that poll lasts. So a task without a deadline has
//!   no field for one, and its polls do not look for any.
//! * A spawn reads one thread-local. Only where a deadline is in force the task's future is wrapped, and it is boxed, so
//!   that no spawn is compiled twice for the sake of it.
//! * A deadline never gets later on the way inwards.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::clock::Instant;

thread_local! {
    static IN_FORCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The deadline in force.
#[inline]
pub(crate) fn in_force() -> Option<Instant> {
    IN_FORCE.with(Cell::get)
}

/// While it lives, a deadline is in force on this thread.
#[must_use = "the deadline is in force until this is dropped"]
pub(crate) struct Scope {
    before: Option<Instant>,
}

impl Scope {
    /// Puts `at` into force, unless an earlier one is.
    pub(crate) fn enter(at: Instant) -> Scope {
        IN_FORCE.with(|in_force| {
            let before = in_force.get();
            in_force.set(Some(before.map_or(at, |before| before.min(at))));
            Scope { before }
        })
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        IN_FORCE.with(|in_force| in_force.set(self.before));
    }
}

/// The future of a task that was spawned while a deadline was in force.
pub(super) struct Inherited<T> {
    at: Instant,
    future: Pin<Box<dyn Future<Output = T>>>,
}

/// `future`, in whose polls `at` is in force.
#[cold]
pub(super) fn inherited<F: Future + 'static>(at: Instant, future: F) -> Inherited<F::Output> {
    Inherited { at, future: Box::pin(future) }
}

impl<T> Future for Inherited<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let _scope = Scope::enter(self.at);
        self.future.as_mut().poll(cx)
    }
}
