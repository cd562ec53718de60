//! How many values one wake-up gathers: as many as the runtime's tolerance, or the queue's own, allows.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::{LONG, ms, us, watchdog};
use mainspring::time::{DelayQueue, Instant, Tolerance, pause};
use mainspring::{Builder, Runtime};

/// Polls the queue, which waits, and returns whether the runtime would sleep until `second` for it, or only until `first`.
fn gathers(runtime: &Runtime, mut queue: DelayQueue<()>, first: Instant, second: Instant) -> bool {
    assert!(runtime.block_on(poll_fn(|cx| Poll::Ready(queue.poll_expired(cx).is_pending()))));
    let before = Instant::now();
    let wake = runtime.next_wake().expect("it waits for a timer");
    let after = Instant::now();
    assert!(after < first, "the machine stood still");
    if after + wake >= second {
        return true;
    }
    assert!(before + wake <= first, "it wakes up in between, at {wake:?}");
    false
}

#[test]
fn a_value_is_gathered_if_the_tolerance_allows() {
    let _dog = watchdog(LONG);
    let first = Instant::now() + Duration::from_secs(60);
    let second = first + us(500);
    let filled = |mut queue: DelayQueue<()>| {
        queue.insert_at((), second);
        queue.insert_at((), first);
        queue
    };

    // For a minute the default allows a millisecond.
    let runtime = Runtime::new().unwrap();
    let enter = |queue: fn() -> DelayQueue<()>| runtime.block_on(async { filled(queue()) });
    assert!(gathers(&runtime, enter(DelayQueue::new), first, second));
    assert!(!gathers(&runtime, enter(|| DelayQueue::new().precise()), first, second));
    assert!(!gathers(&runtime, enter(|| DelayQueue::new().tolerance(us(400))), first, second));

    // The runtime's tolerance holds even if the queue was made outside.
    let runtime = Builder::new().timer_tolerance(Tolerance::Precise).build().unwrap();
    assert!(!gathers(&runtime, runtime.block_on(async { filled(DelayQueue::new()) }), first, second));
    let outside = DelayQueue::new();
    assert!(!gathers(&runtime, runtime.block_on(async { filled(outside) }), first, second));
    // The queue's own tolerance takes precedence.
    let outside = DelayQueue::new().tolerance(ms(1));
    assert!(gathers(&runtime, runtime.block_on(async { filled(outside) }), first, second));
}

#[test]
fn a_queues_own_tolerance_is_as_wide_for_a_value_that_is_due_sooner() {
    let _dog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let first = Instant::now() + Duration::from_secs(60);
    let second = first + Duration::from_secs(100);
    let filled = |seconds| {
        runtime.block_on(async {
            let mut queue = DelayQueue::new().tolerance(Duration::from_secs(seconds));
            queue.insert_at((), first);
            queue.insert_at((), second);
            queue
        })
    };
    assert!(gathers(&runtime, filled(120), first, second));
    assert!(!gathers(&runtime, filled(90), first, second));
}

#[test]
fn what_is_left_of_the_tolerance_gathers_other_queues() {
    let _dog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let first = Instant::now() + Duration::from_secs(60);
    let second = first + us(500);
    let one = |at| {
        runtime.block_on(async {
            let mut queue = DelayQueue::new();
            queue.insert_at((), at);
            queue
        })
    };
    let mut other = one(second);
    assert!(runtime.block_on(poll_fn(|cx| Poll::Ready(other.poll_expired(cx).is_pending()))));
    assert!(gathers(&runtime, one(first), first, second));
}

#[test]
fn a_value_that_allows_less_is_news_to_the_task_that_waits() {
    let _dog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let mut queue = runtime.block_on(async { DelayQueue::new() });
    let first = Instant::now() + Duration::from_secs(60);
    queue.insert_at((), first);
    queue.insert_at((), first + us(500));
    let probe = crate::Probe::new();
    assert!(crate::poll(&probe, &mut queue).is_pending());
    // The next value gathers no other value, and no other value gathers it.
    queue.insert_at((), first + ms(2));
    assert_eq!(probe.wakes(), 0);
    // The task must check how late this value may be.
    queue.insert_at((), first + us(600));
    assert_eq!(probe.wakes(), 1);
}

