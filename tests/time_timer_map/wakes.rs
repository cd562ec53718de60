//! When the task that waits is woken, and when an empty map ends.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::common::{HOUR, LONG, Probe, manual, ms, us, watchdog};
use crate::poll;
use mainspring::Builder;
use mainspring::time::{Instant, TimerMap, Tolerance, advance};

#[test]
fn a_task_that_waits_is_woken_by_what_concerns_it() {
    manual().block_on(async {
        let probe = Probe::new();
        let mut map = TimerMap::new();
        map.insert(1, (), ms(10));
        assert!(poll(&probe, &mut map).is_pending());
        map.insert(2, (), ms(20));
        map.reset(&1, ms(15));
        assert_eq!(probe.wakes(), 0);
        map.reset(&2, ms(1));
        assert_eq!(probe.wakes(), 1);
        map.close();
        assert!(poll(&probe, &mut map).is_pending());
        map.remove(&1);
        map.remove(&2);
        assert_eq!(probe.wakes(), 2, "the map is empty");
        assert_eq!(poll(&probe, &mut map), Poll::Ready(None));
        map.insert(3, (), ms(1));
        assert!(poll(&probe, &mut map).is_pending());
        assert_eq!(map.drain().count(), 1);
        assert_eq!(probe.wakes(), 3);
        assert_eq!(poll(&probe, &mut map), Poll::Ready(None));
        map.insert(4, (), ms(1));
        assert!(poll(&probe, &mut map).is_pending());
        map.retain(|_, ()| false);
        assert_eq!(probe.wakes(), 4);
    });
}

#[test]
fn an_empty_map_waits_and_a_closed_one_ends_when_it_is_empty() {
    manual().block_on(async {
        let probe = Probe::new();
        let mut map = TimerMap::new();
        assert!(poll(&probe, &mut map).is_pending(), "something may be put in");
        map.insert(1, 'a', Duration::ZERO);
        assert_eq!((probe.wakes(), poll(&probe, &mut map)), (1, Poll::Ready(Some((1, 'a')))));
        assert!(poll(&probe, &mut map).is_pending() && !map.is_closed());
        map.close();
        assert!(probe.wakes() >= 2 && map.is_closed(), "who waits is told");
        assert_eq!(poll(&probe, &mut map), Poll::Ready(None));
        // The map's owner may go on; go-zero's wheel loses what is put in, and panics when it is closed again.
        assert_eq!((map.insert(2, 'b', ms(2)), map.insert(3, 'c', HOUR)), (None, None));
        map.close();
        assert!(map.reset(&3, ms(1)) && poll(&probe, &mut map).is_pending());
        advance(ms(2)).await;
        assert_eq!(poll(&probe, &mut map), Poll::Ready(Some((3, 'c'))));
        assert_eq!(map.drain().collect::<Vec<_>>(), [(2, 'b')]);
        assert_eq!(poll(&probe, &mut map), Poll::Ready(None));
    });
}

#[test]
fn the_tolerance_is_the_runtimes_or_the_maps_own() {
    let _watchdog = watchdog(LONG);
    let runtime = mainspring::Runtime::new().unwrap();
    let first = Instant::now() + HOUR;
    let second = first + us(500);
    let sleeps_until_second = |map: fn() -> TimerMap<u32, ()>| {
        let mut map = runtime.block_on(async { map() });
        map.insert_at(1, (), first);
        map.insert_at(2, (), second);
        assert!(poll(&Probe::new(), &mut map).is_pending());
        // Time passes between a look at the clock and the answer: less than fifty microseconds, or they are not compared.
        loop {
            let before = Instant::now();
            let wake = runtime.next_wake().expect("it waits for a timer");
            if before.elapsed() < us(50) {
                return before + wake + us(50) >= second;
            }
        }
    };
    assert!(sleeps_until_second(TimerMap::new));
    assert!(sleeps_until_second(|| TimerMap::new().tolerance(ms(1))));
    assert!(!sleeps_until_second(|| TimerMap::new().tolerance(us(400))));
    assert!(!sleeps_until_second(|| TimerMap::new().precise()));
}

#[test]
fn a_time_given_on_another_thread_during_a_long_park_has_the_tolerance_of_the_time_that_is_left() {
    let _watchdog = watchdog(LONG);
    type Give = fn(&mut TimerMap<u32, ()>, Instant);
    let ways: [(&str, Give); 8] = [
        ("insert", |map, _| _ = map.insert(2, (), ms(40))),
        ("insert_at", |map, now| _ = map.insert_at(2, (), now + ms(40))),
        ("reset", |map, _| assert!(map.reset(&1, ms(40)))),
        ("reset_at", |map, now| assert!(map.reset_at(&1, now + ms(40)))),
        ("handle.insert", |map, _| map.handle().insert(2, (), ms(40)).unwrap()),
        ("handle.insert_at", |map, now| map.handle().insert_at(2, (), now + ms(40)).unwrap()),
        ("handle.reset", |map, _| map.handle().reset(1, ms(40)).unwrap()),
        ("handle.reset_at", |map, now| map.handle().reset_at(1, now + ms(40)).unwrap()),
    ];
    let tolerance = Tolerance::Fixed { ratio: 0.5, max: Duration::from_secs(60) };
    let runtime = Builder::new().timer_tolerance(tolerance).build().unwrap();
    let (done, wait) = futures::channel::oneshot::channel::<()>();
    let done = Arc::new(done);
    let elsewhere = ways.map(|(way, give)| {
        let mut map = runtime.block_on(async { TimerMap::new() });
        let done = done.clone();
        let thread = std::thread::spawn(move || {
            map.insert(1, (), HOUR);
            map.insert(3, (), ms(1440));
            // Meanwhile the runtime is parked, and nobody reads its clock.
            std::thread::sleep(ms(1000));
            let now = Instant::now();
            give(&mut map, now);
            let first = futures::executor::block_on(map.next_expired()).unwrap();
            drop(done);
            (first.0, now.elapsed())
        });
        (way, thread)
    });
    drop(done);
    runtime.block_on(wait).unwrap_err();
    for (way, thread) in elsewhere {
        let (first, after) = thread.join().unwrap();
        // It may be late by 20 ms, half of what was left, and not by half of the second since the last reading.
        assert!(first != 3 && after >= ms(40) && after < ms(340), "{way}: {first} after {after:?}");
    }
}
