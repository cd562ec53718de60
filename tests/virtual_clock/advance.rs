//! `advance` stops at every deadline on the way, `advance_to` passes over them.

use super::common::{HOUR, LONG, ms, us, watchdog};
use super::{Trace, YEAR, manual, ns, paused, secs};

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use mainspring::runtime::Builder;
use mainspring::task::yield_now;
use mainspring::time::{
    DelayQueue, Instant, MissedTickBehavior, advance, advance_to, interval, sleep, sleep_until, stand_still,
    timeout,
};
use mainspring::{Runtime, spawn};

/// With and without time that moves automatically.
fn both(test: impl AsyncFn()) {
    let _watchdog = watchdog(LONG);
    for runtime in [paused(), manual()] {
        let runtime: Runtime = runtime;
        runtime.block_on(test());
    }
}

#[test]
fn an_advance_to_that_is_dropped_after_its_first_poll_has_moved_the_clock() {
    both(async || {
        let start = Instant::now();
        let mut jump = Box::pin(advance_to(start + HOUR));
        assert_eq!(start.elapsed(), Duration::ZERO);
        let _ = futures::poll!(jump.as_mut());
        drop(jump);
        assert_eq!(start.elapsed(), HOUR);
    });
}

#[test]
fn beyond_292_years_a_length_of_time_ends_and_a_moment_does_not_come() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        advance(YEAR * 300).await;
        let last = Instant::now();
        sleep(HOUR).await;
        let mut queue = DelayQueue::new();
        queue.insert((), HOUR);
        assert!(timeout(2 * HOUR, queue.next_expired()).await.is_ok());
        assert_eq!(Instant::now(), last);
        assert!(timeout(2 * HOUR, sleep_until(last + HOUR)).await.is_err());
        let mut ticks = interval(HOUR);
        assert_eq!(ticks.tick().await, last);
        assert!(timeout(2 * HOUR, ticks.tick()).await.is_err());
    });
}

#[test]
fn it_stops_at_every_deadline_on_the_way_in_order() {
    both(async || {
        let trace = Trace::start();
        for (n, at) in [ms(7), us(300), ns(1), ms(7), ms(3) + ns(1), ms(10)].into_iter().enumerate() {
            let trace = trace.clone();
            drop(spawn(async move {
                sleep(at).await;
                trace.note(n);
            }));
        }
        yield_now().await;
        advance(ms(10)).await;
        // Each at its own moment; equal ones, and the one at the very end, in the order of registration.
        let seen = trace.take();
        let wanted = vec![(ns(1), 2), (us(300), 1), (ms(3) + ns(1), 4), (ms(7), 0), (ms(7), 3), (ms(10), 5)];
        assert_eq!(seen, wanted);
        assert_eq!(trace.start.elapsed(), ms(10));
    });
}

#[test]
fn what_a_woken_task_arms_within_the_stretch_fires_within_it() {
    // tokio #7463, #7841: there the clock is at the end by the time a woken task arms its next timer.
    both(async || {
        let trace = Trace::start();
        let ours = trace.clone();
        drop(spawn(async move {
            for n in 0.. {
                sleep(ms(3)).await;
                // Some work in several polls, before time moves on.
                for _ in 0..10 {
                    yield_now().await;
                }
                ours.note(n);
                let inner = ours.clone();
                drop(spawn(async move {
                    sleep(us(500)).await;
                    inner.note(100 + n);
                }));
            }
        }));
        yield_now().await;
        advance(ms(10)).await;
        let seen = trace.take();
        let half = us(500);
        let wanted = vec![
            (ms(3), 0),
            (ms(3) + half, 100),
            (ms(6), 1),
            (ms(6) + half, 101),
            (ms(9), 2),
            (ms(9) + half, 102),
        ];
        assert_eq!(seen, wanted);
    });
}

