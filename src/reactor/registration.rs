//! Operations on registered sources: try the operation, and if it would block, wait for the reactor.
//!
//! Every operation of every socket and descriptor goes through [`step`], so the reaction to readiness, to `WouldBlock`, to
//! `EINTR` and to a shutdown is written once.
//!
//! Ground rules:
//!
//! * The snapshot is taken before the operation, and the readiness is cleared with it afterwards. After a waker was left, the
//!   readiness is looked at once more before waiting (see `source.rs`).
//! * A socket enters the poller when the first of its operations has to wait. A socket that never waits, such as a connection
//!   whose request is there when it is accepted and that is closed after the answer, costs no system call except its own.
//!   When a socket enters, the poller reports what it is ready for, so nothing that came before is missed. (On Windows a
//!   socket enters when it is made.)
//! * A socket that waits to read enters for reading only, until it has to wait to write, which is rare: so fewer events are
//!   looked for, reported and handed out. A socket that has to wait to write first, such as one that connects, enters for
//!   both: it will read.
//! * A result is charged to the cooperative budget, whether it is a success or an error: a listener that fails again and
//!   again still lets other tasks run (tokio #6221). Waiting is free.

#[cfg(unix)]
pub(crate) use self::fd::{Fd, Watched};
#[cfg(not(unix))]
pub(crate) use mio::event::Source as Watched;

use super::poller::{Io, closed};
use super::source::{Direction, Source, Start, Waiter, Way};
#[cfg(all(feature = "net", unix))]
use super::source::{Occurrence, READY};
use crate::coop;
#[cfg(all(feature = "net", unix))]
use crate::panics;
use crate::sync::{AtomicU8, Ordering};
#[cfg(unix)]
use crate::sync::{Mutex, lock};
use mio::{Interest, Token};
use std::fmt;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
#[cfg(unix)]
use std::os::fd::RawFd;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

/// A socket, or anything else with a descriptor, and its place in the reactor. It leaves the reactor before it is closed.
pub(crate) struct Registered<S: Watched> {
    /// `None` only after [`into_inner`](Self::into_inner) and in `drop`.
    socket: Option<S>,
    io: Arc<Io>,
    source: Arc<Source>,
    /// Its token in the poller.
    token: usize,
    /// The ways that the poller watches, a bit each; none while the socket is not in the poller.
    entered: AtomicU8,
    /// The descriptor that the poller knows, once there is one. The thread that holds this lock puts the socket into the poller.
    #[cfg(unix)]
    watched: Mutex<Option<RawFd>>,
}

/// Only the socket: what else there is lies behind locks, and a formatter's output is foreign code.
impl<S: Watched + fmt::Debug> fmt::Debug for Registered<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket().fmt(f)
    }
}

// A panic of a waker leaves each direction as it was before or as it is after.
impl<S: Watched + UnwindSafe> UnwindSafe for Registered<S> {}
impl<S: Watched + RefUnwindSafe> RefUnwindSafe for Registered<S> {}

/// On Linux a reader is told of urgent data, too (see `source::URGENT`).
#[cfg(any(target_os = "linux", target_os = "android"))]
const READ: Interest = Interest::READABLE.add(Interest::PRIORITY);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const READ: Interest = Interest::READABLE;

/// What the poller is asked to report for these ways.
fn interest(ways: u8) -> Interest {
    match ways {
        READS => READ,
        WRITES => Interest::WRITABLE,
        _ => READ.add(Interest::WRITABLE),
    }
}

/// The bits of the ways.
const READS: u8 = bit(Way::Read);
const WRITES: u8 = bit(Way::Write);
const BOTH: u8 = READS | WRITES;

const fn bit(way: Way) -> u8 {
    1 << way as u8
}

