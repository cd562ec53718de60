//! A TCP connection.

use crate::coop;
use crate::io::{first_nonempty, read_by_ref, write_by_ref};
use crate::net::split::{self, OwnedReadHalf, OwnedWriteHalf};
use crate::net::{ToSocketAddrs, addr, first_of, gather, hops};
use crate::reactor::{Io, Registered, Way};
use crate::runtime::context;
use futures_io::{AsyncRead, AsyncWrite};
use socket2::SockRef;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The longest time to linger, in seconds. (The system's type has 31 bits, on Windows 16.)
const LONGEST_LINGER: u64 = if cfg!(windows) { u16::MAX as u64 } else { i32::MAX as u64 };

/// A TCP connection.
///
/// Read and write it through [`AsyncRead`] and [`AsyncWrite`], with the methods that the `futures` crate
/// adds to them. Both traits are also implemented for `&TcpStream`: within one task, two references serve as two halves.
/// The halves of [`into_split`](Self::into_split) serve two tasks, one for each direction. (The `split` that `futures`
/// adds puts a lock between its halves, which this stream does not need.)
///
/// Closing through `AsyncWrite` ends the writing direction only, so that the answer can still be read.
/// Dropping the stream closes it.
///
/// # Examples
///
/// ```no_run
/// use futures::{AsyncReadExt, AsyncWriteExt};
/// use mainspring::net::TcpStream;
///
/// mainspring::block_on(async {
///     let mut stream = TcpStream::connect("example.org:80").await?;
///     stream.write_all(b"GET / HTTP/1.0\r\nHost: example.org\r\n\r\n").await?;
///     let mut page = String::new();
///     stream.read_to_string(&mut page).await?;
///     println!("{page}");
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
///
/// Reading and writing at the same time, in one task:
///
/// ```no_run
/// use futures::io::copy;
/// use futures::try_join;
/// use mainspring::net::TcpStream;
///
/// # async fn relay(one: TcpStream, other: TcpStream) -> std::io::Result<()> {
/// let (mut to_one, mut to_other) = (&one, &other);
/// try_join!(copy(&one, &mut to_other), copy(&other, &mut to_one))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TcpStream {
    pub(crate) registered: Registered<mio::net::TcpStream>,
}

impl TcpStream {
    /// Connects to the first of the addresses that answers, trying one after the other.
    ///
    /// The only time limit is the system's, which is minutes: wrap the call in a timeout.
    ///
    /// # Errors
    ///
    /// The errors of [`ToSocketAddrs`], the system's error for the last address, such as
    /// [`ConnectionRefused`](ErrorKind::ConnectionRefused), and an error of kind [`Other`](ErrorKind::Other)
    /// outside a runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future abandons the attempt and closes its socket at once.
    pub async fn connect(addr: impl ToSocketAddrs) -> io::Result<TcpStream> {
        first_of(addr::addrs(addr).await?, TcpStream::connect_one).await
    }

    async fn connect_one(addr: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connecting(&context::io()?, || Ok((mio::net::TcpStream::connect(addr)?, true))).await
    }

    /// Waits until a socket is connected, and returns its stream. `begin` begins to connect it, and returns whether that may still
    /// be under way. If it is not, the system has no more to tell, even if it connects the socket only when something is written.
    pub(super) async fn connecting(
        io: &Arc<Io>,
        begin: impl FnOnce() -> io::Result<(mio::net::TcpStream, bool)>,
    ) -> io::Result<TcpStream> {
        let permit = coop::permit().await;
        let begun = begin().and_then(|(socket, under_way)| Ok((TcpStream::new(io, socket)?, under_way)));
        let stream = match begun {
            // The connection is charged for once it is made.
            Ok((stream, true)) => stream,
            done => {
                permit.spend();
                return done.map(|(stream, _)| stream);
            }
        };
        let connected = |socket: &mio::net::TcpStream| {
            let Err(error) = socket.peer_addr() else { return Ok(()) };
            // A socket's error is reported only once. Without it, a refused socket looks like one that is still connecting.
            match socket.take_error()? {
                Some(refused) => Err(refused),
                None if error.kind() == ErrorKind::NotConnected => Err(ErrorKind::WouldBlock.into()),
                None => Err(error),
            }
        };
        stream.registered.async_io(Way::Write, connected).await?;
        Ok(stream)
    }

    pub(super) fn new(io: &Arc<Io>, socket: mio::net::TcpStream) -> io::Result<TcpStream> {
        Ok(TcpStream { registered: Registered::new(io, socket)? })
    }

    /// Takes over a connected stream of the standard library, and sets it to non-blocking mode.
    ///
    /// # Errors
    ///
    /// The system's errors, and an error of kind [`Other`](ErrorKind::Other) outside a runtime.
    pub fn from_std(stream: std::net::TcpStream) -> io::Result<TcpStream> {
        stream.set_nonblocking(true)?;
        TcpStream::new(&context::io()?, mio::net::TcpStream::from_std(stream))
    }

