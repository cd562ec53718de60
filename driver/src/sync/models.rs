//! Models of the biased lock and of the count: every interleaving of a few steps of the own thread and of other threads.
//!
//! Run with `bash ci/loom.sh`, which can also show that each of these models is able to fail.
//!
//! Loom does not know `membarrier`. Here both sides of the barrier are `SeqCst` fences. The assumption is that the kernel's
//! barrier with a compiler fence promises as much as two such fences do to each other: what stands before one is seen by
//! what stands after the other, or the other way round. The lock asks for nothing else of them. The value is a cell
//! that loom watches. It finds two threads in the cell at once, a thread that does not see what the one before has done, and a
//! thread that waits forever.

use std::sync::Arc as StdArc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::cell::{Cell, UnsafeCell};
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

use super::biased::QUIET;
use super::{Biased, Counted};

/// A counter in which loom finds two threads that count at once.
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

/// A counter whose own thread is this one, which enters it without the mutex. It has been counted `QUIET` times.
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

/// Runs every interleaving with up to this number of switches at places where no thread waits.
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

/// The value that is counted. Loom reports an error if it is freed before another thread has finished using it.
struct Watched(UnsafeCell<()>, StdArc<AtomicUsize>);

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.with_mut(|_| ());
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

/// How often the value was freed, which is not part of the model, and a first reference, made on this thread, which counts for
/// itself.
fn watched() -> (StdArc<AtomicUsize>, Counted<Watched>) {
    let freed = StdArc::new(AtomicUsize::new(0));
    let first = Counted::new(Watched(UnsafeCell::new(()), freed.clone()));
    first.begin_own();
    (freed, first)
}

/// Uses a reference, makes another, and drops both.
fn use_up(reference: Counted<Watched>, freed: &AtomicUsize) {
    assert_eq!(freed.load(Ordering::Relaxed), 0, "freed too early");
    reference.0.with(|_| ());
    drop(reference.clone());
    drop(reference);
}

#[test]
fn loom_references_made_here_and_dropped_elsewhere() {
    model(3, || {
        let (freed, first) = watched();
        let others = [first.clone(), first.clone()].map(|reference| {
            let freed = freed.clone();
            thread::spawn(move || use_up(reference, &freed))
        });
        use_up(first.clone(), &freed);
        first.end_own();
        use_up(first, &freed);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(freed.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn loom_references_made_elsewhere_and_dropped_here() {
    model(3, || {
        let (freed, first) = watched();
        let (theirs, seen) = (first.clone(), freed.clone());
        let other = thread::spawn(move || {
            let made = [theirs.clone(), theirs.clone(), theirs.clone()];
            use_up(theirs, &seen);
            made
        });
        let [second, third, fourth] = other.join().unwrap();
        let seen = freed.clone();
        let other = thread::spawn(move || use_up(third, &seen));
        // More are dropped here than were made here.
        drop(second);
        use_up(fourth, &freed);
        first.end_own();
        use_up(first, &freed);
        other.join().unwrap();
        assert_eq!(freed.load(Ordering::Relaxed), 1);
    });
}
