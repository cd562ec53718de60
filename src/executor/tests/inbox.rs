//! Each run takes in a limited number of the tasks that other threads have sent, in order, and none is lost.

use super::super::{End, Executor, JoinHandle, Lane, RunReport};
use super::{BURST, assert_given_back, executor, idle, result, run, settle};
use crate::coop::consume_budget;
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn, ready};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;

/// More tasks than a few runs take in; fewer where a step costs a thousand times as much.
const MANY: usize = if cfg!(miri) { 200 } else { 1_000 };

#[test]
fn a_run_takes_in_some_of_a_burst() {
    let (executor, _) = executor();
    // No thread has entered the executor, so the tasks come as if from another thread.
    let handles: Vec<_> = (0..2 * MANY).map(|_| executor.remote().spawn(pending::<()>())).collect();
    assert_eq!((run(&executor, 64), executor.alive()), (16, 16));
    // All tasks that were taken in have been polled. The others are not forgotten.
    assert!(executor.has_ready());
    assert_eq!(executor.woken(), 0);
    assert_eq!((run(&executor, 1), executor.alive()), (1, 32));
    assert_eq!(executor.woken(), 15);
    assert_eq!(settle(&executor), 2 * MANY - 17);
    assert_eq!((executor.alive(), handles.len()), (2 * MANY, 2 * MANY));
}

#[test]
fn a_run_takes_in_fewer_if_their_polls_are_long() {
    let (executor, _) = executor();
    let handles: Vec<_> = (0..MANY).map(|_| executor.remote().spawn(pending::<()>())).collect();
    executor.begin_charging();
    assert_eq!((run(&executor, 1), executor.alive()), (1, 16));
    // A poll takes half as long as all that wait there may take together.
    executor.charge(8_000);
    assert_eq!((run(&executor, 7), executor.alive()), (7, 16));
    assert_eq!((run(&executor, 1), executor.alive()), (1, 18));
    assert_eq!(handles.len(), MANY);
}

/// A task that lives is woken after many were spawned, and one is spawned after many were woken.
#[test]
fn what_is_woken_and_what_is_spawned_elsewhere_take_turns() {
    let (executor, _) = executor();
    let polls = Rc::new(Cell::new(0));
    let wakers: Vec<Arc<Mutex<Option<Waker>>>> = (0..MANY).map(|_| Arc::default()).collect();
    wakers.iter().for_each(|waker| executor.spawn(idle(waker, &polls)).detach());
    settle(&executor);
    let wake = |n: usize| wakers[n].lock().unwrap().as_ref().unwrap().wake_by_ref();
    let spawn = || executor.remote().spawn(ready(()));

    let spawned: Vec<_> = (0..MANY).map(|_| spawn()).collect();
    run(&executor, 4);
    wake(0);
    assert_eq!(polls.replace(0), MANY);
    run(&executor, 64);
    assert_eq!(polls.get(), 1, "it waited for all that were spawned before");
    assert!(!spawned[MANY - 1].is_finished());
    settle(&executor);

    (0..MANY).for_each(wake);
    run(&executor, 4);
    let spawned = spawn();
    run(&executor, 64);
    assert!(spawned.is_finished(), "it waited for all that were woken before");
    assert!(polls.get() < MANY);
    settle(&executor);
    assert_eq!(polls.get(), MANY + 1);
}

#[test]
fn who_asks_for_the_number_of_tasks_takes_none_in() {
    let (executor, _) = executor();
    (0..MANY).for_each(|_| drop(executor.remote().spawn(ready(()))));
    run(&executor, 4);
    (0..MANY).for_each(|_| drop(executor.remote().spawn(ready(()))));
    assert_eq!(executor.unfinished(), 2 * MANY - 4);
    let _entered = executor.enter();
    let own = executor.spawn(ready(()));
    run(&executor, 64);
    assert!(own.is_finished(), "it waited for all that were sent");
    settle(&executor);
    assert_eq!(executor.unfinished(), 0);
}

