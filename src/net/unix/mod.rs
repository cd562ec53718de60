//! Unix sockets: connections and datagrams within one machine. Unix only.
//!
//! They have the methods of the TCP and UDP sockets, and what is said [there](crate::net) applies to them, too. Their addresses
//! are paths, or on Linux and Android also abstract names, which have no file:
//!
//! ```
//! # #[cfg(target_os = "linux")]
//! # mainspring::block_on(async {
//! use mainspring::net::unix::{SocketAddr, UnixListener, UnixStream};
//! use std::os::linux::net::SocketAddrExt;
//!
//! let name = SocketAddr::from_abstract_name(format!("mainspring example {}", std::process::id()))?;
//! let listener = UnixListener::bind_addr(&name)?;
//! let client = UnixStream::connect_addr(&name).await?;
//! let (server, _) = listener.accept().await?;
//! assert_eq!(client.peer_addr()?.as_abstract_name(), name.as_abstract_name());
//! # drop(server);
//! # Ok::<_, std::io::Error>(())
//! # })
//! # .unwrap();
//! ```
//!
//! # The file of a socket
//!
//! Binding to a path makes a file, and nothing removes that file: neither dropping the socket nor the end of the process. While
//! the file is there, another `bind` fails with [`AddrInUse`](std::io::ErrorKind::AddrInUse). So a server removes the file,
//! preferably before it binds, when it knows that no other server is running. Once the file is removed, no client can connect
//! any more; existing connections stay.
//!
//! # Where Linux does not say when to go on
//!
//! Linux reports nothing when a listener's backlog has room again, nor when a receiver's queue of datagrams has room again, except
//! to a socket that is connected to that receiver. In such a case [`UnixStream::connect`] and [`UnixDatagram::send_to`] try again
//! after a millisecond, then after twice as long each time, up to 64 ms. (In virtual time, too, which advances meanwhile if
//! nothing else happens.)
//!
//! # Descriptors and credentials
//!
//! `UnixStream::peer_cred`, with the feature `peer-cred`, returns who is at the other end. Descriptors are passed with `sendmsg`
//! and `recvmsg`, here those of the crate `rustix`, inside [`async_io`](UnixStream::async_io):
//!
//! ```
//! use mainspring::io::Interest;
//! use mainspring::net::unix::UnixStream;
//! use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
//! use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
//! use std::io::{IoSlice, IoSliceMut, Result};
//! use std::mem::MaybeUninit;
//! use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
//!
//! /// Sends one byte, and a copy of the descriptor with it.
//! async fn send(stream: &UnixStream, fd: BorrowedFd<'_>) -> Result<()> {
//!     let fds = [fd];
//!     let sent = stream.async_io(Interest::Writable, || {
//!         let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
//!         let mut control = SendAncillaryBuffer::new(&mut space);
//!         control.push(SendAncillaryMessage::ScmRights(&fds));
//!         Ok(sendmsg(stream, &[IoSlice::new(b"!")], &mut control, SendFlags::empty())?)
//!     });
//!     sent.await.map(drop)
//! }
//!
//! async fn receive(stream: &UnixStream) -> Result<Option<OwnedFd>> {
//!     let received = stream.async_io(Interest::Readable, || {
//!         let mut byte = [0];
//!         let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
//!         let mut control = RecvAncillaryBuffer::new(&mut space);
//!         recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::empty())?;
//!         let fd = control.drain().find_map(|message| match message {
//!             RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
//!             _ => None,
//!         });
//!         Ok(fd)
//!     });
//!     received.await
//! }
//!
//! mainspring::block_on(async {
//!     let (one, other) = UnixStream::pair()?;
//!     send(&one, std::fs::File::open("/dev/null")?.as_fd()).await?;
//!     assert!(receive(&other).await?.is_some());
//!     Ok::<_, std::io::Error>(())
//! })
//! # .unwrap();
//! ```

#[cfg(all(
    feature = "peer-cred",
    any(
        target_os = "linux",
        target_os = "android",
        target_os = "freebsd",
        target_os = "dragonfly",
        target_os = "netbsd",
        target_os = "openbsd",
        target_vendor = "apple"
    )
))]
mod credentials;
mod datagram;
mod listener;
mod stream;

#[cfg(all(
    feature = "peer-cred",
    any(
        target_os = "linux",
        target_os = "android",
        target_os = "freebsd",
        target_os = "dragonfly",
        target_os = "netbsd",
        target_os = "openbsd",
        target_vendor = "apple"
    )
))]
pub use self::credentials::PeerCred;
pub use self::datagram::UnixDatagram;
pub use self::listener::UnixListener;
pub use self::stream::UnixStream;
pub use std::os::unix::net::SocketAddr;

use crate::coop;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Returns the address of a path, for an operation that charges its result itself.
async fn address(path: impl AsRef<Path>) -> io::Result<SocketAddr> {
    coop::charge_error(SocketAddr::from_pathname(path)).await
}

/// The pauses between attempts, where the system does not report when the next attempt may succeed.
struct Pauses(Duration);

impl Pauses {
    fn new() -> Pauses {
        Pauses(Duration::from_millis(1))
    }

    fn next(&mut self) -> Duration {
        let next = self.0;
        self.0 = (next * 2).min(Duration::from_millis(64));
        next
    }
}
