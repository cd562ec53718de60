//! How far a park may outlast a timer's deadline: from which time this is computed, and how long it holds.

mod probe;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Waker;
use std::time::Duration;

use mainspring_driver::{Agenda, Driver, Nanos, TestClock, Tolerance};
use probe::{Fixture, poll};

const MS: u64 = 1_000_000;

#[test]
fn a_timer_that_is_brought_forward_has_the_tolerance_of_its_new_deadline() {
    // The timers are in the wheel by then, or just armed.
    for filed in [true, false] {
        let clock = TestClock::new(Nanos::ZERO);
        let tolerance = Tolerance::Fixed { ratio: 0.5, max: Duration::from_secs(10) };
        let mut driver = Driver::new(clock.clock(), || ()).with_tolerance(tolerance);
        let mut timers =
            [1_000, 130, 180].map(|at| Box::pin(driver.handle().sleep_until(Nanos::new(at * MS))));
        for timer in &mut timers {
            assert!(poll(timer, Waker::noop()).is_pending());
        }
        if filed {
            driver.handle().check();
        }
        timers[0].as_mut().reset(Nanos::new(100 * MS));
        // The first timer may be up to 50 ms late, so it waits for the second; with half a second it could wait for the third.
        assert_eq!(driver.next_wake(), Some(Nanos::new(130 * MS)), "filed: {filed}");
    }
}

#[test]
fn a_timer_that_is_filed_long_after_it_was_armed_has_the_tolerance_of_the_time_that_is_left() {
    const SECOND: u64 = 1_000 * MS;
    let (now, to) = (1_000 * SECOND, 1_000 * SECOND + MS);
    // Moved forward, and put off, when the time is nearly up; the wheel knows none of the timers.
    for (from, look) in [3_600 * SECOND, now + MS / 2]
        .into_iter()
        .flat_map(|from| ["not", "occupancy", "next_deadline", "check"].map(|look| (from, look)))
    {
        let clock = TestClock::new(Nanos::ZERO);
        let tolerance = Tolerance::Fixed { ratio: 0.5, max: Duration::from_secs(3_600) };
        let mut driver = Driver::new(clock.clock(), || ()).with_tolerance(tolerance);
        let mut timers = [from, to + MS / 4, 1_400 * SECOND]
            .map(|at| Box::pin(driver.handle().sleep_until(Nanos::new(at))));
        for timer in &mut timers {
            assert!(poll(timer, Waker::noop()).is_pending());
        }
        clock.set(Nanos::new(now));
        assert_eq!(driver.handle().now(), Nanos::new(now));
        timers[0].as_mut().reset(Nanos::new(to));
        match look {
            "occupancy" => assert_eq!(driver.handle().occupancy().timers(), 3),
            "next_deadline" => assert_eq!(driver.next_deadline(), Some(Nanos::new(to))),
            "check" => driver.handle().check(),
            _ => {}
        }
        // The timer may be late by half of the millisecond that is left, and so waits for the second.
        assert_eq!(driver.next_wake(), Some(Nanos::new(to + MS / 4)), "from {from}, {look}");
    }
}

#[test]
fn a_tolerance_lasts_and_does_not_change_when_a_timer_fires() {
    let mut f = Fixture::new();
    // Other timers to gather, so close together that the extension of a park can be measured; they could wait for long.
    let mut others: Vec<_> = (1..200).map(|i| f.at(64 * MS + i * MS / 20)).collect();
    for other in &mut others {
        other.as_mut().set_tolerance(Some(Duration::from_secs(5)));
        assert!(poll(other, Waker::noop()).is_pending());
    }
    let mut timer = f.at(64 * MS);
    // Timers that were cancelled may still be in the bounds: so each tolerance is less than the one before.
    let (some, none) = (Some(Duration::from_millis(8)), Some(Duration::ZERO));
    for (tolerance, at_most) in [(some, 8 * MS), (None, MS / 2), (none, 0)] {
        timer.as_mut().cancel();
        timer.as_mut().set_tolerance(tolerance);
        assert!(poll(&mut timer, Waker::noop()).is_pending());
        // While the timer is armed, a new tolerance waits for the next arming.
        timer.as_mut().set_tolerance(Some(Duration::from_secs(5)));
        let slack = f.driver.next_wake().expect("armed").get() - 64 * MS;
        assert!(slack <= at_most && slack >= at_most - at_most / 5, "a slack of {slack} for {tolerance:?}");
        assert_eq!(f.driver.next_deadline(), Some(Nanos::new(64 * MS)));
    }
    assert_eq!((f.advance_to(64 * MS - 1), f.advance_to(64 * MS)), (0, 1));
}

