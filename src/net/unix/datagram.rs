//! A Unix socket for datagrams.

use super::{Pauses, SocketAddr};
use crate::coop;
use crate::reactor::{Fd, Io, Registered, Way};
use crate::runtime::context;
use crate::time::timeout;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::future::{pending, poll_fn};
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::unix::net;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Returns whether a datagram fits into the socket's own buffer and, if the socket has a peer, into the peer's queue.
fn has_room(socket: &Fd<net::UnixDatagram>) -> bool {
    let mut asked = [PollFd::new(&**socket, PollFlags::OUT)];
    // If the system does not say, the caller pauses.
    poll(&mut asked, Some(&Timespec::default())) != Ok(0)
}

/// A Unix socket for datagrams. They arrive whole and in order, and none is lost on the way: where a network would discard one,
/// the sender waits. Those that have arrived are lost when the receiver is dropped, and when it
/// [connects to another address](Self::connect).
///
/// All methods take `&self`, so tasks can share it in an `Arc`, and any number of them may use the `async`
/// methods at once.
///
/// # Examples
///
/// ```
/// use mainspring::net::unix::UnixDatagram;
///
/// mainspring::block_on(async {
///     let (one, other) = UnixDatagram::pair()?;
///     one.send(b"hello").await?;
///     let mut buf = [0; 8];
///     assert_eq!(other.recv(&mut buf).await?, 5);
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
#[derive(Debug)]
pub struct UnixDatagram {
    pub(in crate::net) registered: Registered<Fd<net::UnixDatagram>>,
}

impl UnixDatagram {
    /// Makes a socket and a [file](super#the-file-of-a-socket) at that path.
    ///
    /// # Errors
    ///
    /// The system's errors, such as [`AddrInUse`](ErrorKind::AddrInUse) if there is a file already, and an error of kind
    /// [`Other`](ErrorKind::Other) outside a runtime.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixDatagram> {
        UnixDatagram::bind_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Like [`bind`](Self::bind), with an address that is a path or an [abstract name](super).
    ///
    /// # Errors
    ///
    /// As for `bind`.
    pub fn bind_addr(addr: &SocketAddr) -> io::Result<UnixDatagram> {
        // First, so that no file is left if there is no runtime.
        let io = context::io()?;
        UnixDatagram::new(&io, net::UnixDatagram::bind_addr(addr)?)
    }

    /// Makes a socket without an address: it can send, but no receiver can answer.
    ///
    /// # Errors
    ///
    /// The system's errors, and an error of kind [`Other`](ErrorKind::Other) outside a runtime.
    pub fn unbound() -> io::Result<UnixDatagram> {
        UnixDatagram::from_std(net::UnixDatagram::unbound()?)
    }

