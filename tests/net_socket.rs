//! `TcpSocket`: an option that is set before a socket listens or connects holds afterwards.
#![cfg(feature = "net")]

mod net_support;

use futures::future::join_all;
use futures::{AsyncReadExt, AsyncWriteExt};
use mainspring::net::{TcpListener, TcpSocket, TcpStream};
use mainspring::time::timeout;
use net_support::run;
use socket2::SockRef;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

const ANY: &str = "127.0.0.1:0";

fn any() -> SocketAddr {
    ANY.parse().unwrap()
}

/// A socket at an address that the system chooses.
fn bound() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(any()).unwrap();
    socket
}

#[test]
fn a_connection_comes_from_the_address_that_was_bound() {
    run(async {
        let listener = TcpListener::bind(ANY).await.unwrap();
        let socket = bound();
        let from = socket.local_addr().unwrap();
        let mut stream = socket.connect(listener.local_addr().unwrap()).await.unwrap();
        assert_eq!(stream.local_addr().unwrap(), from);
        assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
        let (mut theirs, peer) = listener.accept().await.unwrap();
        assert_eq!(peer, from);
        // It is a stream like any other.
        stream.write_all(b"hello").await.unwrap();
        stream.close().await.unwrap();
        let mut got = Vec::new();
        theirs.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"hello");
    });
}

#[test]
fn a_long_backlog_lets_all_wait() {
    run(async {
        for backlog in [64, u32::MAX] {
            let listener = bound().listen(backlog).unwrap();
            let addr = listener.local_addr().unwrap();
            let made = join_all((0..16).map(|_| TcpStream::connect(addr))).await;
            assert!(made.iter().all(Result::is_ok), "{made:?}");
        }
    });
}

#[test]
fn options_are_set_and_read_back_and_hold_for_the_stream() {
    run(async {
        let socket = bound();
        for on in [true, false, true] {
            socket.set_nodelay(on).unwrap();
            socket.set_keepalive(on).unwrap();
            socket.set_reuseaddr(on).unwrap();
            assert_eq!((socket.nodelay().unwrap(), socket.keepalive().unwrap()), (on, on));
            assert_eq!(socket.reuseaddr().unwrap(), on);
        }
        socket.set_send_buffer_size(48 * 1024).unwrap();
        socket.set_recv_buffer_size(40 * 1024).unwrap();
        // The system may grant more than it was asked for.
        let (sends, receives) = (socket.send_buffer_size().unwrap(), socket.recv_buffer_size().unwrap());
        assert!(sends >= 48 * 1024 && receives >= 40 * 1024, "{sends}, {receives}");
        // A size that the system's type does not hold is cut to one that it holds, not to its lowest bits.
        #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
        for too_large in [usize::MAX, 1 << 32, (1 << 32) + 1] {
            socket.set_send_buffer_size(too_large).unwrap();
            socket.set_recv_buffer_size(too_large).unwrap();
            let (sends, receives) = (socket.send_buffer_size().unwrap(), socket.recv_buffer_size().unwrap());
            assert!(sends >= 48 * 1024 && receives >= 40 * 1024, "{sends}, {receives}");
        }

        let listener = TcpListener::bind(ANY).await.unwrap();
        let stream = socket.connect(listener.local_addr().unwrap()).await.unwrap();
        assert!(stream.nodelay().unwrap());
        assert!(SockRef::from(&stream).keepalive().unwrap());
    });
}

#[test]
fn a_listener_of_ipv6_accepts() {
    run(async {
        let socket = TcpSocket::new_v6().unwrap();
        let Ok(()) = socket.bind("[::1]:0".parse().unwrap()) else { return };
        let listener = socket.listen(8).unwrap();
        let addr = listener.local_addr().unwrap();
        let stream = TcpSocket::new_v6().unwrap().connect(addr).await.unwrap();
        assert_eq!(listener.accept().await.unwrap().1, stream.local_addr().unwrap());
    });
}

/// By TCP_FASTOPEN_CONNECT: the first write begins the connection, and brings its bytes along.
#[cfg(target_os = "linux")]
#[test]
fn a_connection_that_the_system_puts_off_until_the_first_write_is_a_stream_at_once() {
    use std::os::fd::AsRawFd;
    run(async {
        let listener = TcpListener::bind(ANY).await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        for option in [libc::TCP_FASTOPEN_CONNECT, libc::TCP_FASTOPEN_NO_COOKIE] {
            let (on, size) = (1 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
            // SAFETY: the option is an integer, which is there during the call.
            let set = unsafe {
                libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, option, (&raw const on).cast(), size)
            };
            if set != 0 {
                // This system has no such connections.
                return;
            }
        }
        let connect = socket.connect(listener.local_addr().unwrap());
        let mut stream = timeout(Duration::from_secs(20), connect).await.expect("it waits").unwrap();
        stream.write_all(b"hello").await.unwrap();
        let (mut theirs, _) = listener.accept().await.unwrap();
        theirs.write_all(b"you").await.unwrap();
        stream.close().await.unwrap();
        let (mut there, mut here) = (Vec::new(), [0; 3]);
        theirs.read_to_end(&mut there).await.unwrap();
        stream.read_exact(&mut here).await.unwrap();
        assert_eq!((&there[..], &here[..]), (&b"hello"[..], &b"you"[..]));
    });
}

