//! What the lanes are charged for and forgiven, and turns in which polls are counted.

use super::*;

#[test]
fn lanes_are_forgiven_as_much_time_as_passes_while_nothing_is_left_to_run() {
    // What timers have used, in microseconds; they wait when they have had 100 more than others.
    const AHEAD: u64 = 1_000;
    for (rests, goes_on, is_counted, passes, waits) in [
        (true, false, false, AHEAD - 110, true),
        (true, false, false, AHEAD - 90, false),
        (true, true, false, AHEAD - 90, true),
        (false, false, false, AHEAD - 90, true),
        (true, false, true, AHEAD - 90, true),
    ] {
        let (runtime, clock) = runtime();
        let (handle, executor) = (runtime.handle(), &runtime.executor);
        let now = || handle.timers().now();
        let pass = |micros| clock.advance(Duration::from_micros(micros));
        let mut pace = Pace::new(None, is_counted);
        pace.begin(handle, executor, now());
        (0..AHEAD).for_each(|_| executor.charge_lane(Lane::Timer, 1_000));
        // What comes before it is found that nothing is left does not count.
        pass(50);
        let spawn = || runtime.spawn(std::future::pending::<()>());
        let mut ready = (!rests).then(spawn);
        pace.rest(handle, executor);
        if goes_on {
            // Another turn, which ends while a task is ready.
            ready = Some(spawn());
            pace.begin(handle, executor, now());
            pace.is_over(handle, executor, 1);
        }
        pass(passes);
        let ready = ready.unwrap_or_else(spawn);
        assert_eq!(pace.begin(handle, executor, now()), waits, "{rests} {goes_on} {is_counted} {passes}");
        ready.abort();
    }
}

#[test]
fn the_last_polls_before_nothing_is_left_to_run_are_charged_while_a_lane_is_ahead() {
    for is_counted in [false, true] {
        let (runtime, clock) = runtime();
        let (handle, executor) = (runtime.handle(), &runtime.executor);
        let time = clock.clone();
        let ends = runtime.spawn(async move { time.advance(POLL) });
        let _entered = executor.enter();
        let mut pace = Pace::new(None, is_counted);
        pace.begin(handle, executor, handle.timers().now());
        let read = pace.read;
        (0..120).for_each(|_| executor.charge_lane(Lane::Timer, 1_000));
        assert!(executor.must_wait(Lane::Timer));
        executor.run(1, || ControlFlow::Continue(()));
        assert!(ends.is_finished());
        pace.rest(handle, executor);
        assert_eq!(pace.read == read, is_counted);
        let ready = runtime.spawn(std::future::pending::<()>());
        assert_eq!(pace.begin(handle, executor, handle.timers().now()), is_counted);
        ready.abort();
    }
}

#[test]
fn a_look_for_a_lane_is_charged_to_it_from_the_latest_reading_and_once() {
    let (runtime, clock) = runtime();
    let (handle, executor) = (runtime.handle(), &runtime.executor);
    let ready = runtime.spawn(std::future::pending::<()>());
    let now = || handle.timers().now();
    let pass = |micros| clock.advance(Duration::from_micros(micros));
    let mut pace = Pace::new(None, false);
    pace.begin(handle, executor, now());
    let look = |pace: &mut Pace, ended_for| {
        pass(30);
        pace.is_over(handle, executor, 1);
        pace.ended_for = ended_for;
        pass(80);
        pace.begin(handle, executor, now());
        // The turn ends because nothing is ready; the next look is nobody's.
        pass(80);
        pace.begin(handle, executor, now());
        executor.must_wait(Lane::Timer)
    };
    // A lane may be 100 µs ahead.
    assert!(!look(&mut pace, Some(Lane::Timer)));
    assert!(!look(&mut pace, None));
    pass(19);
    pace.charge(executor, Lane::Timer, now());
    pace.charge(executor, Lane::Timer, now());
    assert!(!executor.must_wait(Lane::Timer));
    assert!(look(&mut pace, Some(Lane::Timer)));
    ready.abort();
}

#[test]
fn what_lanes_have_used_is_forgotten_when_polls_begin_to_be_counted_and_only_then() {
    let (runtime, _clock) = runtime();
    let (handle, executor) = (runtime.handle(), &runtime.executor);
    let now = handle.timers().now();
    let ready = runtime.spawn(std::future::pending::<()>());
    let get_ahead = || (0..2_001).for_each(|_| executor.charge_lane(Lane::Timer, 1_000));
    let mut pace = Pace::new(None, false);
    pace.begin(handle, executor, now);
    get_ahead();
    assert!(executor.must_wait(Lane::Timer));
    // As if time was paused.
    pace.test_clock = true;
    pace.begin(handle, executor, now);
    assert!(!executor.must_wait(Lane::Timer));
    get_ahead();
    pace.begin(handle, executor, now);
    assert!(executor.must_wait(Lane::Timer));
    ready.abort();
}

