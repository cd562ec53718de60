//! A connection between Unix sockets.
//!
//! Ground rule: a short read does not mean that the socket is empty, because the system ends a read where a descriptor was sent
//! along, or where the sender's credentials change, if credentials are requested. Linux reports when a read ended for such a
//! reason (`MSG_CTRUNC`). Elsewhere, for vectored reads, and for a socket of packets, which std's type may hold, only `WouldBlock`
//! makes the next read wait.

use super::{Pauses, SocketAddr};
use crate::coop;
use crate::io::{first_nonempty, read_by_ref, write_by_ref};
use crate::net::gather;
use crate::net::split::{self, OwnedReadHalf, OwnedWriteHalf};
use crate::reactor::{Fd, Io, Registered, Way};
use crate::runtime::context;
use crate::time::try_sleep;
use futures_io::{AsyncRead, AsyncWrite};
use socket2::{SockRef, Type};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A connection between Unix sockets.
///
/// It is read, written, split and closed like a [`TcpStream`](crate::net::TcpStream), and `&UnixStream`, too, implements
/// [`AsyncRead`] and [`AsyncWrite`].
///
/// # Examples
///
/// ```
/// use futures::{AsyncReadExt, AsyncWriteExt};
/// use mainspring::net::unix::UnixStream;
///
/// mainspring::block_on(async {
///     let (mut one, mut other) = UnixStream::pair()?;
///     one.write_all(b"hello").await?;
///     one.close().await?;
///     let mut text = String::new();
///     other.read_to_string(&mut text).await?;
///     assert_eq!(text, "hello");
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
#[derive(Debug)]
pub struct UnixStream {
    pub(crate) registered: Registered<Fd<net::UnixStream>>,
}

impl UnixStream {
    /// Connects to the socket at that path. It waits, with [pauses](super#where-linux-does-not-say-when-to-go-on), only while
    /// the listener's backlog is full.
    ///
    /// # Errors
    ///
    /// The system's errors, such as [`NotFound`](ErrorKind::NotFound) if there is no file and
    /// [`ConnectionRefused`](ErrorKind::ConnectionRefused) if no socket listens any more; and an error of
    /// kind [`Other`](ErrorKind::Other) outside a runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future abandons the attempt.
    pub async fn connect(path: impl AsRef<Path>) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&super::address(path).await?).await
    }

    /// Like [`connect`](Self::connect), with an address that is a path or an [abstract name](super).
    ///
    /// # Errors
    ///
    /// As for `connect`.
    ///
    /// # Cancel safety
    ///
    /// As for `connect`.
    pub async fn connect_addr(addr: &SocketAddr) -> io::Result<UnixStream> {
        let io = context::io()?;
        let mut pauses = Pauses::new();
        loop {
            let permit = coop::permit().await;
            match mio::net::UnixStream::connect_addr(addr) {
                // Waiting is free.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    try_sleep(pauses.next()).await.map_err(io::Error::other)?;
                }
                connected => {
                    permit.spend();
                    return UnixStream::new(&io, connected?.into());
                }
            }
        }
    }

    /// Makes two streams that are connected to one another, and have no address.
    ///
    /// # Errors
    ///
    /// The system's errors, and an error of kind [`Other`](ErrorKind::Other) outside a runtime.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let io = context::io()?;
        let (one, other) = net::UnixStream::pair()?;
        Ok((UnixStream::new(&io, one)?, UnixStream::new(&io, other)?))
    }

    pub(super) fn new(io: &Arc<Io>, socket: net::UnixStream) -> io::Result<UnixStream> {
        socket.set_nonblocking(true)?;
        Ok(UnixStream { registered: Registered::new(io, Fd(socket))? })
    }

    /// Takes over a connected stream of the standard library, and sets it to non-blocking mode. If it is a socket of packets
    /// (`SOCK_SEQPACKET`), a read returns one packet, and the bytes that do not fit into its buffer are lost.
    ///
    /// # Errors
    ///
    /// The system's errors, and an error of kind [`Other`](ErrorKind::Other) outside a runtime.
    pub fn from_std(stream: net::UnixStream) -> io::Result<UnixStream> {
        let in_packets = is_of_packets(&stream);
        UnixStream::new(&context::io()?, stream).map(|stream| stream.in_packets(in_packets))
    }

    /// Says whether the system ends a read at the end of a packet, as it does before urgent data.
    pub(super) fn in_packets(self, in_packets: bool) -> UnixStream {
        if in_packets {
            self.registered.expect_urgent();
        }
        self
    }

    /// Gives the stream back to the standard library. It stays in non-blocking mode: call
    /// [`set_nonblocking(false)`](net::UnixStream::set_nonblocking) if it must block.
    ///
    /// # Errors
    ///
    /// The system's error, if the poller fails to remove the socket; the stream is then closed.
    pub fn into_std(self) -> io::Result<net::UnixStream> {
        Ok(self.registered.into_inner()?.0)
    }

    /// Splits the stream into two halves that can go to different tasks.
    ///
    /// Dropping the writing half ends the writing direction; the connection is closed when both halves are gone.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use futures::io::copy;
    /// use mainspring::net::unix::UnixStream;
    ///
    /// # async fn echo(stream: UnixStream) -> std::io::Result<()> {
    /// let (reader, mut writer) = stream.into_split();
    /// copy(reader, &mut writer).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_split(self) -> (OwnedReadHalf<UnixStream>, OwnedWriteHalf<UnixStream>) {
        split::into_split(self, |stream| {
            // In a child by `fork` the connection is the parent's.
            if stream.registered.io().forsake_in_child() { Ok(()) } else { stream.shutdown(Shutdown::Write) }
        })
    }

    /// Reads the bytes that are there, without waiting. Returns 0 at the end of the stream, and for an
    /// empty buffer, for which bytes must be there, too.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](ErrorKind::WouldBlock) if no bytes are known to be there: wait with
    /// [`readable`](Self::readable). Otherwise the system's errors.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.registered.try_io(Way::Read, |socket| (&**socket).read(buf))
    }

    /// Like [`try_read`](Self::try_read), into several buffers in turn.
    ///
    /// # Errors
    ///
    /// As for `try_read`.
    pub fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let first = first_nonempty(bufs);
        self.registered.try_io(Way::Read, |socket| (&**socket).read_vectored(&mut bufs[first..]))
    }

    /// Writes the bytes that fit, without waiting.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](ErrorKind::WouldBlock) if no room is known to be there: wait with
    /// [`writable`](Self::writable). Otherwise the system's errors, such as [`BrokenPipe`](ErrorKind::BrokenPipe).
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.registered.try_io(Way::Write, |socket| (&**socket).write(buf))
    }

    /// Like [`try_write`](Self::try_write), from several buffers in turn.
    ///
    /// # Errors
    ///
    /// As for `try_write`.
    pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.registered.try_io(Way::Write, |socket| gather::write(&**socket, bufs))
    }

    /// Ends reading, writing or both, for every user of this connection. Reads and writes that wait end, too: with the end of
    /// the stream, or with [`BrokenPipe`](ErrorKind::BrokenPipe).
    ///
    /// Linux does not report that the *peer* has ended its reading: a write that waits for room goes on waiting until the peer has
    /// read what is there, or has closed its socket.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.registered.socket().shutdown(how)?;
        if how != Shutdown::Read {
            // If there is no room, Linux reports nothing to a task that waits for it.
            self.registered.end_writes();
        }
        Ok(())
    }

    /// Returns the local address, which only a socket with a name has.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.registered.socket().local_addr()
    }

    /// Returns the peer's address. On the side that connected this is the listener's; on the other there is usually none.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.registered.socket().peer_addr()
    }

    /// Takes the error that the system keeps for this socket (`SO_ERROR`).
    ///
    /// # Errors
    ///
    /// The system's error, if the query itself fails.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.registered.socket().take_error()
    }
}

