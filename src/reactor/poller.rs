//! The half of the reactor that all threads share: the registered sources, and the way to end a park.
//!
//! ```text
//!           1 register            2 enter
//!   vacant -----------> occupied ---------> watched by the poller
//!     ^                    |                          |
//!     +------ 3 retire ----+--------- 3 retire -------+
//! ```
//!
//! A park is ended with at most one system call.
//!
//! ```text
//!                 6 fall_asleep              8 unpark, and one write to mio's waker
//!        AWAKE ------------------> PARKED ------------------------------------------> NOTIFIED
//!        ^ ^ |                       |                                                 ^  |
//!        | | +------- 9 unpark, no system call ----------------------------------------+  |
//!        | +---------- 7 wake_up ----+                                                    |
//!        +---------------------------- 7 wake_up -----------------------------------------+
//! ```
//!
//! Ground rules:
//!
//! * A source's token in the poller is the key of its slot and a generation: how many sources had left when it came. A key is free
//!   again at once. What is meant for its last owner has another generation, and finds nobody: an event that the batch under way
//!   still holds (mio #219), and any event of a descriptor that the program has replaced while the poller watched it, because the
//!   poller goes on watching the old one.
//! * The lock is held for bookkeeping only: no waker is woken, cloned or dropped under it. The lock of a
//!   direction may be taken inside it, never the other way round.
//! * Once closed, always closed: nothing is registered any more, and all sources that were registered are marked.
//! * The descriptors belong to the reactor and are closed with it, however long an [`Io`] lives on in wakers, handles and
//!   sockets. A thread that uses them at that moment holds a reference, so that it uses no number that belongs to another
//!   descriptor by then.
//! * The descriptors also belong to the process that made them. A child by `fork` has the same poller, and whatever it did
//!   with the poller would affect the parent: even a look, because each event is reported once. So the process is checked
//!   when a `block_on` begins, at each park, when a source comes or goes, and when the runtime is dropped; a child lets go of
//!   its copies then.
//! * Only the reactor's thread performs 6 and 7. Any thread performs 8 and 9.
//! * A thread that has something for the reactor's thread always publishes it first and then calls [`unpark`](Io::unpark).
//!   Then no news is missed: if the call comes before 6, then 6 fails and there is no sleep; if the call comes after, the
//!   sleep is ended.
//! * A notification stays until the reactor's thread has seen it, so a second one costs no system call.
//! * [`Wakefulness`] touches no poller, so that it can be modelled. [`Io`] does the write of arrow 8.

use super::source::{Occurrence, Source, Start};
use crate::fork::Process;
use crate::sync::{AtomicU8, Mutex, Ordering, lock};
use mainspring_driver::Unpark;
use mio::{Registry, Token};
use slab::Slab;
use std::io;
use std::sync::Arc;
use std::task::Waker;

/// The token of mio's waker.
pub(super) const WAKER: Token = Token(usize::MAX);

/// The bits of a token that are a key. (On 32 bits there are 4,096 generations.)
const KEY_BITS: u32 = if usize::BITS == 32 { 20 } else { 32 };
/// Keys are below this. So none makes one of the two tokens that are no source's.
const KEYS: usize = (1 << KEY_BITS) - 2;

/// The key of the slot in which the source with this token is.
fn key_of(token: usize) -> usize {
    token & ((1 << KEY_BITS) - 1)
}

/// The number of sources for which memory is kept although none is registered.
const KEEP: usize = 1024;

/// Registers sources and ends parks, from any thread.
#[derive(Debug)]
pub(crate) struct Io {
    pub(super) wakefulness: Wakefulness,
    sources: Mutex<Sources>,
    /// The process that made it.
    process: Process,
    /// How often mio's waker was written to.
    #[cfg(test)]
    writes: std::sync::atomic::AtomicUsize,
}

/// The descriptors by which any thread reaches the poller.
#[derive(Debug)]
pub(crate) struct Poller {
    registry: Registry,
    waker: mio::Waker,
}

#[derive(Debug)]
struct Sources {
    /// `None`: closed.
    poller: Option<Arc<Poller>>,
    /// The sources with their tokens.
    slots: Slab<(usize, Arc<Source>)>,
    /// How many sources have left.
    left: usize,
}

