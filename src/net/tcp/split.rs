//! The two halves of a stream.

use super::TcpStream;
use std::error::Error;
use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;

/// Reads from a type through the `&TcpStream` inside it.
macro_rules! read_by_ref {
    ($type:ty: |$it:ident| $stream:expr) => {
        impl futures_io::AsyncRead for $type {
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &mut [u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                let $it = &*self;
                std::pin::Pin::new(&mut &*$stream).poll_read(cx, buf)
            }

            fn poll_read_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bufs: &mut [std::io::IoSliceMut<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                let $it = &*self;
                std::pin::Pin::new(&mut &*$stream).poll_read_vectored(cx, bufs)
            }
        }
    };
}

/// Writes to a type through the `&TcpStream` inside it.
macro_rules! write_by_ref {
    ($type:ty: |$it:ident| $stream:expr) => {
        impl futures_io::AsyncWrite for $type {
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                let $it = &*self;
                std::pin::Pin::new(&mut &*$stream).poll_write(cx, buf)
            }

            fn poll_write_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                let $it = &*self;
                std::pin::Pin::new(&mut &*$stream).poll_write_vectored(cx, bufs)
            }

            fn poll_flush(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                let $it = &*self;
                std::pin::Pin::new(&mut &*$stream).poll_flush(cx)
            }

            fn poll_close(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                let $it = &*self;
                std::pin::Pin::new(&mut &*$stream).poll_close(cx)
            }
        }
    };
}

pub(super) use {read_by_ref, write_by_ref};

/// The reading half of a [`TcpStream`], made by [`TcpStream::into_split`].
///
/// Dropping it ends nothing: the connection is closed when both halves are gone.
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
pub struct OwnedReadHalf(Arc<TcpStream>);

/// The writing half of a [`TcpStream`], made by [`TcpStream::into_split`].
///
/// Dropping it ends the writing direction, so that the peer sees the end of the stream although the other
/// half may live on. To avoid that, [`reunite`](Self::reunite) the halves.
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
pub struct OwnedWriteHalf {
    /// `None` only after `reunite`, to keep `drop` from ending anything.
    stream: Option<Arc<TcpStream>>,
}

pub(super) fn into_split(stream: TcpStream) -> (OwnedReadHalf, OwnedWriteHalf) {
    let stream = Arc::new(stream);
    (OwnedReadHalf(stream.clone()), OwnedWriteHalf { stream: Some(stream) })
}

read_by_ref!(OwnedReadHalf: |half| half.stream());
write_by_ref!(OwnedWriteHalf: |half| half.stream());

/// The methods that both halves have.
macro_rules! common {
    ($($type:ty),*) => {$(
        impl $type {
            /// Returns the local address.
            ///
            /// # Errors
            ///
            /// The system's.
            pub fn local_addr(&self) -> io::Result<SocketAddr> {
                self.stream().local_addr()
            }

            /// Returns the peer's address.
            ///
            /// # Errors
            ///
            /// The system's.
            pub fn peer_addr(&self) -> io::Result<SocketAddr> {
                self.stream().peer_addr()
            }
        }

        impl AsRef<TcpStream> for $type {
            fn as_ref(&self) -> &TcpStream {
                self.stream()
            }
        }
    )*};
}

common!(OwnedReadHalf, OwnedWriteHalf);

impl OwnedReadHalf {
    /// Puts the stream together again.
    ///
    /// # Errors
    ///
    /// The halves are given back if they come from different streams.
    pub fn reunite(self, other: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
        reunite(self, other)
    }

    fn stream(&self) -> &TcpStream {
        &self.0
    }
}

impl OwnedWriteHalf {
    /// Puts the stream together again.
    ///
    /// # Errors
    ///
    /// The halves are given back if they come from different streams.
    pub fn reunite(self, other: OwnedReadHalf) -> Result<TcpStream, ReuniteError> {
        reunite(other, self)
    }

    fn stream(&self) -> &TcpStream {
        self.stream.as_deref().expect("a half has its stream until it is reunited by value")
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            // An error means that the connection is gone already.
            let _ = stream.shutdown(Shutdown::Write);
        }
    }
}

fn reunite(read: OwnedReadHalf, mut write: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
    if !std::ptr::eq(read.stream(), write.stream()) {
        return Err(ReuniteError(read, write));
    }
    write.stream = None;
    Ok(Arc::into_inner(read.0).expect("a stream has one half of each kind, and both are here"))
}

/// The error of `reunite` for halves of different streams, with the halves.
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
pub struct ReuniteError(
    /// The reading half.
    pub OwnedReadHalf,
    /// The writing half.
    pub OwnedWriteHalf,
);

impl fmt::Display for ReuniteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the halves come from different streams")
    }
}

impl Error for ReuniteError {}
