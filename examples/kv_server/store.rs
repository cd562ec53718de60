//! The server's store: keys, their values, and when they expire.
//!
//! Ground rules:
//! * One task at a time touches the store, and only between two `.await`: a `RefCell` is all the locking there is.
//! * An expired key is never visible, not even in the moment before it is removed.
//! * A time is kept twice: as a deadline, at which the key expires in this process, and as a time of day, which is also valid in
//!   the next process.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime};

use mainspring::time::{Instant, TimerMap, wall_now};

/// A key with a longer time than this does not expire: a hundred years, which every system's calendar can represent.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A key in the form that outlives the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) key: String,
    pub(crate) value: String,
    /// When the key expires; `None` is never.
    pub(crate) until: Option<SystemTime>,
}

struct Entry {
    value: String,
    until: Option<SystemTime>,
}

/// Keys and values. A key that never expires is due after `Duration::MAX`.
#[derive(Default)]
pub(crate) struct Store {
    entries: RefCell<TimerMap<String, Entry>>,
    /// How often anything has changed.
    version: Cell<u64>,
    /// Waits for the next change.
    watcher: Cell<Option<Waker>>,
}

impl Store {
    /// Returns a store with these entries, except those that have expired.
    pub(crate) fn new(saved: Vec<Saved>) -> Store {
        let store = Store::default();
        let now = wall_now();
        for Saved { key, value, until } in saved {
            // An error means that the time has passed.
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

    /// Deletes a key. Returns whether it was there.
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

    /// Lets a key expire after this time from now, or never. Returns whether it was there.
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

    /// Returns how long a key has left. The inner `None` means forever, the outer one means that there is no such key.
    pub(crate) fn left(&self, key: &str) -> Option<Option<Duration>> {
        let entries = self.entries.borrow();
        let entry = entries.get(key).filter(|_| is_live(&entries, key))?;
        let deadline = entries.deadline(key).filter(|_| entry.until.is_some());
        Some(deadline.map(|deadline| deadline - Instant::now()))
    }

    /// Removes entries when they expire, as long as it is polled.
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

    /// Waits until the version differs from this one. One task may wait at a time.
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
