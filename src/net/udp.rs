//! A UDP socket.

use super::{ToSocketAddrs, addr, first_of};
use crate::reactor::{Registered, Way};
use crate::runtime::context;
use std::future::ready;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};

/// A UDP socket.
///
/// All methods take `&self`, so tasks can share it in an `Arc`, and any number of them may use the `async`
/// methods at once.
///
/// # Examples
///
/// ```no_run
/// use mainspring::net::UdpSocket;
///
/// mainspring::block_on(async {
///     let socket = UdpSocket::bind("127.0.0.1:7000").await?;
///     let mut buf = [0; 1500];
///     loop {
///         let (len, peer) = socket.recv_from(&mut buf).await?;
///         socket.send_to(&buf[..len], peer).await?;
///     }
/// #   #[allow(unreachable_code)]
/// #   Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
///
/// With options that have to be set before it is bound, by the crate `socket2`:
///
/// ```
/// use mainspring::net::UdpSocket;
/// use socket2::{Domain, Protocol, Socket, Type};
/// use std::net::SocketAddr;
///
/// mainspring::block_on(async {
///     let addr: SocketAddr = "127.0.0.1:0".parse().unwrap();
///     let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
///     socket.set_reuse_address(true)?;
///     socket.set_recv_buffer_size(256 * 1024)?;
///     socket.bind(&addr.into())?;
///     let socket = UdpSocket::from_std(socket.into())?;
///     println!("at {}", socket.local_addr()?);
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
#[derive(Debug)]
pub struct UdpSocket {
    pub(in crate::net) registered: Registered<mio::net::UdpSocket>,
}

impl UdpSocket {
    /// Binds a socket to the first of the addresses that can be bound. Port 0 lets the system choose one.
    ///
    /// # Errors
    ///
    /// Those of [`ToSocketAddrs`], the system's for the last address, and one of kind
    /// [`Other`](io::ErrorKind::Other) outside a runtime.
    ///
    /// # Cancel safety
    ///
    /// It waits only while a name is looked up. Dropping the future abandons the lookup, and nothing is bound.
    pub async fn bind(addr: impl ToSocketAddrs) -> io::Result<UdpSocket> {
        first_of(addr::addrs(addr).await?, |addr| ready(UdpSocket::new(mio::net::UdpSocket::bind(addr))))
            .await
    }

    fn new(socket: io::Result<mio::net::UdpSocket>) -> io::Result<UdpSocket> {
        Ok(UdpSocket { registered: Registered::new(&context::io()?, socket?)? })
    }

    /// Takes over a socket of the standard library, and sets it to non-blocking mode.
    ///
    /// # Errors
    ///
    /// The system's, and one of kind [`Other`](io::ErrorKind::Other) outside a runtime.
    pub fn from_std(socket: std::net::UdpSocket) -> io::Result<UdpSocket> {
        socket.set_nonblocking(true)?;
        UdpSocket::new(Ok(mio::net::UdpSocket::from_std(socket)))
    }

    /// Gives the socket back to the standard library. It stays in non-blocking mode: call
    /// [`set_nonblocking(false)`](std::net::UdpSocket::set_nonblocking) if it is to block.
    ///
    /// # Errors
    ///
    /// The system's, if the poller does not let it go; the socket is then closed.
    pub fn into_std(self) -> io::Result<std::net::UdpSocket> {
        self.registered.into_inner().map(Into::into)
    }

    /// Sets the address that [`send`](Self::send) sends to, and from which alone datagrams are received from now on. The
    /// first of the addresses that the system accepts is taken; no packet is sent.
    ///
    /// # Errors
    ///
    /// Those of [`ToSocketAddrs`], and the system's for the last address.
    ///
    /// # Cancel safety
    ///
    /// It waits only while a name is looked up. Dropping the future abandons the lookup, and the socket stays as it was.
    pub async fn connect(&self, addr: impl ToSocketAddrs) -> io::Result<()> {
        first_of(addr::addrs(addr).await?, |addr| ready(self.registered.socket().connect(addr))).await
    }

