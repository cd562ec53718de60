//! Tasks as programs use them: spawned, joined, aborted, from one thread and from others. What holds for each poll, wake
//! and panic is tested with the executor (`src/executor/tests`); guards that enter a runtime have `enter.rs`.

mod common;

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use common::{Dropped, LONG, Probe, beside_parked, metrics, ms, panicked, paused, turn, watchdog};
use futures::channel::oneshot;
use futures::future::FusedFuture;
use futures::poll;
use futures::task::{LocalSpawnExt, SpawnExt};
use mainspring::runtime::Handle;
use mainspring::task::{JoinError, JoinHandle, unconstrained, yield_now};
use mainspring::{Runtime, block_on, sleep, spawn};

#[test]
fn a_task_gives_its_value_once_and_runs_without_its_handle() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        assert_eq!(spawn(async { 1 }).await.unwrap(), 1);

        let mut handle = spawn(async { 2 });
        assert!(!handle.is_finished());
        assert_eq!((&mut handle).await.unwrap(), 2);
        assert!(handle.is_finished());
        let panic = panicked(|| futures::executor::block_on(handle));
        assert!(panic.message.contains("after it returned its result"), "{}", panic.message);

        let (send, receive) = oneshot::channel();
        drop(spawn(async { send.send(3).unwrap() }));
        assert_eq!(receive.await, Ok(3));
    });
}

#[test]
fn a_handle_polled_twice_says_where_its_task_was_spawned() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let line = line!() + 1;
        let mut handle = spawn(async { 1 });
        assert_eq!((&mut handle).await.unwrap(), 1);
        let id = handle.id();
        let panic = panicked(|| futures::executor::block_on(&mut handle));
        for part in [format!("{}:{line}:", file!()), format!("task {id}")] {
            assert!(panic.message.contains(&part), "{part}: {}", panic.message);
        }
        // The handle is as it was before.
        assert!(handle.is_finished() && handle.id() == id);
        handle.abort();
    });
}

#[test]
fn handles_can_be_selected_from_until_all_have_given_their_result() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut slow = spawn(async {
            yield_now().await;
            1
        });
        let mut quick = spawn(async { 2 });
        let mut results = Vec::new();
        loop {
            futures::select! {
                result = slow => results.push(result.unwrap()),
                result = quick => results.push(result.unwrap()),
                complete => break,
            }
        }
        results.sort_unstable();
        assert_eq!(results, [1, 2]);
        assert!(slow.is_terminated() && quick.is_terminated());
    });
}

#[test]
fn a_task_has_its_id_as_soon_as_it_is_spawned_from_anywhere() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    let mut tasks = Vec::new();
    for round in 0..20 {
        tasks.push(runtime.spawn(pending::<()>()));
        let other = handle.clone();
        let remote = thread::spawn(move || [(); 3].map(|()| other.spawn(pending::<()>())));
        tasks.extend(remote.join().unwrap());
        if round % 2 == 0 {
            runtime.block_on(async {
                tasks.push(spawn(pending()));
                tasks.push(Handle::current().spawn(pending()));
                turn().await;
            });
        }
    }
    // They were spawned one after the other, so they are numbered in this order.
    let ids: Vec<_> = tasks.iter().map(JoinHandle::id).collect();
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
    let seen: Vec<_> = runtime.dump().tasks.iter().map(|task| task.id).collect();
    assert_eq!(seen, ids);
    // If one thread spawns, no number is left out.
    block_on(async {
        for n in 0..100_u64 {
            let task = if n % 2 == 0 { spawn(async {}) } else { Handle::current().spawn(async {}) };
            assert_eq!((u64::from(task.id()), task.id().to_string()), (n, n.to_string()));
        }
    });
}

#[test]
fn an_abort_handle_aborts_from_anywhere_and_outlives_task_and_runtime() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let dropped = Dropped::default();
    let token = dropped.token();
    let task = runtime.spawn(async move {
        let _token = token;
        pending::<()>().await;
    });
    let abort = task.abort_handle();
    assert_eq!(abort.id(), task.id());
    assert!(!abort.is_finished());
    let other = abort.clone();
    runtime.block_on(async {
        turn().await;
        thread::spawn(move || other.abort()).join().unwrap();
        assert!(task.await.unwrap_err().is_cancelled());
    });
    assert!(abort.is_finished());
    assert_eq!(dropped.count(), 1);
    // The handle alone keeps no task from running, and keeps no future alive.
    let token = dropped.token();
    let detached = runtime.spawn(async move { drop(token) });
    let idle = detached.abort_handle();
    detached.detach();
    runtime.block_on(turn());
    assert!(idle.is_finished());
    assert_eq!(dropped.count(), 2);
    drop(runtime);
    idle.abort();
    abort.abort();
    thread::spawn(move || drop((idle, abort))).join().unwrap();
}

