//! A UDP socket: how to make one, and the address it is connected to.

mod datagrams;
mod options;

use super::{ToSocketAddrs, first_at_once};
use crate::reactor::Registered;
use crate::runtime::context;
use std::io;
use std::net::SocketAddr;

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
/// With options that must be set before the socket is bound, through the crate `socket2`:
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
    /// Binds a socket to the first of the addresses that can be bound. Port 0 lets the system choose a port.
    ///
    /// # Errors
    ///
    /// The errors of [`ToSocketAddrs`], the system's error for the last address, and an error of kind
    /// [`Other`](io::ErrorKind::Other) outside a runtime.
    ///
    /// # Cancel safety
    ///
    /// It waits only while a name is looked up. Dropping the future abandons the lookup, and nothing is bound.
    pub async fn bind(addr: impl ToSocketAddrs) -> io::Result<UdpSocket> {
        first_at_once(addr, |addr| UdpSocket::new(mio::net::UdpSocket::bind(addr))).await
    }

    fn new(socket: io::Result<mio::net::UdpSocket>) -> io::Result<UdpSocket> {
        Ok(UdpSocket { registered: Registered::new(&context::io()?, socket?)? })
    }

    /// Takes over a socket of the standard library, and sets it to non-blocking mode.
    ///
    /// # Errors
    ///
    /// The system's errors, and an error of kind [`Other`](io::ErrorKind::Other) outside a runtime.
    pub fn from_std(socket: std::net::UdpSocket) -> io::Result<UdpSocket> {
        socket.set_nonblocking(true)?;
        UdpSocket::new(Ok(mio::net::UdpSocket::from_std(socket)))
    }

    /// Gives the socket back to the standard library. It stays in non-blocking mode: call
    /// [`set_nonblocking(false)`](std::net::UdpSocket::set_nonblocking) if it must block.
    ///
    /// # Errors
    ///
    /// The system's error, if the poller fails to remove the socket; the socket is then closed.
    pub fn into_std(self) -> io::Result<std::net::UdpSocket> {
        self.registered.into_inner().map(Into::into)
    }

    /// Sets the address that [`send`](Self::send) sends to. From now on, datagrams from other addresses are discarded, except for
    /// those that have arrived already. The first of the addresses that the system accepts is taken; no packet is sent.
    ///
    /// # Errors
    ///
    /// The errors of [`ToSocketAddrs`], and the system's error for the last address.
    ///
    /// # Cancel safety
    ///
    /// It waits only while a name is looked up. Dropping the future abandons the lookup, and the socket stays as it was.
    pub async fn connect(&self, addr: impl ToSocketAddrs) -> io::Result<()> {
        first_at_once(addr, |addr| self.registered.socket().connect(addr)).await
    }

    /// Returns the local address.
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
    /// The system's errors, such as [`NotConnected`](io::ErrorKind::NotConnected).
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
