//! `TimerMap`: what go-zero's TimingWheel, Netty's and Skynet's timers are used for, without their defects.
//! docs/systems.md says which test stands for what.

mod common;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::future::{pending, poll_fn};
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use mainspring::spawn;
use mainspring::task::{unconstrained, yield_now};
use mainspring::time::timer_map::TimerMapHandle;
use mainspring::time::{Instant, TimerMap, advance, advance_to, sleep};
use proptest::prelude::*;

use common::{Dropped, HOUR, LONG, Probe, Random, delay, manual, ms, paused, us, watchdog};

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
fn it_may_be_sent_and_so_may_its_handle() {
    fn send_sync<T: Send + Sync>() {}
    send_sync::<TimerMap<u8, u8>>();
    send_sync::<TimerMapHandle<Cell<u8>, Cell<u8>>>();
}

#[test]
fn set_puts_in_and_replaces() {
    manual().block_on(async {
        let mut map = TimerMap::new();
        assert_eq!(map.set("a".to_owned(), 1, ms(10)), Ok(None));
        assert_eq!(map.set("b".to_owned(), 2, ms(20)), Ok(None));
        assert_eq!(map.set("a".to_owned(), 3, ms(30)), Ok(Some(1)));
        assert_eq!((map.len(), map.get("a"), map.get("c")), (2, Ok(Some(&3)), Ok(None)));
        *map.get_mut("b").unwrap().unwrap() += 40;
        assert_eq!(map.deadline("b"), Ok(Some(Instant::now() + ms(20))));
        assert_eq!((map.contains_key("b"), map.contains_key("c")), (Ok(true), Ok(false)));
        let mut all: Vec<_> = map.iter().collect();
        all.sort();
        assert_eq!(all, [(&"a".to_owned(), &3), (&"b".to_owned(), &42)]);
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
            map.set(n, (Instant::now(), after), after).unwrap();
        }
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
            map.set((), (), ms(10)).unwrap();
            advance(ms(10) - Duration::from_nanos(1)).await;
            assert!(due_now(&mut map).await.is_empty(), "early in phase {phase}");
            advance(Duration::from_nanos(1)).await;
            assert_eq!(due_now(&mut map).await.len(), 1, "late in phase {phase}");
        }
    });
}

#[test]
fn equal_deadlines_come_out_in_the_order_in_which_they_were_set() {
    manual().block_on(async {
        let mut map = TimerMap::new();
        let when = Instant::now() + HOUR;
        for n in 0..500 {
            map.set_at(n, (), when).unwrap();
        }
        map.move_to(&250, ms(1)).unwrap();
        map.move_to_at(&250, when).unwrap();
        map.set_at(3, (), when).unwrap();
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
        map.set(1, "zero", Duration::ZERO).unwrap();
        map.set_at(2, "past", start).unwrap();
        map.set(3, "later", HOUR).unwrap();
        assert!(map.move_to(&3, Duration::ZERO).unwrap());
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
            map.set(days, (), Duration::from_secs(days * 86_400)).unwrap();
        }
        map.set(0, (), Duration::from_secs(61)).unwrap();
        map.set(u64::MAX, (), Duration::MAX).unwrap();
        for days in [0, 1, 249, 800, 30_000] {
            assert_eq!(map.next_expired().await, Some((days, ())));
            let expected = if days == 0 { 61 } else { days * 86_400 };
            assert_eq!(start.elapsed(), Duration::from_secs(expected));
        }
        assert_eq!(map.remove(&u64::MAX), Ok(Some(())));
    });
}

#[test]
fn moving_by_less_than_a_tick_does_not_run_twice() {
    manual().block_on(async {
        let mut map = TimerMap::new();
        // go-zero #5316: executed at once, and left in its slot.
        map.set("key", (), ms(100)).unwrap();
        map.move_to("key", us(10)).unwrap();
        map.move_to("key", Duration::ZERO).unwrap();
        assert_eq!(due_now(&mut map).await.len(), 1);
        advance(HOUR).await;
        assert!(due_now(&mut map).await.is_empty() && map.is_empty());
        assert_eq!(map.move_to("key", ms(1)), Ok(false), "it has run, and is not there to be moved");
    });
}

