//! What one turn does, how long it may sleep, and what the host is told about the next turn.

use std::cell::RefCell;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use crate::common::{HOUR, LONG, manual, ms, paused, us, watchdog};
use crate::rest;
use futures::FutureExt;
use futures::channel::oneshot;
use mainspring::task::yield_now;
use mainspring::time::{Clock, Instant, TestClock, advance, sleep_until};
use mainspring::{Builder, Runtime, sleep, spawn};

#[test]
fn turns_run_tasks_and_timers_to_their_end() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let start = StdInstant::now();
    let task = runtime.spawn(async {
        for _ in 0..10 {
            sleep(us(300)).await;
            spawn(yield_now()).await.unwrap();
        }
        "done"
    });
    while !task.is_finished() {
        runtime.turn(HOUR);
    }
    assert!(start.elapsed() >= ms(3));
    assert_eq!(task.now_or_never().unwrap().unwrap(), "done");
}

#[test]
fn a_turn_of_no_length_never_sleeps() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let task = runtime.spawn(sleep(HOUR));
    for _ in 0..1_000 {
        runtime.turn(Duration::ZERO);
    }
    assert_eq!(runtime.handle().metrics().wakeups(), 0);
    assert!(!task.is_finished());
}

#[test]
fn a_turn_sleeps_no_longer_than_it_may_on_any_clock() {
    let _watchdog = watchdog(LONG);
    let test = Builder::new().clock(Clock::Test(TestClock::new())).build().unwrap();
    for runtime in [Runtime::new().unwrap(), manual(), test] {
        rest(&runtime);
        let start = StdInstant::now();
        // A turn that is not interrupted waits for the whole time.
        while start.elapsed() < ms(20) {
            assert!(!runtime.turn(ms(20)));
        }
        let task = runtime.spawn(sleep(HOUR));
        rest(&runtime);
        assert!(!runtime.turn(ms(1)));
        assert!(!task.is_finished());
    }
}

#[test]
fn the_next_wake_is_zero_with_something_ready_and_else_the_time_to_the_next_timer() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    assert_eq!(runtime.next_wake(), None);
    let short = runtime.spawn(sleep(Duration::from_secs(1_000)));
    let long = runtime.spawn(sleep(HOUR));
    assert_eq!(runtime.next_wake(), Some(Duration::ZERO));
    rest(&runtime);
    for _ in 0..3 {
        let left = runtime.next_wake().unwrap();
        assert!(left > Duration::from_secs(900) && left < Duration::from_secs(1_001), "{left:?}");
    }
    short.abort();
    assert_eq!(runtime.next_wake(), Some(Duration::ZERO));
    rest(&runtime);
    // The time of a cancelled timer may be reported once more, and an idle turn corrects it.
    assert!(runtime.next_wake().unwrap() < Duration::from_secs(3_601));
    long.abort();
    rest(&runtime);
    let endless = runtime.spawn(async {
        loop {
            yield_now().await;
        }
    });
    for _ in 0..10 {
        assert!(runtime.turn(HOUR), "a task is ready");
        assert_eq!(runtime.next_wake(), Some(Duration::ZERO));
    }
    endless.abort();
    rest(&runtime);
}

#[test]
fn timers_that_one_turn_does_not_fire_are_more_to_do() {
    let _watchdog = watchdog(LONG);
    let runtime = Builder::new().timer_budget(10).build().unwrap();
    let at = Instant::now() + ms(20);
    let tasks: Vec<_> = (0..500).map(|_| runtime.spawn(sleep_until(at))).collect();
    rest(&runtime);
    while !tasks.iter().any(|task| task.is_finished()) {
        runtime.turn(HOUR);
    }
    // From here on there is nothing to wait for.
    rest(&runtime);
    assert!(tasks.iter().all(|task| task.is_finished()));
}