    /// Sends a datagram to the address that this is connected to, and returns its length.
    ///
    /// # Errors
    ///
    /// The system's. A datagram that could not be delivered is reported, if at all, by a later call, as
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused); the socket stays usable.
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
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait: do so with [`writable`](Self::writable).
    /// Else as for `send`.
    pub fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        self.registered.try_io(Way::Write, |socket| socket.send(buf))
    }

    /// Receives a datagram from the address that this is connected to, and returns its length. What does not fit
    /// into `buf` is lost.
    ///
    /// # Errors
    ///
    /// The system's. A datagram that could not be delivered is reported, if at all, by a later call, as
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused); the socket stays usable.
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
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait: do so with [`readable`](Self::readable).
    /// Else as for `recv`.
    pub fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.registered.try_io(Way::Read, |socket| socket.recv(buf))
    }

    /// Sends a datagram to the first of the addresses, and returns its length.
    ///
    /// # Errors
    ///
    /// Those of [`ToSocketAddrs`] and the system's. A datagram that could not be delivered is reported, if at all, by a later call, as
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused); the socket stays usable.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, nothing was sent.
    pub async fn send_to(&self, buf: &[u8], target: impl ToSocketAddrs) -> io::Result<usize> {
        let target = addr::addrs(target).await?.as_slice()[0];
        self.registered.async_io(Way::Write, |socket| socket.send_to(buf, target)).await
    }

    /// The poll form of [`send_to`](Self::send_to), for one task at a time.
    ///
    /// # Errors
    ///
    /// As for `send_to`.
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.registered.poll_io(cx, Way::Write, |socket| socket.send_to(buf, target))
    }

    /// Like [`send_to`](Self::send_to), without waiting.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait: do so with [`writable`](Self::writable).
    /// Else as for `send_to`.
    pub fn try_send_to(&self, buf: &[u8], target: SocketAddr) -> io::Result<usize> {
        self.registered.try_io(Way::Write, |socket| socket.send_to(buf, target))
    }

    /// Receives a datagram, and returns its length and its sender. What does not fit into `buf` is lost.
    ///
    /// # Errors
    ///
    /// The system's. A datagram that could not be delivered is reported, if at all, by a later call, as
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused); the socket stays usable.
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
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait: do so with [`readable`](Self::readable).
    /// Else as for `recv_from`.
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.registered.try_io(Way::Read, |socket| socket.recv_from(buf))
    }

    /// Like [`recv`](Self::recv), but the datagram stays and is received again.
    ///
    /// # Errors
    ///
    /// The system's. A datagram that could not be delivered is reported, if at all, by a later call, as
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused); the socket stays usable.
    ///
    /// # Cancel safety
    ///
    /// No datagram is lost if the future is dropped.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.registered.async_io(Way::Read, |socket| socket.peek(buf)).await
    }

    /// The poll form of [`peek`](Self::peek), for one task at a time.
    ///
    /// # Errors
    ///
    /// As for `peek`.
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.registered.poll_io(cx, Way::Read, |socket| socket.peek(buf))
    }

    /// Like [`peek`](Self::peek), without waiting.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait: do so with [`readable`](Self::readable).
    /// Else as for `peek`.
    pub fn try_peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.registered.try_io(Way::Read, |socket| socket.peek(buf))
    }

    /// Like [`recv_from`](Self::recv_from), but the datagram stays and is received again.
    ///
    /// # Errors
    ///
    /// The system's. A datagram that could not be delivered is reported, if at all, by a later call, as
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused); the socket stays usable.
    ///
    /// # Cancel safety
    ///
    /// No datagram is lost if the future is dropped.
    pub async fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.registered.async_io(Way::Read, |socket| socket.peek_from(buf)).await
    }

    /// The poll form of [`peek_from`](Self::peek_from), for one task at a time.
    ///
    /// # Errors
    ///
    /// As for `peek_from`.
    pub fn poll_peek_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.registered.poll_io(cx, Way::Read, |socket| socket.peek_from(buf))
    }

    /// Like [`peek_from`](Self::peek_from), without waiting.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait: do so with [`readable`](Self::readable).
    /// Else as for `peek_from`.
    pub fn try_peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.registered.try_io(Way::Read, |socket| socket.peek_from(buf))
    }

    /// Returns the local address.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.registered.socket().local_addr()
    }

    /// Returns the address that this is connected to.
    ///
    /// # Errors
    ///
    /// The system's, such as [`NotConnected`](io::ErrorKind::NotConnected).
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.registered.socket().peer_addr()
    }

    /// Takes the error that the system keeps for this socket (`SO_ERROR`).
    ///
    /// # Errors
    ///
    /// The system's, if it cannot even say that.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.registered.socket().take_error()
    }

    /// Returns whether packets may be sent to broadcast addresses (`SO_BROADCAST`).
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn broadcast(&self) -> io::Result<bool> {
        self.registered.socket().broadcast()
    }

    /// Sets whether packets may be sent to broadcast addresses.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn set_broadcast(&self, on: bool) -> io::Result<()> {
        self.registered.socket().set_broadcast(on)
    }

    /// Returns how many routers a packet from here may pass (`IP_TTL`).
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn ttl(&self) -> io::Result<u32> {
        self.registered.socket().ttl()
    }

    /// Sets how many routers a packet from here may pass.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.registered.socket().set_ttl(ttl)
    }

    /// Returns whether IPv4 multicast packets from here come back to this machine.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn multicast_loop_v4(&self) -> io::Result<bool> {
        self.registered.socket().multicast_loop_v4()
    }

    /// Sets whether IPv4 multicast packets from here come back to this machine.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn set_multicast_loop_v4(&self, on: bool) -> io::Result<()> {
        self.registered.socket().set_multicast_loop_v4(on)
    }

    /// Returns how many routers an IPv4 multicast packet from here may pass.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        self.registered.socket().multicast_ttl_v4()
    }

    /// Sets how many routers an IPv4 multicast packet from here may pass.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn set_multicast_ttl_v4(&self, ttl: u32) -> io::Result<()> {
        self.registered.socket().set_multicast_ttl_v4(ttl)
    }

    /// Returns whether IPv6 multicast packets from here come back to this machine.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn multicast_loop_v6(&self) -> io::Result<bool> {
        self.registered.socket().multicast_loop_v6()
    }

    /// Sets whether IPv6 multicast packets from here come back to this machine.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn set_multicast_loop_v6(&self, on: bool) -> io::Result<()> {
        self.registered.socket().set_multicast_loop_v6(on)
    }

    /// Joins an IPv4 multicast group on the interface with that address; the unspecified address leaves the choice to
    /// the system.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.registered.socket().join_multicast_v4(group, interface)
    }

    /// Leaves an IPv4 multicast group.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.registered.socket().leave_multicast_v4(group, interface)
    }

    /// Joins an IPv6 multicast group on the interface with that index; 0 leaves the choice to the system.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.registered.socket().join_multicast_v6(group, interface)
    }

    /// Leaves an IPv6 multicast group.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.registered.socket().leave_multicast_v6(group, interface)
    }
}
