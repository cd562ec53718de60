//! Descriptors that are sent along with bytes, and bytes that the kernel moves.

use crate::common::LONG;
use crate::net_support::run;
use futures::{AsyncReadExt, AsyncWriteExt};
use mainspring::io::Interest;
use mainspring::net::unix::UnixStream;
use mainspring::task::yield_now;
use mainspring::{sleep, spawn, timeout};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{SpliceFlags, splice};
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net;
use std::time::Duration;

/// Sends bytes, and a descriptor along with them.
async fn send_with(stream: &UnixStream, bytes: &[u8], fd: BorrowedFd<'_>) {
    let fds = [fd];
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        Ok(sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::empty())?)
    };
    assert_eq!(stream.async_io(Interest::Writable, send).await.unwrap(), bytes.len());
}

/// Receives what [`send_with`] has sent.
async fn receive_with(stream: &UnixStream, bytes: &mut [u8]) -> (usize, OwnedFd) {
    let mut fd = None;
    let receive = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(stream, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                fd = fds.last();
            }
        }
        Ok(received.bytes)
    };
    let received = stream.async_io(Interest::Readable, receive).await.unwrap();
    (received, fd.expect("a descriptor came along"))
}

#[test]
fn descriptors_are_passed_to_one_who_waits_for_them() {
    run(async {
        let (one, other) = UnixStream::pair().unwrap();
        let receiving = spawn(async move {
            let mut bytes = [0; 8];
            let (length, fd) = receive_with(&other, &mut bytes).await;
            (bytes[..length].to_vec(), fd)
        });
        yield_now().await;
        let (mut ours, theirs) = net::UnixStream::pair().unwrap();
        send_with(&one, b"here", theirs.as_fd()).await;
        drop(theirs);
        let (bytes, fd) = receiving.await.unwrap();
        assert_eq!(bytes, b"here");
        // Both descriptors belong to the same connection.
        let mut theirs = UnixStream::from_std(fd.into()).unwrap();
        theirs.write_all(b"through").await.unwrap();
        let mut got = [0; 7];
        ours.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"through");
    });
}

/// The system ends a read at the point where a descriptor was sent along. That the read was short does not show what is
/// left, and an edge-triggered poller does not report it again.
#[test]
fn bytes_behind_a_descriptor_are_not_forgotten() {
    run(async {
        let (one, mut other) = UnixStream::pair().unwrap();
        let fd = File::open("/dev/null").unwrap();
        let mut buffer = [0; 64];
        // From now on the poller reports the socket.
        timeout(Duration::from_millis(1), other.read(&mut buffer)).await.unwrap_err();
        for _ in 0..3 {
            send_with(&one, b"with", fd.as_fd()).await;
            (&one).write_all(b"behind").await.unwrap();
            // The poller has reported both, and will not do so again.
            sleep(Duration::from_millis(5)).await;
            let mut got = Vec::<u8>::new();
            while got.len() < 10 {
                let read = timeout(LONG, other.read(&mut buffer)).await.expect("it is there").unwrap();
                got.extend(&buffer[..read]);
            }
            assert_eq!(got, b"withbehind");
        }
    });
}

#[test]
fn splice_moves_bytes_from_a_socket_to_a_pipe() {
    run(async {
        let (mut one, other) = UnixStream::pair().unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut reader = File::from(reader);
        let moving = spawn(async move {
            let mut got = Vec::new();
            // The pipe is empty each time: so the call waits because of the socket.
            let splice = || Ok(splice(&other, None, &writer, None, 4096, SpliceFlags::NONBLOCK)?);
            loop {
                let moved = other.async_io(Interest::Readable, splice).await.unwrap();
                if moved == 0 {
                    break got;
                }
                let start = got.len();
                got.resize(start + moved, 0);
                reader.read_exact(&mut got[start..]).unwrap();
            }
        });
        for _ in 0..100 {
            one.write_all(b"hundred").await.unwrap();
            yield_now().await;
        }
        drop(one);
        assert_eq!(moving.await.unwrap(), "hundred".repeat(100).as_bytes());
    });
}
