//! Sleeping: never early, ready when it should be, and where it belongs.

mod common;

use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use common::{HOUR, LONG, Probe, Random, metrics, ms, panicked, turn, us, watchdog, without_yielding};
use futures::poll;
use mainspring::task::unconstrained;
use mainspring::time::{
    Instant, Sleep, interval_at, sleep, sleep_until, timeout, timeout_at, try_sleep, try_sleep_until,
};
use mainspring::{Runtime, block_on, spawn};

fn assert_send_sync<T: Send + Sync>() {}

/// Times that must be as good as for ever, and once overflowed somewhere.
const FOR_EVER: [Duration; 7] = [
    Duration::MAX,
    Duration::from_millis(u64::MAX),
    Duration::from_millis(i64::MAX as u64),
    Duration::from_secs(u64::MAX / 10),
    Duration::from_secs(u64::MAX / 1_000_000_000),
    Duration::from_secs(10 * 365 * 86_400),
    Duration::from_nanos(u64::MAX),
];

#[test]
fn a_sleep_is_send_and_sync_and_stays_pinned() {
    assert_send_sync::<Sleep>();
    assert_send_sync::<mainspring::time::TrySleep>();
    assert_send_sync::<mainspring::time::Interval>();

    // Ambiguous, and so no program, if a `Sleep` were `Unpin`.
    trait NotUnpin<A> {
        fn check() {}
    }
    impl<T: ?Sized> NotUnpin<()> for T {}
    struct Is;
    impl<T: ?Sized + Unpin> NotUnpin<Is> for T {}
    <Sleep as NotUnpin<_>>::check();
}

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
    // Beside the budget, which a slow machine may use up within these polls.
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
        // One poll takes 128 ready results at the most; then the other task has its turn.
        let advanced = *advanced.lock().unwrap();
        assert!(advanced >= 1_000_000 / 128, "the other task came {advanced} times");
    });
}

#[test]
fn a_past_or_present_deadline_is_ready_without_a_turn() {
    let long_ago = Instant::now() - HOUR;
    block_on(async {
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
    });
}

#[test]
fn a_deadline_that_passed_unobserved_is_ready_without_a_park() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut fresh = pin!(sleep(ms(20)));
        let mut registered = pin!(sleep(ms(20)));
        let mut moved = pin!(sleep(HOUR));
        let _ = poll!(registered.as_mut());
        let _ = poll!(moved.as_mut());
        let soon = Instant::now() + ms(20);
        let before = metrics();
        // Nobody reads the runtime's clock meanwhile, so a turn may be needed to see what time it is.
        thread::sleep(ms(30));
        moved.as_mut().reset(soon);
        moved.await;
        fresh.as_mut().await;
        registered.await;
        let after = metrics();
        assert!(after.turns() <= before.turns() + 1);
        assert_eq!(after.wakeups(), before.wakeups(), "it slept, with a deadline past");
    });
}

#[test]
fn a_moment_that_passes_between_making_and_first_poll_is_ready_at_it() {
    fn is_ready_when_late<F: Future>(make: impl FnOnce(Instant) -> F) -> bool {
        let mut late = pin!(make(Instant::now() + ms(5)));
        // Nobody reads the runtime's clock meanwhile.
        thread::sleep(ms(10));
        Probe::new().poll(late.as_mut()).is_ready()
    }
    block_on(async {
        let before = metrics();
        assert!(is_ready_when_late(sleep_until));
        assert!(is_ready_when_late(try_sleep_until));
        assert!(is_ready_when_late(|soon| timeout_at(soon, pending::<()>())));
        assert!(is_ready_when_late(|soon| {
            let mut ticks = interval_at(soon, HOUR);
            async move { ticks.tick().await }
        }));
        // In the middle of the first poll.
        let busy = poll_fn(|_| {
            thread::sleep(ms(10));
            Poll::<()>::Pending
        });
        let late = pin!(timeout_at(Instant::now() + ms(5), busy));
        assert!(poll!(late).is_ready());
        let after = metrics();
        assert_eq!((after.turns(), after.timers_armed()), (before.turns(), before.timers_armed()));
    });
}

