//! Looks a name up without blocking the runtime.
//!
//! The system's resolver blocks, for seconds if it must, and cannot be interrupted. So each lookup has a
//! thread of its own, which hands over its answer and ends.
//!
//! Ground rule: the answer is stored first and the waker taken after; the future leaves its waker first and
//! looks for the answer after. So one of the two always sees the other.

use super::no_address;
use crate::runtime::context;
use crate::runtime::virtual_clock::Hold;
use atomic_waker::AtomicWaker;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread;

type Answer = io::Result<Vec<SocketAddr>>;

/// What the lookup's thread and its future share.
#[derive(Debug, Default)]
struct Lookup {
    answer: Mutex<Option<Answer>>,
    waker: AtomicWaker,
}

/// The addresses of `host`, at least one. Fails also if no thread is to be had.
pub(super) async fn lookup(host: String, port: u16) -> Answer {
    let lookup = Arc::new(Lookup::default());
    let theirs = lookup.clone();
    // Virtual time waits for the answer: no timeout comes before a name that is found at once.
    let hold = context::with(Hold::new).ok();
    thread::Builder::new().name("mainspring-lookup".into()).spawn(move || {
        theirs.put((host.as_str(), port).to_socket_addrs().map(Iterator::collect));
        drop(hold);
    })?;
    let addrs = poll_fn(|cx| match lookup.take() {
        Some(answer) => Poll::Ready(answer),
        None => {
            // Cloned here, because a clone that panicked inside would leave the cell unusable.
            lookup.waker.register(&cx.waker().clone());
            lookup.take().map_or(Poll::Pending, Poll::Ready)
        }
    })
    .await?;
    if addrs.is_empty() { Err(no_address()) } else { Ok(addrs) }
}

impl Lookup {
    fn put(&self, answer: Answer) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        self.waker.wake();
    }

    fn take(&self) -> Option<Answer> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
