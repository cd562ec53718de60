//! Ends the reactor's sleep from another thread, with at most one system call.
//!
//! ```text
//!                 1 fall_asleep              3 unpark, and one write to mio's waker
//!        AWAKE ------------------> PARKED ------------------------------------------> NOTIFIED
//!        ^ ^ |                       |                                                 ^  |
//!        | | +------- 4 unpark, no system call ----------------------------------------+  |
//!        | +---------- 2 wake_up ----+                                                    |
//!        +---------------------------- 2 wake_up -----------------------------------------+
//! ```
//!
//! Ground rules:
//!
//! * Only the reactor's thread performs 1 and 2. Anybody performs 3 and 4.
//! * A thread that has something for the reactor's publishes it first and then calls
//!   [`unpark`](super::Io::unpark), always. Then nothing is slept over: if the call comes before 1, then 1
//!   fails and there is no sleep; if it comes after, the sleep is ended.
//! * A notification stays until the reactor's thread has seen it, so a second one costs no system call.
//! * [`Wakefulness`] touches no poller, so that it can be modelled. The write of arrow 3 is [`Io`](super::Io)'s.

use crate::sync::{AtomicU8, Ordering};

/// The reactor's thread runs, and will look at everything before it sleeps.
const AWAKE: u8 = 0;
/// The reactor's thread sleeps, or is about to.
const PARKED: u8 = 1;
/// Something has happened since the reactor's thread last woke up.
const NOTIFIED: u8 = 2;

/// Whether the reactor's thread sleeps, and whether it has been told of something.
#[derive(Debug)]
pub(crate) struct Wakefulness(AtomicU8);

impl Wakefulness {
    pub(crate) fn new() -> Wakefulness {
        Wakefulness(AtomicU8::new(AWAKE))
    }

    /// Arrows 3 and 4. True if the caller has to end the sleep.
    pub(crate) fn notify(&self) -> bool {
        // Release: what the caller published before is seen by the acquire in `wake_up`. A swap and not a
        // store, because of several callers each must reach it: a read-modify-write continues the release
        // sequence of those before it, a store would cut it off.
        self.0.swap(NOTIFIED, Ordering::Release) == PARKED
    }

    /// Arrow 1. False: there is a notification, so do not sleep.
    pub(crate) fn fall_asleep(&self) -> bool {
        // Relaxed: nothing is published by this (an unparker reads no data of ours), and nothing is read on
        // the strength of it (a failure leads to `wake_up`, which acquires).
        self.0.compare_exchange(AWAKE, PARKED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether the thread sleeps, or is about to. For that thread itself, which does not sleep in this reactor then, but
    /// in somebody else's loop.
    pub(super) fn is_parked(&self) -> bool {
        // Relaxed: that thread writes it, but for a notification, which is as good.
        self.0.load(Ordering::Relaxed) == PARKED
    }

    /// Arrow 2. True: there was a notification, which is hereby seen.
    pub(crate) fn wake_up(&self) -> bool {
        // While this thread was not parked it may find AWAKE, which needs no read-modify-write. Relaxed: a
        // notification that is not visible yet stays for the next time.
        if self.0.load(Ordering::Relaxed) == AWAKE {
            return false;
        }
        // Acquire pairs with the release in `notify`.
        self.0.swap(AWAKE, Ordering::Acquire) == NOTIFIED
    }
}