/// What the documentation of `sleep` says of one that is polled too late.
#[test]
fn a_sleep_that_is_first_polled_after_its_deadline_needs_a_reading_or_a_turn() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        // At most a millisecond: the poll reads the clock.
        let mut short = pin!(sleep(ms(1)));
        thread::sleep(ms(2));
        assert!(poll!(short.as_mut()).is_ready());
        // Longer: somebody has read it since.
        let mut long = pin!(sleep(ms(5)));
        thread::sleep(ms(10));
        let _ = Instant::now();
        assert!(poll!(long.as_mut()).is_ready());
        // Or nobody has: pending once, and then a turn that does not sleep.
        let mut late = pin!(sleep(ms(5)));
        thread::sleep(ms(10));
        let before = metrics();
        assert!(poll!(late.as_mut()).is_pending());
        late.await;
        let after = metrics();
        assert_eq!((after.turns(), after.wakeups()), (before.turns() + 1, before.wakeups()));
    });
}

#[test]
fn a_reset_to_the_past_is_ready_at_the_next_poll() {
    block_on(async {
        let past = Instant::now() - us(1);
        let turns = metrics().turns();

        let mut never_polled = pin!(sleep(HOUR));
        never_polled.as_mut().reset(past);
        assert!(poll!(never_polled).is_ready());

        let mut registered = pin!(sleep(HOUR));
        assert!(poll!(registered.as_mut()).is_pending());
        registered.as_mut().reset(past);
        assert!(poll!(registered.as_mut()).is_ready());

        // It has fired; and once more.
        registered.as_mut().reset(past);
        assert!(poll!(registered).is_ready());

        assert_eq!(metrics().turns(), turns);
        assert_eq!(metrics().timers_live(), 0);
    });
}

#[test]
fn a_reset_to_the_past_wakes_its_task() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let shared = Arc::new(Mutex::new(Box::pin(sleep(HOUR))));
        let waiting = shared.clone();
        let waiter = spawn(poll_fn(move |cx| waiting.lock().unwrap().as_mut().poll(cx)));
        turn().await;
        shared.lock().unwrap().as_mut().reset(Instant::now());
        waiter.await.unwrap();
    });
}

// tokio #3551, #5183.
#[test]
fn a_sleep_for_ever_is_pending_and_can_be_dropped() {
    block_on(async {
        for far in FOR_EVER {
            let start = Instant::now();
            let mut from_now = pin!(sleep(far));
            let mut until = pin!(sleep_until(start + far + far + far));
            let mut moved = pin!(sleep(us(1)));
            moved.as_mut().reset(start + far);
            for sleep in [&mut from_now, &mut until, &mut moved] {
                assert!(poll!(sleep.as_mut()).is_pending(), "{far:?}");
                assert!(sleep.deadline() - start >= Duration::from_secs(9 * 365 * 86_400));
                assert!(!sleep.is_elapsed());
                let _ = format!("{sleep:?}");
            }
            turn().await;
            assert!(poll!(from_now.as_mut()).is_pending(), "{far:?}");
            // What a sleep says its deadline is may be given to another.
            let mut same = pin!(sleep_until(from_now.deadline()));
            assert!(poll!(same.as_mut()).is_pending());
            // And back among the living.
            from_now.as_mut().reset(Instant::now() + us(100));
            from_now.await;
        }
        let mut never = pin!(Sleep::never());
        assert!(poll!(never.as_mut()).is_pending());
        never.as_mut().reset(Instant::now());
        assert!(poll!(never).is_ready());
    });
}

#[test]
fn all_the_sleeps_for_ever_leave_the_wheel() {
    block_on(async {
        let mut sleeps: Vec<_> = FOR_EVER.iter().map(|far| Box::pin(sleep(*far))).collect();
        for sleep in &mut sleeps {
            assert!(poll!(sleep.as_mut()).is_pending());
        }
        assert_eq!(metrics().timers_live(), FOR_EVER.len());
        sleep(ms(1)).await;
        drop(sleeps);
        assert_eq!((metrics().timers_live(), metrics().timers_cancelled()), (0, FOR_EVER.len() as u64));
    });
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
    block_on(async {
        let mut sleep = pin!(sleep(ms(1)));
        sleep.as_mut().await;
        for _ in 0..3 {
            assert!(poll!(sleep.as_mut()).is_ready());
        }
        sleep.as_mut().await;
        assert!(metrics().timers_armed() <= 1);
    });
}

