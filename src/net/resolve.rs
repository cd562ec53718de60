//! Looks a name up without blocking the runtime.
//!
//! The system's resolver blocks, for seconds if it must, and cannot be interrupted. So each lookup has a
//! thread of its own, which hands over its answer and ends.
//!
//! Ground rules:
//!
//! * The answer is stored first and the waker taken after; the future leaves its waker first and looks for the answer
//!   after. So one of the two always sees the other.
//! * What the cell clones and drops inside is a [`Task`], which is a count of references and no foreign code: foreign
//!   code that panicked there would leave the cell dead. The waker itself is cloned and dropped outside.
//! * The lookup's thread belongs to nobody, so a waker that panics on it is only reported.

use crate::panics::quietly;
use crate::runtime::{Handle, context};
use atomic_waker::AtomicWaker;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

type Answer = io::Result<Vec<SocketAddr>>;

/// What the lookup's thread and its future share.
#[derive(Debug, Default)]
struct Lookup {
    answer: Mutex<Option<Answer>>,
    waker: AtomicWaker,
}

/// The task that waits for the answer. The future keeps one reference for as long as the cell may hold another, so that
/// the cell never drops the last.
#[derive(Debug)]
struct Task(Waker);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake_by_ref();
    }
}

/// Looks the addresses of `host` up. Fails also if the system cannot make a thread.
pub(super) async fn lookup(host: String, port: u16) -> Answer {
    let lookup = Arc::new(Lookup::default());
    let theirs = lookup.clone();
    // Virtual time waits for the answer: no timeout comes before a name that is found at once.
    let hold = context::with(Handle::hold_time).ok();
    let look_up = move || {
        theirs.put((host.as_str(), port).to_socket_addrs().map(Iterator::collect));
        drop((theirs, hold));
    };
    thread::Builder::new().name("mainspring-lookup".into()).spawn(|| quietly(look_up))?;
    let mut task = None;
    poll_fn(|cx| lookup.poll(&mut task, cx)).await
}

impl Lookup {
    /// Looks for the answer, and else leaves a waker, of which `task` keeps a reference.
    fn poll(&self, task: &mut Option<Arc<Task>>, cx: &mut Context<'_>) -> Poll<Answer> {
        if let Some(answer) = self.take() {
            return Poll::Ready(answer);
        }
        if !task.as_ref().is_some_and(|task| task.0.will_wake(cx.waker())) {
            let new = Arc::new(Task(cx.waker().clone()));
            self.waker.register(&new.clone().into());
            // Dropped only now that the cell has let go of it.
            drop(task.replace(new));
        }
        self.take().map_or(Poll::Pending, Poll::Ready)
    }

    fn put(&self, answer: Answer) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        self.waker.wake();
    }

    fn take(&self) -> Option<Answer> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct PanicsInDrop;

    impl Wake for PanicsInDrop {
        fn wake(self: Arc<Self>) {
            std::mem::forget(self);
        }
    }

    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic!("in the drop");
        }
    }

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_waker_that_panics_as_it_is_replaced_leaves_a_lookup_that_can_be_awaited() {
        let (lookup, mut task) = (Lookup::default(), None);
        let count = Arc::new(Count::default());
        let good = Waker::from(count.clone());
        let mut good = Context::from_waker(&good);
        {
            let bad = Waker::from(Arc::new(PanicsInDrop));
            assert!(lookup.poll(&mut task, &mut Context::from_waker(&bad)).is_pending());
        }
        let replaced = catch_unwind(AssertUnwindSafe(|| lookup.poll(&mut task, &mut good)));
        assert!(replaced.is_err());
        assert!(lookup.poll(&mut task, &mut good).is_pending());
        lookup.put(Ok(Vec::new()));
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(lookup.poll(&mut task, &mut good).is_ready());
    }
}
