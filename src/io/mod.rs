//! The traits for asynchronous reading and writing, waiting for any descriptor, the events an operation waits for, and
//! copying in both directions.
//!
//! The traits are those of the `futures-io` crate, so code that uses them works with Mainspring's sockets. They are
//! minimal: methods such as `read`, `write_all`, `copy` or `lines` come from the extension traits of the
//! [`futures`](https://docs.rs/futures) crate, which are implemented for every type that implements these traits. What that
//! crate lacks is here: [`copy_bidirectional`] copies between two streams in both directions, with limits on how long they
//! may be idle.
//!
//! ```no_run
//! # #[cfg(feature = "net")] {
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
//! # }
//! ```
//!
//! # Any descriptor
//!
//! A program can wait for any descriptor that the system's poller accepts, even if this crate does not know its kind: with
//! `AsyncFd` (on Unix, even without the feature `net`). Descriptors that are often wanted:
//!
//! | what | how it is made | then |
//! |---|---|---|
//! | a pipe | `File::from(OwnedFd)`; pipes of children are in `process`, with the feature of that name | `AsyncRead`, `AsyncWrite` |
//! | the end of a process | `rustix::process::pidfd_open` (Linux); the end of a child is in `process`, too | `readable` |
//! | signals | they are in `signal`, with the feature of that name | |
//! | file changes | `rustix::fs::inotify::init` (Linux) | `async_io` around a read |
//! | an alarm of the wall clock | `rustix::time::timerfd_create` (Linux) | `async_io` around a read |
//! | a terminal | `std::io::stdin()`; mind its mode | `AsyncRead` |
//! | a library's socket | a `BorrowedFd`, or a copy of it | `async_io` around the library's calls |
//! | a socket of this crate | as it is: the sockets of `net` have `try_io`, `async_io` and `poll_io`, too | |
//!
//! A regular file is not among them: the system treats it as always ready. Read it [on another
//! thread](crate::task#work-that-blocks).

#[cfg(unix)]
mod async_fd;
#[cfg(any(feature = "net", unix))]
mod by_ref;
mod copy;
#[cfg(any(feature = "net", unix))]
mod vectors;

#[cfg(unix)]
pub use self::async_fd::AsyncFd;
pub use self::copy::{CopyBidirectional, CopyError, Direction, copy_bidirectional};
pub use futures_io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite};

#[cfg(any(feature = "net", unix))]
pub(crate) use self::by_ref::{read_by_ref, write_by_ref};
#[cfg(any(feature = "net", unix))]
pub(crate) use self::vectors::first_nonempty;
#[cfg(any(feature = "net", unix))]
use crate::reactor::Way;

/// What an operation on a socket, or on another descriptor, waits for.
///
/// The sockets of `net`, and `AsyncFd`, have three methods that take an interest and a system call of your own: `try_io`,
/// which does not wait; `async_io`, which waits; and `poll_io`, for code that implements a future itself. The call reports
/// that there is nothing to do by failing with [`WouldBlock`](std::io::ErrorKind::WouldBlock).
///
/// ```
/// # #[cfg(all(unix, feature = "net"))] {
/// use mainspring::io::Interest;
/// use mainspring::net::TcpListener;
/// use std::os::fd::AsFd;
///
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
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Interest {
    /// There is something to read, receive or accept; or the end was reached, or there is an error.
    Readable,
    /// There is room to write or send, or there is an error.
    Writable,
}

#[cfg(any(feature = "net", unix))]
impl Interest {
    pub(crate) fn way(self) -> Way {
        match self {
            Interest::Readable => Way::Read,
            Interest::Writable => Way::Write,
        }
    }
}
