//! Memory: reserved, kept, and given back.

use std::time::Duration;

use crate::common::{Dropped, HOUR, manual, panicked, paused};
use crate::ignore;
use mainspring::time::delay_queue::Key;
use mainspring::time::{DelayQueue, TimerMap, sleep};

#[test]
fn memory_is_reserved_kept_and_given_back() {
    manual().block_on(async {
        let mut queue = DelayQueue::with_capacity(1_000);
        assert!(queue.capacity() >= 1_000 && queue.is_empty());
        let dropped = Dropped::default();
        let keys: Vec<Key> = (0..6_400).map(|_| queue.insert(dropped.token(), HOUR)).collect();
        assert_eq!(queue.len(), 6_400);
        for (n, key) in keys.iter().enumerate().filter(|(n, _)| n % 64 != 0) {
            queue.remove(key);
            assert!(dropped.count() <= n, "a removed value is gone at once");
        }
        assert_eq!(dropped.count(), 6_300);
        queue.shrink_to_fit();
        assert_eq!(queue.capacity(), 6_400, "each page holds a value");
        (0..6_000).for_each(|_| ignore(queue.insert(dropped.token(), HOUR)));
        assert_eq!(queue.capacity(), 6_400, "there is room for them on these pages");
        queue.clear();
        assert_eq!(dropped.count(), 12_400);
        queue.shrink_to_fit();
        assert_eq!(queue.capacity(), 0);
        queue.reserve(500);
        assert!(queue.capacity() >= 500);
        queue.shrink_to_fit();
        assert_eq!(queue.capacity(), 0);
    });
}

#[test]
fn room_for_more_than_there_may_be_is_refused_at_once() {
    let most = (u32::MAX / 64) as usize * 64;
    let mut queue = DelayQueue::new();
    manual().block_on(async { ignore(queue.insert((), HOUR)) });
    let refused = [
        panicked(|| DelayQueue::<()>::with_capacity(usize::MAX)),
        panicked(|| DelayQueue::<()>::with_capacity(most + 1)),
        panicked(|| TimerMap::<u8, ()>::with_capacity(usize::MAX)),
        panicked(|| queue.reserve(most)),
        panicked(|| queue.reserve(usize::MAX)),
    ];
    for panic in refused {
        assert!(panic.message.contains("no more than 4294967232 in all"), "{}", panic.message);
        assert_eq!(panic.file, file!());
    }
    assert_eq!((queue.len(), queue.capacity()), (1, 64));
}

#[test]
fn a_dropped_queue_drops_its_values() {
    manual().block_on(async {
        let dropped = Dropped::default();
        let mut queue = DelayQueue::new();
        queue.insert(dropped.token(), HOUR);
        queue.insert(dropped.token(), Duration::ZERO);
        drop(queue);
        assert_eq!(dropped.count(), 2);
    });
}

#[test]
fn an_empty_queue_gives_the_memory_of_a_burst_back_as_it_is_polled() {
    paused().block_on(async {
        let mut queue = DelayQueue::new();
        let keys: Vec<Key> = (0..20_000).map(|n| queue.insert(n, HOUR)).collect();
        keys.iter().for_each(|key| ignore(queue.remove(key)));
        let full = queue.capacity();
        let mut most = 0;
        for _ in 0..400 {
            sleep(Duration::from_secs(1)).await;
            let before = queue.capacity();
            assert!(queue.next_expired().await.is_none());
            most = most.max(before - queue.capacity());
        }
        assert!(queue.capacity() <= full / 50, "{} of {full} are left", queue.capacity());
        assert!(most <= 128, "in small steps");
    });
}
