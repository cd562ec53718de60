//! tokio's single-threaded scheduler, as a `LocalRuntime`: it is the same scheduler as `current_thread`'s, and
//! a spawn costs the same as `tokio::spawn` there, but the tasks need not be `Send`. A `LocalSet` would cost
//! more.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::pin::Pin;
use std::time::{Duration, Instant};

use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, LocalOptions};
use tokio::{net, task, time};
use tokio_util::time::{DelayQueue, delay_queue};

use super::{Http, Joined, Peer, Proxies, Queues, Resets};

/// tokio, `current_thread`.
#[derive(Clone, Copy, Debug)]
pub struct Tokio;

impl Peer for Tokio {
    const NAME: &'static str = "tokio";

    type Interval = time::Interval;
    type Stream = net::TcpStream;
    type Listener = net::TcpListener;
    type Datagrams = net::UdpSocket;
    type Elapsed = time::error::Elapsed;

    fn run<T>(main: impl AsyncFnOnce(Self) -> T) -> T {
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        runtime.expect("the system has a poller").block_on(main(Tokio))
    }

    fn spawn<F: Future + 'static>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        Joined(task::spawn_local(future))
    }

    fn detach<F: Future<Output = ()> + 'static>(&self, future: F) {
        drop(task::spawn_local(future));
    }

    fn yield_now(&self) -> impl Future<Output = ()> + use<> {
        task::yield_now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + use<> {
        time::sleep(duration)
    }

    fn sleep_until(&self, deadline: Instant) -> impl Future<Output = ()> + use<> {
        time::sleep_until(deadline.into())
    }

    fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + use<F> {
        time::timeout(duration, future)
    }

    fn interval_at(&self, start: Instant, period: Duration) -> time::Interval {
        time::interval_at(start.into(), period)
    }

    async fn tick(interval: &mut time::Interval) {
        interval.tick().await;
    }

    fn adopt(&self, stream: TcpStream) -> io::Result<net::TcpStream> {
        stream.set_nonblocking(true)?;
        net::TcpStream::from_std(stream)
    }

    async fn read(stream: &mut net::TcpStream, mut buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        (stream.read(&mut buffer).await, buffer)
    }

    async fn write(stream: &mut net::TcpStream, buffer: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        (stream.write_all(&buffer).await, buffer)
    }

    fn adopt_listener(&self, listener: TcpListener) -> io::Result<net::TcpListener> {
        listener.set_nonblocking(true)?;
        net::TcpListener::from_std(listener)
    }

    async fn accept(listener: &net::TcpListener) -> io::Result<net::TcpStream> {
        Ok(listener.accept().await?.0)
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<net::TcpStream> {
        net::TcpStream::connect(address).await
    }

    fn adopt_datagrams(&self, socket: UdpSocket) -> io::Result<net::UdpSocket> {
        socket.set_nonblocking(true)?;
        net::UdpSocket::from_std(socket)
    }

    async fn send(socket: &net::UdpSocket, buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        (socket.send(&buffer).await, buffer)
    }

    async fn receive(socket: &net::UdpSocket, mut buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        (socket.recv(&mut buffer).await, buffer)
    }
}

impl Resets for Tokio {
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

impl Proxies for Tokio {
    async fn copy_both_ways(a: &mut net::TcpStream, b: &mut net::TcpStream) -> io::Result<(u64, u64)> {
        tokio::io::copy_bidirectional_with_sizes(a, b, 64 * 1024, 64 * 1024).await
    }
}

impl Queues for Tokio {
    type Queue = DelayQueue<usize>;
    type Key = delay_queue::Key;

    fn insert(queue: &mut Self::Queue, value: usize, deadline: Self::Moment) -> Self::Key {
        queue.insert_at(value, deadline)
    }

    fn move_to(queue: &mut Self::Queue, key: &Self::Key, deadline: Self::Moment) {
        queue.reset_at(key, deadline);
    }

    fn remove(queue: &mut Self::Queue, key: &Self::Key) -> usize {
        queue.remove(key).into_inner()
    }

    async fn next(queue: &mut Self::Queue) -> Option<usize> {
        poll_fn(|cx| queue.poll_expired(cx)).await.map(delay_queue::Expired::into_inner)
    }
}

impl Http for Tokio {
    type Io = TokioIo<net::TcpStream>;
    type Timer = TokioTimer;

    fn io(stream: net::TcpStream) -> TokioIo<net::TcpStream> {
        TokioIo::new(stream)
    }

    fn timer() -> TokioTimer {
        TokioTimer::new()
    }
}