#[test]
fn what_becomes_ready_on_this_thread_does_not_wait_for_all_that_other_threads_send() {
    let (executor, _) = executor();
    for limit in [1, 8, 61] {
        for _ in 0..MANY {
            drop(executor.remote().spawn(ready(())));
        }
        let _entered = executor.enter();
        for _ in 0..10 {
            run(&executor, limit);
            let own = executor.spawn(ready(()));
            run(&executor, 64);
            assert!(own.is_finished());
        }
        settle(&executor);
    }
}

/// Spawns two tasks that wake each other with each poll, as long as `go` is true: one of them is always ready.
fn spawn_pair(executor: &Executor, go: &Rc<Cell<bool>>, polls: &Rc<Cell<usize>>) {
    let wakers: Rc<[RefCell<Option<Waker>>; 2]> = Rc::default();
    for me in 0..2 {
        let (wakers, go, polls) = (wakers.clone(), go.clone(), polls.clone());
        let task = poll_fn(move |cx| {
            polls.set(polls.get() + 1);
            wakers[me].replace(Some(cx.waker().clone()));
            match &*wakers[1 - me].borrow() {
                Some(other) if go.get() => other.wake_by_ref(),
                _ => {}
            }
            Poll::<()>::Pending
        });
        executor.spawn(task).detach();
    }
}

#[test]
fn what_other_threads_send_has_an_equal_share_beside_tasks_that_wake_each_other() {
    const PAIRS: usize = 32;
    for limit in [1, 8, 61] {
        let (executor, _) = executor();
        let (go, own, done) =
            (Rc::new(Cell::new(true)), Rc::new(Cell::new(0)), Arc::new(AtomicUsize::new(0)));
        let _entered = executor.enter();
        (0..PAIRS).for_each(|_| spawn_pair(&executor, &go, &own));
        run(&executor, 2 * PAIRS);
        let remote = executor.remote().clone();
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..4 * MANY {
                    let done = done.clone();
                    drop(remote.spawn(async move { done.fetch_add(1, Ordering::Relaxed) }));
                }
            });
        });
        let before = own.get();
        while own.get() - before < MANY {
            run(&executor, limit);
            // The queue does not grow by what is sent.
            assert!(executor.woken() <= 4 * PAIRS, "{} wait", executor.woken());
        }
        let done = done.load(Ordering::Relaxed);
        assert!((MANY / 4..=2 * MANY).contains(&done), "{done} sent tasks beside {MANY} polls");
        go.set(false);
        settle(&executor);
    }
}

#[test]
fn what_other_threads_send_does_not_pile_up_in_its_lane_while_that_lane_waits_for_others() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    executor.begin_charging();
    executor
        .spawn(async {
            loop {
                consume_budget().await;
            }
        })
        .detach();
    let (remote, done) = (executor.remote().clone(), Arc::new(AtomicUsize::new(0)));
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..4 * MANY {
                let done = done.clone();
                drop(remote.spawn(async move { done.fetch_add(1, Ordering::Relaxed) }));
            }
        });
    });
    let mut most = 0;
    for _ in 0..4 * MANY {
        let before = done.load(Ordering::Relaxed);
        run(&executor, 1);
        // A task that was sent takes ten times as long as the other task's poll, so there are ten of these for one of them.
        let was_sent = done.load(Ordering::Relaxed) > before;
        executor.charge(if was_sent { 100_000 } else { 10_000 });
        most = most.max(executor.woken());
    }
    assert!(done.load(Ordering::Relaxed) > MANY / 10);
    assert!(most <= 64, "{most} wait");
}

#[test]
fn who_is_ahead_waits_for_what_has_yet_to_be_taken_in() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    let (waker, polls) = (Arc::default(), Rc::new(Cell::new(0)));
    executor.spawn(idle(&waker, &polls)).detach();
    settle(&executor);
    executor.begin_charging();
    let sent: Vec<_> = (0..MANY).map(|_| executor.remote().spawn(ready(()))).collect();
    run(&executor, 1);
    {
        let _waking = executor.waking(Lane::Timer);
        waker.lock().unwrap().as_ref().unwrap().wake_by_ref();
    }
    (0..4_000).for_each(|_| executor.charge_lane(Lane::Timer, 1_000));
    loop {
        // None of what was sent takes any time, so the timer's task stays ahead.
        executor.run(64, || ControlFlow::Continue(()));
        executor.begin_charging();
        if sent.iter().all(JoinHandle::is_finished) {
            break;
        }
        assert!(executor.must_wait(Lane::Timer), "it was forgotten though more was sent");
        assert_eq!(polls.get(), 1, "it did not wait");
    }
    settle(&executor);
    assert_eq!(polls.get(), 2);
}

