//! Tasks: spawned, joined, aborted, detached, panicking; and that none of them starves another.

mod common;

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use common::{Dropped, LONG, metrics, ms, panicked, paused, turn, watchdog};
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
        assert!(panic.message.contains("after it gave its result"), "{}", panic.message);

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
        // It is none the worse for it.
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
    // One was spawned after the other, so they are numbered in this order.
    let ids: Vec<_> = tasks.iter().map(JoinHandle::id).collect();
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
    let seen: Vec<_> = runtime.dump().tasks.iter().map(|task| task.id).collect();
    assert_eq!(seen, ids);
    // Where one thread spawns, no number is left out.
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
    // The handle alone keeps no task from running, and no future.
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
fn an_aborted_task_is_dropped_on_its_own_thread() {
    let _watchdog = watchdog(LONG);
    /// Notes the thread on which it is dropped. Not `Send`.
    struct Note(Arc<Mutex<Option<thread::ThreadId>>>, #[allow(dead_code)] Rc<()>);
    impl Drop for Note {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = Some(thread::current().id());
        }
    }
    block_on(async {
        let place = Arc::new(Mutex::new(None));
        let note = Note(place.clone(), Rc::new(()));
        let task = spawn(async move {
            let _note = note;
            pending::<()>().await;
        });
        turn().await;
        // Aborted there, and the handle dropped there too.
        let task = thread::spawn(move || {
            task.abort();
            task
        })
        .join()
        .unwrap();
        let error = task.await.unwrap_err();
        assert!(error.is_cancelled() && !error.is_panic());
        assert_eq!(*place.lock().unwrap(), Some(thread::current().id()));
    });
}

#[test]
fn abort_reaches_a_task_that_was_never_polled_and_spares_one_that_is_done() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let dropped = Dropped::default();
        let token = dropped.token();
        let task = spawn(async move {
            drop(token);
            unreachable!("it was aborted first");
        });
        task.abort();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(dropped.count(), 1);

        let done = spawn(async { 5 });
        turn().await;
        assert!(done.is_finished());
        done.abort();
        assert_eq!(done.await.unwrap(), 5);
    });
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
fn a_panic_reaches_the_handle_and_nobody_else() {
    let _watchdog = watchdog(LONG);
    let (error, other) = block_on(async {
        let other = spawn(async {
            sleep(ms(2)).await;
            7
        });
        let bad = spawn(async {
            sleep(Duration::from_micros(100)).await;
            let panic = panicked(|| panic!("message {}", 1));
            assert_eq!(panic.message, "message 1");
            std::panic::resume_unwind(Box::new("payload"));
        });
        (bad.await.unwrap_err(), other.await)
    });
    assert!(error.is_panic() && !error.is_cancelled());
    assert!(error.to_string().contains("payload"));
    assert_eq!(error.into_panic().downcast_ref(), Some(&"payload"));
    assert_eq!(other.unwrap(), 7);
}

#[test]
fn a_future_that_panics_as_it_is_dropped_is_its_handles_business() {
    let _watchdog = watchdog(LONG);
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("in drop"));
        }
    }
    block_on(async {
        let bad = Bad;
        let task = spawn(async move {
            let _bad = bad;
            pending::<()>().await;
        });
        turn().await;
        task.abort();
        assert!(task.await.unwrap_err().is_panic());
        // An output that nobody wants.
        let task = spawn(async { Bad });
        drop(task);
        turn().await;
        assert_eq!(spawn(async { 1 }).await.unwrap(), 1);
    });
}

#[test]
fn a_handle_can_be_awaited_on_another_thread() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (send, receive) = oneshot::channel();
        let task = spawn(async {
            sleep(ms(5)).await;
            8
        });
        let other = thread::spawn(move || {
            let result = futures::executor::block_on(task).unwrap();
            send.send(()).unwrap();
            result
        });
        receive.await.unwrap();
        assert_eq!(other.join().unwrap(), 8);
    });
}