impl Io {
    pub(super) fn new(registry: Registry) -> io::Result<Io> {
        let waker = mio::Waker::new(&registry, WAKER)?;
        let poller = Some(Arc::new(Poller { registry, waker }));
        Ok(Io {
            wakefulness: Wakefulness::new(),
            sources: Mutex::new(Sources { poller, slots: Slab::new(), left: 0 }),
            process: Process::watched()?,
            #[cfg(test)]
            writes: Default::default(),
        })
    }

    /// Makes the poller's descriptor readable, and so ends a sleep on it. In a child by `fork` it does nothing: it would end the
    /// parent's sleep.
    #[cold]
    pub(crate) fn end_sleep(&self) {
        self.forsake_in_child();
        if let Some(poller) = self.poller() {
            #[cfg(test)]
            self.writes.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            poller.waker.wake().expect("the poller's waker must be writable while somebody holds it");
        }
    }

    /// The descriptors, unless the reactor is gone.
    pub(crate) fn poller(&self) -> Option<Arc<Poller>> {
        lock(&self.sources).poller.clone()
    }

    /// Ends the thread's sleep in another event loop, if it sleeps there. While it does not, this costs a load.
    #[inline]
    pub(crate) fn end_lent_sleep(&self) {
        if self.wakefulness.is_parked() {
            self.unpark();
        }
    }

    /// Lets go of the descriptors if this process is a child by `fork` of the process that made them. Returns whether that is
    /// so.
    #[inline]
    pub(crate) fn forsake_in_child(&self) -> bool {
        let is_child = Process::current() != self.process;
        if is_child {
            self.forsake();
        }
        is_child
    }

    #[cold]
    fn forsake(&self) {
        let poller = lock(&self.sources).poller.take();
        drop(poller);
    }

    /// # Panics
    ///
    /// If this process is a child by `fork` of the process that made this.
    #[track_caller]
    pub(crate) fn assert_own_process(&self) {
        assert!(
            !self.forsake_in_child(),
            "this runtime was made before a `fork`, by the parent of this process: its poller, its alarm and its sockets' \
             events belong to the parent. Make a new runtime in the child, or fork before there is a runtime"
        );
    }

    /// Gives a new source a token. The source starts out as [`ready`](Start::Ready) or not, in both directions.
    ///
    /// # Errors
    ///
    /// An error of kind `Other` once the reactor is shut down, in a child by `fork`, or if there are too many.
    pub(super) fn register(&self, start: Start) -> io::Result<(Arc<Source>, usize)> {
        self.forsake_in_child();
        let entry = Arc::new(Source::new(start));
        let mut sources = lock(&self.sources);
        if sources.poller.is_none() {
            return Err(closed());
        }
        let key = sources.slots.vacant_key();
        if key >= KEYS {
            let message =
                format!("a runtime watches at most {KEYS} descriptors: close some, or make another runtime");
            return Err(io::Error::other(message));
        }
        let token = key | sources.left << KEY_BITS;
        sources.slots.insert((token, entry.clone()));
        Ok((entry, token))
    }

    /// Calls `enter` to put a source into the poller.
    ///
    /// # Errors
    ///
    /// The errors of `enter`, and the same as for [`register`](Io::register).
    pub(super) fn enter(&self, enter: impl FnOnce(&Registry) -> io::Result<()>) -> io::Result<()> {
        self.forsake_in_child();
        enter(&self.poller().ok_or_else(closed)?.registry)
    }

    /// Calls `leave` to take a source out of the poller, if there is a poller. A child by `fork` leaves its parent's poller alone.
    pub(super) fn leave(&self, leave: impl FnOnce(&Registry) -> io::Result<()>) -> io::Result<()> {
        self.forsake_in_child();
        self.poller().map_or(Ok(()), |poller| leave(&poller.registry))
    }

    /// Returns whether there is anything to look at.
    pub(crate) fn has_sources(&self) -> bool {
        !lock(&self.sources).slots.is_empty()
    }

