//! zruntime's `LocalRuntime`, used through its handle, as its documentation does. It has no `yield_now`: a
//! future that wakes itself once is used instead.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures::{AsyncReadExt, AsyncWriteExt};
use smol::future;
use zruntime::{Interval, LocalRuntime, Sleep, TimedOut, net};

use super::{Joined, Peer, Resets};

/// zruntime.
#[derive(Clone, Debug)]
pub struct Zruntime(LocalRuntime);

/// The name of every task; it costs nothing to make.
const TASK_NAME: &str = "task";

impl Peer for Zruntime {
    const NAME: &'static str = "zruntime";

    type Interval = Interval;
    type Stream = net::TcpStream;
    type Listener = net::TcpListener;
    type Datagrams = net::UdpSocket;
    type Elapsed = TimedOut;

    fn run<T>(main: impl AsyncFnOnce(Self) -> T) -> T {
        let runtime = LocalRuntime::new().expect("the system has a poller");
        runtime.block_on(main(Zruntime(runtime.clone())))
    }

    fn spawn<F: Future + 'static>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        Joined(self.0.spawn(TASK_NAME, future))
    }

    fn detach<F: Future<Output = ()> + 'static>(&self, future: F) {
        self.0.spawn(TASK_NAME, future).detach();
    }

    fn yield_now(&self) -> impl Future<Output = ()> + use<> {
        future::yield_now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + use<> {
        self.0.sleep(duration)
    }

    fn sleep_until(&self, deadline: Instant) -> impl Future<Output = ()> + use<> {
        self.0.sleep_until(deadline)
    }

    fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + use<F> {
        self.0.timeout(duration, future)
    }

    fn interval_at(&self, start: Instant, period: Duration) -> Interval {
        self.0.interval_at(start, period)
    }

    async fn tick(interval: &mut Interval) {
        interval.tick().await;
    }

    fn adopt(&self, stream: TcpStream) -> io::Result<net::TcpStream> {
        net::TcpStream::from_std(&self.0, stream)
    }

    async fn read(stream: &mut net::TcpStream, mut buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        (stream.read(&mut buffer).await, buffer)
    }

    async fn write(stream: &mut net::TcpStream, buffer: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        (stream.write_all(&buffer).await, buffer)
    }

    fn adopt_listener(&self, listener: TcpListener) -> io::Result<net::TcpListener> {
        net::TcpListener::from_std(&self.0, listener)
    }

    async fn accept(listener: &net::TcpListener) -> io::Result<net::TcpStream> {
        Ok(listener.accept().await?.0)
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<net::TcpStream> {
        net::TcpStream::connect(&self.0, address).await
    }

    fn adopt_datagrams(&self, socket: UdpSocket) -> io::Result<net::UdpSocket> {
        net::UdpSocket::from_std(&self.0, socket)
    }

    async fn send(socket: &net::UdpSocket, buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        (socket.send(&buffer).await, buffer)
    }

    async fn receive(socket: &net::UdpSocket, mut buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        (socket.recv(&mut buffer).await, buffer)
    }
}

impl Resets for Zruntime {
    type Sleep = Sleep;
    type Moment = Instant;

    fn now() -> Instant {
        Instant::now()
    }

    fn resettable(&self, deadline: Instant) -> Sleep {
        self.0.sleep_until(deadline)
    }

    fn reset(sleep: Pin<&mut Sleep>, deadline: Instant) {
        sleep.get_mut().reset(deadline);
    }
}
