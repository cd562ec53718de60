//! The program's own system calls on our sockets, and the conversions to and from the sockets of the standard library.
#![cfg(all(feature = "net", unix))]

mod common;
mod net_support;

use std::cell::Cell;
use std::io::{ErrorKind, Read, Result, Write};
use std::mem::MaybeUninit;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use common::is_ready;
use futures::stream::FusedStream;
use futures::{AsyncReadExt, AsyncWriteExt, StreamExt};
use mainspring::io::Interest;
use mainspring::net::{Incoming, OwnedReadHalf, OwnedWriteHalf, TcpListener, TcpStream, UdpSocket};
use mainspring::{sleep, spawn, timeout};
use net_support::{pair, run};
use socket2::SockRef;

/// Receives without the socket's knowledge.
fn receive(socket: &UdpSocket) -> Result<usize> {
    SockRef::from(socket).recv(&mut [MaybeUninit::uninit(); 8])
}

#[test]
fn a_call_of_ones_own_that_finds_nothing_clears_the_readiness() {
    run(async {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"four", socket.local_addr().unwrap()).unwrap();
        let calls = Cell::new(0);
        let take = || {
            calls.set(calls.get() + 1);
            receive(&socket)
        };
        let (mut taken, mut spins) = (0, 0);
        let loop_around_readable = async {
            loop {
                socket.readable().await.unwrap();
                spins += 1;
                match socket.try_io(Interest::Readable, take) {
                    Ok(n) => taken += n,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
        };
        assert!(timeout(Duration::from_millis(50), loop_around_readable).await.is_err());
        assert_eq!(taken, 4);
        // At first the socket is assumed to be ready, then it is told of the datagram, and each time it finds that
        // there is no more.
        assert!(spins <= 4, "{spins} times round");
        assert!(!is_ready(socket.readable()).await && is_ready(socket.writable()).await);
        // A direction that is known not to be ready is not even tried.
        let before = calls.get();
        assert_eq!(socket.try_io(Interest::Readable, take).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(calls.get(), before);
        // The directions do not affect one another.
        let full = || Err::<(), _>(ErrorKind::WouldBlock.into());
        assert!(socket.try_io(Interest::Writable, full).is_err());
        assert!(!is_ready(socket.writable()).await);
    });
}

#[test]
fn a_call_of_ones_own_waits_for_the_socket() {
    run(async {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = socket.local_addr().unwrap();
        let late = spawn(async move {
            sleep(Duration::from_millis(10)).await;
            sender.send_to(b"four", addr).unwrap();
        });
        assert_eq!(socket.async_io(Interest::Readable, || receive(&socket)).await.unwrap(), 4);
        late.await.unwrap();

        let (ours, mut theirs) = pair().await;
        let shared = SockRef::from(&ours);
        let sent = ours.async_io(Interest::Writable, || shared.send(b"hello")).await.unwrap();
        theirs.read_exact(&mut vec![0; sent]).unwrap();
        // An error is the operation's own error, and a signal makes the operation repeat.
        let mut interrupted = 3;
        let error = ours.async_io(Interest::Writable, || {
            if interrupted > 0 {
                interrupted -= 1;
                return Err(ErrorKind::Interrupted.into());
            }
            Err::<(), _>(ErrorKind::Unsupported.into())
        });
        assert_eq!(error.await.unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(interrupted, 0);

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let accept = || SockRef::from(&listener).accept();
        assert_eq!(listener.try_io(Interest::Readable, accept).unwrap_err().kind(), ErrorKind::WouldBlock);
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.async_io(Interest::Readable, accept).await.unwrap();
        assert_eq!(accepted.peer_addr().unwrap().as_socket().unwrap(), client.local_addr().unwrap());
    });
}

#[test]
fn sockets_of_the_standard_library_are_converted_both_ways() {
    run(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let listener = TcpListener::try_from(listener).unwrap();
        // Blocking until it is converted.
        let mut client = TcpStream::try_from(std::net::TcpStream::connect(addr).unwrap()).unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let mut buf = [0; 5];
        assert!(!is_ready(client.read(&mut buf)).await);
        server.write_all(b"hello").await.unwrap();
        client.read_exact(&mut buf).await.unwrap();
        let mut client = std::net::TcpStream::try_from(client).unwrap();
        client.write_all(b"hello").unwrap();
        server.read_exact(&mut buf).await.unwrap();
        let socket = UdpSocket::try_from(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let addr = socket.local_addr().unwrap();
        assert!(!is_ready(socket.recv(&mut buf)).await);
        assert_eq!(std::net::UdpSocket::try_from(socket).unwrap().local_addr().unwrap(), addr);
        std::net::TcpListener::try_from(listener).unwrap();
    });
    // Outside a runtime there is no runtime to register the socket with.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    assert_eq!(UdpSocket::try_from(socket).unwrap_err().kind(), ErrorKind::Other);
}

#[test]
fn connections_can_be_selected_from_as_a_fused_stream() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut incoming = listener.incoming();
        // `select!` accepts only what is fused.
        futures::select! {
            stream = incoming.next() => drop(stream.unwrap().unwrap()),
        }
        assert!(!incoming.is_terminated());
    });
}

#[test]
fn sockets_may_be_used_after_a_panic() {
    fn safe<T: UnwindSafe + RefUnwindSafe>() {}
    safe::<TcpListener>();
    safe::<TcpStream>();
    safe::<UdpSocket>();
    safe::<OwnedReadHalf>();
    safe::<OwnedWriteHalf>();
    safe::<Incoming<'_>>();
    run(async {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let panicked = std::panic::catch_unwind(|| {
            let _ = socket.try_io::<()>(Interest::Writable, || panic!("in the operation"));
        });
        assert!(panicked.is_err());
        assert_eq!(socket.send_to(b"x", socket.local_addr().unwrap()).await.unwrap(), 1);
    });
}