#[test]
fn a_key_set_after_a_drain_is_not_lost() {
    manual().block_on(async {
        let mut map = TimerMap::new();
        // go-zero #5314.
        for n in 0..100 {
            map.set(n, n, ms(100 - n)).unwrap();
        }
        let drained: Vec<_> = map.drain().collect();
        assert_eq!(drained, (0..100).rev().map(|n| (n, n)).collect::<Vec<_>>(), "by deadline");
        assert!(map.is_empty() && map.get(&5) == Ok(None));
        map.set(5, 55, ms(10)).unwrap();
        advance(ms(10)).await;
        assert_eq!(due_now(&mut map).await, [(5, 55)]);
        // It is empty at once, also if nobody looks at what came out.
        map.set(6, 66, ms(1)).unwrap();
        let unread = map.drain();
        assert_eq!((unread.len(), map.len()), (1, 0));
        drop(unread);
        map.set(6, 67, ms(1)).unwrap();
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
            map.set(n, start + after, after).unwrap();
        }
        // A tick that was dropped is no reason to be late for ever (go-zero #3619).
        advance_to(start + HOUR).await;
        map.set(u64::MAX, Instant::now() + ms(1), ms(1)).unwrap();
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
            map.set(n, dropped.token(), HOUR).unwrap();
            if n % 2 == 0 {
                drop(map.remove(&n).unwrap());
            } else {
                map.set(n, dropped.token(), HOUR).unwrap();
            }
            assert_eq!(dropped.count(), n + 1);
        }
        assert_eq!(map.len(), 5_000);
        drop(map);
        assert_eq!(dropped.count(), 15_000);
    });
}

#[test]
fn a_closed_map_says_so_to_every_call() {
    manual().block_on(async {
        let probe = Probe::new();
        let mut map = TimerMap::new();
        let handle = map.handle();
        map.set(1, 'a', ms(20)).unwrap();
        map.set(2, 'b', ms(10)).unwrap();
        assert!(poll(&probe, &mut map).is_pending());
        handle.set(3, 'c', ms(15)).unwrap();
        assert_eq!(probe.wakes(), 1);
        let rest: Vec<_> = map.close().collect();
        assert_eq!(rest, [(2, 'b'), (3, 'c'), (1, 'a')], "what was sent before is among it");
        assert_eq!(probe.wakes(), 2, "who waits is told");
        assert_eq!(poll(&probe, &mut map), Poll::Ready(None));
        let now = Instant::now();
        assert!(map.set(1, 'x', ms(1)).is_err() && map.set_at(1, 'x', now).is_err());
        assert!(map.move_to(&1, ms(1)).is_err() && map.move_to_at(&1, now).is_err());
        assert!(map.remove(&1).is_err() && map.get(&1).is_err() && map.get_mut(&1).is_err());
        assert!(map.contains_key(&1).is_err() && map.deadline(&1).is_err());
        assert!(handle.set(1, 'x', ms(1)).is_err() && handle.set_at(1, 'x', now).is_err());
        assert!(handle.move_to(1, ms(1)).is_err() && handle.move_to_at(1, now).is_err());
        assert!(handle.remove(1).is_err() && map.handle().set(1, 'x', ms(1)).is_err());
        // go-zero panics at the second.
        assert_eq!((map.close().count(), map.drain().count(), map.len()), (0, 0, 0));
        assert!(map.is_closed() && handle.is_closed());
        assert_eq!(poll(&probe, &mut map), Poll::Ready(None));
    });
}

#[test]
fn a_handle_closes_the_map_for_all() {
    manual().block_on(async {
        let probe = Probe::new();
        let mut map = TimerMap::new();
        let (one, other) = (map.handle(), map.handle());
        assert!(poll(&probe, &mut map).is_pending());
        one.set("left", 1, HOUR).unwrap();
        assert!(poll(&probe, &mut map).is_pending());
        one.set("sent before", 2, HOUR).unwrap();
        other.close();
        assert!(one.set("sent after", 3, HOUR).is_err() && map.set("own", 4, HOUR).is_err());
        assert_eq!(poll(&probe, &mut map), Poll::Ready(None));
        assert_eq!(map.close().collect::<Vec<_>>(), [("left", 1), ("sent before", 2)]);
        assert_eq!(map.close().count(), 0);
    });
}

