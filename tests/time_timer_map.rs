//! `TimerMap`: what go-zero's TimingWheel, Netty's and Skynet's timers are used for, without their defects.
//! docs/systems.md says which test stands for what. Here its owner is alone; `time_timer_map_shared.rs` is about the
//! others.

mod common;

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use mainspring::task::unconstrained;
use mainspring::time::{Instant, TimerMap, advance, advance_to};
use proptest::prelude::*;

use common::{Dropped, HOUR, LONG, Probe, Random, delay, manual, ms, panicked, paused, us, watchdog};

/// All that is due, without waiting.
async fn due_now<K: Hash + Eq, V>(map: &mut TimerMap<K, V>) -> Vec<(K, V)> {
    unconstrained(poll_fn(|cx| {
        let mut due = Vec::new();
        while let Poll::Ready(Some(entry)) = map.poll_expired(cx) {
            due.push(entry);
        }
        Poll::Ready(due)
    }))
    .await
}

fn poll<K: Hash + Eq, V>(probe: &Arc<Probe>, map: &mut TimerMap<K, V>) -> Poll<Option<(K, V)>> {
    map.poll_expired(&mut Context::from_waker(&probe.waker()))
}

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
        // go-zero #5316: executed at once, and left in its slot.
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
        // It is empty at once, also if nobody looks at what came out.
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
fn after_a_stall_everything_comes_out_once_in_order() {
    manual().block_on(async {
        let mut map = TimerMap::new();
        let mut random = Random::new(11);
        let start = Instant::now();
        for n in 0..3_000u64 {
            let after = Duration::from_nanos(random.below(1 << 43));
            map.insert(n, start + after, after);
        }
        // A tick that was dropped is no reason to be late for ever (go-zero #3619).
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
        // Its owner may go on; go-zero's loses what is put in, and panics when it is closed again.
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
        // One that panics has dropped what it was asked for, and nothing else.
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
fn an_expiring_cache_shows_nobody_what_has_expired() {
    async fn get(cache: &mut TimerMap<&'static str, u32>, key: &str) -> Option<u32> {
        drop(due_now(cache).await);
        cache.get(key).copied()
    }
    manual().block_on(async {
        let mut cache = TimerMap::new();
        cache.insert("a", 1, ms(100));
        advance(ms(60)).await;
        assert_eq!(get(&mut cache, "a").await, Some(1));
        cache.insert("a", 2, ms(100));
        advance(ms(100) - Duration::from_nanos(1)).await;
        assert_eq!(get(&mut cache, "a").await, Some(2), "stored anew, it lives on");
        advance(Duration::from_nanos(1)).await;
        assert_eq!((get(&mut cache, "a").await, cache.len()), (None, 0));
    });
}

/// A key with a poor hash: many share one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Poor(u8);

impl Hash for Poor {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0 % 3).hash(state);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Set(u8, u64),
    Send(u8, u64),
    Move(u8, u64),
    SendMove(u8, u64),
    Remove(u8),
    SendRemove(u8),
    Advance(u64),
    Drain,
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0u8..24;
    prop_oneof![
        6 => (key(), delay()).prop_map(|(key, delay)| Op::Set(key, delay)),
        2 => (key(), delay()).prop_map(|(key, delay)| Op::Send(key, delay)),
        4 => (key(), delay()).prop_map(|(key, delay)| Op::Move(key, delay)),
        1 => (key(), delay()).prop_map(|(key, delay)| Op::SendMove(key, delay)),
        2 => key().prop_map(Op::Remove),
        1 => key().prop_map(Op::SendRemove),
        4 => delay().prop_map(|delay| Op::Advance(delay.min(1 << 50))),
        1 => Just(Op::Drain),
    ]
}

/// The map, drained whenever time has passed, against one map sorted by deadline and order, and one by key.
async fn compare(ops: Vec<Op>) {
    let mut map = TimerMap::new();
    let handle = map.handle();
    let mut by_time: BTreeMap<(Instant, u64), u8> = BTreeMap::new();
    let mut by_key: HashMap<u8, (Instant, u64)> = HashMap::new();
    let mut number = 0;
    for op in ops {
        // Something that is due at once would come out between the steps.
        let at = |nanos: u64| Instant::now() + Duration::from_nanos(nanos.max(1));
        match op {
            Op::Set(key, nanos) | Op::Send(key, nanos) => {
                number += 1;
                let old = by_key.insert(key, (at(nanos), number));
                if let Some(old) = old {
                    by_time.remove(&old);
                }
                by_time.insert((at(nanos), number), key);
                match op {
                    Op::Set(..) => {
                        assert_eq!(map.insert_at(Poor(key), number, at(nanos)), old.map(|old| old.1));
                    }
                    _ => handle.insert_at(Poor(key), number, at(nanos)).unwrap(),
                }
            }
            Op::Move(key, nanos) | Op::SendMove(key, nanos) => {
                match op {
                    Op::Move(..) => {
                        assert_eq!(map.reset_at(&Poor(key), at(nanos)), by_key.contains_key(&key));
                    }
                    _ => handle.reset_at(Poor(key), at(nanos)).unwrap(),
                }
                if let Some(old) = by_key.get_mut(&key) {
                    by_time.remove(old);
                    old.0 = at(nanos);
                    by_time.insert(*old, key);
                }
            }
            Op::Remove(key) | Op::SendRemove(key) => {
                let old = by_key.remove(&key);
                if let Some(old) = old {
                    by_time.remove(&old);
                }
                match op {
                    Op::Remove(_) => assert_eq!(map.remove(&Poor(key)), old.map(|old| old.1)),
                    _ => handle.remove(Poor(key)).unwrap(),
                }
            }
            Op::Advance(nanos) => {
                advance_to(Instant::now() + Duration::from_nanos(nanos)).await;
                let now = Instant::now();
                for (Poor(key), value) in due_now(&mut map).await {
                    let ((deadline, number), first) = by_time.pop_first().expect("one more than there are");
                    assert!(deadline <= now, "early");
                    assert_eq!((key, value), (first, number));
                    by_key.remove(&key);
                }
                assert!(
                    by_time.first_key_value().is_none_or(|((deadline, _), _)| *deadline > now),
                    "forgotten"
                );
            }
            Op::Drain => {
                let drained: Vec<_> = map.drain().map(|(Poor(key), value)| (value, key)).collect();
                let expected: Vec<_> = by_time.iter().map(|((_, number), key)| (*number, *key)).collect();
                assert_eq!(drained, expected);
                by_time.clear();
                by_key.clear();
            }
        }
        assert!(due_now(&mut map).await.is_empty());
        assert_eq!(map.len(), by_key.len());
        for key in 0..24 {
            let known = by_key.get(&key);
            assert_eq!(map.deadline(&Poor(key)), known.map(|known| known.0));
            assert_eq!(map.get(&Poor(key)), known.map(|known| &known.1));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_two_sorted_maps_do(ops in prop::collection::vec(op(), 1..80)) {
        manual().block_on(compare(ops));
    }
}

#[test]
fn a_reset_entry_comes_out_at_its_new_time_in_every_phase() {
    // go-zero's ring compares positions instead of distances: a quarter of such cases are early or late there.
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
