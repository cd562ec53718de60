//! How timers react to time: a clock that stands still, jumps or goes back, budgets that cut a drain short,
//! and what the driver reports about its next wake-up. Each test is named after the promise it keeps.

mod probe;

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use mainspring_driver::{Clock, Driver, Nanos, Tolerance};
use probe::{Fixture, Probe, READY, Timer, poll};

const MS: u64 = 1_000_000;
const DAY: u64 = 86_400_000 * MS;

struct Random(u64);
impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        ((u128::from(self.0) * u128::from(n)) >> 64) as u64
    }
}

#[test]
fn a_clock_that_goes_back_fires_nothing_early_and_loses_no_timer() {
    // tokio #3619.
    let start = 100_000 * MS;
    let mut f = Fixture::starting_at(start);
    let probe = Probe::new(&f.handle);
    let mut timer = f.armed(start + 1_000 * MS, &probe.waker());
    assert_eq!(f.advance_to(start + 500 * MS), 0);
    for back in [5_000 * MS, 50_000 * MS, start] {
        assert_eq!(f.advance_to(start - back), 0);
        assert!(poll(&mut timer, &probe.waker()).is_pending());
        // A timer that is made now waits at least as long as it was asked to, by this clock.
        let mut new = Box::pin(f.handle.sleep(Duration::from_millis(100)));
        assert!(
            poll(&mut new, &probe.waker()).is_pending(),
            "ready at once after the clock went back {back}"
        );
        assert!(new.deadline().get() >= start - back + 100 * MS);
        assert!(f.driver.next_wake().is_some());
        assert_eq!(f.advance_to(start - back + 99 * MS), 0);
        assert!(poll(&mut new, &probe.waker()).is_pending());
    }
    assert_eq!(f.advance_to(start + 999 * MS), 0);
    assert_eq!((f.advance_to(start + 1_000 * MS), probe.wakes()), (1, 1));
    assert_eq!(poll(&mut timer, Waker::noop()), READY);
}

#[test]
fn a_reset_on_another_thread_counts_the_time_left_from_now_while_the_driver_is_parked() {
    let mut f = Fixture::new();
    let [mut one, mut other] = [1, 2].map(|days| f.armed(days * DAY, Waker::noop()));
    assert!(f.driver.next_wake().is_some());
    // Nobody has read the clock since.
    f.clock.advance(Duration::from_secs(3_600));
    let at = f.clock.now().get() + 2 * MS;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            one.as_mut().reset(Nanos::new(at));
            other.as_mut().reset(Nanos::new(at + MS / 2));
        });
    });
    assert_eq!(f.driver.next_wake(), Some(Nanos::new(at)), "2 ms allow 16 µs, not half a millisecond");
}

#[test]
fn fifty_days_at_once_fire_each_timer_once_and_in_order() {
    let mut f = Fixture::starting_at(40 * DAY + 7);
    let start = f.clock.now().get();
    let mut random = Random(42);
    let log = Arc::new(Mutex::new(vec![]));
    let mut timers: Vec<(Timer, Probe)> = vec![];
    let mut expected = vec![];
    for number in 0..400 {
        // Near and far deadlines, and many of them equal.
        let distance = 1 + (random.below(DAY) >> random.below(46)) + random.below(51) / 10 * 10 * DAY;
        let deadline = start + distance.min(50 * DAY);
        let probe = Probe::new(&f.handle);
        timers.push((f.armed(deadline, &probe.waker()), probe));
        expected.push((deadline, number));
        let log = log.clone();
        timers[number].1.on_wake(move || log.lock().expect("nobody panicked").push(number));
    }
    let _after = f.armed(start + 50 * DAY + 1, Waker::noop());
    expected.sort_unstable();

    let jump = Nanos::new(start + 50 * DAY);
    f.clock.set(jump);
    let mut calls = 0;
    loop {
        let before = f.handle.stats();
        // The clock goes on until the drain ends; timers that are due later must not join it.
        let now = jump.saturating_add(Duration::from_nanos(calls));
        let processed = f.driver.process(now, 32);
        f.handle.check();
        calls += 1;
        assert!(processed.fired <= 32);
        assert_eq!(f.handle.stats().fired - before.fired, processed.fired as u64);
        if !processed.more {
            break;
        }
        assert_eq!(f.driver.next_wake(), Some(jump), "it would park in the middle of a drain");
    }
    assert!(calls > 400 / 32, "the budget did not cut the drain short");
    let fired = log.lock().expect("nobody panicked").clone();
    assert_eq!(fired, expected.into_iter().map(|(_, number)| number).collect::<Vec<_>>());
    assert!(timers.iter().all(|(_, probe)| probe.wakes() == 1));
    assert_eq!((f.live(), f.advance_to(start + 50 * DAY + 1)), (1, 1), "the drain's now has moved");
}

