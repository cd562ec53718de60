//! `copy_bidirectional`, over connections in memory and over sockets.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/duplex.rs"]
mod duplex;

mod bytes;
mod errors;
mod limits;
#[cfg(feature = "net")]
mod sockets;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use mainspring::io::{AsyncRead, AsyncWrite, CopyError};
use mainspring::task::JoinHandle;

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

type Copied = JoinHandle<Result<(u64, u64), CopyError>>;

/// A stream each half of which does what a closure says. Closing and flushing complete at once.
struct Fake<R, W> {
    read: R,
    write: W,
}

impl<R: FnMut(&mut [u8]) -> Poll<io::Result<usize>> + Unpin, W: Unpin> AsyncRead for Fake<R, W> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, b: &mut [u8]) -> Poll<io::Result<usize>> {
        (self.read)(b)
    }
}

impl<R: Unpin, W: FnMut(&[u8]) -> Poll<io::Result<usize>> + Unpin> AsyncWrite for Fake<R, W> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, b: &[u8]) -> Poll<io::Result<usize>> {
        (self.write)(b)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Has nothing to read yet.
fn silent(_: &mut [u8]) -> Poll<io::Result<usize>> {
    Poll::Pending
}

/// Takes all bytes.
fn sink(bytes: &[u8]) -> Poll<io::Result<usize>> {
    Poll::Ready(Ok(bytes.len()))
}

/// Always has more bytes.
fn endless(buffer: &mut [u8]) -> Poll<io::Result<usize>> {
    Poll::Ready(Ok(buffer.len()))
}
