//! Tasks: in steady state they allocate nothing, and their memory is freed when and where it should be.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use crate::common::{self, HOUR, LONG, ms, turn, us, watchdog};
use crate::counting::{freed, large_allocations, live_bytes};
use crate::{alone, assert_given_back_in_sleep, often, spread, steady};
use mainspring::task::yield_now;
use mainspring::time::{Instant, sleep};
use mainspring::{Runtime, block_on, spawn};

// tokio #3477.
#[test]
fn a_task_that_keeps_its_own_waker_frees_its_memory() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    let run = || {
        block_on(async {
            for _ in 0..10 {
                let mut kept = Vec::new();
                let task = spawn(poll_fn(move |cx| {
                    kept.push(cx.waker().clone());
                    Poll::<()>::Pending
                }));
                turn().await;
                // Aborted; and the next task is dropped with the runtime.
                task.abort();
                assert!(task.await.is_err());
                let mut kept = Vec::new();
                drop(spawn(poll_fn(move |cx| {
                    kept.push(cx.waker().clone());
                    Poll::<()>::Pending
                })));
            }
            turn().await;
        });
    };
    run();
    let before = live_bytes();
    run();
    assert_eq!(live_bytes(), before);
}

#[test]
fn tasks_that_wait_and_are_woken_allocate_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    // In virtual time, so that the machine does not decide how many are due at once.
    common::paused().block_on(async {
        let tasks: Vec<_> = (0..10)
            .map(|_| {
                spawn(async {
                    loop {
                        sleep(us(200)).await;
                    }
                })
            })
            .collect();
        spread(32).await;
        let ran = steady(300, async || sleep(us(500)).await).await;
        assert_eq!(ran, 0);
        tasks.iter().for_each(|task| task.abort());
    });
}

#[test]
#[cfg_attr(
    mainspring_sanitize,
    ignore = "no memory is kept under a sanitizer, which has to see each task end"
)]
fn tasks_that_come_and_go_allocate_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    block_on(async {
        let one = steady(3000, async || spawn(async {}).await.unwrap()).await;
        assert_eq!(one, 0, "one after the other");
        let mut handles = Vec::new();
        let many = steady(300, async || {
            // Tasks of two sizes, and none is awaited before all have been spawned.
            for n in 0..100_u64 {
                handles.push(if n % 2 == 0 {
                    spawn(async move { n })
                } else {
                    spawn(async move {
                        let kept = [n; 20];
                        yield_now().await;
                        kept[3]
                    })
                });
            }
            for handle in handles.drain(..) {
                handle.await.unwrap();
            }
        })
        .await;
        assert_eq!(many, 0, "a hundred at once");
    });
}

#[test]
#[cfg_attr(
    mainspring_sanitize,
    ignore = "no memory is kept under a sanitizer, which has to see each task end"
)]
fn tasks_that_come_and_go_in_virtual_time_allocate_nothing_however_much_of_it_passes() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    let runtime = mainspring::Builder::new().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut handles = Vec::new();
        let ran = steady(300, async || {
            handles.extend((0..300).map(|_| spawn(async {})));
            // Each sleep is a turn.
            for _ in 0..5 {
                sleep(ms(1_100)).await;
            }
            handles.clear();
        });
        assert_eq!(ran.await, 0);
    });
}

