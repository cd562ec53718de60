//! Two runs of one program produce one trace, whatever the machine does meanwhile and whatever the tolerance is.

use super::common::{LONG, Random, metrics, ms, us, watchdog};
use super::{Trace, YEAR, secs};

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use futures::future::{Either, join_all, select};
use mainspring::runtime::Builder;
use mainspring::task::yield_now;
use mainspring::time::{
    Instant, MissedTickBehavior, Tolerance, advance, interval, sleep, sleep_until, timeout,
};
use mainspring::{spawn, time};

/// A program that uses everything, decided by dice. Returns what it did.
fn program(builder: Builder, seed: u64) -> Vec<(Duration, String)> {
    let runtime = builder.start_paused(true).build().unwrap();
    runtime.block_on(async move {
        let trace = Trace::start();
        let dice = Rc::new(RefCell::new(Random::new(seed)));
        let tasks: Vec<_> = (0..60)
            .map(|n| {
                let (trace, dice) = (trace.clone(), dice.clone());
                spawn(actor(n, 0, trace, dice))
            })
            .collect();
        let driving = spawn({
            let trace = trace.clone();
            async move {
                for n in 0..20 {
                    advance(us(777 * n)).await;
                    trace.note(format!("advanced {n}"));
                    sleep(ms(3)).await;
                }
            }
        });
        for task in tasks {
            task.await.unwrap();
        }
        driving.await.unwrap();
        trace.note(format!("{} turns, {} polls", metrics().turns(), metrics().polls()));
        trace.take()
    })
}

/// Thirty things that a task does with time.
async fn actor(name: u64, depth: u64, trace: Trace<String>, dice: Rc<RefCell<Random>>) {
    let roll = |limit| dice.borrow_mut().below(limit);
    for step in 0..30 {
        let long = ns_below(&mut dice.borrow_mut(), ms(5));
        let other = ns_below(&mut dice.borrow_mut(), ms(5));
        let what = match roll(7) {
            0 => {
                sleep(long).await;
                "slept"
            }
            1 => match timeout(long, sleep(other)).await {
                Ok(()) => "was in time",
                Err(_) => "was too late",
            },
            2 => {
                let mut ticks = interval(long.max(us(1)));
                ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
                for _ in 0..roll(5) {
                    ticks.tick().await;
                }
                "ticked"
            }
            3 => {
                let (one, two) = (Box::pin(sleep(long)), Box::pin(sleep(ms(2))));
                match select(one, two).await {
                    Either::Left(_) => "took the left",
                    Either::Right(_) => "took the right",
                }
            }
            4 if depth < 2 => {
                let child = Box::pin(actor(100 * name + step, depth + 1, trace.clone(), dice.clone()));
                let child = spawn(child as std::pin::Pin<Box<dyn Future<Output = ()>>>);
                if roll(2) == 0 {
                    sleep(long).await;
                    child.abort();
                }
                match child.await {
                    Ok(()) => "had a child",
                    Err(_) => "lost a child",
                }
            }
            5 => {
                let mut timer = Box::pin(sleep(long));
                assert!(long.is_zero() || futures::poll!(timer.as_mut()).is_pending());
                timer.as_mut().reset(Instant::now() + us(roll(3_000)));
                timer.await;
                "put off"
            }
            _ => {
                yield_now().await;
                "yielded"
            }
        };
        trace.note(format!("{name}/{step} {what}"));
    }
}

#[test]
fn two_runs_of_one_program_give_one_trace() {
    let _watchdog = watchdog(4 * LONG);
    for seed in 0..2 {
        let first = program(Builder::new(), seed);
        assert!(first.len() > 1_800, "only {} lines", first.len());
        // The machine is busy with something else at some times, and not at others.
        let busy = std::thread::spawn(|| (0..3_000_000u64).fold(0, |sum: u64, n| sum.wrapping_add(n * n)));
        let second = program(Builder::new(), seed);
        std::hint::black_box(busy.join().unwrap());
        for (one, two) in first.iter().zip(&second) {
            assert_eq!(one, two, "seed {seed}");
        }
        assert_eq!(first.len(), second.len());
        assert_ne!(first, program(Builder::new(), seed + 100), "the trace says nothing");
    }
}

