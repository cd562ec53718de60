//! Turns that end by a count, because time is paused or the program says how many polls one has.

#![cfg(unix)]

mod common;

use common::{HOUR, LONG, compute, ms, us, watchdog};
use mainspring::runtime::{Builder, Handle, Runtime};
use mainspring::task::yield_now;
use mainspring::{block_on, sleep, spawn};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// What a program does in paused time depends on counts alone.
#[test]
fn two_runs_in_paused_time_are_the_same_whatever_polls_take() {
    let _watchdog = watchdog(LONG);
    let run = |slow: bool| {
        let runtime = Builder::new().start_paused(true).build().unwrap();
        let trace = Rc::new(RefCell::new(Vec::new()));
        runtime.block_on(async {
            for name in 0..40_u64 {
                let trace = trace.clone();
                drop(spawn(async move {
                    for round in 0..100_u64 {
                        if slow && (name + round) % 37 == 0 {
                            compute(us(200));
                        }
                        match (name + round) % 3 {
                            0 => sleep(us(1 + name * round % 50)).await,
                            1 => yield_now().await,
                            _ => spawn(async {}).await.unwrap(),
                        }
                        trace.borrow_mut().push((name, round, mainspring::time::Instant::now()));
                    }
                }));
            }
            sleep(HOUR).await;
        });
        trace.take()
    };
    let expected = run(false);
    assert_eq!(expected.len(), 4_000);
    for _ in 0..2 {
        assert!(run(true) == expected, "two runs differ");
    }
}

#[test]
fn a_turn_in_which_time_is_paused_ends_although_a_task_is_always_ready() {
    let _watchdog = watchdog(LONG);
    // More than fit into a turn.
    const MANY: u32 = 100_000;
    // If the first poll takes long, time stands still where the turn is over in any case. So there are several.
    for _ in 0..20 {
        let runtime = Runtime::new().unwrap();
        let task = runtime.spawn(async {
            mainspring::time::pause();
            for _ in 0..MANY {
                yield_now().await;
            }
        });
        assert!(runtime.turn(Duration::ZERO) && !task.is_finished());
    }
    block_on(async {
        mainspring::time::pause();
        let before = Handle::current().metrics().turns();
        for _ in 0..MANY {
            yield_now().await;
        }
        let turns = Handle::current().metrics().turns() - before;
        assert!(turns >= u64::from(MANY / 61), "{turns} turns");
    });
}

#[test]
fn no_turn_has_more_polls_than_the_program_has_set() {
    let _watchdog = watchdog(LONG);
    for paused in [false, true] {
        for interval in [1, 10] {
            let runtime = Builder::new().start_paused(paused).event_interval(interval).build().unwrap();
            runtime.block_on(async {
                let before = Handle::current().metrics();
                for _ in 0..1_000 {
                    yield_now().await;
                }
                let after = Handle::current().metrics();
                let turns = after.turns() - before.turns();
                assert!((turns + 1) * interval as u64 >= 1_000, "{turns} turns of at most {interval} polls");
            });
        }
    }
}

#[test]
fn time_that_is_paused_later_forgets_what_was_measured() {
    let _watchdog = watchdog(LONG);
    let run = |slow: bool| {
        Runtime::new().unwrap().block_on(async {
            for _ in 0..20 {
                compute(us(if slow { 300 } else { 1 }));
                yield_now().await;
            }
            mainspring::time::pause();
            // A turn has to end before anything is counted.
            sleep(ms(1)).await;
            let order = Rc::new(RefCell::new(Vec::new()));
            for name in 0..20 {
                let order = order.clone();
                drop(spawn(async move {
                    for _ in 0..200 {
                        yield_now().await;
                        if name % 2 == 0 {
                            spawn(async {}).await.unwrap();
                        }
                        order.borrow_mut().push(name);
                    }
                }));
            }
            sleep(HOUR).await;
            order.take()
        })
    };
    assert!(run(true) == run(false), "two runs differ");
}
