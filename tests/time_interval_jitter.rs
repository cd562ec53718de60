//! Intervals that change their period, and intervals that spread their ticks.

mod common;

use std::pin::pin;
use std::thread;
use std::time::Duration;

use common::{HOUR, LONG, metrics, ms, panicked, paused, us, watchdog};
use futures::poll;
use mainspring::time::{Instant, Interval, MissedTickBehavior, interval, interval_at};
use mainspring::{block_on, sleep, spawn};

const ALL: [MissedTickBehavior; 3] =
    [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip];

/// An interval whose latest tick was scheduled for `last`, which is past.
async fn ticked_at(last: Instant, period: Duration, behavior: MissedTickBehavior) -> Interval {
    let mut ticks = interval_at(last, period);
    assert_eq!(ticks.tick().await, last);
    ticks.set_missed_tick_behavior(behavior);
    ticks
}

#[test]
fn a_new_period_counts_from_the_last_tick() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        for behavior in ALL {
            let mut ticks = interval(HOUR);
            ticks.set_missed_tick_behavior(behavior);
            let first = ticks.tick().await;
            ticks.set_period(ms(20));
            assert_eq!(ticks.period(), ms(20));
            assert_eq!(ticks.tick().await, first + ms(20), "{behavior:?}");
            ticks.set_period(HOUR);
            assert!(poll!(pin!(ticks.tick())).is_pending());
            ticks.set_period(ms(40));
            assert_eq!(ticks.tick().await, first + ms(60), "{behavior:?}");
        }
    });
}

#[test]
fn a_shorter_period_makes_no_missed_ticks() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        for behavior in ALL {
            // Half an hour into the hour: 1,800,000 periods of a millisecond have passed, and none was missed.
            let last = Instant::now() - HOUR / 2;
            let mut ticks = ticked_at(last, HOUR, behavior).await;
            let before = Instant::now();
            ticks.set_period(ms(1));
            let after = Instant::now();
            let tick = ticks.tick().await;
            assert_eq!((tick - last).as_nanos() % ms(1).as_nanos(), 0, "the phase was lost");
            assert!(before < tick && tick <= after + ms(1), "{behavior:?}: not the first one ahead");
            if behavior == MissedTickBehavior::Burst {
                assert_eq!(ticks.tick().await, tick + ms(1));
            }
        }
    });
}

#[test]
fn a_period_that_is_changed_twice_counts_from_the_last_tick_both_times() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        for behavior in ALL {
            let mut ticks = interval(ms(100));
            ticks.set_missed_tick_behavior(behavior);
            let first = ticks.tick().await;
            sleep(ms(50)).await;
            // A new period that is taken back at once changes nothing.
            ticks.set_period(ms(20));
            ticks.set_period(ms(100));
            assert_eq!(ticks.tick().await, first + ms(100), "{behavior:?}");
            sleep(ms(50)).await;
            ticks.set_period(ms(20));
            sleep(ms(5)).await;
            ticks.set_period(ms(30));
            assert_eq!(ticks.tick().await, first + ms(160), "{behavior:?}");
        }
    });
}

#[test]
fn a_new_period_loses_no_tick_that_is_due() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let last = Instant::now() - ms(35);
        let mut ticks = ticked_at(last, ms(10), MissedTickBehavior::Burst).await;
        // Ticks for 10, 20 and 30 ms are missing. The first of them stays, and the new period follows it.
        ticks.set_period(HOUR);
        assert_eq!(ticks.tick().await, last + ms(10));
        assert!(poll!(pin!(ticks.tick())).is_pending());
    });
}

