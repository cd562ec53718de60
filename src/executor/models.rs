//! Models of the executor: every interleaving of a few operations on two or three threads.
//!
//! Run with `bash ci/loom.sh`, which can also show that each of these models can fail.
//!
//! Ground rules:
//!
//! * Counters that are not part of a model (wakes, polls, drops) use std's atomics, which loom does not watch.
//! * Data that is part of a model is read with the weakest ordering, so that only the code under test makes it visible.

use super::remote::Polling;
use super::{Executor, Id, JoinHandle, Origin, Root};
use futures_task::ArcWake;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread::{self, ThreadId};
use mainspring_driver::Unpark;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

/// Counts wakes, and how often the owner was unparked.
#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn new() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (count.clone(), Waker::from(count))
    }

    fn get(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Count>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Unpark for Count {
    fn unpark(&self) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn executor() -> (Executor, Arc<Count>) {
    let bell = Arc::new(Count::default());
    (Executor::new(bell.clone()), bell)
}

/// Runs until nothing is ready.
fn settle(executor: &Executor) {
    let _entered = executor.enter();
    for _ in 0..8 {
        if !executor.has_ready() {
            return;
        }
        executor.run(8, || ControlFlow::Continue(()));
    }
    panic!("the executor does not come to rest");
}

fn peek<T>(handle: &mut JoinHandle<T>, waker: &Waker) -> Poll<Result<T, super::JoinError>> {
    Pin::new(handle).poll(&mut Context::from_waker(waker))
}

/// Asserts that it is dropped once, and on the thread that made it.
struct Homed {
    home: ThreadId,
    drops: Arc<Count>,
}

impl Homed {
    fn new() -> (Homed, Arc<Count>) {
        let drops = Arc::new(Count::default());
        (Homed { home: thread::current().id(), drops: drops.clone() }, drops)
    }
}

impl Drop for Homed {
    fn drop(&mut self) {
        self.drops.0.fetch_add(1, SeqCst);
        assert_eq!(thread::current().id(), self.home, "a future was dropped abroad");
    }
}

/// Returns a task after its first poll, which stays pending and holds `kept`; and its waker.
fn pending<T: 'static>(executor: &Executor, kept: T) -> (JoinHandle<()>, Waker) {
    let slot = Rc::new(RefCell::new(None));
    let theirs = slot.clone();
    let handle = executor.spawn(poll_fn(move |cx| {
        let _kept = &kept;
        *theirs.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }));
    settle(executor);
    let waker = slot.take().expect("it was polled");
    (handle, waker)
}

/// A task that reads, at every poll, what its wakers have written.
struct Looker {
    news: [Arc<AtomicBool>; 2],
    seen: Rc<Cell<[bool; 2]>>,
    polls: Rc<Cell<usize>>,
    waker: Waker,
}

impl Looker {
    fn spawn(executor: &Executor) -> Looker {
        let news = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (seen, polls) = (Rc::new(Cell::new([false; 2])), Rc::new(Cell::new(0)));
        let slot = Rc::new(RefCell::new(None));
        let theirs = (news.clone(), seen.clone(), polls.clone(), slot.clone());
        drop(executor.spawn(poll_fn(move |cx| {
            let (news, seen, polls, slot) = &theirs;
            polls.set(polls.get() + 1);
            seen.set([news[0].load(Relaxed), news[1].load(Relaxed)]);
            slot.borrow_mut().get_or_insert_with(|| cx.waker().clone());
            Poll::<()>::Pending
        })));
        settle(executor);
        let waker = slot.borrow().clone().expect("it was polled");
        Looker { news, seen, polls, waker }
    }

    /// On another thread: writes, then wakes.
    fn tell(&self, which: usize) -> thread::JoinHandle<()> {
        let (news, waker) = (self.news[which].clone(), self.waker.clone());
        thread::spawn(move || {
            news.store(true, Relaxed);
            waker.wake();
        })
    }
}

/// compio #948: two wakes race the pop of a task, and its SCHEDULED bit is left behind.
#[test]
fn loom_two_wakes_against_the_pop() {
    let mut model = loom::model::Builder::new();
    // An exhaustive search takes too long; three preemptions are more than such defects have needed.
    model.preemption_bound.get_or_insert(3);
    model.check(|| {
        let (executor, _bell) = executor();
        let task = Looker::spawn(&executor);
        let wakers = [task.tell(0), task.tell(1)];
        settle(&executor);
        for waker in wakers {
            waker.join().unwrap();
        }
        settle(&executor);
        assert_eq!(task.seen.get(), [true; 2], "a wake was lost");
        let before = task.polls.get();
        assert!(before <= 3, "polled {before} times for two wakes");
        task.waker.wake_by_ref();
        settle(&executor);
        assert_eq!(task.polls.get(), before + 1, "a SCHEDULED bit was left behind");
    });
}

/// tokio #7622: a wake that finds the task already scheduled does nothing, but the next poll must see what was
/// written before it.
#[test]
fn loom_an_ignored_wake_publishes() {
    loom::model(|| {
        let (executor, _bell) = executor();
        let task = Looker::spawn(&executor);
        {
            let _entered = executor.enter();
            task.waker.wake_by_ref();
        }
        let waker = task.tell(0);
        settle(&executor);
        waker.join().unwrap();
        settle(&executor);
        assert!(task.seen.get()[0], "a wake was lost");
    });
}

/// async-executor #163: the executor is dropped during a wake.
#[test]
fn loom_wake_against_shutdown() {
    loom::model(|| {
        let (executor, bell) = executor();
        let (homed, drops) = Homed::new();
        let (handle, waker) = pending(&executor, homed);
        let waker = thread::spawn(move || waker.wake());
        drop(executor);
        assert_eq!(drops.get(), 1, "the future outlives its executor");
        waker.join().unwrap();
        assert!(handle.is_finished());
        drop(handle);
        assert_eq!(drops.get(), 1);
        assert_eq!(Arc::strong_count(&bell), 1, "the inbox keeps a task, and that the inbox");
    });
}

/// RUSTSEC-2021-0072: the last reference to a task is dropped on another thread, and with it the future.
#[test]
fn loom_last_waker_dropped_against_shutdown() {
    loom::model(|| {
        let (executor, bell) = executor();
        let (homed, drops) = Homed::new();
        let (handle, waker) = pending(&executor, homed);
        drop(handle);
        let dropper = thread::spawn(move || {
            waker.wake_by_ref();
            drop(waker);
        });
        drop(executor);
        dropper.join().unwrap();
        assert_eq!(drops.get(), 1);
        assert_eq!(Arc::strong_count(&bell), 1, "the inbox keeps a task, and that the inbox");
    });
}

#[test]
fn loom_references_counted_by_the_owner_and_elsewhere() {
    loom::model(|| {
        let (executor, bell) = executor();
        let (homed, drops) = Homed::new();
        let (handle, waker) = pending(&executor, homed);
        let made_here = {
            let _entered = executor.enter();
            waker.clone()
        };
        // A reference made here is dropped on the other thread, and one made there is dropped here, while the task completes.
        let other = thread::spawn(move || {
            let made_there = waker.clone();
            drop(waker);
            drop(made_here);
            made_there
        });
        {
            let _entered = executor.enter();
            handle.abort();
            drop(handle);
        }
        settle(&executor);
        let made_there = other.join().unwrap();
        let _entered = executor.enter();
        drop(made_there.clone());
        assert_eq!(drops.get(), 1);
        assert_ne!(Arc::strong_count(&bell), 1, "the task was freed before its last reference");
        drop((executor, made_there));
        drop(_entered);
        assert_eq!(Arc::strong_count(&bell), 1, "the task was not freed");
    });
}

#[test]
fn loom_a_poll_is_told_with_its_own_line_and_stretch() {
    loom::model(|| {
        let lines = [here(), here(), here()];
        let polling = Arc::new(Polling::new());
        let theirs = polling.clone();
        let watcher = thread::spawn(move || theirs.get());
        for n in [1, 2] {
            polling.set_since(n);
            polling.begin(Some(Id::new(n)), lines[n as usize], n);
            polling.end();
        }
        if let Some(poll) = watcher.join().unwrap() {
            let n = poll.id.expect("no root was polled").number();
            assert_eq!((poll.origin, poll.since), (lines[n as usize], n), "a poll was told with another's");
        }
        assert_eq!(polling.get(), None);
    });
}

/// Returns the place in this file where it is called.
#[track_caller]
fn here() -> Origin {
    Location::caller()
}

#[test]
fn loom_remote_spawn_against_shutdown() {
    /// Counts its drops.
    struct Kept(Arc<Count>);
    impl Drop for Kept {
        fn drop(&mut self) {
            self.0.unpark();
        }
    }
    loom::model(|| {
        let (executor, bell) = executor();
        let (drops, _) = Count::new();
        let kept = Kept(drops.clone());
        let remote = executor.remote().clone();
        let spawner = thread::spawn(move || {
            remote.spawn(async move {
                let _kept = kept;
                std::future::pending::<()>().await;
            })
        });
        drop(executor);
        let mut handle = spawner.join().unwrap();
        // Taken in and cancelled, or refused: the handle says so in either case.
        let Poll::Ready(result) = peek(&mut handle, Waker::noop()) else { panic!("nobody told the handle") };
        assert!(result.unwrap_err().is_cancelled());
        drop(handle);
        assert_eq!(drops.get(), 1);
        assert_eq!(Arc::strong_count(&bell), 1, "the inbox keeps a task, and that the inbox");
    });
}

#[test]
fn loom_join_poll_against_completion() {
    loom::model(|| {
        let (executor, _bell) = executor();
        let (old, old_waker) = Count::new();
        let (new, new_waker) = Count::new();
        let mut handle = executor.spawn(async { String::from("done") });
        assert!(peek(&mut handle, &old_waker).is_pending());
        let poller = thread::spawn(move || (peek(&mut handle, &new_waker), handle));
        settle(&executor);
        let (first, mut handle) = poller.join().unwrap();
        match first {
            Poll::Ready(result) => assert_eq!(result.unwrap(), "done"),
            Poll::Pending => {
                assert_eq!((old.get(), new.get()), (0, 1), "nobody told the handle");
                assert!(matches!(peek(&mut handle, Waker::noop()), Poll::Ready(Ok(text)) if text == "done"));
            }
        }
    });
}

#[test]
fn loom_join_drop_against_completion() {
    loom::model(|| {
        let (executor, _bell) = executor();
        let (count, waker) = Count::new();
        let output = Arc::new(());
        let theirs = output.clone();
        let mut handle = executor.spawn(async move { theirs });
        assert!(peek(&mut handle, &waker).is_pending());
        drop(waker);
        let dropper = thread::spawn(move || drop(handle));
        settle(&executor);
        dropper.join().unwrap();
        assert_eq!(Arc::strong_count(&output), 1, "the output was leaked or dropped twice");
        assert!(count.get() <= 1);
        assert_eq!(Arc::strong_count(&count), 1, "the handle's waker was leaked");
    });
}

#[test]
fn loom_abort_against_run() {
    loom::model(|| {
        let (executor, bell) = executor();
        let (homed, drops) = Homed::new();
        let (mut handle, waker) = pending(&executor, homed);
        {
            let _entered = executor.enter();
            waker.wake();
        }
        let aborter = thread::spawn(move || {
            handle.abort();
            handle
        });
        settle(&executor);
        handle = aborter.join().unwrap();
        settle(&executor);
        let Poll::Ready(result) = peek(&mut handle, Waker::noop()) else { panic!("the abort was lost") };
        assert!(result.unwrap_err().is_cancelled());
        assert_eq!((drops.get(), executor.alive()), (1, 0));
        drop((handle, executor));
        assert_eq!(Arc::strong_count(&bell), 1, "a task was leaked");
    });
}

/// The waker of `block_on`'s own future: what was written before the wake is seen by the poll that follows.
#[test]
fn loom_root_wake_publishes() {
    loom::model(|| {
        let (executor, bell) = executor();
        let root = Root::new(executor.remote());
        let news = Arc::new(AtomicBool::new(false));
        let (theirs, written) = (root.clone(), news.clone());
        let waker = thread::spawn(move || {
            written.store(true, Relaxed);
            Root::wake_by_ref(&theirs);
        });
        let mut seen = false;
        for _ in 0..2 {
            if root.take_woken() {
                seen = news.load(Relaxed);
                assert!(seen, "a wake showed itself before what was written before it");
            }
        }
        waker.join().unwrap();
        if root.take_woken() {
            assert_eq!(bell.get(), 1, "nobody was unparked");
            seen = true;
        }
        assert!(seen, "a wake was lost");
    });
}