#[test]
fn a_timer_that_is_armed_during_a_long_park_has_the_tolerance_of_the_time_that_is_left() {
    const SECOND: u64 = 1_000 * MS;
    let clock = TestClock::new(Nanos::ZERO);
    let unparked = Arc::new(AtomicUsize::new(0));
    let count = unparked.clone();
    let unpark = move || {
        count.fetch_add(1, SeqCst);
    };
    let tolerance = Tolerance::Fixed { ratio: 0.5, max: Duration::from_secs(3_600) };
    let mut driver = Driver::new(clock.clock(), unpark).with_tolerance(tolerance);
    let at = |seconds| Box::pin(driver.handle().sleep_until(Nanos::new(seconds * SECOND)));
    let (mut last, mut timer) = (at(1_000), at(800));
    last.as_mut().set_tolerance(Some(Duration::ZERO));
    assert!(poll(&mut last, Waker::noop()).is_pending());
    assert_eq!(driver.next_wake(), Some(Nanos::new(1_000 * SECOND)));

    // While the driver is parked, nobody reads the clock. The timer may be late by 100 s, half of what is left; by half of the
    // 800 s since the last reading it could wait for the other timer.
    clock.set(Nanos::new(600 * SECOND));
    assert!(poll(&mut timer, Waker::noop()).is_pending());
    assert_eq!(unparked.load(SeqCst), 1, "the park ends 200 s after the timer's deadline");
    let wake = driver.next_wake().expect("armed");
    assert!(wake <= Nanos::new(900 * SECOND), "the timer ends at {wake:?}");
}

#[test]
fn a_timer_that_comes_due_just_before_the_end_of_time_ends_the_park() {
    // A park until `NEVER` has no end. One timer's slack reaches beyond that, and another timer never comes due.
    for before in [2, 1_000, 1_000 * MS] {
        let now = Nanos::new(Nanos::NEVER.get() - 2_000 * MS);
        let due = Nanos::new(Nanos::NEVER.get() - before);
        let clock = TestClock::new(now);
        let unparked = Arc::new(AtomicUsize::new(0));
        let count = unparked.clone();
        let unpark = move || {
            count.fetch_add(1, SeqCst);
        };
        let mut driver = Driver::new(clock.clock(), unpark);
        let mut never = Box::pin(driver.handle().sleep(Duration::MAX));
        assert!(poll(&mut never, Waker::noop()).is_pending());
        assert_eq!(driver.next_wake(), Some(Nanos::NEVER));
        // It is armed while the driver is parked.
        let mut timer = Box::pin(driver.handle().sleep_until(due));
        timer.as_mut().set_tolerance(Some(Duration::from_secs(60)));
        assert!(poll(&mut timer, Waker::noop()).is_pending());
        assert_eq!(unparked.load(SeqCst), 1, "{before} ns before the end");
        let wake = driver.next_wake().expect("armed");
        assert!((due..Nanos::NEVER).contains(&wake), "{before} ns before the end: until {wake:?}");
        clock.set(wake);
        assert_eq!(driver.process(wake, 100).fired, 1);
        assert_eq!(driver.next_wake(), Some(Nanos::NEVER));

        let mut agenda = Agenda::new();
        agenda.set_slack(Duration::from_secs(60));
        agenda.note(now);
        agenda.insert('n', Nanos::NEVER);
        agenda.insert('d', due);
        let (wake, more) = agenda.next_park().expect("two entries");
        assert!(wake >= due && wake.saturating_add(more) < Nanos::NEVER, "until {wake:?}, and {more:?} more");
        assert_eq!(agenda.pop_due(wake).map(|entry| entry.value), Some('d'));
        assert_eq!(agenda.next_wake(), Some(Nanos::NEVER));
    }
}
