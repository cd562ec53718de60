//! Shutting down: what is dropped, on which thread, in which order, and what the futures may do meanwhile.

use super::super::{Executor, JoinHandle, spawn_local};
use super::{Bell, HomeCounts, Homed, OnDrop, executor, idle, result, run, settle};
use std::cell::{Cell, RefCell};
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::thread;

/// A future that never completes and holds `value`.
async fn holding<T>(value: T) {
    let _value = value;
    pending::<()>().await;
}

#[test]
fn futures_are_dropped_in_the_order_they_were_spawned() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    let trace = Rc::new(RefCell::new(Vec::new()));
    let mut handles = Vec::new();
    for n in 0..100 {
        let trace = trace.clone();
        handles.push(executor.spawn(holding(OnDrop(move || trace.borrow_mut().push(n)))));
        if n % 3 == 0 {
            settle(&executor);
        }
        if n % 10 == 9 {
            // The place of this task in the table is given to a later task.
            handles[n - 5].abort();
            settle(&executor);
        }
    }
    executor.shutdown();
    let aborted: Vec<usize> = (0..10).map(|n| 10 * n + 4).collect();
    let rest = (0..100).filter(|n| n % 10 != 4);
    assert_eq!(*trace.borrow(), aborted.iter().copied().chain(rest).collect::<Vec<_>>());
    assert!(handles.iter_mut().all(|handle| result(handle).unwrap_err().is_cancelled()));
}

#[test]
fn spawning_and_waking_from_a_drop_is_fine() {
    // (tokio's `wake_while_rt_is_dropping`)
    for entered in [false, true] {
        let (executor, _) = executor();
        let guard = entered.then(|| executor.enter());
        let wakers: Rc<RefCell<Vec<Waker>>> = Rc::default();
        let late: Rc<RefCell<Vec<JoinHandle<()>>>> = Rc::default();
        let dropped = Rc::new(Cell::new(0));
        for _ in 0..3 {
            let (wakers, late, dropped) = (wakers.clone(), late.clone(), dropped.clone());
            let registered = wakers.clone();
            let meddles = OnDrop(move || {
                wakers.borrow().iter().for_each(Waker::wake_by_ref);
                let counter = dropped.clone();
                let inner = OnDrop(move || counter.set(counter.get() + 1));
                let handle = spawn_local(holding(inner)).ok().expect("the drop runs inside the executor");
                assert!(handle.is_finished());
                late.borrow_mut().push(handle);
            });
            drop(executor.spawn(async move {
                let _meddles = meddles;
                std::future::poll_fn(|cx| {
                    registered.borrow_mut().push(cx.waker().clone());
                    std::task::Poll::<()>::Pending
                })
                .await;
            }));
        }
        settle(&executor);
        assert_eq!(wakers.borrow().len(), 3);
        drop(guard);
        drop(executor);
        assert_eq!((dropped.get(), late.borrow().len()), (3, 3));
        assert!(late.take().iter_mut().all(|handle| result(handle).unwrap_err().is_cancelled()));
        wakers.take().into_iter().for_each(Waker::wake);
    }
}

#[test]
fn a_drop_that_panics_keeps_no_other_from_being_dropped() {
    let (executor, _) = executor();
    let dropped = Rc::new(Cell::new(0));
    let mut handles: Vec<_> = (0..5)
        .map(|n| {
            let dropped = dropped.clone();
            executor.spawn(holding(OnDrop(move || {
                dropped.set(dropped.get() + 1);
                assert!(n % 2 == 0, "drop {n}");
            })))
        })
        .collect();
    executor.shutdown();
    assert_eq!(dropped.get(), 5);
    for (n, handle) in handles.iter_mut().enumerate() {
        let error = result(handle).unwrap_err();
        assert_eq!(error.is_cancelled(), n % 2 == 0);
    }
}

#[test]
fn a_second_shutdown_and_a_run_after_it_do_nothing() {
    let (executor, bell) = executor();
    let _entered = executor.enter();
    let slot: Arc<Mutex<Option<Waker>>> = Arc::default();
    let polls = Rc::new(Cell::new(0));
    drop(executor.spawn(idle(&slot, &polls)));
    settle(&executor);
    executor.shutdown();
    executor.shutdown();
    let waker = slot.lock().unwrap().take().unwrap();
    waker.wake_by_ref();
    thread::spawn(move || waker.wake()).join().unwrap();
    assert!(!executor.has_ready());
    assert_eq!((run(&executor, 10), executor.alive(), bell.rings()), (0, 0, 0));
    let mut handle = executor.spawn(async {});
    assert!(result(&mut handle).unwrap_err().is_cancelled());
    assert!(executor.remote().is_closed());
}

#[test]
fn a_task_that_shuts_its_executor_down_finishes_its_poll() {
    let executor = Rc::new(executor().0);
    let _entered = executor.enter();
    let trace = Rc::new(RefCell::new(Vec::new()));
    let note = |text: &'static str| {
        let trace = trace.clone();
        move || trace.borrow_mut().push(text)
    };
    let (inner, own, done) = (executor.clone(), OnDrop(note("own future")), note("poll"));
    let mut handle = executor.spawn(async move {
        let _own = own;
        inner.shutdown();
        done();
        pending::<()>().await;
    });
    drop(executor.spawn(holding(OnDrop(note("other future")))));
    assert_eq!(run(&executor, 10), 1);
    assert_eq!(*trace.borrow(), ["other future", "poll", "own future"]);
    assert!(result(&mut handle).unwrap_err().is_cancelled());
    assert_eq!(executor.alive(), 0);
}