/// When the ticks of three intervals come. One interval was made outside the runtime, and one has a seed of its own.
fn jittered(builder: Builder) -> Vec<Vec<Duration>> {
    let jittered = || {
        let mut ticks = interval(secs(1));
        ticks.set_jitter(ms(900));
        ticks
    };
    let outside = jittered();
    let runtime = builder.build().unwrap();
    runtime.block_on(async {
        let start = Instant::now();
        let (inside, mut own) = (jittered(), jittered());
        own.set_jitter_seed(7);
        join_all([outside, inside, own].map(|mut ticks| async move {
            let mut moments = Vec::new();
            for _ in 0..10 {
                ticks.tick().await;
                moments.push(start.elapsed());
            }
            moments
        }))
        .await
    })
}

#[test]
fn unseeded_jitter_is_the_same_in_two_paused_runs_and_another_for_another_seed() {
    let _watchdog = watchdog(LONG);
    let paused = || Builder::new().start_paused(true);
    let first = jittered(paused());
    assert_eq!(first, jittered(paused()));
    assert_ne!(first[0], first[1], "each has a sequence of its own");
    let seeded = jittered(paused().seed(1));
    assert_eq!(seeded, jittered(paused().seed(1)));
    let other = jittered(paused().seed(2));
    for n in 0..2 {
        assert!(
            first[n] != seeded[n] && seeded[n] != other[n],
            "interval {n} does not go by the runtime's seed"
        );
    }
    // The interval's own seed takes precedence.
    assert_eq!((&first[2], &seeded[2]), (&other[2], &other[2]));
}

#[test]
fn tolerance_plays_no_part_in_virtual_time() {
    let _watchdog = watchdog(4 * LONG);
    for seed in 0..2 {
        let precise = program(Builder::new().timer_tolerance(Tolerance::Precise), seed);
        let adaptive = program(Builder::new().timer_tolerance(Tolerance::Adaptive), seed);
        let fixed = Tolerance::Fixed { ratio: 1.0, max: secs(5) };
        let fixed = program(Builder::new().timer_tolerance(fixed), seed);
        assert!(precise == adaptive, "adaptive, seed {seed}");
        assert!(precise == fixed, "fixed, seed {seed}");
    }
    // Nor does the tolerance of a single timer.
    let runtime = Builder::new().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let start = Instant::now();
        let patient = spawn(async move {
            sleep(ms(1)).tolerance(secs(3_600)).await;
            start.elapsed()
        });
        sleep(secs(1)).await;
        assert_eq!(patient.await.unwrap(), ms(1));
    });
}

#[test]
fn equal_deadlines_fire_in_the_order_of_registration_each_time() {
    let _watchdog = watchdog(LONG);
    for _ in 0..3 {
        let runtime = Builder::new().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let trace = Trace::start();
            let at = trace.start + secs(7);
            for n in 0..1_000 {
                let trace = trace.clone();
                drop(spawn(async move {
                    sleep_until(at).await;
                    trace.note(n);
                }));
            }
            sleep(secs(8)).await;
            assert_eq!(trace.take(), (0..1_000).map(|n| (secs(7), n)).collect::<Vec<_>>());
        });
    }
}

/// How many timers the two years hold: the whole million takes an optimised build.
const SCHEDULE: u64 = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };

#[test]
fn two_years_of_a_million_timers_run_in_seconds_and_every_one_at_its_moment() {
    let _watchdog = watchdog(10 * LONG);
    let began = std::time::Instant::now();
    let runtime = Builder::new().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let start = Instant::now();
        let mut dice = Random::new(2);
        let fired = Rc::new(RefCell::new(Vec::with_capacity(SCHEDULE as usize)));
        let mut wanted = Vec::with_capacity(SCHEDULE as usize);
        for n in 0..SCHEDULE {
            // Every tenth falls on a whole hour, where it coincides with others.
            let after = ns_below(&mut dice, 2 * YEAR);
            let after = if n % 10 == 0 { secs(after.as_secs() / 3_600 * 3_600) } else { after };
            wanted.push((after, n));
            let fired = fired.clone();
            drop(spawn(async move {
                sleep_until(start + after).await;
                fired.borrow_mut().push((start.elapsed(), n));
            }));
        }
        time::advance(2 * YEAR).await;
        assert_eq!(start.elapsed(), 2 * YEAR);
        wanted.sort_unstable();
        let fired = fired.take();
        assert_eq!(fired.len(), wanted.len());
        for (fired, wanted) in fired.iter().zip(&wanted) {
            assert_eq!(fired, wanted);
        }
    });
    println!("{SCHEDULE} timers over two years: {:?}", began.elapsed());
    assert!(began.elapsed() < 4 * LONG, "{:?}", began.elapsed());
}

/// A duration below `limit`, to the nanosecond.
fn ns_below(dice: &mut Random, limit: Duration) -> Duration {
    super::ns(dice.below(limit.as_nanos() as u64))
}
