//! In which direction a copy failed, and in which operation.

use std::time::Duration;
use std::{error, fmt, io};

/// One of the two directions of [`copy_bidirectional`](super::copy_bidirectional).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the first stream to the second.
    AToB,
    /// From the second stream to the first.
    BToA,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::AToB => "a to b",
            Direction::BToA => "b to a",
        })
    }
}

/// What went wrong.
#[derive(Debug)]
pub(super) enum Cause {
    Read(io::Error),
    Write(io::Error),
    Flush(io::Error),
    Close(io::Error),
    /// No byte moved for this time.
    Idle(Duration),
    /// There is no runtime for the time limit, or it has shut down.
    Timer(io::Error),
}

/// The error of [`copy_bidirectional`](super::copy_bidirectional): which direction failed, in which operation, and how far
/// the copy had come.
///
/// It converts to an [`io::Error`] of the same kind, so that `?` works in functions that return one.
///
/// ```
/// use futures::io::Cursor;
/// use mainspring::io::{Direction, copy_bidirectional};
/// use std::io::ErrorKind;
///
/// mainspring::block_on(async {
///     // The second has room for three bytes.
///     let mut room = [0; 3];
///     let (mut a, mut b) = (Cursor::new(b"hello".to_vec()), Cursor::new(&mut room[..]));
///     let error = copy_bidirectional(&mut a, &mut b).await.unwrap_err();
///     assert_eq!((error.direction(), error.kind()), (Some(Direction::AToB), ErrorKind::WriteZero));
///     assert!(error.to_string().starts_with("a to b: cannot write: "));
///     assert_eq!(error.copied(), (3, 0));
/// });
/// ```
#[derive(Debug)]
pub struct CopyError {
    direction: Option<Direction>,
    cause: Cause,
    copied: (u64, u64),
}

impl CopyError {
    pub(super) fn new(direction: Option<Direction>, cause: Cause, copied: (u64, u64)) -> CopyError {
        CopyError { direction, cause, copied }
    }

    /// Returns which direction failed: reading from its source, or writing to its destination. `None` if no single
    /// direction failed: both together were idle for too long, or there is no runtime for the limit.
    pub fn direction(&self) -> Option<Direction> {
        self.direction
    }

    /// Returns whether reading from a stream failed. If the copy failed in a [direction](Self::direction), this is false,
    /// and the copy [is not idle](Self::is_idle), then the stream that is written to failed.
    pub fn is_read(&self) -> bool {
        matches!(self.cause, Cause::Read(_))
    }

    /// Returns whether a time limit was exceeded.
    pub fn is_idle(&self) -> bool {
        matches!(self.cause, Cause::Idle(_))
    }

    /// Returns the kind of the stream's error, or [`TimedOut`](io::ErrorKind::TimedOut) if the copy was idle.
    pub fn kind(&self) -> io::ErrorKind {
        self.io_error().map_or(io::ErrorKind::TimedOut, io::Error::kind)
    }

    /// Returns the stream's error; `None` if the copy was idle.
    pub fn io_error(&self) -> Option<&io::Error> {
        match &self.cause {
            Cause::Read(error)
            | Cause::Write(error)
            | Cause::Flush(error)
            | Cause::Close(error)
            | Cause::Timer(error) => Some(error),
            Cause::Idle(_) => None,
        }
    }

    /// Returns how many bytes had been written: to `b`, and to `a`.
    pub fn copied(&self) -> (u64, u64) {
        self.copied
    }
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(direction) = self.direction {
            write!(f, "{direction}: ")?;
        }
        match &self.cause {
            Cause::Read(error) => write!(f, "cannot read: {error}"),
            Cause::Write(error) => write!(f, "cannot write: {error}"),
            Cause::Flush(error) => write!(f, "cannot flush: {error}"),
            Cause::Close(error) => write!(f, "cannot close: {error}"),
            Cause::Idle(limit) if self.direction.is_none() => {
                write!(f, "no byte went in either direction for {limit:?}")
            }
            Cause::Idle(limit) => write!(f, "no byte went in this direction for {limit:?}"),
            Cause::Timer(error) => write!(f, "{error}"),
        }
    }
}

/// The message above includes the stream's error, so the source is the source of that error.
impl error::Error for CopyError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.io_error().and_then(error::Error::source)
    }
}

impl From<CopyError> for io::Error {
    fn from(error: CopyError) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}