#[test]
fn shutting_down_from_a_drop_during_shutdown_drops_nothing_twice() {
    let executor = Rc::new(executor().0);
    let dropped = Rc::new(Cell::new(0));
    for _ in 0..3 {
        let (inner, dropped) = (Rc::downgrade(&executor), dropped.clone());
        drop(executor.spawn(holding(OnDrop(move || {
            dropped.set(dropped.get() + 1);
            inner.upgrade().unwrap().shutdown();
        }))));
    }
    executor.shutdown();
    assert_eq!(dropped.get(), 3);
}

#[test]
fn a_task_that_runs_its_own_executor_panics_and_the_others_go_on() {
    let executor = Rc::new(executor().0);
    let _entered = executor.enter();
    let inner = executor.clone();
    let mut handle = executor.spawn(async move { run(&inner, 1) });
    let mut other = executor.spawn(async { 5 });
    assert_eq!(settle(&executor), 2);
    assert!(result(&mut handle).unwrap_err().is_panic());
    assert_eq!(result(&mut other).unwrap(), 5);
}

#[test]
fn a_remote_spawn_after_shutdown_is_cancelled_and_dropped_by_its_caller() {
    let (executor, bell) = executor();
    let remote = executor.remote().clone();
    drop(executor);
    thread::spawn(move || {
        let here = thread::current().id();
        let dropped_on = Arc::new(Mutex::new(None));
        let slot = dropped_on.clone();
        let guard = OnDrop(move || *slot.lock().unwrap() = Some(thread::current().id()));
        let mut handle = remote.spawn(holding(guard));
        assert_eq!(*dropped_on.lock().unwrap(), Some(here));
        assert!(handle.is_finished());
        assert!(result(&mut handle).unwrap_err().is_cancelled());
        // A panic of that drop is the task's.
        let mut handle = remote.spawn(holding(OnDrop(|| panic!("drop"))));
        assert!(result(&mut handle).unwrap_err().is_panic());
    })
    .join()
    .unwrap();
    assert_eq!(bell.rings(), 0);
}

#[test]
fn a_remote_spawn_that_nobody_took_in_is_cancelled_by_shutdown() {
    let (executor, bell) = executor();
    let remote = executor.remote().clone();
    let counts = Arc::new(Mutex::new(Vec::new()));
    let slot = counts.clone();
    let mut handle = thread::spawn(move || {
        remote.spawn(holding(OnDrop(move || slot.lock().unwrap().push(thread::current().id()))))
    })
    .join()
    .unwrap();
    assert!(executor.has_ready());
    assert_eq!((executor.alive(), bell.rings()), (0, 1));
    drop(executor);
    assert_eq!(*counts.lock().unwrap(), [thread::current().id()]);
    assert!(result(&mut handle).unwrap_err().is_cancelled());
}

#[test]
fn outputs_and_futures_that_are_not_send_are_dropped_at_home() {
    // (RUSTSEC-2021-0072)
    let (executor, _) = executor();
    let counts = Arc::new(HomeCounts::default());
    let wakers: Rc<RefCell<Vec<Waker>>> = Rc::default();
    let spawn = |completes: bool| {
        let (future, output, slot) = (Homed::new(&counts), Homed::new(&counts), wakers.clone());
        executor.spawn(async move {
            let _future = future;
            std::future::poll_fn(|cx| {
                slot.borrow_mut().push(cx.waker().clone());
                if completes { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            })
            .await;
            output
        })
    };
    let entered = executor.enter();
    let (claimed, unfinished) = (spawn(true), spawn(false));
    drop((spawn(true), spawn(false)));
    settle(&executor);
    drop(entered);
    // Dropped: future and output of the detached task; only the future of the task whose output is still wanted.
    assert_eq!(counts.get(), (3, 0));
    drop(executor);
    assert_eq!(counts.get(), (7, 0));
    // The wakers are the last references to the detached tasks, and are sent to another thread.
    let wakers = wakers.take();
    assert_eq!(wakers.len(), 4);
    thread::spawn(move || wakers.into_iter().for_each(Waker::wake)).join().unwrap();
    assert_eq!(counts.get(), (7, 0));
    drop((claimed, unfinished));
    assert_eq!(counts.get(), (8, 0));
}

#[test]
fn an_executor_in_a_thread_local_is_dropped_with_its_thread() {
    // (tokio #593)
    thread_local! {
        static KEPT: RefCell<Option<(Executor, Homed)>> = const { RefCell::new(None) };
    }
    let counts = Arc::new(HomeCounts::default());
    let inner = counts.clone();
    let handle = thread::spawn(move || {
        // Touched first, so that it is destroyed last.
        KEPT.with_borrow_mut(|kept| {
            let executor = Executor::new(Arc::new(Bell::default()));
            let entered = executor.enter();
            drop(executor.spawn(holding(Homed::new(&inner))));
            drop(executor.spawn(holding(OnDrop(|| {
                // Either result is fine, as long as there is one.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(spawn_local(async {}).ok())));
            }))));
            settle(&executor);
            drop(entered);
            *kept = Some((executor, Homed::new(&inner)));
        });
    });
    handle.join().unwrap();
    assert_eq!(counts.get(), (2, 0));
}
