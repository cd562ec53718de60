//! Wakers are foreign code: they cancel, reset, arm and drop timers, panic, and call back into the driver.
//! Each test is named after the promise it keeps; the probes assert in every `clone`, `wake` and `drop` of a
//! waker that the driver's lock is free.

mod probe;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::time::Duration;

use mainspring_driver::{Driver, Nanos, TestClock};
use probe::{Fixture, Probe, READY, Timer, poll};

const MS: u64 = 1_000_000;
/// The number of wakers that are woken between two acquisitions of the lock.
const BATCH: usize = 32;

/// Timers that a waker can reach.
type Shelf = Arc<Mutex<Vec<Option<Timer>>>>;

fn shelf(timers: impl IntoIterator<Item = Timer>) -> Shelf {
    Arc::new(Mutex::new(timers.into_iter().map(Some).collect()))
}

/// Takes a timer off the shelf, so that it is dropped or moved without the shelf's lock.
fn take(shelf: &Shelf, index: usize) -> Option<Timer> {
    shelf.lock().expect("nobody panicked").get_mut(index)?.take()
}

fn put(shelf: &Shelf, index: usize, timer: Timer) {
    shelf.lock().expect("nobody panicked")[index] = Some(timer);
}

#[test]
fn batches_lose_neither_their_first_nor_their_last_timer() {
    for count in [1, BATCH - 1, BATCH, BATCH + 1, 2 * BATCH, 2 * BATCH + 1] {
        let mut f = Fixture::new();
        let probes: Vec<_> = (0..count).map(|_| Probe::new(&f.handle)).collect();
        let mut timers: Vec<_> = probes.iter().map(|probe| f.armed(MS, &probe.waker())).collect();
        assert_eq!((f.advance_to(MS), f.live()), (count, 0));
        assert!(probes.iter().all(|probe| probe.wakes() == 1 && probe.wakers() == 0), "of {count}");
        assert!(timers.iter_mut().all(|timer| poll(timer, Waker::noop()) == READY));
    }
}

#[test]
fn a_waker_that_drops_all_that_are_due_with_it_has_none_of_them_woken() {
    // tokio, `drop_from_wake`. The first batch is already on its way; none of the other timers may be woken.
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    let timers = shelf((0..100).map(|_| f.armed(MS, &probe.waker())));
    let dropped = timers.clone();
    probe.on_wake(move || (0..100).for_each(|index| drop(take(&dropped, index))));
    assert_eq!((f.advance_to(MS), probe.wakes()), (BATCH, BATCH));
    assert_eq!((f.live(), probe.wakers(), f.advance_to(10 * MS)), (0, 0, 0));
}

#[test]
fn a_waker_that_cancels_or_moves_its_siblings_neither_loses_nor_repeats_them() {
    // What the first timer does to the others, in its own batch, in a later one and in the slots beyond: a
    // timer that was already collected has fired, whatever is done to it then.
    for in_batch in [true, false] {
        let mut f = Fixture::new();
        let first = Probe::new(&f.handle);
        let mut all = vec![f.armed(MS, &first.waker())];
        let fill = if in_batch { 1 } else { BATCH };
        all.extend((1..fill).map(|_| f.armed(MS, Waker::noop())));
        let siblings: Vec<_> = (0..4).map(|_| Probe::new(&f.handle)).collect();
        all.extend(siblings.iter().map(|probe| f.armed(MS, &probe.waker())));
        let timers = shelf(all);
        let others = timers.clone();
        first.on_wake(move || {
            for what in 0..4 {
                let Some(mut timer) = take(&others, fill + what) else { continue };
                match what {
                    0 => timer.as_mut().cancel(),
                    1 => timer.as_mut().reset(Nanos::new(5 * MS)),
                    2 => timer.as_mut().reset(Nanos::new(MS / 2)),
                    _ => {}
                }
                put(&others, fill + what, timer);
            }
        });
        f.advance_to(MS);
        let woken: Vec<_> = siblings.iter().map(Probe::wakes).collect();
        let collected = usize::from(in_batch);
        assert_eq!(woken, [collected, collected, 1, 1]);
        // The cancelled timer starts anew, and so does the timer that was reset.
        for (what, expected) in [(0, READY), (1, Poll::Pending), (2, READY), (3, READY)] {
            let mut timer = take(&timers, fill + what).expect("still there");
            assert_eq!(poll(&mut timer, &siblings[what].waker()), expected, "sibling {what}");
            put(&timers, fill + what, timer);
        }
        assert_eq!((f.live(), f.advance_to(5 * MS), siblings[1].wakes()), (1, 1, 1 + collected));
    }
}