impl<S: Watched> Registered<S> {
    /// Registers a socket, which must be in non-blocking mode. Its first operation is tried at once. The socket enters the
    /// poller when an operation has to wait.
    #[cfg(any(feature = "net", test))]
    pub(crate) fn new(io: &Arc<Io>, socket: S) -> io::Result<Registered<S>> {
        Registered::register(io, socket, Start::Ready)
    }

    /// Registers a descriptor of any kind, for one way or for both. It enters the poller, and is ready when the poller has
    /// said so.
    #[cfg(unix)]
    pub(crate) fn watched(io: &Arc<Io>, socket: S, way: Option<Way>) -> io::Result<Registered<S>> {
        let registered = Registered::register(io, socket, Start::Told)?;
        registered.enter(way.map_or(BOTH, bit))?;
        Ok(registered)
    }

    fn register(io: &Arc<Io>, socket: S, start: Start) -> io::Result<Registered<S>> {
        let (source, token) = io.register(start)?;
        let registered = Registered {
            socket: Some(socket),
            io: io.clone(),
            source,
            token,
            entered: AtomicU8::new(0),
            #[cfg(unix)]
            watched: Mutex::new(None),
        };
        #[cfg(not(unix))]
        let registered = registered.enter_at_once()?;
        Ok(registered)
    }

    /// Puts the socket into the poller for at least these ways.
    #[cfg(unix)]
    #[cold]
    fn enter(&self, ways: u8) -> io::Result<()> {
        // If two operations have to wait, the poller may refuse the first; then the second asks for itself.
        let mut watched = lock(&self.watched);
        let before = self.entered.load(Ordering::Relaxed);
        let after = before | ways;
        if after != before {
            let (token, interest) = (Token(self.token), interest(after));
            // Foreign code says the number. It may panic, so it is called before anything changes.
            let number = self.socket().number();
            let entered = self.io.enter(|registry| match before {
                0 => self.socket().register(registry, token, interest),
                _ => self.socket().reregister(registry, token, interest),
            });
            entered.map_err(explain)?;
            self.entered.store(after, Ordering::Relaxed);
            *watched = Some(number);
        }
        Ok(())
    }

    /// The poller changes the socket when it takes it, so no other code may have the socket meanwhile.
    #[cfg(not(unix))]
    fn enter_at_once(mut self) -> io::Result<Registered<S>> {
        let token = Token(self.token);
        if let Some(socket) = &mut self.socket {
            self.io.enter(|registry| socket.register(registry, token, interest(BOTH)))?;
            self.entered.store(BOTH, Ordering::Relaxed);
        }
        Ok(self)
    }

    #[cfg(not(unix))]
    fn enter(&self, _ways: u8) -> io::Result<()> {
        Ok(())
    }

    /// Takes the socket out of the poller, if it is there.
    fn leave(&self, socket: &mut S) -> io::Result<()> {
        if self.entered.load(Ordering::Relaxed) == 0 || self.is_replaced(socket) {
            return Ok(());
        }
        self.io.leave(|registry| socket.deregister(registry))
    }

    /// Returns whether the program has put another descriptor in the place of the one that the poller knows. The number of the old
    /// one may be another's by now, so nothing can be taken out of the poller.
    #[cfg(unix)]
    fn is_replaced(&self, socket: &S) -> bool {
        lock(&self.watched).is_some_and(|watched| watched != socket.number())
    }

    #[cfg(not(unix))]
    fn is_replaced(&self, _socket: &S) -> bool {
        false
    }

    /// Takes the socket out of the reactor.
    pub(crate) fn into_inner(mut self) -> io::Result<S> {
        let mut socket = self.socket.take().expect("a socket is taken out only once, by value");
        self.leave(&mut socket)?;
        Ok(socket)
    }

    pub(crate) fn socket(&self) -> &S {
        self.socket.as_ref().expect("a socket stays until it is taken out by value")
    }

    #[cfg(unix)]
    pub(crate) fn socket_mut(&mut self) -> &mut S {
        self.socket.as_mut().expect("a socket stays until it is taken out by value")
    }

