//! Tasks that have an owner: sets of tasks, and handles whose tasks end with them.

mod common;

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use common::{HOUR, LONG, Probe, beside_parked, ms, panicked, paused, watchdog};
use futures::future::FusedFuture;
use futures::stream::FusedStream;
use futures::{Stream, StreamExt, poll};
use mainspring::task::{Builder, JoinSet, yield_now};
use mainspring::time::{Instant, timeout};
use mainspring::{Handle, Runtime, block_on, sleep, spawn};

const SECOND: Duration = Duration::from_secs(1);

/// Reports when it is dropped.
struct Guard(Rc<Cell<usize>>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn results_come_in_the_order_in_which_the_tasks_end() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let mut set = JoinSet::new();
        for n in [5, 3, 1, 4, 2] {
            set.spawn(async move {
                sleep(SECOND * n).await;
                n
            });
        }
        let (start, mut ended) = (Instant::now(), Vec::new());
        while let Some(result) = set.join_next().await {
            let n = result.unwrap();
            assert_eq!(start.elapsed(), SECOND * n, "the result came later than the end");
            ended.push(n);
        }
        assert_eq!(ended, [1, 2, 3, 4, 5]);
        // Also if all tasks had ended before the set was polled.
        for n in [2, 3, 1] {
            set.spawn(async move {
                sleep(SECOND * n).await;
                n
            });
        }
        sleep(SECOND * 10).await;
        assert_eq!(set.len(), 3);
        let ended: Vec<_> = set.by_ref().map(Result::unwrap).collect().await;
        assert_eq!(ended, [1, 2, 3]);
    });
}

#[test]
fn an_empty_set_ends_at_once_and_goes_on_when_more_is_spawned() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut set = JoinSet::new();
        assert!(set.is_empty() && set.is_terminated());
        assert!(set.join_next().await.is_none() && set.try_join_next().is_none());
        for n in 0..3 {
            set.spawn(async move { n });
            assert!(!set.is_terminated() && set.size_hint() == (1, Some(1)));
            assert_eq!(set.next().await.unwrap().unwrap(), n);
            assert!(set.next().await.is_none());
        }
    });
}

#[test]
fn a_panic_and_an_abort_are_their_own_tasks_results() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let mut set = JoinSet::new();
        set.spawn(async {
            sleep(SECOND).await;
            std::panic::resume_unwind(Box::new("boo"))
        });
        let aborted = set.spawn(sleep(HOUR));
        set.spawn(sleep(SECOND * 3));
        spawn(async move {
            sleep(SECOND * 2).await;
            aborted.abort();
        })
        .detach();
        let first = set.join_next().await.unwrap().unwrap_err();
        assert_eq!(first.into_panic().downcast_ref(), Some(&"boo"));
        assert!(set.join_next().await.unwrap().unwrap_err().is_cancelled());
        assert!(set.join_next().await.unwrap().is_ok());
        assert!(set.join_next().await.is_none());
    });
}

#[test]
fn dropping_the_set_aborts_its_tasks_and_detaching_lets_them_run_on() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (ran, dropped) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let fill = |set: &mut JoinSet<()>| {
            for _ in 0..5 {
                let (ran, guard) = (ran.clone(), Guard(dropped.clone()));
                set.spawn(async move {
                    sleep(SECOND).await;
                    ran.set(ran.get() + 1);
                    drop(guard);
                });
            }
        };
        let mut set = JoinSet::new();
        fill(&mut set);
        // Some have begun, and some have not.
        sleep(ms(1)).await;
        fill(&mut set);
        drop(set);
        sleep(SECOND * 2).await;
        assert_eq!((ran.get(), dropped.get()), (0, 10));

        let mut set = JoinSet::new();
        fill(&mut set);
        set.detach_all();
        assert!(set.is_empty());
        drop(set);
        sleep(SECOND * 2).await;
        assert_eq!((ran.get(), dropped.get()), (5, 15));
    });
}

#[test]
fn a_task_that_waits_for_a_set_learns_that_its_tasks_were_detached() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let set = Rc::new(RefCell::new(JoinSet::<()>::new()));
        set.borrow_mut().spawn(pending());
        let shared = set.clone();
        let waiting =
            spawn(async move { poll_fn(|cx| shared.borrow_mut().poll_join_next(cx)).await.is_none() });
        yield_now().await;
        assert!(!waiting.is_finished());
        set.borrow_mut().detach_all();
        let told = timeout(HOUR, waiting).await.expect("nobody told the task");
        assert!(told.unwrap());
    });
}