#[test]
fn a_join_error_becomes_an_io_error() {
    let _watchdog = watchdog(LONG);
    async fn joined() -> std::io::Result<()> {
        spawn(async { std::panic::resume_unwind(Box::new("boo")) }).await?;
        Ok(())
    }
    let error = block_on(joined()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Other);
    assert!(error.to_string().contains("boo"), "{error}");
    assert!(error.downcast::<JoinError>().unwrap().is_panic());
}

#[test]
fn tasks_need_not_be_send() {
    let _watchdog = watchdog(LONG);
    let shared = Rc::new(Cell::new(0));
    let runtime = Runtime::new().unwrap();
    let copy = shared.clone();
    let early = runtime.spawn(async move {
        sleep(ms(1)).await;
        copy.set(copy.get() + 1);
        copy
    });
    let copy = shared.clone();
    runtime.block_on(async move {
        let inner = copy.clone();
        spawn(async move { inner.set(inner.get() + 1) }).await.unwrap();
        assert!(Rc::ptr_eq(&early.await.unwrap(), &copy));
    });
    assert_eq!((shared.get(), Rc::strong_count(&shared)), (2, 1));
}

#[test]
fn an_aborted_sleep_leaves_the_wheel() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let tasks: Vec<_> = (0..100).map(|_| spawn(sleep(common::HOUR))).collect();
        while metrics().timers_live() < 100 {
            turn().await;
        }
        tasks.iter().for_each(JoinHandle::abort);
        for task in tasks {
            assert!(task.await.unwrap_err().is_cancelled());
        }
        assert_eq!((metrics().timers_live(), metrics().timers_cancelled()), (0, 100));
    });
}

#[test]
fn a_task_that_sleeps_for_no_time_does_not_delay_a_timer() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let busy = spawn(async {
            loop {
                sleep(Duration::ZERO).await;
            }
        });
        let start = StdInstant::now();
        sleep(ms(10)).await;
        assert!(start.elapsed() >= ms(10));
        spawn(sleep(ms(10))).await.unwrap();
        busy.abort();
        assert!(busy.await.unwrap_err().is_cancelled());
    });
}

#[test]
fn one_poll_takes_a_hundred_and_twenty_eight_results_unless_unconstrained() {
    let _watchdog = watchdog(LONG);
    // Paused, so that no slice of time ends the poll earlier.
    paused().block_on(async {
        /// How many results one poll of a loop over `sleep(0)` takes.
        async fn results(limit: u32) -> u32 {
            let taken = Cell::new(0);
            let mut all = pin!(async {
                while taken.get() < limit {
                    sleep(Duration::ZERO).await;
                    taken.set(taken.get() + 1);
                }
            });
            let _ = poll!(all.as_mut());
            taken.get()
        }
        // Each in a poll of its own.
        assert_eq!(spawn(results(1000)).await.unwrap(), 128);
        assert_eq!(spawn(unconstrained(results(1000))).await.unwrap(), 1000);
        yield_now().await;
        assert_eq!(results(1000).await, 128);
        yield_now().await;
        assert_eq!(unconstrained(results(1000)).await, 1000);
    });
}

#[test]
fn futures_spawn_traits_work() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    let local = Rc::new(Cell::new(0));
    let set = local.clone();
    LocalSpawnExt::spawn_local(&runtime, async move { set.set(1) }).unwrap();
    let remote = SpawnExt::spawn_with_handle(&handle, async { 2 }).unwrap();
    let owned = SpawnExt::spawn_with_handle(&runtime, async { 3 }).unwrap();
    runtime.block_on(async {
        assert_eq!((remote.await, owned.await), (2, 3));
        turn().await;
    });
    assert_eq!(local.get(), 1);
    drop(runtime);
    assert!(SpawnExt::spawn(&handle, async {}).unwrap_err().is_shutdown());
}

#[test]
fn a_spawn_from_another_thread_wakes_a_parked_runtime() {
    let _watchdog = watchdog(LONG);
    beside_parked(|handle, there| {
        for n in 0..20 {
            thread::sleep(ms(2));
            let id = handle.spawn(async move { (n, thread::current().id()) });
            assert_eq!(futures::executor::block_on(id).unwrap(), (n, there));
        }
    });
}

#[test]
fn tasks_and_timers_survive_from_one_call_to_the_next() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let task = runtime.spawn(async move {
        for _ in 0..10 {
            sleep(ms(1)).await;
            counter.fetch_add(1, Ordering::SeqCst);
        }
        "done"
    });
    runtime.block_on(sleep(ms(3)));
    // Timers that came due between the calls fire in the next call.
    thread::sleep(ms(5));
    runtime.block_on(sleep(ms(1)));
    assert_eq!(runtime.block_on(task).unwrap(), "done");
    assert_eq!(count.load(Ordering::SeqCst), 10);
}