#[test]
fn a_wake_during_the_poll_is_one_more_poll_and_a_thousand_are_one() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let polls = Rc::new(Cell::new(0));
        let count = polls.clone();
        let waker = Rc::new(RefCell::new(None::<Waker>));
        let keep = waker.clone();
        let task = spawn(poll_fn(move |cx| {
            count.set(count.get() + 1);
            *keep.borrow_mut() = Some(cx.waker().clone());
            match count.get() {
                1 => {
                    (0..1000).for_each(|_| cx.waker().wake_by_ref());
                    Poll::Pending
                }
                2 => Poll::Pending,
                _ => Poll::Ready(()),
            }
        }));
        for _ in 0..5 {
            turn().await;
        }
        assert_eq!(polls.get(), 2);
        let waker = waker.borrow_mut().take().unwrap();
        (0..1000).for_each(|_| waker.wake_by_ref());
        task.await.unwrap();
        assert_eq!(polls.get(), 3);
        // A waker that outlives its task wakes nobody.
        waker.wake();
        turn().await;
        assert_eq!(polls.get(), 3);
    });
}

// tokio #2349: two tasks that wake each other took every slot, and a third never came.
#[test]
fn two_tasks_that_wake_each_other_do_not_starve_a_third() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        #[derive(Default)]
        struct Table {
            wakers: [RefCell<Option<Waker>>; 2],
            strokes: Cell<u64>,
            over: Cell<bool>,
        }
        let table = Rc::new(Table::default());
        let players: Vec<_> = (0..2)
            .map(|me| {
                let table = table.clone();
                spawn(poll_fn(move |cx| {
                    if table.over.get() {
                        return Poll::Ready(());
                    }
                    *table.wakers[me].borrow_mut() = Some(cx.waker().clone());
                    table.strokes.set(table.strokes.get() + 1);
                    if let Some(other) = table.wakers[1 - me].borrow_mut().take() {
                        other.wake();
                    }
                    Poll::Pending
                }))
            })
            .collect();
        let third = spawn(async {
            for _ in 0..1000 {
                yield_now().await;
            }
            sleep(ms(5)).await;
        });
        third.await.unwrap();
        assert!(table.strokes.get() > 1000, "the players rested");
        table.over.set(true);
        for waker in &table.wakers {
            if let Some(waker) = waker.borrow_mut().take() {
                waker.wake();
            }
        }
        for player in players {
            player.await.unwrap();
        }
    });
}

