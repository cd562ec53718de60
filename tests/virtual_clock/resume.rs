//! Resumed time continues: from where it stood, at the speed of the real clock.

use super::common::{HOUR, LONG, Probe, Random, metrics, ms, panicked, us, watchdog};
use super::{manual, paused};

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant as StdInstant, SystemTime, UNIX_EPOCH};

use futures::FutureExt as _;
use mainspring::runtime::Builder;
use mainspring::task::yield_now;
use mainspring::time::{
    Clock, Instant, MissedTickBehavior, TestClock, advance, interval, is_paused, pause, resume, sleep,
    sleep_until, sleep_until_wall, timeout, wall_now,
};
use mainspring::{block_on, spawn};

/// No machine is busy for that long.
const SOME: Duration = Duration::from_secs(20);

#[test]
fn time_goes_on_from_the_virtual_moment_at_real_speed() {
    let _watchdog = watchdog(2 * LONG);
    block_on(async {
        let (start, began) = (Instant::now(), StdInstant::now());
        pause();
        sleep(HOUR).await;
        resume();
        assert!(!is_paused());
        let (resumed, real) = (Instant::now(), StdInstant::now());
        assert!(resumed - start >= HOUR && resumed - start < HOUR + SOME);
        sleep(ms(20)).await;
        assert!(real.elapsed() >= ms(20), "it waited for real");
        assert!(resumed.elapsed() >= ms(20) && resumed.elapsed() < SOME);
        assert!(began.elapsed() < SOME, "the hour was virtual");
        // And again.
        pause();
        let start = Instant::now();
        assert!(start >= resumed + ms(20));
        advance(HOUR).await;
        assert_eq!(start.elapsed(), HOUR);
        resume();
        assert!(start.elapsed() >= HOUR && start.elapsed() < HOUR + SOME);
    });
}

#[test]
fn what_was_armed_before_a_pause_keeps_its_deadline() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let start = Instant::now();
        let timer = spawn(async {
            sleep(HOUR).await;
            Instant::now()
        });
        yield_now().await;
        pause();
        // Some time has passed since `start`, on a slow machine perhaps milliseconds.
        advance(start + (HOUR - ms(5)) - Instant::now()).await;
        resume();
        assert!(!timer.is_finished());
        let fired = timer.await.unwrap();
        assert!(fired - start >= HOUR && fired - start < HOUR + SOME);
    });
}

#[test]
fn parks_after_it_are_as_exact_as_before() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        // The alarm follows the system's clock, from which the runtime's clock now differs by two hours and more.
        sleep(2 * HOUR).await;
        std::thread::sleep(ms(15));
        resume();
        let before = metrics();
        let real = StdInstant::now();
        for _ in 0..10 {
            sleep(ms(5)).await;
        }
        assert!(real.elapsed() >= ms(50));
        let wakeups = metrics().wakeups() - before.wakeups();
        let turns = metrics().turns() - before.turns();
        // An alarm that rings long before its time would make the runtime spin.
        assert!(wakeups <= 40 && turns <= 80, "{wakeups} wake-ups, {turns} turns");
    });
}

#[test]
fn a_stop_within_one_poll_shifts_time_by_what_it_took() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let start = Instant::now();
        let deadline = start + ms(40);
        pause();
        let stood = Instant::now();
        std::thread::sleep(ms(20));
        assert_eq!(Instant::now(), stood);
        resume();
        let before = metrics().turns();
        let real = StdInstant::now();
        sleep_until(deadline).await;
        assert!(real.elapsed() + (stood - start) >= ms(40), "early by what was stood");
        assert!(Instant::now() >= deadline);
        let turns = metrics().turns() - before;
        assert!(turns <= 40, "{turns} turns for one sleep: the alarm rings too early");
    });
}

#[test]
fn a_runtime_that_is_parked_is_told_by_another_thread() {
    let _watchdog = watchdog(LONG);
    let runtime = mainspring::Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(ms(20));
        let _entered = handle.enter();
        pause();
    });
    runtime.block_on(async {
        let start = Instant::now();
        // The runtime parks for an hour of real time; once paused, time jumps.
        assert!(timeout(HOUR, std::future::pending::<()>()).await.is_err());
        assert!(start.elapsed() >= HOUR);
        assert!(is_paused());
    });
    thread.join().unwrap();
}

#[test]
fn an_advance_in_the_middle_goes_on_as_a_sleep_when_time_is_resumed() {
    let _watchdog = watchdog(LONG);
    manual().block_on(async {
        let start = Instant::now();
        let long = Probe::new();
        let mut hour = Box::pin(advance(HOUR));
        assert!(long.poll(hour.as_mut()).is_pending());
        let probe = Probe::new();
        let mut under_way = Box::pin(advance(ms(20)));
        assert!(probe.poll(under_way.as_mut()).is_pending());
        let real = StdInstant::now();
        resume();
        assert_eq!((probe.wakes(), long.wakes()), (1, 1), "who waits is told");
        assert!(long.poll(hour.as_mut()).is_pending(), "never early");
        assert!(probe.poll(under_way.as_mut()).is_pending() || start.elapsed() >= ms(20));
        under_way.await;
        assert!(start.elapsed() >= ms(20) && real.elapsed() >= ms(20));
        // The rest of the hour may be advanced through again, and then it ends the sleep as well.
        pause();
        advance(HOUR).await;
        hour.await;
        assert!(start.elapsed() >= HOUR && start.elapsed() < 2 * HOUR);
    });
}

