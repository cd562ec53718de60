//! When entries come out, and in which order: exactly at their deadlines, even after a reset.

use std::time::Duration;

use crate::common::{HOUR, LONG, Random, manual, ms, paused, us, watchdog};
use crate::due_now;
use futures::StreamExt;
use mainspring::time::{Instant, TimerMap, advance, advance_to};

#[test]
fn never_early_on_a_real_clock() {
    let _dog = watchdog(LONG);
    mainspring::block_on(async {
        let mut random = Random::new(3);
        let mut map = TimerMap::new();
        for n in 0..1_000 {
            let after = us(random.below(30_000));
            map.insert(n, (Instant::now(), after), after);
        }
        map.close();
        let mut count = 0;
        while let Some((_, (start, after))) = map.next().await {
            assert!(start.elapsed() >= after, "{after:?} ended after {:?}", start.elapsed());
            count += 1;
        }
        assert_eq!(count, 1_000);
    });
}

#[test]
fn not_a_nanosecond_early_whatever_the_phase() {
    manual().block_on(async {
        let mut map = TimerMap::new();
        // Wheels that floor to a tick are early for some phase of the tick.
        for phase in 0..40u64 {
            advance(us(2_503 * phase + 1)).await;
            map.insert((), (), ms(10));
            advance(ms(10) - Duration::from_nanos(1)).await;
            assert!(due_now(&mut map).await.is_empty(), "early in phase {phase}");
            advance(Duration::from_nanos(1)).await;
            assert_eq!(due_now(&mut map).await.len(), 1, "late in phase {phase}");
        }
    });
}

#[test]
fn equal_deadlines_come_out_in_the_order_of_insertion() {
    manual().block_on(async {
        let mut map = TimerMap::new();
        let when = Instant::now() + HOUR;
        for n in 0..500 {
            map.insert_at(n, (), when);
        }
        map.reset(&250, ms(1));
        map.reset_at(&250, when);
        map.insert_at(3, (), when);
        advance_to(when).await;
        let order: Vec<i32> = due_now(&mut map).await.into_iter().map(|(key, ())| key).collect();
        let expected: Vec<i32> = (0..500).filter(|n| *n != 3).chain([3]).collect();
        assert_eq!(order, expected, "moving keeps the place, setting anew takes a new one");
    });
}

#[test]
fn a_time_of_zero_or_past_comes_out_at_the_next_poll() {
    manual().block_on(async {
        let mut map = TimerMap::new();
        let start = Instant::now();
        advance(ms(7)).await;
        map.insert(1, "zero", Duration::ZERO);
        map.insert_at(2, "past", start);
        map.insert(3, "later", HOUR);
        assert!(map.reset(&3, Duration::ZERO));
        let mut due = due_now(&mut map).await;
        due.sort();
        assert_eq!(due, [(1, "zero"), (2, "past"), (3, "later")]);
    });
}

#[test]
fn no_limit_of_a_minute_nor_of_a_year() {
    paused().block_on(async {
        let mut map = TimerMap::new();
        let start = Instant::now();
        // libco: a minute; Skynet: 248 days; tokio-util: two years.
        for days in [1u64, 249, 800, 30_000] {
            map.insert(days, (), Duration::from_secs(days * 86_400));
        }
        map.insert(0, (), Duration::from_secs(61));
        map.insert(u64::MAX, (), Duration::MAX);
        for days in [0, 1, 249, 800, 30_000] {
            assert_eq!(map.next_expired().await, Some((days, ())));
            let expected = if days == 0 { 61 } else { days * 86_400 };
            assert_eq!(start.elapsed(), Duration::from_secs(expected));
        }
        assert_eq!(map.remove(&u64::MAX), Some(()));
    });
}

#[test]
fn a_reset_by_less_than_a_tick_does_not_run_twice() {
    manual().block_on(async {
        let mut map = TimerMap::new();
        // go-zero #5316: the entry was executed at once, and left in its slot.
        map.insert("key", (), ms(100));
        map.reset("key", us(10));
        map.reset("key", Duration::ZERO);
        assert_eq!(due_now(&mut map).await.len(), 1);
        advance(HOUR).await;
        assert!(due_now(&mut map).await.is_empty() && map.is_empty());
        assert!(!map.reset("key", ms(1)), "it has run, and is not there to be reset");
    });
}

#[test]
fn after_a_stall_everything_comes_out_once_in_order() {
    manual().block_on(async {
        let mut map = TimerMap::new();
        let mut random = Random::new(11);
        let start = Instant::now();
        for n in 0..3_000u64 {
            let after = Duration::from_nanos(random.below(1 << 43));
            map.insert(n, start + after, after);
        }
        // A dropped tick is no reason to be late forever (go-zero #3619).
        advance_to(start + HOUR).await;
        map.insert(u64::MAX, Instant::now() + ms(1), ms(1));
        let mut due = due_now(&mut map).await;
        advance(ms(1)).await;
        assert_eq!(map.next_expired().await.unwrap().0, u64::MAX, "and it is on time again");
        let count = due.len();
        assert!(due.is_sorted_by_key(|(_, deadline)| *deadline));
        due.sort_unstable();
        due.dedup();
        assert!(due.len() == count && count > 1_000);
        advance(2 * HOUR).await;
        assert_eq!(count + due_now(&mut map).await.len(), 3_000);
    });
}

#[test]
fn the_next_deadline_is_that_of_the_entry_that_comes_out_next() {
    manual().block_on(async {
        let mut map = TimerMap::new();
        assert_eq!(map.next_deadline(), None);
        let start = Instant::now();
        map.insert('a', (), ms(10));
        map.insert('b', (), ms(20));
        map.reset(&'a', ms(30));
        assert_eq!(map.next_deadline(), Some(start + ms(20)));
        map.remove(&'b');
        assert_eq!(map.next_deadline(), Some(start + ms(30)));
        advance(HOUR).await;
        assert_eq!(map.next_deadline(), Some(start + ms(30)), "it is due, and not out yet");
        assert_eq!((due_now(&mut map).await.len(), map.next_deadline()), (1, None));
    });
}

#[test]
fn a_reset_entry_comes_out_at_its_new_time_in_every_phase() {
    // go-zero's ring compares positions instead of distances: a quarter of such cases are early or late with it.
    manual().block_on(async {
        let mut map = TimerMap::new();
        for (set, wait, moved) in (1..30u64)
            .flat_map(|a| (0..a).map(move |b| (a, b)))
            .flat_map(|(set, wait)| [1u64, 9, 10, 11, 25].map(|moved| (set, wait, moved)))
        {
            map.insert((), (), ms(set));
            advance(ms(wait)).await;
            assert!(map.reset(&(), ms(moved)));
            let start = Instant::now();
            advance(ms(moved) - Duration::from_nanos(1)).await;
            assert!(due_now(&mut map).await.is_empty(), "early: set {set}, waited {wait}, moved by {moved}");
            advance(Duration::from_nanos(1)).await;
            assert_eq!(due_now(&mut map).await.len(), 1, "late: set {set}, waited {wait}, moved by {moved}");
            assert_eq!(start.elapsed(), ms(moved));
        }
    });
}
