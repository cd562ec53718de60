//! A subscriber of `tracing` is foreign code: if it panics, no wake-up and no event is lost.
#![cfg(feature = "tracing")]

mod probe;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use mainspring_driver::Nanos;
use probe::{Fixture, Probe};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::with_default;
use tracing::{Event, Metadata, Subscriber};

const MS: u64 = 1_000_000;

/// A payload whose drop panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the payload's drop");
    }
}

/// The word of an event.
#[derive(Default)]
struct Word(String);

impl Visit for Word {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// Counts the events of one word, and panics at each.
struct Thrower(&'static str, Arc<AtomicUsize>);

impl Subscriber for Thrower {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "mainspring::timer"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut word = Word::default();
        event.record(&mut word);
        if word.0 == self.0 {
            self.1.fetch_add(1, SeqCst);
            std::panic::panic_any(Bomb);
        }
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_subscriber_that_panics_loses_no_wake_up_and_no_event() {
    for (word, events) in [("fired", 70), ("shut down", 1)] {
        let told = Arc::new(AtomicUsize::new(0));
        with_default(Thrower(word, told.clone()), || {
            let mut f = Fixture::new();
            let probes: Vec<_> = (0..70).map(|_| Probe::new(&f.handle)).collect();
            let _timers: Vec<_> = probes.iter().map(|probe| f.armed(MS, &probe.waker())).collect();
            // One of the wakers panics as well, before the subscriber does.
            let woken = Arc::new(Mutex::new(vec![]));
            for (waker, probe) in probes.iter().enumerate() {
                let woken = woken.clone();
                probe.on_wake(move || {
                    woken.lock().expect("nobody panics under it").push(waker);
                    assert!(waker != 3, "waker 3");
                });
            }
            f.clock.set(Nanos::new(MS));
            let panic = catch_unwind(AssertUnwindSafe(|| match word {
                "fired" => drop(f.driver.process(Nanos::new(MS), usize::MAX)),
                _ => f.driver.shutdown(),
            }));
            let panic = panic.expect_err("it panicked");
            assert_eq!(panic.downcast_ref(), Some(&"waker 3"), "the first panic is resumed");
            assert_eq!(woken.lock().expect("nobody panicked under it").len(), 70);
            assert_eq!((told.load(SeqCst), f.live()), (events, 0));
        });
    }
}

/// Two panics of drops at once would end the process.
#[test]
fn a_subscriber_that_panics_at_each_cancel_ends_no_process() {
    let told = Arc::new(AtomicUsize::new(0));
    with_default(Thrower("cancelled", told.clone()), || {
        let f = Fixture::new();
        let probe = Probe::new(&f.handle);
        let timers = [1, 2, 3].map(|_| f.armed(MS, &probe.waker()));
        let panic = catch_unwind(AssertUnwindSafe(|| drop(timers))).expect_err("the first panic is resumed");
        std::mem::forget(panic);
        let timer = f.armed(MS, &probe.waker());
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _dropped_by_the_panic = timer;
            panic!("the owner");
        }));
        let panic = panic.expect_err("it panicked");
        assert_eq!(panic.downcast_ref(), Some(&"the owner"));
        assert_eq!((told.load(SeqCst), f.live()), (4, 0));
    });
}
