//! `Peer`: what the measured runtimes have in common, so that each workload is written once.
//!
//! Ground rules:
//!
//! * Dispatch is static, and nothing is boxed or counted that the runtime itself does not box or count. Between a workload
//!   and a runtime there is at most a `match` on a result.
//! * Each runtime is used the way its own documentation uses it on one thread, and in the cheapest way if there are
//!   several; the peer's file says which.
//! * What a runtime lacks is absent here, too, and never imitated: [`Resets`] and the sockets of others. [`Http`] is for
//!   the two runtimes that are compared under hyper, each with the adapter to hyper that its own project offers.

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

/// A measured runtime. The value is its handle: zero-sized if the runtime keeps its handle in a thread-local.
pub trait Peer: Clone + 'static {
    /// The runtime's name on the command line and in tables.
    const NAME: &'static str;

    /// Its interval.
    type Interval: 'static;
    /// Its connected TCP socket.
    type Stream: 'static;
    /// Its listening TCP socket.
    type Listener: 'static;
    /// Its UDP socket.
    type Datagrams: 'static;
    /// The error of a timeout that has expired.
    type Elapsed: Debug + 'static;

    /// Makes a single-threaded runtime, with timers and sockets enabled, and runs `main` on it.
    ///
    /// # Panics
    ///
    /// If the system refuses a resource that the runtime needs.
    fn run<T>(main: impl AsyncFnOnce(Self) -> T) -> T;

    /// Spawns a task that is awaited. A task whose handle is dropped may be cancelled.
    fn spawn<F: Future + 'static>(&self, future: F) -> impl Future<Output = F::Output> + use<Self, F>;

    /// Spawns a task that is not awaited.
    fn detach<F: Future<Output = ()> + 'static>(&self, future: F);

    /// Wakes its own task once. Most runtimes let the other tasks run first.
    fn yield_now(&self) -> impl Future<Output = ()> + use<Self>;

    /// Waits until `duration` has passed.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + use<Self>;

    /// Waits until `deadline`.
    fn sleep_until(&self, deadline: Instant) -> impl Future<Output = ()> + use<Self>;

    /// Runs `future` for at most this duration.
    fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + use<Self, F>;

    /// Makes an interval that ticks at `start`, and every `period` from then on.
    fn interval_at(&self, start: Instant, period: Duration) -> Self::Interval;

    /// Waits for the next tick.
    fn tick(interval: &mut Self::Interval) -> impl Future<Output = ()>;

    /// Takes over a connected socket, which is in blocking mode.
    ///
    /// # Errors
    ///
    /// The errors of the runtime and the system.
    fn adopt(&self, stream: TcpStream) -> io::Result<Self::Stream>;

    /// Reads once, at most as many bytes as `buffer` is long.
    ///
    /// # Errors
    ///
    /// The errors of the system. The buffer comes back in any case.
    fn read(stream: &mut Self::Stream, buffer: Vec<u8>)
    -> impl Future<Output = (io::Result<usize>, Vec<u8>)>;

    /// Writes all of `buffer`.
    ///
    /// # Errors
    ///
    /// The errors of the system. The buffer comes back in any case.
    fn write(stream: &mut Self::Stream, buffer: Vec<u8>) -> impl Future<Output = (io::Result<()>, Vec<u8>)>;

    /// Takes over a listening socket, which is in blocking mode.
    ///
    /// # Errors
    ///
    /// The errors of the runtime and the system.
    fn adopt_listener(&self, listener: TcpListener) -> io::Result<Self::Listener>;

    /// Waits for a connection.
    ///
    /// # Errors
    ///
    /// The errors of the runtime and the system.
    fn accept(listener: &Self::Listener) -> impl Future<Output = io::Result<Self::Stream>>;

    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// The errors of the runtime and the system.
    fn connect(&self, address: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>>;

    /// Takes over a connected UDP socket, which is in blocking mode.
    ///
    /// # Errors
    ///
    /// The errors of the runtime and the system.
    fn adopt_datagrams(&self, socket: UdpSocket) -> io::Result<Self::Datagrams>;

    /// Sends `buffer` as one datagram.
    ///
    /// # Errors
    ///
    /// The errors of the system. The buffer comes back in any case.
    fn send(socket: &Self::Datagrams, buffer: Vec<u8>) -> impl Future<Output = (io::Result<usize>, Vec<u8>)>;

    /// Receives one datagram, of which at most as many bytes as `buffer` is long.
    ///
    /// # Errors
    ///
    /// The errors of the system. The buffer comes back in any case.
    fn receive(
        socket: &Self::Datagrams,
        buffer: Vec<u8>,
    ) -> impl Future<Output = (io::Result<usize>, Vec<u8>)>;
}

/// A runtime whose sleeps can be reset to another deadline.
pub trait Resets: Peer {
    /// The type of a sleep.
    type Sleep: Future<Output = ()> + 'static;
    /// The type of a moment: the runtime's own, so that there is no conversion that its users do not make.
    type Moment: Copy + Add<Duration, Output = Self::Moment> + Sub<Duration, Output = Self::Moment> + 'static;

    /// Returns the present moment.
    fn now() -> Self::Moment;

    /// Like [`sleep_until`](Peer::sleep_until).
    fn resettable(&self, deadline: Self::Moment) -> Self::Sleep;

    /// Resets `sleep` to another deadline.
    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Self::Moment);
}

/// A runtime that has its own function to copy two streams into each other.
pub trait Proxies: Peer {
    /// Copies both ways at once, 64 KiB at a time, until both have ended; returns how many bytes went from `a` to `b` and
    /// from `b` to `a`.
    ///
    /// # Errors
    ///
    /// The errors of the system.
    fn copy_both_ways(
        a: &mut Self::Stream,
        b: &mut Self::Stream,
    ) -> impl Future<Output = io::Result<(u64, u64)>>;
}

/// A runtime with a queue whose values come out at their deadlines.
pub trait Queues: Resets {
    /// The type of the queue.
    type Queue: Default + 'static;
    /// The type of a key, which names a value in the queue.
    type Key: 'static;

    /// Inserts `value`, which comes out at `deadline`.
    fn insert(queue: &mut Self::Queue, value: usize, deadline: Self::Moment) -> Self::Key;

    /// Moves a value to another deadline.
    fn move_to(queue: &mut Self::Queue, key: &Self::Key, deadline: Self::Moment);

    /// Removes a value.
    fn remove(queue: &mut Self::Queue, key: &Self::Key) -> usize;

    /// Waits for the next value; `None` if there is none left.
    fn next(queue: &mut Self::Queue) -> impl Future<Output = Option<usize>>;
}

/// A runtime on which hyper runs.
pub trait Http: Peer {
    /// The runtime's TCP socket in the form that hyper takes.
    type Io: hyper::rt::Read + hyper::rt::Write + Unpin + 'static;
    /// The runtime's timers in the form that hyper takes.
    type Timer: hyper::rt::Timer + Send + Sync + 'static;

    /// Converts a socket for hyper.
    fn io(stream: Self::Stream) -> Self::Io;

    /// Returns what makes timers for hyper.
    fn timer() -> Self::Timer;
}

/// Takes a task's result out of the handle of a runtime that reports whether the task ended well.
struct Joined<J>(J);

impl<T, E: Debug, J: Future<Output = Result<T, E>> + Unpin> Future for Joined<J> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(cx).map(|result| result.expect("no task of a workload panics"))
    }
}
