//! Tests of the executor. Each test is named after the promise that it checks.
//!
//! Ground rules: threads are joined, loops are bounded, and a park that lasts for seconds is a lost wake-up.

mod inbox;
mod join;
mod panics;
mod queue;
mod root;
mod shutdown;
mod threads;

use super::local::WINDOW_BITS;
use super::{End, Executor, JoinHandle};
use mainspring_driver::{Nanos, Unpark};
use std::cell::Cell;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread, ThreadId};
use std::time::{Duration, Instant};

/// Counts how often the owner was unparked.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Bell {
    fn rings(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Unpark for Bell {
    fn unpark(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn executor() -> (Executor, Arc<Bell>) {
    let bell = Arc::new(Bell::default());
    (Executor::new(bell.clone()), bell)
}

/// Unparks the thread that made it.
struct Unparks(Thread);

impl Unpark for Unparks {
    fn unpark(&self) {
        self.0.unpark();
    }
}

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Parks until the current thread is unparked, which has to happen.
fn park() {
    let since = Instant::now();
    thread::park_timeout(Duration::from_secs(20));
    assert!(since.elapsed() < Duration::from_secs(20), "a wake-up was lost");
}

/// Another executor: a minimal one.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unparks(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        park();
    }
}

fn parking_executor() -> Executor {
    Executor::new(Arc::new(Unparks(thread::current())))
}

/// Runs up to `limit` tasks; returns the number of polls.
fn run(executor: &Executor, limit: usize) -> usize {
    let before = executor.polls();
    let mut polls = 0;
    loop {
        let ran = executor.run(limit - polls, || ControlFlow::Continue(()));
        polls = executor.polls().wrapping_sub(before) as usize;
        if ran.end != End::Clock || polls == limit {
            return polls;
        }
    }
}

/// Runs until nothing is ready; returns the number of polls.
fn settle(executor: &Executor) -> usize {
    let mut polls = 0;
    for _ in 0..10_000 {
        if !executor.has_ready() {
            return polls;
        }
        executor.looked(false);
        polls += run(executor, 64);
    }
    panic!("the executor does not come to rest");
}

/// The number of tasks in a burst. Under Miri, where a run is expensive, it is so small that its memory need be halved only once.
const BURST: usize = if cfg!(miri) { 1_000 } else { 20_000 };

/// Asserts that the memory of a burst is given back while nothing happens. Half of it is freed in each window of time, after the
/// first, which has seen the burst.
fn assert_given_back(executor: &Executor) {
    let windows = if cfg!(miri) { 3 } else { 8 };
    let before = executor.local.capacity();
    for window in 1..=windows {
        run(executor, 1);
        executor.trim(Nanos::new(window << WINDOW_BITS));
    }
    let after = executor.local.capacity();
    assert!(before >= BURST && after <= 512, "{before} -> {after}");
}

/// Runs and parks until `done`.
fn drive(executor: &Executor, mut done: impl FnMut() -> bool) {
    let _entered = executor.enter();
    while !done() {
        run(executor, 64);
        if !executor.has_ready() && !done() {
            park();
        }
    }
}

/// Polls a handle once, with a waker that does nothing.
fn peek<T>(handle: &mut JoinHandle<T>) -> Poll<Result<T, super::JoinError>> {
    Pin::new(handle).poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns the result of a handle that has one.
fn result<T>(handle: &mut JoinHandle<T>) -> Result<T, super::JoinError> {
    match peek(handle) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the task has not completed"),
    }
}

/// A task that stays pending, leaves its waker in the slot and counts its polls.
fn idle(slot: &Arc<Mutex<Option<Waker>>>, polls: &Rc<Cell<usize>>) -> impl Future<Output = ()> + use<> {
    let (slot, polls) = (slot.clone(), polls.clone());
    poll_fn(move |cx| {
        polls.set(polls.get() + 1);
        *slot.lock().unwrap() = Some(cx.waker().clone());
        Poll::Pending
    })
}

/// A value that is not Send, and notes when it is dropped on another thread than its own.
struct Homed {
    home: ThreadId,
    counts: Arc<HomeCounts>,
    _not_send: PhantomData<Rc<()>>,
}

#[derive(Default)]
struct HomeCounts {
    dropped: AtomicUsize,
    abroad: AtomicUsize,
}

impl Homed {
    fn new(counts: &Arc<HomeCounts>) -> Homed {
        Homed { home: thread::current().id(), counts: counts.clone(), _not_send: PhantomData }
    }
}

impl Drop for Homed {
    fn drop(&mut self) {
        self.counts.dropped.fetch_add(1, Ordering::SeqCst);
        if thread::current().id() != self.home {
            self.counts.abroad.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl HomeCounts {
    /// Returns (the number dropped, how many of these on a foreign thread).
    fn get(&self) -> (usize, usize) {
        (self.dropped.load(Ordering::SeqCst), self.abroad.load(Ordering::SeqCst))
    }
}

/// Runs a closure when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Returns how many rounds a stress test does: fewer where every step costs a thousand times as much.
const fn rounds(n: usize) -> usize {
    if cfg!(miri) { n / 500 + 3 } else { n }
}
