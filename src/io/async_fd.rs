//! Anything with a descriptor that the system's poller accepts.
//!
//! Ground rules:
//!
//! * Readiness is never assumed: the descriptor is ready when the poller has said so. The program may have no call to
//!   try.
//! * A short read says nothing about what is left: a terminal returns a line at a time, a pipe in packet mode a packet.
//!   So only `WouldBlock` clears the readiness.
//! * Waiting for a way that is not watched is an error, not an endless wait.

use super::{Interest, first_nonempty, read_by_ref, write_by_ref};
use crate::coop;
use crate::reactor::{Fd, Registered, Way};
use crate::runtime::context;
use futures_io::{AsyncRead, AsyncWrite};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Anything with a descriptor that the system's poller accepts: a pipe, a terminal, a timerfd, an inotify, a socket of
/// another library. Unix only.
///
/// With [`async_io`](Self::async_io) any system call can wait for the descriptor. If `&T` reads or writes, as a reference
/// to a [`File`](std::fs::File) does, then `AsyncFd<T>` and `&AsyncFd<T>` implement the traits [`AsyncRead`] and
/// [`AsyncWrite`]: within one task, two references serve as two halves. (Closing through `AsyncWrite` only flushes. To
/// close the descriptor, drop it.)
///
/// It belongs to the runtime in which it was made, and may be used and dropped on any thread. If it outlives its runtime,
/// using it is an error. Dropping it removes the descriptor from the poller and drops the `T`. The descriptor that
/// [`AsFd`] returns must stay the same. A runtime watches a descriptor only once; to watch it twice, make a
/// [copy](BorrowedFd::try_clone_to_owned).
///
/// # The mode of the descriptor
///
/// A call that blocks would stop the whole runtime, including its timers. So [`new`](Self::new) and
/// [`with_interest`](Self::with_interest) put the descriptor into non-blocking mode, where it stays. The mode belongs to
/// the open file description, so all copies of the descriptor have it, also those in other processes. A terminal is
/// mostly shared with the shell, and `println!` fails where a terminal in this mode is slow.
/// [`unchanged`](Self::unchanged) is for such descriptors. Or open the terminal anew, as `/dev/tty`: what was opened anew has
/// a mode of its own.
///
/// # What the readiness is
///
/// The poller reports each event once. From then on the direction counts as ready, until a call inside of
/// [`try_io`](Self::try_io), [`async_io`](Self::async_io) or [`poll_io`](Self::poll_io), or a read or a write, fails with
/// [`WouldBlock`](ErrorKind::WouldBlock). A call that is made elsewhere is not noticed: even if it finds nothing,
/// [`readable`](Self::readable) still returns at once, and a loop around it spins.
///
/// It is the descriptor's readiness: the poller knows nothing of bytes that the `T` keeps in a buffer of its own, as
/// [`Stdin`](std::io::Stdin) does. If the program has read a line from that before, the next lines may be in the buffer, and a read
/// here waits until more arrives. So read from it only here, from the first byte on.
///
/// # Regular files
///
/// Regular files are always ready, as are disks, `/dev/null` and `/dev/zero`, and Linux refuses to watch them: read them on
/// another thread, with [`task::unblock`](crate::task::unblock) or the crate `async-fs`.
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
/// A library's socket, which only the library reads:
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
    /// The only way that is watched; `None` means both.
    only: Option<Way>,
    /// It was put into non-blocking mode here.
    is_nonblocking: bool,
}

impl<T: AsFd> AsyncFd<T> {
    /// Puts a descriptor into [non-blocking mode](Self#the-mode-of-the-descriptor) and watches whether it can be read and
    /// written.
    ///
    /// # Errors
    ///
    /// The system's; `inner` is dropped then, and its mode was not changed. One of kind [`Unsupported`](ErrorKind::Unsupported)
    /// means that the poller does not accept such a descriptor, for example a [regular file](Self#regular-files) on Linux; one of
    /// kind [`AlreadyExists`](ErrorKind::AlreadyExists), which Linux reports, that this runtime watches this very descriptor
    /// already; and one of kind [`Other`](ErrorKind::Other) that there is no runtime on this thread. (A socket of
    /// [`net`](crate::net) is watched from the moment when it first has to wait. If an `AsyncFd` has its descriptor by then, the
    /// socket fails with `AlreadyExists` instead.)
    pub fn new(inner: T) -> io::Result<AsyncFd<T>> {
        AsyncFd::nonblocking(inner, None)
    }

