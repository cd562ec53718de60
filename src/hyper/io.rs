//! `Io` adapts a stream of `futures-io` for hyper, and a stream of hyper for `futures-io`.
//!
//! Ground rules:
//!
//! * hyper's buffer is not initialized, but a reader of `futures-io` needs an initialized buffer. So data is read through a
//!   buffer on the stack: the stream keeps no memory while it waits, and nothing here is `unsafe`. The sockets do not need this
//!   buffer (`sockets.rs`).
//! * An impossible count of a stream is an error, not a panic.

use futures_io::{AsyncRead, AsyncWrite};
use hyper::rt::{self, ReadBuf, ReadBufCursor};
use pin_project_lite::pin_project;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The maximum number of bytes that are read at once: half of a TLS record.
const PIECE: usize = 8 * 1024;

pin_project! {
    /// Adapts a stream of `futures-io`, such as a TLS stream, for hyper; and the other way round.
    ///
    /// The sockets of `net` do not need it: give hyper the socket itself.
    ///
    /// Bytes that are read are copied once, from a buffer that exists only during the poll.
    ///
    /// The other way round it serves connections that hyper has handed over: around `hyper::upgrade::Upgraded` it
    /// implements [`AsyncRead`] and [`AsyncWrite`], so that a WebSocket library can take over the connection.
    ///
    /// # Cancel safety
    ///
    /// It holds no data: bytes that were not read from it are still in the stream.
    ///
    /// ```
    /// # #[cfg(feature = "net")] {
    /// use hyper::body::Incoming;
    /// use hyper::server::conn::http1;
    /// use hyper::service::service_fn;
    /// use hyper::{Request, Response};
    /// use mainspring::hyper::{Io, Timer};
    /// use mainspring::io::{AsyncRead, AsyncWrite};
    /// use std::convert::Infallible;
    ///
    /// async fn answer(_: Request<Incoming>) -> Result<Response<String>, Infallible> {
    ///     Ok(Response::new("hello".to_owned()))
    /// }
    ///
    /// async fn serve(tls: impl AsyncRead + AsyncWrite + Unpin + 'static) -> hyper::Result<()> {
    ///     http1::Builder::new().timer(Timer).serve_connection(Io::new(tls), service_fn(answer)).await
    /// }
    /// # }
    /// ```
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Io<S> {
        #[pin]
        stream: S,
    }
}

impl<S> Io<S> {
    /// Wraps `stream`.
    pub fn new(stream: S) -> Io<S> {
        Io { stream }
    }

    /// Returns a reference to the stream.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Returns a mutable reference to the stream. Note that hyper's messages go through it.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Returns the stream. None of its data is left here.
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead> rt::Read for Io<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut piece = [0; PIECE];
        let most = PIECE.min(buf.remaining());
        let read = ready!(self.project().stream.poll_read(cx, &mut piece[..most]))?;
        if read > most {
            let message = "the reader claims more bytes than it was asked for";
            return Poll::Ready(Err(io::Error::new(ErrorKind::InvalidData, message)));
        }
        buf.put_slice(&piece[..read]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite> rt::Write for Io<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.project().stream.poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_close(cx)
    }

    /// A stream of `futures-io` does not tell whether it takes several buffers at once. A stream that does not takes only the
    /// first of them, which costs hyper nothing except more calls.
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().stream.poll_write_vectored(cx, bufs)
    }
}

impl<S: rt::Read> AsyncRead for Io<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        ready!(self.project().stream.poll_read(cx, buf.unfilled()))?;
        Poll::Ready(Ok(buf.filled().len()))
    }
}

impl<S: rt::Write> AsyncWrite for Io<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.project().stream.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().stream.poll_write_vectored(cx, bufs)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_shutdown(cx)
    }
}