#[test]
fn errors_say_what_is_wrong() {
    let taken = bound();
    let listener = run(async {
        let listener = taken.listen(1).unwrap();
        let addr = listener.local_addr().unwrap();
        let error = TcpSocket::new_v4().unwrap().bind(addr).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        let twice = bound();
        assert_eq!(twice.bind(any()).unwrap_err().kind(), ErrorKind::InvalidInput);
        // Nothing listens on a socket that is only bound.
        let error = bound().connect(twice.local_addr().unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let other_version: SocketAddr = "[::1]:80".parse().unwrap();
        assert!(TcpSocket::new_v4().unwrap().bind(other_version).is_err());
        assert!(TcpSocket::new_v4().unwrap().connect(other_version).await.is_err());
        listener.into_std().unwrap()
    });
    let without = |result: io::Result<()>| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(error.to_string().contains("no Mainspring runtime"), "{error}");
    };
    without(bound().listen(1).map(drop));
    let connect = TcpSocket::new_v4().unwrap().connect(listener.local_addr().unwrap());
    without(futures::executor::block_on(connect).map(drop));
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "it was connected all the same");
}

#[test]
fn a_dropped_connect_closes_its_socket_at_once() {
    run(async {
        // No task accepts, and there is room for few: the connection is not made.
        let listener = bound().listen(1).unwrap();
        let addr = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        // An address that no other test binds to; not every system has it.
        let own = if cfg!(any(target_os = "linux", target_os = "android")) { "127.0.7.1:0" } else { ANY };
        let pending = loop {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(own.parse().unwrap()).unwrap();
            let from = socket.local_addr().unwrap();
            let mut connect = Box::pin(socket.connect(addr));
            match timeout(Duration::from_millis(300), connect.as_mut()).await {
                Ok(stream) => waiting.push(stream.unwrap()),
                Err(_) => break Some((connect, from)),
            }
            // Some systems let all clients wait.
            if waiting.len() == 64 {
                break None;
            }
        };
        let Some((connect, from)) = pending else { return };
        let again = || TcpSocket::new_v4().unwrap().bind(from);
        assert_eq!(again().unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(connect);
        again().unwrap();
    });
}

#[cfg(unix)]
#[test]
fn the_systems_socket_is_lent_given_and_taken_over() {
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};

    run(async {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let raw = socket.as_raw_fd();
        let socket = TcpSocket::from(OwnedFd::from(socket));
        assert_eq!((socket.as_raw_fd(), socket.as_fd().as_raw_fd()), (raw, raw));
        SockRef::from(&socket).set_keepalive(true).unwrap();
        assert!(socket.keepalive().unwrap());
        // The socket was blocking, and connects without blocking the runtime nevertheless.
        let listener = TcpListener::bind(ANY).await.unwrap();
        let stream = socket.connect(listener.local_addr().unwrap()).await.unwrap();
        assert_eq!(stream.as_raw_fd(), raw);
        assert_eq!(stream.try_read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);

        let given = OwnedFd::from(bound());
        let std = std::net::TcpListener::from(given);
        assert_eq!(std.local_addr().unwrap().ip(), any().ip());
    });
}

/// What other systems do differently.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use super::*;
    use futures::stream::{FuturesUnordered, StreamExt};
    use futures::{FutureExt, select_biased};

    #[test]
    fn two_listeners_share_a_port_by_reuseport_and_both_accept() {
        run(async {
            let at = |addr| {
                let socket = TcpSocket::new_v4().unwrap();
                socket.set_reuseport(true).unwrap();
                assert!(socket.reuseport().unwrap());
                socket.bind(addr).unwrap();
                socket
            };
            let one = at(any());
            let addr = one.local_addr().unwrap();
            let other = at(addr);
            // A third socket that does not set this option is refused.
            assert_eq!(TcpSocket::new_v4().unwrap().bind(addr).unwrap_err().kind(), ErrorKind::AddrInUse);
            let listeners = [one, other].map(|socket| socket.listen(1024).unwrap());
            let mut accepted = [0, 0];
            // The system chooses by the client's port: that it chooses the same one of two for each of a thousand does
            // not happen.
            for _ in 0..1000 {
                let client = TcpStream::connect(addr).await.unwrap();
                select_biased! {
                    stream = listeners[0].accept().fuse() => { stream.unwrap(); accepted[0] += 1 }
                    stream = listeners[1].accept().fuse() => { stream.unwrap(); accepted[1] += 1 }
                }
                drop(client);
                if accepted.iter().all(|&count| count > 0) {
                    return;
                }
            }
            panic!("{accepted:?}");
        });
    }

    /// How many of sixteen connections to a listener that accepts none are made.
    async fn made_with(backlog: u32) -> usize {
        let listener = bound().listen(backlog).unwrap();
        let addr = listener.local_addr().unwrap();
        let mut connects: FuturesUnordered<_> = (0..16).map(|_| TcpStream::connect(addr)).collect();
        let mut made = Vec::new();
        // The system tries a connection that finds no room again after a second, and finds no room then.
        while let Ok(Some(stream)) = timeout(Duration::from_millis(700), connects.next()).await {
            made.push(stream.unwrap());
        }
        made.len()
    }

    #[test]
    fn the_backlog_is_how_many_connections_may_wait() {
        run(async {
            let short = made_with(1).await;
            assert!((1..=3).contains(&short), "{short} connections wait in a queue of one");
        });
    }
}
