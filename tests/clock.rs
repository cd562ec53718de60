//! Which clock a runtime follows: a test clock that is advanced by hand, however it jumps, and boot time.

mod common;

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use common::{HOUR, LONG, metrics, ms, turn, us, watchdog};
use mainspring::runtime::{Builder, Runtime};
use mainspring::spawn;
use mainspring::time::{Clock, Instant, TestClock, interval, sleep, sleep_until, timeout};

fn on(clock: &TestClock) -> Runtime {
    Builder::new().clock(Clock::Test(clock.clone())).build().unwrap()
}

#[test]
fn a_test_clock_shows_what_it_was_turned_to() {
    let real = Instant::now();
    let clock = TestClock::new();
    assert!(clock.now() >= real && clock.now() == clock.started_at());
    clock.advance(ms(5) + us(1));
    assert_eq!(clock.clone().now(), clock.started_at() + ms(5) + us(1));
    clock.set(clock.started_at() + HOUR);
    assert_eq!(clock.now() - clock.started_at(), HOUR);
    on(&clock).block_on(async { assert_eq!(Instant::now(), clock.now()) });
    assert_eq!(format!("{clock:?}"), "TestClock { elapsed: 3600s, .. }");
}

#[test]
fn time_stands_until_the_test_clock_is_turned() {
    let _watchdog = watchdog(LONG);
    let clock = TestClock::new();
    on(&clock).block_on(async {
        let start = Instant::now();
        let mut nap = pin!(sleep(ms(1)));
        assert!(futures::poll!(nap.as_mut()).is_pending());
        std::thread::sleep(ms(5));
        turn().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        clock.advance(ms(1) - Duration::from_nanos(1));
        turn().await;
        assert!(futures::poll!(nap.as_mut()).is_pending());
        clock.advance(Duration::from_nanos(1));
        nap.await;
        assert_eq!(start.elapsed(), ms(1));
    });
}

#[test]
fn a_turn_of_the_clock_on_another_thread_wakes_the_runtime() {
    let _watchdog = watchdog(LONG);
    let clock = TestClock::new();
    let turner = clock.clone();
    let (begin, begun) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        // An hour in total, counted from the beginning of the sleep.
        begun.recv().unwrap();
        for _ in 0..60 {
            std::thread::sleep(ms(1));
            turner.advance(Duration::from_secs(60));
        }
    });
    on(&clock).block_on(async {
        let start = Instant::now();
        // The runtime is parked for good: real time brings the end no nearer.
        let nap = sleep(HOUR - Duration::from_secs(90));
        begin.send(()).unwrap();
        nap.await;
        assert!(start.elapsed() >= HOUR - Duration::from_secs(90));
        let turns = metrics().turns();
        assert!(turns <= 400, "{turns} turns for sixty of the clock's: it spins");
    });
    thread.join().unwrap();
}

#[test]
fn a_timer_on_a_test_clock_is_waited_for_without_spinning() {
    let _watchdog = watchdog(LONG);
    let clock = TestClock::new();
    let turner = clock.clone();
    let runtime = on(&clock);
    let thread = std::thread::spawn(move || {
        std::thread::sleep(ms(100));
        turner.advance(ms(1));
    });
    runtime.block_on(async {
        let before = metrics().turns();
        // A real park of this length would end a hundred times.
        sleep(ms(1)).await;
        let turns = metrics().turns() - before;
        assert!(turns <= 20, "{turns} turns for one sleep");
    });
    thread.join().unwrap();
}

#[test]
fn several_runtimes_go_by_one_test_clock() {
    let _watchdog = watchdog(LONG);
    let clock = TestClock::new();
    let deadline = clock.now() + HOUR;
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let clock = clock.clone();
            std::thread::spawn(move || {
                on(&clock).block_on(async {
                    sleep_until(deadline).await;
                    Instant::now()
                })
            })
        })
        .collect();
    // A runtime that is gone is not missed.
    drop(on(&clock));
    std::thread::sleep(ms(20));
    clock.advance(HOUR);
    for thread in threads {
        assert_eq!(thread.join().unwrap(), deadline);
    }
}

