//! Models of the entry protocol: every interleaving of a few operations on two or three threads.
//!
//! Run with `bash ci/loom.sh`, which can also show that each of these models is able to fail.
//!
//! The clock is a test clock, which loom does not watch: time is set before the threads start. Loom watches the
//! lock, the state word, and the two cells of an entry: one with its waker, one with its place and tolerance.
//! An entry that is dropped counts as written, so a driver that still reads it is found.
#![cfg(loom)]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc as StdArc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use mainspring_driver::{Driver, Handle, Nanos, Shutdown, TestClock, TimerEntry};

/// Counts wakes. The count is no part of the model.
struct Count(AtomicUsize);

impl Count {
    fn new() -> (StdArc<Count>, Waker) {
        let count = StdArc::new(Count(AtomicUsize::new(0)));
        (count.clone(), Waker::from(count))
    }
    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Count {
    fn wake(self: StdArc<Count>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll(entry: &mut Pin<Box<TimerEntry>>, waker: &Waker) -> Poll<Result<(), Shutdown>> {
    entry.as_mut().poll(&mut Context::from_waker(waker))
}

/// A driver whose clock is at zero, and an entry due at `deadline` that is registered with `waker`.
fn armed(deadline: u64, waker: &Waker) -> (TestClock, Driver, Pin<Box<TimerEntry>>) {
    let clock = TestClock::new(Nanos::ZERO);
    let driver = Driver::new(clock.clock(), || ());
    let mut entry = Box::pin(driver.handle().sleep_until(Nanos::new(deadline)));
    assert!(poll(&mut entry, waker).is_pending());
    (clock, driver, entry)
}

const NEAR: u64 = 1 << 39;
const FAR: u64 = 1 << 40;
const LATER: u64 = 1 << 41;

fn fire_all(driver: &mut Driver, now: u64) -> usize {
    driver.process(Nanos::new(now), 100).fired
}

/// Asserts that an entry that was reset to [`LATER`] fires then and not before, and fires it.
fn assert_fires_later(
    clock: &TestClock,
    driver: &mut Driver,
    entry: &mut Pin<Box<TimerEntry>>,
    waker: &Waker,
) {
    assert!(poll(entry, waker).is_pending(), "early");
    clock.set(Nanos::new(LATER));
    assert_eq!(fire_all(driver, LATER), 1, "lost");
    assert!(poll(entry, waker).is_ready());
    driver.handle().check();
}

#[test]
fn loom_fire_against_poll_with_another_waker() {
    loom::model(|| {
        let (old, old_waker) = Count::new();
        let (new, new_waker) = Count::new();
        let (_clock, mut driver, mut entry) = armed(FAR, &old_waker);
        let poller = thread::spawn(move || (poll(&mut entry, &new_waker), entry));
        assert_eq!(fire_all(&mut driver, FAR), 1);
        let (polled, _entry) = poller.join().unwrap();
        // Either the poll saw that the entry fired, or the waker that the poll left was woken; never neither,
        // and never the old waker after it was replaced.
        match polled {
            Poll::Ready(result) => assert_eq!((result, new.get()), (Ok(()), 0)),
            Poll::Pending => assert_eq!((old.get(), new.get()), (0, 1)),
        }
    });
}

#[test]
fn loom_fire_publishes_what_came_before_it() {
    loom::model(|| {
        let (_count, waker) = Count::new();
        let (_clock, mut driver, mut entry) = armed(FAR, &waker);
        let data = Arc::new(UnsafeCell::new(0));
        let theirs = data.clone();
        let poller = thread::spawn(move || {
            if poll(&mut entry, &waker).is_ready() {
                // Loom objects if this read is not ordered after the write.
                theirs.with(|data| assert_eq!(unsafe { *data }, 7));
            }
        });
        data.with_mut(|data| unsafe { *data = 7 });
        fire_all(&mut driver, FAR);
        poller.join().unwrap();
    });
}

#[test]
fn loom_fire_against_drop() {
    loom::model(|| {
        let (count, waker) = Count::new();
        let (_clock, mut driver, entry) = armed(FAR, &waker);
        drop(waker);
        let dropper = thread::spawn(move || drop(entry));
        let fired = fire_all(&mut driver, FAR);
        dropper.join().unwrap();
        assert_eq!(count.get(), fired, "woken exactly if it fired");
        assert_eq!(StdArc::strong_count(&count), 1, "a waker was leaked or dropped twice");
        assert_eq!(driver.handle().stats().live, 0);
    });
}

#[test]
fn loom_fire_against_drop_after_ready() {
    loom::model(|| {
        let (count, waker) = Count::new();
        let (_clock, mut driver, mut entry) = armed(FAR, &waker);
        let owner = thread::spawn(move || {
            // Polled Ready and freed while the driver may still be using it.
            let ready = poll(&mut entry, &waker).is_ready();
            drop(entry);
            ready
        });
        let fired = fire_all(&mut driver, FAR);
        let ready = owner.join().unwrap();
        assert!(fired == 1 || !ready);
        assert_eq!(StdArc::strong_count(&count), 1, "a waker was leaked or dropped twice");
    });
}

#[test]
fn loom_fire_against_reset_to_later() {
    loom::model(|| {
        let (count, waker) = Count::new();
        let (clock, mut driver, mut entry) = armed(FAR, &waker);
        let resetter = thread::spawn(move || {
            entry.as_mut().reset(Nanos::new(LATER));
            entry
        });
        let fired = fire_all(&mut driver, FAR);
        let mut entry = resetter.join().unwrap();
        // The entry fired first and was then started anew, or it was moved first: never lost, never early.
        assert_eq!(count.get(), fired);
        assert_fires_later(&clock, &mut driver, &mut entry, &waker);
    });
}

#[test]
fn loom_fire_abroad_against_reset_to_later_at_home() {
    loom::model(|| {
        let (count, waker) = Count::new();
        let clock = TestClock::new(Nanos::ZERO);
        let driver = Driver::new(clock.clock(), || ()).stays_here();
        let mut entry = Box::pin(driver.handle().sleep_until(Nanos::new(FAR)));
        assert!(poll(&mut entry, &waker).is_pending());
        // From here on the lock is this thread's own, until the other thread comes.
        let abroad = thread::spawn(move || {
            let mut driver = driver;
            (fire_all(&mut driver, FAR), driver)
        });
        entry.as_mut().reset(Nanos::new(LATER));
        let (fired, mut driver) = abroad.join().unwrap();
        assert_eq!(count.get(), fired);
        assert_fires_later(&clock, &mut driver, &mut entry, &waker);
    });
}

/// A driver that stays on this thread, which has the driver's lock to itself from here on until another thread comes, and an
/// entry due at [`FAR`] that is registered with `waker`.
fn armed_at_home(waker: &Waker) -> (Driver, Pin<Box<TimerEntry>>) {
    let driver = Driver::new(TestClock::new(Nanos::ZERO).clock(), || ()).stays_here();
    let mut entry = Box::pin(driver.handle().sleep_until(Nanos::new(FAR)));
    assert!(poll(&mut entry, waker).is_pending());
    (driver, entry)
}

#[test]
fn loom_fire_abroad_against_drop_at_home() {
    loom::model(|| {
        let (count, waker) = Count::new();
        let (mut driver, entry) = armed_at_home(&waker);
        let abroad = thread::spawn(move || (fire_all(&mut driver, FAR), driver));
        drop(entry);
        let (fired, driver) = abroad.join().unwrap();
        let stats = driver.handle().stats();
        assert_eq!((count.get(), stats.fired, stats.live), (fired, fired as u64, 0));
        assert_eq!(stats.cancelled, 1 - stats.fired);
    });
}

#[test]
fn loom_fire_abroad_against_arming_at_home() {
    loom::model(|| {
        let (count, waker) = Count::new();
        let (mut driver, _first) = armed_at_home(&waker);
        let mut second = Box::pin(driver.handle().sleep_until(Nanos::new(LATER)));
        let abroad = thread::spawn(move || (fire_all(&mut driver, FAR), driver));
        assert!(poll(&mut second, &waker).is_pending());
        let (fired, mut driver) = abroad.join().unwrap();
        assert_eq!((fired, driver.handle().stats().live), (1, 1));
        assert_eq!(fire_all(&mut driver, LATER), 1, "lost");
        assert_eq!(count.get(), 2);
    });
}

#[test]
fn loom_shutdown_abroad_against_arming_at_home() {
    loom::model(|| {
        let (count, waker) = Count::new();
        let (mut driver, first) = armed_at_home(&waker);
        let mut second = Box::pin(driver.handle().sleep_until(Nanos::new(LATER)));
        let abroad = thread::spawn(move || driver.shutdown());
        // When this is done, the lock is this thread's own again, if the other thread has been there.
        drop(first);
        let armed = poll(&mut second, &waker).is_pending();
        abroad.join().unwrap();
        assert!(matches!(poll(&mut second, &waker), Poll::Ready(Err(_))), "it was armed after the shutdown");
        assert!(count.get() >= usize::from(armed));
    });
}

#[test]
fn loom_fire_against_a_look_at_the_deadline() {
    loom::model(|| {
        let (_count, waker) = Count::new();
        let (_clock, mut driver, mut entry) = armed(NEAR, &waker);
        let owner = thread::spawn(move || {
            // The reset is silent if the entry is linked, and may come after the driver last asked for the deadline: then only
            // the state knows it.
            entry.as_mut().reset(Nanos::new(FAR));
            (entry.deadline(), entry)
        });
        assert_eq!(fire_all(&mut driver, FAR), 1);
        let (seen, entry) = owner.join().unwrap();
        assert_eq!((seen, entry.deadline()), (Nanos::new(FAR), Nanos::new(FAR)), "an older deadline");
    });
}

#[test]
fn loom_fire_against_reset_to_earlier() {
    loom::model(|| {
        let (count, waker) = Count::new();
        let (clock, mut driver, mut entry) = armed(LATER, &waker);
        let resetter = thread::spawn(move || {
            entry.as_mut().reset(Nanos::new(FAR));
            entry
        });
        let fired = fire_all(&mut driver, FAR);
        let mut entry = resetter.join().unwrap();
        clock.set(Nanos::new(FAR));
        // Whatever the order was, at its new deadline the entry is ready or its waker was woken.
        assert!(poll(&mut entry, &waker).is_ready(), "lost");
        assert!(count.get() >= fired && count.get() <= 1);
        assert_eq!(driver.handle().stats().live, 0);
    });
}

#[test]
fn loom_fire_against_reset_to_earlier_while_due() {
    loom::model(|| {
        let (count, waker) = Count::new();
        let (_clock, mut driver, mut entry) = armed(FAR, &waker);
        let resetter = thread::spawn(move || {
            entry.as_mut().reset(Nanos::new(NEAR));
            entry
        });
        // Either deadline is due in this drain: the old cell fires, or the new one, or the reset finds that its time is past.
        let _ = fire_all(&mut driver, FAR);
        let mut entry = resetter.join().unwrap();
        assert_eq!(count.get(), 1, "lost, or woken twice");
        assert!(poll(&mut entry, &waker).is_ready());
        assert_eq!(driver.handle().stats().live, 0);
        driver.handle().check();
    });
}

#[test]
fn loom_arming_earlier_against_park() {
    loom::model(|| {
        let (unparked, unpark) = Count::new();
        let clock = TestClock::new(Nanos::ZERO);
        let mut driver = Driver::new(clock.clock(), move || unpark.wake_by_ref());
        let handle: Handle = driver.handle().clone();
        let armer = thread::spawn(move || {
            let mut entry = Box::pin(handle.sleep_until(Nanos::new(FAR)));
            assert!(poll(&mut entry, Waker::noop()).is_pending());
            entry
        });
        let wake = driver.next_wake();
        let _entry = armer.join().unwrap();
        match wake {
            None => assert_eq!(unparked.get(), 1, "the park would outlast the timer"),
            Some(wake) => assert!(wake >= Nanos::new(FAR) && unparked.get() == 0),
        }
    });
}

#[test]
fn loom_two_threads_that_arm_earlier_against_park() {
    loom::model(|| {
        // The threads that have called `unpark`.
        let callers = StdArc::new(Mutex::new(vec![]));
        let called = callers.clone();
        let clock = TestClock::new(Nanos::ZERO);
        let mut driver = Driver::new(clock.clock(), move || {
            called.lock().unwrap().push(thread::current().id());
        });
        assert_eq!(driver.next_wake(), None);
        let arm = |deadline| {
            let handle: Handle = driver.handle().clone();
            thread::spawn(move || {
                let mut entry = Box::pin(handle.sleep_until(Nanos::new(deadline)));
                assert!(poll(&mut entry, Waker::noop()).is_pending());
                (entry, thread::current().id())
            })
        };
        let (late, early) = (arm(FAR), arm(NEAR));
        let (_late, first) = late.join().unwrap();
        let (_early, second) = early.join().unwrap();
        let callers = callers.lock().unwrap();
        // The other thread may have been stopped just before its own call, for any length of time.
        assert!(callers.contains(&second), "it relies on the other one's call");
        assert!(callers.iter().filter(|caller| **caller == first).count() <= 1);
    });
}

#[test]
fn loom_shutdown_against_poll() {
    loom::model(|| {
        let (count, waker) = Count::new();
        let clock = TestClock::new(Nanos::ZERO);
        let mut driver = Driver::new(clock.clock(), || ());
        let mut entry = Box::pin(driver.handle().sleep_until(Nanos::new(FAR)));
        let poller = thread::spawn(move || {
            let first = poll(&mut entry, &waker);
            (first, entry, waker)
        });
        driver.shutdown();
        let (first, mut entry, waker) = poller.join().unwrap();
        match first {
            Poll::Ready(result) => assert!(result.is_err() && count.get() == 0),
            Poll::Pending => assert_eq!(count.get(), 1, "nobody told it"),
        }
        assert!(matches!(poll(&mut entry, &waker), Poll::Ready(Err(_))));
    });
}

#[test]
fn loom_shutdown_against_drop_and_reset() {
    loom::model(|| {
        let (count, waker) = Count::new();
        let (_clock, mut driver, mut entry) = armed(FAR, &waker);
        drop(waker);
        let owner = thread::spawn(move || {
            entry.as_mut().reset(Nanos::new(LATER));
            drop(entry);
        });
        driver.shutdown();
        owner.join().unwrap();
        assert!(count.get() <= 1);
        assert_eq!(StdArc::strong_count(&count), 1, "a waker was leaked or dropped twice");
    });
}

#[test]
fn loom_two_owners_against_fire() {
    loom::model(|| {
        let (count, waker) = Count::new();
        let (_clock, mut driver, entry) = armed(FAR, &waker);
        let mut other = Box::pin(driver.handle().sleep_until(Nanos::new(FAR)));
        assert!(poll(&mut other, &waker).is_pending());
        drop(waker);
        // The removal of one entry moves the other within its slot.
        let dropper = thread::spawn(move || drop(entry));
        let fired = fire_all(&mut driver, FAR);
        dropper.join().unwrap();
        assert!((1..=2).contains(&fired) && count.get() == fired);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(other).as_mut().poll(&mut cx).is_ready());
    });
}
