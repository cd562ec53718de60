//! The two ends of a connection in memory: bytes that are written to one end are read from the other.
//!
//! Ground rules:
//!
//! * Each direction has room for a fixed number of bytes; a writer waits for room, a reader for bytes or the end.
//! * Closing or dropping an end is the end of the stream for the other. A writer whose reader was dropped gets `BrokenPipe`.
//! * For tests on one thread.
#![allow(dead_code, reason = "every test binary uses its own part of it")]

use std::cell::{RefCell, RefMut};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use mainspring::io::{AsyncRead, AsyncWrite};

/// One end.
#[derive(Debug)]
pub(crate) struct Duplex {
    incoming: Rc<RefCell<Pipe>>,
    outgoing: Rc<RefCell<Pipe>>,
}

#[derive(Debug, Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    room: usize,
    /// No more bytes will be written.
    ended: bool,
    /// No more bytes will be read.
    abandoned: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// A connection with room for this many bytes in each direction.
pub(crate) fn duplex(room: usize) -> (Duplex, Duplex) {
    let [one, other] = [(); 2].map(|()| Rc::new(RefCell::new(Pipe { room, ..Pipe::default() })));
    (Duplex { incoming: one.clone(), outgoing: other.clone() }, Duplex { incoming: other, outgoing: one })
}

/// Wakes the waker that `pick` picks, after the borrow.
fn wake(mut pipe: RefMut<'_, Pipe>, pick: fn(&mut Pipe) -> &mut Option<Waker>) {
    let waker = pick(&mut pipe).take();
    drop(pipe);
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Duplex {
    fn end(&self) {
        let mut pipe = self.outgoing.borrow_mut();
        pipe.ended = true;
        wake(pipe, |pipe| &mut pipe.reader);
    }
}

impl AsyncRead for Duplex {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut pipe = self.incoming.borrow_mut();
        if pipe.bytes.is_empty() && !pipe.ended {
            pipe.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let read = pipe.bytes.read(buffer)?;
        wake(pipe, |pipe| &mut pipe.writer);
        Poll::Ready(Ok(read))
    }
}

impl AsyncWrite for Duplex {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut pipe = self.outgoing.borrow_mut();
        if pipe.abandoned || pipe.ended {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let written = bytes.len().min(pipe.room - pipe.bytes.len());
        if written == 0 {
            pipe.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        pipe.bytes.extend(&bytes[..written]);
        wake(pipe, |pipe| &mut pipe.reader);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end();
        Poll::Ready(Ok(()))
    }
}

impl Drop for Duplex {
    fn drop(&mut self) {
        self.end();
        let mut pipe = self.incoming.borrow_mut();
        pipe.abandoned = true;
        wake(pipe, |pipe| &mut pipe.writer);
    }
}
