//! Signals to the process, awaited: [`ctrl_c`], and [`signal()`] for any other. Unix only; feature `signal`.
//!
//! ```no_run
//! use mainspring::signal::{SignalKind, signal};
//!
//! mainspring::block_on(async {
//!     let mut hangup = signal(SignalKind::hangup())?;
//!     loop {
//!         hangup.recv().await?;
//!         println!("reading the configuration again");
//!     }
//! #   #[allow(unreachable_code)]
//! #   Ok::<_, std::io::Error>(())
//! })
//! # .unwrap();
//! ```
//!
//! The handler comes from the crate `signal-hook`, which other crates in the process may use, too. It writes a byte to a
//! socket, which the runtime's poller watches: no thread is used. Each [`Signal`] has two descriptors, belongs to the
//! runtime in which it was made, and receives each signal, even if other [`Signal`]s receive it, too.
//!
//! # While nobody waits
//!
//! A signal has no default action as long as there is a [`Signal`] of its kind somewhere in the process, polled or not.
//! When the last one is dropped, **the default action is back**: the next Ctrl-C ends the process, and its parent sees that
//! SIGINT has ended it. So a program that waits for [`ctrl_c`] once can still be ended by a second Ctrl-C while it cleans
//! up, and a program that must not be ended keeps a [`Signal`].
//!
//! In detail: signal-hook cannot remove the handler. So the handler stays, and while there is no [`Signal`] it does what
//! the system would do by default, with these exceptions:
//!
//! * If the signal had another action when the process made its first [`Signal`] of this kind, that action is back: a
//!   signal that was ignored, as SIGHUP is under `nohup`, is ignored; and a signal that had a handler calls that handler,
//!   before, during and after a wait. On Linux and Android `/proc` shows the action; elsewhere, and without `/proc`, a
//!   signal that was ignored is treated as one with the default action.
//! * While SIGCHLD is ignored, the system reaps children by itself. Once there was a [`Signal`] for it, the system does not
//!   do so any more. A wait for a child that has no pidfd makes one, too (see `process`).
//! * A handler that another part of the process adds later by signal-hook, as tokio, async-signal and signal-hook itself
//!   do, does not prevent the default action. If such a part handles a signal of the same kind, keep a [`Signal`] for as
//!   long as it does.
//! * A signal for which signal-hook knows no default action, such as SIGPWR and the real-time signals of Linux, is ignored,
//!   and so is SIGIO, which by default ends a process on Linux.
//!
//! A child process that starts a program gets the default action of each signal of which there ever was a [`Signal`], even
//! if the signal was ignored to begin with: a handler has replaced that action, and the system resets handlers. So under
//! `nohup`, SIGHUP ends such a child. Signals of which there was no [`Signal`] are ignored in the child if they are ignored
//! here. A child by `fork` that starts no program has the handlers, and the sockets that they write to: a signal to it is
//! received by its parent, too. It may wait forever in this module if another thread used it, or handled a signal, at the moment
//! of the `fork`.
//!
//! # Virtual time
//!
//! Paused time does not wait for a signal: hold [`stand_still`](crate::time::stand_still) where it has to.
//!
//! # Windows
//!
//! This module does not exist there: the handlers of signal-hook cannot wake a poller.

mod watch;

use self::watch::Watch;
use crate::coop::{self, unconstrained};
use crate::io::{AsyncFd, Interest};
use futures_core::Stream;
use futures_core::stream::FusedStream;
use signal_hook::consts;
use std::ffi::c_int;
use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A kind of signal. Made by its name, or [by its number](Self::from_raw).
///
/// ```
/// use mainspring::signal::SignalKind;
///
/// assert_eq!(SignalKind::interrupt().as_raw_value(), 2);
/// assert_eq!(SignalKind::from_raw(15), SignalKind::terminate());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SignalKind(c_int);

macro_rules! kinds {
    ($($name:ident = $signal:ident: $what:literal;)*) => {$(
        #[doc = concat!(stringify!($signal), ": ", $what)]
        pub const fn $name() -> SignalKind {
            SignalKind(consts::$signal)
        }
    )*};
}

impl SignalKind {
    kinds! {
        alarm = SIGALRM: "a timer of the process has expired. By default it ends the process.";
        child = SIGCHLD: "a child process has ended, or was stopped. By default nothing happens.";
        hangup = SIGHUP: "the terminal is gone, or a daemon is to read its configuration again. By default it ends the process.";
        interrupt = SIGINT: "Ctrl-C in the terminal. By default it ends the process.";
        pipe = SIGPIPE: "a write to a pipe or socket that nobody reads. Rust programs ignore it.";
        quit = SIGQUIT: "Ctrl-\\ in the terminal. By default it ends the process, with a core dump.";
        terminate = SIGTERM: "the process is asked to end. By default it does.";
        user_defined1 = SIGUSR1: "whatever the program wants. By default it ends the process.";
        user_defined2 = SIGUSR2: "whatever the program wants. By default it ends the process.";
        window_change = SIGWINCH: "the terminal has another size. By default nothing happens.";
    }

    /// Returns the signal with this number on this system.
    ///
    /// Any number is accepted; [`signal()`] reports which of them cannot be awaited.
    pub const fn from_raw(signal: c_int) -> SignalKind {
        SignalKind(signal)
    }

