//! smol: async-executor's `LocalExecutor` under async-io's `block_on`, which drives the reactor itself.
//! async-io's helper thread exists, too, and its cost is counted. smol has no timeout of its own: its
//! documentation races the future against a `Timer`, and so does this.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::{AsyncReadExt, AsyncWriteExt, StreamExt};
use smol::{Async, LocalExecutor, Timer, future};

use super::{Peer, Resets};

/// smol: async-io and async-executor.
#[derive(Clone, Debug)]
pub struct Smol(Rc<LocalExecutor<'static>>);

/// A timer whose firing time is discarded.
#[derive(Debug)]
pub struct Nap(Timer);

impl Future for Nap {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

impl Peer for Smol {
    const NAME: &'static str = "smol";

    type Interval = Timer;
    type Stream = Async<TcpStream>;
    type Listener = Async<TcpListener>;
    type Datagrams = Async<UdpSocket>;
    type Elapsed = Instant;

    fn run<T>(main: impl AsyncFnOnce(Self) -> T) -> T {
        let executor = Rc::new(LocalExecutor::new());
        smol::block_on(executor.run(main(Smol(executor.clone()))))
    }

    fn spawn<F: Future + 'static>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        self.0.spawn(future)
    }

    fn detach<F: Future<Output = ()> + 'static>(&self, future: F) {
        self.0.spawn(future).detach();
    }

    fn yield_now(&self) -> impl Future<Output = ()> + use<> {
        future::yield_now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + use<> {
        Nap(Timer::after(duration))
    }

    fn sleep_until(&self, deadline: Instant) -> impl Future<Output = ()> + use<> {
        Nap(Timer::at(deadline))
    }

    fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + use<F> {
        let late = async move { Err(Timer::after(duration).await) };
        future::or(async { Ok(future.await) }, late)
    }

    fn interval_at(&self, start: Instant, period: Duration) -> Timer {
        Timer::interval_at(start, period)
    }

    async fn tick(interval: &mut Timer) {
        interval.next().await;
    }

    fn adopt(&self, stream: TcpStream) -> io::Result<Async<TcpStream>> {
        Async::new(stream)
    }

    async fn read(stream: &mut Async<TcpStream>, mut buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        (stream.read(&mut buffer).await, buffer)
    }

    async fn write(stream: &mut Async<TcpStream>, buffer: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        (stream.write_all(&buffer).await, buffer)
    }

    fn adopt_listener(&self, listener: TcpListener) -> io::Result<Async<TcpListener>> {
        Async::new(listener)
    }

    async fn accept(listener: &Async<TcpListener>) -> io::Result<Async<TcpStream>> {
        Ok(listener.accept().await?.0)
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<Async<TcpStream>> {
        Async::<TcpStream>::connect(address).await
    }

    fn adopt_datagrams(&self, socket: UdpSocket) -> io::Result<Async<UdpSocket>> {
        Async::new(socket)
    }

    async fn send(socket: &Async<UdpSocket>, buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        (socket.send(&buffer).await, buffer)
    }

    async fn receive(socket: &Async<UdpSocket>, mut buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        (socket.recv(&mut buffer).await, buffer)
    }
}

impl Resets for Smol {
    type Sleep = Nap;
    type Moment = Instant;

    fn now() -> Instant {
        Instant::now()
    }

    fn resettable(&self, deadline: Instant) -> Nap {
        Nap(Timer::at(deadline))
    }

    fn reset(sleep: Pin<&mut Nap>, deadline: Instant) {
        sleep.get_mut().0.set_at(deadline);
    }
}
