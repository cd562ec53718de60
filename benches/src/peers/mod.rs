//! `Peer`: what the measured runtimes have in common, so that each workload is written once.
//!
//! Ground rules:
//!
//! * Dispatch is static, and nothing is boxed or counted that the runtime itself does not box or count: what
//!   stands between a workload and a runtime is at most a `match` on a result.
//! * Each runtime is used the way its own documentation uses it on one thread, with the cheapest of its ways
//!   where there are several; the file of a peer says which.
//! * What a runtime lacks is absent here too, never imitated: [`Resets`] and the sockets of others. [`Http`] is for the two
//!   that are compared under hyper, each with what its own project joins it to hyper by.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::{Add, Sub};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
mod compio;
mod mainspring;
#[cfg(target_os = "linux")]
mod monoio;
mod smol;
mod tokio;
mod zruntime;

#[cfg(target_os = "linux")]
pub use self::compio::Compio;
pub use self::mainspring::Mainspring;
#[cfg(target_os = "linux")]
pub use self::monoio::{Monoio, MonoioLegacy};
pub use self::smol::Smol;
pub use self::tokio::Tokio;
pub use self::zruntime::Zruntime;

/// A runtime that is measured. The value is its handle: of no size where the runtime keeps it in a
/// thread-local.
pub trait Peer: Clone + 'static {
    /// What it is called on the command line and in tables.
    const NAME: &'static str;

    /// Its interval.
    type Interval: 'static;
    /// Its connected TCP socket.
    type Stream: 'static;
    /// Its listening TCP socket.
    type Listener: 'static;
    /// Its UDP socket.
    type Datagrams: 'static;
    /// What a timeout ends with.
    type Elapsed: Debug + 'static;

    /// Makes a runtime of one thread, with what timers and sockets need, and runs `main` on it.
    ///
    /// # Panics
    ///
    /// If the system refuses what the runtime needs.
    fn run<T>(main: impl AsyncFnOnce(Self) -> T) -> T;

    /// Starts a task, to be awaited. A task whose handle is dropped may be cancelled.
    fn spawn<F: Future + 'static>(&self, future: F) -> impl Future<Output = F::Output> + use<Self, F>;

    /// Starts a task that nobody awaits.
    fn detach<F: Future<Output = ()> + 'static>(&self, future: F);

    /// Wakes its own task once. Most runtimes let the others run first.
    fn yield_now(&self) -> impl Future<Output = ()> + use<Self>;

    /// Ends after `duration`.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + use<Self>;

    /// Ends at `deadline`.
    fn sleep_until(&self, deadline: Instant) -> impl Future<Output = ()> + use<Self>;

    /// Gives `future` so long and no longer.
    fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + use<Self, F>;

    /// Ticks at `start`, and every `period` from then on.
    fn interval_at(&self, start: Instant, period: Duration) -> Self::Interval;

    /// The next tick.
    fn tick(interval: &mut Self::Interval) -> impl Future<Output = ()>;

    /// Takes over a connected socket, which is in blocking mode.
    ///
    /// # Errors
    ///
    /// Those of the runtime and the system.
    fn adopt(&self, stream: TcpStream) -> io::Result<Self::Stream>;

    /// Reads once, at most as much as `buffer` is long.
    ///
    /// # Errors
    ///
    /// Those of the system. The buffer comes back in any case.
    fn read(stream: &mut Self::Stream, buffer: Vec<u8>)
    -> impl Future<Output = (io::Result<usize>, Vec<u8>)>;

    /// Writes all of `buffer`.
    ///
    /// # Errors
    ///
    /// Those of the system. The buffer comes back in any case.
    fn write(stream: &mut Self::Stream, buffer: Vec<u8>) -> impl Future<Output = (io::Result<()>, Vec<u8>)>;

    /// Takes over a listening socket, which is in blocking mode.
    ///
    /// # Errors
    ///
    /// Those of the runtime and the system.
    fn adopt_listener(&self, listener: TcpListener) -> io::Result<Self::Listener>;

    /// Waits for a connection.
    ///
    /// # Errors
    ///
    /// Those of the runtime and the system.
    fn accept(listener: &Self::Listener) -> impl Future<Output = io::Result<Self::Stream>>;

    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// Those of the runtime and the system.
    fn connect(&self, address: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>>;

    /// Takes over a connected UDP socket, which is in blocking mode.
    ///
    /// # Errors
    ///
    /// Those of the runtime and the system.
    fn adopt_datagrams(&self, socket: UdpSocket) -> io::Result<Self::Datagrams>;

    /// Sends `buffer` as one datagram.
    ///
    /// # Errors
    ///
    /// Those of the system. The buffer comes back in any case.
    fn send(socket: &Self::Datagrams, buffer: Vec<u8>) -> impl Future<Output = (io::Result<usize>, Vec<u8>)>;

    /// Receives one datagram, at most as much of it as `buffer` is long.
    ///
    /// # Errors
    ///
    /// Those of the system. The buffer comes back in any case.
    fn receive(
        socket: &Self::Datagrams,
        buffer: Vec<u8>,
    ) -> impl Future<Output = (io::Result<usize>, Vec<u8>)>;
}

