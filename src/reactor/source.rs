//! A registered source: two directions, each with what is known about it, in one atomic word, and the wakers of the tasks
//! that wait for it.
//!
//! ```text
//!   63                                   4  3        2         1       0
//!  +--------------------------------------+--------+----------+--------+-------+
//!  | tick: one per event of the direction | URGENT | SHUTDOWN | CLOSED | READY |
//!  +--------------------------------------+--------+----------+--------+-------+
//!
//!               1 set(READY | CLOSED)                     3 shut_down
//!   not ready ------------------------>  ready  ---------------------------> shut down
//!             <------------------------                                      (for good)
//!               2 clear, clear_ready: only if the tick has not moved
//!
//!   a waiting task                              the reactor's thread
//!   4 snapshot says "not ready"
//!   5 leave a waker                             a Readiness::set
//!   6 look at the readiness again               b take all wakers
//!                                               c wake them
//! ```
//!
//! Steps 5 and b take the direction's lock. Either 5 comes before b, and the waker is woken; or b before 5, and as the lock
//! orders a before 6, step 6 sees the event. So no event is missed.
//!
//! A `poll_` method keeps one waker for its direction, the latest: one task at a time can wait this way. Many async methods
//! may wait at once; each has a place of its own.
//!
//! Ground rules:
//!
//! * A socket's directions start out `READY`: the first operation is tried, not waited for. The directions of any other
//!   descriptor do not, because a program may have nothing to try; the poller reports what is ready when the descriptor is
//!   registered.
//! * An operation takes a snapshot *before* it asks the kernel, and clears with that snapshot. An event that came in between
//!   has moved the tick, so it is not erased along with the old ones.
//! * The tick is compared at its full width, and each direction has its own: neither a wrap nor the
//!   traffic of the other direction can be mistaken for "nothing new" or keep a clear from working
//!   (tokio #6133, #8331, #8054).
//! * `SHUTDOWN` and `URGENT` are never cleared.
//! * A waker is cloned before the lock is taken, and dropped and woken after it is released: all three may run foreign code.
//!   If any of them panics, the direction stays as it was before or as it is afterwards.
//! * A waker that is there already is not cloned again.
//! * An event wakes all waiters of its direction. So a waiter that is woken and then dropped has not swallowed a wake-up that
//!   another waiter needed.

use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use slab::Slab;
use std::task::Waker;

/// What the slab holds for each registered socket or descriptor.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) read: Direction,
    pub(super) write: Direction,
}

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Towards us: read, receive, accept.
    Read,
    /// Away from us: write, send, connect.
    Write,
}

/// What is assumed about a source that has just been registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Its first operation is tried.
    Ready,
    /// Its first operation waits until the poller has reported that it is ready.
    #[cfg_attr(not(any(unix, test)), allow(dead_code))]
    Told,
}

/// The number of waiters for which a direction keeps memory although none waits.
const KEEP: usize = 16;

/// One direction of a source.
#[derive(Debug)]
pub(super) struct Direction {
    pub(super) readiness: Readiness,
    waiting: Mutex<Waiting>,
}

/// The wakers of the tasks that wait for a direction.
#[derive(Debug)]
struct Waiting {
    /// The latest caller of a `poll_` method.
    polled: Option<Waker>,
    /// The callers of async methods. A place whose waker was taken still belongs to its [`Waiter`].
    places: Slab<Option<Waker>>,
}

/// What the kernel reported about one source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occurrence {
    pub(super) token: usize,
    /// The bits to set for reading; 0: no news.
    pub(super) read: u64,
    /// The bits to set for writing; 0: no news.
    pub(super) write: u64,
}

impl Occurrence {
    pub(super) fn new(event: &mio::event::Event) -> Occurrence {
        let (mut read, mut write) = (0, 0);
        if event.is_readable() {
            read |= READY;
        }
        if event.is_read_closed() {
            read |= CLOSED;
        }
        if event.is_priority() {
            read |= URGENT;
        }
        if event.is_writable() {
            write |= READY;
        }
        if event.is_write_closed() {
            write |= CLOSED;
        }
        if event.is_error() {
            // The next operation gets the error, whichever way it waits (tokio #2218).
            read |= READY;
            write |= READY;
        }
        Occurrence { token: event.token().0, read, write }
    }
}

impl Source {
    pub(super) fn new(start: Start) -> Source {
        Source { read: Direction::new(start), write: Direction::new(start) }
    }

    pub(super) fn direction(&self, way: Way) -> &Direction {
        match way {
            Way::Read => &self.read,
            Way::Write => &self.write,
        }
    }

    /// Records an event and collects the wakers of the tasks that wait for it.
    pub(super) fn occur(&self, what: Occurrence, wakers: &mut Vec<Waker>) {
        for (direction, bits) in [(&self.read, what.read), (&self.write, what.write)] {
            if bits != 0 {
                direction.readiness.set(bits);
                direction.take_wakers(wakers);
            }
        }
    }