#[test]
fn it_ends_at_exactly_its_moment() {
    // tokio #3852, #3712, #3710: sub-millisecond advances were rounded, and some went too far.
    both(async || {
        for d in [ns(1), us(250), ns(999_999), ms(1), ns(3_141_592_000), HOUR + ns(7), YEAR] {
            let start = Instant::now();
            advance(d).await;
            assert_eq!(start.elapsed(), d);
        }
        // Not polled, polled, and in another task: none of these makes it overshoot.
        let start = Instant::now();
        let unpolled = sleep(ms(1));
        let mut polled = pin!(sleep(ms(1) + us(1)));
        assert!(futures::poll!(polled.as_mut()).is_pending());
        let other = spawn(sleep(ms(2)));
        advance(us(999)).await;
        assert_eq!(start.elapsed(), us(999));
        advance(us(1)).await;
        assert!(futures::poll!(pin!(unpolled)).is_ready());
        assert!(futures::poll!(polled.as_mut()).is_pending());
        assert!(!other.is_finished());
        advance(ms(1)).await;
        assert!(polled.is_elapsed() && other.is_finished());
        assert_eq!(start.elapsed(), ms(2));
    });
}

#[test]
fn small_steps_reach_a_timer_exactly() {
    both(async || {
        let mut timer = pin!(sleep(ms(1)));
        for _ in 0..3 {
            assert!(futures::poll!(timer.as_mut()).is_pending());
            advance(us(250)).await;
        }
        assert!(futures::poll!(timer.as_mut()).is_pending());
        advance(us(250) - ns(1)).await;
        assert!(futures::poll!(timer.as_mut()).is_pending());
        advance(ns(1)).await;
        assert!(futures::poll!(timer.as_mut()).is_ready());
    });
}

#[test]
fn each_tick_on_the_way_is_seen_at_its_own_moment() {
    both(async || {
        let trace = Trace::start();
        let ours = trace.clone();
        drop(spawn(async move {
            let mut ticks = interval(us(700));
            loop {
                let at = ticks.tick().await;
                assert_eq!(at, Instant::now());
                ours.note(());
            }
        }));
        yield_now().await;
        advance(ms(7)).await;
        let seen = trace.take();
        assert_eq!(seen, (0..=10).map(|n| (us(700) * n, ())).collect::<Vec<_>>());
    });
}

#[test]
fn what_is_due_at_its_end_has_run_when_it_is_over() {
    // tokio #3985, #3709, #7419: it yields once, and a woken task may not have run.
    both(async || {
        let done = Rc::new(Cell::new(0));
        for _ in 0..50 {
            let done = done.clone();
            drop(spawn(async move {
                sleep(secs(1)).await;
                for _ in 0..200 {
                    yield_now().await;
                }
                done.set(done.get() + 1);
            }));
        }
        yield_now().await;
        advance(secs(1)).await;
        assert_eq!(done.get(), 50);
    });
}

