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
//! * A child by `fork` has none of the threads, so it counts from zero. What was queued is its parent's to do, and is forgotten.
//!
//! The crate `blocking` (1.7.0) would do, but for three things: its threads end only above their limit, and each idle one wakes
//! twice a second for ever; up to five closures wait behind an idle thread before there is another; and a closure that never
//! gets a thread is not told.

use crate::fork::Process;
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
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

static POOL: Mutex<Pool> = Mutex::new(Pool { process: None, queue: VecDeque::new(), threads: 0, idle: 0 });

/// There is work.
static MORE: Condvar = Condvar::new();

struct Pool {
    /// Whose threads are counted.
    process: Option<Process>,
    queue: VecDeque<Arc<dyn Work>>,
    threads: usize,
    /// Those that wait for work, also if they have been told of it already.
    idle: usize,
}

/// Has `work` done as soon as there is a thread for it.
///
/// # Errors
///
/// The system's, if it cannot make a thread and there is none.
pub(super) fn submit(work: Arc<dyn Work>) -> io::Result<()> {
    let process = Some(Process::watched()?);
    let mut pool = lock();
    if pool.process != process {
        // To drop the parent's closures here would run what is to happen there.
        mem::forget(mem::take(&mut pool.queue));
        *pool = Pool { process, queue: VecDeque::new(), threads: 0, idle: 0 };
    }
    if pool.idle > pool.queue.len() {
        MORE.notify_one();
    } else if pool.threads < LIMIT {
        match thread::Builder::new().name("mainspring-work".into()).spawn(serve) {
            Ok(_detached) => pool.threads += 1,
            Err(error) if pool.threads == 0 => {
                // It is foreign, and goes without the lock.
                drop(pool);
                drop(work);
                return Err(error);
            }
            // One of those that are there comes to it.
            Err(_) => {}
        }
    }
    pool.queue.push_back(work);
    Ok(())
}

/// What a thread of the pool does.
fn serve() {
    let mut pool = lock();
    loop {
        while let Some(work) = pool.queue.pop_front() {
            drop(pool);
            work.run();
            pool = lock();
        }
        pool.idle += 1;
        let (locked, waited) = MORE.wait_timeout(pool, IDLE).unwrap_or_else(PoisonError::into_inner);
        pool = locked;
        pool.idle -= 1;
        if waited.timed_out() && pool.queue.is_empty() {
            pool.threads -= 1;
            return;
        }
    }
}

fn lock() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}