    /// Makes two sockets that are connected to one another, and have no address.
    ///
    /// # Errors
    ///
    /// The system's errors, and an error of kind [`Other`](ErrorKind::Other) outside a runtime.
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (one, other) = net::UnixDatagram::pair()?;
        Ok((UnixDatagram::from_std(one)?, UnixDatagram::from_std(other)?))
    }

    /// Takes over a socket of the standard library, and sets it to non-blocking mode.
    ///
    /// # Errors
    ///
    /// The system's errors, and an error of kind [`Other`](ErrorKind::Other) outside a runtime.
    pub fn from_std(socket: net::UnixDatagram) -> io::Result<UnixDatagram> {
        UnixDatagram::new(&context::io()?, socket)
    }

    fn new(io: &Arc<Io>, socket: net::UnixDatagram) -> io::Result<UnixDatagram> {
        socket.set_nonblocking(true)?;
        Ok(UnixDatagram { registered: Registered::new(io, Fd(socket))? })
    }

    /// Gives the socket back to the standard library. It stays in non-blocking mode: call
    /// [`set_nonblocking(false)`](net::UnixDatagram::set_nonblocking) if it must block.
    ///
    /// # Errors
    ///
    /// The system's error, if the poller fails to remove the socket; the socket is then closed.
    pub fn into_std(self) -> io::Result<net::UnixDatagram> {
        Ok(self.registered.into_inner()?.0)
    }

    /// Sets the address that [`send`](Self::send) sends to. From now on, nobody else can send to this socket: on Linux others get an
    /// error of kind [`PermissionDenied`](ErrorKind::PermissionDenied).
    ///
    /// What has arrived already, from anyone, is still received, unless this socket was connected to another address before. Then
    /// Linux discards what has arrived; and if the peer from before is connected to this socket, its next operation fails with
    /// [`ConnectionReset`](ErrorKind::ConnectionReset).
    ///
    /// # Errors
    ///
    /// The system's errors, such as [`NotFound`](ErrorKind::NotFound) if there is no file.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.registered.socket().connect(path)
    }

    /// Like [`connect`](Self::connect), with an address that is a path or an [abstract name](super).
    ///
    /// # Errors
    ///
    /// As for `connect`.
    pub fn connect_addr(&self, addr: &SocketAddr) -> io::Result<()> {
        self.registered.socket().connect_addr(addr)
    }

    /// Sends a datagram to the address that this socket is connected to, and returns its length. Waits while the receiver's
    /// queue is full.
    ///
    /// # Errors
    ///
    /// The system's errors, such as [`ConnectionRefused`](ErrorKind::ConnectionRefused) if the receiver is gone.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, nothing was sent.
    pub async fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.registered.async_io(Way::Write, |socket| socket.send(buf)).await
    }

    /// The poll form of [`send`](Self::send), for one task at a time.
    ///
    /// # Errors
    ///
    /// As for `send`.
    pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.registered.poll_io(cx, Way::Write, |socket| socket.send(buf))
    }

    /// Like [`send`](Self::send), without waiting.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](ErrorKind::WouldBlock) if no room is known to be there: wait with [`writable`](Self::writable).
    /// Otherwise as for `send`.
    pub fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        self.registered.try_io(Way::Write, |socket| socket.send(buf))
    }

    /// Receives a datagram from the address that this socket is connected to, or from any sender if it is not connected, and
    /// returns the datagram's length. Bytes that do not fit into `buf` are lost.
    ///
    /// # Errors
    ///
    /// The system's errors.
    ///
    /// # Cancel safety
    ///
    /// No datagram is lost if the future is dropped.
    pub async fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.registered.async_io(Way::Read, |socket| socket.recv(buf)).await
    }

    /// The poll form of [`recv`](Self::recv), for one task at a time.
    ///
    /// # Errors
    ///
    /// As for `recv`.
    pub fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.registered.poll_io(cx, Way::Read, |socket| socket.recv(buf))
    }

    /// Like [`recv`](Self::recv), without waiting.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](ErrorKind::WouldBlock) if no datagram is known to be there: wait with [`readable`](Self::readable).
    /// Otherwise as for `recv`.
    pub fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.registered.try_io(Way::Read, |socket| socket.recv(buf))
    }

    /// Sends a datagram to the socket at that path, and returns its length. Waits while the receiver's queue is full, with
    /// [pauses](super#where-linux-does-not-say-when-to-go-on): to send much to one receiver, [`connect`](Self::connect) to it.
    ///
    /// # Errors
    ///
    /// The system's errors, such as [`NotFound`](ErrorKind::NotFound) if there is no file and
    /// [`ConnectionRefused`](ErrorKind::ConnectionRefused) if the receiver is gone; and an error of kind
    /// [`Other`](ErrorKind::Other) if it has to wait on a thread that is in no runtime, or whose runtime is dropped meanwhile.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, nothing was sent.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use mainspring::net::unix::UnixDatagram;
    ///
    /// mainspring::block_on(async {
    ///     UnixDatagram::unbound()?.send_to(b"<14>example: hello", "/dev/log").await
    /// })
    /// # .unwrap();
    /// ```
    pub async fn send_to(&self, buf: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        self.send_to_addr(buf, &super::address(path).await?).await
    }

    /// Like [`send_to`](Self::send_to), with an address that is a path or an [abstract name](super).
    ///
    /// # Errors
    ///
    /// As for `send_to`.
    ///
    /// # Cancel safety
    ///
    /// As for `send_to`.
    pub async fn send_to_addr(&self, buf: &[u8], addr: &SocketAddr) -> io::Result<usize> {
        let mut pauses = Pauses::new();
        loop {
            let permit = poll_fn(coop::poll_proceed).await;
            match self.registered.attempt(|socket| socket.send_to_addr(buf, addr)) {
                // Waiting is free.
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.pause(pauses.next()).await?,
                sent => {
                    permit.spend();
                    return sent;
                }
            }
        }
    }

    /// Waits after an attempt to send, for this long or until the system reports room.
    async fn pause(&self, pause: Duration) -> io::Result<()> {
        let room = async {
            if has_room(self.registered.socket()) {
                // Another socket's queue is full. No event says when it no longer is. But there is an event without news:
                // the system allocates a datagram before it looks at that queue, and reports that it was freed.
                return pending().await;
            }
            // This socket's own buffer is full, or its peer's queue, which the system reports.
            let has_room =
                |socket: &Fd<_>| has_room(socket).then_some(()).ok_or(ErrorKind::WouldBlock.into());
            self.registered.async_io(Way::Write, has_room).await
        };
        let mut room = pin!(timeout(pause, room));
        poll_fn(|cx| room.as_mut().try_poll(cx)).await.map_err(io::Error::other)?.unwrap_or(Ok(()))
    }

    /// Like [`send_to`](Self::send_to), without waiting.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](ErrorKind::WouldBlock) if the call would have to wait. Do not wait with [`writable`](Self::writable): while
    /// the receiver's queue is full it returns at once, so a loop of both spins. Use `send_to`, or sleep;
    /// see [above](super#where-linux-does-not-say-when-to-go-on). Otherwise as for `send_to`.
    pub fn try_send_to(&self, buf: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        self.try_send_to_addr(buf, &SocketAddr::from_pathname(path)?)
    }

    /// Like [`try_send_to`](Self::try_send_to), with an address that is a path or an [abstract name](super).
    ///
    /// # Errors
    ///
    /// As for `try_send_to`.
    pub fn try_send_to_addr(&self, buf: &[u8], addr: &SocketAddr) -> io::Result<usize> {
        let send = |socket: &Fd<net::UnixDatagram>| socket.send_to_addr(buf, addr);
        match self.registered.try_io(Way::Write, send) {
            // Whether there is room depends on the receiver, and the readiness does not always reflect that.
            Err(error) if error.kind() == ErrorKind::WouldBlock => send(self.registered.socket()),
            sent => sent,
        }
    }

    /// Receives a datagram, and returns its length and its sender. Bytes that do not fit into `buf` are lost.
    ///
    /// # Errors
    ///
    /// The system's errors.
    ///
    /// # Cancel safety
    ///
    /// No datagram is lost if the future is dropped.
    pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.registered.async_io(Way::Read, |socket| socket.recv_from(buf)).await
    }

    /// The poll form of [`recv_from`](Self::recv_from), for one task at a time.
    ///
    /// # Errors
    ///
    /// As for `recv_from`.
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.registered.poll_io(cx, Way::Read, |socket| socket.recv_from(buf))
    }

    /// Like [`recv_from`](Self::recv_from), without waiting.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](ErrorKind::WouldBlock) if no datagram is known to be there: wait with [`readable`](Self::readable).
    /// Otherwise as for `recv_from`.
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.registered.try_io(Way::Read, |socket| socket.recv_from(buf))
    }

    /// Ends receiving, sending or both, for every user of this socket. A send that waits fails with
    /// [`BrokenPipe`](ErrorKind::BrokenPipe).
    ///
    /// A receive does *not* end: Linux says of a non-blocking socket that no datagram is there yet. Datagrams that have arrived can
    /// still be received; those who send more get `BrokenPipe`. Linux does not report that the *peer* has ended its receiving,
    /// either: a [`send`](Self::send) that waits for room goes on waiting until the peer has received what is there, or has
    /// closed its socket.
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

    /// Returns the address that this socket is connected to.
    ///
    /// # Errors
    ///
    /// The system's errors, such as [`NotConnected`](ErrorKind::NotConnected).
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
