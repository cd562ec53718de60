//! Intervals: ticks on schedule, without drift, and what happens to missed ticks.

mod common;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use common::{HOUR, LONG, Probe, metrics, ms, panicked, us, watchdog};
use futures::{Stream, StreamExt, poll};
use mainspring::block_on;
use mainspring::task::unconstrained;
use mainspring::time::{Instant, Interval, MissedTickBehavior, interval, interval_at};

#[test]
fn the_first_tick_comes_at_once() {
    block_on(async {
        let turns = metrics().turns();
        let before = Instant::now();
        let mut ticks = interval(HOUR);
        let first = ticks.tick().await;
        assert!(before <= first && first <= Instant::now());
        assert_eq!((metrics().turns(), metrics().timers_armed()), (turns, 0));
        assert!(poll!(pin!(ticks.tick())).is_pending());
    });
}

// tokio #6487, #6612: the lateness of one tick must not add to the next.
#[test]
fn ticks_do_not_drift() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let period = Duration::from_nanos(700_001);
        let mut ticks = interval(period);
        let first = ticks.tick().await;
        for n in 1..=300 {
            let tick = ticks.tick().await;
            assert!(Instant::now() >= tick, "tick {n} came early");
            assert_eq!(tick, first + n * period, "tick {n}");
        }
    });
}

#[test]
fn a_hundred_thousand_late_ticks_do_not_drift() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let period = Duration::from_nanos(1_000_003);
        let start = Instant::now() - 100_000 * period;
        let mut ticks = interval_at(start, period);
        for n in 0..100_000 {
            assert_eq!(ticks.tick().await, start + n * period, "tick {n}");
        }
    });
}

#[test]
fn a_period_of_zero_panics_at_the_caller() {
    let line = line!() + 1;
    let panic = panicked(|| interval(Duration::ZERO));
    assert!(panic.message.contains("`period` must not be zero"), "{}", panic.message);
    assert_eq!((panic.file.as_str(), panic.line), (file!(), line));

    let line = line!() + 1;
    let panic = panicked(|| interval_at(Instant::now(), Duration::ZERO));
    assert!(panic.message.contains("`period` must not be zero"), "{}", panic.message);
    assert_eq!((panic.file.as_str(), panic.line), (file!(), line));
}

#[test]
fn a_period_without_end_ticks_once() {
    block_on(async {
        for behavior in [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip] {
            for period in [Duration::MAX, Duration::from_millis(u64::MAX), Duration::from_nanos(u64::MAX)] {
                let mut ticks = interval(period);
                ticks.set_missed_tick_behavior(behavior);
                assert_eq!((ticks.missed_tick_behavior(), ticks.period()), (behavior, period));
                ticks.tick().await;
                assert!(poll!(pin!(ticks.tick())).is_pending());
                ticks.reset();
                assert!(poll!(pin!(ticks.tick())).is_pending());
                ticks.reset_after(Duration::MAX);
                assert!(poll!(pin!(ticks.tick())).is_pending());
                ticks.reset_immediately();
                ticks.tick().await;
                let _ = format!("{ticks:?}");
            }
        }
    });
}

#[test]
fn burst_makes_up_for_every_missed_tick() {
    let _watchdog = watchdog(LONG);
    // Without a budget, which a slow machine uses up.
    block_on(unconstrained(async {
        let period = ms(10);
        let mut ticks = interval(period);
        let first = ticks.tick().await;
        thread::sleep(ms(55));
        let before = metrics();
        for n in 1..=5 {
            assert_eq!(ticks.tick().await, first + n * period);
        }
        // After the stall the runtime must look at the clock once; it does not sleep for that.
        let after = metrics();
        assert!(after.turns() <= before.turns() + 1, "ticks that were missed had to wait");
        assert_eq!(after.wakeups(), before.wakeups(), "it slept, with ticks missing");
        // Not early, either.
        let next = ticks.tick().await;
        assert_eq!(next, first + 6 * period);
        assert!(Instant::now() >= next);
    }));
}

