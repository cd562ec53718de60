//! A registered source: two directions, each with its readiness and those who wait for it.
//!
//! ```text
//!   a waiting task                              the reactor's thread
//!   1 snapshot says "not ready"
//!   2 leave a waker                             a Readiness::set
//!   3 look at the readiness again               b take all wakers
//!                                               c wake them
//! ```
//!
//! Either 2 comes before b, and the waker is woken; or b before 2, and as the cell and the lock order a before
//! 3, step 3 sees the event. That is why there is no event that nobody hears.
//!
//! A `poll_` method leaves its waker in an `AtomicWaker`, without a lock: one task at a time can wait so. The
//! async methods, of which many may wait at once, have a list under a lock, which nobody takes while it is
//! empty.
//!
//! Ground rules:
//!
//! * A waker is cloned before the lock is taken, and dropped and woken after it is released: all three may
//!   run anybody's code. It is also cloned before it is registered in the cell, which would stay dead after
//!   a clone that panicked inside.
//! * The count of waiters grows before its waiter looks at the readiness again, and the reactor reads it after
//!   it has set the readiness, each across a fence, so one of the two sees the other.
//! * An event wakes everybody who waits for its direction. So a waiter that is woken and then dropped has
//!   not swallowed a wake-up that another one needed.

use super::readiness;
use super::readiness::{READY, Readiness};
use crate::sync::{AtomicUsize, AtomicWaker, Mutex, Ordering, fence, lock};
use slab::Slab;
use std::task::Waker;

/// What the slab holds for each registered socket.
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

/// One direction of a source.
#[derive(Debug)]
pub(super) struct Direction {
    pub(super) readiness: Readiness,
    /// The latest caller of a `poll_` method: such methods keep one waker per direction.
    polled: AtomicWaker,
    /// How many places `waiting` has.
    waiters: AtomicUsize,
    /// The callers of async methods, of whom there may be many. A place whose waker has been taken still
    /// belongs to its [`Waiter`].
    waiting: Mutex<Slab<Option<Waker>>>,
}

/// What the kernel said of one source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occurrence {
    pub(super) key: usize,
    /// The bits to set for reading; 0 says nothing.
    pub(super) read: u64,
    /// The bits to set for writing; 0 says nothing.
    pub(super) write: u64,
}

impl Occurrence {
    pub(super) fn new(event: &mio::event::Event) -> Occurrence {
        let (mut read, mut write) = (0, 0);
        if event.is_readable() {
            read |= READY;
        }
        if event.is_read_closed() {
            read |= readiness::CLOSED;
        }
        if event.is_priority() {
            read |= readiness::URGENT;
        }
        if event.is_writable() {
            write |= READY;
        }
        if event.is_write_closed() {
            write |= readiness::CLOSED;
        }
        if event.is_error() {
            // Whoever asks next gets the error, whichever way he waits (tokio #2218).
            read |= READY;
            write |= READY;
        }
        Occurrence { key: event.token().0, read, write }
    }
}

impl Source {
    pub(super) fn new() -> Source {
        Source { read: Direction::new(), write: Direction::new() }
    }

    pub(super) fn direction(&self, way: Way) -> &Direction {
        match way {
            Way::Read => &self.read,
            Way::Write => &self.write,
        }
    }

    /// Takes note of an event and collects the wakers of those who wait for it.
    pub(super) fn occur(&self, what: Occurrence, wakers: &mut Vec<Waker>) {
        for (direction, bits) in [(&self.read, what.read), (&self.write, what.write)] {
            if bits != 0 {
                direction.readiness.set(bits);
                direction.take_wakers(wakers);
            }
        }
    }

    /// Marks both directions as shut down and collects everybody's waker.
    pub(super) fn shut_down(&self, wakers: &mut Vec<Waker>) {
        for direction in [&self.read, &self.write] {
            direction.readiness.shut_down();
            direction.take_wakers(wakers);
        }
    }
}

impl Direction {
    fn new() -> Direction {
        Direction {
            readiness: Readiness::new(),
            polled: AtomicWaker::new(),
            waiters: AtomicUsize::new(0),
            waiting: Mutex::new(Slab::new()),
        }
    }

    /// Leaves the waker of a `poll_` method, in the place of an earlier one.
    pub(super) fn leave_waker(&self, waker: &Waker) {
        let waker = waker.clone();
        self.polled.register(&waker);
    }

    fn take_wakers(&self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.polled.take());
        // Orders the event, which has been set, before the look at the count: see the ground rules.
        fence(Ordering::SeqCst);
        if self.waiters.load(Ordering::Relaxed) > 0 {
            wakers.extend(lock(&self.waiting).iter_mut().filter_map(|(_, place)| place.take()));
        }
    }
}

/// The place of one async method among those who wait for a direction. Dropping it gives the place back.
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

    /// Leaves the waker of the task that waits, in the place of an earlier one.
    pub(super) fn leave_waker(&mut self, waker: &Waker) {
        let direction = self.direction;
        if let Some(place) = self.place {
            let waiting = lock(&direction.waiting);
            if waiting[place].as_ref().is_some_and(|old| old.will_wake(waker)) {
                return;
            }
        }
        let new = waker.clone();
        let old = match self.place {
            Some(place) => lock(&direction.waiting)[place].replace(new),
            None => {
                self.place = Some(lock(&direction.waiting).insert(Some(new)));
                direction.waiters.fetch_add(1, Ordering::Relaxed);
                // Orders the count before the caller's second look at the readiness: see the ground rules.
                fence(Ordering::SeqCst);
                None
            }
        };
        drop(old);
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let waker = lock(&self.direction.waiting).remove(place);
            self.direction.waiters.fetch_sub(1, Ordering::Relaxed);
            drop(waker);
        }
    }
}

#[cfg(test)]
impl Direction {
    /// How many async methods have a place here.
    pub(super) fn waiters(&self) -> usize {
        lock(&self.waiting).len()
    }
}
