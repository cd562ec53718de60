//! Writing from several buffers at once.
//!
//! The system takes a list of buffers more slowly than one buffer. So small buffers are first copied into one: the head and the
//! body of a short HTTP answer, say.

use crate::io::first_nonempty;
use std::io::{self, IoSlice, Write};

/// The maximum number of bytes that are copied.
const MOST: usize = 1024;

/// Writes from `bufs` in turn, with one system call. Returns how many bytes the system took.
pub(super) fn write(mut socket: impl Write, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
    let bufs = &bufs[first_nonempty(bufs)..];
    let mut filled = bufs.iter().filter(|buf| !buf.is_empty());
    let first = filled.next();
    if filled.next().is_none() {
        return socket.write(first.map_or(&[], |only| &**only));
    }
    if bufs.iter().map(|buf| buf.len()).fold(0, usize::saturating_add) > MOST {
        return socket.write_vectored(bufs);
    }
    let mut copy = [0; MOST];
    let mut length = 0;
    for buf in bufs {
        copy[length..][..buf.len()].copy_from_slice(buf);
        length += buf.len();
    }
    socket.write(&copy[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes the bytes that it is given, up to a limit, and counts the calls of each kind.
    #[derive(Default)]
    struct Socket {
        room: usize,
        took: Vec<u8>,
        single: usize,
        vectored: usize,
        /// Bytes in the first buffer of the last list.
        first: usize,
    }

    impl Write for &mut Socket {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.single += 1;
            let count = buf.len().min(self.room);
            self.took.extend(&buf[..count]);
            Ok(count)
        }

        fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
            self.vectored += 1;
            self.first = bufs[0].len();
            let all: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
            let count = all.len().min(self.room);
            self.took.extend(&all[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(room: usize, bufs: &[&[u8]]) -> (Socket, usize) {
        let mut socket = Socket { room, ..Socket::default() };
        let slices: Vec<_> = bufs.iter().map(|buf| IoSlice::new(buf)).collect();
        let count = write(&mut socket, &slices).unwrap();
        (socket, count)
    }

    #[test]
    fn small_buffers_are_written_as_one_and_large_ones_as_a_list() {
        for (first, second, at_once) in
            [(1, 1, true), (MOST - 1, 1, true), (MOST, 1, false), (1, 1 << 16, false)]
        {
            let (first, second) = (vec![b'a'; first], vec![b'b'; second]);
            let (socket, count) = written(usize::MAX, &[&first, &[], &second]);
            assert_eq!((count, socket.took), (first.len() + second.len(), [first, second].concat()));
            assert_eq!((socket.single, socket.vectored), (usize::from(at_once), usize::from(!at_once)));
        }
    }

    #[test]
    fn a_buffer_that_alone_has_bytes_is_written_as_it_is() {
        let large = vec![b'x'; 2 * MOST];
        for bufs in [&[&large[..]][..], &[&[], &large, &[]]] {
            let (socket, count) = written(usize::MAX, bufs);
            assert_eq!((count, socket.single, socket.vectored), (2 * MOST, 1, 0));
        }
        // The system takes no more than about a thousand buffers at a time.
        let empty: Vec<&[u8]> = vec![&[]; 2_000];
        let (socket, count) = written(usize::MAX, &[&empty[..], &[&large, &large]].concat());
        assert_eq!((count, socket.first, socket.vectored), (4 * MOST, 2 * MOST, 1));
        for bufs in [&[][..], &[&[][..], &[]]] {
            let (socket, count) = written(usize::MAX, bufs);
            assert_eq!((count, socket.single, socket.vectored), (0, 1, 0));
        }
    }

    #[test]
    fn what_the_system_took_is_counted_across_buffers() {
        let (socket, count) = written(4, &[b"abc", b"def"]);
        assert_eq!((count, &socket.took[..]), (4, &b"abcd"[..]));
        let large = [b'x'; MOST];
        let (socket, count) = written(5, &[b"abc", &large]);
        assert_eq!((count, &socket.took[..]), (5, &b"abcxx"[..]));
    }
}
