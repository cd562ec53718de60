//! TCP and UDP sockets, and Unix sockets.
//!
//! * [`TcpListener`] accepts connections, and [`TcpStream`] is a connection. A [`TcpSocket`] is neither yet: it is for options
//!   that must be set beforehand.
//! * [`UdpSocket`] sends and receives datagrams.
//! * `unix` has the same for sockets within one machine: `UnixListener`, `UnixStream`, `UnixDatagram`. Unix only.
//! * [`lookup_host`] looks up a name. All methods that take [`ToSocketAddrs`] do so themselves.
//!
//! A socket belongs to the runtime in which it was made, and gets its events from that runtime. But it is `Send`
//! and `Sync`, and may be used and dropped on any thread. It may outlive its runtime: once the runtime has shut
//! down, every operation on the socket that reads, writes, accepts or waits fails.
//!
//! An operation is tried at once, and the task waits only if it would block. Operations on sockets take part
//! in the cooperative budget: a task that always finds data ready still lets other tasks run.
//!
//! # System calls of your own
//!
//! A socket lends its descriptor (`AsFd`, on Windows `AsSocket`) for system calls that this crate does not make: `sendmsg` and
//! similar calls, `splice`, options. Make a call that reads, writes or accepts inside `try_io`, `async_io` or `poll_io`, which
//! streams, datagram sockets and, on Unix, listeners have: then the socket learns from the call's `WouldBlock` that it has to
//! wait; see [`io`](crate::io). To wait for a descriptor that is not a socket of this crate, use `io::AsyncFd`. A call on two
//! descriptors, such as `splice`, must not return `WouldBlock` because of the other descriptor.
//!
//! # Cancel safety
//!
//! Every future here may be dropped at any time. An operation that moves bytes either has completed, or has
//! moved none: data that a dropped `recv` has not returned is still there for the next `recv`.
//!
//! # Which methods may be used by several tasks
//!
//! * The `async` methods with `&self` (`accept`, `recv_from`, `readable`, …): any number of tasks at once.
//! * The `poll_` methods and the [`AsyncRead`](crate::io::AsyncRead) and
//!   [`AsyncWrite`](crate::io::AsyncWrite) traits keep one waker for each direction, the latest. One task may
//!   read while another writes, but if two tasks read through them, only the last one is woken.
//!
//! # Example
//!
//! An echo server that keeps running when an `accept` fails:
//!
//! ```no_run
//! use futures::io::{AsyncReadExt, copy};
//! use mainspring::net::TcpListener;
//! use std::io::{self, ErrorKind};
//! use std::time::Duration;
//!
//! mainspring::block_on(async {
//!     let listener = TcpListener::bind("127.0.0.1:7000").await?;
//!     loop {
//!         match listener.accept().await {
//!             Ok((stream, _)) => drop(mainspring::spawn(async move {
//!                 let (reader, mut writer) = stream.into_split();
//!                 copy(reader, &mut writer).await
//!             })),
//!             // That one client has gone again.
//!             Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
//!             // Out of descriptors or memory: go on when some have been given back.
//!             Err(error) => {
//!                 eprintln!("cannot accept: {error}");
//!                 mainspring::sleep(Duration::from_millis(100)).await;
//!             }
//!         }
//!     }
//! #   #[allow(unreachable_code)]
//! #   Ok::<_, io::Error>(())
//! })
//! # .unwrap();
//! ```

mod addr;
mod fd;
mod gather;
mod incoming;
mod resolve;
mod split;
mod tcp;
mod udp;
#[cfg(unix)]
pub mod unix;

pub use self::addr::{ToSocketAddrs, lookup_host};
pub use self::incoming::Incoming;
pub use self::split::{OwnedReadHalf, OwnedWriteHalf, ReuniteError};
pub use self::tcp::{TcpListener, TcpSocket, TcpStream};
pub use self::udp::UdpSocket;

use self::addr::Addrs;
use crate::coop;
use std::future::ready;
use std::io;
use std::net::SocketAddr;

/// The first success of `attempt` on the addresses in turn, or the last failure.
async fn first_of<R, F: Future<Output = io::Result<R>>>(
    addrs: Addrs,
    mut attempt: impl FnMut(SocketAddr) -> F,
) -> io::Result<R> {
    let [first @ .., last] = addrs.as_slice() else { unreachable!("there is at least one address") };
    for &addr in first {
        if let Ok(result) = attempt(addr).await {
            return Ok(result);
        }
    }
    attempt(*last).await
}

/// The first success of `attempt`, which does not wait, on the addresses that `addr` stands for.
async fn first_at_once<R>(
    addr: impl ToSocketAddrs,
    mut attempt: impl FnMut(SocketAddr) -> io::Result<R>,
) -> io::Result<R> {
    let addrs = addr::addrs(addr).await?;
    coop::cooperative(first_of(addrs, |addr| ready(attempt(addr)))).await
}

/// Returns a number of routers that a packet may pass, unless it is more than a packet can say: a system may take it for "the
/// default", or cut it to its lowest bits.
fn hops(number: u32) -> io::Result<u32> {
    if number > 255 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a packet may pass at most 255 routers"));
    }
    Ok(number)
}
