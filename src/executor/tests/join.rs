//! Handles: which threads may have them, aborting, detaching, and tasks that wait for themselves.

use super::super::{JoinError, JoinHandle, Remote, Root, spawn_local};
use super::{OnDrop, executor, idle, peek, result, run, settle};
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::task::Poll;

/// Evaluates at compile time whether a type implements a trait: the inherent constant, which exists only if
/// the type does, hides the trait's.
macro_rules! implements {
    ($ty:ty: $bound:path) => {{
        struct Probe<T: ?Sized>(std::marker::PhantomData<T>);
        #[allow(dead_code)]
        impl<T: ?Sized + $bound> Probe<T> {
            const ANSWER: bool = true;
        }
        #[allow(dead_code)]
        trait No {
            const ANSWER: bool = false;
        }
        impl<T: ?Sized> No for Probe<T> {}
        <Probe<$ty>>::ANSWER
    }};
}

#[test]
fn handles_cross_threads_exactly_if_their_output_may() {
    type NotSend = Rc<()>;
    type NotSync = Cell<()>;
    const {
        assert!(implements!(JoinHandle<()>: Send) && implements!(JoinHandle<()>: Sync));
        // Sharing the handle does not share the output.
        assert!(implements!(JoinHandle<NotSync>: Send) && implements!(JoinHandle<NotSync>: Sync));
        assert!(!implements!(JoinHandle<NotSend>: Send) && !implements!(JoinHandle<NotSend>: Sync));
        assert!(implements!(JoinHandle<std::marker::PhantomPinned>: Unpin));
        assert!(implements!(JoinHandle<Rc<Cell<u8>>>: UnwindSafe));
        assert!(implements!(JoinHandle<Rc<Cell<u8>>>: RefUnwindSafe));
        assert!(implements!(super::super::AbortHandle: Send) && implements!(super::super::AbortHandle: Sync));
        assert!(implements!(JoinError: Send) && implements!(JoinError: Sync));
        assert!(implements!(JoinError: std::error::Error));
        assert!(implements!(Remote: Send) && implements!(Remote: Sync));
        assert!(implements!(Root: Send) && implements!(Root: Sync));
        assert!(!implements!(super::super::Executor: Send) && !implements!(super::super::Executor: Sync));
        assert!(!implements!(super::super::Enter: Send));
    }
}

#[test]
fn dropping_the_handle_detaches_the_task() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    let ran = Rc::new(Cell::new(false));
    let flag = ran.clone();
    drop(executor.spawn(async move { flag.set(true) }));
    settle(&executor);
    assert!(ran.get());
}

#[test]
fn an_aborted_task_is_dropped_by_the_run_and_never_polled_again() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    let polls = Rc::new(Cell::new(0));
    let mut handle = executor.spawn(idle(&Arc::default(), &polls));
    settle(&executor);
    handle.abort();
    handle.abort();
    assert!(!handle.is_finished());
    assert_eq!(Rc::strong_count(&polls), 2, "abort must not drop the future itself");
    assert_eq!(settle(&executor), 0);
    assert_eq!((polls.get(), Rc::strong_count(&polls)), (1, 1));
    assert!(result(&mut handle).unwrap_err().is_cancelled());
    // Before its first poll, too.
    let mut handle = executor.spawn(async { unreachable!() });
    handle.abort();
    assert_eq!(settle(&executor), 0);
    assert!(result::<()>(&mut handle).unwrap_err().is_cancelled());
    // A task that has completed is not affected.
    let mut done = executor.spawn(async { 5 });
    assert_eq!(settle(&executor), 1);
    done.abort();
    assert_eq!(result(&mut done).unwrap(), 5);
    assert_eq!(executor.alive(), 0);
}

