//! Panics of futures, outputs and wakers, in every combination with what the handle does.

use super::super::task::{ON_CLONE, waker_with_hook};
use super::super::{JoinError, JoinHandle};
use super::{OnDrop, executor, peek, result, run, settle};
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Task {
    Completes,
    PanicsInPoll,
    PanicsInFutureDrop,
    PanicsInOutputDrop,
    PanicsInPollAndFutureDrop,
    PanicsInEveryDrop,
}

impl Task {
    const ALL: [Task; 6] = [
        Task::Completes,
        Task::PanicsInPoll,
        Task::PanicsInFutureDrop,
        Task::PanicsInOutputDrop,
        Task::PanicsInPollAndFutureDrop,
        Task::PanicsInEveryDrop,
    ];

    fn poll_panics(self) -> bool {
        matches!(self, Task::PanicsInPoll | Task::PanicsInPollAndFutureDrop)
    }

    fn future_drop_panics(self) -> bool {
        use Task::*;
        matches!(self, PanicsInFutureDrop | PanicsInPollAndFutureDrop | PanicsInEveryDrop)
    }

    fn output_drop_panics(self) -> bool {
        matches!(self, Task::PanicsInOutputDrop | Task::PanicsInEveryDrop)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Handle {
    PolledBefore,
    PolledAfter,
    DroppedBefore,
    DroppedAfter,
    AbortedBefore,
    AbortedAfter,
    LeftToShutdown,
    DroppedThenLeftToShutdown,
}

impl Handle {
    const ALL: [Handle; 8] = [
        Handle::PolledBefore,
        Handle::PolledAfter,
        Handle::DroppedBefore,
        Handle::DroppedAfter,
        Handle::AbortedBefore,
        Handle::AbortedAfter,
        Handle::LeftToShutdown,
        Handle::DroppedThenLeftToShutdown,
    ];

    /// Returns whether the task is cancelled before its second poll.
    fn cancels(self) -> bool {
        use Handle::*;
        matches!(self, AbortedBefore | LeftToShutdown | DroppedThenLeftToShutdown)
    }
}

#[derive(Default)]
struct Counts {
    polls: Cell<usize>,
    future_drops: Cell<usize>,
    output_drops: Cell<usize>,
}

fn bump(cell: &Cell<usize>) {
    cell.set(cell.get() + 1);
}

struct Output(Task, Rc<Counts>);

impl Drop for Output {
    fn drop(&mut self) {
        bump(&self.1.output_drops);
        if self.0.output_drop_panics() {
            panic!("output drop");
        }
    }
}

/// Pending once, then done, with a panic or without.
struct Probe(Task, Rc<Counts>);

impl Future for Probe {
    type Output = Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Output> {
        bump(&self.1.polls);
        if self.1.polls.get() == 1 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.0.poll_panics() {
            panic!("poll");
        }
        Poll::Ready(Output(self.0, self.1.clone()))
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        bump(&self.1.future_drops);
        if self.0.future_drop_panics() {
            panic!("future drop");
        }
    }
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn message(error: JoinError) -> String {
    (*error.into_panic().downcast::<&str>().unwrap()).to_owned()
}

fn check(task: Task, handling: Handle) {
    let (executor, _) = executor();
    let counts = Rc::new(Counts::default());
    let wakes = Arc::new(Wakes::default());
    let entered = executor.enter();
    let mut handle = Some(executor.spawn(Probe(task, counts.clone())));
    assert_eq!(run(&executor, 1), 1);
    match handling {
        Handle::PolledBefore => {
            let waker = Waker::from(wakes.clone());
            let polled = Pin::new(handle.as_mut().unwrap()).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
        Handle::DroppedBefore | Handle::DroppedThenLeftToShutdown => drop(handle.take()),
        Handle::AbortedBefore => handle.as_ref().unwrap().abort(),
        _ => {}
    }
    if matches!(handling, Handle::LeftToShutdown | Handle::DroppedThenLeftToShutdown) {
        executor.shutdown();
    }
    let polls = settle(&executor);
    assert_eq!(polls, if handling.cancels() { 0 } else { 1 });
    if let Some(handle) = &handle {
        assert!(handle.is_finished());
    }
    match handling {
        Handle::DroppedAfter => drop(handle.take()),
        Handle::AbortedAfter => handle.as_ref().unwrap().abort(),
        _ => {}
    }
    assert!(!executor.has_ready());
    assert_eq!(executor.alive(), 0);
    assert_eq!(wakes.0.load(Ordering::SeqCst), usize::from(handling == Handle::PolledBefore));
    if let Some(mut handle) = handle {
        match result(&mut handle) {
            Ok(output) => {
                assert!(!handling.cancels() && !task.poll_panics() && !task.future_drop_panics());
                assert_eq!(counts.output_drops.get(), 0);
                let dropped = catch_unwind(AssertUnwindSafe(|| drop(output)));
                assert_eq!(dropped.is_err(), task.output_drop_panics());
            }
            Err(error) if error.is_cancelled() => {
                assert!(handling.cancels() && !task.future_drop_panics());
            }
            Err(error) => {
                let in_poll = task.poll_panics() && !handling.cancels();
                assert!(in_poll || task.future_drop_panics());
                // Of two panics, the first is the task's result.
                assert_eq!(message(error), if in_poll { "poll" } else { "future drop" });
            }
        }
        assert!(handle.is_finished());
        let again = catch_unwind(AssertUnwindSafe(|| peek(&mut handle).is_ready()));
        assert!(again.is_err(), "a handle gave its result twice");
    }
    drop(entered);
    let made = !handling.cancels() && !task.poll_panics();
    assert_eq!(counts.polls.get(), if handling.cancels() { 1 } else { 2 });
    assert_eq!(counts.future_drops.get(), 1);
    assert_eq!(counts.output_drops.get(), usize::from(made));
    drop(executor);
    assert_eq!(Rc::strong_count(&counts), 1, "a future or an output was leaked");
    assert_eq!(counts.future_drops.get(), 1);
}

#[test]
fn a_task_that_panics_anywhere_tells_its_handle_and_is_dropped_once() {
    for task in Task::ALL {
        for handling in Handle::ALL {
            let checked = catch_unwind(|| check(task, handling));
            assert!(checked.is_ok(), "{task:?}, {handling:?}");
        }
    }
}

#[test]
fn a_panicking_task_takes_nothing_from_its_neighbours() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    let mut handles: Vec<JoinHandle<usize>> = (0..40)
        .map(|n| executor.spawn(async move { if n % 8 == 1 { panic!("task {n}") } else { n } }))
        .collect();
    assert_eq!(settle(&executor), 40);
    for (n, handle) in handles.iter_mut().enumerate() {
        match result(handle) {
            Ok(value) => assert_eq!(value, n),
            Err(error) => {
                assert_eq!(n % 8, 1);
                assert_eq!(error.to_string(), format!("the task panicked: task {n}"));
                assert_eq!(format!("{error:?}"), format!("JoinError::Panic(\"task {n}\")"));
            }
        }
    }
}

#[test]
fn errors_tell_panics_from_cancellation() {
    let cancelled = JoinError::cancelled();
    assert!(cancelled.is_cancelled() && !cancelled.is_panic());
    assert_eq!(cancelled.to_string(), "the task was cancelled");
    let cancelled = cancelled.try_into_panic().unwrap_err();
    assert!(catch_unwind(|| cancelled.into_panic()).is_err());
    let panic = JoinError::panic(Box::new(17_u8));
    assert!(!panic.is_cancelled() && panic.is_panic());
    assert_eq!(panic.to_string(), "the task panicked");
    assert_eq!(panic.try_into_panic().unwrap().downcast_ref(), Some(&17_u8));
}

#[test]
fn a_payload_that_panics_as_it_is_dropped_stops_nobody() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    let bomb = || OnDrop(|| panic_any(OnDrop(|| panic!("third"))));
    let future_drop = OnDrop(move || panic_any(bomb()));
    // Detached: its two panics have nowhere to go.
    drop(executor.spawn(poll_fn(move |_| -> Poll<()> {
        let _kept_until_the_future_is_dropped = &future_drop;
        panic!("first");
    })));
    let mut next = executor.spawn(async { 1 });
    assert_eq!(settle(&executor), 2);
    assert_eq!(result(&mut next).unwrap(), 1);
}

#[test]
fn a_handle_whose_waker_panics_in_clone_can_still_be_awaited() {
    // (tokio #3689)
    let waker = waker_with_hook();
    let (executor, _) = executor();
    let _entered = executor.enter();
    let mut handle = executor.spawn(async {});
    for _ in 0..2 {
        ON_CLONE.set(Some(Box::new(|| panic!("clone"))));
        let polled = catch_unwind(AssertUnwindSafe(|| {
            Pin::new(&mut handle).poll(&mut Context::from_waker(&waker)).is_ready()
        }));
        assert!(polled.is_err());
    }
    let wakes = Arc::new(Wakes::default());
    let good = Waker::from(wakes.clone());
    assert!(Pin::new(&mut handle).poll(&mut Context::from_waker(&good)).is_pending());
    settle(&executor);
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    assert!(result(&mut handle).is_ok());
}

/// A waker that runs a closure whenever it is woken or dropped.
struct Meddler(Box<dyn Fn() + Send + Sync>);

impl Wake for Meddler {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

impl Drop for Meddler {
    fn drop(&mut self) {
        (self.0)();
    }
}

thread_local! {
    static SPAWNED: RefCell<Vec<JoinHandle<()>>> = const { RefCell::new(Vec::new()) };
}

#[test]
fn a_waker_that_spawns_when_it_is_woken_or_dropped_finds_no_lock_and_no_borrow() {
    // (tokio #5429, ngx-rust #294)
    let (executor, _) = executor();
    let _entered = executor.enter();
    let meddler = || {
        Waker::from(Arc::new(Meddler(Box::new(|| {
            let handle = super::super::spawn_local(async {}).ok().unwrap();
            SPAWNED.with_borrow_mut(|all| all.push(handle));
        }))))
    };
    let mut handle = executor.spawn(pending::<()>());
    for _ in 0..2 {
        // The second waker replaces, and so drops, the first.
        assert!(Pin::new(&mut handle).poll(&mut Context::from_waker(&meddler())).is_pending());
    }
    handle.abort();
    settle(&executor);
    // One waker was dropped by replacement; the other was woken and then dropped.
    assert_eq!(SPAWNED.with_borrow(Vec::len), 3);
    assert!(SPAWNED.take().iter_mut().all(|handle| result(handle).is_ok()));

    let mut handle = executor.spawn(pending::<()>());
    assert!(Pin::new(&mut handle).poll(&mut Context::from_waker(&meddler())).is_pending());
    drop(handle);
    assert_eq!(SPAWNED.take().len(), 1);
}

#[test]
fn a_task_that_completes_while_the_handles_waker_is_cloned_is_not_missed() {
    // The completion takes the lock that would be held if the clone ran under the lock.
    let executor = Rc::new(executor().0);
    let _entered = executor.enter();
    let mut handle = executor.spawn(async { 9 });
    ON_CLONE.set(Some(Box::new({
        let executor = executor.clone();
        move || assert_eq!(run(&executor, 1), 1)
    })));
    let waker = waker_with_hook();
    match Pin::new(&mut handle).poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(result) => assert_eq!(result.unwrap(), 9),
        Poll::Pending => panic!("the completion was missed"),
    }
}

#[test]
fn a_waker_may_drop_the_handle_that_it_was_registered_with() {
    // Dropping the handle takes the lock that would be held if a wake or a drop ran under the lock.
    let (executor, _) = executor();
    let _entered = executor.enter();
    let slot: Arc<Mutex<Option<JoinHandle<()>>>> = Arc::default();
    let inner = slot.clone();
    let waker = Waker::from(Arc::new(Meddler(Box::new(move || {
        let handle = inner.lock().unwrap().take();
        drop(handle);
    }))));
    let mut handle = executor.spawn(async {});
    assert!(Pin::new(&mut handle).poll(&mut Context::from_waker(&waker)).is_pending());
    *slot.lock().unwrap() = Some(handle);
    assert_eq!(settle(&executor), 1);
    assert!(slot.lock().unwrap().is_none());
}

#[test]
fn a_join_waker_that_panics_stops_neither_the_run_nor_the_shutdown() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    let woken = Arc::new(AtomicUsize::new(0));
    let counter = woken.clone();
    let mut handles: Vec<_> = (0..3)
        .map(|n| executor.spawn(poll_fn(move |_| if n == 2 { Poll::Pending } else { Poll::Ready(()) })))
        .collect();
    for handle in &mut handles {
        let counter = counter.clone();
        let panicking = Waker::from(Arc::new(Panicking(counter)));
        assert!(Pin::new(handle).poll(&mut Context::from_waker(&panicking)).is_pending());
    }
    assert_eq!(settle(&executor), 3);
    assert_eq!(woken.load(Ordering::SeqCst), 2);
    executor.shutdown();
    assert_eq!(woken.load(Ordering::SeqCst), 3);
    assert!(handles.iter().all(JoinHandle::is_finished));
}

struct Panicking(Arc<AtomicUsize>);

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("wake");
    }
}
