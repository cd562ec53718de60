//! The errors of timers, timeouts and timer maps.

use std::fmt;
use std::io;

/// The error of a timeout: its deadline passed before the future was ready.
///
/// It converts to an [`io::Error`] of the kind [`TimedOut`](io::ErrorKind::TimedOut).
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::timeout;
///
/// mainspring::block_on(async {
///     let error = timeout(Duration::from_millis(1), std::future::pending::<()>()).await.unwrap_err();
///     assert_eq!(error.to_string(), "deadline has elapsed");
///     assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::TimedOut);
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(pub(super) ());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(error: Elapsed) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, error)
    }
}

/// The reason why a timer cannot work. The `try_` forms return it; the other forms panic with it.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::try_sleep;
///
/// let runtime = mainspring::Runtime::new()?;
/// let guard = runtime.handle().enter();
/// let sleep = try_sleep(Duration::from_secs(60));
/// drop(guard);
/// drop(runtime);
/// assert!(futures::executor::block_on(sleep).unwrap_err().is_shutdown());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(pub(super) Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    NoRuntime,
    Shutdown,
}

impl Error {
    /// Returns whether the timer was made and polled outside any runtime.
    pub fn is_no_runtime(&self) -> bool {
        self.0 == Kind::NoRuntime
    }

    /// Returns whether the timer's runtime was dropped before the deadline.
    pub fn is_shutdown(&self) -> bool {
        self.0 == Kind::Shutdown
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::NoRuntime => {
                "no Mainspring runtime on this thread: use timers inside `mainspring::block_on` or a task, or \
                 make them while the guard of `Handle::enter` lives"
            }
            Kind::Shutdown => {
                "the timer's Mainspring runtime was dropped before the deadline: keep the `Runtime` alive as \
                 long as its timers are awaited"
            }
        })
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::other(error)
    }
}

/// The error of a call to a handle whose [`TimerMap`](super::TimerMap) was closed or dropped: the handle can change
/// nothing any more. It contains the key and value of an insertion, or the key of a reset or a removal.
///
/// It converts to an [`io::Error`], which drops the key and the value.
///
/// ```
/// use std::time::Duration;
/// use mainspring::time::TimerMap;
///
/// mainspring::block_on(async {
///     let mut map = TimerMap::new();
///     let handle = map.handle();
///     drop(map);
///     let closed = handle.insert("key", "value", Duration::ZERO).unwrap_err();
///     assert_eq!(closed.to_string(), "the timer map is closed");
///     assert_eq!(closed.into_inner(), ("key", "value"));
/// });
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Closed<T>(pub(super) T);

impl<T> Closed<T> {
    /// Returns the key, or the key and value, that the call was given.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> fmt::Debug for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closed").finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the timer map is closed")
    }
}

impl<T> std::error::Error for Closed<T> {}

impl<T> From<Closed<T>> for io::Error {
    fn from(_: Closed<T>) -> io::Error {
        io::Error::other(Closed(()))
    }
}
