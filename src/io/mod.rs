//! The traits of asynchronous reading and writing, and what an operation on a socket waits for.
//!
//! The traits are those of the `futures-io` crate, so whatever speaks them works with Mainspring's sockets.
//! They are bare: methods such as `read`, `write_all`, `copy` or `lines` come from the extension traits of
//! the [`futures`](https://docs.rs/futures) crate, which are implemented for everything that implements
//! these.
//!
//! ```no_run
//! use futures::{AsyncReadExt, AsyncWriteExt};
//! use mainspring::io::{AsyncRead, AsyncWrite};
//!
//! async fn greet(mut peer: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<String> {
//!     peer.write_all(b"hello\n").await?;
//!     let mut answer = String::new();
//!     peer.read_to_string(&mut answer).await?;
//!     Ok(answer)
//! }
//!
//! mainspring::block_on(async {
//!     let peer = mainspring::net::TcpStream::connect("localhost:7000").await?;
//!     println!("{}", greet(peer).await?);
//!     Ok::<_, std::io::Error>(())
//! })
//! # .unwrap();
//! ```

pub use futures_io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite};

use crate::reactor::Way;

/// What an operation on a socket waits for; see [`TcpStream::try_io`](crate::net::TcpStream::try_io).
///
/// ```
/// use mainspring::io::Interest;
/// use mainspring::net::TcpListener;
/// # #[cfg(unix)]
/// use std::os::fd::AsFd;
///
/// # #[cfg(unix)]
/// mainspring::block_on(async {
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let client = std::net::TcpStream::connect(listener.local_addr()?)?;
///     // A call of one's own, by a copy of the socket that std can use.
///     let copy = std::net::TcpListener::from(listener.as_fd().try_clone_to_owned()?);
///     let (_stream, peer) = listener.async_io(Interest::Readable, || copy.accept()).await?;
///     assert_eq!(peer, client.local_addr()?);
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Interest {
    /// There is something to read, receive or accept, or the end, or an error.
    Readable,
    /// There is room to write or send, or an error.
    Writable,
}

impl Interest {
    pub(crate) fn way(self) -> Way {
        match self {
            Interest::Readable => Way::Read,
            Interest::Writable => Way::Write,
        }
    }
}