#[test]
fn a_budget_is_kept_and_a_drain_comes_to_its_end() {
    for budget in [1, 2, 31, 32, 33, 64, 100, 1_000] {
        let mut f = Fixture::new();
        let mut random = Random(budget as u64);
        let timers: Vec<_> = (0..300).map(|_| f.armed(1 + random.below(1 << 34), Waker::noop())).collect();
        let to = Nanos::new(1 << 34);
        f.clock.set(to);
        let (mut fired, mut calls, mut cost) = (0, 0, 0);
        loop {
            let before = f.handle.stats().moved;
            let processed = f.driver.process(to, budget);
            f.handle.check();
            calls += 1;
            let moved = (f.handle.stats().moved - before) as usize;
            let fired_now = processed.fired;
            assert!(
                fired_now + moved <= budget,
                "{fired_now} fired and {moved} moved for a budget of {budget}"
            );
            assert!(processed.fired > 0 || moved > 0 || !processed.more, "a call without progress");
            fired += processed.fired;
            cost += processed.fired + moved;
            if !processed.more {
                break;
            }
        }
        assert_eq!((fired, f.live()), (300, 0));
        assert!(calls <= 2 * cost / budget + 2, "{calls} calls of {budget} for a cost of {cost}");
        drop(timers);
    }
}

#[test]
fn nothing_due_says_that_there_is_no_more() {
    let mut f = Fixture::new();
    for budget in [1, 100] {
        let none = f.driver.process(Nanos::new(1), budget);
        assert_eq!((none.fired, none.more), (0, false));
    }
    let _timer = f.armed(100 * MS, Waker::noop());
    let none = f.driver.process(Nanos::new(MS), 1);
    assert_eq!((none.fired, none.more), (0, false));
    // A budget of zero fires nothing, and reports that more may be due.
    let zero = f.driver.process(Nanos::new(200 * MS), 0);
    assert_eq!((zero.fired, zero.more), (0, true));
    assert_eq!(f.driver.next_wake(), Some(Nanos::new(200 * MS)));
    let all = f.driver.process(Nanos::new(201 * MS), 100);
    assert_eq!((all.fired, all.more), (1, false));
    assert_eq!(f.driver.next_wake(), None);
}

#[test]
fn timers_that_are_reset_in_the_middle_of_a_batch_are_moved_within_the_budget() {
    // Two thousand timers are due together; the first one that fires silently resets all others to later.
    let mut f = Fixture::new();
    let first = Probe::new(&f.handle);
    let _first = f.armed(MS, &first.waker());
    let others: Vec<_> = (0..2_000).map(|_| f.armed(MS, Waker::noop())).collect();
    let others = Arc::new(Mutex::new(others));
    let shared = others.clone();
    first.on_wake(move || {
        for timer in shared.lock().expect("nobody panicked").iter_mut() {
            timer.as_mut().reset(Nanos::new(5 * MS));
        }
    });
    f.clock.set(Nanos::new(MS));
    let mut before = f.handle.stats();
    let mut calls = 0;
    while f.driver.process(Nanos::new(MS), 10).more {
        f.handle.check();
        calls += 1;
        assert!(calls < 1_000);
        let after = f.handle.stats();
        assert!(after.moved - before.moved <= 10, "{} moves for a budget of 10", after.moved - before.moved);
        before = after;
    }
    // The timers of the first call had fired before its wakers ran.
    let left = f.live();
    assert!(first.wakes() == 1 && (1_991..=2_000).contains(&left), "{left} are left");
    assert!(calls >= 199, "only {calls} calls for two thousand moves at ten a call");
    assert_eq!((f.advance_to(5 * MS - 1), f.advance_to(5 * MS)), (0, left));
}