#[test]
fn a_moment_that_was_asked_for_outlives_the_period() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let start = Instant::now() + ms(3);
        let mut ticks = interval_at(start, HOUR);
        ticks.set_period(ms(2));
        assert_eq!(ticks.tick().await, start);
        assert_eq!(ticks.tick().await, start + ms(2));

        let at = Instant::now() + ms(3);
        ticks.reset_at(at);
        ticks.set_period(ms(1));
        assert_eq!(ticks.tick().await, at);
        assert_eq!(ticks.tick().await, at + ms(1));

        // `reset` asks for a period from now: a new period counts from the same call.
        ticks.set_period(HOUR);
        let before = Instant::now();
        ticks.reset();
        let after = Instant::now();
        ticks.set_period(ms(300));
        let tick = ticks.tick().await;
        assert!(before + ms(300) <= tick && tick <= after + ms(300));
    });
}

#[test]
fn a_waiting_task_follows_the_new_period() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut ticks = interval(HOUR);
        let first = ticks.tick().await;
        assert!(poll!(pin!(ticks.tick())).is_pending());
        assert_eq!(metrics().timers_live(), 1);
        ticks.set_period(ms(30));
        // It is not polled again before the runtime does so.
        assert_eq!(spawn(async move { ticks.tick().await }).await.unwrap(), first + ms(30));
    });
}

#[test]
fn made_outside_its_period_can_be_changed() {
    let _watchdog = watchdog(LONG);
    let mut ticks = interval(HOUR);
    ticks.set_period(ms(1));
    block_on(async {
        let first = ticks.tick().await;
        assert_eq!(ticks.tick().await, first + ms(1));
    });
}

#[test]
fn a_new_period_of_zero_panics_at_the_caller() {
    block_on(async {
        let mut ticks = interval(ms(1));
        let line = line!() + 1;
        let panic = panicked(|| ticks.set_period(Duration::ZERO));
        assert!(panic.message.contains("`period` must not be zero"), "{}", panic.message);
        assert_eq!((panic.file.as_str(), panic.line), (file!(), line));
        assert_eq!(ticks.period(), ms(1));
        ticks.set_period(Duration::MAX);
        ticks.tick().await;
        assert!(poll!(pin!(ticks.tick())).is_pending());
        // From an endless period back to one that ends.
        ticks.set_period(ms(1));
        ticks.tick().await;
    });
}

/// Ticks with jitter.
fn jittered(mut ticks: Interval, most: Duration) -> Interval {
    ticks.set_jitter(most);
    ticks
}

#[test]
fn jitter_delays_ticks_and_not_their_schedule() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (period, most) = (ms(4), ms(3));
        let mut ticks = jittered(interval(period).precise(), most);
        ticks.set_jitter_seed(42);
        let mut expected = None;
        let mut late = 0;
        for n in 0..100 {
            let scheduled = ticks.tick().await;
            let now = Instant::now();
            assert!(now >= scheduled, "tick {n} came before its schedule");
            assert_eq!(scheduled, expected.unwrap_or(scheduled), "tick {n}: the schedule drifts");
            expected = Some(scheduled + period);
            late += u32::from(now - scheduled >= ms(1));
        }
        // Two of three delays are longer than a millisecond.
        assert!(late >= 40, "only {late} of 100 ticks were delayed");
    });
}

#[test]
fn the_first_tick_is_delayed_too() {
    let _watchdog = watchdog(LONG);
    let long = |mut ticks: Interval| {
        ticks.set_jitter(Duration::MAX);
        ticks.set_jitter_seed(1);
        ticks
    };
    let outside = long(interval(HOUR));
    block_on(async {
        // A delay of up to 292 years; with this seed the first delay is not short.
        let inside = long(interval(HOUR));
        let later = long(interval_at(Instant::now(), HOUR));
        for mut ticks in [outside, inside, later] {
            assert!(poll!(pin!(ticks.tick())).is_pending());
            assert!(poll!(pin!(ticks.tick())).is_pending());
            // Without jitter it ticks at once.
            assert_eq!(ticks.jitter(), Duration::MAX);
            ticks.set_jitter(Duration::ZERO);
            ticks.tick().await;
            assert!(poll!(pin!(ticks.tick())).is_pending());
        }
    });
}

