//! What a driver reports about itself: counts, lateness, pending timers, the driver of a handle, and its paused clock.

mod probe;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use mainspring_driver::{Clock, Driver, Nanos, TestClock};
use probe::{Fixture, Probe, poll};

const MS: u64 = 1_000_000;

#[test]
fn parks_that_outlast_the_earliest_deadline_are_counted() {
    let mut f = Fixture::new();
    let park = |f: &mut Fixture, slack: u64| {
        let timers = [10_000_000, 10_400_000].map(|at| {
            let mut timer = f.at(at);
            timer.as_mut().set_tolerance(Some(Duration::from_nanos(slack)));
            assert!(poll(&mut timer, Waker::noop()).is_pending());
            timer
        });
        let wake = f.driver.next_wake().unwrap();
        drop(timers);
        // As a host does in each turn. Timers that were cancelled since then may still be taken into account.
        assert_eq!(f.advance_to(0), 0);
        (wake.get(), f.handle.stats().parks_coalesced)
    };
    assert_eq!(park(&mut f, 0), (10_000_000, 0), "a park that ends at the deadline");
    assert_eq!(park(&mut f, 1_000_000), (10_400_000, 1));
    assert_eq!(park(&mut f, 1_000_000), (10_400_000, 2));
    f.handle.pause();
    assert_eq!(park(&mut f, 1_000_000), (10_400_000, 2), "no park, as time stands");
}

#[test]
fn lateness_is_the_reading_less_the_deadline() {
    let mut f = Fixture::new();
    let _timer = f.armed(1_000, Waker::noop());
    assert_eq!(f.advance_to(5_001_000), 1);
    let lateness = f.handle.lateness();
    assert_eq!((lateness.count(), lateness.max()), (1, Duration::from_millis(5)));
}

#[test]
fn timers_that_a_shutdown_ends_count_as_cancelled() {
    let mut f = Fixture::new();
    let _timers = [1, 2, 3].map(|at| f.armed(at, Waker::noop()));
    f.driver.shutdown();
    let stats = f.handle.stats();
    assert_eq!((stats.armed, stats.cancelled, stats.fired, stats.live), (3, 3, 0, 0));
}

#[test]
fn a_timer_reset_after_it_was_sorted_is_moved_and_counted() {
    let mut f = Fixture::new();
    let mut timers: Vec<_> = (0..3).map(|_| f.armed(10, Waker::noop())).collect();
    // The three timers are sorted, which costs nothing, and the first fires: two are in the batch.
    f.clock.set(Nanos::new(10));
    let cut = f.driver.process(Nanos::new(10), 1);
    assert_eq!((cut.fired, cut.more, f.handle.stats().moved), (1, true, 0));
    timers[1].as_mut().reset(Nanos::new(1_000));
    timers[2].as_mut().reset(Nanos::new(2_000));
    assert_eq!((f.advance_to(10), f.handle.stats().moved), (0, 2));
    assert_eq!(f.advance_to(2_000), 2);
}

#[test]
fn a_pending_timer_names_its_place_in_the_order_and_its_waker() {
    let f = Fixture::new();
    let (first, second) = (Probe::new(&f.handle), Probe::new(&f.handle));
    let wakers = [first.waker(), second.waker()];
    let timers = [f.armed(2 * MS, &wakers[0]), f.armed(MS, &wakers[1])];
    let pending = f.handle.pending();
    for ((pending, waker), (timer, sequence)) in
        pending.iter().zip(wakers.iter().rev()).zip(timers.iter().rev().zip([2, 1]))
    {
        assert_eq!((pending.deadline, pending.sequence), (timer.deadline(), sequence));
        assert_eq!(pending.waker_data, waker.data() as usize);
        assert_eq!(pending.waker_vtable, std::ptr::from_ref(waker.vtable()) as usize);
    }
    assert_eq!(pending.len(), 2);
    assert_ne!(pending[0].waker_data, pending[1].waker_data);
}

#[test]
fn a_handle_knows_its_driver_and_whether_that_was_shut_down() {
    let (mut one, two) = (Fixture::new(), Fixture::new());
    assert!(one.handle.same_driver(&one.handle.clone()) && !one.handle.same_driver(&two.handle));
    assert!(!one.handle.is_shutdown());
    one.driver.shutdown();
    assert!(one.handle.is_shutdown() && !two.handle.is_shutdown());
}

#[test]
fn a_paused_driver_shows_a_time_of_its_own() {
    let f = Fixture::starting_at(100);
    let handle = &f.handle;
    assert!(!handle.resume() && !handle.advance_to(Nanos::new(500)) && handle.clock_changes() == 0);
    assert!(handle.pause() && !handle.pause());
    f.clock.set(Nanos::new(1_000));
    assert_eq!((handle.now(), handle.latest(), handle.is_paused()), (Nanos::new(100), Nanos::new(100), true));
    assert!(handle.advance_to(Nanos::new(170)));
    assert_eq!((handle.latest(), handle.clock().now()), (Nanos::new(170), Nanos::new(1_000)));
    assert!(handle.resume() && !handle.is_paused());
    assert_eq!((handle.now(), handle.clock_changes()), (Nanos::new(170), 2));
}

#[test]
fn to_pause_and_to_resume_unparks_the_driver() {
    let unparks = Arc::new(AtomicUsize::new(0));
    let count = unparks.clone();
    let driver = Driver::new(Clock::monotonic(), move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    driver.handle().pause();
    driver.handle().resume();
    assert_eq!(unparks.load(Ordering::Relaxed), 2);
}

#[test]
fn timers_that_were_put_off_cost_few_wake_ups() {
    let clock = TestClock::new(Nanos::ZERO);
    let mut driver = Driver::new(clock.clock(), || ());
    let mut timers: Vec<_> =
        (0..3_000).map(|n| Box::pin(driver.handle().sleep_until(Nanos::new((300 + n) * MS)))).collect();
    timers.iter_mut().for_each(|timer| assert!(poll(timer, Waker::noop()).is_pending()));
    // From here on they are in the wheel.
    assert!(driver.next_wake().is_some());
    let end = 100_000 * MS;
    timers.iter_mut().for_each(|timer| timer.as_mut().reset(Nanos::new(end)));
    let mut wake_ups = 0;
    while let Some(at) = driver.next_wake().filter(|at| *at < Nanos::new(end)) {
        clock.set(at);
        assert_eq!(driver.process(at, 1024).fired, 0);
        wake_ups += 1;
    }
    assert!(wake_ups < 200, "{wake_ups} wake-ups for nothing");
    clock.set(Nanos::new(end));
    let mut fired = 0;
    while fired < timers.len() {
        fired += driver.process(Nanos::new(end), 1024).fired;
    }
}
