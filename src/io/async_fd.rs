//! Anything with a descriptor that the system's poller takes.
//!
//! Ground rules:
//!
//! * Nothing is taken for granted: the descriptor is ready when the poller has said so. A program may have nothing to try.
//! * A read that got less than it asked for says nothing about what is left: a terminal gives a line at a time, a pipe in
//!   packet mode a packet. So only `WouldBlock` clears the readiness.
//! * A way that is not watched is an error, and not a wait for ever.

use super::{Interest, read_by_ref, write_by_ref};
use crate::reactor::{Fd, Registered, Way};
use crate::runtime::context;
use futures_io::{AsyncRead, AsyncWrite};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Anything with a descriptor that the system's poller takes: a pipe, a terminal, a timerfd, an inotify, a socket of
/// another library. Unix only.
///
/// With [`async_io`](Self::async_io) any system call waits for the descriptor. If `&T` reads or writes, as that of a
/// [`File`](std::fs::File) does, then the traits [`AsyncRead`] and [`AsyncWrite`] are there, for `AsyncFd<T>` and for
/// `&AsyncFd<T>`: within one task, two references are two halves. (Closing through `AsyncWrite` flushes, and no more. To
/// close the descriptor, drop it.)
///
/// It belongs to the runtime in which it was made, may be used and dropped on any thread, and outlives its runtime as an
/// error. Dropping it takes the descriptor out of the poller and drops the `T`. The descriptor that [`AsFd`] shows must
/// stay the same one. A runtime watches a descriptor once; to watch it twice, make a
/// [copy](BorrowedFd::try_clone_to_owned).
///
/// # The mode of the descriptor
///
/// A call that blocks would stop the whole runtime, timers included. So [`new`](Self::new) and
/// [`with_interest`](Self::with_interest) put the descriptor into non-blocking mode, where it stays. The mode belongs to
/// what was opened, and all copies of the descriptor have it: also those in other processes. That of a terminal is mostly
/// the shell's, too, and `println!` fails where a terminal in this mode is slow. [`unchanged`](Self::unchanged) is for
/// such.
///
/// # What the readiness is
///
/// The poller tells once of each event. From then on the direction counts as ready, until a call inside of
/// [`try_io`](Self::try_io), [`async_io`](Self::async_io) or [`poll_io`](Self::poll_io), or a read or a write, fails with
/// [`WouldBlock`](ErrorKind::WouldBlock). A call that is made elsewhere tells nobody: if it finds nothing,
/// [`readable`](Self::readable) returns at once all the same, and a loop around it spins.
///
/// # Regular files
///
/// They are always ready, and Linux refuses to watch them: read them on another thread, by
/// [`task::unblock`](crate::task::unblock) or the crate `async-fs`.
///
/// # Examples
///
/// A pipe from a child process:
///
/// ```
/// use futures::AsyncReadExt;
/// use mainspring::io::AsyncFd;
/// use std::fs::File;
/// use std::os::fd::OwnedFd;
/// use std::process::{Command, Stdio};
///
/// mainspring::block_on(async {
///     let mut child = Command::new("echo").arg("hello").stdout(Stdio::piped()).spawn()?;
///     let pipe = OwnedFd::from(child.stdout.take().unwrap());
///     let mut text = String::new();
///     AsyncFd::new(File::from(pipe))?.read_to_string(&mut text).await?;
///     assert_eq!(text, "hello\n");
///     child.wait()?;
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
///
/// A library's socket, which is read by the library alone:
///
/// ```
/// use mainspring::io::{AsyncFd, Interest};
/// use std::io;
/// use std::os::unix::net::UnixDatagram;
///
/// # struct Library(UnixDatagram);
/// # impl Library {
/// #     fn socket(&self) -> &UnixDatagram { &self.0 }
/// #     fn next(&self) -> io::Result<Option<Vec<u8>>> {
/// #         let mut buf = [0; 8];
/// #         match self.0.recv(&mut buf) {
/// #             Ok(n) => Ok(Some(buf[..n].to_vec())),
/// #             Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
/// #             Err(error) => Err(error),
/// #         }
/// #     }
/// # }
/// async fn next(library: &Library, socket: &AsyncFd<&UnixDatagram>) -> io::Result<Vec<u8>> {
///     // "Nothing there" is said as `WouldBlock`.
///     socket.async_io(Interest::Readable, |_| library.next()?.ok_or(io::ErrorKind::WouldBlock.into())).await
/// }
///
/// # mainspring::block_on(async {
/// # let (ours, theirs) = UnixDatagram::pair()?;
/// # let library = Library(ours);
/// let socket = AsyncFd::with_interest(library.socket(), Interest::Readable)?;
/// # theirs.send(b"hello")?;
/// assert_eq!(next(&library, &socket).await?, b"hello");
/// # Ok::<_, io::Error>(())
/// # })
/// # .unwrap();
/// ```
#[derive(Debug)]
pub struct AsyncFd<T: AsFd> {
    registered: Registered<Fd<T>>,
    /// The only way that is watched; `None` is both.
    only: Option<Way>,
}