#[test]
fn a_task_that_waits_is_woken_by_what_concerns_it() {
    manual().block_on(async {
        let probe = Probe::new();
        let mut map = TimerMap::new();
        map.set(1, (), ms(10)).unwrap();
        assert!(poll(&probe, &mut map).is_pending());
        map.set(2, (), ms(20)).unwrap();
        map.move_to(&1, ms(15)).unwrap();
        assert_eq!(probe.wakes(), 0);
        map.move_to(&2, ms(1)).unwrap();
        assert_eq!(probe.wakes(), 1);
        assert!(poll(&probe, &mut map).is_pending());
        map.remove(&1).unwrap();
        map.remove(&2).unwrap();
        assert_eq!(probe.wakes(), 2, "the map is empty");
        assert_eq!(poll(&probe, &mut map), Poll::Ready(None));
        map.set(3, (), ms(1)).unwrap();
        assert!(poll(&probe, &mut map).is_pending());
        assert_eq!(map.drain().count(), 1);
        assert_eq!(probe.wakes(), 3);
    });
}

#[test]
fn other_threads_feed_it_and_nothing_is_lost() {
    let _dog = watchdog(LONG);
    mainspring::block_on(async {
        let mut map = TimerMap::new();
        let handle = map.handle();
        let threads: Vec<_> = (0..4u64)
            .map(|thread| {
                let handle = handle.clone();
                std::thread::spawn(move || {
                    for n in 0..1_000 {
                        let key = thread * 10_000 + n;
                        handle.set(key, 0, HOUR).unwrap();
                        handle.set(key, 1, ms(n % 5)).unwrap();
                        if n % 4 == 0 {
                            handle.move_to(key, us(10)).unwrap();
                        } else if n % 4 == 1 {
                            handle.set(key + 5_000, 2, HOUR).unwrap();
                            handle.remove(key + 5_000).unwrap();
                        }
                    }
                })
            })
            .collect();
        drop(handle);
        let mut seen = HashMap::new();
        while let Some((key, value)) = map.next_expired().await {
            // Set anew after it had expired, it may come out again; its old value may not.
            assert_eq!(value, 1, "of {key}");
            *seen.entry(key).or_insert(0) += 1;
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(seen.len() == 4_000 && seen.values().all(|n| *n == 1));
    });
}

#[test]
fn a_batch_from_other_threads_wakes_once() {
    manual().block_on(async {
        let probe = Probe::new();
        let mut map = TimerMap::new();
        let handle = map.handle();
        for batch in 1..=3 {
            assert!(poll(&probe, &mut map).is_pending());
            let copy = handle.clone();
            std::thread::spawn(move || (0..1_000).for_each(|n| copy.set(n, (), HOUR).unwrap()))
                .join()
                .unwrap();
            assert_eq!((probe.wakes(), handle.backlog()), (batch, 1_000));
        }
        assert!(poll(&probe, &mut map).is_pending());
        assert_eq!((map.len(), handle.backlog()), (1_000, 0));
    });
}

#[test]
fn a_handle_ends_a_wait_before_its_time() {
    manual().block_on(async {
        let mut map = TimerMap::new();
        let handle = map.handle();
        map.set("sleeper", "woken", HOUR).unwrap();
        let waiter = spawn(async move { map.next_expired().await });
        yield_now().await;
        handle.move_to("sleeper", Duration::ZERO).unwrap();
        assert_eq!(waiter.await.unwrap(), Some(("sleeper", "woken")));
    });
}

#[test]
fn a_map_that_was_dropped_is_closed() {
    manual().block_on(async {
        let dropped = Dropped::default();
        let mut map = TimerMap::new();
        let handle = map.handle();
        handle.set(1, dropped.token(), HOUR).unwrap();
        drop(map);
        assert_eq!(dropped.count(), 1);
        assert!(handle.set(2, dropped.token(), HOUR).is_err() && handle.is_closed());
        handle.close();
    });
}

#[test]
fn run_calls_back_in_order_and_at_most_so_many_at_once() {
    paused().block_on(async {
        let mut map = TimerMap::new();
        for n in 0..40u64 {
            map.set(n, (), ms(1 + n / 10)).unwrap();
        }
        let (now, most, order) = (Cell::new(0), Cell::new(0), RefCell::new(vec![]));
        let ran = map
            .run(3, async |n, ()| {
                now.set(now.get() + 1);
                most.set(most.get().max(now.get()));
                order.borrow_mut().push(n);
                sleep(us(100 + 7 * (n % 3))).await;
                now.set(now.get() - 1);
            })
            .await;
        assert_eq!((ran.calls(), ran.panics(), most.get(), now.get()), (40, 0, 3, 0));
        assert_eq!(*order.borrow(), (0..40).collect::<Vec<_>>());
        assert!(ran.into_first_panic().is_none());
        // The map is as usable as before.
        map.set(1, (), ms(1)).unwrap();
        assert!(map.next_expired().await.is_some());
    });
}

#[test]
fn a_panic_of_one_callback_is_kept_from_the_others() {
    struct Bomb(u32);
    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 == 6 && !std::thread::panicking() {
                panic!("in the drop of {}", self.0);
            }
        }
    }
    paused().block_on(async {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| ()));
        let mut map = TimerMap::new();
        (0..10).for_each(|n| drop(map.set(n, Bomb(n), ms(1)).unwrap()));
        let done = RefCell::new(vec![]);
        let ran = map
            .run(4, async |n, bomb| {
                assert!(n != 2, "before the first await");
                yield_now().await;
                assert!(n != 5, "after an await");
                done.borrow_mut().push(n);
                drop(bomb);
            })
            .await;
        std::panic::set_hook(hook);
        assert_eq!((ran.calls(), ran.panics()), (10, 3));
        assert_eq!(*done.borrow(), [0, 1, 3, 4, 6, 7, 8, 9]);
        let first = ran.into_first_panic().unwrap();
        assert_eq!(first.downcast_ref::<&str>(), Some(&"before the first await"));
    });
}