#[test]
fn a_reset_moves_the_end_to_both_sides() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        // Never polled.
        let start = Instant::now();
        let mut sleep = pin!(sleep(HOUR));
        sleep.as_mut().reset(start + ms(3));
        assert_eq!(sleep.deadline(), start + ms(3));
        sleep.as_mut().await;
        assert!(start.elapsed() >= ms(3));

        // It had fired.
        let start = Instant::now();
        sleep.as_mut().reset(start + ms(3));
        let _ = poll!(sleep.as_mut());
        sleep.as_mut().await;
        assert!(start.elapsed() >= ms(3));

        // Later, twice, while registered. (tokio #3229: dropped at its new time it left a dangling entry.)
        let start = Instant::now();
        sleep.as_mut().reset(start + ms(2));
        let _ = poll!(sleep.as_mut());
        sleep.as_mut().reset(start + ms(4));
        sleep.as_mut().reset(start + ms(8));
        sleep.as_mut().await;
        assert!(start.elapsed() >= ms(8));

        // Earlier.
        sleep.as_mut().reset(Instant::now() + HOUR);
        assert!(poll!(sleep.as_mut()).is_pending());
        let start = Instant::now();
        sleep.as_mut().reset(start + ms(3));
        sleep.as_mut().await;
        assert!(start.elapsed() >= ms(3));
        assert_eq!(metrics().timers_live(), 0);
    });
}

#[test]
fn a_reset_from_another_thread_ends_the_park() {
    let _watchdog = watchdog(LONG);
    for wait in [Duration::ZERO, ms(5)] {
        block_on(async {
            let shared = Arc::new(Mutex::new(Box::pin(sleep(HOUR))));
            let remote = shared.clone();
            let thread = thread::spawn(move || {
                thread::sleep(ms(20));
                let deadline = Instant::now() + wait;
                remote.lock().unwrap().as_mut().reset(deadline);
                deadline
            });
            poll_fn(|cx| shared.lock().unwrap().as_mut().poll(cx)).await;
            let ended = Instant::now();
            assert!(ended >= thread.join().unwrap());
        });
    }
}

#[test]
fn a_reset_to_later_from_another_thread_is_waited_for() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let start = Instant::now();
        let shared = Arc::new(Mutex::new(Box::pin(sleep(ms(30)))));
        let remote = shared.clone();
        let thread = thread::spawn(move || {
            // However late this thread is: the sleep then simply begins anew.
            thread::sleep(ms(5));
            remote.lock().unwrap().as_mut().reset(start + ms(60));
        });
        loop {
            poll_fn(|cx| shared.lock().unwrap().as_mut().poll(cx)).await;
            if thread.is_finished() && shared.lock().unwrap().is_elapsed() {
                break;
            }
            mainspring::task::yield_now().await;
        }
        assert!(start.elapsed() >= ms(60));
    });
}

#[test]
fn made_outside_it_starts_counting_at_its_first_poll() {
    let outside = sleep(ms(20));
    let moment = sleep_until(Instant::now() + ms(1));
    thread::sleep(ms(30));
    let start = StdInstant::now();
    block_on(outside);
    assert!(start.elapsed() >= ms(20));
    // A moment is a moment, wherever it was named.
    block_on(async {
        let turns = metrics().turns();
        assert!(poll!(pin!(moment)).is_ready());
        assert_eq!(metrics().turns(), turns);
    });
}

