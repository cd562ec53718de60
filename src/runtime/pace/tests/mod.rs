//! When turns end, by a test clock that is advanced as polls would take time. `lanes.rs` has what lanes are charged for, and turns in
//! which polls are counted.

mod lanes;

use super::*;
use crate::runtime::{Builder, Runtime};
use crate::task::yield_now;
use crate::time::{Clock, TestClock, sleep};
use std::cell::Cell;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

const POLL: Duration = Duration::from_micros(40);

/// Returns how many polls of 40 µs there are in a turn at whose beginning this number of tasks is ready.
fn polls(runtime: &Runtime, clock: &TestClock, ready: usize, hosted: bool) -> usize {
    let (handle, executor) = (runtime.handle(), &runtime.executor);
    let tasks: Vec<_> = (0..ready).map(|_| runtime.spawn(std::future::pending::<()>())).collect();
    let entered = executor.enter();
    // The clock is read as if it were the system's.
    let mut pace = Pace::new(None, false);
    pace.enter(hosted);
    pace.begin(handle, executor, handle.timers().now());
    let mut polls = 0;
    loop {
        let stretch = pace.stretch(handle, executor);
        // Once these tasks have run, others would.
        let taken = executor.run(stretch, || ControlFlow::Continue(())).taken;
        let taken = if taken == 0 { stretch } else { taken };
        clock.advance(POLL * taken as u32);
        polls += taken;
        if pace.is_over(handle, executor, taken) {
            break;
        }
    }
    drop(entered);
    // As the runtime itself does, because it has a test clock.
    executor.begin_counting();
    tasks.iter().for_each(|task| task.abort());
    runtime.block_on(yield_now());
    polls
}

fn runtime() -> (Runtime, TestClock) {
    let clock = TestClock::new();
    (Builder::new().clock(Clock::Test(clock.clone())).build().unwrap(), clock)
}

#[test]
fn a_turn_has_time_for_what_was_ready_at_the_look_and_little_for_anything_else() {
    let (runtime, clock) = runtime();
    assert!(polls(&runtime, &clock, 0, false) <= 3);
    assert_eq!(polls(&runtime, &clock, 10, false), 10);
    assert_eq!(polls(&runtime, &clock, 20, false), 20);
    let most = polls(&runtime, &clock, 1_000, false);
    assert!((25..30).contains(&most), "{most}");
}

#[test]
fn a_turn_has_time_for_what_was_ready_at_the_look_also_if_tasks_of_another_lane_run_between() {
    let (runtime, clock) = runtime();
    let (handle, executor) = (runtime.handle(), &runtime.executor);
    let _entered = executor.enter();
    let mut pace = Pace::new(None, false);
    let mut turn = || {
        pace.begin(handle, executor, handle.timers().now());
        loop {
            let taken = executor.run(pace.stretch(handle, executor), || ControlFlow::Continue(())).taken;
            if pace.is_over(handle, executor, taken) {
                break;
            }
        }
    };
    // Each poll of this task exhausts its budget.
    let (greedy, time) = (Rc::new(Cell::new(0)), clock.clone());
    let polls = greedy.clone();
    let exhausting = runtime.spawn(poll_fn(move |cx| {
        time.advance(POLL);
        polls.set(polls.get() + 1);
        loop {
            let Poll::Ready(permit) = coop::poll_proceed(cx) else { return Poll::<()>::Pending };
            permit.spend();
        }
    }));
    turn();
    greedy.set(0);
    let turns = Rc::new(Cell::new(0));
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let (turns, time) = (turns.clone(), clock.clone());
            runtime.spawn(poll_fn(move |_| {
                time.advance(POLL);
                turns.set(turns.get() + 1);
                Poll::<()>::Pending
            }))
        })
        .collect();
    turn();
    assert!(greedy.get() > 1, "{} turns between", greedy.get());
    assert_eq!(turns.get(), 10, "beside {} of the other lane", greedy.get());
    tasks.iter().chain([&exhausting]).for_each(|task| task.abort());
}

#[test]
fn a_turn_under_somebody_elses_loop_ends_as_soon_whatever_is_ready() {
    let (runtime, clock) = runtime();
    assert!(polls(&runtime, &clock, 1_000, true) <= 3);
}