#[test]
fn yield_now_lets_every_ready_task_go_first() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let order = Rc::new(RefCell::new(Vec::new()));
        let tasks: Vec<_> = (0..5)
            .map(|name| {
                let order = order.clone();
                spawn(async move {
                    for round in 0..3 {
                        order.borrow_mut().push((round, name));
                        yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let expected: Vec<_> = (0..3).flat_map(|round| (0..5).map(move |name| (round, name))).collect();
        assert_eq!(*order.borrow(), expected);
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
    // Paused, so that no slice of time ends the poll before.
    paused().block_on(async {
        /// The results that one poll of a loop over `sleep(0)` takes.
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
fn a_nested_block_on_says_what_to_do() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let other = Runtime::new().unwrap();
    for _ in 0..2 {
        let nested = runtime.block_on(async {
            [
                panicked(|| runtime.block_on(async {})),
                panicked(|| other.block_on(async {})),
                panicked(|| block_on(async {})),
            ]
        });
        for panic in nested {
            assert!(panic.message.contains("`.await` the future"), "{}", panic.message);
            assert_eq!(panic.file, file!(), "it does not point at the caller");
        }
        // In a task, after what went wrong before.
        let message = runtime.block_on(async {
            spawn(async { panicked(|| mainspring::block_on(async {})).message }).await.unwrap()
        });
        assert!(message.contains("`.await` the future"), "{message}");
    }
    // Neither is the worse for it.
    assert_eq!((runtime.block_on(async { 1 }), other.block_on(async { 2 })), (1, 2));
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
    let (tell, handle) = mpsc::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let parked = thread::spawn(move || {
        block_on(async {
            tell.send(Handle::current()).unwrap();
            stopped.await.unwrap();
        });
    });
    let handle = handle.recv().unwrap();
    for n in 0..20 {
        thread::sleep(ms(2));
        let id = handle.spawn(async move { (n, thread::current().id()) });
        assert_eq!(futures::executor::block_on(id).unwrap(), (n, parked.thread().id()));
    }
    stop.send(()).unwrap();
    parked.join().unwrap();
}

#[test]
fn after_shutdown_a_spawn_is_cancelled_at_once() {
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    assert!(!handle.is_shutdown());
    drop(runtime);
    assert!(handle.is_shutdown());
    let dropped = Dropped::default();
    let token = dropped.token();
    let task = handle.spawn(async move { drop(token) });
    assert_eq!(dropped.count(), 1, "the future is kept");
    assert!(task.is_finished());
    assert!(futures::executor::block_on(task).unwrap_err().is_cancelled());
}

#[test]
fn entering_nests_and_leaves_what_it_found() {
    let _watchdog = watchdog(LONG);
    assert!(Handle::try_current().is_err());
    let panic = panicked(|| Handle::current());
    assert!(panic.message.contains("Handle::enter"), "{}", panic.message);
    assert_eq!(panic.file, file!());

    // A count of turns tells one runtime from the other.
    let (one, two) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    two.block_on(async {});
    let turns = || Handle::current().metrics().turns();
    {
        let _outer = one.handle().enter();
        assert_eq!(turns(), 0);
        {
            let _inner = two.handle().enter();
            assert_eq!(turns(), 1);
        }
        assert_eq!(turns(), 0);
        two.block_on(async { assert!(turns() >= 1) });
        assert_eq!(turns(), 0);
        let _ = panicked(|| two.block_on(async { panic!("out of it") }));
        assert_eq!(turns(), 0);
    }
    assert!(Handle::try_current().is_err());
}

#[test]
fn guards_dropped_out_of_order_say_so_and_leave_the_thread_in_no_runtime() {
    let _watchdog = watchdog(LONG);
    let (one, two) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    two.block_on(async {});
    let turns = || Handle::current().metrics().turns();
    let line = line!() + 1;
    let outer = one.handle().enter();
    let inner = two.handle().enter();
    let panic = panicked(|| drop(outer));
    for part in [format!("{}:{line}:", file!()), format!("{}:{}:", file!(), line + 1)] {
        assert!(panic.message.contains(&part), "{part}: {}", panic.message);
    }
    // The one that is left counts.
    assert_eq!(turns(), 1);
    drop(inner);
    assert!(Handle::try_current().is_err());
    // During a panic there is no second one, which would end the process.
    let panic = panicked(|| {
        // An array drops its first element first.
        let _guards = [one.handle().enter(), two.handle().enter()];
        panic!("the first one");
    });
    assert_eq!(panic.message, "the first one");
    assert!(Handle::try_current().is_err());
    // A guard from outside that is dropped within.
    let outer = one.handle().enter();
    let panic = panicked(|| two.block_on(async move { drop(outer) }));
    assert!(panic.message.contains("reverse order"), "{}", panic.message);
    assert!(Handle::try_current().is_err());
}

#[test]
fn a_guard_held_across_an_await_is_its_tasks_panic_and_harms_no_other_task() {
    let _watchdog = watchdog(LONG);
    // A runtime that never runs: what is armed there never fires.
    let never = Runtime::new().unwrap();
    let runtime = Runtime::new().unwrap();
    let handle = never.handle();
    /// A guard that nothing but the program's end drops.
    fn kept(handle: &Handle) -> mainspring::runtime::EnterGuard<'static> {
        Box::leak(Box::new(handle.clone())).enter()
    }
    runtime.block_on(async {
        let other = spawn(async {
            for _ in 0..10 {
                sleep(Duration::from_micros(100)).await;
            }
        });
        let line = Arc::new(AtomicUsize::new(0));
        let held = spawn({
            let (handle, line) = (handle.clone(), line.clone());
            async move {
                line.store(line!() as usize + 1, Ordering::SeqCst);
                let _guard = handle.enter();
                sleep(ms(1)).await;
            }
        });
        let message = held.await.unwrap_err().to_string();
        let made = format!("{}:{}:", file!(), line.load(Ordering::SeqCst));
        assert!(message.contains("across an `.await`") && message.contains(&made), "{message}");
        // One that is never dropped, and one that is given away as the result.
        let handle = handle.clone();
        let forgotten = spawn({
            let handle = handle.clone();
            async move { std::mem::forget(kept(&handle)) }
        });
        assert!(forgotten.await.unwrap_err().is_panic());
        let given = spawn(async move { kept(&handle) });
        assert!(given.await.unwrap_err().is_panic());
        other.await.unwrap();
    });
    assert_eq!(handle.metrics().timers_live(), 0);
    // The future of `block_on` is treated alike.
    let panic = panicked(|| {
        runtime.block_on(async {
            let _guard = handle.enter();
            sleep(ms(1)).await;
        });
    });
    assert!(panic.message.contains(file!()), "{}", panic.message);
    assert!(Handle::try_current().is_err());
    runtime.block_on(sleep(ms(1)));
}

#[test]
fn spawn_without_a_runtime_says_what_to_do() {
    let panic = panicked(|| spawn(async {}));
    assert!(panic.message.contains("no Mainspring runtime"), "{}", panic.message);
    assert!(panic.message.contains("block_on"), "{}", panic.message);
    assert_eq!(panic.file, file!());
}

#[test]
fn spawn_under_an_enter_guard_goes_to_that_runtime() {
    let _watchdog = watchdog(LONG);
    let (one, two) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let not_send = Rc::new(Cell::new(0));
    let add = |n| {
        let count = not_send.clone();
        async move {
            sleep(ms(1)).await;
            count.set(count.get() + n);
        }
    };
    // Outside of any `block_on`.
    let task = {
        let _entered = one.handle().enter();
        spawn(add(1))
    };
    one.block_on(task).unwrap();
    assert_eq!(not_send.get(), 1);
    // Inside that of another runtime of this thread.
    let mut task = None;
    two.block_on(async {
        {
            let _entered = one.handle().enter();
            task = Some(spawn(add(10)));
        }
        spawn(add(100)).await.unwrap();
    });
    assert_eq!((one.dump().tasks.len(), two.dump().tasks.len()), (1, 0));
    one.block_on(task.expect("it was spawned")).unwrap();
    assert_eq!(not_send.get(), 111);
    // On another thread it cannot be taken there.
    let handle = one.handle().clone();
    let panic = thread::spawn(move || {
        let _entered = handle.enter();
        panicked(|| spawn(async {}))
    });
    let panic = panic.join().unwrap();
    assert!(panic.message.contains("Use `Handle::spawn`"), "{}", panic.message);
    assert_eq!(panic.file, file!());
    // A runtime that was dropped takes nothing in, wherever it is asked.
    let handle = one.handle().clone();
    drop(one);
    let dropped = Dropped::default();
    let refused = |token| {
        let _entered = handle.enter();
        let task = spawn(async move { drop(token) });
        assert!(futures::executor::block_on(task).unwrap_err().is_cancelled());
    };
    refused(dropped.token());
    thread::scope(|scope| scope.spawn(|| refused(dropped.token())).join()).unwrap();
    assert_eq!(dropped.count(), 2);
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
    // What came due between the calls fires in the next.
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
