//! Sleeps until a time of day, by the system's own clock. What happens when that clock is set, which no test may
//! do, is tested next to the code, with a clock of the test's own.

mod common;

use std::pin::pin;
use std::time::{Duration, Instant as StdInstant, SystemTime};

use common::{HOUR, LONG, Probe, metrics, ms, orphan, panicked, watchdog};
use futures::poll;
use mainspring::runtime::Builder;
use mainspring::time::{Instant, WallSleep, advance, sleep, sleep_until_wall, timeout, wall_now};
use mainspring::{block_on, spawn};

#[test]
fn it_ends_when_the_clock_shows_the_deadline() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        for wait in [ms(1), Duration::from_micros(1_234), ms(20), ms(250)] {
            let deadline = SystemTime::now() + wait;
            let sleep = sleep_until_wall(deadline);
            assert_eq!(sleep.deadline(), deadline);
            sleep.await;
            assert!(SystemTime::now() >= deadline, "early by {:?}", deadline.elapsed());
        }
    });
}

#[test]
fn it_is_as_exact_as_any_sleep() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut late = Vec::new();
        for _ in 0..20 {
            let deadline = SystemTime::now() + ms(3);
            sleep_until_wall(deadline).precise().await;
            late.push(deadline.elapsed().unwrap());
        }
        // The machine may be busy with other things, but not every time.
        assert!(late.iter().min().unwrap() < &ms(2), "{late:?}");
    });
}

#[test]
fn a_tolerance_does_not_put_off_the_look_at_the_clock() {
    let _watchdog = watchdog(LONG);
    let wake_of = |wait: Duration, tolerance: Duration| {
        let runtime = Builder::new().build().unwrap();
        let company = runtime.spawn(sleep(HOUR));
        let waiting = runtime.spawn(sleep_until_wall(SystemTime::now() + wait).tolerance(tolerance));
        while runtime.turn(Duration::ZERO) {}
        let wake = runtime.next_wake().expect("it waits for a timer");
        assert!(!waiting.is_finished() && !company.is_finished());
        wake
    };
    // Ten seconds to the look, and one of tolerance; without company before, it is not used.
    assert!(wake_of(2 * HOUR, 2 * HOUR) <= ms(11_000));
}

#[test]
fn one_that_is_past_is_ready_at_once() {
    block_on(async {
        let before = metrics();
        sleep_until_wall(SystemTime::now()).await;
        sleep_until_wall(SystemTime::UNIX_EPOCH).await;
        sleep_until_wall(SystemTime::UNIX_EPOCH - HOUR).await;
        assert_eq!(metrics().timers_armed(), before.timers_armed());
        assert_eq!(metrics().turns(), before.turns());
        let mut sleep = pin!(sleep_until_wall(SystemTime::UNIX_EPOCH));
        sleep.as_mut().await;
        assert!(sleep.is_elapsed());
        sleep.await;
    });
}

#[test]
fn a_thousand_end_in_order() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let start = SystemTime::now() + ms(20);
        let tasks: Vec<_> = (0..1000u32)
            .rev()
            .map(|n| {
                let deadline = start + Duration::from_micros(50) * n;
                spawn(async move {
                    sleep_until_wall(deadline).await;
                    assert!(SystemTime::now() >= deadline);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(metrics().timers_live(), 0);
    });
}

#[test]
fn a_distant_one_waits_without_a_sound_and_can_be_dropped() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let year = 365 * 24 * HOUR;
        // As far as the system's times reach, or nearly so.
        let far = (0..63).rev().find_map(|n| SystemTime::now().checked_add(Duration::from_secs(1 << n)));
        for deadline in [SystemTime::now() + HOUR, SystemTime::now() + 200 * year, far.unwrap()] {
            let probe = Probe::new();
            let mut sleep = Box::pin(sleep_until_wall(deadline));
            assert!(probe.poll(sleep.as_mut()).is_pending());
            assert_eq!(metrics().timers_live(), 1);
            mainspring::sleep(ms(5)).await;
            // The clock may just have been read again.
            assert!(probe.wakes() <= 1 && probe.poll(sleep.as_mut()).is_pending());
            drop(sleep);
            assert_eq!(metrics().timers_live(), 0);
            assert_eq!(std::sync::Arc::strong_count(&probe), 1, "a waker was kept");
        }
    });
}

