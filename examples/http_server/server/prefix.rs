//! Detects the version of HTTP that a client speaks, from its first bytes, which then have to be read once more.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::AsyncReadExt;
use hyper::rt::{Read, ReadBufCursor, Write};
use mainspring::net::TcpStream;

/// The first bytes from a client of HTTP/2.
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Http1,
    Http2,
}

/// Reads until the version is known, and no further than the preface.
pub(super) async fn detect(mut stream: TcpStream) -> io::Result<(Version, Prefixed)> {
    // The unread rest is filled with the preface, so `start` differs only if a byte that was read does.
    let (mut start, mut length) = (PREFACE, 0);
    while start == PREFACE && length < start.len() {
        match stream.read(&mut start[length..]).await? {
            // The client has gone, or will send no more: the parser decides.
            0 => break,
            read => length += read,
        }
    }
    let version = if start == PREFACE && length == start.len() { Version::Http2 } else { Version::Http1 };
    Ok((version, Prefixed { start, unread: (0, length), stream }))
}

/// A stream with first bytes that have already been read.
#[derive(Debug)]
pub(super) struct Prefixed {
    start: [u8; 24],
    /// The range of `start` that has to be read again.
    unread: (usize, usize),
    stream: TcpStream,
}

impl Read for Prefixed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let (from, to) = self.unread;
        if from == to {
            return Read::poll_read(Pin::new(&mut self.stream), cx, buf);
        }
        let to = to.min(from + buf.remaining());
        buf.put_slice(&self.start[from..to]);
        self.unread.0 = to;
        Poll::Ready(Ok(()))
    }
}

impl Write for Prefixed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Write::poll_write(Pin::new(&mut self.stream), cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Write::poll_flush(Pin::new(&mut self.stream), cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Write::poll_shutdown(Pin::new(&mut self.stream), cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Write::poll_write_vectored(Pin::new(&mut self.stream), cx, bufs)
    }
}