#[test]
fn a_waker_that_arms_timers_without_end_does_not_keep_the_driver_busy() {
    // libuv #4245: each timer that fires arms the next one for the current time.
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    let rounds = Arc::new(AtomicUsize::new(0));
    let _timer = f.armed(MS, &probe.waker());
    let (handle, waker, counted) = (f.handle.clone(), probe.waker(), rounds.clone());
    probe.on_wake(move || {
        let mut next = Box::pin(handle.sleep_until(Nanos::new(MS)));
        // It is ready at once, so a task would go on by itself, one poll at a time.
        assert_eq!(poll(&mut next, &waker), READY);
        counted.fetch_add(1, SeqCst);
    });
    assert_eq!((f.advance_to(MS), rounds.load(SeqCst)), (1, 1));
    assert_eq!(f.live(), 0);
    probe.on_wake(|| ());
}

#[test]
fn a_timer_that_a_waker_arms_for_soon_is_not_slept_through() {
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    let timers: Shelf = Arc::default();
    let (handle, armed) = (f.handle.clone(), timers.clone());
    let _far = f.armed(100 * MS, Waker::noop());
    let _first = f.armed(MS, &probe.waker());
    probe.on_wake(move || {
        let mut timer = Box::pin(handle.sleep_until(Nanos::new(2 * MS)));
        assert!(poll(&mut timer, Waker::noop()).is_pending());
        armed.lock().expect("nobody panicked").push(Some(timer));
    });
    f.advance_to(MS);
    let wake = f.driver.next_wake().expect("timers are armed").get();
    assert!((2 * MS..2 * MS + MS / 100).contains(&wake), "would sleep until {wake}");
    assert_eq!(f.advance_to(2 * MS), 1);
    assert!(take(&timers, 0).expect("armed").is_elapsed());
}

#[test]
fn a_waker_that_panics_takes_nobody_elses_wake_up_with_it() {
    // tokio #4069.
    for kth in [0, 1, 31, 32, 39] {
        let mut f = Fixture::new();
        let probes: Vec<_> = (0..40).map(|_| Probe::new(&f.handle)).collect();
        let mut timers: Vec<_> = probes.iter().map(|probe| f.armed(MS, &probe.waker())).collect();
        probes[kth].panic_in_wake(1);
        f.clock.set(Nanos::new(MS));
        let panic = catch_unwind(AssertUnwindSafe(|| f.driver.process(Nanos::new(MS), usize::MAX)));
        let message = panic.expect_err("the panic was swallowed").downcast::<String>();
        assert_eq!(*message.expect("the waker's own message"), "wake number 1");
        assert!(probes.iter().all(|probe| probe.wakes() == 1 && probe.wakers() == 0), "after {kth}");
        assert!(timers.iter_mut().all(|timer| poll(timer, Waker::noop()) == READY));
        // The driver goes on, and nothing is reported twice.
        f.handle.check();
        let _next = f.armed(2 * MS, &probes[0].waker());
        assert_eq!((f.advance_to(2 * MS), probes[0].wakes()), (1, 2));
    }
}

#[test]
fn of_many_wakers_that_panic_the_first_panic_goes_on() {
    // Each batch has its own panics; the very first panic is the one that is reported.
    for shutdown in [false, true] {
        let mut f = Fixture::new();
        let probes: Vec<_> = (0..70).map(|_| Probe::new(&f.handle)).collect();
        let _timers: Vec<_> = probes.iter().map(|probe| f.armed(MS, &probe.waker())).collect();
        let (order, turn) = (Arc::new(Mutex::new(vec![])), Nanos::new(MS));
        for (index, probe) in probes.iter().enumerate() {
            let order = order.clone();
            probe.on_wake(move || {
                order.lock().expect("nobody panics under it").push(index);
                std::panic::panic_any(index);
            });
        }
        f.clock.set(turn);
        let panic = catch_unwind(AssertUnwindSafe(|| match shutdown {
            true => f.driver.shutdown(),
            false => drop(f.driver.process(turn, usize::MAX)),
        }));
        let order = order.lock().expect("nobody panics under it").clone();
        assert_eq!(panic.expect_err("it panicked").downcast_ref(), order.first());
        assert_eq!((order.len(), f.live()), (70, 0));
        assert!(probes.iter().all(|probe| probe.wakes() == 1 && probe.wakers() == 0));
    }
}

/// A payload whose drop panics with another payload, this many times.
struct Bomb {
    waker: usize,
    left: u32,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if let Some(left) = self.left.checked_sub(1) {
            std::panic::panic_any(Bomb { waker: self.waker, left });
        }
    }
}

