//! `DelayQueue`: nothing early, late, lost or twice; first in, first out; keys that stay what they are; a task that
//! is woken when it must be. What tokio-util's queue promises is promised here too, and what people suffer from
//! there is a test.

mod common;

use std::collections::{BTreeMap, HashSet};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use mainspring::spawn;
use mainspring::task::unconstrained;
use mainspring::time::delay_queue::{Expired, Key};
use mainspring::time::{DelayQueue, Instant, advance, advance_to, sleep};
use proptest::prelude::*;

use common::{Dropped, HOUR, LONG, Probe, Random, delay, manual, ms, panicked, paused, us, watchdog};

/// All that is due, without waiting.
async fn due_now<T>(queue: &mut DelayQueue<T>) -> Vec<Expired<T>> {
    unconstrained(poll_fn(|cx| {
        let mut due = Vec::new();
        while let Poll::Ready(Some(expired)) = queue.poll_expired(cx) {
            due.push(expired);
        }
        Poll::Ready(due)
    }))
    .await
}

/// For results that do not matter.
fn ignore<T>(_: T) {}

fn values<T>(expired: Vec<Expired<T>>) -> Vec<T> {
    expired.into_iter().map(Expired::into_inner).collect()
}

fn poll<T>(probe: &Arc<Probe>, queue: &mut DelayQueue<T>) -> Poll<Option<T>> {
    let expired = queue.poll_expired(&mut Context::from_waker(&probe.waker()));
    expired.map(|expired| expired.map(Expired::into_inner))
}

#[test]
fn it_may_be_sent_and_moved() {
    fn send_sync<T: Send + Sync>() {}
    fn unpin<T: Unpin>() {}
    send_sync::<DelayQueue<u8>>();
    send_sync::<Key>();
    unpin::<DelayQueue<std::marker::PhantomPinned>>();
}

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
        // Moving away and back keeps the place.
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
fn an_old_key_never_touches_a_new_value() {
    manual().block_on(async {
        let mut queue = DelayQueue::new();
        let old = queue.insert("old", ms(1));
        assert_eq!(queue.remove(&old).into_inner(), "old");
        let new = queue.insert("new", ms(2));
        assert!(old != new && HashSet::from([old, new]).len() == 2);
        assert!(
            queue.try_remove(&old).is_none()
                && !queue.try_reset(&old, HOUR)
                && !queue.try_reset_at(&old, Instant::now())
        );
        assert_eq!(queue.try_deadline(&old), None);
        assert_eq!(queue.deadline(&new), Instant::now() + ms(2));
        queue.clear();
        assert!(queue.try_remove(&new).is_none());
        let newest = queue.insert("newest", ms(3));
        advance(ms(3)).await;
        assert_eq!(due_now(&mut queue).await[0].key(), newest);
        assert!(queue.try_remove(&newest).is_none());
    });
}

#[test]
fn an_unknown_key_panics_at_the_callers_place() {
    manual().block_on(async {
        let mut queue = DelayQueue::new();
        let key = queue.insert((), ms(1));
        queue.remove(&key);
        let calls: [fn(&mut DelayQueue<()>, &Key); 4] = [
            |queue, key| ignore(queue.remove(key)),
            |queue, key| queue.reset(key, HOUR),
            |queue, key| queue.reset_at(key, Instant::now()),
            |queue, key| ignore(queue.deadline(key)),
        ];
        for call in calls {
            let panicked = panicked(|| call(&mut queue, &key));
            assert!(panicked.message.contains("is not in this DelayQueue"), "{}", panicked.message);
            assert!(panicked.file.ends_with("time_delay_queue.rs"), "{}", panicked.file);
        }
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
        // Due for long, but not out yet: it may still be put off.
        queue.reset(&b, ms(5));
        assert_eq!(values(due_now(&mut queue).await), ['c']);
        advance(ms(15)).await;
        assert_eq!(values(due_now(&mut queue).await), ['b', 'a']);
        assert_eq!(queue.peek(), None);
    });
}