#[test]
fn timers_that_were_all_reset_to_later_are_moved_within_the_budget() {
    // All timers lie in one level-0 slot, out of order. All but one in a hundred, or all, or every other one were reset to later
    // since: to a later slot, within the slot, or both.
    const TIMERS: u64 = if cfg!(miri) { 300 } else { 20_000 };
    for (every, to) in [(1, 900 * MS), (100, 900 * MS), (2, 60_000), (2, 900 * MS)] {
        let mut f = Fixture::new();
        let log = Arc::new(Mutex::new(vec![]));
        let mut expected = vec![];
        let mut timers: Vec<(Timer, Waker)> = vec![];
        for number in 0..TIMERS {
            let waker = Waker::from(Arc::new(Note(log.clone(), number)));
            timers.push((f.armed(20_000 - number % 20_000, &waker), waker));
        }
        for (number, (timer, _)) in timers.iter_mut().enumerate() {
            if every == 1 || (number as u64 % every == 0) == (every == 2) {
                timer.as_mut().reset(Nanos::new(to));
            } else if number % 3 == 0 {
                timer.as_mut().reset(Nanos::new(19_999));
            }
            expected.push((timer.deadline().get(), number as u64));
        }
        expected.sort_unstable();
        for now in [20_000, 60_000, 900 * MS] {
            f.clock.set(Nanos::new(now));
            let mut more = true;
            while more {
                let before = f.handle.stats();
                let processed = f.driver.process(Nanos::new(now), 512);
                more = processed.more;
                let after = f.handle.stats();
                let (fired, moved) = (after.fired - before.fired, after.moved - before.moved);
                assert!(fired + moved <= 512, "{fired} fired and {moved} moved for a budget of 512");
                assert!(fired + moved > 0 || !more, "a call without progress");
                if before.fired % 7 == 0 {
                    f.handle.check();
                }
            }
            let due = expected.iter().filter(|(deadline, _)| *deadline <= now).count();
            assert_eq!(log.lock().expect("nobody panicked").len(), due);
        }
        let fired = log.lock().expect("nobody panicked").clone();
        assert_eq!(fired, expected.into_iter().map(|(_, number)| number).collect::<Vec<_>>());
    }
}

/// Writes its number down when it is woken.
struct Note(Arc<Mutex<Vec<u64>>>, u64);

impl Wake for Note {
    fn wake(self: Arc<Note>) {
        self.0.lock().expect("nobody panicked").push(self.1);
    }
}

#[test]
fn the_next_wake_up_lies_between_a_deadline_and_its_slack() {
    let mut f = Fixture::new();
    // The default without its widening under load.
    let fixed = Tolerance::Fixed { ratio: 1.0 / 128.0, max: Duration::from_millis(1) };
    f.driver = f.driver.with_tolerance(fixed);
    let mut random = Random(7);
    assert_eq!(f.driver.next_wake(), None);
    let mut timers = vec![];
    let mut now = 0;
    for _ in 0..2_000 {
        let deadline = now + 1 + (random.below(DAY) >> random.below(46));
        let mut timer = f.at(deadline);
        let slack = if random.below(2) == 0 {
            ((deadline - now) / 128).min(MS)
        } else {
            let bits = 1 + random.below(24);
            let tolerance = random.below(1 << bits);
            timer.as_mut().set_tolerance(Some(Duration::from_nanos(tolerance)));
            tolerance
        };
        assert!(poll(&mut timer, Waker::noop()).is_pending());
        timers.push((deadline, slack, timer));
        let earliest = timers.iter().map(|t| t.0).min().expect("some");
        let latest = timers.iter().map(|t| t.0 + t.1).min().expect("some");
        let wake = f.driver.next_wake().expect("timers are armed").get();
        assert!(wake >= earliest, "wakes up at {wake}, for nothing: the first is due at {earliest}");
        assert!(wake <= latest, "sleeps until {wake}, past {latest}");
        assert_eq!(f.driver.next_deadline(), Some(Nanos::new(earliest)));
        if random.below(3) == 0 {
            now = wake;
            let due = timers.iter().filter(|t| t.0 <= now).count();
            assert_eq!(f.advance_to(now), due);
            timers.retain(|t| t.0 > now);
        }
    }
}

