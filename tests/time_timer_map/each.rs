//! What is done for each entry (`for_each_concurrent`): how many calls run at once, what their panics harm, how the loop ends.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use futures::StreamExt;
use futures::channel::oneshot;
use mainspring::spawn;
use mainspring::task::yield_now;
use mainspring::time::{Instant, TimerMap, advance, sleep, timeout};

use crate::common::{Dropped, HOUR, manual, ms, paused, us};

#[test]
fn calls_begin_in_order_and_at_most_so_many_run_at_once() {
    paused().block_on(async {
        let mut map = TimerMap::new();
        for n in 0..40u64 {
            map.insert(n, (), ms(1 + n / 10));
        }
        map.close();
        let (now, most, order) = (Cell::new(0), Cell::new(0), RefCell::new(vec![]));
        map.by_ref()
            .for_each_concurrent(3, async |(n, ())| {
                now.set(now.get() + 1);
                most.set(most.get().max(now.get()));
                order.borrow_mut().push(n);
                sleep(us(100 + 7 * (n % 3))).await;
                now.set(now.get() - 1);
            })
            .await;
        assert_eq!((most.get(), now.get()), (3, 0));
        assert_eq!(*order.borrow(), (0..40).collect::<Vec<_>>());
    });
}

#[test]
fn a_panic_of_an_entrys_task_is_its_handles_and_kept_from_the_others() {
    paused().block_on(async {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| ()));
        let mut map = TimerMap::new();
        for n in 0..10 {
            map.insert(n, (), ms(1));
        }
        map.close();
        let (done, panicked) = (RefCell::new(vec![]), RefCell::new(vec![]));
        map.for_each_concurrent(4, async |(n, ())| {
            let task = spawn(async move {
                assert!(n != 2, "before the first await");
                yield_now().await;
                assert!(n != 5, "after an await");
            });
            match task.await {
                Ok(()) => done.borrow_mut().push(n),
                Err(error) => panicked.borrow_mut().push((n, error.into_panic())),
            }
        })
        .await;
        std::panic::set_hook(hook);
        done.borrow_mut().sort_unstable();
        assert_eq!(*done.borrow(), [0, 1, 3, 4, 6, 7, 8, 9]);
        let mut panicked: Vec<_> = panicked
            .take()
            .into_iter()
            .map(|(n, payload)| (n, *payload.downcast_ref::<&str>().unwrap()))
            .collect();
        panicked.sort_unstable();
        assert_eq!(panicked, [(2, "before the first await"), (5, "after an await")]);
    });
}

#[test]
fn while_all_calls_run_entries_wait_and_can_be_reset_and_removed() {
    paused().block_on(async {
        let mut map = TimerMap::new();
        let handle = map.handle();
        for n in 0..5 {
            handle.insert(n, n, ms(1)).unwrap();
        }
        let seen = RefCell::new(vec![]);
        map.for_each_concurrent(1, async |(n, value)| {
            seen.borrow_mut().push((n, value));
            if n == 0 {
                sleep(ms(10)).await;
                handle.remove(1).unwrap();
                handle.reset(2, ms(20)).unwrap();
                handle.insert(3, 33, Duration::ZERO).unwrap();
                handle.close();
            }
        })
        .await;
        assert_eq!(*seen.borrow(), [(0, 0), (4, 4), (3, 33), (2, 2)]);
    });
}

#[test]
fn a_loop_that_is_dropped_drops_its_calls_and_leaves_the_rest() {
    manual().block_on(async {
        let dropped = Dropped::default();
        let mut map = TimerMap::new();
        (0..6).for_each(|n| drop(map.insert(n, dropped.token(), ms(n))));
        {
            let mut calls =
                std::pin::pin!(map.by_ref().for_each_concurrent(10, async |(_, _token)| pending().await));
            assert!(futures::poll!(calls.as_mut()).is_pending());
            advance(ms(2)).await;
            assert!(futures::poll!(calls.as_mut()).is_pending());
            assert_eq!(dropped.count(), 0);
        }
        assert_eq!((dropped.count(), map.len()), (3, 3));
    });
}

#[test]
fn a_loop_that_is_stopped_ends_when_its_calls_are_done_and_the_rest_is_drained() {
    paused().block_on(async {
        let (stop, stopped) = oneshot::channel();
        let mut map = TimerMap::new();
        let handle = map.handle();
        map.insert("due", 1, ms(1));
        map.insert("not due", 2, HOUR);
        let start = Instant::now();
        let stop = Cell::new(Some(stop));
        let calls = map.by_ref().take_until(stopped).for_each_concurrent(2, async |(key, _)| {
            assert_eq!(key, "due");
            handle.insert("sent before", 3, 2 * HOUR).unwrap();
            stop.take().unwrap().send(()).unwrap();
            sleep(ms(5)).await;
        });
        timeout(HOUR, calls).await.unwrap();
        assert_eq!(start.elapsed(), ms(6));
        map.close();
        assert_eq!(handle.insert("sent after", 4, ms(1)).unwrap_err().into_inner(), ("sent after", 4));
        assert_eq!(map.drain().collect::<Vec<_>>(), [("not due", 2), ("sent before", 3)]);
        assert_eq!(map.next_expired().await, None);
    });
}

#[test]
fn calls_that_never_wait_do_not_starve_the_other_tasks() {
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
            map.insert(n, (), Duration::ZERO);
        }
        map.close();
        let calls = Cell::new(0);
        map.for_each_concurrent(7, async |_| calls.set(calls.get() + 1)).await;
        assert_eq!(calls.get(), 10_000);
        assert!(other.get() >= 10_000 / 130, "{} turns", other.get());
    });
}
