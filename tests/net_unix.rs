//! Unix sockets: streams, datagrams, what is sent along with bytes, and where Linux does not say when to go on.
#![cfg(all(feature = "net", unix))]

mod common;
mod net_support;

use common::{HOUR, LONG, ms, orphan, paused, watchdog};
use futures::channel::oneshot;
use futures::stream::FusedStream;
use futures::{AsyncReadExt, AsyncWriteExt, StreamExt};
use mainspring::io::Interest;
use mainspring::net::unix::{UnixDatagram, UnixListener, UnixStream};
use mainspring::net::{
    Incoming, OwnedReadHalf, OwnedWriteHalf, ReuniteError, TcpListener, TcpStream, UdpSocket,
};
use mainspring::task::yield_now;
use mainspring::{sleep, spawn, timeout};
use net_support::run;
use rustix::net::{RecvFlags, SendFlags};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

/// A path for a socket, and the removal of what is there.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let place = Place(std::env::temp_dir().join(format!("mainspring-{name}-{}", std::process::id())));
        let _ = std::fs::remove_file(&place.0);
        place
    }
}

impl AsRef<Path> for Place {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Polls once.
async fn is_ready(future: impl Future) -> bool {
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

#[test]
fn a_thousand_messages_are_echoed_in_order() {
    run(async {
        let place = Place::new("echo");
        let listener = UnixListener::bind(&place).unwrap();
        assert_eq!(listener.local_addr().unwrap().as_pathname(), Some(place.as_ref()));
        let serving = spawn(async move {
            let (stream, peer) = listener.accept().await.unwrap();
            assert!(peer.is_unnamed());
            let (reader, mut writer) = stream.into_split();
            futures::io::copy(reader, &mut writer).await.unwrap()
        });
        let client = UnixStream::connect(&place).await.unwrap();
        assert_eq!(client.peer_addr().unwrap().as_pathname(), Some(place.as_ref()));
        let (mut reader, mut writer) = client.into_split();
        assert_eq!(reader.peer_addr().unwrap().as_pathname(), Some(place.as_ref()));
        assert!(writer.local_addr().unwrap().is_unnamed());
        let message = |n: u32| format!("message {n} {}\n", "x".repeat(n as usize % 300));
        let sending = spawn(async move {
            for n in 0..1000 {
                writer.write_all(message(n).as_bytes()).await.unwrap();
            }
        });
        for n in 0..1000 {
            let mut got = vec![0; message(n).len()];
            reader.read_exact(&mut got).await.unwrap();
            assert_eq!(got, message(n).as_bytes());
        }
        sending.await.unwrap();
        // The writing half is gone: so the server has seen the end, and ends.
        assert_eq!(reader.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(serving.await.unwrap(), (0..1000).map(|n| message(n).len() as u64).sum::<u64>());
    });
}

#[test]
fn a_pair_is_two_connected_streams_that_are_read_and_written_in_every_way() {
    run(async {
        let (one, mut other) = UnixStream::pair().unwrap();
        let mut buffer = [0; 8];
        assert_eq!(other.try_read(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(one.try_write(b"hello").unwrap(), 5);
        other.readable().await.unwrap();
        assert_eq!(other.try_read(&mut buffer).unwrap(), 5);
        let parts = [io::IoSlice::new(b"he"), io::IoSlice::new(b"llo")];
        assert_eq!((&one).write_vectored(&parts).await.unwrap(), 5);
        assert_eq!(one.try_write_vectored(&parts).unwrap(), 5);
        let (mut start, mut end) = ([0; 3], [0; 7]);
        let mut parts = [io::IoSliceMut::new(&mut start), io::IoSliceMut::new(&mut end)];
        assert_eq!(other.read_vectored(&mut parts).await.unwrap(), 10);
        assert_eq!((&start, &end), (b"hel", b"lohello"));
        let mut parts = [io::IoSliceMut::new(&mut start)];
        assert_eq!(other.try_read_vectored(&mut parts).unwrap_err().kind(), ErrorKind::WouldBlock);
        one.writable().await.unwrap();
        assert!(one.take_error().unwrap().is_none());
        // Closing ends the writing way only.
        (&one).close().await.unwrap();
        assert_eq!(other.read(&mut buffer).await.unwrap(), 0);
        other.write_all(b"still").await.unwrap();
        assert_eq!((&one).read(&mut buffer).await.unwrap(), 5);
    });
}

#[test]
fn a_peer_that_closes_wakes_reader_and_writer() {
    run(async {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut reader, mut writer) = one.into_split();
        let reading = spawn(async move { reader.read(&mut [0]).await });
        let writing = spawn(async move { writer.write_all(&vec![0; 10_000_000]).await });
        sleep(ms(5)).await;
        assert!(!reading.is_finished() && !writing.is_finished());
        drop(other);
        // Linux says that the peer has left unread what it was sent.
        let read = reading.await.unwrap();
        assert!(matches!(&read, Ok(0)) || read.unwrap_err().kind() == ErrorKind::ConnectionReset);
        assert_eq!(writing.await.unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
        let (mut one, other) = UnixStream::pair().unwrap();
        drop(other);
        assert_eq!(one.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(one.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        one.close().await.unwrap();
    });
}

#[test]
fn a_listener_whose_path_is_removed_takes_nobody_more_and_keeps_whom_it_has() {
    run(async {
        let place = Place::new("removed");
        let listener = UnixListener::bind(&place).unwrap();
        assert_eq!(UnixListener::bind(&place).unwrap_err().kind(), ErrorKind::AddrInUse);
        let mut early = UnixStream::connect(&place).await.unwrap();
        std::fs::remove_file(&place).unwrap();
        assert_eq!(UnixStream::connect(&place).await.unwrap_err().kind(), ErrorKind::NotFound);
        let (mut accepted, _) = listener.accept().await.unwrap();
        accepted.write_all(b"hello").await.unwrap();
        early.read_exact(&mut [0; 5]).await.unwrap();
        assert!(!is_ready(listener.accept()).await);
        // Another one at the same place is another one.
        let second = UnixListener::bind(&place).unwrap();
        let _client = UnixStream::connect(&place).await.unwrap();
        second.accept().await.unwrap();
        assert!(!is_ready(listener.accept()).await);
        // The file outlives its listener, and then nobody is there.
        drop(second);
        assert_eq!(UnixStream::connect(&place).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn several_tasks_accept_and_a_stream_of_connections_is_fused() {
    run(async {
        let place = Place::new("accept");
        let listener = Arc::new(UnixListener::bind(&place).unwrap());
        let accepting: Vec<_> = (0..4)
            .map(|_| {
                let listener = listener.clone();
                spawn(async move { listener.accept().await.unwrap() })
            })
            .collect();
        yield_now().await;
        let clients: Vec<_> = (0..5).map(|_| net::UnixStream::connect(&place).unwrap()).collect();
        for accepted in accepting {
            accepted.await.unwrap();
        }
        let mut incoming = listener.incoming();
        futures::select! {
            stream = incoming.next() => drop(stream.unwrap().unwrap()),
        }
        assert!(!incoming.is_terminated());
        assert!(listener.take_error().unwrap().is_none());
        drop(clients);
    });
}

#[test]
fn halves_are_put_together_again_and_strange_ones_given_back() {
    run(async {
        let (one, other) = UnixStream::pair().unwrap();
        let (one_reader, one_writer) = one.into_split();
        let (other_reader, other_writer) = other.into_split();
        let ReuniteError(one_reader, other_writer) = one_reader.reunite(other_writer).unwrap_err();
        // The halves do what the stream does.
        let halves: (&UnixStream, &UnixStream) = (one_reader.as_ref(), other_writer.as_ref());
        assert_eq!(halves.1.try_io(Interest::Writable, || Ok(1)).unwrap(), 1);
        let mut one = one_writer.reunite(one_reader).unwrap();
        let other = other_reader.reunite(other_writer).unwrap();
        // The direction has not ended by that.
        (&other).write_all(b"x").await.unwrap();
        one.read_exact(&mut [0]).await.unwrap();
        drop(one.into_split().1);
        assert_eq!((&other).read(&mut [0]).await.unwrap(), 0);
    });
}

#[test]
fn sockets_of_the_standard_library_are_converted_both_ways() {
    let place = Place::new("convert");
    run(async {
        let listener = UnixListener::try_from(net::UnixListener::bind(&place).unwrap()).unwrap();
        // Blocking until it is converted.
        let mut client = UnixStream::try_from(net::UnixStream::connect(&place).unwrap()).unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let mut buf = [0; 5];
        assert!(!is_ready(client.read(&mut buf)).await);
        server.write_all(b"hello").await.unwrap();
        client.read_exact(&mut buf).await.unwrap();
        let mut client = net::UnixStream::try_from(client).unwrap();
        client.write_all(b"hello").unwrap();
        server.read_exact(&mut buf).await.unwrap();
        let listener = net::UnixListener::try_from(listener).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        let (one, other) = net::UnixDatagram::pair().unwrap();
        let one = UnixDatagram::try_from(one).unwrap();
        assert!(!is_ready(one.recv(&mut buf)).await);
        other.send(b"hello").unwrap();
        assert_eq!(one.recv(&mut buf).await.unwrap(), 5);
        net::UnixDatagram::try_from(one).unwrap().send(b"hello").unwrap();
        assert_eq!(other.recv(&mut buf).unwrap(), 5);
    });
    // Outside a runtime there is nobody to register it with.
    let outside = |error: io::Error| {
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(error.to_string().starts_with("no Mainspring runtime on this thread"), "{error}");
    };
    outside(UnixStream::pair().unwrap_err());
    outside(UnixDatagram::unbound().unwrap_err());
    outside(UnixListener::bind(Place::new("outside")).unwrap_err());
    outside(futures::executor::block_on(UnixStream::connect(&place)).unwrap_err());
}

#[test]
fn a_thousand_datagrams_come_whole_and_in_order() {
    run(async {
        let (one, other) = UnixDatagram::pair().unwrap();
        let sending = spawn(async move {
            for n in 0..1000u32 {
                // More than the queue holds: it waits.
                one.send(&vec![n as u8; n as usize % 700]).await.unwrap();
            }
            one
        });
        let mut buffer = [0; 1000];
        for n in 0..1000u32 {
            let length = other.recv(&mut buffer).await.unwrap();
            assert_eq!(buffer[..length], vec![n as u8; n as usize % 700]);
        }
        drop(sending.await.unwrap());
        assert_eq!(other.send(b"x").await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn datagrams_go_by_path_and_can_be_answered() {
    run(async {
        let (here, there) = (Place::new("here"), Place::new("there"));
        let one = UnixDatagram::bind(&here).unwrap();
        let other = UnixDatagram::bind(&there).unwrap();
        let mut buffer = [0; 8];
        one.send_to(b"hello", &there).await.unwrap();
        let (length, from) = other.recv_from(&mut buffer).await.unwrap();
        assert_eq!((length, from.as_pathname()), (5, Some(here.as_ref())));
        assert_eq!(other.try_recv_from(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        other.send_to_addr(b"you", &from).await.unwrap();
        one.connect(&there).unwrap();
        assert_eq!(one.peer_addr().unwrap().as_pathname(), Some(there.as_ref()));
        let received = poll_fn(|cx| one.poll_recv_from(cx, &mut buffer)).await.unwrap();
        assert_eq!((received.0, received.1.as_pathname()), (3, Some(there.as_ref())));
        assert_eq!(poll_fn(|cx| one.poll_send(cx, b"1")).await.unwrap(), 1);
        assert_eq!(one.try_send(b"2").unwrap(), 1);
        assert_eq!(one.try_send_to(b"3", &there).unwrap(), 1);
        for expected in [b"1", b"2", b"3"] {
            assert_eq!(poll_fn(|cx| other.poll_recv(cx, &mut buffer)).await.unwrap(), 1);
            assert_eq!(&buffer[..1], expected);
        }
        assert_eq!(other.try_recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        one.shutdown(Shutdown::Both).unwrap();
        assert_eq!(one.send(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        let nobody = UnixDatagram::unbound().unwrap();
        assert!(nobody.local_addr().unwrap().is_unnamed() && nobody.take_error().unwrap().is_none());
        assert_eq!(nobody.send_to(b"x", Place::new("nobody")).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(nobody.connect(Place::new("nobody")).unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn what_a_unix_socket_has_to_tell_comes_before_time_jumps() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let start = mainspring::time::Instant::now();
        let (mut one, mut other) = UnixStream::pair().unwrap();
        for n in 0..100 {
            let mut byte = [0];
            let reading = timeout(Duration::from_nanos(1), one.read_exact(&mut byte));
            let writing = async {
                yield_now().await;
                other.write_all(&[n]).await
            };
            let (read, written) = futures::join!(reading, writing);
            written.unwrap();
            read.expect("the byte is there").unwrap();
            assert_eq!(byte, [n]);
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(timeout(HOUR, one.read(&mut [0])).await.is_err());
    });
}

#[test]
fn unix_sockets_outlive_their_runtime_as_errors() {
    let place = Place::new("orphan");
    let (listener, (mut one, other), (datagram, _peer)) = orphan(|| {
        (UnixListener::bind(&place).unwrap(), UnixStream::pair().unwrap(), UnixDatagram::pair().unwrap())
    });
    let gone = |error: io::Error| {
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(error.to_string().contains("has shut down"), "{error}");
    };
    run(async {
        gone(listener.accept().await.unwrap_err());
        gone(one.read(&mut [0]).await.unwrap_err());
        gone(one.write(b"x").await.unwrap_err());
        gone(one.readable().await.unwrap_err());
        gone(datagram.send(b"x").await.unwrap_err());
        gone(datagram.send_to(b"x", &place).await.unwrap_err());
        gone(datagram.try_send_to(b"x", &place).unwrap_err());
        gone(datagram.recv(&mut [0]).await.unwrap_err());
        // What is inside is as good as ever, and another runtime takes it.
        let mut one = UnixStream::from_std(one.into_std().unwrap()).unwrap();
        one.write_all(b"x").await.unwrap();
        assert_eq!((&other.into_std().unwrap()).read(&mut [0]).unwrap(), 1);
    });
}

#[test]
fn unix_sockets_may_go_to_other_threads_and_be_used_after_a_panic() {
    fn anywhere<T: Send + Sync + UnwindSafe + RefUnwindSafe + Unpin>() {}
    anywhere::<UnixListener>();
    anywhere::<UnixStream>();
    anywhere::<UnixDatagram>();
    anywhere::<OwnedReadHalf<UnixStream>>();
    anywhere::<OwnedWriteHalf<UnixStream>>();
    anywhere::<Incoming<'_, UnixListener>>();
    run(async {
        let (mut one, other) = UnixStream::pair().unwrap();
        // Without a runtime over there: what it waits for comes from here.
        let (done, text) = oneshot::channel();
        let reading = thread::spawn(move || {
            let mut text = String::new();
            futures::executor::block_on((&other).read_to_string(&mut text)).unwrap();
            done.send(text)
        });
        sleep(ms(2)).await;
        one.write_all(b"hello").await.unwrap();
        drop(one);
        assert_eq!(text.await.unwrap(), "hello");
        reading.join().unwrap().unwrap();
    });
}

/// Every kind of socket has the same three ways for a system call of one's own, by its lent descriptor.
#[test]
fn every_socket_waits_for_calls_of_ones_own() {
    macro_rules! waits {
        ($name:literal, $socket:expr, $op:expr, $make_ready:expr) => {{
            let (socket, op, make_ready) = (&$socket, $op, $make_ready);
            let calls = Cell::new(0);
            let call = || {
                calls.set(calls.get() + 1);
                op(socket.as_fd()).map_err(io::Error::from)
            };
            // At first it is taken for ready, and is asked.
            let error = socket.try_io(Interest::Readable, call).unwrap_err();
            assert_eq!((error.kind(), calls.get()), (ErrorKind::WouldBlock, 1), $name);
            // Then it is known, and it waits.
            assert!(!is_ready(socket.async_io(Interest::Readable, call)).await, $name);
            assert!(!is_ready(poll_fn(|cx| socket.poll_io(cx, Interest::Readable, call))).await, $name);
            assert_eq!(calls.get(), 1, $name);
            make_ready();
            poll_fn(|cx| socket.poll_io(cx, Interest::Readable, call)).await.expect($name);
            make_ready();
            socket.async_io(Interest::Readable, call).await.expect($name);
            make_ready();
            while let Err(error) = socket.try_io(Interest::Readable, call) {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, $name);
                sleep(ms(1)).await;
            }
            // It was told what was found, so it waits again.
            assert!(socket.try_io(Interest::Readable, call).is_err(), $name);
            assert!(!is_ready(socket.async_io(Interest::Readable, call)).await, $name);
        }};
    }
    fn receive(fd: std::os::fd::BorrowedFd<'_>) -> rustix::io::Result<usize> {
        rustix::net::recv(fd, &mut [0; 1][..], RecvFlags::empty()).map(|(_, received)| received)
    }
    fn accept(fd: std::os::fd::BorrowedFd<'_>) -> rustix::io::Result<()> {
        rustix::net::accept(fd).map(drop)
    }
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        waits!("TcpListener", listener, accept, || drop(std::net::TcpStream::connect(addr).unwrap()));

        let (stream, peer) = net_support::pair().await;
        waits!("TcpStream", stream, receive, || (&peer).write_all(b"x").unwrap());
        let (reader, writer) = stream.into_split();
        let (reader, _writer): (&TcpStream, &TcpStream) = (reader.as_ref(), writer.as_ref());
        assert!(!is_ready(poll_fn(|cx| reader.poll_readable(cx))).await);
        assert!(is_ready(poll_fn(|cx| reader.poll_writable(cx))).await);

        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = socket.local_addr().unwrap();
        waits!("UdpSocket", socket, receive, || assert_eq!(sender.send_to(b"x", addr).unwrap(), 1));

        let place = Place::new("calls");
        let listener = UnixListener::bind(&place).unwrap();
        waits!("UnixListener", listener, accept, || drop(net::UnixStream::connect(&place).unwrap()));

        let (stream, peer) = net::UnixStream::pair().unwrap();
        let stream = UnixStream::from_std(stream).unwrap();
        waits!("UnixStream", stream, receive, || (&peer).write_all(b"x").unwrap());

        let (socket, peer) = net::UnixDatagram::pair().unwrap();
        let socket = UnixDatagram::from_std(socket).unwrap();
        waits!("UnixDatagram", socket, receive, || assert_eq!(peer.send(b"x").unwrap(), 1));
        // The other direction is another one.
        let send = || Ok(rustix::net::send(&socket, b"x", SendFlags::empty())?);
        assert_eq!(socket.async_io(Interest::Writable, send).await.unwrap(), 1);
    });
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use mainspring::net::unix::SocketAddr;
    use net_support::in_child;
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, recvmsg};
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};
    use rustix::pipe::{SpliceFlags, splice};
    use std::fs::File;
    use std::io::{IoSlice, IoSliceMut};
    use std::mem::MaybeUninit;
    use std::os::fd::{BorrowedFd, OwnedFd};
    use std::os::linux::net::SocketAddrExt;

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
            let received =
                recvmsg(stream, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
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
            // It is the same connection.
            let mut theirs = UnixStream::from_std(fd.into()).unwrap();
            theirs.write_all(b"through").await.unwrap();
            let mut got = [0; 7];
            ours.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"through");
        });
    }

    /// The system ends a read where a descriptor was sent along. That the read was short says nothing about what is left, and
    /// an edge-triggered poller does not tell of it again.
    #[test]
    fn bytes_behind_a_descriptor_are_not_forgotten() {
        run(async {
            let (one, mut other) = UnixStream::pair().unwrap();
            let fd = File::open("/dev/null").unwrap();
            for _ in 0..3 {
                send_with(&one, b"with", fd.as_fd()).await;
                (&one).write_all(b"behind").await.unwrap();
                let mut buffer = [0; 64];
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
                // The pipe is empty each time: so it is the socket that makes the call wait.
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

    #[cfg(feature = "peer-cred")]
    #[test]
    fn a_peers_credentials_are_its_users_and_its_own() {
        run(async {
            let place = Place::new("credentials");
            let listener = UnixListener::bind(&place).unwrap();
            let client = UnixStream::connect(&place).await.unwrap();
            let (server, _) = listener.accept().await.unwrap();
            for end in [&client, &server] {
                let peer = end.peer_cred().unwrap();
                assert_eq!(peer.uid(), rustix::process::geteuid().as_raw());
                assert_eq!(peer.gid(), rustix::process::getegid().as_raw());
                assert_eq!(peer.pid(), Some(std::process::id() as i32));
            }
            // The system gives a zero for a process that has no number here. A socket without a peer has none, either.
            let alone =
                rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None);
            let alone = UnixStream::from_std(alone.unwrap().into()).unwrap();
            assert_eq!(alone.peer_cred().unwrap().pid(), None);
        });
    }

    #[test]
    fn abstract_names_are_addresses_of_all_three() {
        run(async {
            let name = |what: &str| {
                SocketAddr::from_abstract_name(format!("mainspring {what} {}", std::process::id())).unwrap()
            };
            let stream = name("stream");
            let listener = UnixListener::bind_addr(&stream).unwrap();
            let client = UnixStream::connect_addr(&stream).await.unwrap();
            listener.accept().await.unwrap();
            assert_eq!(client.peer_addr().unwrap().as_abstract_name(), stream.as_abstract_name());
            drop(listener);
            // Nothing is left of it.
            assert_eq!(
                UnixStream::connect_addr(&stream).await.unwrap_err().kind(),
                ErrorKind::ConnectionRefused
            );
            let (here, there) = (name("here"), name("there"));
            let one = UnixDatagram::bind_addr(&here).unwrap();
            let other = UnixDatagram::bind_addr(&there).unwrap();
            one.send_to_addr(b"1", &there).await.unwrap();
            one.try_send_to_addr(b"2", &there).unwrap();
            one.connect_addr(&there).unwrap();
            one.send(b"3").await.unwrap();
            for _ in 0..3 {
                let (_, from) = other.recv_from(&mut [0]).await.unwrap();
                assert_eq!(from.as_abstract_name(), here.as_abstract_name());
            }
        });
    }

    #[test]
    fn a_connect_waits_while_the_backlog_is_full() {
        run(async {
            let place = Place::new("backlog");
            let listener = UnixListener::bind(&place).unwrap();
            rustix::net::listen(&listener, 0).unwrap();
            let _first = UnixStream::connect(&place).await.unwrap();
            let connecting = spawn({
                let path = place.0.clone();
                async move { UnixStream::connect(path).await }
            });
            sleep(ms(20)).await;
            assert!(!connecting.is_finished());
            listener.accept().await.unwrap();
            let mut second = connecting.await.unwrap().unwrap();
            let (mut accepted, _) = listener.accept().await.unwrap();
            accepted.write_all(b"x").await.unwrap();
            second.read_exact(&mut [0]).await.unwrap();
        });
    }

    /// No event tells that there is room again in a queue that others had filled.
    #[test]
    fn a_send_waits_while_others_have_filled_the_receivers_queue() {
        run(async {
            let place = Place::new("queue");
            let receiver = UnixDatagram::bind(&place).unwrap();
            let other = UnixDatagram::unbound().unwrap();
            let mut filled = 0;
            while other.try_send_to(b"other", &place).is_ok() {
                filled += 1;
            }
            let sending = spawn({
                let path = place.0.clone();
                async move { UnixDatagram::unbound().unwrap().send_to(b"ours", path).await }
            });
            sleep(ms(20)).await;
            assert!(filled > 0 && !sending.is_finished());
            let mut buffer = [0; 8];
            for _ in 0..filled {
                assert_eq!(receiver.recv(&mut buffer).await.unwrap(), 5);
            }
            timeout(LONG, sending).await.expect("there is room").unwrap().unwrap();
            assert_eq!(receiver.recv(&mut buffer).await.unwrap(), 4);
            // The same without waiting: what was full is asked again.
            while other.try_send_to(b"other", &place).is_ok() {}
            let ours = UnixDatagram::unbound().unwrap();
            assert_eq!(ours.try_send_to(b"ours", &place).unwrap_err().kind(), ErrorKind::WouldBlock);
            receiver.recv(&mut buffer).await.unwrap();
            ours.try_send_to(b"ours", &place).unwrap();
        });
    }

    #[test]
    fn descriptors_and_unix_sockets_that_are_dropped_are_closed() {
        use mainspring::io::AsyncFd;
        if !in_child("linux::descriptors_and_unix_sockets_that_are_dropped_are_closed", 256) {
            return;
        }
        fn open() -> usize {
            std::fs::read_dir("/proc/self/fd").unwrap().count()
        }
        run(async {
            let place = Place::new("closed");
            let before = open();
            for _ in 0..200 {
                let (reader, _writer) = rustix::pipe::pipe().unwrap();
                let copy = AsyncFd::new(reader.try_clone().unwrap()).unwrap();
                // Waits that are dropped, descriptors that are taken back, and refusals.
                assert!(!is_ready(copy.readable()).await);
                drop(copy.into_inner().unwrap());
                let reader = AsyncFd::new(File::from(reader)).unwrap();
                let waiting = spawn(async move { reader.readable().await });
                yield_now().await;
                waiting.abort();
                AsyncFd::new(File::open(std::env::current_exe().unwrap()).unwrap()).unwrap_err();
                let listener = UnixListener::bind(&place).unwrap();
                let client = UnixStream::connect(&place).await.unwrap();
                let (reader, writer) = listener.accept().await.unwrap().0.into_split();
                drop((client, reader, writer, UnixDatagram::pair().unwrap()));
                std::fs::remove_file(&place).unwrap();
                UnixStream::connect(&place).await.unwrap_err();
                assert!(!is_ready(listener.accept()).await);
            }
            // The aborted tasks are dropped in their turn.
            sleep(ms(10)).await;
            assert_eq!(open(), before);
        });
    }
}