#[test]
fn the_earliest_time_is_lowered_by_arming_and_raised_by_processing() {
    let mut f = Fixture::new();
    let earliest = |f: &Fixture| f.handle.earliest_due();
    assert_eq!(earliest(&f), Nanos::NEVER);
    let mut far = f.armed(50 * MS, Waker::noop());
    assert_eq!(earliest(&f), Nanos::new(50 * MS));
    let near = f.armed(20 * MS, Waker::noop());
    let _middle = f.armed(30 * MS, Waker::noop());
    assert_eq!(earliest(&f), Nanos::new(20 * MS));
    // This time is when a timer is due, whatever its slack.
    far.as_mut().set_tolerance(Some(Duration::from_secs(1)));
    far.as_mut().reset(Nanos::new(10 * MS));
    assert_eq!((earliest(&f), f.driver.next_deadline()), (Nanos::new(10 * MS), Some(Nanos::new(10 * MS))));
    // A reset to later and a cancellation may leave the time too early, for one look.
    far.as_mut().reset(Nanos::new(60 * MS));
    drop(near);
    assert!(earliest(&f) <= Nanos::new(30 * MS));
    assert_eq!(f.advance_to(29 * MS), 0);
    assert!((29 * MS + 1..=30 * MS).contains(&earliest(&f).get()), "{:?}", earliest(&f));
    assert_eq!((f.advance_to(30 * MS), f.advance_to(59 * MS)), (1, 0));
    assert!((59 * MS + 1..=60 * MS).contains(&earliest(&f).get()), "{:?}", earliest(&f));
    assert_eq!((f.advance_to(60 * MS), earliest(&f)), (1, Nanos::NEVER));
}

#[test]
fn the_earliest_time_tells_of_a_drain_that_was_cut_short_and_of_what_wakers_arm() {
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    let _timers: Vec<_> = (0..40).map(|_| f.armed(10 * MS, &probe.waker())).collect();
    let (handle, kept) = (f.handle.clone(), Mutex::new(vec![]));
    probe.on_wake(move || {
        let mut timer = Box::pin(handle.sleep_until(Nanos::new(11 * MS)));
        assert!(poll(&mut timer, Waker::noop()).is_pending());
        kept.lock().expect("nobody panicked").push(timer);
    });
    f.clock.set(Nanos::new(10 * MS));
    assert!(f.driver.process(Nanos::new(10 * MS), 7).more);
    assert_eq!(f.handle.earliest_due(), Nanos::ZERO, "it says that nothing is left of the drain");
    assert_eq!((f.advance_to(10 * MS), f.handle.earliest_due()), (33, Nanos::new(11 * MS)));
    f.driver.shutdown();
    assert_eq!(f.handle.earliest_due(), Nanos::NEVER);
}

#[test]
fn a_cancelled_timer_costs_a_few_idle_wake_ups_at_most() {
    // A bound that is out of date costs one idle wake-up for each level, not a spin, and hides no timer.
    let mut f = Fixture::new();
    for deadline in [MS, 70 * MS, 3_000 * MS, DAY] {
        let now = f.clock.now().get();
        let gone = f.armed(now + deadline / 2, Waker::noop());
        let mut kept = f.armed(now + deadline, Waker::noop());
        drop(gone);
        let mut idle = 0;
        loop {
            let wake = f.driver.next_wake().expect("one is armed").get();
            let due = wake >= now + deadline;
            assert_eq!(f.advance_to(wake), usize::from(due));
            if due {
                break;
            }
            idle += 1;
            assert!(idle <= 8, "{idle} idle wake-ups for one cancelled timer");
        }
        assert_eq!(poll(&mut kept, Waker::noop()), READY);
        assert_eq!(f.driver.next_wake(), None);
    }
}

#[test]
fn a_timer_armed_for_the_past_by_a_waker_does_not_join_the_drain() {
    // libuv #4245: a timer that arms another one for the current time starved everything else.
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    let armed = Arc::new(Mutex::new(vec![]));
    let (handle, kept) = (f.handle.clone(), armed.clone());
    let _first = f.armed(10 * MS, &probe.waker());
    probe.on_wake(move || {
        for at in [0, 9 * MS, 10 * MS] {
            let mut timer = Box::pin(handle.sleep_until(Nanos::new(at)));
            let at_once = poll(&mut timer, Waker::noop());
            kept.lock().expect("nobody panicked").push((timer, at_once));
        }
    });
    f.clock.set(Nanos::new(12 * MS));
    let processed = f.driver.process(Nanos::new(10 * MS), usize::MAX);
    assert_eq!((processed.fired, processed.more, f.live()), (1, false, 0));
    let armed = std::mem::take(&mut *armed.lock().expect("nobody panicked"));
    assert_eq!(armed.len(), 3);
    assert!(armed.into_iter().all(|(_, at_once)| at_once == READY));
}

