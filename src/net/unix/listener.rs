//! A Unix socket that accepts connections.

use super::{SocketAddr, UnixStream, stream};
use crate::net::Incoming;
use crate::reactor::{Fd, Io, Registered, Way};
use crate::runtime::context;
use std::io;
use std::os::unix::net;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A Unix socket that listens for connections.
///
/// Any number of tasks may [`accept`](Self::accept) from it at once. Dropping the listener
/// closes it; the [file](super#the-file-of-a-socket) stays.
///
/// # Examples
///
/// ```no_run
/// use mainspring::net::unix::UnixListener;
///
/// mainspring::block_on(async {
///     let listener = UnixListener::bind("/run/example.sock")?;
///     loop {
///         let (stream, _) = listener.accept().await?;
/// #       drop(stream);
///     }
/// #   #[allow(unreachable_code)]
/// #   Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
#[derive(Debug)]
pub struct UnixListener {
    pub(in crate::net) registered: Registered<Fd<net::UnixListener>>,
    /// Its connections are of packets. Only a listener of std's may be so.
    in_packets: bool,
}

impl UnixListener {
    /// Makes a file at that path and listens on it. The standard library chooses how many connections may wait to be
    /// accepted.
    ///
    /// # Errors
    ///
    /// The system's errors, such as [`AddrInUse`](io::ErrorKind::AddrInUse) if there is a file already, and an error of kind
    /// [`Other`](io::ErrorKind::Other) outside a runtime.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixListener> {
        UnixListener::bind_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Like [`bind`](Self::bind), with an address that is a path or an [abstract name](super).
    ///
    /// # Errors
    ///
    /// As for `bind`.
    pub fn bind_addr(addr: &SocketAddr) -> io::Result<UnixListener> {
        // First, so that no file is left if there is no runtime.
        let io = context::io()?;
        UnixListener::new(&io, net::UnixListener::bind_addr(addr)?)
    }

    /// Takes over a listener of the standard library, and sets it to non-blocking mode.
    ///
    /// # Errors
    ///
    /// The system's errors, and an error of kind [`Other`](io::ErrorKind::Other) outside a runtime.
    pub fn from_std(listener: net::UnixListener) -> io::Result<UnixListener> {
        let in_packets = stream::is_of_packets(&listener);
        Ok(UnixListener { in_packets, ..UnixListener::new(&context::io()?, listener)? })
    }

    fn new(io: &Arc<Io>, listener: net::UnixListener) -> io::Result<UnixListener> {
        listener.set_nonblocking(true)?;
        Ok(UnixListener { registered: Registered::new(io, Fd(listener))?, in_packets: false })
    }

    /// Gives the listener back to the standard library. It stays in non-blocking mode: call
    /// [`set_nonblocking(false)`](net::UnixListener::set_nonblocking) if it must block.
    ///
    /// # Errors
    ///
    /// The system's error, if the poller fails to remove the socket; the listener is then closed.
    pub fn into_std(self) -> io::Result<net::UnixListener> {
        Ok(self.registered.into_inner()?.0)
    }

    /// Accepts a connection, waiting for one if necessary. The stream belongs to the listener's runtime. Most clients have no
    /// name, and so no address.
    ///
    /// # Errors
    ///
    /// As for [`TcpListener::accept`](crate::net::TcpListener::accept): the listener stays usable, and if descriptors have run
    /// out, sleep for a moment before the next call.
    ///
    /// # Cancel safety
    ///
    /// No connection is lost if the future is dropped.
    pub async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        self.accepted(self.registered.async_io(Way::Read, |listener| listener.accept()).await?)
    }

    /// The poll form of [`accept`](Self::accept), for one task at a time.
    ///
    /// # Errors
    ///
    /// As for `accept`.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        let accepted = self.registered.poll_io(cx, Way::Read, |listener| listener.accept());
        accepted.map(|accepted| self.accepted(accepted?))
    }

    fn accepted(
        &self,
        (socket, peer): (net::UnixStream, SocketAddr),
    ) -> io::Result<(UnixStream, SocketAddr)> {
        Ok((UnixStream::new(self.registered.io(), socket)?.in_packets(self.in_packets), peer))
    }

    /// Returns the connections as an endless stream, for one task at a time.
    ///
    /// The stream does not end with an error; the errors of [`accept`](Self::accept) are among its items.
    ///
    /// ```no_run
    /// use futures::TryStreamExt;
    /// use mainspring::net::unix::UnixListener;
    ///
    /// mainspring::block_on(async {
    ///     let listener = UnixListener::bind("/run/example.sock")?;
    ///     // Until the first error.
    ///     listener.incoming().try_for_each(async |stream| stream.shutdown(std::net::Shutdown::Both)).await
    /// })
    /// # .unwrap();
    /// ```
    pub fn incoming(&self) -> Incoming<'_, UnixListener> {
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

    /// Takes the error that the system keeps for this socket (`SO_ERROR`).
    ///
    /// # Errors
    ///
    /// The system's error, if the query itself fails.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.registered.socket().take_error()
    }
}
