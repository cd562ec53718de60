//! One direction of a copy: from a reader to a writer.
//!
//! Ground rules:
//!
//! * The bytes that were read are written before more are read, so at most one buffer is filled.
//! * The buffer is handed back to the poll as soon as it is empty, for the next read of either direction.
//! * Each read is charged to the budget. If the budget refuses a read, the streams are not polled for it.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};

use super::buffers::Buffer;
use super::error::Cause;
use crate::coop;

/// The state of one direction.
#[derive(Debug)]
pub(super) struct Pump {
    /// The size of a buffer, in bytes.
    size: usize,
    /// The bytes that were read and not yet written: never empty.
    waiting: Option<(Buffer, Range<usize>)>,
    reader: End,
    /// Something was written since the last flush.
    unflushed: bool,
    /// A byte moved, or the end was seen, since this was last taken.
    moved: bool,
    copied: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// There may be more to read.
    NotYet,
    /// The reader has ended; the writer must be closed.
    Seen,
    /// The writer is closed.
    PassedOn,
}

impl Pump {
    /// Makes a pump that reads this many bytes at once; zero counts as one.
    pub(super) fn new(size: usize) -> Pump {
        Pump {
            size: size.max(1),
            waiting: None,
            reader: End::NotYet,
            unflushed: false,
            moved: false,
            copied: 0,
        }
    }

    /// How many bytes were written.
    pub(super) fn copied(&self) -> u64 {
        self.copied
    }

    /// Whether the end was passed on.
    pub(super) fn is_done(&self) -> bool {
        self.reader == End::PassedOn
    }

    /// Whether anything moved since the last call.
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Moves all bytes that can be moved; ready when the end was passed on. A free buffer is kept in `spare`, which both
    /// directions use.
    pub(super) fn poll<R, W>(
        &mut self,
        mut reader: Pin<&mut R>,
        mut writer: Pin<&mut W>,
        spare: &mut Option<Buffer>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cause>>
    where
        R: AsyncRead + ?Sized,
        W: AsyncWrite + ?Sized,
    {
        loop {
            ready!(self.poll_write(writer.as_mut(), spare, cx)).map_err(Cause::Write)?;
            match self.reader {
                End::NotYet => {}
                End::Seen => {
                    // Closing flushes, too.
                    ready!(writer.as_mut().poll_close(cx)).map_err(Cause::Close)?;
                    self.reader = End::PassedOn;
                    return Poll::Ready(Ok(()));
                }
                End::PassedOn => return Poll::Ready(Ok(())),
            }
            let permit = ready!(coop::poll_proceed(cx));
            match self.poll_read(reader.as_mut(), spare, cx) {
                Poll::Ready(read) => {
                    permit.spend();
                    read.map_err(Cause::Read)?;
                    self.moved = true;
                }
                Poll::Pending => {
                    if self.unflushed {
                        ready!(writer.as_mut().poll_flush(cx)).map_err(Cause::Flush)?;
                        self.unflushed = false;
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// Reads once, when no bytes wait.
    fn poll_read<R: AsyncRead + ?Sized>(
        &mut self,
        reader: Pin<&mut R>,
        spare: &mut Option<Buffer>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let buffer = spare.take().filter(|buffer| buffer.bytes().len() == self.size);
        let buffer = spare.insert(buffer.unwrap_or_else(|| Buffer::take(self.size)));
        match ready!(reader.poll_read(cx, buffer.bytes_mut()))? {
            0 => self.reader = End::Seen,
            read if read <= self.size => self.waiting = spare.take().map(|buffer| (buffer, 0..read)),
            _ => return Poll::Ready(Err(impossible("the reader claims more bytes than it was asked for"))),
        }
        Poll::Ready(Ok(()))
    }

    /// Writes all bytes that wait.
    fn poll_write<W: AsyncWrite + ?Sized>(
        &mut self,
        mut writer: Pin<&mut W>,
        spare: &mut Option<Buffer>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while let Some((buffer, range)) = &mut self.waiting {
            let written = ready!(writer.as_mut().poll_write(cx, &buffer.bytes()[range.clone()]))?;
            if written == 0 {
                return Poll::Ready(Err(io::Error::new(
                    ErrorKind::WriteZero,
                    "the writer accepted no bytes",
                )));
            }
            if written > range.len() {
                return Poll::Ready(Err(impossible("the writer claims more bytes than it was given")));
            }
            self.copied += written as u64;
            (self.moved, self.unflushed) = (true, true);
            range.start += written;
            if range.start == range.end {
                *spare = self.waiting.take().map(|(buffer, _)| buffer);
            }
        }
        Poll::Ready(Ok(()))
    }
}

fn impossible(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    /// Yields `say`, then nothing for now; takes as many bytes as it has room for.
    struct Stream {
        say: &'static [u8],
        room: usize,
    }

    impl AsyncRead for Stream {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            if self.say.is_empty() {
                return Poll::Pending;
            }
            let read = self.say.len().min(buffer.len());
            buffer[..read].copy_from_slice(&self.say[..read]);
            self.say = &self.say[read..];
            Poll::Ready(Ok(read))
        }
    }

    impl AsyncWrite for Stream {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let written = self.room.min(bytes.len());
            self.room -= written;
            if written == 0 { Poll::Pending } else { Poll::Ready(Ok(written)) }
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn a_buffer_is_held_only_while_bytes_wait_in_it() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut reader = Stream { say: b"twelve bytes", room: 0 };
        let mut writer = Stream { say: b"", room: 5 };
        let mut pump = Pump::new(8);
        let mut poll = |reader: &mut Stream, writer: &mut Stream| {
            assert!(pump.poll(Pin::new(reader), Pin::new(writer), &mut None, &mut cx).is_pending());
            (pump.waiting.as_ref().map(|(_, range)| range.clone()), pump.copied(), pump.take_moved())
        };
        assert_eq!(poll(&mut reader, &mut writer), (Some(5..8), 5, true));
        assert_eq!(poll(&mut reader, &mut writer), (Some(5..8), 5, false));
        writer.room = 100;
        assert_eq!(poll(&mut reader, &mut writer), (None, 12, true));
        // It waits for the reader, and holds nothing.
        assert_eq!(poll(&mut reader, &mut writer), (None, 12, false));
    }
}
