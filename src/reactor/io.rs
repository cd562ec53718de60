//! The half of the reactor that everybody shares: the registered sources and the way to end a park.
//!
//! A source's key in the slab is its token in the poller.
//!
//! ```text
//!           1 register            3 retire                       4 deliver (at its end)
//!   vacant -----------> occupied ----------> retired: empty, but ----------------------> vacant
//!      ^                   |                 its key is not yet
//!      +------ 2 the poller refuses          anybody else's
//! ```
//!
//! Ground rules:
//!
//! * A key is retired after its source was taken out of the poller, and freed only by `deliver`, once the
//!   batch that may still name it has been handed out. So a newcomer never gets an event that was meant
//!   for the key's last owner (mio #219).
//! * The lock is held for bookkeeping only: no waker is woken, cloned or dropped under it. The lock of a
//!   direction may be taken inside it, never the other way round.
//! * Once closed, always closed: nothing is registered any more, and all there was is marked.

use super::clock_set::ClockSet;
use super::registration::Registration;
use super::source::{Occurrence, Source};
use super::unpark::Unparker;
use crate::sync::{Mutex, lock};
use mio::{Interest, Registry, Token, event};
use slab::Slab;
use std::io;
use std::sync::Arc;
use std::task::Waker;

/// The token of mio's waker.
pub(super) const WAKER: Token = Token(usize::MAX);
/// The token of the alarm.
pub(super) const ALARM: Token = Token(usize::MAX - 1);
/// The token of the timer that tells when the clock is set.
pub(super) const CLOCK_SET: Token = Token(usize::MAX - 2);

/// Sources whose memory is kept although none is registered.
const KEEP: usize = 1024;

/// Registers sources and ends parks, from any thread.
#[derive(Debug)]
pub(crate) struct Io {
    registry: Registry,
    unparker: Unparker,
    sources: Mutex<Sources>,
    clock_set: ClockSet,
}

#[derive(Debug)]
struct Sources {
    /// `None`: the key is retired.
    slots: Slab<Option<Arc<Source>>>,
    /// Keys to be freed at the end of the next delivery.
    retired: Vec<usize>,
    closed: bool,
}

impl Io {
    pub(super) fn new(registry: Registry) -> io::Result<Io> {
        let unparker = Unparker::new(&registry, WAKER)?;
        let sources = Sources { slots: Slab::new(), retired: Vec::new(), closed: false };
        Ok(Io { registry, unparker, sources: Mutex::new(sources), clock_set: ClockSet::new() })
    }

    /// Ends the park under way, or keeps the next one from sleeping. Makes at most one system call until the
    /// reactor's thread has seen it, and none while that thread is awake.
    pub(crate) fn unpark(&self) {
        self.unparker.unpark();
    }

    /// Registers a source, edge-triggered. It starts out ready in both directions.
    ///
    /// # Errors
    ///
    /// The poller's, and an error of kind `Other` once the reactor is shut down. Nothing is left behind.
    pub(crate) fn register(
        self: &Arc<Self>,
        source: &mut impl event::Source,
        interest: Interest,
    ) -> io::Result<Registration> {
        let entry = Arc::new(Source::new());
        let key = {
            let mut sources = lock(&self.sources);
            if sources.closed {
                return Err(closed());
            }
            sources.slots.insert(Some(entry.clone()))
        };
        if let Err(error) = self.registry.register(source, Token(key), interest) {
            // The poller has never known this key, so it can be free at once (tokio #6329).
            let unused = lock(&self.sources).slots.remove(key);
            drop(unused);
            return Err(error);
        }
        Ok(Registration::new(self.clone(), entry, key))
    }

    /// Takes a source out of the poller. Its registration is to be dropped after this.
    pub(super) fn deregister(&self, source: &mut impl event::Source) -> io::Result<()> {
        self.registry.deregister(source)
    }

    /// The reactor has been shut down.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.sources).closed
    }

    /// Those who wait for the system's clock to be set.
    pub(super) fn clock_set(&self) -> &ClockSet {
        &self.clock_set
    }

    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(super) fn unparker(&self) -> &Unparker {
        &self.unparker
    }

    /// Empties a slot. The key is not reused before the next delivery is over.
    pub(super) fn retire(&self, key: usize) {
        let mut sources = lock(&self.sources);
        let source = if sources.closed {
            // No more deliveries, and nobody to reuse the key.
            sources.slots.remove(key)
        } else {
            sources.retired.push(key);
            sources.slots[key].take()
        };
        drop(sources);
        // With it may go the last of somebody's waker.
        drop(source);
    }

    /// Hands a batch of events to the sources and collects the wakers to be woken, then frees the keys that
    /// were retired. Returns how many events found their source.
    pub(super) fn deliver(&self, batch: impl Iterator<Item = Occurrence>, wakers: &mut Vec<Waker>) -> usize {
        let mut delivered = 0;
        let mut sources = lock(&self.sources);
        for what in batch {
            // No such source: it was dropped after the poller had reported it.
            if let Some(Some(source)) = sources.slots.get(what.key) {
                source.occur(what, wakers);
                delivered += 1;
            }
        }
        let Sources { slots, retired, .. } = &mut *sources;
        for key in retired.drain(..) {
            slots.remove(key);
        }
        if slots.is_empty() && slots.capacity() > KEEP {
            slots.shrink_to_fit();
            retired.shrink_to(KEEP);
        }
        delivered
    }

    /// Refuses everything from here on, and collects the wakers of all who wait.
    pub(super) fn close(&self, wakers: &mut Vec<Waker>) {
        let mut sources = lock(&self.sources);
        sources.closed = true;
        for (_, slot) in &sources.slots {
            if let Some(source) = slot {
                source.shut_down(wakers);
            }
        }
        let Sources { slots, retired, .. } = &mut *sources;
        for key in retired.drain(..) {
            slots.remove(key);
        }
    }
}

/// What every operation says after a shutdown.
pub(super) fn closed() -> io::Error {
    io::Error::other("the Mainspring runtime that this socket belongs to has shut down")
}

#[cfg(test)]
impl Io {
    /// Keys in use, retired ones included.
    pub(super) fn keys(&self) -> usize {
        lock(&self.sources).slots.len()
    }
}