/// A runtime whose sleeps can be given another deadline.
pub trait Resets: Peer {
    /// The sleep, by name.
    type Sleep: Future<Output = ()> + 'static;
    /// The moment that it takes: the runtime's own, so that nothing is converted that its users do not convert.
    type Moment: Copy + Add<Duration, Output = Self::Moment> + Sub<Duration, Output = Self::Moment> + 'static;

    /// The present moment.
    fn now() -> Self::Moment;

    /// As [`sleep_until`](Peer::sleep_until).
    fn resettable(&self, deadline: Self::Moment) -> Self::Sleep;

    /// Gives `sleep` another deadline.
    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Self::Moment);
}

/// A runtime that copies two streams into each other by itself.
pub trait Proxies: Peer {
    /// Copies both ways at once, 64 KiB at a time, until both have ended; returns how many bytes went from `a` to `b` and
    /// from `b` to `a`.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn copy_both_ways(
        a: &mut Self::Stream,
        b: &mut Self::Stream,
    ) -> impl Future<Output = io::Result<(u64, u64)>>;
}

/// A runtime with a queue of values that come out when their time has come.
pub trait Queues: Resets {
    /// The queue.
    type Queue: Default + 'static;
    /// What names a value in it.
    type Key: 'static;

    /// Puts `value` in, to come out at `deadline`.
    fn insert(queue: &mut Self::Queue, value: usize, deadline: Self::Moment) -> Self::Key;

    /// Gives a value another deadline.
    fn move_to(queue: &mut Self::Queue, key: &Self::Key, deadline: Self::Moment);

    /// Takes a value out.
    fn remove(queue: &mut Self::Queue, key: &Self::Key) -> usize;

    /// Waits for the next value; `None` if there is none left.
    fn next(queue: &mut Self::Queue) -> impl Future<Output = Option<usize>>;
}

/// A runtime on which hyper runs.
pub trait Http: Peer {
    /// Its TCP socket as hyper takes it.
    type Io: hyper::rt::Read + hyper::rt::Write + Unpin + 'static;
    /// Its timers as hyper takes them.
    type Timer: hyper::rt::Timer + Send + Sync + 'static;

    /// Makes a socket one for hyper.
    fn io(stream: Self::Stream) -> Self::Io;

    /// What makes timers for hyper.
    fn timer() -> Self::Timer;
}

/// Takes a task's result out of the handle of a runtime that tells whether the task ended well.
struct Joined<J>(J);

impl<T, E: Debug, J: Future<Output = Result<T, E>> + Unpin> Future for Joined<J> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(cx).map(|result| result.expect("no task of a workload panics"))
    }
}
