//! The busy sides of W10: work that runs next to the measured tasks, as fast as it can, for a stretch of time.
//!
//! Ground rules:
//!
//! * A busy side ends by the clock; no timer has to fire for it. So a runtime on which nothing else runs in the
//!   meantime shows that, and the busy side still ends.
//! * A computation takes a fixed time, not a number of steps, so that it is the same for every peer.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use mainspring_bench::peers::Peer;
use rustix::net::sockopt::set_socket_linger;
use smol::channel::{self, Receiver, Sender};

use super::gate::Gate;
use crate::scale::Scale;

const BYTES: usize = 64;
/// How long a task of a crowd computes between two yields, and a task of a herd each time it is woken.
const CROWD_COMPUTES: Duration = Duration::from_micros(50);
const HERD_COMPUTES: Duration = Duration::from_micros(5);

/// A kind of busy side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    /// A task sends a datagram to itself and receives it.
    Datagrams,
    /// A task connects to its own listener, accepts, and closes both ends.
    Connections,
    /// Many tasks compute between yields.
    Crowd,
    /// Many tasks wait for one event, and compute when it comes. The event comes again when all have computed.
    Herd,
    /// Two tasks send a message back and forth over channels of capacity one. The channels are async-channel's, for
    /// every peer.
    Channel,
}

/// The tasks of a busy side, which are awaited when the stretch is over.
pub(super) type Tasks = Vec<Pin<Box<dyn Future<Output = ()>>>>;

impl Busy {
    /// Starts the tasks of the busy side. None has run when this returns.
    ///
    /// # Errors
    ///
    /// The errors of the sockets.
    pub(super) fn start<P: Peer>(self, peer: &P, stretch: &Rc<Stretch>, scale: &Scale) -> io::Result<Tasks> {
        let mut tasks = Tasks::new();
        match self {
            Busy::Datagrams => {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
                socket.connect(socket.local_addr()?)?;
                let socket = peer.adopt_datagrams(socket)?;
                tasks.push(Box::pin(peer.spawn(datagrams::<P>(socket, stretch.clone()))));
            }
            Busy::Connections => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                // Accepted sockets inherit this option. So they are reset when they are closed, no address stays in
                // use for a while, and the system does not run out of addresses.
                set_socket_linger(&listener, Some(Duration::ZERO))?;
                tasks.push(Box::pin(peer.spawn(connections(peer.clone(), listener, stretch.clone()))));
            }
            Busy::Crowd => {
                for _ in 0..scale.crowd {
                    tasks.push(Box::pin(peer.spawn(one_of_a_crowd(peer.clone(), stretch.clone()))));
                }
            }
            Busy::Herd => {
                let herd = Rc::new(Herd {
                    call: Cell::new(0),
                    last: Cell::new(false),
                    waiting: RefCell::default(),
                    done: Gate::new(0),
                });
                for _ in 0..scale.herd {
                    tasks.push(Box::pin(peer.spawn(one_of_a_herd(herd.clone()))));
                }
                tasks.push(Box::pin(peer.spawn(call_the_herd(herd, scale.herd, stretch.clone()))));
            }
            Busy::Channel => {
                let (ping, pinged) = channel::bounded(1);
                let (pong, ponged) = channel::bounded(1);
                tasks.push(Box::pin(peer.spawn(ping_and_wait(ping, ponged, stretch.clone()))));
                tasks.push(Box::pin(peer.spawn(answer_each(pinged, pong))));
            }
        }
        Ok(tasks)
    }
}

async fn datagrams<P: Peer>(socket: P::Datagrams, stretch: Rc<Stretch>) {
    let mut buffer = vec![7; BYTES];
    while stretch.another() {
        let (sent, filled) = P::send(&socket, buffer).await;
        assert_eq!(sent.expect("the loopback takes a datagram"), BYTES);
        let (received, filled) = P::receive(&socket, filled).await;
        assert_eq!(received.expect("the loopback delivers a datagram"), BYTES);
        buffer = filled;
    }
}

async fn connections<P: Peer>(peer: P, listener: TcpListener, stretch: Rc<Stretch>) {
    let address = listener.local_addr().expect("the listener is bound");
    let listener = peer.adopt_listener(listener).expect("the runtime takes a listener");
    while stretch.another() {
        let client = peer.connect(address).await.expect("the loopback connects");
        let server = P::accept(&listener).await.expect("a connection is waiting");
        // This end is the one that resets.
        drop(server);
        drop(client);
    }
}

