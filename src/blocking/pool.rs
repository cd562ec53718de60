//! The threads for work that blocks: one for each piece of work, up to a limit. Idle threads end.
//!
//! Ground rules:
//!
//! * There is one pool in a process, and it belongs to no runtime. A thread begins when there is more work than there are idle
//!   threads, and ends when it has been idle for [`IDLE`].
//! * Work begins in the order in which it came.
//! * An idle thread looks at the queue before it waits, and again after, whatever has ended the wait: so no work is
//!   left while a thread is idle.
//! * Threads are started under the lock: a caller that fails to start the only thread takes its work back, and no other work is
//!   left stranded. No foreign code runs under the lock.
//! * A child by `fork` has none of the threads, and may find its parent's lock taken by one of them. So the child has its own
//!   pool, and never looks at its parent's: the work that is queued there is the parent's.
//!
//! The crate `blocking` (1.7.0) would do, except for three things: its threads end only above their limit, and each idle thread
//! wakes twice a second forever; up to five closures wait behind an idle thread before there is another thread; and it does not
//! report when a closure never gets a thread.

use crate::fork::Process;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
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
}

/// The pool of the first process.
static FIRST: Pool = Pool::new();

/// The pool of a process.
struct Pool {
    state: Mutex<State>,
    /// Notified when there is work.
    more: Condvar,
    /// The pool of this process's child by `fork`. It is made in the child.
    of_child: OnceLock<Box<Pool>>,
}

struct State {
    queue: VecDeque<Arc<dyn Work>>,
    threads: usize,
    /// Threads that wait for work, including those that have been notified already.
    idle: usize,
}

impl Pool {
    const fn new() -> Pool {
        Pool {
            state: Mutex::new(State { queue: VecDeque::new(), threads: 0, idle: 0 }),
            more: Condvar::new(),
            of_child: OnceLock::new(),
        }
    }

    /// Returns this process's pool.
    fn current() -> io::Result<&'static Pool> {
        let generation = Process::watched()?.generation();
        Ok((0..generation).fold(&FIRST, |pool, _| pool.of_child.get_or_init(|| Box::new(Pool::new()))))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    let is_one_idle = state.idle > state.queue.len();
    if !is_one_idle && state.threads < LIMIT {
        match thread::Builder::new().name("mainspring-work".into()).spawn(|| serve(pool)) {
            Ok(_detached) => state.threads += 1,
            Err(error) if state.threads == 0 => {
                // The work is foreign: it is dropped without the lock.
                drop(state);
                drop(work);
                return Err(error);
            }
            // One of the existing threads will do the work.
            Err(_) => {}
        }
    }
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
    let mut state = pool.lock();
    loop {
        while let Some(work) = state.queue.pop_front() {
            drop(state);
            work.run();
            state = pool.lock();
        }
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

    struct Note(AtomicBool);

    impl Work for Note {
        fn run(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Otherwise there would be no thread for any work once as many as the limit have come and gone.
    #[test]
    fn a_thread_that_has_been_idle_ends_and_is_not_counted_any_more() {
        let (pool, work) = (Pool::new(), Arc::new(Note(AtomicBool::new(false))));
        pool.lock().threads = 2;
        pool.lock().queue.push_back(work.clone());
        serve(&pool);
        assert!(work.0.load(Ordering::Relaxed));
        let state = pool.lock();
        assert_eq!((state.threads, state.idle, state.queue.len()), (1, 0, 0));
    }
}
