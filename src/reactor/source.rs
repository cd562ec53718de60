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
//! Steps 2 and b take the direction's lock. Either 2 comes before b, and the waker is woken; or b before 2, and as
//! the lock orders a before 3, step 3 sees the event. That is why there is no event that nobody hears.
//!
//! A `poll_` method keeps one waker for its direction, the latest: one task at a time can wait so. The async methods, of
//! which many may wait at once, have a place each.
//!
//! Ground rules:
//!
//! * A waker is cloned before the lock is taken, and dropped and woken after it is released: all three may run
//!   anybody's code. Whichever of them panics, the direction stays as it was before or as it is afterwards.
//! * A waker that is there already is not cloned again.
//! * An event wakes everybody who waits for its direction. So a waiter that is woken and then dropped has
//!   not swallowed a wake-up that another one needed.

use super::readiness;
use super::readiness::{READY, Readiness, Start};
use crate::sync::{Mutex, lock};
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

/// One direction of a source.
#[derive(Debug)]
pub(super) struct Direction {
    pub(super) readiness: Readiness,
    waiting: Mutex<Waiting>,
}

/// The wakers of those who wait for a direction.
#[derive(Debug)]
struct Waiting {
    /// The latest caller of a `poll_` method.
    polled: Option<Waker>,
    /// The callers of async methods. A place whose waker was taken still belongs to its [`Waiter`].
    places: Slab<Option<Waker>>,
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
            // The next operation gets the error, whichever way it waits (tokio #2218).
            read |= READY;
            write |= READY;
        }
        Occurrence { key: event.token().0, read, write }
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
    fn new(start: Start) -> Direction {
        let waiting = Waiting { polled: None, places: Slab::new() };
        Direction { readiness: Readiness::new(start), waiting: Mutex::new(waiting) }
    }

    /// Leaves the waker of a `poll_` method, in the place of an earlier one.
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
            let waker = lock(&self.direction.waiting).places.remove(place);
            drop(waker);
        }
    }
}

#[cfg(test)]
impl Direction {
    /// How many async methods have a place here.
    pub(super) fn waiters(&self) -> usize {
        lock(&self.waiting).places.len()
    }
}
