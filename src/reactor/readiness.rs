//! What is known of one direction of a source, in one atomic word.
//!
//! ```text
//!   63                                   4  3        2         1       0
//!  +--------------------------------------+--------+----------+--------+-------+
//!  | tick: one per event of the direction | URGENT | SHUTDOWN | CLOSED | READY |
//!  +--------------------------------------+--------+----------+--------+-------+
//! ```
//!
//! ```text
//!               1 set(READY | CLOSED)                     3 shut_down
//!   not ready ------------------------>  ready  ---------------------------> shut down
//!             <------------------------                                      (for good)
//!               2 clear, clear_ready: only if the tick has not moved
//! ```
//!
//! Ground rules:
//!
//! * A socket's directions start out `READY`: the first operation is tried, not waited for. Those of any other descriptor
//!   do not, because a program may have nothing to try; the poller tells of what is ready when it is registered.
//! * An operation takes a snapshot *before* it asks the kernel, and clears with that snapshot. An event that
//!   came in between has moved the tick, so its news is not erased with the old ones.
//! * The tick is compared at its full width, and each direction has its own: neither a wrap nor the
//!   traffic of the other direction can be mistaken for "nothing new" or keep a clear from working
//!   (tokio #6133, #8331, #8054).
//! * `SHUTDOWN` and `URGENT` are never cleared.

use crate::sync::{AtomicU64, Ordering};

/// An operation may be tried.
pub(super) const READY: u64 = 1 << 0;
/// The peer, or an error, has ended this direction: operations no longer block. Stays until one does.
pub(super) const CLOSED: u64 = 1 << 1;
/// The reactor is gone. Every operation fails, for good.
const SHUTDOWN: u64 = 1 << 2;
/// Urgent data was announced. A read stops short at its mark with more behind it, so from here on a short
/// read no longer says that the socket is empty.
pub(super) const URGENT: u64 = 1 << 3;

const TICK: u64 = 1 << 4;

/// What is taken for granted of a source that has just been registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Its first operation is tried.
    Ready,
    /// Its first operation waits until the poller has told of it.
    #[cfg_attr(not(any(unix, test)), allow(dead_code))]
    Told,
}

/// The word.
#[derive(Debug)]
pub(super) struct Readiness(AtomicU64);

/// The word as it was at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen(u64);

impl Seen {
    /// An operation will not block, as far as is known.
    #[inline]
    pub(super) fn is_ready(self) -> bool {
        self.0 & (READY | CLOSED | SHUTDOWN) != 0
    }

    /// The reactor is gone.
    #[inline]
    pub(super) fn is_shut_down(self) -> bool {
        self.0 & SHUTDOWN != 0
    }

    fn tick(self) -> u64 {
        self.0 / TICK
    }
}

impl Readiness {
    pub(super) fn new(start: Start) -> Readiness {
        Readiness(AtomicU64::new(if start == Start::Ready { READY } else { 0 }))
    }

    /// Acquire pairs with the release in [`set`](Self::set): who sees the event's bits also sees all that
    /// the reactor's thread did before it set them.
    #[inline]
    pub(super) fn load(&self) -> Seen {
        Seen(self.0.load(Ordering::Acquire))
    }

    /// An event: adds `bits` and moves the tick.
    pub(super) fn set(&self, bits: u64) {
        debug_assert_eq!(bits & !(READY | CLOSED | URGENT), 0);
        // The addition overflows out of the top of the word, so a tick that wraps leaves the flags alone.
        // Release pairs with `load`. A failed attempt is only retried, so relaxed suffices for it.
        self.update(Ordering::Release, |word| Some((word | bits).wrapping_add(TICK)));
    }

    /// The operation begun at `seen` would block: nothing is ready, and what looked closed is not.
    pub(super) fn clear(&self, seen: Seen) {
        self.clear_bits(seen, READY | CLOSED);
    }

    /// The operation begun at `seen` took all there was: the next one waits for news. What is closed stays
    /// so, because the end of a stream is announced once only; and after urgent data nothing is cleared.
    pub(super) fn clear_ready(&self, seen: Seen) {
        if self.load().0 & URGENT == 0 {
            self.clear_bits(seen, READY);
        }
    }

    /// The reactor is gone. The tick need not move: no clear can erase this bit.
    pub(super) fn shut_down(&self) {
        self.0.fetch_or(SHUTDOWN, Ordering::Release);
    }

    fn clear_bits(&self, seen: Seen, bits: u64) {
        // Nothing is published by a clear and nothing is read after it on its account: the word itself is
        // the whole message, and its modifications are totally ordered. So relaxed.
        self.update(Ordering::Relaxed, |word| (Seen(word).tick() == seen.tick()).then_some(word & !bits));
    }

    fn update(&self, success: Ordering, change: impl FnMut(u64) -> Option<u64>) {
        let _ = self.0.fetch_update(success, Ordering::Relaxed, change);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn cleared() -> Readiness {
        Readiness::new(Start::Told)
    }

    #[test]
    fn an_event_between_snapshot_and_clear_is_not_lost() {
        let r = Readiness::new(Start::Ready);
        let seen = r.load();
        r.set(READY);
        r.clear(seen);
        r.clear_ready(seen);
        assert!(r.load().is_ready());
        r.clear(r.load());
        assert!(!r.load().is_ready());
    }

    /// tokio #6133 and #8331: a tick compared in fewer bits than it has takes 2^bits events for none.
    #[test]
    fn any_power_of_two_of_events_moves_the_tick() {
        for bits in 0..=18 {
            let r = Readiness::new(Start::Ready);
            let seen = r.load();
            for _ in 0..1_u64 << bits {
                r.set(READY);
            }
            r.clear(seen);
            assert!(r.load().is_ready(), "lost after 2^{bits} events");
        }
        for bits in 0..60 {
            // The same without the loop: the word as 2^bits events leave it.
            let r = Readiness(AtomicU64::new(READY | (TICK << bits)));
            r.clear(Seen(READY));
            assert!(r.load().is_ready(), "lost after 2^{bits} events");
        }
    }

    #[test]
    fn a_wrapping_tick_leaves_the_flags_alone() {
        let r = Readiness(AtomicU64::new(!(READY | CLOSED | SHUTDOWN | URGENT)));
        assert!(!r.load().is_ready());
        let seen = r.load();
        r.set(CLOSED);
        assert_eq!(r.load().0, CLOSED);
        r.clear(seen);
        assert_eq!(r.load().0, CLOSED);
    }

    #[test]
    fn the_shutdown_mark_survives_every_clear() {
        let r = Readiness::new(Start::Ready);
        let before = r.load();
        r.shut_down();
        r.clear(before);
        r.clear(r.load());
        r.clear_ready(r.load());
        r.set(READY);
        r.clear(r.load());
        assert!(r.load().is_shut_down() && r.load().is_ready());
    }

    #[test]
    fn a_short_read_forgets_neither_the_end_nor_urgent_data() {
        let r = cleared();
        r.set(READY | CLOSED);
        r.clear_ready(r.load());
        assert!(r.load().is_ready());
        r.clear(r.load());
        assert!(!r.load().is_ready());

        let r = cleared();
        r.set(READY | URGENT);
        r.clear_ready(r.load());
        assert!(r.load().is_ready());
        r.clear(r.load());
        assert!(!r.load().is_ready());
    }
}
