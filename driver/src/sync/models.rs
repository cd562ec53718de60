//! Models of the biased lock: every interleaving of a few sections of its own thread and of others.
//!
//! Run with `bash ci/loom.sh`, which can also show that each of these is able to fail.
//!
//! Loom knows no `membarrier`. Here both sides of the barrier are `SeqCst` fences, and what is assumed is that the kernel's
//! barrier beside a compiler fence promises as much as two such fences do to each other: what stands before one is seen by
//! what stands after the other, or the other way round. The lock asks for nothing else of them. The value is a cell
//! that loom watches: two threads in it at once, or one that does not see what the one before has done, are found; and so is a
//! thread that waits for ever.

use loom::cell::Cell;
use loom::model::Builder;
use loom::thread;

use super::biased::QUIET;
use super::{Arc, Biased};

/// A counter that objects to be counted by two at once.
type Counter = Biased<Cell<u32>>;

fn count(counter: &Counter) -> u32 {
    let counter = counter.lock();
    counter.set(counter.get() + 1);
    counter.get()
}

fn count_times(counter: &Counter, times: u32) {
    for _ in 0..times {
        count(counter);
    }
}

/// A counter whose own thread is this one, and which it enters without the mutex. It has been counted `QUIET` times.
fn biased() -> Arc<Counter> {
    let counter = Arc::new(Biased::new(Cell::new(0)));
    counter.settle();
    count_times(&counter, QUIET);
    counter
}

fn other(counter: &Arc<Counter>, times: u32) -> thread::JoinHandle<()> {
    let counter = counter.clone();
    thread::spawn(move || count_times(&counter, times))
}

/// Every interleaving with so many switches at places where nobody waits.
fn model(switches: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(switches);
    builder.check(model);
}

#[test]
fn loom_the_own_thread_against_another() {
    loom::model(|| {
        let counter = biased();
        let other = other(&counter, 1);
        count(&counter);
        other.join().unwrap();
        assert_eq!(count(&counter), QUIET + 3);
    });
}

#[test]
fn loom_the_lock_given_back_against_another_that_waits() {
    model(4, || {
        let counter = biased();
        let other = other(&counter, 2);
        // Without the mutex, with it, and without it again.
        count_times(&counter, 3);
        other.join().unwrap();
        assert_eq!(count(&counter), QUIET + 6);
    });
}

#[test]
fn loom_two_others_against_the_own_thread() {
    model(3, || {
        let counter = biased();
        let others = [other(&counter, 1), other(&counter, 1)];
        count_times(&counter, 2);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(count(&counter), QUIET + 5);
    });
}

#[test]
fn loom_the_own_thread_ends_and_another_settles() {
    model(4, || {
        let counter = Arc::new(Biased::new(Cell::new(0)));
        let theirs = counter.clone();
        let first = thread::spawn(move || {
            theirs.settle();
            count_times(&theirs, QUIET + 1);
        });
        counter.settle();
        count_times(&counter, QUIET + 1);
        first.join().unwrap();
        assert_eq!(count(&counter), 2 * (QUIET + 1) + 1);
    });
}