#[test]
fn a_burst_runs_in_order_and_what_is_sent_meanwhile_after_it() {
    let (executor, _) = executor();
    let trace = Arc::new(Mutex::new(Vec::new()));
    let send = |numbers: std::ops::Range<usize>| {
        for number in numbers {
            let trace = trace.clone();
            drop(executor.remote().spawn(async move { trace.lock().unwrap().push(number) }));
        }
    };
    send(0..MANY);
    assert_eq!(run(&executor, 1), 1);
    send(MANY..2 * MANY);
    settle(&executor);
    assert!(trace.lock().unwrap().iter().copied().eq(0..2 * MANY));
}

#[test]
fn a_burst_of_aborts_stays_ready_until_all_of_them_have_ended() {
    let (executor, bell) = executor();
    let (slot, polls) = (Arc::default(), Rc::new(Cell::new(0)));
    let aborted: Vec<JoinHandle<()>> = {
        let _entered = executor.enter();
        let idle = |_| executor.spawn(idle(&slot, &polls));
        let handles = (0..MANY).map(idle).collect();
        settle(&executor);
        handles
    };
    aborted.iter().for_each(JoinHandle::abort);
    drop(executor.remote().spawn(ready(())));
    assert_eq!(bell.rings(), MANY + 1);
    while executor.has_ready() {
        executor.run(1, || ControlFlow::Continue(()));
    }
    assert_eq!((executor.alive(), polls.get()), (0, MANY));
    assert_eq!(executor.run(1, || ControlFlow::Continue(())), RunReport { taken: 0, end: End::Idle });
}

#[test]
fn the_list_of_tasks_has_all_that_were_sent() {
    let (executor, _) = executor();
    for _ in 0..MANY {
        drop(executor.remote().spawn(pending::<()>()));
    }
    assert_eq!(run(&executor, 1), 1);
    for _ in 0..MANY {
        drop(executor.remote().spawn(pending::<()>()));
    }
    assert_eq!(executor.task_list().tasks.len(), 2 * MANY);
}

#[test]
fn a_shutdown_cancels_what_is_not_taken_in_yet() {
    let (executor, _) = executor();
    let (slot, polls): (Arc<Mutex<Option<Waker>>>, _) = (Arc::default(), Rc::new(Cell::new(0)));
    let mut woken = executor.spawn(idle(&slot, &polls));
    assert_eq!(settle(&executor), 1);
    let trace = Arc::new(Mutex::new(Vec::new()));
    let mut spawn = |number| {
        let trace = trace.clone();
        let dropped = super::OnDrop(move || trace.lock().unwrap().push(number));
        executor.remote().spawn(async move {
            let _dropped = dropped;
            pending::<()>().await;
        })
    };
    let mut handles: Vec<_> = (0..MANY).map(&mut spawn).collect();
    assert_eq!(run(&executor, 1), 1);
    handles.extend((MANY..2 * MANY).map(&mut spawn));
    slot.lock().unwrap().as_ref().unwrap().wake_by_ref();
    executor.shutdown();
    assert!(!executor.has_ready());
    assert!(handles.iter_mut().all(|handle| result(handle).unwrap_err().is_cancelled()));
    assert!(trace.lock().unwrap().iter().copied().eq(0..2 * MANY));
    assert!(result(&mut woken).unwrap_err().is_cancelled());
    assert_eq!(polls.get(), 1);
}

/// Nobody sends anything after the bursts, so what is on either side stays there.
#[test]
fn the_memory_of_bursts_from_other_threads_is_given_back_on_both_sides() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    for _ in 0..2 {
        for _ in 0..BURST {
            drop(executor.remote().spawn(async {}));
        }
        settle(&executor);
    }
    assert_given_back(&executor);
}
