//! What ends the driver's park: an earlier timer, and nothing else.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use crate::probe::poll;
use crate::{HANG, MS, Random, Running, wait_for};
use mainspring_driver::{Driver, Nanos, TestClock};

#[test]
fn a_timer_armed_around_the_park_ends_it() {
    // tokio #3190, #6682. The driver has nothing to wait for: each of these timers must end its park.
    let running = Running::new(100);
    let mut random = Random(3);
    for _ in 0..2_000 {
        let mut timer = Box::pin(running.handle.sleep(Duration::from_nanos(1_000 + random.below(40_000))));
        assert_eq!(wait_for(&mut timer), Ok(()));
        for _ in 0..random.below(2_000) {
            std::hint::spin_loop();
        }
    }
    running.stop();
}

#[test]
fn a_shorter_timer_ends_the_park_and_a_longer_one_does_not() {
    let unparks = Arc::new(AtomicUsize::new(0));
    let counted = unparks.clone();
    let clock = TestClock::new(Nanos::ZERO);
    let count = move || {
        counted.fetch_add(1, SeqCst);
    };
    let mut driver = Driver::new(clock.clock(), count);
    let handle = driver.handle().clone();
    let arm = |at: u64| {
        let mut timer = Box::pin(handle.sleep_until(Nanos::new(at)));
        let arm = move || {
            assert!(poll(&mut timer, Waker::noop()).is_pending());
            timer
        };
        thread::spawn(arm).join().expect("armed on another thread")
    };
    let mut kept = vec![arm(500 * MS)];
    assert_eq!(unparks.load(SeqCst), 0, "nobody is parked");
    let mut expected = 0;
    for _ in 0..3 {
        let until = driver.next_wake().expect("a timer is armed");
        let park_end = until.get();
        kept.extend([arm(park_end), arm(park_end + 1), arm(u64::MAX)]);
        assert_eq!(unparks.load(SeqCst), expected, "unparked for nothing");
        // A shorter timer ends the park, and so does each even shorter one: the thread that ended the park before
        // may not have acted yet.
        kept.extend([arm(park_end / 2), arm(park_end / 4), arm(park_end / 3), arm(park_end / 4)]);
        expected += 2;
        assert_eq!(unparks.load(SeqCst), expected);
        kept.last_mut().expect("armed").as_mut().reset(Nanos::new(park_end / 5));
        expected += 1;
        assert_eq!(unparks.load(SeqCst), expected);
        assert_eq!(driver.process(Nanos::new(1), 1_000).fired, 0);
        kept.push(arm(park_end / 6));
        assert_eq!(unparks.load(SeqCst), expected, "unparked while it runs");
    }
    // A reset to an earlier time ends the park as well; a reset to a later time does not.
    let until = driver.next_wake().expect("a timer is armed").get();
    kept[0].as_mut().reset(Nanos::new(600 * MS));
    assert_eq!(unparks.load(SeqCst), expected);
    kept[0].as_mut().reset(Nanos::new(until / 2));
    expected += 1;
    assert_eq!(unparks.load(SeqCst), expected);
    // Without a timer it would park forever.
    kept.clear();
    while driver.next_wake().is_some_and(|at| driver.process(at, 1_000).fired == 0) {}
    assert_eq!(driver.next_wake(), None);
    kept.extend([arm(u64::MAX), arm(900 * MS)]);
    assert_eq!(unparks.load(SeqCst), expected + 1);
}

#[test]
fn a_thread_held_up_before_its_unpark_holds_up_no_earlier_timer() {
    // The first call of `unpark` does not get through until the second thread is done.
    let (arrived, first_arrived) = std::sync::mpsc::channel();
    let (release, held_up) = std::sync::mpsc::channel::<()>();
    let first = Mutex::new(Some((arrived, held_up)));
    let unparks = Arc::new(AtomicUsize::new(0));
    let unparker = unparks.clone();
    let unpark = move || {
        let first = first.lock().expect("no call panicked").take();
        if let Some((arrived, held_up)) = first {
            arrived.send(()).expect("the test waits for it");
            held_up.recv_timeout(HANG).expect("nobody let it go on");
        }
        unparker.fetch_add(1, SeqCst);
    };
    let mut driver = Driver::new(TestClock::new(Nanos::ZERO).clock(), unpark);
    assert_eq!(driver.next_wake(), None);
    let arm = |at: u64| {
        let handle = driver.handle().clone();
        thread::spawn(move || {
            let mut timer = Box::pin(handle.sleep_until(Nanos::new(at)));
            assert!(poll(&mut timer, Waker::noop()).is_pending());
            timer
        })
    };
    let late = arm(100 * MS);
    first_arrived.recv_timeout(HANG).expect("the first thread ends the park");
    let _early = arm(MS).join().expect("armed");
    assert_eq!(unparks.load(SeqCst), 1, "the earlier timer relies on a thread that is held up");
    // A timer that is not earlier than both has nothing to end.
    let _between = arm(50 * MS).join().expect("armed");
    assert_eq!(unparks.load(SeqCst), 1);
    release.send(()).expect("the first thread waits");
    let _late = late.join().expect("armed");
    assert_eq!(unparks.load(SeqCst), 2);
}