#[test]
fn an_advance_that_is_dropped_after_a_resume_leaves_nothing_behind() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let probe = Probe::new();
        let mut dropped = Box::pin(advance(HOUR));
        assert!(probe.poll(dropped.as_mut()).is_pending());
        resume();
        assert!(probe.poll(dropped.as_mut()).is_pending());
        assert_eq!(metrics().timers_live(), 1);
        drop(dropped);
        assert_eq!(metrics().timers_live(), 0);
        // And in the opposite direction.
        pause();
        let mut dropped = Box::pin(advance(HOUR));
        assert!(probe.poll(dropped.as_mut()).is_pending());
        drop(dropped);
        resume();
        assert_eq!(probe.wakes(), 1);
    });
}

#[test]
fn the_wakers_of_advances_run_in_order_and_one_that_panics_keeps_none_from_it() {
    let runtime = manual();
    let _entered = runtime.handle().enter();
    let order = Arc::new(Mutex::new(Vec::new()));
    let probes: Vec<_> = [3, 1, 2]
        .into_iter()
        .map(|n| {
            let order = order.clone();
            let probe = Probe::with(move || {
                order.lock().unwrap().push(n);
                assert_ne!(n, 1, "waker 1");
            });
            let mut advance = Box::pin(advance(n * HOUR));
            assert!(probe.poll(advance.as_mut()).is_pending());
            advance
        })
        .collect();
    assert_eq!(
        panicked(|| resume()).message.lines().next(),
        Some("assertion `left != right` failed: waker 1")
    );
    assert!(!is_paused());
    assert_eq!(*order.lock().unwrap(), [1, 2, 3]);
    drop(probes);
}

/// Whichever comes first, the advance ends or reports that it comes too late: it never waits for a step that no thread takes.
#[test]
fn an_advance_that_races_a_resume_on_another_thread_ends() {
    const ROUNDS: usize = 500;
    let _watchdog = watchdog(4 * LONG);
    let runtime = mainspring::Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    // Odd: a round has begun, and time must be resumed.
    let round = Arc::new(AtomicUsize::new(0));
    let rounds = round.clone();
    let other = std::thread::spawn(move || {
        let _entered = handle.enter();
        let mut dice = Random::new(7);
        for n in 0..ROUNDS {
            while rounds.load(Ordering::Acquire) != 2 * n + 1 {
                std::thread::yield_now();
            }
            // At the first poll, or in the middle of the advance.
            let most = if n % 2 == 0 { 60 } else { 3_000 };
            for _ in 0..dice.below(most) {
                std::hint::spin_loop();
            }
            resume();
            rounds.store(2 * n + 2, Ordering::Release);
        }
    });
    runtime.block_on(async {
        // Deadlines on the way, so that an advance takes many steps.
        drop(spawn(async {
            let mut ticks = interval(us(5));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                ticks.tick().await;
            }
        }));
        let (mut whole, mut interrupted, mut refused) = (0, 0, 0);
        for n in 0..ROUNDS {
            pause();
            let start = Instant::now();
            let advance = advance(us(100));
            round.store(2 * n + 1, Ordering::Release);
            match AssertUnwindSafe(advance).catch_unwind().await {
                Ok(()) if start.elapsed() == us(100) => whole += 1,
                Ok(()) => {
                    assert!(start.elapsed() > us(100), "early");
                    interrupted += 1;
                }
                Err(_) => refused += 1,
            }
            while round.load(Ordering::Acquire) != 2 * n + 2 {
                yield_now().await;
            }
        }
        println!("{whole} whole, {interrupted} interrupted, {refused} refused");
    });
    other.join().unwrap();
}

#[test]
fn the_wall_clock_goes_by_virtual_time() {
    // tokio #3281: there the time of day cannot be read from the paused clock.
    let _watchdog = watchdog(LONG);
    let epoch = UNIX_EPOCH + 20_000 * 24 * HOUR;
    let runtime = Builder::new().start_paused(true).wall_clock(epoch).build().unwrap();
    runtime.block_on(async {
        assert_eq!(wall_now(), epoch);
        sleep(HOUR).await;
        assert_eq!(wall_now(), epoch + HOUR);
        let start = Instant::now();
        sleep_until_wall(epoch + 1_000 * HOUR).await;
        assert_eq!(wall_now(), epoch + 1_000 * HOUR);
        // Windows counts the time of day in units of 100 ns.
        let unit = Duration::from_nanos(if cfg!(windows) { 100 } else { 1 });
        assert!(start.elapsed() >= 999 * HOUR && start.elapsed() < 999 * HOUR + unit);
        sleep_until_wall(epoch).await;
        let epoch = wall_now() - HOUR;
        resume();
        sleep(ms(3)).await;
        assert!(wall_now() >= epoch + HOUR + ms(3) && wall_now() < epoch + HOUR + SOME);
        pause();
        let stood = wall_now();
        advance(Duration::MAX).await;
        assert!(wall_now() > stood, "it ends at the end of the system's type, and panics nowhere");
    });
    block_on(async {
        let (before, seen, after) = (SystemTime::now(), wall_now(), SystemTime::now());
        assert!(before <= seen && seen <= after, "never paused, it is the system's");
        pause();
        let stood = wall_now();
        advance(HOUR).await;
        assert_eq!(wall_now(), stood + HOUR);
        assert!(stood >= before && stood <= SystemTime::now());
    });
    let clock = TestClock::new();
    let runtime = Builder::new().clock(Clock::Test(clock.clone())).wall_clock(epoch).build().unwrap();
    runtime.block_on(async {
        clock.advance(HOUR);
        assert_eq!(wall_now(), epoch + HOUR);
    });
}
