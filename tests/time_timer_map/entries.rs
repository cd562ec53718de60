//! The entries of the map: put in, replaced, removed, retained, and drained.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::{Dropped, HOUR, manual, ms, panicked};
use crate::{Poor, due_now};
use mainspring::time::{Instant, TimerMap, advance};

#[test]
fn insert_puts_in_and_replaces() {
    manual().block_on(async {
        let mut map = TimerMap::new();
        assert_eq!(map.insert("a".to_owned(), 1, ms(10)), None);
        assert_eq!(map.insert("b".to_owned(), 2, ms(20)), None);
        assert_eq!(map.insert("a".to_owned(), 3, ms(30)), Some(1));
        assert_eq!((map.len(), map.get("a"), map.get("c")), (2, Some(&3), None));
        *map.get_mut("b").unwrap() += 40;
        assert_eq!(map.deadline("b"), Some(Instant::now() + ms(20)));
        assert_eq!((map.contains_key("b"), map.contains_key("c")), (true, false));
        let mut all: Vec<_> = map.iter().collect();
        all.sort();
        assert_eq!(all, [(&"a".to_owned(), &3), (&"b".to_owned(), &42)]);
        assert!(map.keys().all(|key| map.contains_key(key)) && map.keys().count() == 2);
        assert_eq!(map.values().sum::<i32>(), 45);
        advance(HOUR).await;
        assert_eq!(due_now(&mut map).await, [("b".to_owned(), 42), ("a".to_owned(), 3)]);
    });
}

#[test]
fn an_insertion_without_a_runtime_says_what_to_do_and_where_the_map_was_made() {
    let (mut map, line) = (TimerMap::new(), line!());
    let panic = panicked(|| map.insert(1, (), ms(1)));
    let what = "no Mainspring runtime on this thread: use timers inside `mainspring::block_on`";
    assert!(panic.message.starts_with(what), "{}", panic.message);
    let place = format!("{}:{line}", file!());
    assert!(panic.message.contains(&place), "{} does not name {place}", panic.message);
    assert!(map.is_empty());
}

#[test]
fn a_map_that_is_closed_without_a_runtime_has_its_end_without_one() {
    let mut map = TimerMap::<u8, ()>::new();
    map.close();
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(map.poll_expired(&mut cx), Poll::Ready(None));
    // What is inserted in a runtime comes out, and then the end again.
    let runtime = manual();
    let entry = runtime.block_on(async {
        map.insert(1, (), ms(1));
        advance(ms(1)).await;
        map.next_expired().await
    });
    assert_eq!(entry, Some((1, ())));
    assert_eq!(map.poll_expired(&mut cx), Poll::Ready(None));
}

#[test]
fn a_poll_after_the_runtimes_end_panics_where_it_was_called() {
    let mut map = manual().block_on(async { TimerMap::new() });
    map.insert(1, (), ms(1));
    let mut cx = Context::from_waker(Waker::noop());
    let (panic, line) = (panicked(|| _ = map.poll_expired(&mut cx)), line!());
    assert!(panic.message.contains("runtime was dropped"), "{}", panic.message);
    assert_eq!((panic.file.as_str(), panic.line), (file!(), line));
}

#[test]
fn a_key_inserted_after_a_drain_is_not_lost() {
    manual().block_on(async {
        let mut map = TimerMap::new();
        // go-zero #5314.
        for n in 0..100 {
            map.insert(n, n, ms(100 - n));
        }
        let drained: Vec<_> = map.drain().collect();
        assert_eq!(drained, (0..100).rev().map(|n| (n, n)).collect::<Vec<_>>(), "by deadline");
        assert!(map.is_empty() && map.get(&5).is_none());
        map.insert(5, 55, ms(10));
        advance(ms(10)).await;
        assert_eq!(due_now(&mut map).await, [(5, 55)]);
        // The map is empty at once, even if the drained entries are not read.
        map.insert(6, 66, ms(1));
        let unread = map.drain();
        assert_eq!((unread.len(), map.len()), (1, 0));
        drop(unread);
        map.insert(6, 67, ms(1));
        advance(ms(1)).await;
        assert_eq!(due_now(&mut map).await, [(6, 67)]);
    });
}

#[test]
fn a_removed_keys_memory_is_freed_at_once() {
    manual().block_on(async {
        let dropped = Dropped::default();
        let mut map = TimerMap::new();
        for n in 0..10_000 {
            map.insert(n, dropped.token(), HOUR);
            if n % 2 == 0 {
                drop(map.remove(&n));
            } else {
                map.insert(n, dropped.token(), HOUR);
            }
            assert_eq!(dropped.count(), n + 1);
        }
        assert_eq!(map.len(), 5_000);
        drop(map);
        assert_eq!(dropped.count(), 15_000);
    });
}

#[test]
fn retain_drops_what_it_is_told_and_the_others_keep_their_times() {
    manual().block_on(async {
        let dropped = Dropped::default();
        let mut map = TimerMap::new();
        for n in 0..300u64 {
            map.insert(Poor((n % 256) as u8), (n, dropped.token()), ms(1_000 - n));
        }
        assert_eq!((map.len(), dropped.count()), (256, 44));
        map.retain(|key, (n, _)| {
            *n += 1_000;
            key.0 % 7 == 0
        });
        assert_eq!((map.len(), dropped.count()), (37, 44 + 219));
        assert!((0..=255).all(|key| map.contains_key(&Poor(key)) == (key % 7 == 0)));
        // A predicate that panics has dropped the entries for which it returned false, and no others.
        let panicked = panicked(|| {
            let mut asked = 0;
            map.retain(|_, _| {
                asked += 1;
                assert!(asked <= 10, "the eleventh");
                false
            });
        });
        assert_eq!((panicked.message.as_str(), map.len(), dropped.count()), ("the eleventh", 27, 44 + 229));
        assert!(map.keys().all(|key| map.contains_key(key)));
        advance(HOUR).await;
        let due = due_now(&mut map).await;
        assert!(due.len() == 27 && due.iter().rev().is_sorted_by_key(|(_, (n, _))| *n));
    });
}

/// The cache of the map's documentation.
#[test]
fn an_expiring_cache_shows_nobody_what_has_expired() {
    async fn get(cache: &mut TimerMap<u32, u32>, key: u32) -> Option<u32> {
        poll_fn(|cx| {
            while let Poll::Ready(Some(_expired)) = cache.poll_expired(cx) {}
            Poll::Ready(())
        })
        .await;
        if cache.deadline(&key)? <= Instant::now() {
            return None;
        }
        cache.get(&key).copied()
    }
    manual().block_on(async {
        let mut cache = TimerMap::new();
        cache.insert(7, 1, ms(100));
        advance(ms(60)).await;
        assert_eq!(get(&mut cache, 7).await, Some(1));
        cache.insert(7, 2, ms(100));
        advance(ms(100) - Duration::from_nanos(1)).await;
        assert_eq!(get(&mut cache, 7).await, Some(2), "stored anew, it lives on");
        advance(Duration::from_nanos(1)).await;
        assert_eq!((get(&mut cache, 7).await, cache.len()), (None, 0));

        // More than one poll of a task may take: its budget is used up long before all of them have left.
        for key in 0..1_000 {
            cache.insert(key, key, ms(100));
        }
        advance(HOUR).await;
        for key in (0..1_000).rev() {
            assert_eq!(get(&mut cache, key).await, None, "{key}");
        }
        assert!(!cache.is_empty(), "the poll took them all, so nothing was left to be hidden");
    });
}
