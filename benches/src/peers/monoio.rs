//! monoio, twice: on io_uring, which its documentation recommends, and on its legacy driver (mio), which is cheaper
//! where there is no I/O. Timers are enabled, which is not the default. It has no `yield_now`: a future that wakes
//! itself once is used instead. monoio polls a task that wakes itself again before any other task, and checks its
//! timers only when no task is ready.

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::pin::Pin;
use std::time::{Duration, Instant};

use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::{IoUringDriver, LegacyDriver, RuntimeBuilder, net, time};
use smol::future;

use super::{Peer, Resets};

/// monoio on one of its drivers.
#[derive(Debug)]
pub struct MonoioOn<D>(PhantomData<D>);

/// monoio on io_uring.
pub type Monoio = MonoioOn<IoUringDriver>;
/// monoio on mio.
pub type MonoioLegacy = MonoioOn<LegacyDriver>;

/// What differs between the two drivers.
pub trait Driver: 'static {
    /// The peer's name.
    const NAME: &'static str;
    /// Whether the driver needs sockets in non-blocking mode. With such a socket, io_uring would report that there is
    /// no data instead of waiting for some.
    const NONBLOCKING: bool;

    /// Runs `future` on a new runtime.
    fn run<F: Future>(future: F) -> F::Output;
}

impl Driver for IoUringDriver {
    const NAME: &'static str = "monoio";
    const NONBLOCKING: bool = false;

    fn run<F: Future>(future: F) -> F::Output {
        let runtime = RuntimeBuilder::<IoUringDriver>::new().enable_timer().build();
        runtime.expect("the system has io_uring").block_on(future)
    }
}

impl Driver for LegacyDriver {
    const NAME: &'static str = "monoio-legacy";
    const NONBLOCKING: bool = true;

    fn run<F: Future>(future: F) -> F::Output {
        let runtime = RuntimeBuilder::<LegacyDriver>::new().enable_timer().build();
        runtime.expect("the system has a poller").block_on(future)
    }
}

impl<D> Clone for MonoioOn<D> {
    fn clone(&self) -> MonoioOn<D> {
        MonoioOn(PhantomData)
    }
}

impl<D: Driver> Peer for MonoioOn<D> {
    const NAME: &'static str = D::NAME;

    type Interval = time::Interval;
    type Stream = net::TcpStream;
    type Listener = net::TcpListener;
    type Datagrams = net::udp::UdpSocket;
    type Elapsed = time::error::Elapsed;

    fn run<T>(main: impl AsyncFnOnce(Self) -> T) -> T {
        D::run(main(MonoioOn(PhantomData)))
    }

    fn spawn<F: Future + 'static>(&self, future: F) -> impl Future<Output = F::Output> + use<D, F> {
        monoio::spawn(future)
    }

    fn detach<F: Future<Output = ()> + 'static>(&self, future: F) {
        drop(monoio::spawn(future));
    }

    fn yield_now(&self) -> impl Future<Output = ()> + use<D> {
        future::yield_now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + use<D> {
        time::sleep(duration)
    }

    fn sleep_until(&self, deadline: Instant) -> impl Future<Output = ()> + use<D> {
        time::sleep_until(deadline.into())
    }

    fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + use<D, F> {
        time::timeout(duration, future)
    }

    fn interval_at(&self, start: Instant, period: Duration) -> time::Interval {
        time::interval_at(start.into(), period)
    }

    async fn tick(interval: &mut time::Interval) {
        interval.tick().await;
    }

    fn adopt(&self, stream: TcpStream) -> io::Result<net::TcpStream> {
        stream.set_nonblocking(D::NONBLOCKING)?;
        net::TcpStream::from_std(stream)
    }

    async fn read(stream: &mut net::TcpStream, buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        stream.read(buffer).await
    }

    async fn write(stream: &mut net::TcpStream, buffer: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let (result, buffer) = stream.write_all(buffer).await;
        (result.map(drop), buffer)
    }

    fn adopt_listener(&self, listener: TcpListener) -> io::Result<net::TcpListener> {
        listener.set_nonblocking(D::NONBLOCKING)?;
        net::TcpListener::from_std(listener)
    }

    async fn accept(listener: &net::TcpListener) -> io::Result<net::TcpStream> {
        Ok(listener.accept().await?.0)
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<net::TcpStream> {
        net::TcpStream::connect_addr(address).await
    }

    fn adopt_datagrams(&self, socket: UdpSocket) -> io::Result<net::udp::UdpSocket> {
        socket.set_nonblocking(D::NONBLOCKING)?;
        net::udp::UdpSocket::from_std(socket)
    }

    async fn send(socket: &net::udp::UdpSocket, buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        socket.send(buffer).await
    }

    async fn receive(socket: &net::udp::UdpSocket, buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        socket.recv(buffer).await
    }
}

impl<D: Driver> Resets for MonoioOn<D> {
    type Sleep = time::Sleep;
    type Moment = time::Instant;

    fn now() -> time::Instant {
        time::Instant::now()
    }

    fn resettable(&self, deadline: time::Instant) -> time::Sleep {
        time::sleep_until(deadline)
    }

    fn reset(sleep: Pin<&mut time::Sleep>, deadline: time::Instant) {
        sleep.reset(deadline);
    }
}