/// The set has seen that the task ended, on another thread, and waits for the task's handle.
#[test]
fn a_task_that_waits_for_a_result_that_is_about_to_come_learns_that_it_was_detached() {
    /// Is ready at once. Its drop panics: then its output is dropped, before the handle has a result.
    struct Bad(Option<Slow>);

    /// Its drop takes as long as it is told.
    struct Slow(mpsc::Sender<()>, mpsc::Receiver<()>);

    impl Future for Bad {
        type Output = Slow;

        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Slow> {
            Poll::Ready(self.0.take().expect("polled once"))
        }
    }

    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("as it is dropped");
        }
    }

    impl Drop for Slow {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
            self.1.recv().unwrap();
        }
    }

    let _watchdog = watchdog(LONG);
    let (began, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    beside_parked(|handle, _| {
        let mut set = JoinSet::new();
        set.spawn_on(Bad(Some(Slow(began, ended))), handle);
        begun.recv().unwrap();
        let probe = Probe::new();
        let waker = Waker::from(probe.clone());
        assert!(set.poll_join_next(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(probe.wakes(), 0);
        set.detach_all();
        assert_eq!(probe.wakes(), 1, "nobody told the task");
        end.send(()).unwrap();
    });
}

#[test]
fn tasks_that_were_detached_are_not_taken_for_those_that_came_after() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let mut set = JoinSet::new();
        for _ in 0..3 {
            set.spawn(async {
                sleep(SECOND).await;
                "detached"
            });
        }
        set.detach_all();
        for n in 2..5 {
            set.spawn(async move {
                sleep(SECOND * n).await;
                "in the set"
            });
        }
        let start = Instant::now();
        for n in 2..5 {
            assert_eq!(set.join_next().await.unwrap().unwrap(), "in the set");
            assert_eq!(start.elapsed(), SECOND * n);
        }
        assert!(set.join_next().await.is_none());
    });
}

#[test]
fn a_shutdown_is_over_when_every_future_is_dropped() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let dropped = Rc::new(Cell::new(0));
        let mut set = JoinSet::new();
        for n in 0..100 {
            let guard = Guard(dropped.clone());
            set.spawn(async move {
                sleep(SECOND * (n % 3)).await;
                if n % 10 == 0 {
                    std::panic::resume_unwind(Box::new(()));
                }
                pending::<()>().await;
                drop(guard);
            });
        }
        sleep(SECOND).await;
        let now = Instant::now();
        set.shutdown().await;
        assert_eq!((set.len(), dropped.get(), now.elapsed()), (0, 100, Duration::ZERO));
    });
}

#[test]
fn a_result_costs_one_poll_of_the_set_whatever_the_number_of_tasks() {
    let _watchdog = watchdog(LONG);
    const TASKS: u32 = 1_000;
    paused().block_on(async {
        let mut set = JoinSet::new();
        for n in 1..=TASKS {
            set.spawn(sleep(SECOND * n));
        }
        let (mut polls, mut results) = (0, 0);
        poll_fn(|cx| {
            polls += 1;
            while let Poll::Ready(result) = set.poll_join_next(cx) {
                let Some(result) = result else { return Poll::Ready(()) };
                result.unwrap();
                results += 1;
            }
            Poll::Pending
        })
        .await;
        assert_eq!(results, TASKS);
        assert!(polls <= TASKS + 1, "{polls} polls for {TASKS} results");
    });
}

#[test]
fn a_wait_that_is_given_up_loses_no_result() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let mut set = JoinSet::new();
        for n in 0..10 {
            set.spawn(async move {
                sleep(ms(700) * n).await;
                n
            });
        }
        let mut ended = Vec::new();
        while !set.is_empty() {
            if let Ok(Some(result)) = timeout(ms(500), set.join_next()).await {
                ended.push(result.unwrap());
            }
        }
        assert_eq!(ended, (0..10).collect::<Vec<_>>());
    });
}

#[test]
fn a_set_takes_part_in_select_until_it_is_empty() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let mut set = JoinSet::new();
        (1..=3).for_each(|n| drop(set.spawn(sleep(SECOND * n))));
        let mut end = pin!(sleep(SECOND * 10));
        let mut results = 0;
        loop {
            futures::select! {
                result = set.select_next_some() => {
                    result.unwrap();
                    results += 1;
                }
                () = end => break,
            }
        }
        assert_eq!(results, 3);
    });
}

#[test]
fn taking_results_that_are_there_lets_others_run() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let mut set = JoinSet::new();
        (0..1_000).for_each(|_| drop(set.spawn(async {})));
        sleep(SECOND).await;
        let ran = Rc::new(Cell::new(false));
        let flag = ran.clone();
        spawn(async move { flag.set(true) }).detach();
        let mut results = 0;
        while let Some(result) = set.join_next().await {
            result.unwrap();
            results += 1;
        }
        assert!(ran.get(), "a thousand results kept everybody else waiting");
        assert_eq!(results, 1_000);
    });
}

