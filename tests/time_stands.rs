//! Timers that are due while time stands still (it is paused, and does not move by itself) come out like all others.

mod common;

use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use common::{LONG, Probe, ms, panicked, watchdog};
use mainspring::time::{self, Instant, advance_to, sleep, stand_still};
use mainspring::{Builder, Runtime, spawn};

/// Moves the paused time by this, as a program does that gives up the advance after its first poll.
fn jump(runtime: &Runtime, by: Duration) {
    let _entered = runtime.handle().enter();
    let advance = pin!(advance_to(Instant::now() + by));
    assert!(advance.poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[test]
fn a_timer_that_was_due_when_time_was_paused_between_turns_fires() {
    let _watchdog = watchdog(LONG);
    for held in [false, true] {
        let runtime = Builder::new().auto_advance(held).build().unwrap();
        let task = runtime.spawn(sleep(ms(1)));
        while runtime.turn(Duration::ZERO) {}
        runtime.next_wake();
        thread::sleep(ms(5));
        let _still = {
            let _entered = runtime.handle().enter();
            time::pause();
            stand_still()
        };
        assert_eq!(runtime.next_wake(), Some(Duration::ZERO));
        runtime.block_on(task).unwrap();
        assert_eq!(runtime.next_wake(), None);
    }
}

#[test]
fn a_timer_that_an_advance_has_passed_fires_although_the_advance_was_given_up() {
    let _watchdog = watchdog(LONG);
    let runtime = Builder::new().start_paused(true).auto_advance(false).build().unwrap();
    let task = runtime.spawn(sleep(ms(1)));
    while runtime.turn(Duration::ZERO) {}
    assert_eq!(runtime.next_wake(), None);
    jump(&runtime, ms(2));
    assert_eq!(runtime.next_wake(), Some(Duration::ZERO));
    while !task.is_finished() {
        runtime.turn(Duration::MAX);
    }
}

#[test]
fn after_a_foreign_wakers_panic_the_next_turn_goes_on_with_a_drain_that_was_cut_short() {
    let _watchdog = watchdog(LONG);
    let builder = Builder::new().start_paused(true).auto_advance(false).timer_budget(8);
    let runtime = builder.build().unwrap();
    let mut bad = {
        let _entered = runtime.handle().enter();
        Box::pin(sleep(ms(1)))
    };
    assert!(bad.as_mut().poll(&mut Context::from_waker(&Probe::forty(0)[0].waker())).is_pending());
    let tasks: Vec<_> = (0..100).map(|_| runtime.spawn(sleep(ms(1)))).collect();
    while runtime.turn(Duration::ZERO) {}
    jump(&runtime, ms(1));
    assert_eq!(panicked(|| runtime.turn(Duration::ZERO)).message, "waker 0");
    runtime.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn a_timer_fires_although_timers_had_to_wait_in_the_turn_after_the_pause() {
    let _watchdog = watchdog(LONG);
    let runtime = Builder::new().auto_advance(false).build().unwrap();
    runtime.block_on(async {
        let work = |long: Duration| {
            let began = std::time::Instant::now();
            while began.elapsed() < long {}
        };
        // What is forgiven of very long polls is used up.
        for _ in 0..3 {
            let task = spawn(async move {
                sleep(ms(1)).await;
                work(ms(20));
            });
            task.await.unwrap();
        }
        let due_before_the_pause = spawn(sleep(ms(5)));
        let hog = spawn(async move {
            sleep(ms(1)).await;
            let pauses = spawn(async {
                time::pause();
                spawn(async {}).detach();
            });
            pauses.detach();
            work(ms(20));
        });
        hog.detach();
        due_before_the_pause.await.unwrap();
        assert!(time::is_paused());
    });
}