    /// The reactor that this belongs to.
    #[cfg(feature = "net")]
    pub(crate) fn io(&self) -> &Arc<Io> {
        &self.io
    }

    /// Performs `op` now or as soon as the way is ready. Only the waker of the latest caller is kept, so one task at a time
    /// can wait for a way with this method.
    pub(crate) fn poll_io<R>(
        &self,
        cx: &mut Context<'_>,
        way: Way,
        mut op: impl FnMut(&S) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_telling(cx, way, || op(self.socket()), |_| false)
    }

    /// Like [`poll_io`](Self::poll_io), for an operation that moves up to `len` bytes of a stream: if it moves fewer, the
    /// next operation waits. Only for streams that never stop short while there is more; packets and lines of a terminal do
    /// stop short.
    #[cfg(any(feature = "net", test))]
    pub(crate) fn poll_stream(
        &self,
        cx: &mut Context<'_>,
        way: Way,
        len: usize,
        mut op: impl FnMut(&S) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_segmented(cx, way, len, |socket| Ok((op(socket)?, true)))
    }

    /// Like [`poll_stream`](Self::poll_stream), for a stream in segments: the system ends a read at the end of a segment.
    /// With each result `op` says whether it would have gone on if there had been more.
    #[cfg(any(feature = "net", test))]
    pub(crate) fn poll_segmented(
        &self,
        cx: &mut Context<'_>,
        way: Way,
        len: usize,
        mut op: impl FnMut(&S) -> io::Result<(usize, bool)>,
    ) -> Poll<io::Result<usize>> {
        // epoll promises a new event once there is more; kqueue's and IOCP's emulations are less clear. The kernel moves at
        // most 2 GiB at a time, so for a longer buffer "fewer" would say nothing.
        let telling = cfg!(any(target_os = "linux", target_os = "android")) && len < 1 << 30;
        let took_all = |&(n, goes_on): &_| telling && goes_on && 0 < n && n < len;
        self.poll_telling(cx, way, || op(self.socket()), took_all).map_ok(|(n, _)| n)
    }

    /// As [`poll_io`](Self::poll_io). `took_all` says whether a result leaves nothing for another operation; if so, the next
    /// operation waits without asking the kernel.
    fn poll_telling<R>(
        &self,
        cx: &mut Context<'_>,
        way: Way,
        mut op: impl FnMut() -> io::Result<R>,
        took_all: impl Fn(&R) -> bool,
    ) -> Poll<io::Result<R>> {
        let direction = self.source.direction(way);
        let attempt = || self.or_wait(way, step(direction, &mut op, &took_all));
        poll(cx, direction, attempt, |waker| direction.leave_waker(waker))
    }

    /// Performs `op` now or as soon as the way is ready. Any number of tasks can wait at the same time.
    pub(crate) async fn async_io<R>(
        &self,
        way: Way,
        mut op: impl FnMut(&S) -> io::Result<R>,
    ) -> io::Result<R> {
        let mut op = || op(self.socket());
        self.wait(way, |direction| step(direction, &mut op, &|_| false)).await
    }

    /// Performs `op` if the way is ready, and fails with `WouldBlock` if it is not.
    pub(crate) fn try_io<R>(&self, way: Way, mut op: impl FnMut(&S) -> io::Result<R>) -> io::Result<R> {
        let done = step(self.source.direction(way), &mut || op(self.socket()), &|_| false);
        self.or_wait(way, done).unwrap_or_else(|| Err(ErrorKind::WouldBlock.into()))
    }

    /// Performs `op`, whatever is known about the readiness, which stays as it is. For operations of which the system does not
    /// report when they can go on.
    #[cfg(all(feature = "net", unix))]
    pub(crate) fn attempt<R>(&self, op: impl FnOnce(&S) -> io::Result<R>) -> io::Result<R> {
        if self.source.write.readiness.load().is_shut_down() { Err(closed()) } else { op(self.socket()) }
    }

