//! The threads for work that blocks: one for each piece of work, up to a limit. Idle threads end.
//!
//! Ground rules:
//!
//! * There is one pool in a process, and it belongs to no runtime. A thread begins when there is more work than there are idle
//!   threads, and ends when it has been idle for [`IDLE`].
//! * Work begins in the order in which it came. What is no longer wanted leaves the queue even if no thread is free.
//! * An idle thread looks at the queue before it waits, and again after, whatever has ended the wait: so no work is
//!   left while a thread is idle.
//! * Threads are started under the lock: a caller that fails to start the only thread takes its work back, and no other work is
//!   left stranded. No foreign code runs under the lock.
//! * A child by `fork` has none of the threads, and may find its parent's lock taken by one of them. So the child has its own
//!   pool, and never looks at its parent's: the work that is queued there is the parent's. (std holds a lock while any thread begins or
//!   ends. A child in which it is locked can begin no thread, whoever wants one; nothing can be done about that here.)
//!
//! The crate `blocking` (1.7.0) would do, except for three things: its threads end only above their limit, and each idle thread
//! wakes twice a second forever; up to five closures wait behind an idle thread before there is another thread; and it does not
//! report when a closure never gets a thread.

use crate::fork::{PerProcess, Process};
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The maximum number of threads.
const LIMIT: usize = 512;

/// How long a thread waits for work before it ends.
const IDLE: Duration = Duration::from_secs(1);

/// Work to be done on a thread of the pool.
pub(super) trait Work: Send + Sync {
    /// Does the work. Must not panic.
    fn run(self: Arc<Self>);

    /// Returns whether there still is something to do: false once the work was dropped by the one who wanted it.
    fn is_wanted(&self) -> bool;
}

/// The number of pieces of work for which the queue keeps memory, and below which it is not searched for unwanted work.
const KEEP: usize = 64;

static POOL: PerProcess<Pool> = PerProcess::new(Pool::new());

/// The pool of a process.
struct Pool {
    state: Mutex<State>,
    /// Notified when there is work.
    more: Condvar,
}

struct State {
    queue: VecDeque<Arc<dyn Work>>,
    /// How much work was dropped before it began, since the queue was last searched for it. Some of it may have left the queue.
    unwanted: usize,
    threads: usize,
    /// Threads that wait for work, including those that have been notified already.
    idle: usize,
    /// How many threads could not be started for work that came.
    refused: usize,
}

impl Pool {
    const fn new() -> Pool {
        Pool {
            state: Mutex::new(State { queue: VecDeque::new(), unwanted: 0, threads: 0, idle: 0, refused: 0 }),
            more: Condvar::new(),
        }
    }

    /// Returns this process's pool.
    fn current() -> io::Result<&'static Pool> {
        Ok(POOL.of(Process::watched()?, Pool::new))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that work was dropped before it began. Once half of the queue is such work, it leaves the queue: while no thread
    /// is free, nothing else would ever take it out.
    fn note_unwanted(&self) {
        let mut state = self.lock();
        state.unwanted += 1;
        if state.unwanted < KEEP || state.unwanted < state.queue.len() / 2 {
            return;
        }
        state.unwanted = 0;
        let (wanted, unwanted): (VecDeque<_>, VecDeque<_>) =
            mem::take(&mut state.queue).into_iter().partition(|work| work.is_wanted());
        state.queue = wanted;
        drop(state);
        // The work is foreign: it is dropped without the lock.
        drop(unwanted);
    }
}

/// Notes that work, which may have been [submitted](submit), was dropped before it began.
pub(super) fn note_unwanted() {
    if let Ok(pool) = Pool::current() {
        pool.note_unwanted();
    }
}

/// Queues `work`, to be done as soon as there is a thread for it.
///
/// # Errors
///
/// The system's error, if it cannot create a thread and there is none.
pub(super) fn submit(work: Arc<dyn Work>) -> io::Result<()> {
    let pool = Pool::current()?;
    let mut state = pool.lock();
    // A thread for this work, and those that were refused before, if there is work for them still.
    let mut missing = (state.refused + 1).min((state.queue.len() + 1).saturating_sub(state.idle));
    let is_one_idle = missing == 0;
    while missing > 0 && state.threads < LIMIT {
        match thread::Builder::new().name("mainspring-work".into()).spawn(|| serve(pool)) {
            Ok(_detached) => (state.threads, missing) = (state.threads + 1, missing - 1),
            Err(error) if state.threads == 0 => {
                // The work is foreign: it is dropped without the lock.
                drop(state);
                drop(work);
                return Err(error);
            }
            // One of the existing threads will do the work, or one that begins when the next work comes.
            Err(_) => break,
        }
    }
    state.refused = missing;
    state.queue.push_back(work);
    drop(state);
    // Not under the lock, which is the first thing that the woken thread needs.
    if is_one_idle {
        pool.more.notify_one();
    }
    Ok(())
}

/// The main function of a thread of the pool.
fn serve(pool: &Pool) {
    let process = Process::current();
    let mut state = pool.lock();
    loop {
        while let Some(work) = state.queue.pop_front() {
            drop(state);
            work.run();
            // The work has called `fork` and come back in the child, too: what is queued here is the parent's.
            if Process::current() != process {
                return;
            }
            state = pool.lock();
        }
        state.queue.shrink_to(KEEP);
        state.idle += 1;
        let (locked, waited) = pool.more.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
        state = locked;
        state.idle -= 1;
        if waited.timed_out() && state.queue.is_empty() {
            state.threads -= 1;
            return;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whether it has been done, and whether it is wanted.
    struct Note(AtomicBool, AtomicBool);

    impl Note {
        fn new() -> Arc<Note> {
            Arc::new(Note(AtomicBool::new(false), AtomicBool::new(true)))
        }
    }

    impl Work for Note {
        fn run(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }

        fn is_wanted(&self) -> bool {
            self.1.load(Ordering::Relaxed)
        }
    }

    /// Otherwise there would be no thread for any work once as many as the limit have come and gone.
    #[test]
    fn a_thread_that_has_been_idle_ends_and_is_not_counted_any_more() {
        let (pool, work) = (Pool::new(), Note::new());
        pool.lock().threads = 2;
        pool.lock().queue.push_back(work.clone());
        serve(&pool);
        assert!(work.0.load(Ordering::Relaxed));
        let state = pool.lock();
        assert_eq!((state.threads, state.idle, state.queue.len()), (1, 0, 0));
    }

    /// While all threads are busy nothing else would take it out: its memory would grow without a bound.
    #[test]
    fn work_that_nobody_wants_leaves_the_queue_in_which_the_rest_keeps_its_order() {
        let pool = Pool::new();
        let mut wanted = vec![];
        for n in 0..10_000 {
            let work = Note::new();
            pool.lock().queue.push_back(work.clone());
            if n % 100 == 0 {
                wanted.push(work);
            } else {
                work.1.store(false, Ordering::Relaxed);
                pool.note_unwanted();
            }
            assert!(pool.lock().queue.len() <= 2 * (wanted.len() + KEEP));
        }
        let queue = &mut pool.lock().queue;
        queue.retain(|work| work.is_wanted());
        let is_same =
            |(a, b): (&Arc<dyn Work>, &Arc<Note>)| std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b));
        assert!(queue.len() == wanted.len() && queue.iter().zip(&wanted).all(is_same));
    }
}
