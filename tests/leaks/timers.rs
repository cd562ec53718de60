//! Timers: in steady state they allocate nothing, and timers that have ended or were cancelled leave nothing.

use std::future::pending;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::Duration;

use crate::common::{self, HOUR, LONG, ms, turn, us, watchdog};
use crate::counting::live_bytes;
use crate::{alone, assert_given_back_in_sleep, often, spread, steady};
use futures::poll;
use mainspring::block_on;
use mainspring::time::{Instant, Sleep, interval, sleep, sleep_until, timeout};

#[test]
fn steady_sleeps_allocate_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    block_on(async {
        let fired = steady(2000, async || sleep(us(30)).await).await;
        assert_eq!(fired, 0, "armed and fired");
        // Further away than the slots of the wheel's lowest level.
        let fired = steady(50, async || sleep(ms(5)).await).await;
        assert_eq!(fired, 0, "armed and fired far off");
        let cancelled = steady(2000, async || {
            for far in [us(50), ms(5), HOUR, Duration::MAX] {
                let _ = poll!(pin!(sleep(far)));
            }
        })
        .await;
        assert_eq!(cancelled, 0, "armed and cancelled");

        let mut moved = pin!(sleep(HOUR));
        let mut round = 0_u64;
        let moves = steady(5000, async || {
            round += 1;
            moved.as_mut().reset(Instant::now() + HOUR / (1 + (round % 50) as u32));
            let _ = poll!(moved.as_mut());
            if round % 100 == 0 {
                turn().await;
            }
        })
        .await;
        assert_eq!(moves, 0, "moved");
    });
}

#[test]
fn steady_timeouts_allocate_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    block_on(async {
        let elapsed = steady(1000, async || assert!(timeout(us(30), pending::<()>()).await.is_err())).await;
        assert_eq!(elapsed, 0, "elapsed");
        let in_time = steady(1000, async || timeout(HOUR, sleep(us(30))).await.unwrap()).await;
        assert_eq!(in_time, 0, "in time");
        let at_once = steady(1000, async || timeout(HOUR, async {}).await.unwrap()).await;
        assert_eq!(at_once, 0, "at once");
    });
}

#[test]
fn steady_ticks_allocate_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    block_on(async {
        disorder().await;
        let mut ticks = interval(us(100));
        let ticked = steady(2000, async || _ = ticks.tick().await).await;
        assert_eq!(ticked, 0, "ticked");
        let reset = steady(1000, async || {
            ticks.reset_after(us(20));
            let _ = poll!(pin!(ticks.tick()));
            ticks.reset_immediately();
            ticks.tick().await;
        })
        .await;
        assert_eq!(reset, 0, "reset");
    });
}

/// Makes the wheel allocate all its lists. They are made when timers that are due were armed out of order, or were put
/// off, and it is left to chance whether a busy machine lets that happen.
async fn disorder() {
    for _ in 0..20 {
        let soon = Instant::now() + us(200);
        let [mut late, mut last, mut first] = [30, 20, 10].map(|n| Box::pin(sleep_until(soon + us(n))));
        for sleep in [&mut late, &mut last, &mut first] {
            let _ = poll!(sleep.as_mut());
        }
        late.as_mut().reset(soon + us(300));
        first.await;
        last.await;
        late.await;
    }
}

#[test]
fn a_hundred_timers_that_come_and_go_allocate_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut random = common::Random::new(5);
        let mut sleeps: Vec<Pin<Box<Sleep>>> = (0..100).map(|_| Box::pin(sleep(HOUR))).collect();
        let waker = Waker::noop();
        spread(128).await;
        let taken = steady(300, async || {
            let mut cx = Context::from_waker(waker);
            for sleep in &mut sleeps {
                let at = Instant::now() + Duration::from_nanos(random.below(2_000_000));
                sleep.as_mut().reset(at);
                let _ = sleep.as_mut().poll(&mut cx);
            }
            sleep(us(random.below(1000))).await;
        })
        .await;
        // How many slots are in use at once is left to chance, so now and then there are more than recently.
        assert!(taken <= 100, "{taken} allocations in 30,000 timers");
    });
}

// tokio #7563: cancelled timers stayed until their deadline.
#[test]
fn a_million_cancelled_sleeps_leave_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(4 * LONG);
    block_on(async {
        let _ = poll!(pin!(sleep(HOUR)));
        turn().await;
        // One after the other.
        let before = live_bytes();
        for n in 0..often(1_000_000, 200_000) {
            let _ = poll!(pin!(sleep(HOUR + us(n as u64))));
            if n % 10_000 == 0 {
                turn().await;
            }
        }
        assert_eq!((live_bytes(), common::metrics().timers_live()), (before, 0));
    });
}

#[test]
fn a_burst_gives_its_memory_back() {
    let _alone = alone();
    let _watchdog = watchdog(4 * LONG);
    block_on(async {
        // One timer that the wheel has filed: from then on it has its slots. (A short sleep may be over before it is filed.)
        let mut first = Box::pin(sleep(HOUR));
        assert!(poll!(first.as_mut()).is_pending());
        assert_eq!(mainspring::Handle::current().occupancy().timers(), 1);
        drop(first);
        let before = live_bytes();
        let count = often(1_000_000, 100_000);
        let mut sleeps: Vec<Pin<Box<Sleep>>> =
            (0..count).map(|n| Box::pin(sleep(HOUR + us(n as u64)))).collect();
        for sleep in &mut sleeps {
            assert!(poll!(sleep.as_mut()).is_pending());
        }
        let full = live_bytes() - before;
        drop(sleeps);
        // In small steps, while the program runs and has no use for the memory.
        let start = Instant::now();
        let enough = (full / 100).max(64 * 1024);
        while live_bytes() > before + enough && start.elapsed() < LONG {
            sleep(us(100)).await;
        }
        let left = live_bytes() - before;
        // The wheel keeps some buffers of each size.
        assert!(left <= enough, "{left} of {full} bytes are left");
    });
}

#[test]
fn a_burst_of_one_tasks_timers_gives_its_memory_back_although_the_program_sleeps() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    block_on(async {
        let before = live_bytes();
        let mut sleeps: Vec<Pin<Box<Sleep>>> = (0..100_000).map(|n| Box::pin(sleep(HOUR + us(n)))).collect();
        for sleep in &mut sleeps {
            assert!(poll!(sleep.as_mut()).is_pending());
        }
        let full = live_bytes() - before;
        drop(sleeps);
        assert_given_back_in_sleep(before, full).await;
    });
}