#[test]
fn a_task_that_aborts_itself_is_dropped_after_its_poll() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    for completes in [false, true] {
        let own: Rc<RefCell<Option<JoinHandle<u8>>>> = Rc::default();
        let (slot, dropped) = (own.clone(), Rc::new(Cell::new(false)));
        let (flag, seen) = (dropped.clone(), dropped.clone());
        let guard = OnDrop(move || flag.set(true));
        let handle = executor.spawn(async move {
            let _guard = guard;
            slot.borrow().as_ref().unwrap().abort();
            assert!(!seen.get());
            if !completes {
                pending::<()>().await;
            }
            7
        });
        *own.borrow_mut() = Some(handle);
        assert_eq!(run(&executor, 1), 1);
        assert!(dropped.get());
        assert_eq!(settle(&executor), 0);
        let outcome = result(own.borrow_mut().as_mut().unwrap());
        // A task that completes in that very poll has completed.
        assert_eq!(outcome.ok(), completes.then_some(7));
    }
}

#[test]
fn a_task_that_keeps_its_own_waker_is_freed() {
    // (tokio #3477)
    for shut_down in [false, true] {
        let (executor, _) = executor();
        let _entered = executor.enter();
        let freed: Rc<RefCell<Weak<()>>> = Rc::default();
        let memory = freed.clone();
        let handle = executor.spawn(async move {
            let (mut waker, alive) = (None, Arc::new(()));
            *memory.borrow_mut() = Arc::downgrade(&alive);
            poll_fn(|cx| {
                waker = Some((cx.waker().clone(), alive.clone()));
                Poll::<()>::Pending
            })
            .await;
        });
        settle(&executor);
        assert!(freed.borrow().upgrade().is_some());
        if shut_down {
            executor.shutdown()
        } else {
            handle.abort()
        }
        settle(&executor);
        assert!(freed.borrow().upgrade().is_none());
    }
}

#[test]
fn a_task_that_awaits_its_own_handle_is_freed() {
    let (executor, _) = executor();
    let slot: Rc<RefCell<Option<JoinHandle<()>>>> = Rc::default();
    let inner = slot.clone();
    // What the task's memory holds: the notifier, by way of the `Remote`.
    let bell = Arc::new(super::Bell::default());
    let own = super::Executor::new(bell.clone());
    drop(executor);
    let handle = own.spawn(async move {
        let handle = inner.borrow_mut().take().unwrap();
        handle.await.unwrap();
    });
    *slot.borrow_mut() = Some(handle);
    {
        let _entered = own.enter();
        settle(&own);
    }
    drop(own);
    assert_eq!(Arc::strong_count(&bell), 1, "the task's waker lies in the task and keeps it alive");
}

#[test]
fn a_handle_wakes_the_last_waker_that_polled_it() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    let trace = Rc::new(RefCell::new(Vec::new()));
    let gate: Arc<_> = Arc::default();
    let polls = Rc::new(Cell::new(0));
    let target = executor.spawn(idle(&gate, &polls));
    let shared = Rc::new(RefCell::new(target));
    let mut waiters = Vec::new();
    for name in 0..2 {
        let (shared, trace) = (shared.clone(), trace.clone());
        waiters.push(executor.spawn(poll_fn(move |cx| {
            trace.borrow_mut().push(name);
            std::pin::Pin::new(&mut *shared.borrow_mut()).poll(cx).map(drop)
        })));
    }
    settle(&executor);
    shared.borrow().abort();
    settle(&executor);
    assert_eq!(*trace.borrow(), [0, 1, 1]);
    assert!(!waiters[0].is_finished() && waiters[1].is_finished());
}

#[test]
fn an_awaited_task_wakes_its_waiter_once() {
    let (executor, bell) = executor();
    let _entered = executor.enter();
    let mut outer = executor.spawn(async { spawn_local(async { 3 }).ok().unwrap().await.unwrap() });
    assert!(peek(&mut outer).is_pending());
    // The polls: outer, inner, outer again.
    assert_eq!(settle(&executor), 3);
    assert_eq!(result(&mut outer).unwrap(), 3);
    assert_eq!(bell.rings(), 0);
}

#[test]
fn debug_says_whether_the_task_has_finished() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    let handle = executor.spawn(async {});
    assert_eq!(format!("{handle:?}"), "JoinHandle { id: Id(0), finished: false, .. }");
    settle(&executor);
    assert_eq!(format!("{handle:?}"), "JoinHandle { id: Id(0), finished: true, .. }");
    assert_eq!(format!("{:?}", handle.abort_handle()), "AbortHandle { id: Id(0), finished: true, .. }");
}
