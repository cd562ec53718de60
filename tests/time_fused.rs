//! What `futures::select!` and similar macros need of futures and streams: to know when they must not be polled any more.

mod common;

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;
use std::time::{Duration, SystemTime};

use common::{HOUR, LONG, Probe, ms, paused, us, watchdog};
use futures::future::FusedFuture;
use futures::stream::{FusedStream, StreamExt};
use futures::{select, select_biased};
use mainspring::runtime::Builder;
use mainspring::time::error::{Closed, Elapsed, Error};
use mainspring::time::{
    Clock, DelayQueue, Instant, MissedTickBehavior, TestClock, TimerMap, Tolerance, delay_queue, interval,
    interval_at, sleep, sleep_until, sleep_until_wall,
};
use mainspring::{block_on, spawn};

#[test]
fn a_sleep_in_select_is_taken_once_until_it_is_reset() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let start = Instant::now();
        let mut nap = pin!(sleep(ms(25)));
        let mut ticks = interval_at(start + ms(10), ms(10)).take(6).fuse();
        let (mut naps, mut seen) = (Vec::new(), Vec::new());
        loop {
            select! {
                () = nap => {
                    naps.push(start.elapsed());
                    if naps.len() == 1 {
                        assert!(nap.is_terminated());
                        nap.as_mut().reset(start + ms(45));
                        assert!(!nap.is_terminated());
                    }
                }
                tick = ticks.select_next_some() => seen.push(tick - start),
                complete => break,
            }
        }
        assert_eq!(naps, [ms(25), ms(45)]);
        assert_eq!(seen, (1..=6).map(|n| ms(10 * n)).collect::<Vec<_>>());
    });
}

/// The runtime has fired the sleep, but no poll has returned that yet, and one must.
#[test]
fn a_sleep_that_fired_unseen_is_not_terminated() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let probe = Probe::new();
        let mut nap = pin!(sleep(ms(1)));
        assert!(!nap.is_terminated());
        assert!(probe.poll(nap.as_mut()).is_pending());
        sleep(ms(2)).await;
        assert!(nap.is_elapsed() && !nap.is_terminated());
        select_biased! {
            () = nap => {}
            complete => panic!("it was left out"),
        }
        assert!(nap.is_terminated());
        // Polling it again is legal nevertheless.
        assert!(probe.poll(nap.as_mut()).is_ready() && nap.is_terminated());
        nap.as_mut().reset(Instant::now());
        assert!(!nap.is_terminated());
        assert!(probe.poll(nap.as_mut()).is_ready() && nap.is_terminated());
    });
    // Neither is a sleep whose time does not run yet.
    let waiting = sleep(ms(1));
    let until = sleep_until(Instant::now());
    assert!(!waiting.is_terminated() && !until.is_terminated());
}

#[test]
fn a_sleep_until_a_time_of_day_is_terminated_when_it_was_ready() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut past = pin!(sleep_until_wall(SystemTime::now() - HOUR));
        let mut far = pin!(sleep_until_wall(SystemTime::now() + HOUR));
        assert!(!past.is_terminated());
        let mut times = 0;
        loop {
            select! {
                () = past => times += 1,
                () = far => panic!("early"),
                default => break,
            }
        }
        assert_eq!(times, 1);
        assert!(past.is_terminated() && !far.is_terminated());
    });
}

#[test]
fn an_interval_in_select_is_never_terminated() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let start = Instant::now();
        let mut ticks = interval(ms(10));
        let mut end = pin!(sleep(ms(35)));
        let mut seen = 0;
        loop {
            assert!(!ticks.is_terminated());
            select! {
                tick = ticks.select_next_some() => {
                    assert_eq!(tick - start, seen * ms(10));
                    seen += 1;
                }
                () = end => break,
                complete => panic!("an interval has no end"),
            }
        }
        assert_eq!((seen, start.elapsed()), (4, ms(35)));
    });
}

