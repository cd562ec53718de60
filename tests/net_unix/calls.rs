//! A program's own system calls, by a socket's borrowed descriptor.

use crate::Place;
use crate::common::{is_ready, ms};
use crate::net_support::{self, run};
use mainspring::io::Interest;
use mainspring::net::unix::{UnixDatagram, UnixListener, UnixStream};
use mainspring::net::{TcpListener, TcpStream, UdpSocket};
use mainspring::sleep;
use rustix::net::{RecvFlags, SendFlags};
use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::net;

/// Every kind of socket has the same three ways to make a program's own system call, by its borrowed descriptor.
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
            // At first the socket is assumed to be ready, and the call is made.
            let error = socket.try_io(Interest::Readable, call).unwrap_err();
            assert_eq!((error.kind(), calls.get()), (ErrorKind::WouldBlock, 1), $name);
            // Then it is known not to be ready, and the call waits.
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
            // The socket was told of what was found, so the call waits again.
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
        // The other direction is independent.
        let send = || Ok(rustix::net::send(&socket, b"x", SendFlags::empty())?);
        assert_eq!(socket.async_io(Interest::Writable, send).await.unwrap(), 1);
    });
}