#[test]
fn made_inside_it_stays_with_its_runtime() {
    let _watchdog = watchdog(LONG);
    let (send, receive) = mpsc::channel::<Sleep>();
    let (done, wait) = futures::channel::oneshot::channel();
    let maker = thread::spawn(move || {
        block_on(async move {
            send.send(sleep(ms(100))).unwrap();
            wait.await.unwrap();
            (metrics().timers_armed(), metrics().timers_fired())
        })
    });
    let sleep = receive.recv().unwrap();
    block_on(async {
        sleep.await;
        assert_eq!(metrics().timers_armed(), 0, "the sleep went over to the runtime that polled it");
    });
    done.send(()).unwrap();
    assert_eq!(maker.join().unwrap(), (1, 1));
}

#[test]
fn made_inside_it_needs_its_own_runtime_to_run() {
    let idle = Runtime::new().unwrap();
    let sleep = {
        let _entered = idle.handle().enter();
        sleep(ms(50))
    };
    // Nobody turns `idle`, so only the poll that finds the deadline passed may end it.
    let mut sleep = Box::pin(sleep);
    block_on(async {
        assert!(timeout(ms(5), &mut sleep).await.is_err());
    });
    assert_eq!(idle.handle().metrics().timers_live(), 1);
    idle.block_on(sleep);
}

#[test]
fn without_a_runtime_it_says_what_to_do_and_where_it_was_made() {
    let line = line!() + 1;
    let sleep = sleep(ms(1));
    let panic = panicked(|| futures::executor::block_on(sleep));
    assert!(panic.message.contains("no Mainspring runtime"), "{}", panic.message);
    assert!(panic.message.contains("block_on"), "{}", panic.message);
    let place = format!("{}:{line}", file!());
    assert!(panic.message.contains(&place), "{} does not name {place}", panic.message);
}

#[test]
fn after_its_runtime_it_says_what_to_do_and_where_it_was_made() {
    let (sleep, line) = block_on(async { (sleep(HOUR), line!()) });
    let panic = panicked(|| futures::executor::block_on(sleep));
    assert!(panic.message.contains("runtime was dropped"), "{}", panic.message);
    let place = format!("{}:{line}", file!());
    assert!(panic.message.contains(&place), "{} does not name {place}", panic.message);
}

#[test]
fn try_sleep_returns_the_errors() {
    let outside = futures::executor::block_on(try_sleep(ms(1))).unwrap_err();
    assert!(outside.is_no_runtime() && !outside.is_shutdown());
    let outside = futures::executor::block_on(try_sleep_until(Instant::now())).unwrap_err();
    assert!(outside.is_no_runtime());
    assert!(std::io::Error::from(outside).to_string().contains("block_on"));

    let gone = common::orphan(|| try_sleep(HOUR));
    let gone = futures::executor::block_on(gone).unwrap_err();
    assert!(gone.is_shutdown() && !gone.is_no_runtime());

    block_on(async {
        let start = Instant::now();
        try_sleep(ms(1)).await.unwrap();
        try_sleep_until(start + ms(2)).await.unwrap();
        assert!(start.elapsed() >= ms(2));
    });
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

#[test]
fn dropped_on_the_tick_it_leaves_the_others_alone() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        for round in 0..300 {
            let deadline = Instant::now() + us(150);
            let mut dropped = Box::pin(sleep_until(deadline));
            let mut kept = Box::pin(sleep_until(deadline));
            assert!(poll!(dropped.as_mut()).is_pending() || Instant::now() >= deadline);
            let _ = poll!(kept.as_mut());
            // Around the deadline: sometimes before the runtime has seen it, sometimes after.
            if round % 3 == 0 {
                sleep_until(deadline).await;
            } else {
                while Instant::now() + us(round % 50) < deadline {}
            }
            drop(dropped);
            kept.await;
            assert!(Instant::now() >= deadline);
        }
        assert_eq!(metrics().timers_live(), 0);
    });
}