    /// Waits until the way is ready, and performs nothing. Any number of tasks can wait at the same time.
    pub(crate) async fn ready(&self, way: Way) -> io::Result<()> {
        self.wait(way, look).await
    }

    /// The poll form of [`ready`](Self::ready). Only the waker of the latest caller is kept.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>, way: Way) -> Poll<io::Result<()>> {
        let direction = self.source.direction(way);
        poll(cx, direction, || self.or_wait(way, look(direction)), |waker| direction.leave_waker(waker))
    }

    /// Waits until `attempt` has a result.
    async fn wait<R>(
        &self,
        way: Way,
        mut attempt: impl FnMut(&Direction) -> Option<io::Result<R>>,
    ) -> io::Result<R> {
        let direction = self.source.direction(way);
        let mut waiter = Waiter::new(direction);
        let mut attempt = || self.or_wait(way, attempt(direction));
        poll_fn(|cx| poll(cx, direction, &mut attempt, |waker| waiter.leave_waker(waker))).await
    }

    /// If there is no result, the caller is going to wait: makes the poller watch that way.
    #[inline]
    fn or_wait<R>(&self, way: Way, done: Option<io::Result<R>>) -> Option<io::Result<R>> {
        // Relaxed: the bits say of no other memory anything. What the poller tells is found by way of the readiness.
        if done.is_some() || self.entered.load(Ordering::Relaxed) & bit(way) != 0 {
            return done;
        }
        self.enter(if way == Way::Read { READS } else { BOTH }).err().map(Err)
    }

    /// To be called before a call of the program's own on this stream. It may take urgent data, which the poller then does not
    /// announce, so from here on a short read no longer says that the stream is empty.
    #[cfg(feature = "net")]
    pub(crate) fn expect_urgent(&self) {
        self.source.read.readiness.expect_urgent();
    }

    /// This end has ended its writing, so a write no longer blocks. To be called where the poller may not report that.
    #[cfg(all(feature = "net", unix))]
    pub(crate) fn end_writes(&self) {
        let mut wakers = Vec::new();
        self.source.occur(Occurrence { token: self.token, read: 0, write: READY }, &mut wakers);
        panics::wake_all(wakers);
    }

    /// How many async methods wait for `way`.
    #[cfg(test)]
    pub(super) fn waiters(&self, way: Way) -> usize {
        self.source.direction(way).waiters()
    }
}

impl<S: Watched> Drop for Registered<S> {
    fn drop(&mut self) {
        if let Some(mut socket) = self.socket.take() {
            // An error means that other code has closed the descriptor. If there is a copy of it, the poller goes on watching that.
            let _ = self.leave(&mut socket);
        }
        self.io.retire(self.token);
    }
}

/// Turns the poller's refusal of a descriptor that it has already into an error that says what to do.
#[cfg(unix)]
fn explain(error: io::Error) -> io::Error {
    if error.kind() != ErrorKind::AlreadyExists {
        return error;
    }
    let message = "this runtime already watches this descriptor: share the `AsyncFd` or socket that watches it, or watch a copy \
                   (`try_clone_to_owned`)";
    io::Error::new(ErrorKind::AlreadyExists, message)
}

/// Tries the operation until there is a result or nothing is ready (`None`).
pub(super) fn step<R>(
    direction: &Direction,
    op: &mut impl FnMut() -> io::Result<R>,
    took_all: &impl Fn(&R) -> bool,
) -> Option<io::Result<R>> {
    loop {
        let seen = direction.readiness.load();
        if seen.is_shut_down() {
            return Some(Err(closed()));
        }
        if !seen.is_ready() {
            return None;
        }
        match op() {
            // If an event has come since, the clear does nothing and the operation is tried again.
            Err(error) if error.kind() == ErrorKind::WouldBlock => direction.readiness.clear(seen),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(result) => {
                if took_all(&result) {
                    direction.readiness.clear_ready(seen);
                }
                return Some(Ok(result));
            }
            Err(error) => return Some(Err(error)),
        }
    }
}

