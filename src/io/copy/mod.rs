//! `copy_bidirectional`: the bytes of each of two streams are copied to the other, in both directions at once.
//!
//! ```text
//!   a ──read──▶ Pump ──write──▶ b      each holds a buffer only while bytes wait in it (buffers.rs)
//!   a ◀──write── Pump ◀──read── b
//!                 │ moved, or ended
//!                 ▼
//!               Idle: one timer for both directions and the whole (idle.rs)
//! ```
//!
//! Ground rules:
//!
//! * Bytes come before deadlines: a poll moves all bytes that can be moved, and only then checks the time.
//! * The directions take turns at going first, so that one direction cannot use up the budget of every poll.
//! * Nothing is assumed about the streams except the traits: an impossible count is an error, not a panic.

mod buffers;
mod error;
mod idle;
mod pump;

use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use pin_project_lite::pin_project;

pub use self::error::{CopyError, Direction};

use self::error::Cause;
use self::idle::Idle;
use self::pump::Pump;
use crate::coop;

/// The default of [`CopyBidirectional::buffer_size`].
const BUFFER: usize = 64 * 1024;

/// Copies from `a` to `b` and from `b` to `a` at once, until both have ended; returns how many bytes went from `a` to `b`, and
/// from `b` to `a`.
///
/// When one stream ends, the other is closed for writing as soon as it has taken all bytes, and the other direction goes
/// on: a half-closed TCP connection is passed on as half-closed. A writer is flushed whenever there is nothing to read for
/// it, so no bytes are held back in a stream that buffers. The streams may be of any kind and from any crate.
///
/// There is no time limit unless one is set: [`idle`](CopyBidirectional::idle) for both directions together,
/// [`idle_a_to_b`](CopyBidirectional::idle_a_to_b) and [`idle_b_to_a`](CopyBidirectional::idle_b_to_a) for one direction.
///
/// # Memory
///
/// A direction holds a buffer ([64 KiB](CopyBidirectional::buffer_size)) only while it has bytes that its writer does not
/// take. A connection that is idle, or whose writers keep up, holds none. Each thread keeps up to eight free buffers, which
/// all its copies share. So a reader that claims more bytes than it has put into the buffer passes on bytes that may be
/// from another connection.
///
/// # Errors
///
/// [`CopyError`], on the first error in either direction: it says which direction failed, in which operation, and how many
/// bytes had been copied. The other direction stops, too. A writer that takes no bytes is an error of kind
/// [`WriteZero`](std::io::ErrorKind::WriteZero), and a time limit that is exceeded is one of kind
/// [`TimedOut`](std::io::ErrorKind::TimedOut). With a time limit it is also an error if there is no runtime, or if the
/// runtime is dropped before the streams end.
///
/// # Cancel safety
///
/// Bytes that were read, and that the writer has not taken yet, are lost if the future is dropped: at most one buffer in
/// each direction. A `&mut` of the pinned future may be awaited again and again.
///
/// # Examples
///
/// A connection is forwarded to another server, and ended when neither side has sent anything for a minute:
///
/// ```no_run
/// use std::time::Duration;
/// use mainspring::io::copy_bidirectional;
/// use mainspring::net::TcpStream;
///
/// async fn hand_on(mut client: TcpStream) -> std::io::Result<()> {
///     let mut server = TcpStream::connect("10.0.0.1:80").await?;
///     let (sent, received) =
///         copy_bidirectional(&mut client, &mut server).idle(Duration::from_secs(60)).await?;
///     println!("{sent} bytes sent, {received} received");
///     Ok(())
/// }
/// ```
#[track_caller]
pub fn copy_bidirectional<'a, A, B>(a: &'a mut A, b: &'a mut B) -> CopyBidirectional<'a, A, B>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    CopyBidirectional {
        a,
        b,
        pumps: [Pump::new(BUFFER), Pump::new(BUFFER)],
        b_goes_first: false,
        idle: Idle::new(Location::caller()),
    }
}

pin_project! {
    /// The future that [`copy_bidirectional`] returns. Its methods that take it by value set its options.
    ///
    /// # Cancel safety
    ///
    /// As for [`copy_bidirectional`].
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct CopyBidirectional<'a, A: ?Sized, B: ?Sized> {
        a: &'a mut A,
        b: &'a mut B,
        // Indexed by the direction.
        pumps: [Pump; 2],
        b_goes_first: bool,
        #[pin]
        idle: Idle,
    }
}