#[test]
fn a_payload_that_panics_as_it_is_dropped_neither_ends_the_process_nor_loses_a_wake_up() {
    for depth in [1, 2, 3, 100, u32::MAX] {
        for how in ["process", "shutdown", "drop", "drop by a panic"] {
            let mut f = Fixture::new();
            let probes: Vec<_> = (0..70).map(|_| Probe::new(&f.handle)).collect();
            let mut timers: Vec<_> = probes.iter().map(|probe| f.armed(MS, &probe.waker())).collect();
            let order = Arc::new(Mutex::new(vec![]));
            for (waker, probe) in probes.iter().enumerate() {
                let order = order.clone();
                probe.on_wake(move || {
                    order.lock().expect("nobody panics under it").push(waker);
                    if waker % 5 == 0 {
                        std::panic::panic_any(Bomb { waker, left: depth });
                    }
                });
            }
            f.clock.set(Nanos::new(MS));
            let panic = catch_unwind(AssertUnwindSafe(|| match how {
                "process" => drop(f.driver.process(Nanos::new(MS), usize::MAX)),
                "shutdown" => f.driver.shutdown(),
                "drop" => drop(f),
                _ => {
                    let _dropped = f;
                    panic!("the first panic");
                }
            }));
            let payload = panic.expect_err("it panicked");
            let order = order.lock().expect("nobody panics under it").clone();
            let first = order.iter().find(|waker| **waker % 5 == 0).copied();
            match payload.downcast::<Bomb>() {
                Ok(mut bomb) => {
                    assert_eq!(Some(bomb.waker), first, "{how}: another one's panic");
                    bomb.left = 0;
                }
                Err(payload) => {
                    assert_eq!((how, payload.downcast_ref()), ("drop by a panic", Some(&"the first panic")));
                }
            }
            assert_eq!(order.len(), 70, "{how}: a wake-up was lost");
            assert!(probes.iter().all(|probe| probe.wakes() == 1 && probe.wakers() == 0), "{how}");
            assert!(timers.iter_mut().all(|timer| poll(timer, Waker::noop()).is_ready()), "{how}");
        }
    }
}

#[test]
fn a_panic_during_shutdown_loses_nobody_else() {
    for by_drop in [false, true] {
        let mut f = Fixture::new();
        let probes: Vec<_> = (0..40).map(|_| Probe::new(&f.handle)).collect();
        let mut timers: Vec<_> = probes.iter().map(|probe| f.armed(MS, &probe.waker())).collect();
        probes[3].panic_in_wake(1);
        probes[35].panic_in_wake(1);
        let panic = catch_unwind(AssertUnwindSafe(|| if by_drop { drop(f) } else { f.driver.shutdown() }));
        assert!(panic.is_err(), "the panic was swallowed");
        assert!(probes.iter().all(|probe| probe.wakes() == 1 && probe.wakers() == 0));
        assert!(timers.iter_mut().all(|timer| matches!(poll(timer, Waker::noop()), Poll::Ready(Err(_)))));
    }
}

#[test]
fn a_driver_dropped_by_a_panic_does_not_end_the_process() {
    let clock = TestClock::new(Nanos::ZERO);
    let driver = Driver::new(clock.clock(), || ());
    let probe = Probe::new(driver.handle());
    let mut timer = Box::pin(driver.handle().sleep_until(Nanos::new(MS)));
    assert!(poll(&mut timer, &probe.waker()).is_pending());
    probe.panic_in_wake(1);
    let panic = catch_unwind(AssertUnwindSafe(move || {
        let _driver = driver;
        panic!("the first panic");
    }));
    assert_eq!(panic.expect_err("it panicked").downcast_ref(), Some(&"the first panic"));
    assert_eq!((probe.wakes(), probe.wakers()), (1, 0));
}

#[test]
fn a_clone_that_panics_leaves_the_timer_usable() {
    // tokio #3689. At the first poll, and when a waker is replaced.
    let mut f = Fixture::new();
    let (bad, good) = (Probe::new(&f.handle), Probe::new(&f.handle));
    let mut timer = f.at(MS);
    for round in 0..2 {
        bad.panic_in_clone(1);
        let panic = catch_unwind(AssertUnwindSafe(|| poll(&mut timer, &bad.waker())));
        assert!(panic.is_err());
        f.handle.check();
        assert_eq!((f.live(), bad.wakers()), (round, 0));
        assert!(poll(&mut timer, &good.waker()).is_pending());
        assert_eq!((f.live(), good.wakers()), (1, 1));
    }
    assert_eq!((f.advance_to(MS), bad.wakes(), good.wakes()), (1, 0, 1));
    assert_eq!(poll(&mut timer, Waker::noop()), READY);
}