    /// Returns the signal's number on this system.
    pub const fn as_raw_value(self) -> c_int {
        self.0
    }
}

/// Watches for the signal from now on, in the runtime that this thread is in.
///
/// # Errors
///
/// * One of kind [`InvalidInput`](ErrorKind::InvalidInput) if the signal cannot be awaited: SIGKILL and SIGSTOP never can,
///   SIGILL, SIGFPE and SIGSEGV have to be handled on the spot, and other numbers are no signals;
/// * one of kind [`Other`](ErrorKind::Other) if there is no runtime on this thread;
/// * the system's, for example if there are no descriptors left.
///
/// After an error the signal's action is what it was before.
///
/// # Examples
///
/// ```
/// use mainspring::signal::{SignalKind, signal};
///
/// mainspring::block_on(async {
///     let mut resized = signal(SignalKind::window_change())?;
///     signal_hook::low_level::raise(SignalKind::window_change().as_raw_value())?;
///     resized.recv().await
/// })
/// # .unwrap();
/// ```
pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    let (reader, writer) = UnixStream::pair()?;
    // This is made before the handler, so that a thread that is in no runtime changes nothing.
    let pipe = AsyncFd::with_interest(reader, Interest::Readable)?;
    Ok(Signal { watch: Watch::begin(kind.0, writer)?, pipe })
}

/// Waits for the next Ctrl-C, or SIGINT from elsewhere, from its first poll on.
///
/// While the future exists, Ctrl-C does not end the process. Once the future is ready or dropped, Ctrl-C does again, as
/// described [above](self#while-nobody-waits): the second Ctrl-C ends a program that does not end after the first. So in a
/// loop around this function, a Ctrl-C between two calls can end the process. Two at nearly the same time may count as one. A
/// program that wants each Ctrl-C keeps a [`signal(SignalKind::interrupt())`](signal()).
///
/// # Errors
///
/// As for [`signal()`] and [`Signal::recv`].
///
/// # Cancel safety
///
/// A Ctrl-C that came after the last poll is lost if the future is dropped.
///
/// # Examples
///
/// ```no_run
/// use futures::future::{Either, select};
/// use mainspring::signal::ctrl_c;
/// use std::pin::pin;
///
/// # async fn serve() -> std::io::Result<()> { Ok(()) }
/// mainspring::block_on(async {
///     match select(pin!(serve()), pin!(ctrl_c())).await {
///         Either::Left((served, _)) => served,
///         Either::Right((pressed, _)) => pressed.map(|()| println!("clearing up; Ctrl-C again ends me at once")),
///     }
/// })
/// # .unwrap();
/// ```
pub async fn ctrl_c() -> io::Result<()> {
    coop::charge_error(signal(SignalKind::interrupt())).await?.recv().await
}

/// Receives the signals of one kind, from the moment it was made by [`signal()`]. It is also a [`Stream`], which never
/// ends.
///
/// Signals that come before the last one was received count as one; the system promises no more, either. No signal is lost
/// altogether, whether or not a task waits when it comes.
///
/// It may be used and dropped on any thread. If it outlives its runtime, using it is an error. What happens when the last
/// one of its kind is dropped is described [above](self#while-nobody-waits).
///
/// # Examples
///
/// ```
/// use futures::TryStreamExt;
/// use mainspring::signal::{SignalKind, signal};
///
/// mainspring::block_on(async {
///     let mut resized = signal(SignalKind::window_change())?;
///     signal_hook::low_level::raise(SignalKind::window_change().as_raw_value())?;
///     assert_eq!(resized.try_next().await?, Some(()));
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
#[derive(Debug)]
#[must_use = "a signal is watched for while this lives"]
pub struct Signal {
    /// Dropped before the pipe, so that nothing is written to a pipe without a reader.
    watch: Watch,
    pipe: AsyncFd<UnixStream>,
}

impl Signal {
    /// Waits for a signal, unless one has come since the last one was received.
    ///
    /// # Errors
    ///
    /// One of kind [`Other`](ErrorKind::Other) after the runtime has shut down.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    pub async fn recv(&mut self) -> io::Result<()> {
        // Without a budget: signals are rare, and a branch of a `select` that uses the budget up must not hide one.
        coop::charge_error(unconstrained(self.pipe.async_io(Interest::Readable, clear)).await).await
    }

    /// The poll form of [`recv`](Self::recv).
    ///
    /// # Errors
    ///
    /// As for `recv`.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let received = ready!(coop::unlimited(|| self.pipe.poll_io(cx, Interest::Readable, clear)));
        coop::poll_charge_error(cx, received)
    }

    /// Returns which signal this watches for.
    pub fn kind(&self) -> SignalKind {
        SignalKind(self.watch.signal())
    }
}

impl Stream for Signal {
    type Item = io::Result<()>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_recv(cx).map(Some)
    }
}

/// The stream never ends.
impl FusedStream for Signal {
    fn is_terminated(&self) -> bool {
        false
    }
}

/// Reads all bytes, each of which is a signal; `WouldBlock` if there is none.
fn clear(mut pipe: &UnixStream) -> io::Result<()> {
    let mut bytes = [0; 64];
    let mut found = false;
    loop {
        match pipe.read(&mut bytes) {
            Ok(n) if n == bytes.len() => found = true,
            Ok(0) if !found => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if !found => return Err(error),
            Ok(_) | Err(_) => return Ok(()),
        }
    }
}