#[test]
fn run_polls_only_the_callbacks_that_were_woken() {
    paused().block_on(async {
        let mut map = TimerMap::new();
        for n in 0..100u64 {
            map.set(n, (), ms(1)).unwrap();
        }
        let polls = Cell::new(0);
        let ran = map
            .run(100, async |n, ()| {
                let mut sleep = std::pin::pin!(sleep(ms(n)));
                poll_fn(|cx| {
                    polls.set(polls.get() + 1);
                    sleep.as_mut().poll(cx)
                })
                .await;
            })
            .await;
        assert_eq!(ran.calls(), 100);
        // One when it is called, one when its sleep ends.
        assert!(polls.get() <= 200, "{} polls", polls.get());
    });
}

#[test]
fn while_the_crew_is_full_entries_wait_and_can_be_moved_and_removed() {
    paused().block_on(async {
        let mut map = TimerMap::new();
        let handle = map.handle();
        for n in 0..5 {
            handle.set(n, n, ms(1)).unwrap();
        }
        let seen = RefCell::new(vec![]);
        let ran = map
            .run(1, async |n, value| {
                seen.borrow_mut().push((n, value));
                if n == 0 {
                    sleep(ms(10)).await;
                    handle.remove(1).unwrap();
                    handle.move_to(2, ms(20)).unwrap();
                    handle.set(3, 33, Duration::ZERO).unwrap();
                    // The run looks at what was sent also while it calls nobody back.
                    while handle.backlog() > 0 {
                        yield_now().await;
                    }
                }
                if n == 2 {
                    handle.close();
                }
            })
            .await;
        assert_eq!(ran.calls(), 4);
        assert_eq!(*seen.borrow(), [(0, 0), (4, 4), (3, 33), (2, 2)]);
    });
}

#[test]
fn a_run_that_is_dropped_drops_its_callbacks_and_leaves_the_rest() {
    manual().block_on(async {
        let dropped = Dropped::default();
        let mut map = TimerMap::new();
        (0..6).for_each(|n| drop(map.set(n, dropped.token(), ms(n)).unwrap()));
        {
            let mut run = std::pin::pin!(map.run(10, async |_, _token| pending().await));
            assert!(futures::poll!(run.as_mut()).is_pending());
            advance(ms(2)).await;
            assert!(futures::poll!(run.as_mut()).is_pending());
            assert_eq!(dropped.count(), 0);
        }
        assert_eq!((dropped.count(), map.len()), (3, 3));
    });
}

