//! A socket that is neither connected nor listening yet, for options that must be set beforehand.
//!
//! Ground rules:
//!
//! * It is not registered with any reactor: it needs no runtime until it listens or connects.
//! * Options of the system that this type lacks are set through its descriptor, with the crate `socket2`.

use super::{TcpListener, TcpStream};
use crate::runtime::context;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

/// The largest size of a buffer, in bytes. (The system's type has 31 bits.)
const LARGEST_BUFFER: usize = i32::MAX as usize;

/// A TCP socket that is neither connected nor listening yet, for options that must be set beforehand.
///
/// [`TcpListener::bind`] and [`TcpStream::connect`] do not need it. The methods that set an option take `&self`.
/// [`listen`](Self::listen) and [`connect`](Self::connect) turn the socket into a listener or a stream of the runtime in
/// which they are called. Dropping the socket closes it.
///
/// Other options can be set through `socket2::SockRef`, of the crate `socket2`, which takes a reference to this socket.
///
/// # Examples
///
/// A listener with a short queue, and a connection from a chosen address:
///
/// ```
/// use mainspring::net::TcpSocket;
///
/// mainspring::block_on(async {
///     let socket = TcpSocket::new_v4()?;
///     socket.set_recv_buffer_size(64 * 1024)?;
///     socket.bind("127.0.0.1:0".parse().unwrap())?;
///     let listener = socket.listen(16)?;
///
///     let socket = TcpSocket::new_v4()?;
///     socket.set_nodelay(true)?;
///     socket.bind("127.0.0.1:0".parse().unwrap())?;
///     let from = socket.local_addr()?;
///     let stream = socket.connect(listener.local_addr()?).await?;
///     assert_eq!(stream.local_addr()?, from);
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
#[derive(Debug)]
pub struct TcpSocket {
    pub(in crate::net) socket: Socket,
}

impl TcpSocket {
    /// Makes a socket for IPv4.
    ///
    /// # Errors
    ///
    /// The system's errors, usually that there is no descriptor left.
    pub fn new_v4() -> io::Result<TcpSocket> {
        TcpSocket::new(Domain::IPV4)
    }

    /// Makes a socket for IPv6.
    ///
    /// # Errors
    ///
    /// The system's errors: that there is no descriptor left, or no IPv6.
    pub fn new_v6() -> io::Result<TcpSocket> {
        TcpSocket::new(Domain::IPV6)
    }

    pub(super) fn for_address(addr: SocketAddr) -> io::Result<TcpSocket> {
        TcpSocket::new(Domain::for_address(addr))
    }

    fn new(domain: Domain) -> io::Result<TcpSocket> {
        Ok(TcpSocket { socket: Socket::new(domain, Type::STREAM, Some(Protocol::TCP))? })
    }

