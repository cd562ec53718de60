//! What happens to timers, as events of `tracing`, with the feature of that name. Without the feature it costs no code and no
//! memory.
//!
//! Ground rules:
//!
//! * A subscriber is foreign code. No event is sent under the lock, nor before the wakers of a batch have been called, so
//!   a subscriber that panics loses no wake-up and no other event.
//! * A timer is mostly cancelled by its drop, and that perhaps by a panic: then the subscriber's own panic is not resumed.
//! * An entry is not read any more after it has fired. Its [`TracedTimer`] is copied before.

#[cfg(not(feature = "tracing"))]
pub(crate) use off::{Batch, TracedTimer, shut_down};
#[cfg(feature = "tracing")]
pub(crate) use on::{Batch, TracedTimer, shut_down};

#[cfg(feature = "tracing")]
mod on {
    use std::panic::Location;
    use std::thread;

    use crate::Nanos;
    use crate::wake::{Panics, WakeList};

    /// What events say about a timer: which one it is, and where it was made.
    #[derive(Clone, Copy)]
    pub(crate) struct TracedTimer {
        timer: usize,
        made_at: &'static Location<'static>,
    }

    impl TracedTimer {
        /// The timer at this address.
        pub(crate) fn new<T>(at: *const T, made_at: &'static Location<'static>) -> TracedTimer {
            TracedTimer { timer: at as usize, made_at }
        }

        pub(crate) fn armed(self, deadline: Nanos) {
            let TracedTimer { timer, made_at } = self;
            let deadline_ns = deadline.get();
            tracing::trace!(target: "mainspring::timer", timer, deadline_ns, %made_at, "armed");
        }

        pub(crate) fn reset(self, deadline: Nanos) {
            let TracedTimer { timer, made_at } = self;
            let deadline_ns = deadline.get();
            tracing::trace!(target: "mainspring::timer", timer, deadline_ns, %made_at, "reset");
        }

        pub(crate) fn cancelled(self) {
            let TracedTimer { timer, made_at } = self;
            let tell = || tracing::trace!(target: "mainspring::timer", timer, %made_at, "cancelled");
            // To catch a panic costs nanoseconds, and mostly there is none and nobody listens.
            if !thread::panicking() {
                return tell();
            }
            let mut panics = Panics::new();
            panics.catch(tell);
            panics.resume();
        }

        pub(crate) fn fired(self, late: u64) {
            let TracedTimer { timer, made_at } = self;
            tracing::trace!(target: "mainspring::timer", timer, late_ns = late, %made_at, "fired");
        }
    }

    pub(crate) fn shut_down(timers: usize) {
        tracing::debug!(target: "mainspring::timer", timers, "shut down");
    }

    /// The timers of a batch, until its wakers have been called.
    pub(crate) struct Batch {
        fired: Vec<(TracedTimer, u64)>,
        enabled: bool,
    }

    impl Batch {
        pub(crate) fn new() -> Batch {
            let enabled = tracing::enabled!(target: "mainspring::timer", tracing::Level::TRACE);
            let room = if enabled { WakeList::CAPACITY } else { 0 };
            Batch { fired: Vec::with_capacity(room), enabled }
        }

        pub(crate) fn push(&mut self, timer: TracedTimer, late: u64) {
            if self.enabled {
                self.fired.push((timer, late));
            }
        }

        pub(crate) fn send(&mut self, panics: &mut Panics) {
            for (timer, late) in self.fired.drain(..) {
                panics.catch(|| timer.fired(late));
            }
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod off {
    use std::panic::Location;

    use crate::Nanos;
    use crate::wake::Panics;

    #[derive(Clone, Copy)]
    pub(crate) struct TracedTimer;

    impl TracedTimer {
        #[inline(always)]
        pub(crate) fn new<T>(_: *const T, _: &'static Location<'static>) -> TracedTimer {
            TracedTimer
        }

        #[inline(always)]
        pub(crate) fn armed(self, _: Nanos) {}

        #[inline(always)]
        pub(crate) fn reset(self, _: Nanos) {}

        #[inline(always)]
        pub(crate) fn cancelled(self) {}

        #[inline(always)]
        pub(crate) fn fired(self, _: u64) {}
    }

    #[inline(always)]
    pub(crate) fn shut_down(_: usize) {}

    pub(crate) struct Batch;

    impl Batch {
        #[inline(always)]
        pub(crate) fn new() -> Batch {
            Batch
        }

        #[inline(always)]
        pub(crate) fn push(&mut self, _: TracedTimer, _: u64) {}

        #[inline(always)]
        pub(crate) fn send(&mut self, _: &mut Panics) {}
    }
}