#[test]
fn a_timer_armed_a_moment_after_the_drains_now_does_not_join_the_drain() {
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    let armed = Arc::new(Mutex::new(vec![]));
    let (handle, kept) = (f.handle.clone(), armed.clone());
    let _timers: Vec<_> = (0..40).map(|_| f.armed(10 * MS, &probe.waker())).collect();
    probe.on_wake(move || {
        let mut timer = Box::pin(handle.sleep_until(Nanos::new(10 * MS + 100)));
        assert!(poll(&mut timer, Waker::noop()).is_pending());
        kept.lock().expect("nobody panicked").push(timer);
    });
    let mut fired = 0;
    for call in 0.. {
        // The clock goes on; the drain's now does not.
        let now = 10 * MS + call;
        f.clock.set(Nanos::new(now));
        let processed = f.driver.process(Nanos::new(now), 7);
        fired += processed.fired;
        if !processed.more {
            break;
        }
    }
    assert_eq!((fired, f.live()), (40, 40));
    assert_eq!(f.advance_to(11 * MS), 40);
    assert!(armed.lock().expect("nobody panicked").iter_mut().all(|timer| timer.is_elapsed()));
}

#[test]
fn a_timer_polled_without_end_elapses() {
    // A loop that never lets the driver run, on a real clock, with near and far deadlines.
    for millis in [0, 1, 3, 20] {
        let driver = Driver::new(Clock::monotonic(), || ());
        let asked = Duration::from_millis(millis);
        let start = Instant::now();
        let mut timer = Box::pin(driver.handle().sleep(asked));
        let mut polls = 0_u64;
        while poll(&mut timer, Waker::noop()).is_pending() {
            polls += 1;
            assert!(start.elapsed() < Duration::from_secs(20), "still pending after {polls} polls");
        }
        assert!(start.elapsed() >= asked, "early");
        assert_eq!(driver.handle().stats().live, 0);
    }
}

#[test]
fn a_timeout_ends_without_the_driver_only_if_no_turn_comes_for_thousands_of_polls() {
    let mut f = Fixture::new();
    let mut timer = f.armed(MS, Waker::noop());
    f.clock.set(Nanos::new(2 * MS));
    for polls in [4_000, 4_096] {
        // A turn restarts the count. This one does not know yet that the deadline has passed.
        assert_eq!(f.driver.process(Nanos::ZERO, 100).fired, 0);
        for number in 1..=polls {
            let polled = timer.as_mut().poll_fired(&mut Context::from_waker(Waker::noop()));
            assert_eq!(polled == READY, number == 4_096, "at poll {number}");
        }
    }
}

#[test]
fn a_far_timer_polled_without_end_reads_the_clock_now_and_then() {
    // On a test clock this can be counted: the 64th poll since the driver's last turn reads it.
    let mut f = Fixture::new();
    let mut timer = f.armed(100 * MS, Waker::noop());
    for polls in [20, 64] {
        // A turn of the driver restarts the count. After it the clock goes on, unseen.
        assert_eq!(f.driver.process(Nanos::ZERO, 100).fired, 0);
        f.clock.set(Nanos::new(200 * MS));
        for number in 1..=polls {
            assert_eq!(poll(&mut timer, Waker::noop()) == READY, number == 64, "at poll {number}");
        }
    }
    assert_eq!((f.live(), f.handle.stats().fired), (0, 1));
    // For a near deadline the clock is read at once.
    let mut near = f.armed(200 * MS + MS, Waker::noop());
    f.clock.set(Nanos::new(201 * MS));
    assert_eq!(poll(&mut near, Waker::noop()), READY);
}

#[test]
fn a_sleep_of_zero_is_ready_and_reads_no_clock() {
    let f = Fixture::starting_at(5 * MS);
    f.clock.set(Nanos::new(9 * MS));
    let mut timer = Box::pin(f.handle.sleep(Duration::ZERO));
    assert_eq!((timer.deadline(), f.handle.latest()), (Nanos::new(5 * MS), Nanos::new(5 * MS)));
    assert_eq!(poll(&mut timer, Waker::noop()), READY);
    assert_eq!((f.handle.stats().armed, f.handle.latest()), (0, Nanos::new(5 * MS)));
    let mut one = Box::pin(f.handle.sleep(Duration::from_nanos(1)));
    assert_eq!(poll(&mut one, Waker::noop()), Poll::Pending);
}

#[test]
fn a_deadline_is_not_rounded() {
    for deadline in [1, 2, 65_535, 65_536, 65_537, 1_000_001, (1 << 58) + 1] {
        let mut f = Fixture::new();
        let probe = Probe::new(&f.handle);
        let _timer = f.armed(deadline, &probe.waker());
        assert_eq!((f.advance_to(deadline - 1), f.advance_to(deadline), probe.wakes()), (0, 1, 1));
    }
}
