//! compio on io_uring. Its sleeps cannot be reset. It has no `yield_now`: a future that wakes itself once is
//! used instead.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use compio::BufResult;
use compio::io::{AsyncRead, AsyncWriteExt};
use compio::runtime::{self, Runtime, time};
use smol::future;

use super::{Joined, Peer};

/// compio.
#[derive(Clone, Copy, Debug)]
pub struct Compio;

impl Peer for Compio {
    const NAME: &'static str = "compio";

    type Interval = time::Interval;
    type Stream = compio::net::TcpStream;
    type Listener = compio::net::TcpListener;
    type Datagrams = compio::net::UdpSocket;
    type Elapsed = time::Elapsed;

    fn run<T>(main: impl AsyncFnOnce(Self) -> T) -> T {
        Runtime::new().expect("the system has io_uring").block_on(main(Compio))
    }

    fn spawn<F: Future + 'static>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        Joined(runtime::spawn(future))
    }

    fn detach<F: Future<Output = ()> + 'static>(&self, future: F) {
        runtime::spawn(future).detach();
    }

    fn yield_now(&self) -> impl Future<Output = ()> + use<> {
        future::yield_now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + use<> {
        time::sleep(duration)
    }

    fn sleep_until(&self, deadline: Instant) -> impl Future<Output = ()> + use<> {
        time::sleep_until(deadline)
    }

    fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + use<F> {
        time::timeout(duration, future)
    }

    fn interval_at(&self, start: Instant, period: Duration) -> time::Interval {
        time::interval_at(start, period)
    }

    async fn tick(interval: &mut time::Interval) {
        interval.tick().await;
    }

    fn adopt(&self, stream: TcpStream) -> io::Result<compio::net::TcpStream> {
        compio::net::TcpStream::from_std(stream)
    }

    async fn read(stream: &mut compio::net::TcpStream, buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let BufResult(result, buffer) = stream.read(buffer).await;
        (result, buffer)
    }

    async fn write(stream: &mut compio::net::TcpStream, buffer: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let BufResult(result, buffer) = stream.write_all(buffer).await;
        (result, buffer)
    }

    fn adopt_listener(&self, listener: TcpListener) -> io::Result<compio::net::TcpListener> {
        compio::net::TcpListener::from_std(listener)
    }

    async fn accept(listener: &compio::net::TcpListener) -> io::Result<compio::net::TcpStream> {
        Ok(listener.accept().await?.0)
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<compio::net::TcpStream> {
        compio::net::TcpStream::connect(address).await
    }

    fn adopt_datagrams(&self, socket: UdpSocket) -> io::Result<compio::net::UdpSocket> {
        compio::net::UdpSocket::from_std(socket)
    }

    async fn send(socket: &compio::net::UdpSocket, buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let BufResult(result, buffer) = socket.send(buffer).await;
        (result, buffer)
    }

    async fn receive(socket: &compio::net::UdpSocket, buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let BufResult(result, buffer) = socket.recv(buffer).await;
        (result, buffer)
    }
}