#[test]
fn a_turn_in_which_polls_are_counted_has_so_many_whatever_they_take() {
    for (test_clock, interval) in [(true, None), (false, None), (true, Some(7)), (false, Some(7))] {
        // Either the program advances the clock, or time is paused.
        let (runtime, clock) =
            if test_clock { runtime() } else { (Runtime::new().unwrap(), TestClock::new()) };
        if !test_clock {
            runtime.block_on(async { crate::time::pause() });
        }
        let (handle, executor) = (runtime.handle(), &runtime.executor);
        let ready = runtime.spawn(std::future::pending::<()>());
        let now = || handle.timers().now();
        let polls = interval.unwrap_or(MOST);
        let mut pace = Pace::new(interval, test_clock);
        for _ in 0..2 {
            assert!(!pace.begin(handle, executor, now()));
            assert_eq!(pace.stretch(handle, executor), polls);
            clock.advance(POLL);
            assert!(!pace.is_over(handle, executor, polls - 2));
            assert_eq!(pace.stretch(handle, executor), 2);
            assert!(!pace.is_over(handle, executor, 1));
            // A stretch that has taken no task counts, too.
            assert!(pace.is_over(handle, executor, 0));
            // Nor does the clock say what was done beside polls.
            for _ in 0..200 {
                clock.advance(Duration::from_micros(1));
                pace.charge(executor, Lane::Timer, now());
            }
            assert!(!executor.must_wait(Lane::Timer));
        }
        ready.abort();
    }
}

#[test]
fn a_turn_whose_polls_the_program_has_bounded_ends_with_the_last_of_them() {
    let (runtime, _clock) = runtime();
    let (handle, executor) = (runtime.handle(), &runtime.executor);
    let mut pace = Pace::new(Some(7), false);
    pace.begin(handle, executor, handle.timers().now());
    assert!(!pace.is_over(handle, executor, 6));
    assert!(pace.is_over(handle, executor, 1));
}

#[test]
fn time_that_is_paused_in_a_turn_says_no_more_how_long_it_took() {
    let runtime = Runtime::new().unwrap();
    let mut pace = Pace::new(None, false);
    pace.begin(runtime.handle(), &runtime.executor, runtime.handle().timers().now());
    assert!(!pace.is_counted(runtime.handle()));
    runtime.block_on(async { crate::time::pause() });
    assert!(pace.is_counted(runtime.handle()));
}

#[test]
fn no_deadline_ends_a_turn_while_timers_must_wait() {
    let (runtime, _clock) = runtime();
    let (handle, executor) = (runtime.handle(), &runtime.executor);
    let task = runtime.spawn(sleep(POLL));
    runtime.block_on(yield_now());
    let ready = runtime.spawn(std::future::pending::<()>());
    let mut pace = Pace::new(None, false);
    pace.begin(handle, executor, handle.timers().now());
    assert_ne!(pace.next_deadline(handle, executor), Nanos::NEVER);
    (0..101).for_each(|_| executor.charge_lane(Lane::Timer, 1_000));
    assert!(executor.must_wait(Lane::Timer));
    assert_eq!(pace.next_deadline(handle, executor), Nanos::NEVER);
    task.abort();
    ready.abort();
}

#[test]
fn polls_take_results_until_the_slice_ends_and_without_end_where_they_are_counted() {
    let runtime = Runtime::new().unwrap();
    let (handle, executor) = (runtime.handle(), &runtime.executor);
    let mut pace = Pace::new(None, false);
    let results = || {
        let mut cx = std::task::Context::from_waker(Waker::noop());
        let take = || coop::poll_proceed(&mut cx).map(|permit| permit.spend()).is_ready();
        coop::fresh(|| std::iter::repeat_with(take).take(1_000).take_while(|taken| *taken).count())
    };
    pace.begin(handle, executor, handle.timers().now());
    pace.stretch(handle, executor);
    std::thread::sleep(Duration::from_nanos(2 * coop::SLICE));
    assert!(results() < coop::LIMIT as usize);
    runtime.block_on(async { crate::time::pause() });
    pace.begin(handle, executor, handle.timers().now());
    pace.stretch(handle, executor);
    assert_eq!(results(), coop::LIMIT as usize);
}

#[test]
fn a_turn_that_ends_for_a_look_only_is_for_what_sockets_wake() {
    let (runtime, clock) = runtime();
    let (handle, executor) = (runtime.handle(), &runtime.executor);
    let sleeping = runtime.spawn(sleep(POLL));
    runtime.block_on(yield_now());
    let (wake, woken) = futures::channel::oneshot::channel::<()>();
    let woken = runtime.spawn(woken);
    let ends = runtime.spawn(async {});
    let _entered = executor.enter();
    let mut pace = Pace::new(None, false);
    pace.begin(handle, executor, handle.timers().now());
    executor.looked(true);
    executor.run(1, || ControlFlow::Continue(()));
    {
        let _waking = executor.waking(Lane::Timer);
        drop(wake);
    }
    assert!(!pace.is_over(handle, executor, 1));
    assert_eq!(pace.ended_for, None);
    // Only the task that a timer woke is left, and its lane is ahead.
    (0..101).for_each(|_| executor.charge_lane(Lane::Timer, 1_000));
    executor.run(1, || ControlFlow::Continue(()));
    assert!(ends.is_finished() && !woken.is_finished());
    assert!(executor.must_look());
    assert!(pace.is_over(handle, executor, 1));
    assert_eq!(pace.ended_for, Some(Lane::Woken));
    clock.advance(POLL);
    sleeping.abort();
}
