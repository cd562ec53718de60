//! The pipes to and from a child, as streams of bytes.

use crate::coop;
use crate::io::{AsyncFd, Interest};
use futures_io::{AsyncRead, AsyncWrite};
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll, ready};

/// The pipe to a child's standard input.
///
/// The child sees the end of its input once this is dropped, or closed by
/// [`close`](https://docs.rs/futures/latest/futures/io/trait.AsyncWriteExt.html#method.close). A write to a child that has
/// closed its input, or has ended, fails with [`BrokenPipe`](ErrorKind::BrokenPipe).
///
/// # Cancel safety
///
/// A write that is dropped before it is ready has written nothing.
///
/// # Examples
///
/// ```
/// use futures::AsyncWriteExt;
/// use mainspring::process::{Command, Stdio};
///
/// mainspring::block_on(async {
///     let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
///     let mut stdin = child.stdin.take().unwrap();
///     stdin.write_all(b"meow").await?;
///     stdin.close().await?;
///     assert_eq!(child.wait_with_output().await?.stdout, b"meow");
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
#[derive(Debug)]
pub struct ChildStdin {
    /// `None` once it was closed.
    pipe: Option<AsyncFd<File>>,
}

/// The pipe from a child's standard output.
///
/// It ends when the child, and all other processes that got the pipe from it, have closed it or ended.
///
/// # Cancel safety
///
/// A read that is dropped before it is ready has consumed nothing.
///
/// # Examples
///
/// Line by line:
///
/// ```
/// use futures::io::{AsyncBufReadExt, BufReader};
/// use futures::TryStreamExt;
/// use mainspring::process::{Command, Stdio};
///
/// mainspring::block_on(async {
///     let mut child = Command::new("printf").arg("one\ntwo\n").stdout(Stdio::piped()).spawn()?;
///     let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
///     assert_eq!(lines.try_next().await?.as_deref(), Some("one"));
///     assert_eq!(lines.try_next().await?.as_deref(), Some("two"));
///     assert_eq!(lines.try_next().await?, None);
///     assert!(child.wait().await?.success());
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
#[derive(Debug)]
pub struct ChildStdout {
    pipe: AsyncFd<File>,
}

/// The pipe from a child's standard error. It is read like a [`ChildStdout`].
#[derive(Debug)]
pub struct ChildStderr {
    pipe: AsyncFd<File>,
}

/// Makes the runtime watch a pipe.
fn watch(pipe: OwnedFd, interest: Interest) -> io::Result<AsyncFd<File>> {
    AsyncFd::with_interest(File::from(pipe), interest)
}

/// Stops watching a pipe, and returns it in the mode that another child expects.
fn unwatch(pipe: AsyncFd<File>) -> io::Result<OwnedFd> {
    let pipe = pipe.into_inner()?;
    rustix::io::ioctl_fionbio(&pipe, false)?;
    Ok(pipe.into())
}

fn closed() -> io::Error {
    io::Error::new(ErrorKind::BrokenPipe, "the child's standard input was closed here")
}

impl ChildStdin {
    pub(super) fn new(pipe: std::process::ChildStdin) -> io::Result<ChildStdin> {
        Ok(ChildStdin { pipe: Some(watch(pipe.into(), Interest::Writable)?) })
    }

    /// Returns the pipe, in blocking mode: [`Stdio::from`](std::process::Stdio) makes it the output of another child.
    ///
    /// # Errors
    ///
    /// The system's, and one of kind [`BrokenPipe`](ErrorKind::BrokenPipe) if the pipe was closed. After an error the pipe
    /// is closed.
    pub fn into_owned_fd(self) -> io::Result<OwnedFd> {
        unwatch(self.pipe.ok_or_else(closed)?)
    }

    fn pipe(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut AsyncFd<File>>>> {
        coop::poll_charge_error(cx, self.pipe.as_mut().map(Pin::new).ok_or_else(closed))
    }
}

/// As [`ChildStdin::into_owned_fd`].
impl TryFrom<ChildStdin> for Stdio {
    type Error = io::Error;

    fn try_from(pipe: ChildStdin) -> io::Result<Stdio> {
        pipe.into_owned_fd().map(Stdio::from)
    }
}

impl AsyncWrite for ChildStdin {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.pipe(cx))?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.pipe(cx))?.poll_write_vectored(cx, bufs)
    }

    /// A pipe has nothing to flush.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Closes the pipe: the child sees the end of its input.
    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pipe = None;
        Poll::Ready(Ok(()))
    }
}

macro_rules! output {
    ($type:ident) => {
        impl $type {
            pub(super) fn new(pipe: std::process::$type) -> io::Result<$type> {
                Ok($type { pipe: watch(pipe.into(), Interest::Readable)? })
            }

            /// Returns the pipe, in blocking mode: [`Stdio::from`](std::process::Stdio) makes it the input of another
            /// child.
            ///
            /// # Errors
            ///
            /// The system's; after an error the pipe is closed.
            ///
            /// # Examples
            ///
            /// ```
            /// use mainspring::process::{Command, Stdio};
            ///
            /// mainspring::block_on(async {
            ///     let mut echo = Command::new("echo").arg("hello").stdout(Stdio::piped()).spawn()?;
            ///     let pipe = echo.stdout.take().unwrap().into_owned_fd()?;
            ///     let output = Command::new("tr").args(["a-z", "A-Z"]).stdin(Stdio::from(pipe)).output().await?;
            ///     assert_eq!(output.stdout, b"HELLO\n");
            ///     assert!(echo.wait().await?.success());
            ///     Ok::<_, std::io::Error>(())
            /// })
            /// # .unwrap();
            /// ```
            pub fn into_owned_fd(self) -> io::Result<OwnedFd> {
                unwatch(self.pipe)
            }
        }

        #[doc = concat!("As [`", stringify!($type), "::into_owned_fd`].")]
        impl TryFrom<$type> for Stdio {
            type Error = io::Error;

            fn try_from(pipe: $type) -> io::Result<Stdio> {
                pipe.into_owned_fd().map(Stdio::from)
            }
        }

        impl AsyncRead for $type {
            fn poll_read(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut self.pipe).poll_read(cx, buf)
            }

            fn poll_read_vectored(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &mut [IoSliceMut<'_>],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut self.pipe).poll_read_vectored(cx, bufs)
            }
        }
    };
}

output!(ChildStdout);
output!(ChildStderr);