/// Returns a result if the direction is ready, and tries nothing.
fn look(direction: &Direction) -> Option<io::Result<()>> {
    let seen = direction.readiness.load();
    if seen.is_shut_down() { Some(Err(closed())) } else { seen.is_ready().then_some(Ok(())) }
}

/// Returns the result of `attempt`, or leaves a waker with `leave_waker`.
pub(super) fn poll<R>(
    cx: &mut Context<'_>,
    direction: &Direction,
    mut attempt: impl FnMut() -> Option<io::Result<R>>,
    mut leave_waker: impl FnMut(&Waker),
) -> Poll<io::Result<R>> {
    let permit = ready!(coop::poll_proceed(cx));
    loop {
        if let Some(result) = attempt() {
            permit.spend();
            return Poll::Ready(result);
        }
        leave_waker(cx.waker());
        if !direction.readiness.load().is_ready() {
            return Poll::Pending;
        }
    }
}

/// Descriptors, which the poller can take while other code uses them.
#[cfg(unix)]
mod fd {
    use mio::event::Source;
    use mio::unix::SourceFd;
    use mio::{Interest, Registry, Token};
    use std::io;
    use std::ops::{Deref, DerefMut};
    use std::os::fd::{AsFd, AsRawFd, RawFd};

    /// What the poller can watch: mio's [`Source`], except that it needs no exclusive access.
    pub(crate) trait Watched {
        fn number(&self) -> RawFd;
        fn register(&self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()>;
        fn reregister(&self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()>;
        fn deregister(&self, registry: &Registry) -> io::Result<()>;
    }

    impl<S: AsRawFd> Watched for S {
        fn number(&self) -> RawFd {
            self.as_raw_fd()
        }

        fn register(&self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
            SourceFd(&self.as_raw_fd()).register(registry, token, interest)
        }

        fn reregister(&self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
            SourceFd(&self.as_raw_fd()).reregister(registry, token, interest)
        }

        fn deregister(&self, registry: &Registry) -> io::Result<()> {
            SourceFd(&self.as_raw_fd()).deregister(registry)
        }
    }

    /// Anything that lends its descriptor.
    #[derive(Debug)]
    pub(crate) struct Fd<T>(pub(crate) T);

    impl<T> Deref for Fd<T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.0
        }
    }

    impl<T> DerefMut for Fd<T> {
        fn deref_mut(&mut self) -> &mut T {
            &mut self.0
        }
    }

    impl<T: AsFd> AsRawFd for Fd<T> {
        fn as_raw_fd(&self) -> RawFd {
            self.0.as_fd().as_raw_fd()
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::source::{Occurrence, READY};
    use super::*;

    #[test]
    fn the_poller_is_asked_for_what_is_waited_for_and_nothing_else() {
        let asked = [READS, WRITES, BOTH].map(|ways| {
            let interest = interest(ways);
            (interest.is_readable(), interest.is_writable(), interest.is_priority())
        });
        let urgent = cfg!(any(target_os = "linux", target_os = "android"));
        assert_eq!(asked, [(true, false, urgent), (false, true, false), (true, true, urgent)]);
    }

    /// An event after the attempt, but before the waker was left, wakes no task: it must be seen by looking once more.
    #[test]
    fn an_event_before_the_waker_is_left_is_seen() {
        let source = Source::new(Start::Told);
        let direction = &source.read;
        let mut attempts = 0;
        let attempt = || {
            attempts += 1;
            if attempts == 1 {
                source.occur(Occurrence { token: 0, read: READY, write: 0 }, &mut Vec::new());
                return None;
            }
            Some(Ok(()))
        };
        let mut cx = Context::from_waker(Waker::noop());
        let polled = poll(&mut cx, direction, attempt, |waker| direction.leave_waker(waker));
        assert!(polled.is_ready());
        assert_eq!(attempts, 2);
    }
}