#[test]
fn skip_leaves_missed_ticks_out_and_keeps_the_schedule() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let period = ms(10);
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut last = ticks.tick().await;
        let first = last;
        let mut bounds = (first, Instant::now());
        for stall in [0, 55, 1, 25, 0, 12] {
            thread::sleep(ms(stall));
            let before = Instant::now();
            let tick = ticks.tick().await;
            let after = Instant::now();
            assert_eq!((tick - first).as_nanos() % period.as_nanos(), 0, "off the schedule");
            // The tick is the first one on schedule after the moment at which the last one was taken.
            assert!(tick > last && tick > bounds.0, "a tick that was missed");
            assert!(tick - period <= bounds.1, "a tick too many was left out");
            last = tick;
            bounds = (before.max(tick), after);
        }
    });
}

#[test]
fn delay_ticks_on_from_the_late_tick() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (period, grace) = (ms(20), ms(5));
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut scheduled = ticks.tick().await;
        let (mut kept, mut delayed) = (0, 0);
        // The bounds that the last tick, taken between two readings of the clock, sets for the next one.
        let mut readings = (scheduled, Instant::now());
        for stall in [0, 30, 0, 50, 0, 0, 21, 0] {
            thread::sleep(ms(stall));
            let before = Instant::now();
            let tick = ticks.tick().await;
            let after = Instant::now();
            if readings.1 - scheduled <= grace {
                assert_eq!(tick, scheduled + period, "in time, yet off the schedule");
                kept += 1;
            } else if readings.0 - scheduled > grace {
                assert!(tick >= readings.0 + period && tick <= readings.1 + period, "late, yet no delay");
                delayed += 1;
            }
            scheduled = tick;
            readings = (before.max(tick), after);
        }
        assert!(delayed >= 2, "{kept} ticks kept, {delayed} delayed");
    });
}

#[test]
fn the_grace_of_delay_is_no_longer_than_the_period() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let period = ms(1);
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let first = ticks.tick().await;
        // 2 ms late: less than 5 ms, but more than the period.
        while first.elapsed() < ms(3) {
            thread::sleep(us(100));
        }
        let before = Instant::now();
        assert_eq!(ticks.tick().await, first + period);
        assert!(ticks.tick().await >= before + period);
    });
}

#[test]
fn a_tick_that_is_dropped_is_not_lost() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let period = ms(5);
        let mut ticks = interval(period);
        let first = ticks.tick().await;
        let mut n = 0;
        while n < 10 {
            drop(ticks.tick());
            // Polled and then dropped: a tick was taken only if it was ready.
            n += 1;
            let tick = match poll!(pin!(ticks.tick())) {
                Poll::Ready(tick) => tick,
                Poll::Pending => ticks.tick().await,
            };
            assert_eq!(tick, first + n * period);
        }
    });
}

// tokio #5553: a stream that was ready had its waker registered nevertheless, and was woken for nothing.
#[test]
fn a_ready_tick_leaves_nothing_registered() {
    let _watchdog = watchdog(LONG);
    // Without a budget, which a slow machine uses up.
    block_on(unconstrained(async {
        let probe = Probe::new();
        let waker = probe.waker();
        let mut cx = Context::from_waker(&waker);
        let mut ticks = interval(us(500));
        let mut ready = 0;
        for _ in 0..20 {
            mainspring::sleep(ms(1)).await;
            // Pending polls register the waker, and the tick that ends them releases it.
            match ticks.poll_tick(&mut cx) {
                Poll::Ready(_) => {
                    ready += 1;
                    assert_eq!(metrics().timers_live(), 0);
                    assert_eq!(Arc::strong_count(&probe), 2, "a ready tick kept the waker");
                }
                Poll::Pending => assert_eq!(metrics().timers_live(), 1),
            }
        }
        assert!(ready > 0);
        drop(ticks);
        assert_eq!(Arc::strong_count(&probe), 2);
    }));
}