#[test]
fn a_jump_fires_every_due_timer_once_in_order_in_bounded_slices() {
    const CROWD: u64 = 10_000;
    const BUDGET: usize = 100;
    let _watchdog = watchdog(LONG);
    let clock = TestClock::new();
    let builder = Builder::new().clock(Clock::Test(clock.clone())).timer_budget(BUDGET);
    builder.build().unwrap().block_on(async {
        let start = Instant::now();
        let fired = Rc::new(RefCell::new(vec![]));
        for n in 0..CROWD {
            let (fired, at) = (fired.clone(), us(1 + (n * 7_919) % CROWD));
            drop(spawn(async move {
                sleep_until(start + at).await;
                fired.borrow_mut().push(at);
            }));
        }
        let beyond = spawn(sleep(HOUR));
        while metrics().timers_armed() <= CROWD {
            turn().await;
        }
        // The machine was suspended: the clock is far beyond all deadlines at once.
        clock.advance(HOUR - us(1));
        let first = metrics().turns();
        while fired.borrow().len() < CROWD as usize {
            let before = metrics().timers_fired();
            let turns = metrics().turns();
            turn().await;
            let (fired, turns) = (metrics().timers_fired() - before, metrics().turns() - turns);
            assert!(fired <= turns * BUDGET as u64, "{fired} timers fired in {turns} turns");
        }
        let slices = metrics().turns() - first;
        assert!(slices >= CROWD / BUDGET as u64, "only {slices} slices");
        let fired = fired.take();
        assert_eq!(fired, (1..=CROWD).map(us).collect::<Vec<_>>(), "each once, by deadline");
        assert!(!beyond.is_finished());
        clock.advance(us(1));
        beyond.await.unwrap();
    });
}

#[test]
fn ticks_after_a_jump_are_those_that_the_interval_wants() {
    let _watchdog = watchdog(LONG);
    let clock = TestClock::new();
    on(&clock).block_on(async {
        let mut ticks = interval(ms(10));
        let first = ticks.tick().await;
        clock.advance(ms(35));
        for n in 1..=3 {
            assert_eq!(ticks.tick().await, first + ms(10 * n));
        }
        assert!(futures::poll!(pin!(ticks.tick())).is_pending());
    });
}

#[test]
fn a_clock_that_goes_back_loses_nothing_and_fires_nothing_early() {
    let _watchdog = watchdog(LONG);
    let clock = TestClock::new();
    on(&clock).block_on(async {
        let start = Instant::now();
        let mut nap = pin!(sleep(ms(10)));
        assert!(futures::poll!(nap.as_mut()).is_pending());
        clock.advance(ms(5));
        turn().await;
        assert_eq!(start.elapsed(), ms(5));
        clock.set(start);
        turn().await;
        // The runtime's time stands still until the clock has caught up.
        assert_eq!((start.elapsed(), clock.now()), (ms(5), start));
        assert!(futures::poll!(nap.as_mut()).is_pending());
        clock.advance(ms(9));
        turn().await;
        assert!(futures::poll!(nap.as_mut()).is_pending());
        clock.advance(ms(1));
        nap.await;
        assert_eq!(start.elapsed(), ms(10));
    });
}

#[test]
fn any_turn_of_a_test_clock_is_legal() {
    let _watchdog = watchdog(LONG);
    let clock = TestClock::new();
    on(&clock).block_on(async {
        let mut never = pin!(sleep(Duration::MAX));
        assert!(futures::poll!(never.as_mut()).is_pending());
        for far in [Duration::MAX, Duration::from_millis(u64::MAX), ms(1)] {
            clock.advance(far);
            turn().await;
        }
        clock.set(Instant::now() + Duration::MAX);
        turn().await;
        assert!(futures::poll!(never.as_mut()).is_pending());
        clock.set(Instant::now() - Duration::MAX - Duration::MAX);
        turn().await;
    });
}

