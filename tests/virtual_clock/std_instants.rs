//! One constant, kept from when time became virtual, converts between a runtime's instants and std's: there and back is
//! the same moment, and a deadline that went through std's type is as exact as one that did not.

use super::common::{HOUR, LONG, ms, watchdog};
use super::{ns, paused, secs};

use std::time::{Duration, Instant as StdInstant};

use mainspring::runtime::Builder;
use mainspring::time::{
    Clock, Instant, TestClock, advance, advance_to, interval_at, is_paused, pause, resume, sleep,
    sleep_until, timeout_at,
};
use mainspring::{Runtime, block_on};
use proptest::prelude::*;

#[test]
fn a_second_by_std_is_a_second_of_virtual_time() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        for _ in 0..100 {
            let start = Instant::now();
            let std = start.into_std();
            std::thread::sleep(Duration::from_micros(50));
            sleep_until((std + secs(1)).into()).await;
            assert_eq!(start.elapsed(), secs(1));
        }
    });
}

#[test]
fn timeouts_and_ticks_by_std_are_exact() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        sleep(HOUR).await;
        let start = Instant::now();
        let deadline = start.into_std() + secs(60);
        assert!(timeout_at(deadline.into(), std::future::pending::<()>()).await.is_err());
        assert_eq!(start.elapsed(), secs(60));
        let mut ticks = interval_at((deadline + ms(1)).into(), secs(1));
        for n in 0..3 {
            assert_eq!(ticks.tick().await.into_std(), deadline + ms(1) + n * secs(1));
        }
        assert_eq!(start.elapsed(), secs(62) + ms(1));
    });
}

#[test]
fn a_moment_by_std_from_before_the_pause_means_the_same_after_it() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (before, std) = (Instant::now(), StdInstant::now());
        let known = Instant::from_std(std);
        pause();
        assert_eq!((Instant::from_std(std), before.into_std()), (known, before.into_std()));
        let end = std + HOUR;
        sleep_until(end.into()).await;
        assert_eq!(Instant::now(), known + HOUR);
        assert_eq!(Instant::now().into_std(), end);
        resume();
        assert_eq!(Instant::from_std(std), known);
        assert!(Instant::now().into_std() >= end);
        pause();
        assert_eq!(Instant::from_std(std), known);
    });
}

#[test]
fn runtimes_by_one_test_clock_agree_with_each_other_and_with_who_made_it() {
    let outside = Instant::now();
    let clock = TestClock::new();
    let began = clock.started_at();
    let on = || Builder::new().clock(Clock::Test(clock.clone())).build().unwrap();
    let std = |runtime: &Runtime| runtime.block_on(async { (began + HOUR).into_std() });
    let first = on();
    clock.advance(2 * HOUR);
    assert_eq!(std(&first), std(&on()));
    assert_eq!(std(&first), (began + HOUR).into_std());
    assert!(outside.into_std() <= began.into_std());
    // An instant that is made in virtual time is tied to that.
    paused().block_on(async {
        sleep(HOUR).await;
        let clock = TestClock::new();
        let inside = (clock.now() + HOUR).into_std();
        let runtime = Builder::new().clock(Clock::Test(clock.clone())).build().unwrap();
        let _entered = runtime.handle().enter();
        assert_eq!((Instant::now() + HOUR).into_std(), inside);
    });
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Pause,
    Resume,
    Advance(u64),
    AdvanceTo(u64),
    Sleep(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let far = || prop_oneof![0u64..3_000_000, 0u64..10_000_000_000_000];
    prop_oneof![
        Just(Step::Pause),
        Just(Step::Resume),
        far().prop_map(Step::Advance),
        far().prop_map(Step::AdvanceTo),
        far().prop_map(Step::Sleep),
    ]
}

/// Moments around `now` and at the edges, in order.
fn moments(now: Instant, distances: &[u64]) -> Vec<Instant> {
    let near = distances.iter().flat_map(|&distance| [now - ns(distance), now + ns(distance)]);
    let edges = [now, now + Duration::MAX, now - Duration::MAX - Duration::MAX, now + Duration::MAX - ns(1)];
    let mut moments: Vec<Instant> = near.chain(edges).collect();
    moments.sort();
    moments
}

/// There and back is the same moment; the order and, except at the edges, the distances stay.
fn assert_exact(moments: &[Instant]) {
    let there: Vec<StdInstant> = moments.iter().map(|moment| moment.into_std()).collect();
    assert!(there.is_sorted());
    if cfg!(any(target_os = "linux", target_os = "macos")) {
        let back: Vec<Instant> = there.iter().map(|&std| std.into()).collect();
        assert_eq!(back, moments);
        let distance = |at: usize| (moments[at] - moments[at - 1], there[at] - there[at - 1]);
        assert!((1..moments.len()).map(distance).all(|(here, there)| here == there));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn conversion_is_exact_whatever_was_done_to_time(
        from_the_beginning in any::<bool>(),
        steps in proptest::collection::vec((step(), 0u64..5_000_000_000), 1..12),
        distances in proptest::collection::vec(0u64..(1 << 60), 0..4),
    ) {
        let _watchdog = watchdog(LONG);
        let runtime = Builder::new().start_paused(from_the_beginning).build().unwrap();
        runtime.block_on(async {
            let first = moments(Instant::now(), &distances);
            if !from_the_beginning {
                pause();
            }
            let in_std: Vec<StdInstant> = first.iter().map(|moment| moment.into_std()).collect();
            for (step, wait) in steps {
                match step {
                    Step::Pause if !is_paused() => pause(),
                    Step::Resume if is_paused() => resume(),
                    Step::Advance(by) if is_paused() => advance(ns(by)).await,
                    Step::AdvanceTo(by) if is_paused() => advance_to(Instant::now() + ns(by)).await,
                    Step::Sleep(long) if is_paused() => sleep(ns(long)).await,
                    _ => {}
                }
                assert_exact(&moments(Instant::now(), &distances));
                // Instants that were converted before any of this still convert to the same.
                assert!(first.iter().zip(&in_std).all(|(moment, std)| moment.into_std() == *std));
                if is_paused() {
                    let start = Instant::now();
                    sleep_until((start.into_std() + ns(wait)).into()).await;
                    assert_eq!(start.elapsed(), ns(wait));
                } else {
                    let start = Instant::now();
                    let end = start.into_std() + ns(wait % 100_000);
                    sleep_until(end.into()).await;
                    assert!(start.elapsed() >= ns(wait % 100_000) && Instant::now().into_std() >= end);
                }
            }
        });
    }

    #[test]
    fn two_runs_that_go_through_stds_type_give_one_trace(
        steps in proptest::collection::vec((step(), 0u64..5_000_000_000), 1..20),
    ) {
        let _watchdog = watchdog(LONG);
        let run = || paused().block_on(async {
            let start = Instant::now();
            let mut trace = vec![start];
            for &(step, wait) in &steps {
                match step {
                    Step::Advance(by) => advance(ns(by)).await,
                    Step::AdvanceTo(by) => advance_to(Instant::now() + ns(by)).await,
                    Step::Sleep(long) => sleep(ns(long)).await,
                    Step::Pause | Step::Resume => std::thread::sleep(Duration::from_micros(10)),
                }
                let deadline = Instant::now().into_std() + ns(wait);
                sleep_until(deadline.into()).await;
                trace.push(Instant::now());
            }
            trace
        });
        assert_eq!(run(), run());
    }
}
