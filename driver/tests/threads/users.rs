//! Threads that arm, move and drop timers while the driver runs: nothing is lost, early, or unaccounted for.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use crate::probe::{Timer, poll};
use crate::{HANG, Random, Running, Unparker, wait_for};
use mainspring_driver::{Clock, Driver, Handle};

#[test]
fn a_timer_used_on_other_threads_is_neither_lost_nor_early() {
    for round in 0..20 {
        let running = Running::new(if round % 2 == 0 { 4 } else { 1_000 });
        let users: Vec<_> = (0..3)
            .map(|user| {
                let handle = running.handle.clone();
                thread::spawn(move || use_timers(&handle, round * 3 + user))
            })
            .collect();
        users.into_iter().for_each(|user| user.join().expect("a user's thread failed"));
        running.stop();
    }
}

fn use_timers(handle: &Handle, seed: u64) {
    let mut random = Random(seed);
    let other = Waker::from(Unparker::new());
    for _ in 0..60 {
        let mut timer = Box::pin(handle.sleep(Duration::from_nanos(random.below(300_000))));
        let first = poll(&mut timer, if random.below(2) == 0 { &other } else { Waker::noop() });
        for _ in 0..random.below(3) {
            let deadline = handle.now().saturating_add(Duration::from_nanos(random.below(600_000)));
            match random.below(4) {
                0 => timer.as_mut().cancel(),
                1 => timer.as_mut().set_tolerance(Some(Duration::ZERO)),
                _ => {}
            }
            timer.as_mut().reset(deadline);
            let _ = poll(&mut timer, &other);
        }
        if random.below(5) == 0 && first.is_pending() {
            drop(timer);
            continue;
        }
        let deadline = timer.deadline();
        assert_eq!(wait_for(&mut timer), Ok(()));
        assert!(handle.clock().now() >= deadline, "early");
    }
}

/// Drives the driver on this thread, and arms and drops timers here, until `stop`. Returns how many it armed.
fn drive_and_use(driver: &mut Driver, stop: impl Fn() -> bool) -> u64 {
    let mut armed = 0;
    let start = Instant::now();
    while !stop() {
        assert!(start.elapsed() < HANG, "the others hang");
        // More than it takes until the lock is this thread's alone, if no other thread comes meanwhile.
        for n in 0..2_000 {
            let mut timer = Box::pin(driver.handle().sleep(Duration::from_secs(1 + n % 50)));
            assert!(poll(&mut timer, Waker::noop()).is_pending());
            armed += 1;
        }
        let _ = driver.process(driver.handle().now(), 1_000);
    }
    armed
}

#[test]
fn timers_of_the_drivers_own_thread_and_of_three_others_are_all_accounted_for() {
    let mut driver = Driver::new(Clock::monotonic(), || ());
    let handle = driver.handle().clone();
    // How often the other threads have come. In the second half another thread runs the driver than in the first.
    let visits = AtomicU64::new(0);
    let rounds = 60;
    let armed: u64 = thread::scope(|scope| {
        let users: Vec<_> = (0..3)
            .map(|user| {
                let (handle, visits) = (&handle, &visits);
                scope.spawn(move || {
                    for round in 0..rounds {
                        use_timers_once(handle, user * rounds + round);
                        visits.fetch_add(1, SeqCst);
                    }
                    10 * rounds
                })
            })
            .collect();
        let first = scope
            .spawn(|| (drive_and_use(&mut driver, || visits.load(SeqCst) >= 3 * rounds / 2), driver))
            .join()
            .expect("the first thread failed");
        let (first, mut driver) = first;
        // The first thread has ended.
        let second = drive_and_use(&mut driver, || visits.load(SeqCst) == 3 * rounds);
        let others: u64 = users.into_iter().map(|user| user.join().expect("a user's thread failed")).sum();
        first + second + others
    });
    handle.check();
    let stats = handle.stats();
    assert_eq!((stats.live, stats.armed), (0, armed));
    assert_eq!(stats.armed, stats.fired + stats.cancelled);
}

/// Arms ten timers and ends them: by a drop, by a cancel, or by waiting for them.
fn use_timers_once(handle: &Handle, seed: u64) {
    let mut random = Random(seed);
    let mut timers: Vec<Timer> =
        (0..10).map(|n| Box::pin(handle.sleep(Duration::from_secs(n + 10)))).collect();
    let waker = Waker::from(Unparker::new());
    timers.iter_mut().for_each(|timer| assert!(poll(timer, &waker).is_pending()));
    let mut last = timers.pop().expect("there are ten");
    last.as_mut().reset(handle.now().saturating_add(Duration::from_micros(random.below(50))));
    assert_eq!(wait_for(&mut last), Ok(()));
    timers[random.below(9) as usize].as_mut().cancel();
    if random.below(2) == 0 {
        thread::sleep(Duration::from_micros(random.below(100)));
    }
}
