//! Each run takes in a limited number of the tasks that other threads have sent, in order, and none is lost.

use super::super::{End, JoinHandle, RunReport};
use super::{executor, idle, result, run, settle};
use std::cell::Cell;
use std::future::{pending, ready};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// More tasks than a few runs take in; fewer where a step costs a thousand times as much.
const MANY: usize = if cfg!(miri) { 200 } else { 1_000 };

#[test]
fn a_run_takes_in_some_of_a_burst_or_as_many_as_it_may_poll() {
    let (executor, _) = executor();
    // No thread has entered the executor, so the tasks come as if from another thread.
    let handles: Vec<_> = (0..2 * MANY).map(|_| executor.remote().spawn(pending::<()>())).collect();
    assert_eq!((run(&executor, 64), executor.alive()), (64, 64));
    // All tasks that were taken in have been polled. The others are not forgotten.
    assert!(executor.has_ready());
    assert_eq!(executor.woken(), 2 * MANY - 64);
    assert_eq!((run(&executor, 1), executor.alive()), (1, 128));
    assert_eq!(executor.woken(), 2 * MANY - 65);
    assert_eq!((run(&executor, MANY), executor.alive()), (MANY, 128 + MANY));
    assert_eq!(settle(&executor), MANY - 65);
    assert_eq!((executor.alive(), handles.len()), (2 * MANY, 2 * MANY));
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
    while executor.alive() > 0 {
        assert!(executor.has_ready());
        executor.run(1, || ControlFlow::Continue(()));
    }
    assert_eq!(polls.get(), MANY);
    assert!(!executor.has_ready());
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