#[test]
fn a_turn_lasts_until_a_deadline_that_is_near_its_end() {
    // The clock advances by this with each poll.
    const STEP: u64 = 100;
    for deadline in [INTERVAL - NEAR, INTERVAL + NEAR, INTERVAL + NEAR + STEP] {
        let (runtime, clock) = runtime();
        let (handle, executor) = (runtime.handle(), &runtime.executor);
        let task = runtime.spawn(sleep(Duration::from_nanos(deadline)));
        runtime.block_on(yield_now());
        let began = handle.timers().now();
        let mut pace = Pace::new(None, false);
        pace.begin(handle, executor, began);
        loop {
            let stretch = pace.stretch(handle, executor);
            clock.advance(Duration::from_nanos(STEP) * stretch as u32);
            if pace.is_over(handle, executor, stretch) {
                break;
            }
        }
        let lasted = handle.timers().now().get() - began.get();
        let is_near = deadline <= INTERVAL + NEAR;
        let ends = if is_near { deadline - LOOK } else { INTERVAL - executor.next_cost() / 2 };
        assert!((ends..ends + STEP).contains(&lasted), "{lasted} instead of {ends}");
        assert_eq!(pace.ended_for == Some(Lane::Timer), is_near);
        task.abort();
    }
}

#[test]
fn after_a_look_that_found_something_others_have_as_much_time_as_those_that_it_woke() {
    // The clock advances by this with each poll.
    const STEP: u64 = 100;
    for (found, woken, lasts) in [
        (true, 1_000, SOON),
        (true, 8_000, 16_000),
        (true, INTERVAL - 2 * SOON, INTERVAL),
        (true, 4 * INTERVAL, 4 * INTERVAL + INTERVAL / 2),
        (false, 8_000, INTERVAL),
    ] {
        let (runtime, clock) = runtime();
        let (handle, executor) = (runtime.handle(), &runtime.executor);
        let began = handle.timers().now();
        let mut pace = Pace::new(None, false);
        pace.begin(handle, executor, began);
        pace.found = found;
        let (mut taken, mut took) = (1, woken);
        loop {
            clock.advance(Duration::from_nanos(took));
            if pace.is_over(handle, executor, taken) {
                break;
            }
            taken = pace.stretch(handle, executor);
            took = STEP * taken as u64;
        }
        let lasted = handle.timers().now().get() - began.get();
        let ends = lasts - executor.next_cost() / 2;
        assert!((ends..ends + STEP).contains(&lasted), "{lasted} instead of {ends}");
    }
}

#[test]
fn after_a_look_that_found_something_the_next_comes_soon_also_beside_tasks_that_wake_each_other() {
    let (runtime, clock) = runtime();
    let (handle, executor) = (runtime.handle(), &runtime.executor);
    let wakers = Rc::new([const { Cell::new(None::<Waker>) }; 2]);
    let tasks = [0, 1].map(|me| {
        let (wakers, clock) = (wakers.clone(), clock.clone());
        runtime.spawn(poll_fn(move |cx| {
            clock.advance(Duration::from_nanos(100));
            wakers[me].set(Some(cx.waker().clone()));
            if let Some(other) = wakers[1 - me].take() {
                other.wake();
            }
            Poll::<()>::Pending
        }))
    });
    let _entered = executor.enter();
    let mut pace = Pace::new(None, false);
    let mut lasted = |found| {
        let began = handle.timers().now();
        pace.begin(handle, executor, began);
        pace.found = found;
        assert_eq!(pace.stretch(handle, executor), FIRST);
        loop {
            let most = pace.stretch(handle, executor);
            let taken = executor.run(most, || ControlFlow::Continue(())).taken;
            if pace.is_over(handle, executor, taken) {
                return handle.timers().now().get() - began.get();
            }
        }
    };
    // What polls cost is learnt.
    lasted(false);
    for (found, ends) in [(false, INTERVAL), (true, SOON), (false, INTERVAL), (true, SOON)] {
        let lasted = lasted(found);
        assert!((ends - 1_000..ends + 1_000).contains(&lasted), "{lasted} instead of {ends}");
    }
    tasks.iter().for_each(|task| task.abort());
}

#[cfg(unix)]
#[test]
fn a_turn_knows_whether_its_look_has_found_something() {
    use std::io::Write;
    let runtime = Runtime::new().unwrap();
    let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    drop(runtime.spawn(async move {
        let mut ours = crate::io::AsyncFd::new(ours).unwrap();
        while futures::AsyncReadExt::read(&mut ours, &mut [0]).await.is_ok() {}
    }));
    let found = || {
        runtime.turn(Duration::ZERO);
        runtime.event_loop.borrow().pace.found
    };
    // The first may tell that there is room to write.
    found();
    found();
    assert!(!found());
    theirs.write_all(&[0]).unwrap();
    assert!(found() || found());
    assert!(!found());
}