#[test]
fn the_root_lets_tasks_run_before_it_returns() {
    let runtime = Runtime::new().unwrap();
    let ran = Rc::new(Cell::new(false));
    let flag = ran.clone();
    drop(runtime.spawn(async move { flag.set(true) }));
    runtime.block_on(async {});
    assert!(ran.get());
}

#[test]
fn a_task_of_one_runtime_is_awaited_in_another() {
    let _watchdog = watchdog(LONG);
    let over = Arc::new(AtomicBool::new(false));
    let (tell, task) = mpsc::channel();
    let flag = over.clone();
    let first = thread::spawn(move || {
        block_on(async {
            let task = spawn(async {
                sleep(ms(5)).await;
                9
            });
            tell.send(task).unwrap();
            while !flag.load(Ordering::SeqCst) {
                sleep(ms(1)).await;
            }
        });
    });
    let task = task.recv().unwrap();
    assert_eq!(block_on(task).unwrap(), 9);
    over.store(true, Ordering::SeqCst);
    first.join().unwrap();
}

#[test]
fn of_two_foreign_wakers_a_handle_wakes_the_latest() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let (end, ended) = oneshot::channel::<()>();
    let mut task = runtime.spawn(ended);
    let probes = [(); 2].map(|()| Probe::new());
    for probe in &probes {
        assert!(probe.poll(Pin::new(&mut task)).is_pending());
    }
    end.send(()).unwrap();
    runtime.block_on(yield_now());
    assert!(task.is_finished());
    assert_eq!(probes.map(|probe| probe.wakes()), [0, 1]);
}

#[test]
fn a_place_is_given_to_one_task_only_whoever_wakes_its_last_owner_in_its_last_poll() {
    let _watchdog = watchdog(LONG);
    for by_thread in [false, true] {
        let runtime = Runtime::new().unwrap();
        let ends_woken = || {
            poll_fn(move |cx| {
                let waker = cx.waker();
                if by_thread {
                    thread::scope(|scope| drop(scope.spawn(|| waker.wake_by_ref())));
                } else {
                    waker.wake_by_ref();
                }
                Poll::Ready(())
            })
        };
        let yields = |runtime: &Runtime| {
            runtime.block_on(async {
                for _ in 0..100 {
                    yield_now().await;
                }
            });
        };
        let woken: Vec<_> = (0..3).map(|_| runtime.spawn(ends_woken())).collect();
        yields(&runtime);
        assert!(woken.iter().all(JoinHandle::is_finished));
        let later: Vec<_> = (0..10).map(|_| runtime.spawn(yield_now())).collect();
        yields(&runtime);
        assert!(later.iter().all(JoinHandle::is_finished), "by a thread: {by_thread}");
    }
}

#[test]
fn a_task_whose_last_reference_goes_inside_another_runtime_leaves_that_runtime_nothing() {
    let _watchdog = watchdog(LONG);
    let (one, other) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let foreign: Vec<_> = (0..3).map(|_| other.spawn(async {})).collect();
    other.block_on(yield_now());
    one.block_on(async {
        drop(foreign);
        let own: Vec<_> = (0..3).map(|_| spawn(yield_now())).collect();
        for _ in 0..10 {
            yield_now().await;
        }
        assert!(own.iter().all(JoinHandle::is_finished));
    });
}

#[test]
fn the_payload_of_a_detached_task_that_panics_is_dropped() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let payload = Arc::new(());
    let thrown = payload.clone();
    runtime.spawn(async move { std::panic::resume_unwind(Box::new(thrown)) as () }).detach();
    runtime.block_on(yield_now());
    assert_eq!(Arc::strong_count(&payload), 1);
}

#[test]
fn once_timers_have_fired_tasks_wake_each_other_behind_those_that_are_ready() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        sleep(ms(1)).await;
        let order = Rc::new(RefCell::new(Vec::new()));
        let note = |what: &'static str| {
            let order = order.clone();
            move || order.borrow_mut().push(what)
        };
        let (wake, woken) = oneshot::channel::<()>();
        let second = note("woken second");
        let second = spawn(async move {
            woken.await.unwrap();
            second();
        });
        yield_now().await;
        let first = note("spawned first");
        let first = spawn(async move { first() });
        wake.send(()).unwrap();
        first.await.unwrap();
        second.await.unwrap();
        assert_eq!(*order.borrow(), ["spawned first", "woken second"]);
    });
}

#[test]
fn a_root_that_a_task_wakes_goes_before_a_task_that_has_yielded() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let turns = Rc::new(Cell::new(0));
        let count = turns.clone();
        let yields = spawn(async move {
            loop {
                count.set(count.get() + 1);
                yield_now().await;
            }
        });
        let (wake, woken) = oneshot::channel::<()>();
        spawn(async move { wake.send(()).unwrap() }).detach();
        woken.await.unwrap();
        yields.abort();
        assert_eq!(turns.get(), 1);
    });
}