/// Returns whether this is no socket of a stream: std's types take any socket over.
pub(super) fn is_of_packets(socket: &impl AsFd) -> bool {
    SockRef::from(socket).r#type().is_ok_and(|kind| kind != Type::STREAM)
}

/// Reads, and returns whether the read would have gone on if there had been more bytes.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn read(socket: &net::UnixStream, buf: &mut [u8]) -> io::Result<(usize, bool)> {
    use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, recvmsg};
    let mut no_room = RecvAncillaryBuffer::default();
    let message = recvmsg(socket, &mut [IoSliceMut::new(buf)], &mut no_room, RecvFlags::empty())?;
    // There is no room for anything sent along with the bytes: the system drops it, as it does for a read, and reports that.
    Ok((message.bytes, !message.flags.contains(ReturnFlags::CTRUNC)))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn read(mut socket: &net::UnixStream, buf: &mut [u8]) -> io::Result<(usize, bool)> {
    Ok((socket.read(buf)?, false))
}

impl AsyncRead for &UnixStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.registered.poll_segmented(cx, Way::Read, buf.len(), |socket| read(socket, buf))
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = first_nonempty(bufs);
        self.registered.poll_io(cx, Way::Read, |socket| (&**socket).read_vectored(&mut bufs[first..]))
    }
}

impl AsyncWrite for &UnixStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.registered.poll_io(cx, Way::Write, |socket| (&**socket).write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.registered.poll_io(cx, Way::Write, |socket| gather::write(&**socket, bufs))
    }

    /// There is nothing to flush: the system already has the written bytes.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the writing direction. A connection that is already gone counts as closed.
    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(split::closed(self.shutdown(Shutdown::Write)))
    }
}

read_by_ref!([] UnixStream, [] |stream| stream);
write_by_ref!([] UnixStream, [] |stream| stream);
