//! The threads for work that blocks: as many as there is work, up to a limit, and none that stays idle.
//!
//! Ground rules:
//!
//! * There is one pool in a process, and it belongs to no runtime. A thread begins when there is more work than threads that
//!   are idle, and ends when it has been idle for [`IDLE`].
//! * Work begins in the order in which it came.
//! * A thread that is idle looks at the queue before it waits, and after, whatever has ended the wait: so no work is
//!   left while a thread is idle.
//! * Threads are begun under the lock: who fails to begin the only one takes the work back, and strands nobody else's. No
//!   foreign code runs under it.
//! * A child by `fork` has none of the threads, and may find its parent's lock taken by one of them. So it has a pool of its own,
//!   and never looks at its parent's: what is queued there is the parent's to do.
//!
//! The crate `blocking` (1.7.0) would do, but for three things: its threads end only above their limit, and each idle one wakes
//! twice a second for ever; up to five closures wait behind an idle thread before there is another; and a closure that never
//! gets a thread is not told.

use crate::fork::Process;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// How many threads there are at most.
const LIMIT: usize = 512;

/// How long a thread waits for work until it ends.
const IDLE: Duration = Duration::from_secs(1);

/// Something to be done on a thread of the pool.
pub(super) trait Work: Send + Sync {
    /// Does it. Must not panic.
    fn run(self: Arc<Self>);
}

/// The pool of the first process.
static FIRST: Pool = Pool::new();

/// A process's.
struct Pool {
    state: Mutex<State>,
    /// There is work.
    more: Condvar,
    /// The pool of this process's child, in which that is made.
    of_child: OnceLock<Box<Pool>>,
}

struct State {
    queue: VecDeque<Arc<dyn Work>>,
    threads: usize,
    /// Those that wait for work, also if they have been told of it already.
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

    /// This process's.
    fn current() -> io::Result<&'static Pool> {
        let generation = Process::watched()?.generation();
        Ok((0..generation).fold(&FIRST, |pool, _| pool.of_child.get_or_init(|| Box::new(Pool::new()))))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has `work` done as soon as there is a thread for it.
///
/// # Errors
///
/// The system's, if it cannot make a thread and there is none.
pub(super) fn submit(work: Arc<dyn Work>) -> io::Result<()> {
    let pool = Pool::current()?;
    let mut state = pool.lock();
    let is_one_idle = state.idle > state.queue.len();
    if !is_one_idle && state.threads < LIMIT {
        match thread::Builder::new().name("mainspring-work".into()).spawn(|| serve(pool)) {
            Ok(_detached) => state.threads += 1,
            Err(error) if state.threads == 0 => {
                // It is foreign, and goes without the lock.
                drop(state);
                drop(work);
                return Err(error);
            }
            // One of those that are there comes to it.
            Err(_) => {}
        }
    }
    state.queue.push_back(work);
    drop(state);
    // Not under the lock, which is the first thing that who is woken needs.
    if is_one_idle {
        pool.more.notify_one();
    }
    Ok(())
}

/// What a thread of the pool does.
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