#[test]
fn a_look_for_a_deadline_fires_its_timer_and_what_a_foreign_loop_does_then_is_charged_to_nobody() {
    for hosted in [false, true] {
        let (runtime, clock) = runtime();
        let (handle, executor) = (runtime.handle(), &runtime.executor);
        let now = || handle.timers().now();
        let task = runtime.spawn(sleep(POLL));
        runtime.block_on(yield_now());
        let ready = runtime.spawn(std::future::pending::<()>());
        let mut pace = Pace::new(None, false);
        pace.enter(hosted);
        assert!(!pace.begin(handle, executor, now()));
        while !pace.is_over(handle, executor, pace.stretch(handle, executor)) {
            clock.advance(POLL);
        }
        assert_eq!(pace.ended_for, Some(Lane::Timer));
        // Nearly as much as timers may be ahead.
        (0..99).for_each(|_| executor.charge_lane(Lane::Timer, 1_000));
        clock.advance(1_000 * POLL);
        if hosted {
            pace.enter(hosted);
        }
        assert!(!pace.begin(handle, executor, now()), "however long the look took");
        assert_eq!(executor.must_wait(Lane::Timer), !hosted);
        task.abort();
        ready.abort();
    }
}

#[test]
fn a_slice_ends_at_the_next_deadline_or_some_time_before() {
    let (by_test_clock, _clock) = runtime();
    let runtime = Runtime::new().unwrap();
    let mut pace = Pace::new(None, false);
    // The turn began earlier.
    let read = 1_000_000;
    pace.read = Nanos::new(read);
    let end = coop::SLICE + LEAST;
    for (due, length) in [
        (0, LEAST),
        (LEAST + 1, LEAST + 1),
        (end - 1, end - 1),
        (end, coop::SLICE),
        (u64::MAX - read, coop::SLICE),
    ] {
        let due = Nanos::new(read + due);
        let slice = pace.slice(runtime.handle(), due);
        assert_eq!((slice.length, slice.until), (length, Nanos::new(read + length)));
        // A test clock does not say when that is by the system's clock.
        let before = system::now().get();
        let slice = pace.slice(by_test_clock.handle(), due);
        let after = system::now().get();
        assert_eq!(slice.length, length);
        assert!((before + length..=after + length).contains(&slice.until.get()));
    }
}

#[test]
fn a_stretch_has_as_many_polls_as_fit_into_what_is_left_of_the_turn_and_no_more_than_may_be() {
    // What a poll is expected to cost, in nanoseconds.
    const COST: u64 = 1_000;
    const FIT: usize = (INTERVAL / COST) as usize;
    for (ready, deadline, hosted, polls) in [
        (0, None, false, FIT),
        (0, Some(20), false, 20),
        // These were ready at the look.
        (10, None, false, FIT),
        (55, None, false, 55),
        (55, None, true, FIT),
        (55, Some(20), false, 20),
        (1_000, None, false, MOST),
    ] {
        let (runtime, _clock) = runtime();
        let (handle, executor) = (runtime.handle(), &runtime.executor);
        let sleeping = deadline.map(|polls| runtime.spawn(sleep(Duration::from_nanos(polls * COST))));
        runtime.block_on(yield_now());
        let tasks: Vec<_> = (0..ready).map(|_| runtime.spawn(std::future::pending::<()>())).collect();
        let mut pace = Pace::new(None, false);
        pace.enter(hosted);
        pace.begin(handle, executor, handle.timers().now());
        assert_eq!(executor.next_cost(), COST);
        assert_eq!(pace.stretch(handle, executor), FIRST, "at the beginning");
        pace.most = MOST;
        assert_eq!(pace.stretch(handle, executor), polls, "{ready} ready, hosted: {hosted}");
        tasks.iter().chain(&sleeping).for_each(|task| task.abort());
    }
}

#[test]
fn the_clock_is_read_after_more_and_more_polls_that_take_nothing() {
    let (runtime, _clock) = runtime();
    let (handle, executor) = (runtime.handle(), &runtime.executor);
    let task = runtime.spawn(async {
        loop {
            yield_now().await;
        }
    });
    let _entered = executor.enter();
    let mut pace = Pace::new(None, false);
    pace.begin(handle, executor, handle.timers().now());
    let stretches = [(); 8].map(|()| {
        let stretch = pace.stretch(handle, executor);
        let taken = executor.run(stretch, || ControlFlow::Continue(())).taken;
        assert!(!pace.is_over(handle, executor, taken));
        stretch
    });
    assert_eq!(stretches, [1, 2, 4, 8, 16, 32, MOST, MOST]);
    task.abort();
}

#[test]
fn while_what_a_look_has_woken_is_yet_to_run_others_have_no_time_of_their_own() {
    let (runtime, clock) = runtime();
    let (handle, executor) = (runtime.handle(), &runtime.executor);
    let tasks: Vec<_> = (0..10).map(|_| runtime.spawn(std::future::pending::<()>())).collect();
    let _entered = executor.enter();
    let mut pace = Pace::new(None, false);
    pace.begin(handle, executor, handle.timers().now());
    pace.found = true;
    let mut polls = 0;
    loop {
        executor.run(1, || ControlFlow::Continue(()));
        clock.advance(POLL);
        polls += 1;
        if pace.is_over(handle, executor, 1) {
            break;
        }
    }
    // An eighth of the time that the ten have taken is left.
    assert!(polls > 10, "{polls}");
    tasks.iter().for_each(|task| task.abort());
}