    /// Like [`new`](Self::new), but watches only one direction; waiting for the other is an error. It saves the wake-ups
    /// for the other, and BSD's poller does not accept every end of a pipe for both.
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
        AsyncFd::nonblocking(inner, Some(interest))
    }

    fn nonblocking(inner: T, interest: Option<Interest>) -> io::Result<AsyncFd<T>> {
        let watched = AsyncFd::unchanged(inner, interest)?;
        // Only now, so that a descriptor that is refused keeps its mode.
        rustix::io::ioctl_fionbio(&watched, true)?;
        Ok(AsyncFd { is_nonblocking: true, ..watched })
    }

    /// Watches a descriptor, for one direction or for both, and leaves its mode as it is: for a descriptor that is in
    /// non-blocking mode already, that is never read or written here, or whose mode is shared.
    ///
    /// If it is in blocking mode, a read or a write through this type may stop the whole runtime. Each
    /// [`readable`](Self::readable) that returns because of an event allows one read, and only a call that fails with
    /// [`WouldBlock`](ErrorKind::WouldBlock) makes the next [`readable`](Self::readable) wait.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    ///
    /// # Examples
    ///
    /// The end of a child process, by a pidfd, which is never read:
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
        Ok(AsyncFd { registered, only, is_nonblocking: false })
    }

    /// Returns a reference to the watched object.
    ///
    /// Use it to read or write only inside of [`try_io`](Self::try_io), which provides it, too.
    pub fn get_ref(&self) -> &T {
        self.registered.socket()
    }

    /// Returns a mutable reference to the watched object. If another descriptor is put in its place, that one is not
    /// watched, and the poller keeps the old one until that is closed.
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

    /// Stops watching and returns the watched object. Its mode stays as it is.
    ///
    /// # Errors
    ///
    /// The system's, if the poller cannot remove the descriptor; the object is dropped then.
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

    /// Waits until the direction is ready, as far as the runtime knows; see [above](Self#what-the-readiness-is). Any
    /// number of tasks may wait at once.
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
        let way = coop::charge_error(self.way(interest)).await?;
        self.registered.ready(way).await
    }

    /// Waits until there is something to read, the end was reached, or there is an error: [`ready`](Self::ready) for that
    /// direction.
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
        let way = ready!(coop::poll_charge_error(cx, self.way(Interest::Readable)))?;
        self.registered.poll_ready(cx, way)
    }

    /// The poll form of [`writable`](Self::writable), for one task at a time.
    ///
    /// # Errors
    ///
    /// As for [`ready`](Self::ready).
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let way = ready!(coop::poll_charge_error(cx, self.way(Interest::Writable)))?;
        self.registered.poll_ready(cx, way)
    }

    /// Performs a call of your own if the direction is ready for it, without waiting.
    ///
    /// `op` must fail with [`WouldBlock`](ErrorKind::WouldBlock) if, and only if, it found that there was nothing to do.
    /// The direction then counts as not ready until the next event. If there was an event meanwhile, or a signal
    /// interrupted `op`, `op` is called again.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](ErrorKind::WouldBlock) if the direction is not ready, as far as the runtime knows; `op` may not
    /// have been called then, and is not called before the runtime has looked at its descriptors for the first time. Also
    /// the errors of `op`, and those of [`ready`](Self::ready).
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
    /// Once the future is dropped, `op` is no longer called; what it has already done remains done.
    ///
    /// # Examples
    ///
    /// How often a system timer has expired:
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
        let way = coop::charge_error(self.way(interest)).await?;
        self.registered.async_io(way, |fd| op(fd)).await
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
        let way = ready!(coop::poll_charge_error(cx, self.way(interest)))?;
        self.registered.poll_io(cx, way, |fd| op(fd))
    }

    /// Returns the way, if it is watched.
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

/// Turns the poller's refusal of a descriptor that is always ready into an error that says what to do.
fn explain(error: io::Error) -> io::Error {
    // The poller checks no permissions, so this error means that it does not watch such descriptors.
    if error.kind() != ErrorKind::PermissionDenied {
        return error;
    }
    let message = "the system's poller does not watch such a descriptor: a regular file, a directory or a device such as \
                   /dev/null is always ready. Read it on another thread, with `task::unblock` or the crate `async-fs`";
    io::Error::new(ErrorKind::Unsupported, message)
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
        let first = first_nonempty(bufs);
        self.poll_io(cx, Interest::Readable, |mut fd| fd.read_vectored(&mut bufs[first..]))
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
        let bufs = &bufs[first_nonempty(bufs)..];
        self.poll_io(cx, Interest::Writable, |mut fd| fd.write_vectored(bufs))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Mostly there is nothing to flush, so it is tried at once, unless that might block.
        if self.is_nonblocking {
            match self.get_ref().flush() {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                flushed => return Poll::Ready(flushed),
            }
        }
        self.poll_io(cx, Interest::Writable, |mut fd| fd.flush())
    }

    /// Flushes. The descriptor is closed when it is dropped.
    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

read_by_ref!([T: AsFd] AsyncFd<T>, [for<'a> &'a T: Read] |it| it);
write_by_ref!([T: AsFd] AsyncFd<T>, [for<'a> &'a T: Write] |it| it);
