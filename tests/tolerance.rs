//! Tolerance: timers end together instead of waking the processor one by one; never early, order untouched.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use mainspring::runtime::{Builder, Handle};
use mainspring::time::{Instant, Tolerance, interval, sleep, sleep_until, timeout};
use mainspring::{block_on, spawn};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn wakeups() -> u64 {
    Handle::current().metrics().wakeups()
}

#[test]
fn ten_thousand_sleeps_over_a_second_are_no_wake_up_storm() {
    let (woken, widened) = block_on(async {
        let start = Instant::now();
        let before = wakeups();
        let tasks: Vec<_> = (0..10_000u64)
            .map(|n| {
                spawn(async move {
                    let deadline = start + ms(300) + Duration::from_micros(n * 100);
                    sleep_until(deadline).await;
                    assert!(Instant::now() >= deadline, "early");
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        (wakeups() - before, Handle::current().metrics().timers_widened())
    });
    // Each timer has about a millisecond or more of slack of its own: no load is needed for that.
    assert!(woken <= 1_300, "{woken} wake-ups for one second of timers ({widened} widened)");
}

#[test]
fn a_crowd_of_tasks_on_ten_milliseconds_shares_its_wake_ups() {
    let per_second = block_on(async {
        let tasks: Vec<_> = (0..400u64)
            .map(|n| {
                spawn(async move {
                    sleep(Duration::from_micros(n * 24)).await;
                    loop {
                        sleep(ms(10)).await;
                    }
                })
            })
            .collect();
        sleep(ms(200)).await;
        let fired = || Handle::current().metrics().timers_fired();
        let (start, before, fired_before) = (Instant::now(), wakeups(), fired());
        sleep(ms(500)).await;
        let (woken, fired) = (wakeups() - before, fired() - fired_before);
        let seconds = start.elapsed().as_secs_f64();
        tasks.iter().for_each(|task| task.abort());
        // A machine that is too slow for 2,000 timers a second, such as an emulated one, is not under the load that is meant.
        let rate = fired as f64 / seconds;
        let widened = Handle::current().metrics().timers_widened();
        assert!(widened > 0 || rate < 4_000.0, "the load was not noticed: {rate} timers a second");
        woken as f64 / seconds
    });
    assert!(per_second <= 3_000.0, "{per_second} wake-ups a second for 40,000 sleeps a second");
}

#[test]
fn a_lone_fast_ticker_is_not_widened() {
    block_on(async {
        let mut ticks = interval(Duration::from_micros(300));
        for _ in 0..500 {
            ticks.tick().await;
        }
        assert_eq!(Handle::current().metrics().timers_widened(), 0);
    });
}

#[test]
fn tolerance_touches_neither_order_nor_deadline() {
    block_on(async {
        let order = Rc::new(RefCell::new(vec![]));
        let start = Instant::now();
        // The earlier the deadline, the larger the tolerance: the park of the last timer serves all.
        let tasks: Vec<_> = (0..8u64)
            .map(|n| {
                let order = order.clone();
                let deadline = start + ms(20) + Duration::from_micros(500 * n);
                let sleep = sleep_until(deadline).tolerance(ms(40 - 5 * n));
                assert_eq!(sleep.deadline(), deadline);
                spawn(async move {
                    sleep.await;
                    assert!(Instant::now() >= deadline);
                    order.borrow_mut().push(n);
                })
            })
            .collect();
        for task in tasks.into_iter().rev() {
            task.await.unwrap();
        }
        assert_eq!(*order.borrow(), (0..8).collect::<Vec<_>>());
    });
}

#[test]
fn a_tolerant_sleep_waits_for_company() {
    let runtime = Builder::new().timer_tolerance(Tolerance::Precise).build().unwrap();
    runtime.block_on(async {
        let before = wakeups();
        let tolerant = spawn(async { sleep(ms(20)).tolerance(ms(60_000)).await });
        let start = Instant::now();
        sleep(ms(60)).await;
        // One wake-up served both; one stray wake-up is allowed for.
        tolerant.await.unwrap();
        assert!(start.elapsed() < ms(30_000), "company came at 60 ms");
        assert!(wakeups() - before <= 3, "{} wake-ups", wakeups() - before);
    });
}

#[test]
fn a_precise_timer_among_tolerant_ones_is_on_time() {
    let runtime =
        Builder::new().timer_tolerance(Tolerance::Fixed { ratio: 1.0, max: ms(5_000) }).build().unwrap();
    runtime.block_on(async {
        let start = Instant::now();
        let tolerant = spawn(async { sleep(ms(5)).tolerance(ms(5_000)).await });
        sleep(ms(15)).precise().await;
        let slow = timeout(ms(10), std::future::pending::<()>()).precise().await;
        assert!(slow.is_err());
        let mut ticks = interval(ms(10)).precise();
        for _ in 0..3 {
            ticks.tick().await;
        }
        assert!(start.elapsed() < ms(2_000), "put off: {:?}", start.elapsed());
        tolerant.await.unwrap();
    });
}

#[test]
fn a_ratio_out_of_bounds_is_refused() {
    let builder = Builder::new().timer_tolerance(Tolerance::Fixed { ratio: 1.5, max: ms(1) });
    assert!(std::panic::catch_unwind(|| builder.build()).is_err());
}
