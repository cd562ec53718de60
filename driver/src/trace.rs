//! What happens to timers, as events of `tracing`: with the feature of that name. Without it, nothing: no code, no word
//! of memory.
//!
//! Ground rules:
//!
//! * A subscriber is foreign code. No event is sent under the lock, nor before the wakers of a batch have been called, so
//!   that one that panics loses nobody's wake-up, nor the events of others.
//! * Of an entry that has fired nothing is read any more. What is told of it was noted before.

#[cfg(not(feature = "tracing"))]
pub(crate) use off::{Batch, Told, cancelled, fired, reset, shut_down};
#[cfg(feature = "tracing")]
pub(crate) use on::{Batch, Told, cancelled, fired, reset, shut_down};

#[cfg(feature = "tracing")]
mod on {
    use std::panic::Location;

    use crate::panics::Panics;
    use crate::wake_list::WakeList;
    use crate::{Nanos, TimerEntry};

    /// What is to be told of a timer: which, and where it was made.
    #[derive(Clone, Copy)]
    pub(crate) struct Told {
        timer: usize,
        made_at: &'static Location<'static>,
    }

    impl Told {
        pub(crate) fn of(entry: &TimerEntry) -> Told {
            Told { timer: std::ptr::from_ref(entry) as usize, made_at: entry.origin() }
        }

        pub(crate) fn armed(self, deadline: Nanos) {
            let Told { timer, made_at } = self;
            let deadline_ns = deadline.get();
            tracing::trace!(target: "mainspring::timer", timer, deadline_ns, %made_at, "armed");
        }
    }

    pub(crate) fn reset(entry: &TimerEntry, deadline: Nanos) {
        let Told { timer, made_at } = Told::of(entry);
        let deadline_ns = deadline.get();
        tracing::trace!(target: "mainspring::timer", timer, deadline_ns, %made_at, "reset");
    }

    pub(crate) fn cancelled(entry: &TimerEntry) {
        let Told { timer, made_at } = Told::of(entry);
        tracing::trace!(target: "mainspring::timer", timer, %made_at, "cancelled");
    }

    pub(crate) fn fired(told: Told, late: u64) {
        let Told { timer, made_at } = told;
        tracing::trace!(target: "mainspring::timer", timer, late_ns = late, %made_at, "fired");
    }

    pub(crate) fn shut_down(timers: usize) {
        tracing::debug!(target: "mainspring::timer", timers, "shut down");
    }

    /// The timers of a batch, until its wakers have been called.
    pub(crate) struct Batch {
        fired: Vec<(Told, u64)>,
        enabled: bool,
    }

    impl Batch {
        pub(crate) fn new() -> Batch {
            let enabled = tracing::enabled!(target: "mainspring::timer", tracing::Level::TRACE);
            let room = if enabled { WakeList::CAPACITY } else { 0 };
            Batch { fired: Vec::with_capacity(room), enabled }
        }

        pub(crate) fn push(&mut self, told: Told, late: u64) {
            if self.enabled {
                self.fired.push((told, late));
            }
        }

        pub(crate) fn send(&mut self, panics: &mut Panics) {
            for (told, late) in self.fired.drain(..) {
                panics.catch(|| fired(told, late));
            }
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod off {
    use crate::panics::Panics;
    use crate::{Nanos, TimerEntry};

    #[derive(Clone, Copy)]
    pub(crate) struct Told;

    impl Told {
        #[inline(always)]
        pub(crate) fn of(_: &TimerEntry) -> Told {
            Told
        }

        #[inline(always)]
        pub(crate) fn armed(self, _: Nanos) {}
    }

    #[inline(always)]
    pub(crate) fn reset(_: &TimerEntry, _: Nanos) {}

    #[inline(always)]
    pub(crate) fn cancelled(_: &TimerEntry) {}

    #[inline(always)]
    pub(crate) fn fired(_: Told, _: u64) {}

    #[inline(always)]
    pub(crate) fn shut_down(_: usize) {}

    pub(crate) struct Batch;

    impl Batch {
        #[inline(always)]
        pub(crate) fn new() -> Batch {
            Batch
        }

        #[inline(always)]
        pub(crate) fn push(&mut self, _: Told, _: u64) {}

        #[inline(always)]
        pub(crate) fn send(&mut self, _: &mut Panics) {}
    }
}
