//! Values that go through a `DelayQueue` or a `TimerMap` allocate nothing in steady state, and a burst gives its memory back.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use crate::common::{HOUR, LONG, ms, us, watchdog};
use crate::counting::live_bytes;
use crate::{alone, steady};
use mainspring::time::{DelayQueue, Instant, TimerMap, sleep};

#[test]
fn values_that_go_through_a_delay_queue_allocate_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    // In virtual time, so that the machine does not decide how many come out at once.
    let runtime = mainspring::Builder::new().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut queue = DelayQueue::new();
        let one_by_one = steady(500, async || {
            queue.insert(1, us(10));
            let moved = queue.insert(2, HOUR);
            queue.reset(&moved, us(20));
            let removed = queue.insert(3, us(5));
            queue.remove(&removed);
            while queue.next_expired().await.is_some() {}
        })
        .await;
        assert_eq!(one_by_one, 0, "put in, moved, removed and come out");

        let burst = steady(20, async || {
            let soon = Instant::now() + us(200);
            for n in 0..1_000 {
                queue.insert_at(n, soon);
            }
            while queue.next_expired().await.is_some() {}
        })
        .await;
        assert_eq!(burst, 0, "a thousand at once");
    });
}

#[test]
fn entries_that_go_through_a_timer_map_allocate_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    // In virtual time, so that the machine does not decide how many come out at once.
    let runtime = mainspring::Builder::new().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut map = TimerMap::new();
        let handle = map.handle();
        let taken = steady(300, async || {
            for key in 0..30 {
                map.insert(key, key, HOUR);
                handle.insert(key, key + 1, us(10)).unwrap();
                map.reset(&key, us(20));
                handle.reset(key, us(30)).unwrap();
            }
            for _ in 0..30 {
                assert!(map.next_expired().await.is_some());
            }
        })
        .await;
        assert_eq!(taken, 0);
    });
}

#[test]
fn a_timer_maps_burst_gives_its_memory_back() {
    let _alone = alone();
    let runtime = mainspring::Builder::new().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut map = TimerMap::new();
        let before = live_bytes();
        let soon = Instant::now() + ms(10);
        for key in 0..50_000u64 {
            map.insert_at(key, [key; 8], soon);
        }
        let full = live_bytes() - before;
        while !map.is_empty() {
            map.next_expired().await.unwrap();
        }
        // A heartbeat, by which the map sees that time passes.
        for key in 0..2_000 {
            map.insert(key, [0; 8], Duration::from_secs(2));
            map.insert(u64::MAX, [0; 8], HOUR * 2);
            map.next_expired().await.unwrap();
        }
        let left = live_bytes() - before;
        assert!(left * 20 < full, "{left} of {full} bytes are left");
    });
}

#[test]
fn an_empty_timer_map_gives_the_memory_of_a_burst_back_as_it_is_polled() {
    let _alone = alone();
    let runtime = mainspring::Builder::new().start_paused(true).build().unwrap();
    for closed in [false, true] {
        runtime.block_on(async {
            let mut map = TimerMap::new();
            let before = live_bytes();
            for key in 0..50_000u64 {
                map.insert(key, [key; 8], HOUR);
            }
            let full = live_bytes() - before;
            assert!((0..50_000).all(|key| map.remove(&key).is_some()));
            if closed {
                map.close();
            }
            for _ in 0..1_000 {
                sleep(Duration::from_secs(1)).await;
                let polled = poll_fn(|cx| Poll::Ready(map.poll_expired(cx))).await;
                assert_eq!(polled.is_ready(), closed);
            }
            let left = live_bytes() - before;
            assert!(left * 20 < full, "{left} of {full} bytes are left");
        });
    }
}
