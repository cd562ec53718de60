//! Models of the turn: what other threads send, against a thread that is about to park. mio runs in none of them.
//!
//! Run with `bash ci/loom.sh`, which can also show that each model is able to fail.

use crate::executor::{End, Executor};
use crate::reactor::Wakefulness;
use futures_task::waker;
use loom::sync::Notify as Poller;
use loom::thread;
use mainspring_driver::Unpark;
use std::cell::Cell;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Poll, Waker};

/// Works like the reactor's unparker, with a poller that loom knows.
struct Sleep {
    wakefulness: Wakefulness,
    poller: Poller,
    writes: AtomicUsize,
}

impl Unpark for Sleep {
    fn unpark(&self) {
        if self.wakefulness.notify() {
            self.writes.fetch_add(1, SeqCst);
            self.poller.notify();
        }
    }
}

fn executor() -> (Executor, Arc<Sleep>) {
    let sleep = Sleep { wakefulness: Wakefulness::new(), poller: Poller::new(), writes: AtomicUsize::new(0) };
    let sleep = Arc::new(sleep);
    (Executor::new(sleep.clone()), sleep)
}

/// Runs the executor as `block_on` does, without timers and I/O; `poll` polls the root future. If a wake is missed, loom
/// finds that the thread sleeps forever.
fn drive(executor: &Executor, sleep: &Sleep, mut poll: impl FnMut() -> bool) {
    let _entered = executor.enter();
    let mut sleeps = 0;
    loop {
        let root = || match executor.poll_root(Location::caller(), 0, &mut poll) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        if executor.run(8, root).end == End::Root {
            break;
        }
        let may_sleep = !executor.has_ready();
        if may_sleep && sleep.wakefulness.fall_asleep() {
            sleeps += 1;
            sleep.poller.wait();
        }
        sleep.wakefulness.wake_up();
    }
    assert!(sleep.writes.load(SeqCst) <= sleeps, "more system calls than sleeps");
}

#[test]
fn loom_remote_wake_of_a_task_against_park() {
    loom::model(|| {
        let (executor, sleep) = executor();
        let (slot, root_waker) = (Rc::new(Cell::new(None)), Rc::new(Cell::new(None::<Waker>)));
        let (theirs, told) = (slot.clone(), root_waker.clone());
        let task = poll_fn(move |cx| {
            if theirs.replace(Some(cx.waker().clone())).is_some() {
                told.take().expect("the root was there before the second poll").wake();
                return Poll::Ready(());
            }
            Poll::Pending
        });
        drop(executor.spawn(task));
        executor.run(1, || ControlFlow::Continue(()));
        let root = executor.begin_root();
        root_waker.set(Some(waker(root.root().clone())));
        let mut wakers = Vec::new();
        let mut polls = 0;
        drive(&executor, &sleep, || {
            polls += 1;
            if polls == 1 {
                let waker = slot.take().expect("the task was polled");
                slot.set(Some(waker.clone()));
                wakers.push(thread::spawn(move || waker.wake()));
            }
            polls == 2
        });
        for waker in wakers {
            waker.join().unwrap();
        }
        assert_eq!(executor.alive(), 0);
    });
}

#[test]
fn loom_root_wake_against_park() {
    loom::model(|| {
        let (executor, sleep) = executor();
        let root = executor.begin_root();
        let root_waker = waker(root.root().clone());
        let mut teller = None;
        drive(&executor, &sleep, || match &teller {
            None => {
                let waker = root_waker.clone();
                teller = Some(thread::spawn(move || waker.wake()));
                false
            }
            Some(_) => true,
        });
        teller.expect("the root was polled").join().unwrap();
    });
}

#[test]
fn loom_remote_spawn_against_park() {
    loom::model(|| {
        let (executor, sleep) = executor();
        let root = executor.begin_root();
        let root_waker = waker(root.root().clone());
        let remote = executor.remote().clone();
        let spawner = thread::spawn(move || drop(remote.spawn(async move { root_waker.wake() })));
        let mut polls = 0;
        drive(&executor, &sleep, || {
            polls += 1;
            polls == 2
        });
        spawner.join().unwrap();
        assert_eq!(executor.alive(), 0);
    });
}