#[test]
fn a_burst_of_tasks_gives_its_memory_back_in_small_steps() {
    let _alone = alone();
    let _watchdog = watchdog(4 * LONG);
    block_on(async {
        let before = live_bytes();
        let count = often(200_000, 50_000);
        for n in 0..count {
            drop(spawn(async move { std::hint::black_box([n; 16]) }));
        }
        let full = live_bytes() - before;
        assert!(full > count as i64 * 64);
        // All end first. That takes turns. Under a sanitizer, which keeps no memory, each frees what it had.
        while common::metrics().tasks_alive() > 0 {
            turn().await;
        }
        // Memory is freed while the program runs and has no use for it.
        let (start, mut most) = (Instant::now(), 0);
        while live_bytes() > before + full / 100 && start.elapsed() < LONG {
            let (was, turns, large) = (freed(), common::metrics().turns(), large_allocations());
            turn().await;
            most = most.max((freed() - was) / (common::metrics().turns() - turns).max(1));
            // The memory that the allocator leaves for later must not become much. A sanitizer's allocator leaves nothing.
            let tidied = cfg!(mainspring_sanitize) || freed() - was < 64 || large_allocations() > large;
            assert!(tidied, "{} blocks were freed, and left for later", freed() - was);
        }
        let left = live_bytes() - before;
        assert!(left <= full / 100, "{left} of {full} bytes are left");
        assert!(most <= 256, "{most} blocks were freed in one turn");
    });
}

#[test]
fn a_burst_of_tasks_gives_its_memory_back_although_the_program_sleeps() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    block_on(async {
        let before = live_bytes();
        // Timers in slots far apart, so that the wheel needs memory, too.
        let tasks: Vec<_> = (0..50_000_u64).map(|n| spawn(sleep(HOUR + ms(n)))).collect();
        while common::metrics().timers_live() < 50_000 {
            turn().await;
        }
        let full = live_bytes() - before;
        tasks.iter().for_each(|task| task.abort());
        drop(tasks);
        while common::metrics().tasks_alive() > 0 {
            turn().await;
        }
        assert_given_back_in_sleep(before, full).await;
    });
}

#[test]
fn a_tasks_memory_is_freed_where_its_last_waker_is_dropped() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    let run = |elsewhere: bool| {
        let slot = Rc::new(Cell::new(None));
        let theirs = slot.clone();
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let task = spawn(poll_fn(move |cx| {
                theirs.set(Some(cx.waker().clone()));
                Poll::Ready(())
            }));
            task.await.unwrap();
        });
        let waker = slot.take().unwrap();
        let before = live_bytes();
        let free = move || {
            let before = live_bytes();
            waker.wake_by_ref();
            drop(waker);
            live_bytes() - before
        };
        if elsewhere {
            // The runtime still exists, and gets nothing back.
            let change = std::thread::spawn(free).join().unwrap();
            assert!(change < 0, "{change} bytes");
            drop(runtime);
        } else {
            // The runtime has gone, with everything that it kept.
            drop(runtime);
            assert!(live_bytes() < before);
            let change = free();
            assert!(change < 0, "{change} bytes");
        }
    };
    run(true);
    run(false);
    let before = live_bytes();
    run(false);
    assert_eq!(live_bytes(), before);
}

#[test]
fn a_panic_that_nobody_waits_for_is_freed() {
    let _alone = alone();
    let _watchdog = watchdog(2 * LONG);
    let burst = || {
        for _ in 0..100 {
            // The output has nothing to drop; the panic's payload has.
            drop(spawn(async {
                if !std::thread::panicking() {
                    std::panic::resume_unwind(Box::new([0_u8; 1_000]));
                }
            }));
        }
    };
    block_on(async {
        burst();
        sleep(us(10)).await;
        let before = live_bytes();
        burst();
        let start = Instant::now();
        while live_bytes() > before + 50_000 && start.elapsed() < LONG {
            sleep(us(100)).await;
        }
        let left = live_bytes() - before;
        assert!(left <= 50_000, "{left} bytes are left of a hundred thousand");
    });
}

#[test]
fn tasks_that_other_threads_send_do_not_pile_up() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let before = live_bytes();
    let (count, handle) = (10_000, runtime.handle().clone());
    let send = move |n| handle.spawn(async move { std::hint::black_box([n; 16]) });
    let sent: Vec<_> = std::thread::spawn(move || (0..count).map(send).collect()).join().unwrap();
    runtime.block_on(async {
        for task in sent {
            task.await.unwrap();
        }
    });
    // Each task is freed as it ends; its thread would never use the memory for another.
    let change = live_bytes() - before;
    assert!(change <= -count * 128, "{change} bytes");
}