    /// Marks both directions as shut down and collects all wakers.
    pub(super) fn shut_down(&self, wakers: &mut Vec<Waker>) {
        for direction in [&self.read, &self.write] {
            direction.readiness.shut_down();
            direction.take_wakers(wakers);
        }
    }
}

impl Direction {
    fn new(start: Start) -> Direction {
        let waiting = Waiting { polled: None, places: Slab::new() };
        Direction { readiness: Readiness::new(start), waiting: Mutex::new(waiting) }
    }

    /// Leaves the waker of a `poll_` method. It replaces an earlier waker.
    pub(super) fn leave_waker(&self, waker: &Waker) {
        self.leave(waker, |waiting| &mut waiting.polled);
    }

    /// Leaves a waker in one of the places that the lock protects.
    fn leave(&self, waker: &Waker, place: impl Fn(&mut Waiting) -> &mut Option<Waker>) {
        if place(&mut lock(&self.waiting)).as_ref().is_some_and(|old| old.will_wake(waker)) {
            return;
        }
        let new = waker.clone();
        let old = place(&mut lock(&self.waiting)).replace(new);
        drop(old);
    }

    fn take_wakers(&self, wakers: &mut Vec<Waker>) {
        let mut waiting = lock(&self.waiting);
        wakers.extend(waiting.polled.take());
        wakers.extend(waiting.places.iter_mut().filter_map(|(_, place)| place.take()));
    }
}

/// The place of one async method among the waiters of a direction. Dropping it gives the place back.
#[derive(Debug)]
pub(super) struct Waiter<'a> {
    direction: &'a Direction,
    place: Option<usize>,
}

impl<'a> Waiter<'a> {
    /// Takes no place until it has to wait.
    pub(super) fn new(direction: &'a Direction) -> Waiter<'a> {
        Waiter { direction, place: None }
    }

    /// Leaves the waker of the waiting task. It replaces an earlier waker.
    pub(super) fn leave_waker(&mut self, waker: &Waker) {
        match self.place {
            Some(place) => self.direction.leave(waker, |waiting| &mut waiting.places[place]),
            None => {
                let new = waker.clone();
                self.place = Some(lock(&self.direction.waiting).places.insert(Some(new)));
            }
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let mut waiting = lock(&self.direction.waiting);
            let places = &mut waiting.places;
            let waker = places.remove(place);
            if places.is_empty() {
                // Otherwise each event would look at as many places as were ever in use at once.
                places.clear();
                if places.capacity() > KEEP {
                    places.shrink_to_fit();
                }
            }
            drop(waiting);
            drop(waker);
        }
    }
}

/// An operation may be tried.
pub(super) const READY: u64 = 1 << 0;
/// The peer, or an error, has ended this direction: operations no longer block. The bit stays set until one does.
pub(super) const CLOSED: u64 = 1 << 1;
/// The reactor is gone. Every operation fails, for good.
const SHUTDOWN: u64 = 1 << 2;
/// Urgent data was announced, or may have been taken. A read stops short at the mark of that data although there is more behind
/// it, so from here on a short read no longer says that the socket is empty.
pub(super) const URGENT: u64 = 1 << 3;

const TICK: u64 = 1 << 4;

/// What is known about a direction.
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

    /// The operation begun at `seen` would block: nothing is ready, and a direction that looked closed is not closed.
    pub(super) fn clear(&self, seen: Seen) {
        self.clear_bits(seen, READY | CLOSED);
    }

    /// The operation begun at `seen` took all there was: the next operation waits for news. A closed direction stays closed,
    /// because the end of a stream is announced only once. After urgent data nothing is cleared.
    pub(super) fn clear_ready(&self, seen: Seen) {
        if self.load().0 & URGENT == 0 {
            self.clear_bits(seen, READY);
        }
    }

    /// Urgent data may be taken before it is announced. The tick need not move: no clear can erase this bit.
    #[cfg(feature = "net")]
    pub(super) fn expect_urgent(&self) {
        // Relaxed: it says of no other memory anything.
        self.0.fetch_or(URGENT, Ordering::Relaxed);
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

#[cfg(test)]
impl Direction {
    /// How many async methods have a place here.
    pub(super) fn waiters(&self) -> usize {
        lock(&self.waiting).places.len()
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

    #[test]
    fn the_places_of_a_burst_of_waiters_are_given_back_and_a_few_are_kept() {
        let direction = Direction::new(Start::Told);
        for (burst, kept) in [(KEEP, true), (1_000 * KEEP, false), (1, true)] {
            let waiters: Vec<_> = (0..burst)
                .map(|_| {
                    let mut waiter = Waiter::new(&direction);
                    waiter.leave_waker(Waker::noop());
                    waiter
                })
                .collect();
            assert_eq!(direction.waiters(), burst);
            drop(waiters);
            let waiting = lock(&direction.waiting);
            // An event looks at all places from the first one on.
            assert_eq!(waiting.places.vacant_key(), 0, "after {burst} waiters");
            assert_eq!(waiting.places.capacity() > 0, kept, "after {burst} waiters");
        }
    }

    /// tokio #6133 and #8331: a tick that is compared in fewer bits than it has mistakes 2^bits events for none.
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
