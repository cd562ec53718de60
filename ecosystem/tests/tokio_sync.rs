//! `tokio::sync`, `tokio::{select, join}!` and `tokio::task_local!`: they need the features `sync`, `macros` and `rt`, but no
//! tokio runtime.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures::StreamExt;
use mainspring::task::{JoinSet, cooperative};
use mainspring::time::Instant;
use mainspring::{Builder, block_on, sleep, spawn, timeout};
use mainspring_ecosystem::watchdog;
use tokio::sync::{Notify, Semaphore, broadcast, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[test]
fn tokios_channels_carry_values_between_tasks_and_from_other_threads() {
    let _watchdog = watchdog();
    block_on(async {
        assert!(tokio::runtime::Handle::try_current().is_err(), "this shows nothing on a runtime of tokio's");
        let (sender, mut receiver) = mpsc::channel(2);
        let (done, is_done) = oneshot::channel();
        let from_here = sender.clone();
        spawn(async move {
            for n in 0..1_000_u32 {
                from_here.send(n).await.unwrap();
            }
            done.send("done").unwrap();
        })
        .detach();
        let thread = thread::spawn(move || (0..1_000_u32).for_each(|n| sender.blocking_send(n).unwrap()));
        let mut sum = 0;
        while let Some(n) = receiver.recv().await {
            sum += n;
        }
        assert_eq!(sum, 2 * 499_500);
        assert_eq!(is_done.await, Ok("done"));
        thread.join().unwrap();
    });
}

#[test]
fn tokios_watch_shows_the_last_value_to_a_waiting_task() {
    let _watchdog = watchdog();
    block_on(async {
        let (sender, mut receiver) = watch::channel(0);
        let waiting = spawn(async move { *receiver.wait_for(|n| *n >= 10).await.unwrap() });
        let thread = thread::spawn(move || (1..=10).for_each(|n| sender.send(n).unwrap()));
        assert_eq!(waiting.await.unwrap(), 10);
        thread.join().unwrap();
    });
}

/// In which order eight tasks go on that wait for the same: for a value of a `watch`, and for a `Notify`.
fn orders_of_waking() -> (Vec<usize>, Vec<usize>) {
    Builder::new().start_paused(true).build().unwrap().block_on(async {
        let (sender, receiver) = watch::channel(());
        let begin = Arc::new(Notify::new());
        let (mut watching, mut notified) = (JoinSet::new(), JoinSet::new());
        for n in 0..8 {
            let (mut receiver, begin) = (receiver.clone(), begin.clone());
            watching.spawn(async move { receiver.changed().await.map(|()| n).unwrap() });
            notified.spawn(async move {
                begin.notified().await;
                n
            });
        }
        sleep(Duration::from_secs(1)).await;
        sender.send(()).unwrap();
        begin.notify_waiters();
        (watching.map(Result::unwrap).collect().await, notified.map(Result::unwrap).collect().await)
    })
}

/// The page of channels says so. If this fails because a `watch` has become fair, that page can say less.
#[test]
fn tokios_watch_wakes_in_random_order_and_its_notify_in_turn() {
    let _watchdog = watchdog();
    let runs: Vec<_> = (0..50).map(|_| orders_of_waking()).collect();
    assert!(runs.iter().any(|(watching, _)| *watching != runs[0].0), "not random: {:?}", runs[0].0);
    assert!(runs.iter().all(|(_, notified)| notified.is_sorted()));
}

#[test]
fn tokios_notify_and_semaphore_wake_our_tasks() {
    let _watchdog = watchdog();
    Builder::new().start_paused(true).build().unwrap().block_on(async {
        let start = Instant::now();
        let begin = Arc::new(Notify::new());
        let permits = Arc::new(Semaphore::new(2));
        // Six tasks that take a second each, two at a time.
        let tasks: Vec<_> = (0..6)
            .map(|_| {
                let (begin, permits) = (begin.clone(), permits.clone());
                let begins = begin.clone().notified_owned();
                spawn(async move {
                    begins.await;
                    let _permit = permits.acquire().await.unwrap();
                    sleep(Duration::from_secs(1)).await;
                })
            })
            .collect();
        sleep(Duration::from_secs(10)).await;
        assert!(tasks.iter().all(|task| !task.is_finished()));
        begin.notify_waiters();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(start.elapsed(), Duration::from_secs(10 + 3));
    });
}

#[test]
fn tokios_select_takes_whichever_of_our_timers_and_its_channels_is_first() {
    let _watchdog = watchdog();
    Builder::new().start_paused(true).build().unwrap().block_on(async {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        spawn(async move {
            sleep(Duration::from_secs(2)).await;
            sender.send("a message").unwrap();
            sleep(Duration::from_secs(60)).await;
        })
        .detach();
        let mut seen = Vec::new();
        for _ in 0..3 {
            tokio::select! {
                message = receiver.recv() => seen.push(message.unwrap()),
                () = sleep(Duration::from_millis(1_500)) => seen.push("a timeout"),
            }
        }
        assert_eq!(seen, ["a timeout", "a message", "a timeout"]);
    });
}

#[test]
fn tokios_join_waits_for_all_and_runs_them_side_by_side() {
    let _watchdog = watchdog();
    Builder::new().start_paused(true).build().unwrap().block_on(async {
        let start = Instant::now();
        let nap = |seconds| async move {
            sleep(Duration::from_secs(seconds)).await;
            seconds
        };
        let joined = tokio::join!(nap(3), spawn(nap(1)), nap(2));
        assert_eq!((joined.0, joined.1.unwrap(), joined.2), (3, 1, 2));
        assert_eq!(start.elapsed(), Duration::from_secs(3));
    });
}

tokio::task_local! {
    static REQUEST: u32;
}

#[test]
fn tokios_task_locals_belong_to_the_future_in_their_scope() {
    let _watchdog = watchdog();
    block_on(async {
        // Each task sees its own number, whatever runs in between; a task that it spawns sees none.
        let tasks: Vec<_> = (0..10)
            .map(|n| {
                spawn(REQUEST.scope(n, async move {
                    for _ in 0..10 {
                        assert_eq!(REQUEST.get(), n);
                        mainspring::task::yield_now().await;
                    }
                    let spawned = spawn(async { REQUEST.try_with(|n| *n).is_err() });
                    assert!(spawned.await.unwrap());
                    REQUEST.get()
                }))
            })
            .collect();
        for (n, task) in (0..).zip(tasks) {
            assert_eq!(task.await.unwrap(), n);
        }
        assert!(REQUEST.try_with(|n| *n).is_err());
    });
}

#[test]
fn tokios_broadcast_reaches_all_and_lets_others_run() {
    let _watchdog = watchdog();
    Builder::new().start_paused(true).build().unwrap().block_on(async {
        let (sender, first) = broadcast::channel(16);
        let count = |mut receiver: broadcast::Receiver<u32>| async move {
            let mut sum = 0;
            while let Ok(n) = cooperative(receiver.recv()).await {
                sum += n;
            }
            sum
        };
        let second = sender.subscribe();
        let sums = [spawn(count(first)), spawn(count(second))];
        for n in 0..100 {
            sender.send(n).unwrap();
            sleep(Duration::from_secs(1)).await;
        }
        drop(sender);
        for sum in sums {
            assert_eq!(sum.await.unwrap(), 4_950);
        }
    });
}

#[test]
fn tokio_utils_cancellation_token_and_task_tracker_end_our_tasks() {
    let _watchdog = watchdog();
    Builder::new().start_paused(true).build().unwrap().block_on(async {
        let start = Instant::now();
        let (token, tracker) = (CancellationToken::new(), TaskTracker::new());
        for n in 0..10 {
            let child = token.child_token();
            let work = async move { child.run_until_cancelled(sleep(Duration::from_secs(n))).await };
            spawn(tracker.track_future(work)).detach();
        }
        tracker.close();
        assert!(timeout(Duration::from_millis(4_500), tracker.wait()).await.is_err());
        assert_eq!(tracker.len(), 5);
        token.cancel();
        tracker.wait().await;
        assert_eq!(start.elapsed(), Duration::from_millis(4_500));
    });
}