impl<A: ?Sized, B: ?Sized> CopyBidirectional<'_, A, B> {
    /// Sets how many bytes are read at once in each direction; zero counts as one. The default is 64 KiB. With a smaller
    /// buffer a large transfer takes more system calls, and a writer that does not keep up takes less memory.
    ///
    /// # Panics
    ///
    /// If it is more than `isize::MAX`. If the memory for a buffer of a smaller size is not there, the process is aborted when the
    /// copy first needs it, as with any allocation.
    ///
    /// ```
    /// # use futures::io::Cursor;
    /// use mainspring::io::copy_bidirectional;
    ///
    /// # let (mut a, mut b) = (Cursor::new(vec![]), Cursor::new(vec![]));
    /// # mainspring::block_on(async {
    /// copy_bidirectional(&mut a, &mut b).buffer_size(4096).await?;
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn buffer_size(self, bytes: usize) -> Self {
        self.buffer_sizes(bytes, bytes)
    }

    /// Sets how many bytes are read at once, for each direction; see [`buffer_size`](Self::buffer_size).
    ///
    /// # Panics
    ///
    /// As `buffer_size`.
    #[track_caller]
    pub fn buffer_sizes(mut self, a_to_b: usize, b_to_a: usize) -> Self {
        assert!(a_to_b.max(b_to_a) <= isize::MAX as usize, "a buffer has at most `isize::MAX` bytes");
        self.pumps = [Pump::new(a_to_b), Pump::new(b_to_a)];
        self
    }

    /// Sets how long both directions together may be idle. After that the copy ends with an error that
    /// [is idle](CopyError::is_idle). While bytes move in one direction, the other may be silent, as during a long
    /// download.
    ///
    /// A direction is idle while no byte is read and none is written, because its reader is silent or because its writer
    /// takes nothing. The time begins with the first poll, and again with each poll that moves a byte or sees an end. It
    /// never ends early; [virtual time](crate::time#virtual-time) counts as time. `Duration::MAX` is no limit.
    ///
    /// A limit costs one reading of the clock for each poll that moves bytes, however many bytes. The timer is reset when
    /// it fires, and not before.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::io::copy_bidirectional;
    /// # use std::{io, pin::Pin, task::{Context, Poll}};
    /// # struct Silent;
    /// # impl mainspring::io::AsyncRead for Silent {
    /// #     fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> { Poll::Pending }
    /// # }
    /// # impl mainspring::io::AsyncWrite for Silent {
    /// #     fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, b: &[u8]) -> Poll<io::Result<usize>> { Poll::Ready(Ok(b.len())) }
    /// #     fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> { Poll::Ready(Ok(())) }
    /// #     fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> { Poll::Ready(Ok(())) }
    /// # }
    ///
    /// let runtime = mainspring::Builder::new().start_paused(true).build()?;
    /// let error = runtime.block_on(async {
    ///     let (mut a, mut b) = (Silent, Silent);
    ///     copy_bidirectional(&mut a, &mut b).idle(Duration::from_secs(60)).await.unwrap_err()
    /// });
    /// assert!(error.is_idle());
    /// assert_eq!(error.to_string(), "no byte went in either direction for 60s");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn idle(mut self, limit: Duration) -> Self {
        self.idle.whole = Some(limit);
        self
    }

    /// Sets how long the direction from `a` to `b` may be idle before it has ended, whatever moves in the other direction;
    /// see [`idle`](Self::idle).
    pub fn idle_a_to_b(mut self, limit: Duration) -> Self {
        self.idle.directions[Direction::AToB as usize] = Some(limit);
        self
    }

    /// Sets how long the direction from `b` to `a` may be idle before it has ended, whatever moves in the other direction;
    /// see [`idle`](Self::idle).
    pub fn idle_b_to_a(mut self, limit: Duration) -> Self {
        self.idle.directions[Direction::BToA as usize] = Some(limit);
        self
    }

    /// Returns how many bytes have been written so far: to `b`, and to `a`.
    pub fn copied(&self) -> (u64, u64) {
        copied(&self.pumps)
    }
}

fn copied(pumps: &[Pump; 2]) -> (u64, u64) {
    (pumps[0].copied(), pumps[1].copied())
}

impl<A, B> Future for CopyBidirectional<'_, A, B>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    type Output = Result<(u64, u64), CopyError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut order = [Direction::AToB, Direction::BToA];
        if *this.b_goes_first {
            order.reverse();
        }
        *this.b_goes_first ^= true;
        let (mut spare, mut refused) = (None, [false; 2]);
        for direction in order {
            let pump = &mut this.pumps[direction as usize];
            let polled = match direction {
                Direction::AToB => {
                    pump.poll(Pin::new(&mut **this.a), Pin::new(&mut **this.b), &mut spare, cx)
                }
                Direction::BToA => {
                    pump.poll(Pin::new(&mut **this.b), Pin::new(&mut **this.a), &mut spare, cx)
                }
            };
            refused[direction as usize] = polled.is_pending() && !coop::has_budget_remaining();
            if let Poll::Ready(Err(cause)) = polled {
                return Poll::Ready(Err(CopyError::new(Some(direction), cause, copied(this.pumps))));
            }
        }
        let open = [0, 1].map(|direction| !this.pumps[direction].is_done());
        if open == [false; 2] {
            return Poll::Ready(Ok(copied(this.pumps)));
        }
        let moved = [0, 1].map(|direction| this.pumps[direction].take_moved());
        let is_known = [0, 1].iter().all(|&direction| moved[direction] || !refused[direction]);
        this.idle.poll(cx, open, moved, is_known).map(|end| {
            let (direction, cause) = match end {
                Ok(silence) => (silence.direction, Cause::Idle(silence.limit)),
                Err(error) => (None, Cause::Timer(error)),
            };
            Err(CopyError::new(direction, cause, copied(this.pumps)))
        })
    }
}

impl<A: ?Sized, B: ?Sized> fmt::Debug for CopyBidirectional<'_, A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyBidirectional").field("copied", &self.copied()).finish_non_exhaustive()
    }
}