#[test]
fn a_jittered_interval_made_outside_starts_at_its_first_poll() {
    let _watchdog = watchdog(LONG);
    let mut ticks = jittered(interval(ms(2)), ms(1));
    thread::sleep(ms(10));
    let start = Instant::now();
    block_on(async {
        let first = ticks.tick().await;
        assert!(first >= start && Instant::now() >= first);
        assert_eq!(ticks.tick().await, first + ms(2));
    });
}

#[test]
fn delays_longer_than_the_period_lose_no_tick() {
    let _watchdog = watchdog(LONG);
    for behavior in ALL {
        paused().block_on(async {
            let mut ticks = jittered(interval(ms(5)), ms(20));
            ticks.set_missed_tick_behavior(behavior);
            ticks.set_jitter_seed(3);
            let first = ticks.tick().await;
            for n in 1..=30 {
                assert_eq!(ticks.tick().await, first + n * ms(5), "{behavior:?}");
            }
        });
    }
}

#[test]
fn what_a_reset_sets_does_not_wait_for_the_delay_of_the_tick_before() {
    let _watchdog = watchdog(LONG);
    for behavior in ALL {
        paused().block_on(async {
            let mut ticks = jittered(interval(ms(5)), HOUR);
            ticks.set_missed_tick_behavior(behavior);
            ticks.set_jitter_seed(1);
            let first = ticks.tick().await;
            let taken = Instant::now();
            assert!(taken > first + ms(100), "with this seed the first delay is long");
            ticks.set_jitter(Duration::ZERO);
            // Fifty milliseconds late, and counted as such: the tick before it plays no part.
            ticks.reset_at(taken - ms(50));
            assert_eq!(ticks.tick().await, taken - ms(50));
            let next = ticks.tick().await;
            let expected = match behavior {
                MissedTickBehavior::Burst => taken - ms(45),
                _ => taken + ms(5),
            };
            assert_eq!(next, expected, "{behavior:?}");
        });
    }
}

#[test]
fn skip_leaves_out_what_was_missed_under_jitter_also_before_the_runtime_began() {
    let _watchdog = watchdog(LONG);
    let long_ago = Instant::now() - HOUR;
    block_on(async {
        let mut ticks = jittered(interval_at(long_ago, ms(50)), ms(10));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        assert_eq!(ticks.tick().await, long_ago);
        let next = ticks.tick().await;
        assert!(next > long_ago + HOUR - ms(60), "missed ticks were not left out");
        assert_eq!((next - long_ago).as_nanos() % ms(50).as_nanos(), 0);
    });
}

#[test]
fn jitter_spreads_a_crowd() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let start = Instant::now() + ms(20);
        let crowd: Vec<_> = (0..64)
            .map(|_| {
                spawn(async move {
                    let mut ticks = jittered(interval_at(start, HOUR).precise(), ms(200));
                    ticks.tick().await.elapsed()
                })
            })
            .collect();
        let mut eighths = [0; 9];
        for one in crowd {
            let delay = one.await.unwrap();
            eighths[(delay.as_millis() / 25).min(8) as usize] += 1;
        }
        // By chance, one of the eight parts is empty once in a thousand seeds, and two in a million; paused time has one seed.
        let used = eighths[..8].iter().filter(|&&count| count > 0).count();
        assert!(used >= 6 && eighths[8] == 0, "{eighths:?}");
    });
}

#[test]
fn a_reset_sets_the_schedule_and_the_delay_comes_on_top() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut ticks = jittered(interval(HOUR), us(500));
        ticks.tick().await;
        let at = Instant::now() + ms(1);
        ticks.reset_at(at);
        assert_eq!(ticks.tick().await, at);
        ticks.reset_after(ms(1));
        ticks.set_jitter(Duration::MAX);
        ticks.set_jitter_seed(1);
        assert!(poll!(pin!(ticks.tick())).is_pending());
    });
}