    /// Gives the stream back to the standard library. It stays in non-blocking mode: call
    /// [`set_nonblocking(false)`](std::net::TcpStream::set_nonblocking) if it must block.
    ///
    /// # Errors
    ///
    /// The system's error, if the poller fails to remove the socket; the stream is then closed.
    pub fn into_std(self) -> io::Result<std::net::TcpStream> {
        self.registered.into_inner().map(Into::into)
    }

    /// Splits the stream into two halves that can go to different tasks.
    ///
    /// Dropping the writing half ends the writing direction; the connection is closed when both halves are gone.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use futures::io::copy;
    /// use mainspring::net::TcpStream;
    ///
    /// # async fn echo(stream: TcpStream) -> std::io::Result<()> {
    /// let (reader, mut writer) = stream.into_split();
    /// copy(reader, &mut writer).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
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
        self.registered.try_io(Way::Read, |mut socket| socket.read(buf))
    }

    /// Like [`try_read`](Self::try_read), into several buffers in turn.
    ///
    /// # Errors
    ///
    /// As for `try_read`.
    pub fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let first = first_nonempty(bufs);
        self.registered.try_io(Way::Read, |mut socket| socket.read_vectored(&mut bufs[first..]))
    }

    /// Writes the bytes that fit, without waiting.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](ErrorKind::WouldBlock) if no room is known to be there: wait with
    /// [`writable`](Self::writable). Otherwise the system's errors.
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.registered.try_io(Way::Write, |mut socket| socket.write(buf))
    }

    /// Like [`try_write`](Self::try_write), from several buffers in turn.
    ///
    /// # Errors
    ///
    /// As for `try_write`.
    pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.registered.try_io(Way::Write, |socket| gather::write(socket, bufs))
    }

    /// Reads bytes without removing them: the next read gets the same bytes. Waits until there are some. Returns 0 at the
    /// end of the stream.
    ///
    /// # Errors
    ///
    /// The system's errors.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.registered.async_io(Way::Read, |socket| socket.peek(buf)).await
    }

    /// The poll form of [`peek`](Self::peek), for one task at a time.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.registered.poll_io(cx, Way::Read, |socket| socket.peek(buf))
    }

    /// Ends reading, writing or both, for every user of this connection.
    ///
    /// # Errors
    ///
    /// The system's errors, such as [`NotConnected`](ErrorKind::NotConnected) when the peer has reset the
    /// connection.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.registered.socket().shutdown(how)
    }

    /// Returns the local address.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.registered.socket().local_addr()
    }

    /// Returns the peer's address.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.registered.socket().peer_addr()
    }

    /// Returns whether small writes are sent at once (`TCP_NODELAY`).
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.registered.socket().nodelay()
    }

    /// Sets whether small writes are sent at once, instead of being collected while an answer is awaited.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.registered.socket().set_nodelay(nodelay)
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
    /// The system's errors, and one of kind [`InvalidInput`](ErrorKind::InvalidInput) for more than 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.registered.socket().set_ttl(hops(ttl)?)
    }

    /// Returns how long the system goes on sending after the stream was closed, if a time is set (`SO_LINGER`).
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        SockRef::from(self.registered.socket()).linger()
    }

    /// Sets how long the system goes on sending after the stream was closed, in whole seconds, rounded up. `None` leaves
    /// that to the system, which sends in the background. Zero discards unsent bytes and resets the connection.
    ///
    /// Any other value makes closing *block* for up to that time. If the stream is dropped on the runtime's
    /// thread, that thread blocks.
    ///
    /// # Errors
    ///
    /// The system's errors.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        // Rounded down, a fraction of a second would be zero; and so would be more seconds than the system's type holds.
        let whole = |time: Duration| time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0));
        let linger = linger.map(|time| Duration::from_secs(whole(time).min(LONGEST_LINGER)));
        SockRef::from(self.registered.socket()).set_linger(linger)
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

impl AsyncRead for &TcpStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.registered.poll_stream(cx, Way::Read, buf.len(), |mut socket| socket.read(buf))
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = first_nonempty(bufs);
        self.registered.poll_io(cx, Way::Read, |mut socket| socket.read_vectored(&mut bufs[first..]))
    }
}

impl AsyncWrite for &TcpStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.registered.poll_stream(cx, Way::Write, buf.len(), |mut socket| socket.write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.registered.poll_io(cx, Way::Write, |socket| gather::write(socket, bufs))
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

read_by_ref!([] TcpStream, [] |stream| stream);
write_by_ref!([] TcpStream, [] |stream| stream);