#[test]
fn a_hundred_sleeps_dropped_from_inside_a_waker() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let deadline = Instant::now() + ms(100);
        type Sleeps = Arc<Mutex<Vec<Pin<Box<Sleep>>>>>;
        let sleeps = Sleeps::default();
        let victims = sleeps.clone();
        let probe = Probe::with(move || {
            let victims = std::mem::take(&mut *victims.lock().unwrap());
            drop(victims);
        });
        for _ in 0..100 {
            let mut sleep = Box::pin(sleep_until(deadline));
            assert!(probe.poll(sleep.as_mut()).is_pending());
            sleeps.lock().unwrap().push(sleep);
        }
        sleep_until(deadline + ms(1)).await;
        assert!(sleeps.lock().unwrap().is_empty());
        assert!((1..=100).contains(&probe.wakes()), "{} wakes", probe.wakes());
        assert_eq!(metrics().timers_live(), 0);
        assert_eq!(Arc::strong_count(&probe), 1, "a waker was kept");
    });
}

#[test]
fn equal_deadlines_end_in_the_order_of_registration() {
    let _watchdog = watchdog(LONG);
    let ended = Arc::new(Mutex::new(Vec::new()));
    block_on(async {
        let deadline = Instant::now() + ms(200);
        let tasks: Vec<_> = (0..200)
            .map(|number| {
                let ended = ended.clone();
                spawn(async move {
                    sleep_until(deadline).await;
                    ended.lock().unwrap().push(number);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(*ended.lock().unwrap(), (0..200).collect::<Vec<_>>());
}

#[test]
fn deadlines_that_passed_together_end_by_deadline() {
    let _watchdog = watchdog(LONG);
    let ended = Arc::new(Mutex::new(Vec::new()));
    block_on(async {
        let start = Instant::now() + ms(200);
        let mut random = Random::new(7);
        // From the same nanosecond to far apart, in no order; two of each.
        let offsets: Vec<u64> = (0..100).map(|k| random.below(1 << (k % 26))).flat_map(|o| [o, o]).collect();
        let mut wanted: Vec<_> = offsets.iter().copied().zip(0..).collect();
        wanted.sort_unstable();
        let tasks: Vec<_> = offsets
            .into_iter()
            .zip(0..)
            .map(|(offset, number)| {
                let ended = ended.clone();
                spawn(async move {
                    sleep_until(start + Duration::from_nanos(offset)).await;
                    ended.lock().unwrap().push((offset, number));
                })
            })
            .collect();
        while metrics().timers_live() < 200 {
            turn().await;
        }
        // All of them come due while the runtime does not look: the last is 67 ms after the first.
        thread::sleep(ms(300));
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*ended.lock().unwrap(), wanted);
    });
}

#[test]
fn a_reset_keeps_the_place_in_the_order() {
    let _watchdog = watchdog(LONG);
    let ended = Arc::new(Mutex::new(Vec::new()));
    block_on(async {
        let deadline = Instant::now() + ms(200);
        let wait = |name: &'static str, from: Instant| {
            let ended = ended.clone();
            async move {
                let mut sleep = pin!(sleep_until(from));
                let mut polled = false;
                poll_fn(|cx| {
                    if polled {
                        return sleep.as_mut().poll(cx);
                    }
                    polled = true;
                    assert!(sleep.as_mut().poll(cx).is_pending());
                    sleep.as_mut().reset(deadline);
                    sleep.as_mut().poll(cx)
                })
                .await;
                ended.lock().unwrap().push(name);
            }
        };
        let tasks = [
            spawn(wait("earlier", deadline - ms(5))),
            spawn(wait("same", deadline)),
            spawn(wait("later", deadline + HOUR)),
            spawn(wait("last", deadline)),
        ];
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(*ended.lock().unwrap(), ["earlier", "same", "later", "last"]);
}

#[test]
fn a_waker_that_changes_is_the_one_that_is_woken() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (old, new) = (Probe::new(), Probe::new());
        let mut first = Box::pin(sleep(ms(50)));
        assert!(old.poll(first.as_mut()).is_pending());
        assert!(new.poll(first.as_mut()).is_pending());
        assert_eq!(Arc::strong_count(&old), 1, "the old waker is kept");
        sleep(ms(60)).await;
        assert_eq!((old.wakes(), new.wakes()), (0, 1));
        assert_eq!(new.poll(first.as_mut()), Poll::Ready(()));
    });
}
