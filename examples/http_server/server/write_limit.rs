//! A stream with a limit for writes: a client that reads nothing for that long ends the connection with an error.
//!
//! Its limits are timeouts and not sleeps: if the process is held up, what the client did in time is seen first.
//!
//! At its end it waits for the client. If a socket is closed while its client still sends, the system resets the connection, and what
//! the client has not read yet is lost. A client of HTTP/2 sends as long as it reads: it says how much it has room for.

use std::future::{Pending, pending};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use mainspring::time::{Timeout, timeout};

/// How long a client may send nothing after the server has closed its direction.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct WriteLimit<S> {
    stream: S,
    limit: Duration,
    /// Runs while a write is blocked.
    blocked: Option<Pin<Box<Timeout<Pending<()>>>>>,
    /// Runs once this direction is closed, and begins again with each byte from the client.
    closed: Option<Pin<Box<Timeout<Pending<()>>>>>,
}

impl<S> WriteLimit<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        WriteLimit { stream, limit, blocked: None, closed: None }
    }

    /// Passes on the result of a write, unless writes have been blocked for too long.
    fn limited<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.blocked = None;
            return written;
        }
        let blocked = self.blocked.get_or_insert_with(|| Box::pin(timeout(self.limit, pending())));
        let _elapsed = ready!(blocked.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads nothing")))
    }
}

impl<S: Read + Unpin> Read for WriteLimit<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: Read + Write + Unpin> Write for WriteLimit<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.limited(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        let closed = this.closed.get_or_insert_with(|| Box::pin(timeout(LAST_WORDS, pending())));
        let mut unwanted = [0; 1024];
        loop {
            let mut unwanted = ReadBuf::new(&mut unwanted);
            match Pin::new(&mut this.stream).poll_read(cx, unwanted.unfilled()) {
                Poll::Ready(Ok(())) if !unwanted.filled().is_empty() => {
                    closed.set(timeout(LAST_WORDS, pending()));
                }
                // The client has closed its direction, too, or is gone.
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending => return closed.as_mut().poll(cx).map(|_elapsed| Ok(())),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.limited(cx, written)
    }
}
