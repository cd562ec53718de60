//! When the task that waits is woken, and when an empty map ends.

use std::task::Poll;
use std::time::Duration;

use crate::common::{HOUR, LONG, Probe, manual, ms, us, watchdog};
use crate::poll;
use mainspring::time::{Instant, TimerMap, advance};

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