#[test]
fn a_run_ends_when_the_map_is_closed_and_its_callbacks_are_done() {
    paused().block_on(async {
        let mut map = TimerMap::new();
        let handle = map.handle();
        map.set("due", 1, ms(1)).unwrap();
        map.set("not due", 2, HOUR).unwrap();
        let start = Instant::now();
        let ran = map
            .run(2, async |_, _| {
                handle.close();
                sleep(ms(5)).await;
            })
            .await;
        assert_eq!((ran.calls(), start.elapsed()), (1, ms(6)));
        assert_eq!(map.close().collect::<Vec<_>>(), [("not due", 2)]);
    });
}

#[test]
fn callbacks_that_never_wait_do_not_starve_the_other_tasks() {
    paused().block_on(async {
        let other = Rc::new(Cell::new(0));
        let count = other.clone();
        let _other = spawn(async move {
            loop {
                count.set(count.get() + 1);
                yield_now().await;
            }
        });
        let mut map = TimerMap::new();
        for n in 0..10_000 {
            map.set(n, (), Duration::ZERO).unwrap();
        }
        let ran = map.run(7, async |_, ()| ()).await;
        assert_eq!(ran.calls(), 10_000);
        assert!(other.get() >= 10_000 / 130, "{} turns", other.get());
    });
}

#[test]
#[should_panic(expected = "a `limit` of zero")]
fn a_run_without_anybody_panics() {
    let mut map = TimerMap::<u8, u8>::new();
    drop(map.run(0, async |_, _| ()));
}

#[test]
fn an_expiring_cache_shows_nobody_what_has_expired() {
    async fn get(cache: &mut TimerMap<&'static str, u32>, key: &str) -> Option<u32> {
        drop(due_now(cache).await);
        cache.get(key).unwrap().copied()
    }
    manual().block_on(async {
        let mut cache = TimerMap::new();
        cache.set("a", 1, ms(100)).unwrap();
        advance(ms(60)).await;
        assert_eq!(get(&mut cache, "a").await, Some(1));
        cache.set("a", 2, ms(100)).unwrap();
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
                        assert_eq!(map.set_at(Poor(key), number, at(nanos)), Ok(old.map(|old| old.1)));
                    }
                    _ => handle.set_at(Poor(key), number, at(nanos)).unwrap(),
                }
            }
            Op::Move(key, nanos) | Op::SendMove(key, nanos) => {
                match op {
                    Op::Move(..) => {
                        assert_eq!(map.move_to_at(&Poor(key), at(nanos)), Ok(by_key.contains_key(&key)));
                    }
                    _ => handle.move_to_at(Poor(key), at(nanos)).unwrap(),
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
                    Op::Remove(_) => assert_eq!(map.remove(&Poor(key)), Ok(old.map(|old| old.1))),
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
            assert_eq!(map.deadline(&Poor(key)), Ok(known.map(|known| known.0)));
            assert_eq!(map.get(&Poor(key)), Ok(known.map(|known| &known.1)));
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
fn moved_entries_come_out_when_they_were_moved_to_in_every_phase() {
    // go-zero's ring compares positions instead of distances: a quarter of such cases are early or late there.
    manual().block_on(async {
        let mut map = TimerMap::new();
        for (set, wait, moved) in (1..30u64)
            .flat_map(|a| (0..a).map(move |b| (a, b)))
            .flat_map(|(set, wait)| [1u64, 9, 10, 11, 25].map(|moved| (set, wait, moved)))
        {
            map.set((), (), ms(set)).unwrap();
            advance(ms(wait)).await;
            assert!(map.move_to(&(), ms(moved)).unwrap());
            let start = Instant::now();
            advance(ms(moved) - Duration::from_nanos(1)).await;
            assert!(due_now(&mut map).await.is_empty(), "early: set {set}, waited {wait}, moved by {moved}");
            advance(Duration::from_nanos(1)).await;
            assert_eq!(due_now(&mut map).await.len(), 1, "late: set {set}, waited {wait}, moved by {moved}");
            assert_eq!(start.elapsed(), ms(moved));
        }
    });
}
