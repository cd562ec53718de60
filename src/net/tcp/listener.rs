//! A socket that accepts connections.

use super::{TcpSocket, TcpStream};
use crate::net::{Incoming, ToSocketAddrs, first_at_once, hops};
use crate::reactor::{Registered, Way};
use crate::runtime::context;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// The maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// A TCP socket that listens for connections.
///
/// Any number of tasks may [`accept`](Self::accept) from it at once. Dropping the listener closes
/// it; connections that wait to be accepted are then reset.
///
/// # Examples
///
/// ```no_run
/// use mainspring::net::TcpListener;
///
/// mainspring::block_on(async {
///     let listener = TcpListener::bind("127.0.0.1:7000").await?;
///     let (stream, peer) = listener.accept().await?;
///     println!("{peer} has connected");
/// #   drop(stream);
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
#[derive(Debug)]
pub struct TcpListener {
    pub(in crate::net) registered: Registered<mio::net::TcpListener>,
}

impl TcpListener {
    /// Listens on the first of the addresses that can be bound. Port 0 lets the system choose a port; see
    /// [`local_addr`](Self::local_addr).
    ///
    /// Up to 1024 connections may wait to be accepted. On Unix the address may be taken over from a listener
    /// that was closed recently (`SO_REUSEADDR`).
    ///
    /// # Errors
    ///
    /// The errors of [`ToSocketAddrs`], the system's error for the last address, and an error of kind
    /// [`Other`](io::ErrorKind::Other) outside a runtime.
    ///
    /// # Cancel safety
    ///
    /// It waits only while a name is looked up. Dropping the future abandons the lookup, and nothing is bound.
    pub async fn bind(addr: impl ToSocketAddrs) -> io::Result<TcpListener> {
        first_at_once(addr, TcpListener::bind_one).await
    }

    fn bind_one(addr: SocketAddr) -> io::Result<TcpListener> {
        let socket = TcpSocket::for_address(addr)?;
        // On Windows the option of this name would let other sockets take the address while this one has it.
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        socket.listen(BACKLOG)
    }

    /// Takes over a listener of the standard library, and sets it to non-blocking mode.
    ///
    /// # Errors
    ///
    /// The system's errors, and an error of kind [`Other`](io::ErrorKind::Other) outside a runtime.
    pub fn from_std(listener: std::net::TcpListener) -> io::Result<TcpListener> {
        listener.set_nonblocking(true)?;
        let socket = mio::net::TcpListener::from_std(listener);
        Ok(TcpListener { registered: Registered::new(&context::io()?, socket)? })
    }

    /// Gives the listener back to the standard library. It stays in non-blocking mode: call
    /// [`set_nonblocking(false)`](std::net::TcpListener::set_nonblocking) if it must block.
    ///
    /// # Errors
    ///
    /// The system's error, if the poller fails to remove the socket; the listener is then closed.
    pub fn into_std(self) -> io::Result<std::net::TcpListener> {
        self.registered.into_inner().map(Into::into)
    }

    /// Accepts a connection, waiting for one if necessary. The stream belongs to the listener's runtime.
    ///
    /// # Errors
    ///
    /// The listener stays usable after an error, and a failed `accept` is not retried automatically: each call
    /// reports an error once. The errors are of two kinds:
    ///
    /// * The connection was lost before it could be accepted, as in
    ///   [`ConnectionAborted`](io::ErrorKind::ConnectionAborted). Call again.
    /// * The process or the system has run out of a resource, mostly descriptors (`EMFILE`, `ENFILE`; Linux
    ///   says so even if no connection waits). Connections keep waiting, so an immediate second call will
    ///   fail in the same way: sleep for a moment first. The [module](crate::net#example) shows such a loop.
    ///
    /// # Cancel safety
    ///
    /// No connection is lost if the future is dropped.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, peer) = self.registered.async_io(Way::Read, |listener| listener.accept()).await?;
        Ok((TcpStream::new(self.registered.io(), socket)?, peer))
    }

    /// The poll form of [`accept`](Self::accept), for one task at a time.
    ///
    /// # Errors
    ///
    /// As for `accept`.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        self.registered.poll_io(cx, Way::Read, |listener| listener.accept()).map(|accepted| {
            let (socket, peer) = accepted?;
            Ok((TcpStream::new(self.registered.io(), socket)?, peer))
        })
    }

    /// Returns the connections as an endless stream, for one task at a time.
    ///
    /// The stream does not end with an error; the errors of [`accept`](Self::accept) are among its items.
    ///
    /// ```
    /// use futures::StreamExt;
    /// use mainspring::net::{TcpListener, TcpStream};
    ///
    /// mainspring::block_on(async {
    ///     let listener = TcpListener::bind("127.0.0.1:0").await?;
    ///     let addr = listener.local_addr()?;
    ///     mainspring::spawn(async move { drop(TcpStream::connect(addr).await) }).detach();
    ///     let mut incoming = listener.incoming();
    ///     if let Some(stream) = incoming.next().await {
    ///         println!("{} has connected", stream?.peer_addr()?);
    ///     }
    ///     Ok::<_, std::io::Error>(())
    /// })
    /// # .unwrap();
    /// ```
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming::new(self)
    }

    /// Returns the address that this socket listens on.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.registered.socket().local_addr()
    }

    /// Returns how many routers a packet from this socket may pass (`IP_TTL`).
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn ttl(&self) -> io::Result<u32> {
        self.registered.socket().ttl()
    }

    /// Sets how many routers a packet from this socket may pass.
    ///
    /// # Errors
    ///
    /// The system's errors, and one of kind [`InvalidInput`](io::ErrorKind::InvalidInput) for more than 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.registered.socket().set_ttl(hops(ttl)?)
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