impl<T: AsFd> AsyncFd<T> {
    /// Puts a descriptor into [non-blocking mode](Self#the-mode-of-the-descriptor) and watches whether it can be read and
    /// written.
    ///
    /// # Errors
    ///
    /// The system's; `inner` is dropped then. One of kind [`Unsupported`](ErrorKind::Unsupported) says that the poller does
    /// not take such a thing, as a [regular file](Self#regular-files) on Linux; one of kind
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) that this runtime watches this very descriptor already, as Linux tells;
    /// and one of kind [`Other`](ErrorKind::Other) that there is no runtime on this thread.
    pub fn new(inner: T) -> io::Result<AsyncFd<T>> {
        rustix::io::ioctl_fionbio(&inner, true)?;
        AsyncFd::unchanged(inner, None)
    }

    /// Like [`new`](Self::new), but watches one direction only; to wait for the other is an error. It saves the wake-ups for
    /// the other, and BSD's poller does not take every end of a pipe for both.
    ///
    /// # Errors
    ///
    /// As for `new`.
    ///
    /// # Examples
    ///
    /// ```
    /// use mainspring::io::{AsyncFd, Interest};
    /// use std::time::Duration;
    ///
    /// mainspring::block_on(async {
    ///     let (reader, _writer) = std::os::unix::net::UnixStream::pair()?;
    ///     let reader = AsyncFd::with_interest(reader, Interest::Readable)?;
    ///     assert!(mainspring::timeout(Duration::from_millis(1), reader.readable()).await.is_err());
    ///     assert_eq!(reader.writable().await.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    ///     Ok::<_, std::io::Error>(())
    /// })
    /// # .unwrap();
    /// ```
    pub fn with_interest(inner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
        rustix::io::ioctl_fionbio(&inner, true)?;
        AsyncFd::unchanged(inner, Some(interest))
    }

    /// Watches a descriptor, for one direction or for both, and leaves its mode as it is: for one that is in non-blocking
    /// mode already, that is never read or written here, or whose mode others share.
    ///
    /// If it is in blocking mode, a read or a write through this type may stop the whole runtime: each
    /// [`readable`](Self::readable) that returns because of an event is good for one read, and only a call that fails with
    /// [`WouldBlock`](ErrorKind::WouldBlock) makes the next one wait.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    ///
    /// # Examples
    ///
    /// The end of a child process by a pidfd, which nobody reads:
    ///
    /// ```
    /// # #[cfg(target_os = "linux")]
    /// # mainspring::block_on(async {
    /// use mainspring::io::{AsyncFd, Interest};
    /// use rustix::process::{Pid, PidfdFlags, pidfd_open};
    ///
    /// let mut child = std::process::Command::new("true").spawn()?;
    /// let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    /// AsyncFd::unchanged(pidfd, Interest::Readable)?.readable().await?;
    /// assert!(child.try_wait()?.expect("it has ended").success());
    /// # Ok::<_, std::io::Error>(())
    /// # })
    /// # .unwrap();
    /// ```
    pub fn unchanged(inner: T, interest: impl Into<Option<Interest>>) -> io::Result<AsyncFd<T>> {
        let only = interest.into().map(Interest::way);
        let registered = Registered::watched(&context::io()?, Fd(inner), only).map_err(explain)?;
        Ok(AsyncFd { registered, only })
    }

    /// Returns a reference to what is watched.
    ///
    /// Read or write by it inside of [`try_io`](Self::try_io) only, which hands it out, too.
    pub fn get_ref(&self) -> &T {
        self.registered.socket()
    }

    /// Returns a reference to what is watched. To put another descriptor in its place does not make that one watched.
    ///
    /// ```
    /// # mainspring::block_on(async {
    /// let (ours, _theirs) = std::os::unix::net::UnixStream::pair()?;
    /// let mut ours = mainspring::io::AsyncFd::new(ours)?;
    /// ours.get_mut().shutdown(std::net::Shutdown::Write)?;
    /// # Ok::<_, std::io::Error>(())
    /// # })
    /// # .unwrap();
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.registered.socket_mut()
    }

    /// Stops watching and gives back what was watched. It stays in the mode that it is in.
    ///
    /// # Errors
    ///
    /// The system's, if the poller does not let it go; it is dropped then.
    ///
    /// # Examples
    ///
    /// ```
    /// # mainspring::block_on(async {
    /// let (ours, _theirs) = std::os::unix::net::UnixStream::pair()?;
    /// let ours = mainspring::io::AsyncFd::new(ours)?.into_inner()?;
    /// ours.set_nonblocking(false)?;
    /// # Ok::<_, std::io::Error>(())
    /// # })
    /// # .unwrap();
    /// ```
    pub fn into_inner(self) -> io::Result<T> {
        Ok(self.registered.into_inner()?.0)
    }

    /// Waits until the direction is ready, as far as is known; see [above](Self#what-the-readiness-is). Any number of tasks
    /// may wait at once.
    ///
    /// # Errors
    ///
    /// One of kind [`InvalidInput`](ErrorKind::InvalidInput) if the direction is not watched, and one of kind
    /// [`Other`](ErrorKind::Other) after the runtime has shut down.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    pub async fn ready(&self, interest: Interest) -> io::Result<()> {
        self.registered.ready(self.way(interest)?).await
    }

    /// Waits until there is something to read, or the end, or an error: [`ready`](Self::ready) for that direction.
    ///
    /// # Errors
    ///
    /// As for `ready`.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    pub async fn readable(&self) -> io::Result<()> {
        self.ready(Interest::Readable).await
    }

    /// Waits until something can be written, or there is an error: [`ready`](Self::ready) for that direction.
    ///
    /// # Errors
    ///
    /// As for `ready`.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    pub async fn writable(&self) -> io::Result<()> {
        self.ready(Interest::Writable).await
    }

    /// The poll form of [`readable`](Self::readable), for one task at a time.
    ///
    /// # Errors
    ///
    /// As for [`ready`](Self::ready).
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.registered.poll_ready(cx, self.way(Interest::Readable)?)
    }

    /// The poll form of [`writable`](Self::writable), for one task at a time.
    ///
    /// # Errors
    ///
    /// As for [`ready`](Self::ready).
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.registered.poll_ready(cx, self.way(Interest::Writable)?)
    }

    /// Performs a call of your own if the direction is ready for it, without waiting.
    ///
    /// `op` must fail with [`WouldBlock`](ErrorKind::WouldBlock) if, and only if, it found that there was nothing to do. The
    /// direction then counts as not ready until the next event. If there was an event meanwhile, or a signal interrupted
    /// `op`, it is called again.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](ErrorKind::WouldBlock) if the direction is not ready, as far as is known; `op` may not have been called
    /// then, and is not before the runtime has looked at its descriptors for the first time. Those of `op`, and those of
    /// [`ready`](Self::ready).
    pub fn try_io<R>(&self, interest: Interest, mut op: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.registered.try_io(self.way(interest)?, |fd| op(fd))
    }

    /// Like [`try_io`](Self::try_io), but waits until the direction is ready and `op` does not fail with `WouldBlock`. Any
    /// number of tasks may wait at once.
    ///
    /// # Errors
    ///
    /// Those of `op`, and those of [`ready`](Self::ready).
    ///
    /// # Cancel safety
    ///
    /// `op` is not called any more once the future is dropped; what it has done is done.
    ///
    /// # Examples
    ///
    /// How often a timer of the system's has expired:
    ///
    /// ```
    /// # #[cfg(target_os = "linux")]
    /// # mainspring::block_on(async {
    /// use mainspring::io::{AsyncFd, Interest};
    /// use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
    /// use rustix::time::{timerfd_create, timerfd_settime};
    ///
    /// let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC)?;
    /// let ms = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    /// timerfd_settime(&timer, TimerfdTimerFlags::empty(), &Itimerspec { it_value: ms, it_interval: ms })?;
    /// let timer = AsyncFd::with_interest(timer, Interest::Readable)?;
    /// let mut count = [0; 8];
    /// timer.async_io(Interest::Readable, |timer| Ok(rustix::io::read(timer, &mut count)?)).await?;
    /// assert!(u64::from_ne_bytes(count) >= 1);
    /// # Ok::<_, std::io::Error>(())
    /// # })
    /// # .unwrap();
    /// ```
    pub async fn async_io<R>(
        &self,
        interest: Interest,
        mut op: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.registered.async_io(self.way(interest)?, |fd| op(fd)).await
    }

    /// The poll form of [`async_io`](Self::async_io), for one task at a time.
    ///
    /// # Errors
    ///
    /// As for `async_io`.
    pub fn poll_io<R>(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        mut op: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.registered.poll_io(cx, self.way(interest)?, |fd| op(fd))
    }

    /// The way, if it is watched.
    fn way(&self, interest: Interest) -> io::Result<Way> {
        let way = interest.way();
        if self.only.is_some_and(|only| only != way) {
            let message =
                format!("this descriptor is watched for the other direction only, not for {interest:?}");
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        Ok(way)
    }
}

