//! When a sleep is ready: never early, at once if its moment has passed, and again whenever it is polled.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use crate::common::{HOUR, LONG, Probe, Random, metrics, ms, us, watchdog, without_yielding};
use futures::poll;
use mainspring::task::unconstrained;
use mainspring::time::{Instant, interval_at, sleep, sleep_until, timeout_at, try_sleep_until};
use mainspring::{block_on, spawn};

// libuv #4773: the loop's cached time was rounded up, and timers fired up to a millisecond early.
#[test]
fn no_sleep_ends_early() {
    let _watchdog = watchdog(2 * LONG);
    block_on(async {
        let tasks: Vec<_> = (0..30)
            .map(|seed| {
                spawn(async move {
                    let mut random = Random::new(seed + 1);
                    for round in 0..100 {
                        let wanted = Duration::from_nanos(random.below(5_000_000));
                        let start = StdInstant::now();
                        if round % 2 == 0 {
                            sleep(wanted).await;
                        } else {
                            let deadline = Instant::now() + wanted;
                            sleep_until(deadline).await;
                            assert!(Instant::now() >= deadline);
                        }
                        let slept = start.elapsed();
                        assert!(slept >= wanted, "a sleep of {wanted:?} ended after {slept:?}");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn a_sleep_of_zero_is_ready_at_its_first_poll() {
    // Without the budget, which a slow machine may use up within these polls.
    block_on(unconstrained(async {
        let before = metrics();
        for _ in 0..100 {
            assert!(poll!(pin!(sleep(Duration::ZERO))).is_ready());
        }
        let after = metrics();
        assert_eq!((after.turns(), after.timers_armed()), (before.turns(), before.timers_armed()));
    }));
}

#[test]
fn a_million_sleeps_of_zero_starve_neither_a_task_nor_a_timer() {
    let _watchdog = watchdog(4 * LONG);
    block_on(async {
        let advanced = Arc::new(Mutex::new(0_u32));
        let count = advanced.clone();
        let other = spawn(async move {
            loop {
                *count.lock().unwrap() += 1;
                mainspring::task::yield_now().await;
            }
        });
        let fired = Arc::new(AtomicBool::new(false));
        let flag = fired.clone();
        let start = StdInstant::now();
        let timer = spawn(async move {
            sleep(ms(10)).await;
            flag.store(true, Ordering::Relaxed);
        });
        let mut sleeps = 0;
        while sleeps < 1_000_000 || !fired.load(Ordering::Relaxed) {
            sleep(Duration::ZERO).await;
            sleeps += 1;
            assert!(start.elapsed() < 3 * LONG, "the timer has not fired");
        }
        timer.await.unwrap();
        other.abort();
        // One poll takes at most 128 ready results; then it is the other task's turn.
        let advanced = *advanced.lock().unwrap();
        assert!(advanced >= 1_000_000 / 128, "the other task came {advanced} times");
    });
}

#[test]
fn a_past_or_present_deadline_is_ready_without_a_turn() {
    let long_ago = Instant::now() - HOUR;
    // Without a budget, which a slow machine uses up.
    block_on(unconstrained(async {
        let before = metrics();
        for past in [long_ago, Instant::now(), Instant::now() - us(1), Instant::now() - Duration::MAX] {
            let mut sleep = pin!(sleep_until(past));
            assert!(!sleep.is_elapsed(), "it was not polled yet");
            assert!(poll!(sleep.as_mut()).is_ready(), "{past:?}");
            assert!(sleep.is_elapsed());
            assert!(sleep.deadline() <= Instant::now());
        }
        let after = metrics();
        assert_eq!((after.turns(), after.timers_armed()), (before.turns(), before.timers_armed()));
    }));
}

#[test]
fn a_deadline_that_passed_unobserved_is_ready_without_a_park() {
    let _watchdog = watchdog(LONG);
    // Without a budget, which a slow machine uses up.
    block_on(unconstrained(async {
        let mut fresh = pin!(sleep(ms(20)));
        let mut registered = pin!(sleep(ms(20)));
        let mut moved = pin!(sleep(HOUR));
        let _ = poll!(registered.as_mut());
        let _ = poll!(moved.as_mut());
        let soon = Instant::now() + ms(20);
        let before = metrics();
        // The runtime's clock is not read meanwhile, so a turn may be needed to find out the time.
        thread::sleep(ms(30));
        moved.as_mut().reset(soon);
        moved.await;
        fresh.as_mut().await;
        registered.await;
        let after = metrics();
        assert!(after.turns() <= before.turns() + 1);
        assert_eq!(after.wakeups(), before.wakeups(), "it slept, with a deadline past");
    }));
}

#[test]
fn a_moment_that_passes_between_making_and_first_poll_is_ready_at_it() {
    fn is_ready_when_late<F: Future>(make: impl FnOnce(Instant) -> F) -> bool {
        let mut late = pin!(make(Instant::now() + ms(5)));
        // The runtime's clock is not read meanwhile.
        thread::sleep(ms(10));
        Probe::new().poll(late.as_mut()).is_ready()
    }
    // Without a budget, which the pauses would use up.
    block_on(unconstrained(async {
        let before = metrics();
        assert!(is_ready_when_late(sleep_until));
        assert!(is_ready_when_late(try_sleep_until));
        assert!(is_ready_when_late(|soon| timeout_at(soon, pending::<()>())));
        assert!(is_ready_when_late(|soon| {
            let mut ticks = interval_at(soon, HOUR);
            async move { ticks.tick().await }
        }));
        // The time passes in the middle of the first poll.
        let busy = poll_fn(|_| {
            thread::sleep(ms(10));
            Poll::<()>::Pending
        });
        let late = pin!(timeout_at(Instant::now() + ms(5), busy));
        assert!(poll!(late).is_ready());
        let after = metrics();
        assert_eq!((after.turns(), after.timers_armed()), (before.turns(), before.timers_armed()));
    }));
}

/// What the documentation of `sleep` says about a sleep that is polled too late.
#[test]
fn a_sleep_that_is_first_polled_after_its_deadline_needs_a_reading_or_a_turn() {
    let _watchdog = watchdog(LONG);
    // Without a budget, which a slow machine uses up.
    block_on(unconstrained(async {
        // At most a millisecond: the poll reads the clock.
        let mut short = pin!(sleep(ms(1)));
        thread::sleep(ms(2));
        assert!(poll!(short.as_mut()).is_ready());
        // Longer: the clock has been read since.
        let mut long = pin!(sleep(ms(5)));
        thread::sleep(ms(10));
        let _ = Instant::now();
        assert!(poll!(long.as_mut()).is_ready());
        // Or it has not been read: pending once, and then a turn that does not sleep.
        let mut late = pin!(sleep(ms(5)));
        thread::sleep(ms(10));
        let before = metrics();
        assert!(poll!(late.as_mut()).is_pending());
        late.await;
        let after = metrics();
        assert_eq!((after.turns(), after.wakeups()), (before.turns() + 1, before.wakeups()));
    }));
}

#[test]
fn is_elapsed_says_so_after_and_not_before() {
    block_on(async {
        let mut sleep = pin!(sleep(ms(50)));
        assert!(!sleep.is_elapsed());
        assert!(poll!(sleep.as_mut()).is_pending());
        assert!(!sleep.is_elapsed());
        sleep.as_mut().await;
        assert!(sleep.is_elapsed());
        sleep.as_mut().reset(Instant::now() + HOUR);
        assert!(!sleep.is_elapsed());
        assert!(poll!(sleep.as_mut()).is_pending());
        assert!(!sleep.is_elapsed());
    });
}

#[test]
fn polled_again_after_it_was_ready_it_is_ready_again() {
    // Without a budget, which a slow machine uses up.
    block_on(unconstrained(async {
        let mut sleep = pin!(sleep(ms(1)));
        sleep.as_mut().await;
        for _ in 0..3 {
            assert!(poll!(sleep.as_mut()).is_ready());
        }
        sleep.as_mut().await;
        assert!(metrics().timers_armed() <= 1);
    }));
}

// tokio #7883: without a turn of the runtime the sleep never ended.
#[test]
fn polled_in_a_loop_that_never_yields_it_elapses() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        for wanted in [us(1), us(300), ms(3), ms(20)] {
            let start = StdInstant::now();
            let turns = metrics().turns();
            without_yielding(sleep(wanted)).await;
            assert!(start.elapsed() >= wanted);
            assert_eq!(metrics().turns(), turns);
        }
        assert_eq!(metrics().timers_live(), 0);
    });
}
