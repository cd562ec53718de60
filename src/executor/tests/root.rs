//! When the root is polled, and who is unparked for it.

use super::super::{End, Executor, RunReport};
use super::executor;
use crate::coop::yield_now;
use futures_task::waker as waker_of;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

#[test]
fn a_root_is_queued_at_first_and_a_wake_from_outside_unparks_the_owner_once() {
    let (executor, bell) = executor();
    let _entered = executor.enter();
    let root = executor.begin_root();
    let waker = waker_of(root.root().clone());
    let poll = |wake: bool| {
        assert!(executor.has_ready());
        assert_eq!(run_to_root(&executor), RunReport { taken: 1, end: End::Root });
        poll_root(&executor, || {
            (0..3).for_each(|_| {
                if wake {
                    waker.wake_by_ref()
                }
            })
        });
    };
    poll(false);
    assert_eq!(run_to_root(&executor), RunReport { taken: 0, end: End::Idle });
    (0..3).for_each(|_| waker.wake_by_ref());
    assert_eq!(bell.rings(), 0);
    poll(true);
    // The root has woken itself.
    poll(false);
    assert_eq!(run_to_root(&executor).end, End::Idle);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| waker.wake_by_ref());
        }
    });
    assert_eq!(bell.rings(), 1);
    poll(false);
    assert!(!executor.has_ready());
    // A waker that outlives its root wakes nothing, and in particular not the next root.
    waker.wake_by_ref();
    drop(root);
    assert!(!executor.has_ready());
    let _next = executor.begin_root();
    assert_eq!(run_to_root(&executor).end, End::Root);
    poll_root(&executor, || ());
    waker.wake_by_ref();
    assert!(!executor.has_ready());
}

#[test]
fn the_root_takes_its_turn_as_a_task_does() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    let (root, trace) = (executor.begin_root(), Rc::new(RefCell::new(Vec::new())));
    let waker = waker_of(root.root().clone());
    for name in 1..=3 {
        let trace = trace.clone();
        drop(executor.spawn(async move {
            for round in 0..3 {
                trace.borrow_mut().push(10 * round + name);
                yield_now().await;
            }
        }));
    }
    for round in 0..3 {
        while run_to_root(&executor).end != End::Root {}
        poll_root(&executor, || {
            trace.borrow_mut().push(10 * round);
            waker.wake_by_ref();
        });
    }
    settle_but_the_root(&executor);
    assert_eq!(*trace.borrow(), [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]);
}

/// Runs until it is the root's turn, which is left to the caller.
fn run_to_root(executor: &Executor) -> RunReport {
    executor.run(64, || ControlFlow::Break(()))
}

fn poll_root<R>(executor: &Executor, poll: impl FnOnce() -> R) -> R {
    executor.poll_root(Location::caller(), 0, poll)
}

fn settle_but_the_root(executor: &Executor) {
    while run_to_root(executor).end != End::Idle {
        poll_root(executor, || ());
    }
}

#[test]
fn what_another_thread_sends_does_not_wait_for_the_end_of_a_long_run_of_the_root() {
    // All polls are the root's, or every second one.
    for tasks in [0, 1] {
        let (executor, _) = executor();
        let _entered = executor.enter();
        let (remote, began) = (executor.remote().clone(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..tasks {
            drop(executor.spawn(async {
                loop {
                    yield_now().await;
                }
            }));
        }
        let root = executor.begin_root();
        let (waker, mut waited) = (waker_of(root.root().clone()), 0);
        executor.run(1_000, || {
            poll_root(&executor, || waker.wake_by_ref());
            if waited == 0 {
                let began = began.clone();
                thread::scope(|scope| {
                    scope.spawn(|| drop(remote.spawn(async move { began.store(1, Ordering::Relaxed) })));
                });
            }
            waited += 1;
            if began.load(Ordering::Relaxed) > 0 {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        assert!(waited <= 16, "it has waited for {waited} polls");
    }
}