#[test]
fn a_task_that_waits_is_woken_by_what_concerns_it() {
    manual().block_on(async {
        let probe = Probe::new();
        let mut queue = DelayQueue::new();
        let first = queue.insert(1, ms(10));
        assert!(poll(&probe, &mut queue).is_pending());
        let second = queue.insert(2, ms(20));
        queue.reset(&second, ms(15));
        queue.reset(&first, ms(12));
        assert_eq!(probe.wakes(), 0, "nothing comes sooner");
        let third = queue.insert(3, ms(5));
        assert_eq!(probe.wakes(), 1, "an earlier deadline");
        assert!(poll(&probe, &mut queue).is_pending());
        queue.reset(&second, Duration::ZERO);
        assert_eq!(probe.wakes(), 2, "a reset to the present");
        assert_eq!(poll(&probe, &mut queue), Poll::Ready(Some(2)));
        assert!(poll(&probe, &mut queue).is_pending());
        queue.remove(&first);
        assert_eq!(probe.wakes(), 2);
        queue.remove(&third);
        assert_eq!(probe.wakes(), 3, "the last one is gone");
        assert_eq!(poll(&probe, &mut queue), Poll::Ready(None));

        queue.insert(4, ms(10));
        assert!(poll(&probe, &mut queue).is_pending());
        queue.clear();
        assert_eq!(probe.wakes(), 4, "cleared");
        queue.insert(5, ms(10));
        assert!(poll(&probe, &mut queue).is_pending());
        advance(ms(10)).await;
        assert_eq!(probe.wakes(), 5, "due");
        assert_eq!(poll(&probe, &mut queue), Poll::Ready(Some(5)));
    });
}

#[test]
fn an_earlier_value_after_a_pending_poll_is_waited_for() {
    let _dog = watchdog(LONG);
    mainspring::block_on(async {
        let mut queue = DelayQueue::new();
        queue.insert("late", HOUR);
        let probe = Probe::new();
        assert!(poll(&probe, &mut queue).is_pending());
        queue.insert("soon", ms(1));
        assert_eq!(queue.next_expired().await.unwrap().into_inner(), "soon");
    });
}

#[test]
fn the_latest_task_is_woken() {
    manual().block_on(async {
        let (one, other) = (Probe::new(), Probe::new());
        let mut queue = DelayQueue::new();
        queue.insert((), ms(10));
        assert!(poll(&one, &mut queue).is_pending() && poll(&other, &mut queue).is_pending());
        queue.insert((), ms(5));
        assert_eq!((one.wakes(), other.wakes()), (0, 1));
        assert!(poll(&one, &mut queue).is_pending() && poll(&other, &mut queue).is_pending());
        advance(ms(5)).await;
        assert_eq!((one.wakes(), other.wakes()), (0, 2));
    });
}