#[test]
fn a_spawn_without_a_runtime_leaves_the_set_as_it_was() {
    let _watchdog = watchdog(LONG);
    let mut set = JoinSet::new();
    let (panic, line) = (panicked(|| set.spawn(async { 0 })), line!());
    assert!(panic.message.starts_with("no Mainspring runtime on this thread"), "{}", panic.message);
    assert_eq!((panic.file.as_str(), panic.line), (file!(), line));
    assert!(set.is_empty());
    paused().block_on(async {
        // This task gets the place of the one that could not be spawned, whose report is not its own.
        set.spawn(async {
            sleep(SECOND * 2).await;
            2
        });
        set.spawn(async {
            sleep(SECOND).await;
            1
        });
        assert!(set.try_join_next().is_none());
        assert_eq!(set.join_next().await.unwrap().unwrap(), 1);
        assert_eq!(set.join_next().await.unwrap().unwrap(), 2);
    });
}

#[test]
fn a_set_that_outlives_its_runtime_says_that_its_tasks_were_cancelled() {
    let _watchdog = watchdog(LONG);
    let mut set = JoinSet::new();
    let runtime = Runtime::new().unwrap();
    let guard = runtime.handle().enter();
    set.spawn(sleep(HOUR));
    drop(guard);
    runtime.block_on(yield_now());
    let handle = runtime.handle().clone();
    drop(runtime);
    let _guard = handle.enter();
    set.spawn(sleep(HOUR));
    for _ in 0..2 {
        assert!(futures::executor::block_on(set.join_next()).unwrap().unwrap_err().is_cancelled());
    }
    assert!(set.is_empty());
}

#[test]
fn a_set_may_be_filled_and_awaited_on_other_threads() {
    let _watchdog = watchdog(LONG);
    common::beside_parked(|handle, _| {
        for _ in 0..50 {
            let mut set = JoinSet::new();
            for n in 0..20_u32 {
                set.spawn_on(
                    async move {
                        yield_now().await;
                        n
                    },
                    handle,
                );
            }
            let gather = thread::spawn(move || {
                futures::executor::block_on(set.map(Result::unwrap).fold(0, |sum, n| async move { sum + n }))
            });
            assert_eq!(gather.join().unwrap(), 190);
        }
    });
}

#[test]
fn the_waker_of_the_last_poll_is_the_one_that_is_woken() {
    let _watchdog = watchdog(LONG);
    let runtime = paused();
    let (old, new) = (Probe::new(), Probe::new());
    let mut set = JoinSet::new();
    runtime.block_on(async {
        set.spawn(yield_now());
        assert!(old.poll(pin!(set.join_next())).is_pending());
        assert!(new.poll(pin!(set.join_next())).is_pending());
        sleep(SECOND).await;
    });
    assert_eq!((old.wakes(), new.wakes()), (0, 1));
    assert!(new.poll(pin!(set.join_next())).is_ready());
}

#[test]
fn a_waker_that_panics_harms_neither_the_task_nor_its_result() {
    let _watchdog = watchdog(LONG);
    let runtime = paused();
    let bad = Probe::with(|| std::panic::resume_unwind(Box::new(())));
    runtime.block_on(async {
        let mut set = JoinSet::new();
        set.spawn(async { 1 });
        assert!(bad.poll(pin!(set.join_next())).is_pending());
        sleep(SECOND).await;
        assert_eq!(set.join_next().await.unwrap().unwrap(), 1);
        assert_eq!(bad.wakes(), 1);
    });
}

#[test]
fn a_dump_shows_names_and_places_of_a_sets_tasks() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut set = JoinSet::new();
        let line = line!() + 1;
        set.spawn(pending::<()>());
        Builder::new().name("named").spawn_in(pending::<()>(), &mut set);
        let dump = Handle::current().dump().unwrap();
        let seen: Vec<_> =
            dump.tasks.iter().map(|task| (task.name.as_deref(), task.spawned_at.line())).collect();
        assert_eq!(seen, [(None, line), (Some("named"), line + 1)]);
    });
}

#[test]
fn a_handle_that_aborts_on_drop_takes_its_task_along() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let dropped = Rc::new(Cell::new(0));
        let task = || {
            let guard = Guard(dropped.clone());
            spawn(async move {
                sleep(SECOND).await;
                drop(guard);
                "slept"
            })
        };
        let start = Instant::now();
        let helper = task().abort_on_drop();
        assert!(!helper.is_finished() && !helper.is_terminated());
        assert!(timeout(ms(1), helper).await.is_err());
        yield_now().await;
        assert_eq!((dropped.get(), start.elapsed()), (1, ms(1)));

        // A handle that was given up for a moment works as before.
        let mut helper = task().abort_on_drop();
        assert!(poll!(&mut helper).is_pending());
        assert_eq!((&mut helper).await.unwrap(), "slept");
        assert!(helper.is_terminated());
        drop(helper);
        assert_eq!(task().abort_on_drop().detach().await.unwrap(), "slept");
        let detached = RefCell::new(Some(task().abort_on_drop()));
        drop(detached.take().map(|task| task.detach()));
        sleep(SECOND * 2).await;
        assert_eq!(dropped.get(), 4);
    });
}
