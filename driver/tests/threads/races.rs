//! A timer that is polled, dropped or moved while the driver fires it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::Waker;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::probe::{READY, poll};
use crate::{HANG, MS, Random, Unparker};
use mainspring_driver::{Driver, Handle, Nanos, TestClock};

/// A driver on a thread of its own that drains when it is told to, so that races can be staged.
struct Racer {
    handle: Handle,
    /// The time to which the driver must drain, and the time to which it has drained.
    go: Arc<AtomicU64>,
    done: Arc<AtomicU64>,
    thread: JoinHandle<()>,
    random: Random,
}

impl Racer {
    fn new() -> Racer {
        let mut driver = Driver::new(TestClock::new(Nanos::ZERO).clock(), || ());
        let handle = driver.handle().clone();
        let (go, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (told, finished) = (go.clone(), done.clone());
        let thread = thread::spawn(move || {
            let mut last = 0;
            loop {
                match told.load(SeqCst) {
                    u64::MAX => break,
                    now if now == last => thread::yield_now(),
                    now => {
                        let _ = driver.process(Nanos::new(now), usize::MAX);
                        last = now;
                        finished.store(now, SeqCst);
                    }
                }
            }
        });
        Racer { handle, go, done, thread, random: Random(11) }
    }

    /// Runs `ours` while the driver drains to `now`.
    fn race<R>(&mut self, now: u64, ours: impl FnOnce() -> R) -> R {
        self.go.store(now, SeqCst);
        for _ in 0..self.random.below(400) {
            std::hint::spin_loop();
        }
        let result = ours();
        let start = Instant::now();
        while self.done.load(SeqCst) != now {
            assert!(start.elapsed() < HANG, "the driver hangs");
            thread::yield_now();
        }
        self.handle.check();
        result
    }

    fn drain(&mut self, now: u64) {
        self.race(now, || ());
    }

    fn stop(self) {
        self.go.store(u64::MAX, SeqCst);
        self.thread.join().expect("the driver's thread failed");
        let stats = self.handle.stats();
        assert_eq!((stats.live, stats.armed), (0, stats.fired + stats.cancelled));
    }
}

/// The rounds are ten milliseconds apart: too far for a pending poll to look at the clock.
fn rounds() -> impl Iterator<Item = u64> {
    (1..=2_000).map(|round| round * 10 * MS)
}

#[test]
fn a_task_that_replaces_its_waker_while_its_timer_fires_learns_of_it() {
    let mut racer = Racer::new();
    for now in rounds() {
        let (old, new) = (Unparker::new(), Unparker::new());
        let mut timer = Box::pin(racer.handle.sleep_until(Nanos::new(now)));
        assert!(poll(&mut timer, &Waker::from(old.clone())).is_pending());
        let waker = Waker::from(new.clone());
        let polled = racer.race(now, || poll(&mut timer, &waker));
        if polled.is_pending() {
            assert_eq!((old.wakes(), new.wakes()), (0, 1), "the last waker was not the one that was woken");
        } else {
            assert_eq!((polled, new.wakes()), (READY, 0));
        }
        assert!(timer.is_elapsed());
        drop(waker);
        assert_eq!((Arc::strong_count(&old), Arc::strong_count(&new)), (1, 1), "a waker was leaked");
    }
    racer.stop();
}

#[test]
fn a_timer_dropped_while_it_fires_is_not_used_afterwards() {
    let mut racer = Racer::new();
    for now in rounds() {
        let unparker = Unparker::new();
        let waker = Waker::from(unparker.clone());
        let arm = |_| {
            let mut timer = Box::pin(racer.handle.sleep_until(Nanos::new(now)));
            assert!(poll(&mut timer, &waker).is_pending());
            timer
        };
        let mut timers: Vec<_> = (0..8).map(arm).collect();
        drop(waker);
        let cancel = now % 3 == 0;
        racer.race(now, || match cancel {
            true => timers.iter_mut().for_each(|timer| timer.as_mut().cancel()),
            false => drop(std::mem::take(&mut timers)),
        });
        assert!(unparker.wakes() <= 8);
        assert_eq!(Arc::strong_count(&unparker), 1, "a waker was leaked");
    }
    racer.stop();
}

#[test]
fn a_timer_reset_to_later_while_it_fires_is_neither_lost_nor_early() {
    let mut racer = Racer::new();
    for now in rounds() {
        let unparker = Unparker::new();
        let waker = Waker::from(unparker.clone());
        let later = Nanos::new(now + 5 * MS);
        let mut timer = Box::pin(racer.handle.sleep_until(Nanos::new(now)));
        assert!(poll(&mut timer, &waker).is_pending());
        racer.race(now, || timer.as_mut().reset(later));
        // Whichever came first, the timer is no longer elapsed, and waits for the new deadline.
        assert!(!timer.is_elapsed());
        let fired = unparker.wakes();
        assert!(poll(&mut timer, &waker).is_pending());
        racer.drain(now + 5 * MS - 1);
        assert!(!timer.is_elapsed());
        racer.drain(now + 5 * MS);
        assert_eq!((timer.is_elapsed(), unparker.wakes()), (true, fired + 1));
    }
    racer.stop();
}

#[test]
fn a_timer_brought_forward_while_the_driver_runs_is_not_lost() {
    let mut racer = Racer::new();
    for now in rounds() {
        let unparker = Unparker::new();
        let waker = Waker::from(unparker.clone());
        let mut timer = Box::pin(racer.handle.sleep_until(Nanos::new(now + 900 * MS)));
        assert!(poll(&mut timer, &waker).is_pending());
        // Before, at and after the time to which the driver drains.
        let to = now - 1 + racer.random.below(3);
        racer.race(now, || timer.as_mut().reset(Nanos::new(to)));
        if !timer.is_elapsed() {
            racer.drain(now + 2);
        }
        assert_eq!((timer.is_elapsed(), unparker.wakes()), (true, 1));
    }
    racer.stop();
}