#[test]
fn the_share_of_the_time_counts_from_when_a_value_is_put_in() {
    let _dog = watchdog(LONG);
    let half = Tolerance::Fixed { ratio: 0.5, max: Duration::MAX };
    let runtime = Builder::new().timer_tolerance(half).build().unwrap();
    let filled = |earlier: Duration| {
        runtime.block_on(async {
            // Slack is kept in steps: 30.1 s, 34.4 s.
            let first = Instant::now() + ms(68_250) + earlier;
            let mut queue = DelayQueue::new();
            queue.insert_at((), first);
            queue.insert_at((), first + Duration::from_secs(32));
            (queue, first)
        })
    };
    // Code that counted from the beginning would come to the next step.
    std::thread::sleep(ms(1_000));
    let (queue, first) = filled(Duration::ZERO);
    assert!(!gathers(&runtime, queue, first, first + Duration::from_secs(32)));
    let (queue, first) = filled(ms(500));
    assert!(gathers(&runtime, queue, first, first + Duration::from_secs(32)));
}

#[test]
fn many_values_take_few_wake_ups() {
    let _dog = watchdog(LONG);
    mainspring::block_on(async {
        let mut queue = DelayQueue::new();
        let start = Instant::now();
        for n in 0..2_000 {
            queue.insert_at(n, start + ms(300) + us(20) * n);
        }
        let wakeups = || mainspring::Handle::current().metrics().wakeups();
        let before = wakeups();
        let mut came = 0;
        while let Some(expired) = queue.next_expired().await {
            assert!(expired.deadline() <= Instant::now());
            assert_eq!(*expired.get_ref(), came);
            came += 1;
        }
        // One wake-up per millisecond, of which there are forty. Waking for each value takes hundreds.
        let wakeups = wakeups() - before;
        assert!(came == 2_000 && wakeups <= 100, "{wakeups} wake-ups");
    });
}

#[test]
fn virtual_time_stops_at_each_value() {
    let runtime = Builder::new().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let start = Instant::now();
        let mut queue = DelayQueue::new().tolerance(ms(10));
        for n in 1..=5 {
            queue.insert(n, ms(n));
        }
        while let Some(expired) = queue.next_expired().await {
            assert_eq!(start.elapsed(), ms(*expired.get_ref()));
        }
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(queue.poll_expired(&mut cx), Poll::Ready(None)));
    });
}

#[test]
fn a_pause_while_a_task_waits_delays_the_values_of_that_wait_by_no_more_than_the_tolerance() {
    let _dog = watchdog(LONG);
    mainspring::block_on(async {
        let start = Instant::now();
        let mut queue = DelayQueue::new().tolerance(ms(100));
        for at in [60_000, 60_050, 61_000, 61_050] {
            queue.insert_at(at, start + ms(at));
        }
        let waits = mainspring::spawn(async move {
            while let Some(expired) = queue.next_expired().await {
                let most = if *expired.get_ref() < 61_000 { ms(100) } else { Duration::ZERO };
                assert!(expired.deadline().elapsed() <= most, "{expired:?}, at {:?}", start.elapsed());
            }
        });
        mainspring::task::yield_now().await;
        pause();
        waits.await.unwrap();
        assert_eq!(start.elapsed(), ms(61_050));
    });
}

#[test]
fn a_time_given_on_another_thread_during_a_long_park_has_the_tolerance_of_the_time_that_is_left() {
    let _dog = watchdog(LONG);
    let tolerance = Tolerance::Fixed { ratio: 0.5, max: Duration::from_secs(60) };
    let runtime = Builder::new().timer_tolerance(tolerance).build().unwrap();
    for (reset, moment) in [(false, true), (true, true), (false, false), (true, false)] {
        let mut queue = runtime.block_on(async { DelayQueue::new() });
        let (done, wait) = futures::channel::oneshot::channel::<()>();
        let elsewhere = std::thread::spawn(move || {
            let key = reset.then(|| queue.insert("first", 10 * LONG));
            // Meanwhile the runtime is parked, and nobody reads its clock.
            std::thread::sleep(ms(1000));
            let now = Instant::now();
            match (key, moment) {
                (Some(key), true) => queue.reset_at(&key, now + ms(40)),
                (Some(key), false) => queue.reset(&key, ms(40)),
                (None, true) => drop(queue.insert_at("first", now + ms(40))),
                (None, false) => drop(queue.insert("first", ms(40))),
            }
            queue.insert_at("second", now + ms(440));
            let first = futures::executor::block_on(queue.next_expired()).unwrap();
            drop(done);
            let is_first = *first.get_ref() == "first" && first.deadline() >= now + ms(40);
            (is_first && (first.deadline() == now + ms(40) || !moment), first.deadline().elapsed())
        });
        runtime.block_on(wait).unwrap_err();
        let (is_first, late) = elsewhere.join().unwrap();
        // It may be late by 20 ms, half of what was left, and not by half of the second since the last reading.
        assert!(is_first && late < ms(300), "late by {late:?}, reset: {reset}, moment: {moment}");
    }
}
