//! When a timer fires that was reset, and in which order timers do.

use std::task::{Poll, Waker};

use mainspring_driver::Nanos;

use crate::MS;
use crate::probe::{self, Fixture, Probe, READY, poll};

#[test]
fn a_reset_before_the_first_poll_counts() {
    for to in [MS, 5 * MS, 20 * MS] {
        let mut f = Fixture::new();
        let mut timer = f.at(10 * MS);
        timer.as_mut().reset(Nanos::new(to));
        assert_eq!((timer.deadline(), f.live()), (Nanos::new(to), 0));
        assert!(poll(&mut timer, Waker::noop()).is_pending());
        assert_eq!((f.advance_to(to - 1), f.advance_to(to)), (0, 1));
        assert_eq!(poll(&mut timer, Waker::noop()), READY);
    }
}

#[test]
fn a_reset_to_the_past_before_the_first_poll_is_ready_at_once() {
    let mut f = Fixture::starting_at(10 * MS);
    f.advance_to(10 * MS);
    for to in [0, 1, 10 * MS - 1, 10 * MS] {
        let mut timer = f.at(u64::MAX);
        timer.as_mut().reset(Nanos::new(to));
        assert_eq!(poll(&mut timer, Waker::noop()), READY);
        assert_eq!(f.live(), 0);
    }
}

#[test]
fn a_reset_to_a_later_time_fires_at_the_new_one() {
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    let mut timer = f.armed(MS, &probe.waker());
    for to in [2 * MS, 2 * MS + 1, 300 * MS, 86_400_000 * MS] {
        timer.as_mut().reset(Nanos::new(to));
        f.handle.check();
        assert_eq!((f.advance_to(to - 1), poll(&mut timer, &probe.waker())), (0, Poll::Pending));
    }
    assert_eq!((f.advance_to(86_400_000 * MS), probe.wakes()), (1, 1));
    assert_eq!(poll(&mut timer, Waker::noop()), READY);
}

#[test]
fn a_reset_to_an_earlier_time_fires_at_the_new_one() {
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    let mut timer = f.armed(u64::MAX, &probe.waker());
    for to in [86_400_000 * MS, 300 * MS, 2 * MS, MS] {
        timer.as_mut().reset(Nanos::new(to));
        f.handle.check();
        assert_eq!(f.driver.next_deadline(), Some(Nanos::new(to)));
        let wake = f.driver.next_wake().expect("a timer is armed").get();
        assert!(wake >= to && wake <= to + to / 128, "its slack is still that of the old deadline: {wake}");
    }
    assert_eq!((f.advance_to(MS - 1), f.advance_to(MS), probe.wakes()), (0, 1, 1));
    assert_eq!(poll(&mut timer, Waker::noop()), READY);
}

#[test]
fn a_reset_to_the_past_wakes() {
    let mut f = Fixture::starting_at(10 * MS);
    f.advance_to(20 * MS);
    for to in [0, 10 * MS, 20 * MS] {
        let probe = Probe::new(&f.handle);
        let mut timer = f.armed(50 * MS, &probe.waker());
        timer.as_mut().reset(Nanos::new(to));
        f.handle.check();
        assert_eq!((probe.wakes(), probe.wakers(), f.live()), (1, 0, 0), "at {to}");
        assert_eq!(poll(&mut timer, Waker::noop()), READY);
    }
    // The time is past by a reading that was taken, but the driver has not got there yet.
    let probe = Probe::new(&f.handle);
    let mut timer = f.armed(70 * MS, &probe.waker());
    f.clock.set(Nanos::new(30 * MS));
    f.handle.now();
    timer.as_mut().reset(Nanos::new(25 * MS));
    assert_eq!((probe.wakes(), probe.wakers(), f.live()), (1, 0, 0));
    assert_eq!(poll(&mut timer, &probe.waker()), READY);
    assert_eq!((f.advance_to(30 * MS), f.handle.stats().fired), (0, 4));
    // The time is near the latest reading: then the clock is read.
    let probe = Probe::new(&f.handle);
    let mut timer = f.armed(70 * MS, &probe.waker());
    f.clock.set(Nanos::new(40 * MS));
    timer.as_mut().reset(Nanos::new(31 * MS));
    assert_eq!((probe.wakes(), probe.wakers(), f.live()), (1, 0, 0));
    // The time is past, but the clock has not been read for long: the driver's next step finds the timer, without a park.
    let probe = Probe::new(&f.handle);
    let mut timer = f.armed(70 * MS, &probe.waker());
    f.clock.set(Nanos::new(60 * MS));
    timer.as_mut().reset(Nanos::new(50 * MS));
    assert_eq!((probe.wakes(), poll(&mut timer, &probe.waker())), (0, Poll::Pending));
    assert!(f.driver.next_wake().is_some_and(|wake| wake < Nanos::new(51 * MS)));
    assert_eq!((f.advance_to(60 * MS), probe.wakes(), f.handle.stats().fired), (1, 1, 6));
}

/// Fires all timers at once and returns the order in which they fired.
fn order(f: &mut Fixture, now: u64, timers: &mut [(probe::Timer, Probe)]) -> Vec<usize> {
    let log = std::sync::Arc::new(std::sync::Mutex::new(vec![]));
    for (index, (_, probe)) in timers.iter().enumerate() {
        let log = log.clone();
        probe.on_wake(move || log.lock().expect("nobody panicked").push(index));
    }
    f.advance_to(now);
    log.lock().expect("nobody panicked").clone()
}

fn timers_at(f: &Fixture, deadlines: &[u64]) -> Vec<(probe::Timer, Probe)> {
    let arm = |&at: &u64| {
        let probe = Probe::new(&f.handle);
        (f.armed(at, &probe.waker()), probe)
    };
    deadlines.iter().map(arm).collect()
}

#[test]
fn a_reset_keeps_the_place_in_the_order_of_registration() {
    let mut f = Fixture::new();
    let mut timers = timers_at(&f, &[9 * MS, 7 * MS, 2 * MS, 7 * MS, 7 * MS, 100 * MS]);
    timers[0].0.as_mut().reset(Nanos::new(7 * MS));
    timers[2].0.as_mut().reset(Nanos::new(7 * MS));
    timers[5].0.as_mut().reset(Nanos::new(7 * MS));
    timers[3].0.as_mut().reset(Nanos::new(8 * MS));
    f.advance_to(3 * MS);
    timers[3].0.as_mut().reset(Nanos::new(7 * MS));
    assert_eq!(order(&mut f, 7 * MS, &mut timers), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_timer_that_is_armed_again_gets_a_new_sequence_number() {
    let mut f = Fixture::new();
    let mut timers = timers_at(&f, &[MS, 5 * MS, 2 * MS, 5 * MS]);
    f.advance_to(MS);
    // The first timer has fired, the third is cancelled; both are registered anew, behind the others.
    timers[0].0.as_mut().reset(Nanos::new(5 * MS));
    timers[2].0.as_mut().cancel();
    timers[2].0.as_mut().reset(Nanos::new(5 * MS));
    for index in [2, 0] {
        let (timer, probe) = &mut timers[index];
        assert!(poll(timer, &probe.waker()).is_pending());
    }
    assert_eq!(order(&mut f, 5 * MS, &mut timers), [1, 3, 2, 0]);
}

#[test]
fn timers_found_due_late_fire_by_deadline_and_then_by_registration() {
    let mut f = Fixture::new();
    let mut timers = timers_at(&f, &[5_000, 90 * MS, 300, MS, 4_000, 300]);
    assert_eq!(order(&mut f, 100 * MS, &mut timers), [2, 5, 4, 0, 3, 1]);
}
