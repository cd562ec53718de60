//! Several sleeps at a time: the order in which they end, and what happens to the others when some are dropped.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use crate::common::{LONG, Probe, Random, metrics, ms, turn, us, watchdog};
use futures::poll;
use mainspring::time::{Clock, Instant, Sleep, TestClock, sleep, sleep_until};
use mainspring::{Builder, Runtime, block_on, spawn};

/// A runtime and its clock. By the system's clock, on a slow machine, the first are due before the last are armed.
fn by_hand() -> (TestClock, Runtime) {
    let clock = TestClock::new();
    let runtime = Builder::new().clock(Clock::Test(clock.clone())).build().unwrap();
    (clock, runtime)
}

#[test]
fn equal_deadlines_end_in_the_order_of_registration() {
    let _watchdog = watchdog(LONG);
    let ended = Arc::new(Mutex::new(Vec::new()));
    let (clock, runtime) = by_hand();
    runtime.block_on(async {
        let deadline = Instant::now() + ms(200);
        let tasks: Vec<_> = (0..200)
            .map(|number| {
                let ended = ended.clone();
                spawn(async move {
                    sleep_until(deadline).await;
                    ended.lock().unwrap().push(number);
                })
            })
            .collect();
        while metrics().timers_live() < 200 {
            turn().await;
        }
        clock.advance(ms(200));
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(*ended.lock().unwrap(), (0..200).collect::<Vec<_>>());
}

#[test]
fn deadlines_that_passed_together_end_by_deadline() {
    let _watchdog = watchdog(LONG);
    let ended = Arc::new(Mutex::new(Vec::new()));
    let (clock, runtime) = by_hand();
    runtime.block_on(async {
        let start = Instant::now() + ms(200);
        let mut random = Random::new(7);
        // From the same nanosecond to far apart, in random order; two of each.
        let offsets: Vec<u64> = (0..100).map(|k| random.below(1 << (k % 26))).flat_map(|o| [o, o]).collect();
        let mut wanted: Vec<_> = offsets.iter().copied().zip(0..).collect();
        wanted.sort_unstable();
        let tasks: Vec<_> = offsets
            .into_iter()
            .zip(0..)
            .map(|(offset, number)| {
                let ended = ended.clone();
                spawn(async move {
                    sleep_until(start + Duration::from_nanos(offset)).await;
                    ended.lock().unwrap().push((offset, number));
                })
            })
            .collect();
        while metrics().timers_live() < 200 {
            turn().await;
        }
        // All of them come due while the runtime does not look: the last one is due 67 ms after the first.
        clock.advance(ms(300));
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*ended.lock().unwrap(), wanted);
    });
}

#[test]
fn dropped_on_the_tick_it_leaves_the_others_alone() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        for round in 0..300 {
            let deadline = Instant::now() + us(150);
            let mut dropped = Box::pin(sleep_until(deadline));
            let mut kept = Box::pin(sleep_until(deadline));
            assert!(poll!(dropped.as_mut()).is_pending() || Instant::now() >= deadline);
            let _ = poll!(kept.as_mut());
            // Around the deadline: sometimes before the runtime has seen it, sometimes after.
            if round % 3 == 0 {
                sleep_until(deadline).await;
            } else {
                while Instant::now() + us(round % 50) < deadline {}
            }
            drop(dropped);
            kept.await;
            assert!(Instant::now() >= deadline);
        }
        assert_eq!(metrics().timers_live(), 0);
    });
}

#[test]
fn a_hundred_sleeps_dropped_from_inside_a_waker() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let deadline = Instant::now() + ms(100);
        type Sleeps = Arc<Mutex<Vec<Pin<Box<Sleep>>>>>;
        let sleeps = Sleeps::default();
        let victims = sleeps.clone();
        let probe = Probe::with(move || {
            let victims = std::mem::take(&mut *victims.lock().unwrap());
            drop(victims);
        });
        for _ in 0..100 {
            let mut sleep = Box::pin(sleep_until(deadline));
            assert!(probe.poll(sleep.as_mut()).is_pending());
            sleeps.lock().unwrap().push(sleep);
        }
        sleep_until(deadline + ms(1)).await;
        assert!(sleeps.lock().unwrap().is_empty());
        assert!((1..=100).contains(&probe.wakes()), "{} wakes", probe.wakes());
        assert_eq!(metrics().timers_live(), 0);
        assert_eq!(Arc::strong_count(&probe), 1, "a waker was kept");
    });
}

#[test]
fn a_waker_that_changes_is_the_one_that_is_woken() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (old, new) = (Probe::new(), Probe::new());
        let mut first = Box::pin(sleep(ms(50)));
        assert!(old.poll(first.as_mut()).is_pending());
        assert!(new.poll(first.as_mut()).is_pending());
        assert_eq!(Arc::strong_count(&old), 1, "the old waker is kept");
        sleep(ms(60)).await;
        assert_eq!((old.wakes(), new.wakes()), (0, 1));
        assert_eq!(new.poll(first.as_mut()), Poll::Ready(()));
    });
}