    /// Binds the socket to this address. Port 0 lets the system choose a port; see [`local_addr`](Self::local_addr).
    ///
    /// # Errors
    ///
    /// The system's errors, such as [`AddrInUse`](ErrorKind::AddrInUse), or that the address is of the other IP version.
    pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        self.socket.bind(&addr.into())
    }

    /// Turns the socket into a listener for which up to `backlog` connections may wait to be accepted. The system may
    /// set a lower limit, and lets one or two more wait.
    ///
    /// # Errors
    ///
    /// The system's errors, and an error of kind [`Other`](ErrorKind::Other) outside a runtime. The socket is closed on an error.
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        self.socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        TcpListener::from_std(self.socket.into())
    }

    /// Connects the socket to this address.
    ///
    /// The only time limit is the system's, which is minutes: wrap the call in a timeout. A socket with Linux's option
    /// `TCP_FASTOPEN_CONNECT` may be returned at once; then the first write connects it, and returns the errors.
    ///
    /// # Errors
    ///
    /// The system's errors, such as [`ConnectionRefused`](ErrorKind::ConnectionRefused), and an error of kind
    /// [`Other`](ErrorKind::Other) outside a runtime. The socket is closed on an error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future abandons the attempt and closes the socket at once.
    pub async fn connect(self, addr: SocketAddr) -> io::Result<TcpStream> {
        let io = context::io()?;
        self.socket.set_nonblocking(true)?;
        let begin = || {
            let is_under_way = match self.socket.connect(&addr.into()) {
                Ok(()) => false,
                Err(error) if is_under_way(&error) => true,
                Err(error) => return Err(error),
            };
            Ok((mio::net::TcpStream::from_std(self.socket.into()), is_under_way))
        };
        TcpStream::connecting(&io, begin).await
    }

    /// Returns the address that the socket is bound to.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let addr = self.socket.local_addr()?;
        addr.as_socket()
            .ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "the socket is not an IP socket"))
    }

    /// Returns whether the address may be taken over from a listener that was closed recently (`SO_REUSEADDR`).
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn reuseaddr(&self) -> io::Result<bool> {
        self.socket.reuse_address()
    }

    /// Sets whether the address may be taken over from a listener that was closed recently. On Windows other sockets may then
    /// take the address while this socket has it.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn set_reuseaddr(&self, on: bool) -> io::Result<()> {
        self.socket.set_reuse_address(on)
    }

    /// Returns whether several sockets may be bound to one address (`SO_REUSEPORT`).
    ///
    /// # Errors
    ///
    /// The system's errors.
    #[cfg(all(unix, not(any(target_os = "solaris", target_os = "illumos", target_os = "cygwin"))))]
    pub fn reuseport(&self) -> io::Result<bool> {
        self.socket.reuse_port()
    }

    /// Sets whether several sockets may be bound to one address; each of them must set the option beforehand. Linux distributes
    /// the connections over the listeners, so that each of several runtimes can have its own listener.
    ///
    /// # Errors
    ///
    /// The system's errors.
    ///
    /// # Examples
    ///
    /// ```
    /// use mainspring::net::TcpSocket;
    /// use std::net::SocketAddr;
    ///
    /// fn bound(addr: SocketAddr) -> std::io::Result<TcpSocket> {
    ///     let socket = TcpSocket::new_v4()?;
    ///     socket.set_reuseport(true)?;
    ///     socket.bind(addr)?;
    ///     Ok(socket)
    /// }
    ///
    /// let one = bound("127.0.0.1:0".parse().unwrap())?;
    /// let other = bound(one.local_addr()?)?;
    /// # drop(other);
    /// # Ok::<_, std::io::Error>(())
    /// ```
    #[cfg(all(unix, not(any(target_os = "solaris", target_os = "illumos", target_os = "cygwin"))))]
    pub fn set_reuseport(&self, on: bool) -> io::Result<()> {
        self.socket.set_reuse_port(on)
    }

    /// Returns whether small writes are sent at once (`TCP_NODELAY`).
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.socket.tcp_nodelay()
    }

    /// Sets whether small writes are sent at once, instead of being collected while an answer is awaited.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.socket.set_tcp_nodelay(on)
    }

    /// Returns whether the system checks that a silent peer is still there (`SO_KEEPALIVE`).
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn keepalive(&self) -> io::Result<bool> {
        self.socket.keepalive()
    }

    /// Sets whether the system checks that a silent peer is still there. The checks begin after hours; to set another time, use
    /// `socket2::SockRef`.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn set_keepalive(&self, on: bool) -> io::Result<()> {
        self.socket.set_keepalive(on)
    }

    /// Returns the size of the system's buffer for bytes to be sent (`SO_SNDBUF`), in bytes.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn send_buffer_size(&self) -> io::Result<usize> {
        self.socket.send_buffer_size()
    }

    /// Sets the size of the system's buffer for bytes to be sent, in bytes. The system may choose another size: Linux doubles
    /// it, for its own needs.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn set_send_buffer_size(&self, size: usize) -> io::Result<()> {
        self.socket.set_send_buffer_size(size.min(LARGEST_BUFFER))
    }

    /// Returns the size of the system's buffer for received bytes (`SO_RCVBUF`), in bytes.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn recv_buffer_size(&self) -> io::Result<usize> {
        self.socket.recv_buffer_size()
    }

    /// Sets the size of the system's buffer for received bytes, in bytes. The system may choose another size. Connections that
    /// a listener accepts have the listener's size.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn set_recv_buffer_size(&self, size: usize) -> io::Result<()> {
        self.socket.set_recv_buffer_size(size.min(LARGEST_BUFFER))
    }
}

/// Returns whether the error means that the connection, which could not be made at once, is being made.
fn is_under_way(error: &io::Error) -> bool {
    #[cfg(unix)]
    return error.raw_os_error() == Some(libc::EINPROGRESS);
    #[cfg(not(unix))]
    return error.kind() == ErrorKind::WouldBlock;
}
