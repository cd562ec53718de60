//! The two halves of a TCP or Unix stream.

use super::TcpStream;
use crate::io::{read_by_ref, write_by_ref};
use futures_io::{AsyncRead, AsyncWrite};
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

/// The reading half of a [`TcpStream`], or of a Unix stream, made by [`into_split`](TcpStream::into_split).
///
/// Dropping this half ends nothing: the connection is closed when both halves are gone. Everything else that the stream can
/// do, including its `try_io` and its descriptor, is available through [`as_ref`](AsRef::as_ref).
///
/// ```
/// use futures::{AsyncReadExt, AsyncWriteExt};
/// use mainspring::net::{TcpListener, TcpStream};
///
/// mainspring::block_on(async {
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let client = TcpStream::connect(listener.local_addr()?).await?;
///     let (mut server, _) = listener.accept().await?;
///     let (mut reader, _writer) = client.into_split();
///     let task = mainspring::spawn(async move {
///         let mut text = String::new();
///         reader.read_to_string(&mut text).await.map(|_| text)
///     });
///     server.write_all(b"hello").await?;
///     drop(server);
///     assert_eq!(task.await??, "hello");
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
#[derive(Debug)]
pub struct OwnedReadHalf<S = TcpStream>(Arc<S>);

/// The writing half of a [`TcpStream`], or of a Unix stream, made by [`into_split`](TcpStream::into_split).
///
/// Dropping this half ends the writing direction, so that the peer sees the end of the stream even if the other
/// half still exists. To avoid that, [`reunite`](Self::reunite) the halves. Everything else that the stream can do,
/// including its `try_io` and its descriptor, is available through [`as_ref`](AsRef::as_ref). In a child by `fork`, dropping this
/// half ends nothing: the connection is the parent's.
///
/// ```
/// use futures::{AsyncReadExt, AsyncWriteExt};
/// use mainspring::net::{TcpListener, TcpStream};
///
/// mainspring::block_on(async {
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let client = TcpStream::connect(listener.local_addr()?).await?;
///     let (mut server, _) = listener.accept().await?;
///     let (_reader, mut writer) = client.into_split();
///     writer.write_all(b"that is all").await?;
///     drop(writer);
///     let mut text = String::new();
///     server.read_to_string(&mut text).await?;
///     assert_eq!(text, "that is all");
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
#[derive(Debug)]
pub struct OwnedWriteHalf<S = TcpStream> {
    /// `None` only after `reunite`, so that `drop` does not end the writing direction.
    stream: Option<Arc<S>>,
    /// Ends the writing direction, unless this process is a child by `fork` of the process whose connection it is.
    end: fn(&S) -> io::Result<()>,
}

/// Splits a stream into its halves. `end` ends the writing direction, unless this process is a child by `fork`.
pub(super) fn into_split<S>(
    stream: S,
    end: fn(&S) -> io::Result<()>,
) -> (OwnedReadHalf<S>, OwnedWriteHalf<S>) {
    let stream = Arc::new(stream);
    (OwnedReadHalf(stream.clone()), OwnedWriteHalf { stream: Some(stream), end })
}

/// The result of ending the writing direction. A connection that is already gone counts as closed.
pub(super) fn closed(ended: io::Result<()>) -> io::Result<()> {
    ended.or_else(|error| if error.kind() == io::ErrorKind::NotConnected { Ok(()) } else { Err(error) })
}

read_by_ref!([S] OwnedReadHalf<S>, [for<'a> &'a S: AsyncRead] |half| half.as_ref());
write_by_ref!([S] OwnedWriteHalf<S>, [for<'a> &'a S: AsyncWrite] |half| half.as_ref());

/// The methods that both halves of a stream have.
macro_rules! addresses {
    ($stream:ty, $addr:ty, [$($half:ident),*]) => {$(
        impl $half<$stream> {
            /// Returns the local address.
            ///
            /// # Errors
            ///
            /// The system's errors.
            pub fn local_addr(&self) -> io::Result<$addr> {
                self.as_ref().local_addr()
            }

            /// Returns the peer's address.
            ///
            /// # Errors
            ///
            /// The system's errors.
            pub fn peer_addr(&self) -> io::Result<$addr> {
                self.as_ref().peer_addr()
            }
        }
    )*};
}

addresses!(TcpStream, std::net::SocketAddr, [OwnedReadHalf, OwnedWriteHalf]);
#[cfg(unix)]
addresses!(super::unix::UnixStream, super::unix::SocketAddr, [OwnedReadHalf, OwnedWriteHalf]);

impl<S> AsRef<S> for OwnedReadHalf<S> {
    fn as_ref(&self) -> &S {
        &self.0
    }
}

impl<S> AsRef<S> for OwnedWriteHalf<S> {
    fn as_ref(&self) -> &S {
        self.stream.as_deref().expect("a half has its stream until it is reunited by value")
    }
}

impl<S> OwnedReadHalf<S> {
    /// Puts the two halves together into the stream again.
    ///
    /// # Errors
    ///
    /// Returns the halves if they come from different streams.
    pub fn reunite(self, other: OwnedWriteHalf<S>) -> Result<S, ReuniteError<S>> {
        reunite(self, other)
    }
}

impl<S> OwnedWriteHalf<S> {
    /// Puts the two halves together into the stream again.
    ///
    /// # Errors
    ///
    /// Returns the halves if they come from different streams.
    pub fn reunite(self, other: OwnedReadHalf<S>) -> Result<S, ReuniteError<S>> {
        reunite(other, self)
    }
}

impl<S> Drop for OwnedWriteHalf<S> {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            // An error means that the connection is gone already.
            let _ = (self.end)(stream);
        }
    }
}

fn reunite<S>(read: OwnedReadHalf<S>, mut write: OwnedWriteHalf<S>) -> Result<S, ReuniteError<S>> {
    if !std::ptr::eq(read.as_ref(), write.as_ref()) {
        return Err(ReuniteError(read, write));
    }
    write.stream = None;
    Ok(Arc::into_inner(read.0).expect("a stream has one half of each kind, and both are here"))
}

/// The error of `reunite` if the halves come from different streams. It contains both halves.
///
/// ```no_run
/// use mainspring::net::{ReuniteError, TcpStream};
///
/// # async fn example(one: TcpStream, other: TcpStream) -> std::io::Result<()> {
/// let (reader, writer) = one.into_split();
/// let (other_reader, other_writer) = other.into_split();
/// let ReuniteError(reader, other_writer) = reader.reunite(other_writer).unwrap_err();
/// let one = reader.reunite(writer).unwrap();
/// let other = other_reader.reunite(other_writer).unwrap();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ReuniteError<S = TcpStream>(
    /// The reading half.
    pub OwnedReadHalf<S>,
    /// The writing half.
    pub OwnedWriteHalf<S>,
);

impl<S> fmt::Display for ReuniteError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the halves come from different streams")
    }
}

impl<S: fmt::Debug> Error for ReuniteError<S> {}