#[test]
fn a_waker_may_come_back_into_the_driver_as_it_is_dropped() {
    // tokio #5429. The drop of a waker that is replaced, cancelled, dropped with its timer or found elapsed.
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    let timers = shelf((0..20).map(|_| f.armed(50 * MS, Waker::noop())));
    let next = Arc::new(AtomicUsize::new(0));
    let (handle, others) = (f.handle.clone(), timers.clone());
    probe.on_drop(move || {
        // Anything that a task's state may do when it is dropped: drop a timer, move one, arm one.
        let index = next.fetch_add(2, SeqCst);
        drop(take(&others, index));
        if let Some(mut timer) = take(&others, index + 1) {
            timer.as_mut().reset(Nanos::new(2 * MS));
            put(&others, index + 1, timer);
        }
        let mut timer = Box::pin(handle.sleep_until(Nanos::new(30 * MS)));
        assert!(poll(&mut timer, Waker::noop()).is_pending());
    });
    let waker = probe.waker();
    let mut replaced = f.armed(MS, &waker);
    assert!(poll(&mut replaced, Waker::noop()).is_pending());
    let mut cancelled = f.armed(MS, &waker);
    cancelled.as_mut().cancel();
    drop(f.armed(MS, &waker));
    let mut elapsed = f.armed(MS, &waker);
    f.clock.set(Nanos::new(MS));
    assert_eq!(poll(&mut elapsed, Waker::noop()), READY);
    f.handle.check();
    assert_eq!(probe.drops(), 4);
    drop(waker);
    assert_eq!((probe.wakers(), f.live()), (0, 1 + 15));
    assert_eq!((f.advance_to(MS), f.advance_to(2 * MS), f.advance_to(50 * MS)), (1, 5, 10));
}

#[test]
fn a_timer_that_is_dropped_or_reset_to_later_wakes_nobody() {
    // ngx-rust #294: timers are dropped and moved while a lock of the user is held. No task is woken then,
    // except by a reset to the past and by a shutdown.
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    let fired = f.armed(MS, &probe.waker());
    f.advance_to(MS);
    let mut timers: Vec<_> = (0..4).map(|_| f.armed(9 * MS, &probe.waker())).collect();
    probe.on_wake(|| panic!("woken for nothing"));
    drop(fired);
    drop(timers.pop());
    timers[0].as_mut().cancel();
    timers[1].as_mut().reset(Nanos::new(90 * MS));
    timers[2].as_mut().reset(Nanos::new(2 * MS));
    timers[2].as_mut().set_tolerance(Some(Duration::ZERO));
    assert_eq!((probe.wakes(), probe.wakers(), f.live()), (1, 2, 2));
    probe.on_wake(|| ());
    timers[2].as_mut().reset(Nanos::ZERO);
    assert_eq!((probe.wakes(), f.live()), (2, 1));
    f.driver.shutdown();
    assert_eq!((probe.wakes(), probe.wakers(), f.live()), (3, 0, 0));
}

#[test]
fn a_timer_dropped_by_another_thread_between_two_batches_is_not_woken_afterwards() {
    // The first batch's waker waits until another thread has dropped the timers of the second.
    let mut f = Fixture::new();
    let (first, second) = (Probe::new(&f.handle), Probe::new(&f.handle));
    let _first: Vec<_> = (0..BATCH).map(|_| f.armed(MS, &first.waker())).collect();
    let mut others: Vec<_> = (0..2 * BATCH).map(|_| f.armed(MS, &second.waker())).collect();
    let (ask, asked) = mpsc::channel::<()>();
    let (answer, answered) = mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        asked.recv().expect("the first batch is woken");
        others.truncate(5);
        answer.send(()).expect("the waker waits");
        others
    });
    let alone = AtomicBool::new(true);
    first.on_wake(move || {
        // Only the first waker of the batch asks: the other thread answers once and ends.
        if alone.swap(false, SeqCst) {
            ask.send(()).expect("the other thread listens");
            answered.recv_timeout(Duration::from_secs(20)).expect("a drop waited for the batch to end");
        }
    });
    f.advance_to(MS);
    let left = other.join().expect("no drop panicked");
    assert_eq!((first.wakes(), second.wakes(), left.len()), (BATCH, 5, 5));
    assert_eq!((f.live(), second.wakers()), (0, 0));
}

#[test]
fn a_timer_that_ends_while_its_new_waker_is_cloned_says_how_it_ended() {
    // Cloning is foreign code, and happens before the lock is taken: meanwhile the timer fires, or the driver is closed.
    for close in [false, true] {
        let mut f = Fixture::new();
        let probe = Probe::new(&f.handle);
        let mut timer = f.armed(MS, Waker::noop());
        probe.on_clone(move || {
            if close {
                f.driver.shutdown();
            } else {
                assert_eq!(f.advance_to(MS), 1);
            }
        });
        assert_eq!(poll(&mut timer, &probe.waker()).map(|ended| ended.is_err()), Poll::Ready(close));
        assert_eq!(probe.wakers(), 0);
    }
}
