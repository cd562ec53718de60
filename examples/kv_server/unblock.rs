//! Work that blocks, on a thread of its own.

use std::thread;

use futures::channel::oneshot;
use mainspring::time::stand_still;

/// Runs `job` on another thread, and returns what it returns. Virtual time waits for it.
///
/// # Panics
///
/// If the job does.
pub(crate) async fn unblock<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> T {
    let (answer, done) = oneshot::channel();
    let still = stand_still();
    thread::spawn(move || {
        // Whoever asked may have gone.
        let _ = answer.send(job());
        // After the answer: what it woke is seen before time moves.
        drop(still);
    });
    done.await.expect("the job does not panic")
}