async fn one_of_a_crowd<P: Peer>(peer: P, stretch: Rc<Stretch>) {
    while stretch.another() {
        compute(CROWD_COMPUTES);
        peer.yield_now().await;
    }
}

async fn ping_and_wait(ping: Sender<()>, ponged: Receiver<()>, stretch: Rc<Stretch>) {
    while stretch.another() {
        ping.send(()).await.expect("the other waits for it");
        ponged.recv().await.expect("the other answers each");
    }
}

async fn answer_each(pinged: Receiver<()>, pong: Sender<()>) {
    while pinged.recv().await.is_ok() {
        pong.send(()).await.expect("the other waits for it");
    }
}

/// The state that the tasks of a herd share.
struct Herd {
    /// How often the herd was called.
    call: Cell<u64>,
    /// Whether the call was the last, after which there is nothing to do.
    last: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
    done: Gate,
}

impl Herd {
    /// Waits for the call after the one with that number.
    async fn called_after(&self, call: u64) {
        poll_fn(|cx| {
            if self.call.get() != call {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Wakes all waiting tasks.
    fn call(&self) {
        self.call.set(self.call.get() + 1);
        let mut waiting = self.waiting.take();
        waiting.drain(..).for_each(Waker::wake);
        // No task has run in between; the memory is kept for the next call.
        self.waiting.replace(waiting);
    }
}

async fn one_of_a_herd(herd: Rc<Herd>) {
    for call in 0.. {
        herd.called_after(call).await;
        if herd.last.get() {
            return;
        }
        compute(HERD_COMPUTES);
        herd.done.pass();
    }
}

async fn call_the_herd(herd: Rc<Herd>, size: usize, stretch: Rc<Stretch>) {
    loop {
        herd.done.again(size);
        herd.call();
        herd.done.all_passed().await;
        stretch.count(size as u64);
        if stretch.is_over() {
            break;
        }
    }
    herd.last.set(true);
    herd.call();
}

/// Keeps the CPU busy for `length`.
fn compute(length: Duration) {
    let start = Instant::now();
    while start.elapsed() < length {}
}

/// A stretch of time in which a busy side works, and what it achieves.
#[derive(Debug)]
pub(super) struct Stretch {
    begin: Cell<Instant>,
    end: Cell<Instant>,
    /// When the busy side last read the clock. After its end, this is when it ended.
    looked: Cell<Instant>,
    done: Cell<u64>,
}

impl Stretch {
    /// The clock is read once per this many operations.
    const LOOK: u64 = 64;

    /// Makes a stretch that has no length yet.
    pub(super) fn new() -> Stretch {
        let now = Instant::now();
        Stretch { begin: Cell::new(now), end: Cell::new(now), looked: Cell::new(now), done: Cell::new(0) }
    }

    /// Begins the stretch, which is `length` long, now.
    pub(super) fn begin(&self, length: Duration) {
        let now = Instant::now();
        self.begin.set(now);
        self.end.set(now + length);
    }

    /// Returns when the stretch ends.
    pub(super) fn end(&self) -> Instant {
        self.end.get()
    }

    /// Returns how long the busy side has worked, in nanoseconds of wall-clock time, and how many operations it has
    /// done.
    pub(super) fn outcome(&self) -> (f64, f64) {
        ((self.looked.get() - self.begin.get()).as_nanos() as f64, self.done.get() as f64)
    }

    /// Returns whether there is time for one more operation, and counts it. There is always time for the first.
    fn another(&self) -> bool {
        let done = self.done.get();
        // Once this is true it stays true, whichever task asks.
        if done > 0 && done.is_multiple_of(Stretch::LOOK) && self.is_over() {
            return false;
        }
        self.count(1);
        true
    }

    fn count(&self, done: u64) {
        self.done.set(self.done.get() + done);
    }

    fn is_over(&self) -> bool {
        self.looked.set(Instant::now());
        self.looked.get() >= self.end.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_ends_for_all_who_ask_and_counts_what_was_granted() {
        let stretch = Stretch::new();
        stretch.begin(Duration::from_millis(5));
        let mut granted = 0.0;
        while stretch.another() {
            granted += 1.0;
        }
        assert!(!stretch.another());
        let (nanos, done) = stretch.outcome();
        assert_eq!((granted, done % Stretch::LOOK as f64), (done, 0.0));
        assert!(granted > 0.0 && nanos >= 5e6, "{done} in {nanos} ns");
    }

    #[test]
    fn what_is_computed_takes_its_time() {
        let start = Instant::now();
        compute(CROWD_COMPUTES);
        assert!(start.elapsed() >= CROWD_COMPUTES);
    }
}