#[test]
fn an_empty_queue_leaves_no_timer_behind() {
    paused().block_on(async {
        let mut queue = DelayQueue::new();
        let key = queue.insert((), HOUR);
        let probe = Probe::new();
        assert!(poll(&probe, &mut queue).is_pending());
        queue.remove(&key);
        assert_eq!(poll(&probe, &mut queue), Poll::Ready(None));
        let start = Instant::now();
        sleep(2 * HOUR).await;
        assert_eq!((start.elapsed(), probe.wakes()), (2 * HOUR, 1));
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
fn a_large_cascade_is_done_in_slices() {
    manual().block_on(async {
        let mut queue = DelayQueue::new();
        let start = Instant::now();
        for n in 0..20_000u64 {
            // The last first: what lies in order does not cascade.
            queue.insert_at(n, start + HOUR + Duration::from_nanos((19_999 - n) * 1_000));
        }
        advance_to(start + HOUR).await;
        let probe = Probe::new();
        assert!(poll(&probe, &mut queue).is_pending(), "all of twenty thousand moved in one poll");
        assert_eq!(probe.wakes(), 1, "it wakes itself to go on");
        let mut polls = 1;
        loop {
            match poll(&probe, &mut queue) {
                Poll::Ready(first) => break assert_eq!(first, Some(19_999)),
                Poll::Pending => polls += 1,
            }
        }
        assert!((3..40).contains(&polls), "{polls} polls");
    });
}

#[test]
fn due_values_do_not_starve_the_other_tasks() {
    paused().block_on(async {
        let others = spawn(async {
            let mut turns = 0;
            while turns < 20 {
                mainspring::task::yield_now().await;
                turns += 1;
            }
        });
        let mut queue = DelayQueue::new();
        (0..10_000).for_each(|n| ignore(queue.insert(n, Duration::ZERO)));
        let mut taken = 0;
        while !others.is_finished() {
            assert!(queue.next_expired().await.is_some());
            taken += 1;
        }
        assert!(taken < 30 * 128, "{taken} were taken before the other task was done");
    });
}

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
fn without_a_runtime_it_says_what_to_do_and_where() {
    let mut queue = DelayQueue::new();
    let line = line!() - 1;
    let panicked = panicked(|| ignore(queue.insert((), ms(1))));
    assert!(panicked.message.contains("no Mainspring runtime"), "{}", panicked.message);
    assert!(panicked.message.contains(&format!("time_delay_queue.rs:{line}")), "{}", panicked.message);
    assert!(panicked.file.ends_with("time_delay_queue.rs"), "{}", panicked.file);
    // Used in one, it belongs there.
    mainspring::block_on(async {
        queue.insert((), us(10));
        assert!(queue.next_expired().await.is_some());
    });
}

#[test]
fn after_its_runtime_it_says_so() {
    let mut queue = common::orphan(|| {
        let mut queue = DelayQueue::new();
        queue.insert((), HOUR);
        queue
    });
    let probe = Probe::new();
    let panicked = panicked(|| ignore(poll(&probe, &mut queue)));
    assert!(panicked.message.contains("was dropped before the deadline"), "{}", panicked.message);
}

/// A step of the comparison with a sorted map.
#[derive(Clone, Debug)]
enum Op {
    Insert(u64),
    Remove(usize),
    Reset(usize, u64),
    Advance(u64),
    Clear,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => delay().prop_map(Op::Insert),
        2 => any::<usize>().prop_map(Op::Remove),
        3 => (any::<usize>(), delay()).prop_map(|(which, delay)| Op::Reset(which, delay)),
        4 => delay().prop_map(|delay| Op::Advance(delay.min(1 << 50))),
        1 => Just(Op::Clear),
    ]
}

/// The queue, drained whenever time has passed, against a map sorted by deadline and order of insertion.
async fn compare(ops: Vec<Op>) {
    let mut queue = DelayQueue::new();
    let mut model: BTreeMap<(Instant, u64), Key> = BTreeMap::new();
    let mut gone = Vec::new();
    let mut number = 0;
    for op in ops {
        let pick = |which: usize| model.keys().nth(which % model.len().max(1)).copied();
        let at = |nanos: u64| Instant::now() + Duration::from_nanos(nanos).max(Duration::from_nanos(1));
        match op {
            Op::Insert(nanos) => {
                number += 1;
                let key = queue.insert_at(number, at(nanos));
                model.insert((at(nanos), number), key);
            }
            Op::Remove(which) => {
                if let Some(first) = pick(which) {
                    let key = model.remove(&first).unwrap();
                    assert_eq!(queue.remove(&key).into_inner(), first.1);
                    gone.push(key);
                }
            }
            Op::Reset(which, nanos) => {
                if let Some(first) = pick(which) {
                    let key = model.remove(&first).unwrap();
                    queue.reset_at(&key, at(nanos));
                    model.insert((at(nanos), first.1), key);
                }
            }
            Op::Advance(nanos) => {
                advance_to(Instant::now() + Duration::from_nanos(nanos)).await;
                let now = Instant::now();
                for expired in due_now(&mut queue).await {
                    let ((deadline, number), key) = model.pop_first().expect("one more than there are");
                    assert!(deadline <= now, "early");
                    assert_eq!(
                        (expired.deadline(), *expired.get_ref(), expired.key()),
                        (deadline, number, key)
                    );
                    gone.push(key);
                }
                assert!(
                    model.first_key_value().is_none_or(|((deadline, _), _)| *deadline > now),
                    "forgotten"
                );
            }
            Op::Clear => {
                queue.clear();
                gone.extend(std::mem::take(&mut model).into_values());
            }
        }
        assert!(due_now(&mut queue).await.is_empty());
        assert_eq!(queue.len(), model.len());
        assert_eq!(queue.peek().as_ref(), model.values().next());
        for ((deadline, _), key) in &model {
            assert_eq!(queue.try_deadline(key), Some(*deadline));
        }
        assert!(gone.iter().all(|key| queue.try_deadline(key).is_none()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_a_sorted_map_does(ops in prop::collection::vec(op(), 1..80)) {
        manual().block_on(compare(ops));
    }
}