#[test]
fn a_turn_of_cheap_polls_ends_closer_to_a_deadline_than_a_look_takes() {
    let (runtime, clock) = runtime();
    let (handle, executor) = (runtime.handle(), &runtime.executor);
    let sleeping = runtime.spawn(sleep(POLL));
    runtime.block_on(yield_now());
    let deadline = handle.timers().now().get() + POLL.as_nanos() as u64;
    let time = clock.clone();
    let task = runtime.spawn(poll_fn(move |cx| {
        time.advance(Duration::from_nanos(100));
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    }));
    let _entered = executor.enter();
    let mut pace = Pace::new(None, false);
    pace.begin(handle, executor, handle.timers().now());
    while executor.next_cost() > 100 {
        executor.run(1, || ControlFlow::Continue(()));
        assert!(!pace.is_over(handle, executor, 1));
    }
    let to = |left| clock.advance(Duration::from_nanos(deadline - left - handle.timers().now().get()));
    to(LOOK - 100);
    assert!(!pace.is_over(handle, executor, 1));
    to(51);
    assert!(!pace.is_over(handle, executor, 1));
    to(50);
    assert!(pace.is_over(handle, executor, 1));
    task.abort();
    sleeping.abort();
}

#[test]
fn a_block_on_does_not_take_what_an_earlier_look_has_found_for_its_own() {
    let mut pace = Pace::new(None, false);
    pace.found = true;
    pace.enter(false);
    assert!(!pace.found);
}

#[test]
fn a_deadline_ends_a_turn_also_while_tasks_are_ready() {
    let (runtime, clock) = runtime();
    let task = runtime.spawn(sleep(3 * POLL));
    runtime.block_on(yield_now());
    let polls = polls(&runtime, &clock, 20, false);
    assert!((3..=7).contains(&polls), "{polls}");
    task.abort();
}

#[test]
fn what_a_poll_has_taken_is_expected_of_the_next() {
    let (runtime, clock) = runtime();
    let (handle, executor) = (runtime.handle(), &runtime.executor);
    let task = runtime.spawn(std::future::poll_fn(move |cx| {
        clock.advance(POLL);
        cx.waker().wake_by_ref();
        std::task::Poll::<()>::Pending
    }));
    let _entered = executor.enter();
    let mut pace = Pace::new(None, false);
    pace.begin(handle, executor, handle.timers().now());
    // It is new at first, and then it has yielded.
    for _ in 0..2 {
        executor.run(1, || ControlFlow::Continue(()));
        pace.is_over(handle, executor, 1);
    }
    assert_eq!(executor.next_cost(), POLL.as_nanos() as u64);
    task.abort();
}

#[test]
fn no_deadline_ends_a_turn_while_a_task_that_a_timer_woke_is_ready() {
    let (runtime, _clock) = runtime();
    let (handle, executor) = (runtime.handle(), &runtime.executor);
    let (wake, woken) = futures::channel::oneshot::channel::<()>();
    let woken = runtime.spawn(woken);
    let task = runtime.spawn(sleep(POLL));
    runtime.block_on(yield_now());
    let mut pace = Pace::new(None, false);
    pace.begin(handle, executor, handle.timers().now());
    let _entered = executor.enter();
    assert_ne!(pace.next_deadline(handle, executor), Nanos::NEVER);
    {
        let _waking = executor.waking(Lane::Timer);
        drop(wake);
    }
    assert_eq!(pace.next_deadline(handle, executor), Nanos::NEVER);
    executor.run(1, || ControlFlow::Continue(()));
    assert!(woken.is_finished());
    assert_ne!(pace.next_deadline(handle, executor), Nanos::NEVER);
    task.abort();
}

#[test]
fn a_turn_knows_nothing_of_the_deadline_of_the_turn_before() {
    let (runtime, _clock) = runtime();
    let (handle, executor) = (runtime.handle(), &runtime.executor);
    let task = runtime.spawn(sleep(POLL / 2));
    runtime.block_on(yield_now());
    let mut pace = Pace::new(None, false);
    let mut polls = || {
        pace.begin(handle, executor, handle.timers().now());
        pace.most = MOST;
        let polls = pace.stretch(handle, executor);
        pace.is_over(handle, executor, 1);
        polls
    };
    assert_eq!(polls(), 20);
    task.abort();
    runtime.block_on(yield_now());
    assert!(polls() > 20);
}