#[test]
fn the_resets_move_the_next_tick() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let period = ms(10);
        let mut ticks = interval(HOUR);
        ticks.tick().await;
        assert!(poll!(pin!(ticks.tick())).is_pending());

        let at = Instant::now() + ms(3);
        ticks.reset_at(at);
        assert_eq!(ticks.tick().await, at);
        assert!(poll!(pin!(ticks.tick())).is_pending(), "a reset moves the schedule, it does not change it");

        let before = Instant::now();
        ticks.reset_immediately();
        let after = Instant::now();
        let tick = ticks.tick().await;
        assert!(before <= tick && tick <= after);

        let before = Instant::now();
        ticks.reset_after(ms(2));
        let after = Instant::now();
        let tick = ticks.tick().await;
        assert!(before + ms(2) <= tick && tick <= after + ms(2));

        let past = Instant::now() - period;
        ticks.reset_at(past);
        assert_eq!(ticks.tick().await, past);

        let mut ticks = interval(period);
        ticks.tick().await;
        let before = Instant::now();
        ticks.reset();
        let after = Instant::now();
        let tick = ticks.tick().await;
        assert!(before + period <= tick && tick <= after + period);
        assert_eq!(ticks.tick().await, tick + period);
    });
}

#[test]
fn it_is_a_stream() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let period = ms(1);
        let ticks: Vec<_> = interval(period).take(4).collect().await;
        assert!(ticks.windows(2).all(|two| two[1] - two[0] == period));
        assert_eq!(ticks.len(), 4);
        assert_eq!(interval(period).size_hint(), (usize::MAX, None));
    });
}

#[test]
fn interval_at_starts_where_it_is_told() {
    let _watchdog = watchdog(LONG);
    // The start is before the runtime began: the schedule counts from the start nevertheless.
    let long_ago = Instant::now() - HOUR;
    block_on(async {
        let period = Duration::from_secs(1000);
        let mut ticks = interval_at(long_ago, period);
        for n in 0..4 {
            assert_eq!(ticks.tick().await, long_ago + n * period);
        }
        assert!(poll!(pin!(ticks.tick())).is_pending());

        let soon = Instant::now() + ms(5);
        let mut ticks = interval_at(soon, ms(1));
        assert_eq!(ticks.tick().await, soon);
        assert!(Instant::now() >= soon);
        assert_eq!(ticks.tick().await, soon + ms(1));
    });
}

#[test]
fn a_start_just_before_the_runtime_keeps_its_schedule() {
    let _watchdog = watchdog(LONG);
    let start = Instant::now();
    block_on(async {
        for behavior in [MissedTickBehavior::Burst, MissedTickBehavior::Skip] {
            let mut ticks = interval_at(start, ms(4));
            ticks.set_missed_tick_behavior(behavior);
            assert_eq!(ticks.tick().await, start);
            assert_eq!((ticks.tick().await - start).as_nanos() % ms(4).as_nanos(), 0);
            // The same for a reset.
            ticks.reset_at(start);
            assert_eq!(ticks.tick().await, start);
        }
    });
}

#[test]
fn made_outside_it_starts_at_its_first_poll() {
    let _watchdog = watchdog(LONG);
    let mut ticks = interval(ms(1));
    let mut later = interval_at(Instant::now() + HOUR, ms(1));
    later.reset_immediately();
    thread::sleep(ms(20));
    let start = Instant::now();
    block_on(async {
        let first = ticks.tick().await;
        assert!(first >= start, "it ticked for a time when nobody polled it");
        assert_eq!(ticks.tick().await, first + ms(1));
        assert!(later.tick().await < start, "it was told when to begin");
    });
}

#[test]
fn without_a_runtime_it_says_where_it_was_made() {
    let line = line!() + 1;
    let mut ticks = interval(ms(1));
    let panic = panicked(|| futures::executor::block_on(ticks.tick()));
    assert!(panic.message.contains("no Mainspring runtime"), "{}", panic.message);
    assert!(panic.message.contains(&format!("{}:{line}", file!())), "{}", panic.message);

    let poll = |ticks: &mut Interval| match ticks
        .try_poll_tick(&mut Context::from_waker(std::task::Waker::noop()))
    {
        Poll::Ready(Err(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(poll(&mut ticks).is_no_runtime());
    let mut gone = block_on(async { interval_at(Instant::now() + HOUR, ms(1)) });
    assert!(poll(&mut gone).is_shutdown());
}

#[test]
fn the_wait_for_a_tick_is_a_sleep() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut ticks = interval(ms(20));
        ticks.tick().await;
        let turns = metrics().turns();
        let start = StdInstant::now();
        for _ in 0..5 {
            ticks.tick().await;
        }
        assert!(start.elapsed() >= ms(80));
        let turns = metrics().turns() - turns;
        assert!(turns <= 3 * 5, "{turns} turns for five ticks");
    });
}
