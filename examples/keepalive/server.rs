//! The server: one task and one timer per connection.
//!
//! Ground rules:
//! * A connection's task owns its socket and its timer; no other task touches them. The timer is made once and pushed back by
//!   every heartbeat, so a heartbeat neither allocates nor takes a lock.
//! * Within one poll the socket is checked before the timer. The runtime delivers I/O events before it fires timers that are
//!   due, and a timeout, unlike a sleep, ends in no other way. Together this means: a heartbeat that arrived in time keeps its
//!   connection, however long the process was delayed after that. (One that arrives after its time, while the expiry is on its way,
//!   may or may not.)
//! * The pool does not decide what is reported. It passes events to its observer.

use std::cell::Cell;
use std::future::{Future, Pending, pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures::AsyncRead;
use mainspring::net::{TcpListener, TcpStream};
use mainspring::spawn;
use mainspring::time::{Instant, Timeout, timeout_at};

use crate::accept::Backoff;

/// An event of one connection, which the pool passes to its observer.
#[derive(Debug)]
pub(crate) enum Event {
    /// The connection was accepted.
    Accepted,
    /// The connection was silent for too long and has been closed.
    Expired {
        /// The time between its last heartbeat and the moment its expiry was noticed.
        silence: Duration,
        heartbeats: u64,
    },
    /// The client closed it.
    Left { heartbeats: u64 },
    /// The connection broke.
    Failed(io::Error),
}

/// The connections, and their totals.
pub(crate) struct Pool {
    expire: Duration,
    observer: Box<dyn Fn(SocketAddr, Event)>,
    /// Counted where the clients' thread can see it, so that they do not overrun the listener's queue.
    accepted: Arc<AtomicUsize>,
    open: Cell<usize>,
    heartbeats: Cell<u64>,
}

impl Pool {
    pub(crate) fn new(expire: Duration, observer: impl Fn(SocketAddr, Event) + 'static) -> Rc<Self> {
        Rc::new(Self {
            expire,
            observer: Box::new(observer),
            accepted: Arc::default(),
            open: Cell::new(0),
            heartbeats: Cell::new(0),
        })
    }

    /// The count of connections accepted so far.
    pub(crate) fn accepted(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.accepted)
    }

    /// How many connections are open now.
    pub(crate) fn open(&self) -> usize {
        self.open.get()
    }

    /// How many heartbeats were read so far, from all connections.
    pub(crate) fn heartbeats(&self) -> u64 {
        self.heartbeats.get()
    }

    /// Accepts connections as long as the listener works. Returns the error with which it fails.
    pub(crate) async fn serve(self: Rc<Self>, listener: TcpListener) -> io::Error {
        let mut backoff = Backoff::default();
        loop {
            match backoff.accept(&listener).await {
                Ok((stream, peer)) => {
                    let now = Instant::now();
                    backoff.reset();
                    self.open.set(self.open.get() + 1);
                    // Relaxed: only a count. It publishes nothing else.
                    self.accepted.fetch_add(1, Ordering::Relaxed);
                    (self.observer)(peer, Event::Accepted);
                    let pool = Rc::clone(&self);
                    // The handle is dropped, which detaches the task: it ends with its connection.
                    drop(spawn(async move {
                        let ending = pool.watch(stream, now).await;
                        pool.open.set(pool.open.get() - 1);
                        (pool.observer)(peer, ending);
                    }));
                }
                Err(error) => {
                    if let Err(lost) = backoff.after(error) {
                        return lost;
                    }
                }
            }
        }
    }

    /// Reads one connection's heartbeats until it ends, and returns how it ended. The socket is closed on return.
    ///
    /// `last` is when data last arrived on it: at first, when it was accepted.
    async fn watch(&self, mut stream: TcpStream, mut last: Instant) -> Event {
        let mut heartbeats = 0;
        let mut buffer = [0; 256];
        // A duration too long to add means never; a day that is far enough away is as good.
        let expiry_after =
            |last: Instant| last.checked_add(self.expire).unwrap_or(last + Duration::from_secs(1 << 30));
        let mut expiry = pin!(timeout_at(expiry_after(last), pending()));
        loop {
            match next(&mut stream, &mut buffer, expiry.as_mut()).await {
                Next::Read(Ok(0)) => return Event::Left { heartbeats },
                Next::Read(Ok(bytes)) => {
                    last = Instant::now();
                    expiry.as_mut().reset(expiry_after(last));
                    // Every byte keeps the connection; every line counts as a heartbeat.
                    let lines = buffer[..bytes].iter().filter(|byte| **byte == b'\n').count() as u64;
                    heartbeats += lines;
                    self.heartbeats.set(self.heartbeats.get() + lines);
                }
                Next::Read(Err(error)) => return Event::Failed(error),
                Next::Expired => return Event::Expired { silence: last.elapsed(), heartbeats },
            }
        }
    }
}

/// What happens next on a connection.
enum Next {
    Read(io::Result<usize>),
    Expired,
}

/// Waits for bytes or for the expiry. If both are there, the bytes win.
async fn next(stream: &mut TcpStream, buffer: &mut [u8], mut expiry: Pin<&mut Timeout<Pending<()>>>) -> Next {
    poll_fn(|context| {
        if let Poll::Ready(read) = Pin::new(&mut *stream).poll_read(context, buffer) {
            return Poll::Ready(Next::Read(read));
        }
        expiry.as_mut().poll(context).map(|_elapsed| Next::Expired)
    })
    .await
}