#[test]
fn a_timeout_on_a_test_clock_waits_for_that_clock() {
    let _watchdog = watchdog(LONG);
    let clock = TestClock::new();
    on(&clock).block_on(async {
        let patient = spawn(timeout(ms(1), std::future::pending::<()>()));
        std::thread::sleep(ms(10));
        turn().await;
        assert!(!patient.is_finished());
        clock.advance(ms(1));
        assert!(patient.await.unwrap().is_err());
    });
}

/// The documentation of `Clock` says what the platform offers.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod boottime {
    use std::time::Instant as StdInstant;

    use super::*;

    fn boottime() -> Runtime {
        Builder::new().clock(Clock::Boottime).build().unwrap()
    }

    #[test]
    fn timers_by_boot_time_are_never_early_and_end_on_time() {
        let _watchdog = watchdog(LONG);
        boottime().block_on(async {
            for d in [us(100), ms(1), ms(20)] {
                let (start, real) = (Instant::now(), StdInstant::now());
                sleep(d).precise().await;
                assert!(start.elapsed() >= d && real.elapsed() + us(1) >= d, "early");
            }
            let before = metrics();
            for _ in 0..10 {
                sleep(ms(5)).await;
            }
            // Its alarm follows the same clock: otherwise it would ring too early and the runtime would spin.
            let turns = metrics().turns() - before.turns();
            assert!(turns <= 80, "{turns} turns for ten sleeps");
        });
    }

    #[test]
    fn its_instants_begin_beside_the_systems() {
        let before = Instant::now();
        let seen = boottime().block_on(async {
            let now = Instant::now();
            let real = StdInstant::now();
            let std = (now + HOUR).into_std();
            assert!(std + ms(20_000) >= real + HOUR && std <= real + HOUR + ms(20_000));
            now
        });
        assert!(seen + us(1) >= before && seen <= Instant::now() + ms(1));
    }

    #[test]
    fn a_moment_by_std_and_back_is_the_same_unless_the_machine_was_suspended() {
        let _watchdog = watchdog(LONG);
        boottime().block_on(async {
            let start = Instant::now();
            for n in 0..10_000 {
                let moment = start + n * us(7);
                assert_eq!(Instant::from_std(moment.into_std()), moment);
            }
            for d in [us(200), ms(2)] {
                let end = StdInstant::now() + d;
                sleep_until(end.into()).precise().await;
                assert!(StdInstant::now() >= end, "early by std's clock");
            }
        });
    }

    #[test]
    fn its_time_can_be_paused_too() {
        let _watchdog = watchdog(LONG);
        let runtime = Builder::new().clock(Clock::Boottime).start_paused(true).build().unwrap();
        runtime.block_on(async {
            let start = Instant::now();
            sleep(HOUR).await;
            assert_eq!(start.elapsed(), HOUR);
            mainspring::time::resume();
            sleep(ms(5)).await;
            assert!(start.elapsed() >= HOUR + ms(5));
        });
    }

    #[test]
    fn a_parked_runtime_sets_an_alarm_that_counts_suspended_time() {
        // The effect of a suspension itself cannot be shown in a test. What can be shown is that the kernel
        // counts the alarm by CLOCK_BOOTTIME.
        let _watchdog = watchdog(LONG);
        let runtime = boottime();
        let clocks: Vec<u32> = std::fs::read_dir("/proc/self/fdinfo")
            .unwrap()
            .filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok())
            .filter_map(|info| {
                let id = info.lines().find_map(|line| line.strip_prefix("clockid: "))?;
                id.trim().parse().ok()
            })
            .collect();
        drop(runtime);
        assert!(clocks.contains(&7), "no timerfd by CLOCK_BOOTTIME among {clocks:?}");
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[test]
fn where_there_is_no_boot_time_the_builder_says_so() {
    let error = Builder::new().clock(Clock::Boottime).build().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
}
