//! When values come out, and in which order: never early, and first in, first out.

use std::time::Duration;

use crate::common::{self, HOUR, LONG, Random, manual, ms, paused, us, watchdog};
use crate::{due_now, values};
use futures::StreamExt;
use mainspring::time::delay_queue::Key;
use mainspring::time::{DelayQueue, Instant, advance, advance_to};

#[test]
fn nothing_comes_out_early_and_all_in_order() {
    let _dog = watchdog(LONG);
    mainspring::block_on(async {
        let mut random = Random::new(5);
        let mut queue = DelayQueue::new();
        for _ in 0..2_000 {
            let after = us(random.below(20_000));
            let start = Instant::now();
            queue.insert((start, after), after);
        }
        let mut last = None;
        while let Some(expired) = queue.next_expired().await {
            let (start, after) = *expired.get_ref();
            assert!(start.elapsed() >= after, "{after:?} ended after {:?}", start.elapsed());
            assert!(last <= Some(expired.deadline()));
            last = Some(expired.deadline());
        }
        assert!(queue.is_empty());
    });
}

#[test]
fn equal_deadlines_come_out_first_in_first_out() {
    manual().block_on(async {
        let mut queue = DelayQueue::new();
        let when = Instant::now() + HOUR;
        let keys: Vec<Key> = (0..300).map(|n| queue.insert_at(n, when)).collect();
        // Moving a value away and back keeps its place.
        for key in keys.iter().step_by(7) {
            queue.reset_at(key, when + HOUR);
            queue.reset_at(key, when);
        }
        advance_to(when).await;
        assert_eq!(values(due_now(&mut queue).await), (0..300).collect::<Vec<_>>());
    });
}

#[test]
fn values_come_out_at_their_deadlines_to_the_nanosecond() {
    paused().block_on(async {
        let mut queue = DelayQueue::new();
        let start = Instant::now();
        for nanos in [3, 1_000_001, 999_999, 1_000_000, 86_400_000_000_007, 1] {
            queue.insert(nanos, Duration::from_nanos(nanos));
        }
        let mut seen = vec![];
        while let Some(expired) = queue.next().await {
            assert_eq!(start.elapsed(), Duration::from_nanos(*expired.get_ref()));
            assert_eq!(expired.deadline(), Instant::now());
            seen.push(expired.into_inner());
        }
        assert!(seen.is_sorted() && seen.len() == 6);
    });
}

#[test]
fn virtual_time_stops_at_no_deadline_that_nobody_has() {
    paused().block_on(async {
        let mut queue = DelayQueue::new();
        let keys: Vec<Key> = (1..=50).map(|n| queue.insert(n, Duration::from_secs(n))).collect();
        for key in &keys {
            queue.reset(key, HOUR);
        }
        let turns = common::metrics().turns();
        let start = Instant::now();
        assert_eq!(queue.next_expired().await.unwrap().into_inner(), 1);
        assert_eq!(start.elapsed(), HOUR);
        assert!(common::metrics().turns() - turns < 10, "it stopped at old deadlines");
    });
}

#[test]
fn what_is_past_comes_out_at_the_next_poll() {
    manual().block_on(async {
        let mut queue = DelayQueue::new();
        let now = Instant::now();
        advance(ms(5)).await;
        queue.insert_at("past", now);
        queue.insert("present", Duration::ZERO);
        queue.insert_at("present too", Instant::now());
        assert_eq!(values(due_now(&mut queue).await), ["past", "present", "present too"]);
    });
}

#[test]
fn far_deadlines_neither_panic_nor_come() {
    manual().block_on(async {
        let mut queue = DelayQueue::new();
        // tokio-util panics beyond 2^36 milliseconds.
        let years = |n: u64| Duration::from_secs(n * 365 * 86_400);
        queue.insert("never", Duration::MAX);
        queue.insert("three", years(3));
        let moved = queue.insert("moved", ms(1));
        queue.reset(&moved, years(250));
        queue.insert_at("last instant", Instant::now() + Duration::MAX);
        assert!(due_now(&mut queue).await.is_empty());
        advance(years(3) - Duration::from_nanos(1)).await;
        assert!(due_now(&mut queue).await.is_empty());
        advance(Duration::from_nanos(1)).await;
        assert_eq!(values(due_now(&mut queue).await), ["three"]);
        advance(years(247)).await;
        assert_eq!(values(due_now(&mut queue).await), ["moved"]);
        assert_eq!(queue.len(), 2);
        queue.clear();
        assert!(queue.is_empty());
    });
}

#[test]
fn resets_move_to_both_sides_and_after_the_deadline() {
    manual().block_on(async {
        let mut queue = DelayQueue::new();
        let start = Instant::now();
        let (a, b, c) = (queue.insert('a', ms(10)), queue.insert('b', ms(20)), queue.insert('c', ms(30)));
        queue.reset(&c, ms(5));
        assert_eq!(queue.peek(), Some(c));
        queue.reset(&a, ms(40));
        assert_eq!(queue.deadline(&a), start + ms(40));
        advance(ms(25)).await;
        // This value has been due for long, but is not out yet: it may still be put off.
        queue.reset(&b, ms(5));
        assert_eq!(values(due_now(&mut queue).await), ['c']);
        advance(ms(15)).await;
        assert_eq!(values(due_now(&mut queue).await), ['b', 'a']);
        assert_eq!(queue.peek(), None);
    });
}

#[test]
fn after_a_stall_everything_comes_out_in_order() {
    manual().block_on(async {
        let mut queue = DelayQueue::new();
        let mut random = Random::new(9);
        for n in 0..5_000u64 {
            let after = Duration::from_nanos(random.below(1 << 45));
            queue.insert((Instant::now() + after, n), after);
        }
        assert!(due_now(&mut queue).await.is_empty());
        advance_to(Instant::now() + 24 * HOUR).await;
        let due = values(due_now(&mut queue).await);
        assert!(due.len() == 5_000 && due.is_sorted());
    });
}

#[test]
fn a_duration_counts_from_the_call_and_not_from_the_beginning_of_the_turn() {
    mainspring::block_on(async {
        let mut queue = DelayQueue::new();
        std::thread::sleep(ms(200));
        // The runtime does not see this reading.
        let before = std::time::Instant::now();
        let key = queue.insert((), ms(10));
        assert!(queue.deadline(&key).into_std() >= before + ms(10));
    });
}
