//! What the runtime does, as spans and events of `tracing`, with the feature of that name. Without the feature there is
//! nothing: no code, and no word of memory. The table of names is in the crate's documentation.
//!
//! Ground rule: a subscriber is foreign code. It is called only where no lock or borrow is held that it could run into.

#[cfg(not(feature = "tracing"))]
pub(crate) use off::{long_turn, parking, task, woken};
#[cfg(feature = "tracing")]
pub(crate) use on::{long_turn, parking, task, woken};

#[cfg(feature = "tracing")]
mod on {
    use std::panic::Location;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::thread;
    use std::time::Duration;

    use pin_project_lite::pin_project;
    use tracing::Span;
    use tracing::field::display;
    use tracing::span::Entered;

    use crate::panics::Panics;

    /// A turn that takes this long, or longer, is reported.
    const LONG_TURN: Duration = Duration::from_millis(10);

    pin_project! {
        /// A task's future, in the task's span while it is polled.
        pub(crate) struct Traced<F> {
            #[pin]
            future: F,
            span: Span,
        }
    }

    /// The future of a task.
    pub(crate) fn task<F: Future>(
        future: F,
        id: u64,
        spawned_at: &Location<'_>,
        name: Option<&str>,
    ) -> Traced<F> {
        let spawned_at = display(spawned_at);
        // It has no parent: it may outlive the span in which it is spawned.
        let span =
            tracing::debug_span!(target: "mainspring::task", parent: None, "task", id, name, spawned_at);
        Traced { future, span }
    }

    impl<F: Future> Future for Traced<F> {
        type Output = F::Output;

        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
            let this = self.project();
            let _inside = Inside(Some(this.span.enter()));
            this.future.poll(cx)
        }
    }

    /// Leaves the span. If the future panics, a panic of the subscriber is not resumed: that would abort the process.
    struct Inside<'a>(Option<Entered<'a>>);

    impl Drop for Inside<'_> {
        #[inline]
        fn drop(&mut self) {
            // To catch a panic costs nanoseconds in each poll.
            if !thread::panicking() {
                return drop(self.0.take());
            }
            let mut panics = Panics::new();
            panics.catch(|| drop(self.0.take()));
            panics.resume();
        }
    }

    pub(crate) fn parking(timeout: Option<Duration>) {
        // Five hundred years fit.
        let timeout_ns = timeout.map(|timeout| timeout.as_nanos() as u64);
        tracing::trace!(target: "mainspring::park", timeout_ns, "parking");
    }

    pub(crate) fn woken(timer: bool, io_events: usize, thread: bool) {
        tracing::trace!(target: "mainspring::park", timer, io_events, thread, "woken");
    }

    pub(crate) fn long_turn(duration: Duration, polls: u64, timers: u64) {
        if duration >= LONG_TURN {
            let duration_us = duration.as_micros() as u64;
            tracing::warn!(target: "mainspring::turn", duration_us, polls, timers, "long turn");
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod off {
    use std::panic::Location;
    use std::time::Duration;

    #[inline(always)]
    pub(crate) fn task<F: Future>(future: F, _: u64, _: &Location<'_>, _: Option<&str>) -> F {
        future
    }

    #[inline(always)]
    pub(crate) fn parking(_: Option<Duration>) {}

    #[inline(always)]
    pub(crate) fn woken(_: bool, _: usize, _: bool) {}

    #[inline(always)]
    pub(crate) fn long_turn(_: Duration, _: u64, _: u64) {}
}