#[test]
fn no_time_at_all_lets_everything_come_to_rest() {
    both(async || {
        let done = Rc::new(Cell::new(false));
        let ours = done.clone();
        drop(spawn(async move {
            for _ in 0..500 {
                yield_now().await;
            }
            ours.set(true);
        }));
        let start = Instant::now();
        advance(Duration::ZERO).await;
        assert!(done.get());
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

#[test]
fn two_at_once_end_each_at_its_own_moment() {
    both(async || {
        let trace = Trace::start();
        let note = async |n, d| {
            advance(d).await;
            trace.note(n);
        };
        futures::join!(note(1, secs(5)), note(2, secs(3)), note(3, secs(5)), async {
            sleep(secs(4)).await;
            trace.note(4);
        });
        assert_eq!(trace.take(), [(secs(3), 2), (secs(4), 4), (secs(5), 1), (secs(5), 3)]);
        // An advance that begins while another is under way counts from that moment.
        let trace = Trace::start();
        let ours = trace.clone();
        let second = spawn(async move {
            sleep(secs(1)).await;
            advance(secs(1)).await;
            ours.note("inner");
        });
        advance(secs(10)).await;
        trace.note("outer");
        second.await.unwrap();
        assert_eq!(trace.take(), [(secs(2), "inner"), (secs(10), "outer")]);
    });
}

#[test]
fn any_jump_is_legal() {
    // tokio #7380, #7381: `advance(Duration::MAX)` panics.
    both(async || {
        let start = Instant::now();
        let century = spawn(sleep(100 * YEAR));
        let mut never = pin!(sleep(Duration::MAX));
        assert!(futures::poll!(never.as_mut()).is_pending());
        advance(Duration::MAX).await;
        assert!(century.is_finished() && start.elapsed() > 290 * YEAR);
        for far in [Duration::MAX, Duration::from_millis(u64::MAX), ns(u64::MAX), ns(1)] {
            advance(far).await;
            advance_to(Instant::now() + far).await;
        }
        assert!(futures::poll!(never).is_pending(), "never came");
        sleep(Duration::ZERO).await;
    });
}

#[test]
fn one_that_is_given_up_leaves_the_clock_where_it_is() {
    both(async || {
        let start = Instant::now();
        assert!(timeout(ms(3), advance(ms(10))).await.is_err());
        assert_eq!(start.elapsed(), ms(3));
        advance(ms(1)).await;
        assert_eq!(start.elapsed(), ms(4));
        drop(advance(HOUR));
        assert_eq!(start.elapsed(), ms(4));
    });
}

#[test]
fn it_moves_time_that_is_held() {
    both(async || {
        let start = Instant::now();
        let _still = stand_still();
        advance(secs(1)).await;
        assert_eq!(start.elapsed(), secs(1));
    });
}

#[test]
fn in_one_step_all_find_the_clock_at_its_end() {
    both(async || {
        let trace = Trace::start();
        for (n, at) in [ms(7), us(300), ms(7), ms(20)].into_iter().enumerate() {
            let trace = trace.clone();
            drop(spawn(async move {
                sleep(at).await;
                trace.note(n);
            }));
        }
        yield_now().await;
        advance_to(trace.start + ms(10)).await;
        assert_eq!(trace.take(), [(ms(10), 1), (ms(10), 0), (ms(10), 2)]);
        // The past does not come back.
        advance_to(trace.start + ms(1)).await;
        assert_eq!(trace.start.elapsed(), ms(10));
    });
}

#[test]
fn in_one_step_ticks_are_missed() {
    both(async || {
        let start = Instant::now();
        let mut ticks = interval(secs(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        ticks.tick().await;
        advance_to(start + ms(3_500)).await;
        assert_eq!(ticks.tick().await, start + secs(1));
        assert!(timeout(Duration::ZERO, ticks.tick()).await.is_err());
        advance(ms(500)).await;
        assert_eq!(ticks.tick().await, start + secs(4));
    });
}

#[test]
fn a_crowd_due_in_one_step_fires_in_slices_each_once_in_order() {
    const CROWD: u64 = 20_000;
    let _watchdog = watchdog(LONG);
    let runtime = Builder::new().start_paused(true).timer_budget(100).build().unwrap();
    runtime.block_on(async {
        let trace = Trace::start();
        let start = trace.start;
        for n in 0..CROWD {
            let trace = trace.clone();
            let at = start + us(1 + (n * 7_919) % CROWD);
            drop(spawn(async move {
                sleep_until(at).await;
                trace.note(at);
            }));
        }
        advance(Duration::ZERO).await;
        let before = super::common::metrics();
        advance_to(start + HOUR).await;
        let seen = trace.take();
        assert!(seen.windows(2).all(|pair| pair[0].1 < pair[1].1), "each once, in order");
        assert_eq!(seen.len() as u64, CROWD);
        assert!(seen.iter().all(|(at, _)| *at == HOUR));
        let turns = super::common::metrics().turns() - before.turns();
        assert!(turns >= CROWD / 100, "{turns} turns: more than the budget in one");
    });
}
