//! What joins Mainspring to other crates. Most need nothing; hyper, and axum upon it, want the three small types of this file.
//!
//! The package is not published: who needs a type copies it. Its tests show each crate at work, one file for each;
//! `docs/ecosystem.md` lists them.
//!
//! ```
//! use hyper::server::conn::http1;
//! use hyper::service::service_fn;
//! use mainspring::net::TcpListener;
//! use mainspring_ecosystem::{Io, Timer};
//!
//! # use hyper::body::Incoming;
//! # use hyper::{Request, Response};
//! # async fn answer(_: Request<Incoming>) -> Result<Response<String>, std::convert::Infallible> {
//! #     Ok(Response::new("hello".to_owned()))
//! # }
//! async fn serve(listener: TcpListener) -> std::io::Result<()> {
//!     loop {
//!         let (stream, _) = listener.accept().await?;
//!         let connection = http1::Builder::new().timer(Timer::new()).serve_connection(Io::new(stream), service_fn(answer));
//!         mainspring::spawn(connection).detach();
//!     }
//! }
//! ```

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant as StdInstant};

use futures_io::{AsyncRead, AsyncWrite};
use hyper::rt::{self, ReadBufCursor};
use mainspring::time::{Instant, sleep_until};
use pin_project_lite::pin_project;

mod watchdog;

pub use watchdog::{Watchdog, watchdog};

/// A stream of `futures-io`, such as [`TcpStream`](mainspring::net::TcpStream) or one of `futures-rustls`, as hyper
/// reads and writes it.
///
/// What is read is copied once, from a buffer of 8 KiB: to read into hyper's own buffer takes unsafe code.
#[derive(Debug)]
pub struct Io<S> {
    stream: S,
    buffer: Box<[u8]>,
}

impl<S> Io<S> {
    /// Wraps `stream`.
    pub fn new(stream: S) -> Io<S> {
        Io { stream, buffer: vec![0; 8192].into() }
    }
}

impl<S: AsyncRead + Unpin> rt::Read for Io<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Io { stream, buffer } = self.get_mut();
        let most = buffer.len().min(into.remaining());
        let length = ready!(Pin::new(stream).poll_read(cx, &mut buffer[..most]))?;
        into.put_slice(&buffer[..length]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> rt::Write for Io<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

/// Hyper's timeouts, such as the one for a request's header, as sleeps of the runtime.
///
/// Hyper counts in `std`'s instants; a moment of both clocks, taken when this is made, translates. So the timeouts are
/// exact also where time is paused.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    std: StdInstant,
    ours: Instant,
}

impl Timer {
    /// To be called in the runtime that it is for.
    #[expect(clippy::new_without_default, reason = "it reads clocks")]
    pub fn new() -> Timer {
        Timer { std: StdInstant::now(), ours: Instant::now() }
    }

    fn ours(&self, moment: StdInstant) -> Instant {
        self.ours + moment.saturating_duration_since(self.std)
    }
}

impl rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Sleep { inner: mainspring::sleep(duration) })
    }

    fn sleep_until(&self, deadline: StdInstant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Sleep { inner: sleep_until(self.ours(deadline)) })
    }

    fn now(&self) -> StdInstant {
        self.std + self.ours.elapsed()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, deadline: StdInstant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(sleep) => sleep.project().inner.reset(self.ours(deadline)),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

pin_project! {
    /// A sleep of ours under hyper's trait.
    struct Sleep {
        #[pin]
        inner: mainspring::time::Sleep,
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().inner.poll(cx)
    }
}

impl rt::Sleep for Sleep {}

/// Makes tasks of what hyper runs beside a connection, such as the streams of HTTP/2. They need not be `Send`.
#[derive(Clone, Copy, Debug)]
pub struct Executor;

impl<F: Future<Output: 'static> + 'static> rt::Executor<F> for Executor {
    fn execute(&self, future: F) {
        mainspring::spawn(future).detach();
    }
}
