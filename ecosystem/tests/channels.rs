//! Channels, locks and combinators of crates that need no runtime; `docs/channels.md` says which one to choose.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures::channel::{mpsc, oneshot};
use futures::{FutureExt, SinkExt, StreamExt};
use mainspring::task::{JoinSet, cooperative};
use mainspring::time::{Instant, interval, timeout};
use mainspring::{Builder, Runtime, block_on, sleep, spawn};
use mainspring_ecosystem::watchdog;

const SECOND: Duration = Duration::from_secs(1);

fn paused() -> Runtime {
    Builder::new().start_paused(true).build().unwrap()
}

#[test]
fn one_answer_goes_through_a_oneshot_also_from_another_thread() {
    let _watchdog = watchdog();
    block_on(async {
        let (answer, question) = oneshot::channel();
        let thread = thread::spawn(move || answer.send(42).unwrap());
        assert_eq!(question.await, Ok(42));
        thread.join().unwrap();
        // A receiver is told that its sender was dropped.
        let (answer, question) = oneshot::channel::<()>();
        spawn(async { drop(answer) }).detach();
        assert!(question.await.is_err());
    });
}

#[test]
fn a_full_futures_channel_makes_its_sender_wait() {
    let _watchdog = watchdog();
    paused().block_on(async {
        // The channel's capacity is its bound, and one place for each sender.
        let (mut sender, mut receiver) = mpsc::channel(1);
        let sent = Rc::new(Cell::new(0));
        let count = sent.clone();
        spawn(async move {
            for n in 0..10 {
                sender.send(n).await.unwrap();
                count.set(count.get() + 1);
            }
        })
        .detach();
        sleep(SECOND).await;
        assert!(sent.get() <= 3, "{} were sent, and nobody took one", sent.get());
        let mut taken = Vec::new();
        while let Some(n) = receiver.next().await {
            taken.push(n);
        }
        assert_eq!(taken, (0..10).collect::<Vec<_>>());
    });
}

#[test]
fn async_channel_shares_work_out_among_tasks_and_threads() {
    let _watchdog = watchdog();
    block_on(async {
        let (sender, receiver) = async_channel::bounded(4);
        let mut workers = JoinSet::new();
        for _ in 0..3 {
            let receiver = receiver.clone();
            workers.spawn(async move {
                let mut sum = 0;
                while let Ok(n) = receiver.recv().await {
                    sum += n;
                }
                sum
            });
        }
        drop(receiver);
        let elsewhere = sender.clone();
        let thread = thread::spawn(move || (0..1_000_u32).for_each(|n| elsewhere.send_blocking(n).unwrap()));
        for n in 0..1_000_u32 {
            sender.send(n).await.unwrap();
        }
        drop(sender);
        let mut sum = 0;
        while let Some(part) = workers.join_next().await {
            sum += part.unwrap();
        }
        assert_eq!(sum, 2 * 499_500);
        thread.join().unwrap();
    });
}

#[test]
fn a_channel_that_never_runs_dry_lets_others_run_if_it_is_cooperative() {
    let _watchdog = watchdog();
    block_on(async {
        let (sender, receiver) = async_channel::unbounded();
        (0..10_000).for_each(|n| sender.try_send(n).unwrap());
        let (ran, left) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        let (flag, seen) = (ran.clone(), receiver.clone());
        let count = left.clone();
        spawn(async move {
            flag.set(true);
            count.set(seen.len());
        })
        .detach();
        drop(sender);
        while cooperative(receiver.recv()).await.is_ok() {}
        assert!(ran.get() && left.get() > 0, "ten thousand messages kept everybody else waiting");
    });
}

#[test]
fn async_lock_is_held_across_an_await_and_served_in_order() {
    let _watchdog = watchdog();
    paused().block_on(async {
        let log = Rc::new(async_lock::Mutex::new(Vec::new()));
        let mut set = JoinSet::new();
        for n in 0..5 {
            let log = log.clone();
            set.spawn(async move {
                let mut log = log.lock().await;
                sleep(SECOND).await;
                log.push(n);
            });
        }
        let start = Instant::now();
        sleep(Duration::from_millis(1)).await;
        // A task that gives up does not keep other tasks from the lock.
        assert!(timeout(Duration::from_millis(1), log.lock()).await.is_err());
        while let Some(result) = set.join_next().await {
            result.unwrap();
        }
        assert_eq!(start.elapsed(), SECOND * 5);
        assert_eq!(*log.lock().await, [0, 1, 2, 3, 4]);
    });
}

#[test]
fn async_lock_limits_how_many_work_at_a_time() {
    let _watchdog = watchdog();
    paused().block_on(async {
        let permits = Arc::new(async_lock::Semaphore::new(2));
        let mut set = JoinSet::new();
        for _ in 0..6 {
            let permits = permits.clone();
            set.spawn(async move {
                let _permit = permits.acquire().await;
                sleep(SECOND).await;
            });
        }
        let start = Instant::now();
        while let Some(result) = set.join_next().await {
            result.unwrap();
        }
        assert_eq!(start.elapsed(), SECOND * 3);
    });
}

#[test]
fn a_cell_is_enough_where_no_borrow_is_held_across_an_await() {
    let _watchdog = watchdog();
    paused().block_on(async {
        let shared = Rc::new(RefCell::new(Vec::new()));
        let mut set = JoinSet::new();
        for n in 0..5_u32 {
            let shared = shared.clone();
            set.spawn(async move {
                sleep(SECOND * n).await;
                shared.borrow_mut().push(n);
            });
        }
        while let Some(result) = set.join_next().await {
            result.unwrap();
        }
        assert_eq!(*shared.borrow(), [0, 1, 2, 3, 4]);
    });
}

#[test]
fn futures_select_and_join_take_timers_tasks_and_sets() {
    let _watchdog = watchdog();
    paused().block_on(async {
        let start = Instant::now();
        let (one, two) = futures::join!(spawn(async { 1 }), async {
            sleep(SECOND).await;
            2
        });
        assert_eq!((one.unwrap(), two, start.elapsed()), (1, 2, SECOND));
        let mut set = JoinSet::new();
        set.spawn(sleep(SECOND * 2));
        let mut ticks = interval(SECOND);
        let mut end = sleep(Duration::from_millis(3_500)).boxed_local().fuse();
        let mut seen = [0; 2];
        loop {
            futures::select_biased! {
                () = end => break,
                result = set.select_next_some() => {
                    result.unwrap();
                    seen[0] += 1;
                }
                _tick = ticks.select_next_some() => seen[1] += 1,
            }
        }
        assert_eq!(seen, [1, 4]);
    });
}

#[test]
fn futures_lite_takes_the_first_or_waits_for_both() {
    let _watchdog = watchdog();
    paused().block_on(async {
        let nap = |seconds: u32| async move {
            sleep(SECOND * seconds).await;
            seconds
        };
        let start = Instant::now();
        assert_eq!(futures_lite::future::or(nap(5), nap(2)).await, 2);
        assert_eq!(futures_lite::future::zip(nap(1), nap(3)).await, (1, 3));
        assert_eq!(start.elapsed(), SECOND * 5);
    });
}