/// Otherwise a host that sleeps for a frame then makes the timer a frame late.
#[test]
fn a_turn_after_which_a_timer_is_due_says_so() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let sleeps = runtime.spawn(sleep(ms(2)));
    rest(&runtime);
    let computes = runtime.spawn(async { thread::sleep(ms(4)) });
    assert!(runtime.turn(Duration::ZERO));
    assert!(computes.is_finished());
    rest(&runtime);
    assert!(sleeps.is_finished());
}

#[test]
fn paused_time_moves_by_turns_and_not_without_them() {
    let _watchdog = watchdog(LONG);
    let runtime = paused();
    let log = Rc::new(RefCell::new(Vec::new()));
    let seen = log.clone();
    let task = runtime.spawn(async move {
        let start = Instant::now();
        for hours in [1, 5, 2] {
            sleep(HOUR * hours).await;
            seen.borrow_mut().push(start.elapsed().as_secs() / 3600);
        }
    });
    let start = StdInstant::now();
    while !task.is_finished() {
        rest(&runtime);
        assert_eq!(runtime.next_wake(), (!task.is_finished()).then_some(Duration::ZERO));
    }
    assert!(start.elapsed() < LONG);
    assert_eq!(*log.borrow(), [1, 6, 8]);

    // Time stands still unless it is advanced.
    let runtime = manual();
    let task = runtime.spawn(sleep(HOUR));
    rest(&runtime);
    assert_eq!(runtime.next_wake(), None);
    runtime.spawn(async { advance(HOUR).await }).detach();
    while !task.is_finished() {
        assert_eq!(runtime.next_wake(), Some(Duration::ZERO));
        runtime.turn(Duration::ZERO);
    }
}

#[test]
fn block_on_and_turns_take_turns() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    for _ in 0..20 {
        rest(&runtime);
        runtime.next_wake();
        // The runtime sleeps on its own after a sleep that was promised to the host, and a call from another thread ends it.
        let handle = handle.clone();
        let (send, receive) = oneshot::channel();
        let other = thread::spawn(move || {
            handle.spawn(async { send.send(7).unwrap() }).detach();
        });
        assert_eq!(runtime.block_on(receive), Ok(7));
        assert!(runtime.block_on(async { spawn(sleep(us(100))).await.is_ok() }));
        other.join().unwrap();
    }
}

/// Otherwise the other loop comes by for every few blocks, with all that it does besides.
#[test]
fn a_turn_that_leaves_memory_to_be_freed_says_so() {
    let _watchdog = watchdog(LONG);
    // Where a clock is advanced by the program, it is turns that are counted.
    let runtime = Builder::new().clock(Clock::Test(TestClock::new())).build().unwrap();
    (0..2_000).for_each(|_| runtime.spawn(async {}).detach());
    rest(&runtime);
    for _ in 0..4_000 {
        if !runtime.turn(Duration::ZERO) {
            assert_ne!(runtime.next_wake(), Some(Duration::ZERO));
        }
    }
}

/// The pool keeps no memory of these tasks, but the queues were long.
#[test]
fn the_thread_wakes_up_for_the_queues_of_a_burst_too() {
    let _watchdog = watchdog(LONG);
    for other_thread in [false, true] {
        let runtime = Runtime::new().unwrap();
        let handle = runtime.handle().clone();
        let burst = move || {
            for n in 0..20_000 {
                let large = [n; 200];
                handle.spawn(async move { _ = std::hint::black_box(large) }).detach();
            }
        };
        if other_thread {
            thread::spawn(burst).join().unwrap()
        } else {
            burst()
        }
        rest(&runtime);
        assert!(runtime.next_wake().is_some_and(|left| left <= ms(1_000)));
    }
}

/// A long queue of what other threads have sent is theirs again when they send something else.
#[test]
fn the_thread_wakes_up_for_a_long_queue_that_other_threads_have_again() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    for burst in [40_000, 1] {
        let handle = runtime.handle().clone();
        let send = move || (0..burst).for_each(|_| handle.spawn(async {}).detach());
        thread::spawn(send).join().unwrap();
        rest(&runtime);
        assert!(runtime.next_wake().is_some_and(|left| left <= ms(1_000)));
    }
}