/// The tick goes in as it is, as a method's future does in tokio's macro.
#[test]
fn a_tick_in_select_needs_no_fuse_and_waits_for_the_next_one_when_it_is_polled_again() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let start = Instant::now();
        let mut ticks = interval(ms(10));
        let mut end = pin!(sleep(ms(35)));
        let mut seen = 0;
        loop {
            select! {
                tick = ticks.tick() => {
                    assert_eq!(tick - start, seen * ms(10));
                    seen += 1;
                }
                () = end => break,
                complete => panic!("an interval has no end"),
            }
        }
        assert_eq!(seen, 4);
        let mut tick = ticks.tick();
        for n in 4..6 {
            select! {
                at = tick => assert_eq!(at - start, n * ms(10)),
                complete => panic!("it was left out"),
            }
        }
    });
}

#[test]
fn a_delay_queue_in_select_is_terminated_after_its_end_until_something_is_put_in() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let start = Instant::now();
        let mut queue = DelayQueue::new();
        assert!(!queue.is_terminated(), "it has not told of its end");
        for n in 1..=3 {
            queue.insert(n, n * ms(10));
        }
        let mut nap = pin!(sleep(ms(15)));
        let mut seen = Vec::new();
        loop {
            select! {
                expired = queue.select_next_some() => seen.push((expired.into_inner(), start.elapsed())),
                () = nap => seen.push((0, start.elapsed())),
                complete => break,
            }
        }
        assert_eq!(seen, [(1, ms(10)), (0, ms(15)), (2, ms(20)), (3, ms(30))]);
        assert!(queue.is_terminated());
        let key = queue.insert(4, ms(1));
        assert!(!queue.is_terminated());
        queue.remove(&key);
        assert!(queue.next().await.is_none() && queue.is_terminated());
    });
}

#[test]
fn a_map_in_select_waits_while_it_is_empty() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let mut map = TimerMap::new();
        let handle = map.handle();
        let feeder = spawn(async move {
            for key in ["a", "b"] {
                sleep(ms(10)).await;
                handle.insert(key, 7, ms(1)).unwrap();
            }
            sleep(ms(10)).await;
            handle.close();
        });
        let mut seen = Vec::new();
        loop {
            select! {
                (key, value) = map.select_next_some() => {
                    assert_eq!(value, 7);
                    seen.push(key);
                }
                complete => break,
            }
        }
        feeder.await.unwrap();
        assert_eq!(seen, ["a", "b"]);
    });
}

#[test]
fn a_timer_map_in_select_is_terminated_after_its_end_until_something_is_put_in() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let mut map = TimerMap::new();
        map.insert(1, (), ms(1));
        let handle = map.handle();
        spawn(async move {
            sleep(us(10)).await;
            handle.close();
        });
        let (mut keys, mut nones) = (Vec::new(), 0);
        loop {
            assert!(!map.is_terminated() || nones == 1, "it has not told of its end");
            select! {
                next = map.next() => match next {
                    None => nones += 1,
                    Some((key, ())) => keys.push(key),
                },
                complete => break,
            }
        }
        assert_eq!((keys, nones), (vec![1], 1));
        let _handle = map.handle();
        assert!(map.is_terminated());
        map.insert(2, (), Duration::ZERO);
        assert!(!map.is_terminated());
        assert_eq!(map.next().await, Some((2, ())));
        assert!(map.next().await.is_none() && map.is_terminated());
    });
}

/// The types that are unwind safe in tokio and tokio-util (1.54 and 0.7.20), by our names, and our types that have no
/// counterpart there. Types that wait with a waker inside (`Sleep`, `Interval`, `Timeout`, `DelayQueue`) are unwind safe
/// neither there nor here.
#[test]
fn what_is_unwind_safe_in_tokio_is_so_here() {
    fn unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}
    unwind_safe::<Instant>();
    unwind_safe::<MissedTickBehavior>();
    unwind_safe::<Elapsed>();
    unwind_safe::<Error>();
    unwind_safe::<delay_queue::Key>();
    unwind_safe::<delay_queue::Expired<u8>>();
    unwind_safe::<Closed<u8>>();
    unwind_safe::<Tolerance>();
    unwind_safe::<Clock>();
    unwind_safe::<TestClock>();
    unwind_safe::<Builder>();
}