    /// Empties the slot of the source with this token.
    pub(super) fn retire(&self, token: usize) {
        let mut sources = lock(&self.sources);
        sources.left = sources.left.wrapping_add(1);
        let source = sources.slots.remove(key_of(token));
        drop(sources);
        // This may drop the last reference to a waker.
        drop(source);
    }

    /// Hands a batch of events to the sources and collects the wakers to be woken. Returns how many events found their
    /// source.
    pub(super) fn deliver(&self, batch: impl Iterator<Item = Occurrence>, wakers: &mut Vec<Waker>) -> usize {
        let mut delivered = 0;
        let mut sources = lock(&self.sources);
        for what in batch {
            let Some((token, source)) = sources.slots.get(key_of(what.token)) else { continue };
            if *token == what.token {
                source.occur(what, wakers);
                delivered += 1;
            }
        }
        if sources.slots.is_empty() && sources.slots.capacity() > KEEP {
            sources.slots.shrink_to_fit();
        }
        delivered
    }

    /// Refuses everything from here on, lets go of the descriptors, and collects the wakers of all tasks that wait.
    pub(super) fn close(&self, wakers: &mut Vec<Waker>) {
        let mut sources = lock(&self.sources);
        let poller = sources.poller.take();
        sources.slots.iter().for_each(|(_, (_, source))| source.shut_down(wakers));
        drop(sources);
        drop(poller);
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for Poller {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.registry.as_fd()
    }
}

impl Unpark for Io {
    /// Ends the park under way, or keeps the next one from sleeping. Makes at most one system call until the
    /// reactor's thread has seen it, and none while that thread is awake. Does nothing once the reactor is gone.
    ///
    /// # Panics
    ///
    /// If the kernel refuses to wake the poller. A runtime that sleeps through its tasks would be worse.
    fn unpark(&self) {
        if self.wakefulness.notify() {
            self.end_sleep();
        }
    }
}

/// The error that every operation returns after a shutdown.
pub(super) fn closed() -> io::Error {
    io::Error::other("the Mainspring runtime that this belongs to has shut down")
}

/// The reactor's thread runs, and will look at everything before it sleeps.
const AWAKE: u8 = 0;
/// The reactor's thread sleeps, or is about to.
const PARKED: u8 = 1;
/// Something has happened since the reactor's thread last woke up.
const NOTIFIED: u8 = 2;

/// Whether the reactor's thread sleeps, and whether it has been notified.
#[derive(Debug)]
pub(crate) struct Wakefulness(AtomicU8);

impl Wakefulness {
    pub(crate) fn new() -> Wakefulness {
        Wakefulness(AtomicU8::new(AWAKE))
    }

    /// Arrows 8 and 9. True if the caller has to end the sleep.
    pub(crate) fn notify(&self) -> bool {
        // Release: what the caller published before is seen by the acquire in `wake_up`. A swap and not a
        // store, because of several callers each must reach it: a read-modify-write continues the release
        // sequence of those before it, a store would cut it off.
        self.0.swap(NOTIFIED, Ordering::Release) == PARKED
    }

    /// Arrow 6. False: there is a notification, so do not sleep.
    pub(crate) fn fall_asleep(&self) -> bool {
        // Relaxed: nothing is published by this (an unparker reads no data of ours), and nothing is read on
        // the strength of it (a failure leads to `wake_up`, which acquires).
        self.0.compare_exchange(AWAKE, PARKED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Returns whether the thread sleeps, or is about to. Only for that thread itself, which then sleeps not in this reactor
    /// but in another event loop.
    fn is_parked(&self) -> bool {
        // Relaxed: that thread writes it, but for a notification, which is as good.
        self.0.load(Ordering::Relaxed) == PARKED
    }

    /// Arrow 7. True: there was a notification, which counts as seen from now on.
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

#[cfg(test)]
impl Io {
    /// The reactor has been shut down.
    pub(super) fn is_closed(&self) -> bool {
        lock(&self.sources).poller.is_none()
    }

    /// Keys in use.
    pub(super) fn keys(&self) -> usize {
        lock(&self.sources).slots.len()
    }

    /// How often mio's waker was written to.
    pub(super) fn writes(&self) -> usize {
        self.writes.load(std::sync::atomic::Ordering::Relaxed)
    }
}
