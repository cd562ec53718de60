//! monoio: on io_uring where the kernel lets it, which its documentation recommends, and on its legacy driver
//! (mio) elsewhere; timers are enabled, which they are not by default. It has no `yield_now`: a future that
//! wakes itself once stands in. monoio polls a task that wakes itself again before any other, and looks at timers
//! only when no task is ready.

use std::future::Future;
use std::io;
use std::net::TcpStream;
use std::pin::Pin;
use std::time::{Duration, Instant};

use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::{FusionDriver, RuntimeBuilder, net, time};
use smol::future;

use super::{Peer, Resets};

/// monoio.
#[derive(Clone, Copy, Debug)]
pub struct Monoio;

impl Peer for Monoio {
    const NAME: &'static str = "monoio";

    type Interval = time::Interval;
    type Stream = net::TcpStream;
    type Elapsed = time::error::Elapsed;

    fn run<T>(main: impl AsyncFnOnce(Self) -> T) -> T {
        let runtime = RuntimeBuilder::<FusionDriver>::new().enable_timer().build();
        runtime.expect("the system has io_uring or a poller").block_on(main(Monoio))
    }

    fn spawn<F: Future + 'static>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        monoio::spawn(future)
    }

    fn detach<F: Future<Output = ()> + 'static>(&self, future: F) {
        drop(monoio::spawn(future));
    }

    fn yield_now(&self) -> impl Future<Output = ()> + use<> {
        future::yield_now()
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
        // io_uring would report a non-blocking socket that has no data instead of waiting for some.
        stream.set_nonblocking(!monoio::utils::detect_uring())?;
        net::TcpStream::from_std(stream)
    }

    async fn read(stream: &mut net::TcpStream, buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        stream.read(buffer).await
    }

    async fn write(stream: &mut net::TcpStream, buffer: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let (result, buffer) = stream.write_all(buffer).await;
        (result.map(drop), buffer)
    }
}

impl Resets for Monoio {
    type Sleep = time::Sleep;

    fn resettable(&self, deadline: Instant) -> time::Sleep {
        time::sleep_until(deadline.into())
    }

    fn reset(sleep: Pin<&mut time::Sleep>, deadline: Instant) {
        sleep.reset(deadline.into());
    }
}
