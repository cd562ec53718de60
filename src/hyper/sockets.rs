//! How hyper reads and writes the sockets: without a wrapper, and into hyper's own buffer.
//!
//! Ground rules:
//!
//! * hyper's buffer is not initialized, and is not cleared here either: [`receive`] has the kernel write into it. That is the
//!   only use of `unsafe` in this module.
//! * Everything else is what the sockets do for `futures-io`.

use crate::net::TcpStream;
#[cfg(unix)]
use crate::net::unix::UnixStream;
use crate::reactor::Way;
use futures_io::AsyncWrite;
use hyper::rt::{Read, ReadBufCursor, Write};
use socket2::SockRef;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Receives once, after the bytes that are already in the buffer, and returns the number of bytes received: 0 at the end of
/// the stream, and if the buffer is full.
fn receive(socket: SockRef<'_>, buf: &mut ReadBufCursor<'_>) -> io::Result<usize> {
    // SAFETY: `as_mut` asks that no byte is made uninitialized: `Socket::recv` promises to write none that is. `advance` asks
    // that so many bytes are initialized: without flags the kernel's count is that of the bytes which it has written, from
    // the beginning of the buffer on.
    unsafe {
        let received = socket.recv(buf.as_mut())?;
        buf.advance(received);
        Ok(received)
    }
}

impl Read for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buf.remaining();
        // With mio's `try_io`: where the poller is not edge-triggered, mio has to see that a read would block.
        let receive =
            |socket: &mio::net::TcpStream| socket.try_io(|| receive(SockRef::from(socket), &mut buf));
        self.registered.poll_stream(cx, Way::Read, room, receive).map_ok(|_| ())
    }
}

#[cfg(unix)]
impl Read for UnixStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // A short read does not mean that the socket is empty (see the ground rule of Unix streams).
        self.registered
            .poll_io(cx, Way::Read, |socket| receive(SockRef::from(&**socket), &mut buf))
            .map_ok(|_| ())
    }
}

macro_rules! write {
    ($($(#[$attribute:meta])* $stream:ty),*) => {$(
        $(#[$attribute])*
        impl Write for $stream {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                AsyncWrite::poll_write(self, cx, buf)
            }

            /// There is nothing to flush: the system already has the written bytes.
            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                AsyncWrite::poll_flush(self, cx)
            }

            /// Ends the writing direction. A connection that is already gone counts as closed.
            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                AsyncWrite::poll_close(self, cx)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                AsyncWrite::poll_write_vectored(self, cx, bufs)
            }
        }
    )*};
}

write!(
    TcpStream,
    #[cfg(unix)]
    UnixStream
);