#[test]
fn in_a_select_it_can_be_asked_again_and_again() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let deadline = SystemTime::now() + ms(500);
        let mut end = pin!(sleep_until_wall(deadline).tolerance(ms(1)));
        let mut rounds = 0;
        while timeout(ms(2), end.as_mut()).await.is_err() {
            rounds += 1;
        }
        assert!(SystemTime::now() >= deadline && rounds >= 1);
    });
}

#[test]
fn made_outside_it_belongs_to_the_runtime_that_polls_it() {
    let _watchdog = watchdog(LONG);
    let outside = sleep_until_wall(SystemTime::now() + ms(30));
    block_on(async {
        let mut outside = pin!(outside);
        assert!(poll!(outside.as_mut()).is_pending());
        assert_eq!(metrics().timers_live(), 1);
        outside.await;
    });
}

#[test]
fn without_a_runtime_it_says_where_it_was_made() {
    let line = line!() + 1;
    let sleep = sleep_until_wall(SystemTime::now() + HOUR);
    let panic = panicked(|| futures::executor::block_on(sleep));
    assert!(panic.message.contains("no Mainspring runtime"), "{}", panic.message);
    assert!(panic.message.contains(&format!("{}:{line}", file!())), "{}", panic.message);

    let gone = orphan(|| sleep_until_wall(SystemTime::now() + HOUR));
    let panic = panicked(|| futures::executor::block_on(gone));
    assert!(panic.message.contains("was dropped"), "{}", panic.message);
}

#[test]
fn on_another_thread_it_is_woken_by_its_own_runtime() {
    let _watchdog = watchdog(LONG);
    fn send<T: Send>(value: T) -> T {
        value
    }
    block_on(async {
        let deadline = SystemTime::now() + ms(20);
        let elsewhere: WallSleep = send(sleep_until_wall(deadline));
        let thread = std::thread::spawn(move || {
            let start = StdInstant::now();
            futures::executor::block_on(elsewhere);
            start.elapsed()
        });
        while !thread.is_finished() {
            sleep(ms(1)).await;
        }
        thread.join().unwrap();
        assert!(SystemTime::now() >= deadline);
    });
}

#[test]
fn in_virtual_time_the_time_of_day_is_virtual_too() {
    let _watchdog = watchdog(LONG);
    let newyear = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
    let runtime = Builder::new().start_paused(true).wall_clock(newyear).build().unwrap();
    runtime.block_on(async {
        let (start, real) = (Instant::now(), StdInstant::now());
        // Windows counts the time of day in units of 100 ns.
        let unit = Duration::from_nanos(if cfg!(windows) { 100 } else { 1 });
        // A year, every day at midnight.
        for day in 1..=365 {
            let midnight = newyear + 24 * HOUR * day;
            sleep_until_wall(midnight).await;
            assert_eq!(wall_now(), midnight, "day {day}");
            let beyond = start.elapsed().checked_sub(24 * HOUR * day);
            assert!(beyond.is_some_and(|beyond| beyond < unit), "day {day}: {beyond:?}");
        }
        let waiting = spawn(sleep_until_wall(wall_now() + HOUR));
        advance(HOUR - ms(1)).await;
        assert!(!waiting.is_finished());
        advance(ms(1)).await;
        assert!(waiting.is_finished());
        assert!(real.elapsed() < LONG);
    });
}

#[test]
fn time_that_is_paused_under_it_takes_it_along() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let deadline = SystemTime::now() + 10 * HOUR;
        let mut sleep = pin!(sleep_until_wall(deadline));
        assert!(poll!(sleep.as_mut()).is_pending());
        mainspring::time::pause();
        sleep.await;
        assert!(wall_now() >= deadline && SystemTime::now() < deadline);
        // Once it is virtual, it stays virtual: the clock continues from there.
        mainspring::time::resume();
        let deadline = wall_now() + ms(5);
        sleep_until_wall(deadline).await;
        assert!(wall_now() >= deadline);
    });
}

#[test]
fn at_the_end_of_the_systems_times_the_time_of_day_stops() {
    let later = |at: SystemTime, bit: u32| at.checked_add(Duration::from_secs(1_u64 << bit)).unwrap_or(at);
    let last = (0..64_u32).rev().fold(SystemTime::UNIX_EPOCH, later);
    let runtime = Builder::new().start_paused(true).wall_clock(last - ms(10_000)).build().unwrap();
    runtime.block_on(async {
        for n in 1..=8 {
            advance(ms(3_000)).await;
            let left = last.duration_since(wall_now()).unwrap_or_default();
            assert_eq!(left, ms(10_000).saturating_sub(n * ms(3_000)));
        }
    });
}
