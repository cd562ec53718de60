//! What the server keeps: keys, their values, and when they expire.
//!
//! Ground rules:
//! * One task at a time touches it, and only between two `.await`: a `RefCell` is all the locking there is.
//! * Nobody sees a key whose time has come, also in the moment before it is taken out.
//! * A time is kept twice: as a deadline, by which the key expires here, and as a time of day, which means the same to the
//!   next process.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime};

use mainspring::time::{Instant, TimerMap, wall_now};

/// What expires after this does not: a hundred years, which lie within every calendar of a system.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A key as it outlives the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) key: String,
    pub(crate) value: String,
    /// When it expires; `None` is never.
    pub(crate) until: Option<SystemTime>,
}

struct Entry {
    value: String,
    until: Option<SystemTime>,
}

/// Keys and values. One that never expires is due after `Duration::MAX`.
#[derive(Default)]
pub(crate) struct Store {
    entries: RefCell<TimerMap<String, Entry>>,
    /// How often anything has changed.
    version: Cell<u64>,
    /// Waits for the next change.
    watcher: Cell<Option<Waker>>,
}

impl Store {
    /// A store with these entries, but for those that have expired.
    pub(crate) fn new(saved: Vec<Saved>) -> Store {
        let store = Store::default();
        let now = wall_now();
        for Saved { key, value, until } in saved {
            // An error says that the time has passed.
            let left = until.map_or(Ok(Duration::MAX), |until| until.duration_since(now));
            if let Ok(left) = left {
                store.entries.borrow_mut().insert(key, Entry { value, until }, left);
            }
        }
        store
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    pub(crate) fn get(&self, key: &str) -> Option<String> {
        let entries = self.entries.borrow();
        entries.get(key).filter(|_| is_live(&entries, key)).map(|entry| entry.value.clone())
    }

    /// Sets a value, which does not expire.
    pub(crate) fn set(&self, key: String, value: String) {
        self.entries.borrow_mut().insert(key, Entry { value, until: None }, Duration::MAX);
        self.change();
    }

    /// Says whether the key was there.
    pub(crate) fn delete(&self, key: &str) -> bool {
        let mut entries = self.entries.borrow_mut();
        let live = is_live(&entries, key);
        let there = entries.remove(key).is_some();
        drop(entries);
        if there {
            self.change();
        }
        live
    }

    /// Has a key expire so long from now, or never. Says whether it was there.
    pub(crate) fn expire(&self, key: &str, after: Option<Duration>) -> bool {
        let mut entries = self.entries.borrow_mut();
        if !is_live(&entries, key) {
            return false;
        }
        let after = after.filter(|after| *after < FOREVER);
        entries.reset(key, after.unwrap_or(Duration::MAX));
        entries.get_mut(key).expect("it is live").until = after.map(|after| wall_now() + after);
        drop(entries);
        self.change();
        true
    }

    /// How long a key has left; the inner `None` is for ever, the outer one that it is not there.
    pub(crate) fn left(&self, key: &str) -> Option<Option<Duration>> {
        let entries = self.entries.borrow();
        let entry = entries.get(key).filter(|_| is_live(&entries, key))?;
        let deadline = entries.deadline(key).filter(|_| entry.until.is_some());
        Some(deadline.map(|deadline| deadline - Instant::now()))
    }

    /// Takes out what expires, as it does, for as long as it is polled.
    pub(crate) async fn expire_entries(&self) {
        while poll_fn(|cx| self.entries.borrow_mut().poll_expired(cx)).await.is_some() {
            self.change();
        }
    }

    /// All entries, in no particular order.
    pub(crate) fn saved(&self) -> Vec<Saved> {
        let entries = self.entries.borrow();
        let saved = |(key, entry): (&String, &Entry)| Saved {
            key: key.clone(),
            value: entry.value.clone(),
            until: entry.until,
        };
        entries.iter().map(saved).collect()
    }

    /// How often anything has changed.
    pub(crate) fn version(&self) -> u64 {
        self.version.get()
    }

    /// Waits until this is not the version any more. One task may wait at a time.
    pub(crate) async fn changed_since(&self, version: u64) {
        poll_fn(|cx| {
            if self.version.get() != version {
                return Poll::Ready(());
            }
            self.watcher.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    fn change(&self) {
        self.version.set(self.version.get() + 1);
        if let Some(watcher) = self.watcher.take() {
            watcher.wake();
        }
    }
}

/// Whether a key is there and its time has not come.
fn is_live(entries: &TimerMap<String, Entry>, key: &str) -> bool {
    entries.deadline(key).is_some_and(|deadline| deadline > Instant::now())
}