/// Says of the poller's refusals what to do.
fn explain(error: io::Error) -> io::Error {
    let (kind, message) = match error.kind() {
        // The poller asks for no permission: so it says that it does not watch such things.
        ErrorKind::PermissionDenied => (
            ErrorKind::Unsupported,
            "the system's poller does not take such a descriptor: a regular file or a directory is always ready. Read it \
             on another thread, by `task::unblock` or the crate `async-fs`",
        ),
        ErrorKind::AlreadyExists => (
            ErrorKind::AlreadyExists,
            "this runtime watches this descriptor already: share the one that watches it, or watch a copy \
             (`try_clone_to_owned`)",
        ),
        _ => return error,
    };
    io::Error::new(kind, message)
}

impl<T: AsFd> AsFd for AsyncFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.get_ref().as_fd()
    }
}

impl<T: AsFd> AsRawFd for AsyncFd<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl<T: AsFd> AsyncRead for &AsyncFd<T>
where
    for<'a> &'a T: Read,
{
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_io(cx, Interest::Readable, |mut fd| fd.read(buf))
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_io(cx, Interest::Readable, |mut fd| fd.read_vectored(bufs))
    }
}

impl<T: AsFd> AsyncWrite for &AsyncFd<T>
where
    for<'a> &'a T: Write,
{
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_io(cx, Interest::Writable, |mut fd| fd.write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_io(cx, Interest::Writable, |mut fd| fd.write_vectored(bufs))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_io(cx, Interest::Writable, |mut fd| fd.flush())
    }

    /// Flushes. The descriptor is closed when it is dropped.
    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

read_by_ref!([T: AsFd] AsyncFd<T>, [for<'a> &'a T: Read] |it| it);
write_by_ref!([T: AsFd] AsyncFd<T>, [for<'a> &'a T: Write] |it| it);
