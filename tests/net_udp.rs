//! UDP, over the loopback interface.
#![cfg(feature = "net")]

mod net_support;

use futures::future::join_all;
use mainspring::net::UdpSocket;
use mainspring::{sleep, spawn};
use net_support::run;
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

async fn bind() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap()
}

/// Two sockets, each connected to the other.
async fn pair() -> (UdpSocket, UdpSocket) {
    let (a, b) = (bind().await, bind().await);
    a.connect(b.local_addr().unwrap()).await.unwrap();
    b.connect(a.local_addr().unwrap()).await.unwrap();
    (a, b)
}

#[test]
fn datagrams_there_and_back() {
    run(async {
        let (a, b) = (bind().await, bind().await);
        let (at_a, at_b) = (a.local_addr().unwrap(), b.local_addr().unwrap());
        let mut buf = [0; 100];
        assert_eq!(a.send_to(b"to b", at_b).await.unwrap(), 4);
        assert_eq!(b.peek_from(&mut buf).await.unwrap(), (4, at_a));
        assert_eq!(b.recv_from(&mut buf).await.unwrap(), (4, at_a));
        assert_eq!(&buf[..4], b"to b");
        assert_eq!(b.send_to(b"", ("127.0.0.1", at_a.port())).await.unwrap(), 0);
        assert_eq!(a.recv_from(&mut buf).await.unwrap(), (0, at_b));

        assert_eq!(a.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
        a.connect(at_b).await.unwrap();
        b.connect(at_a).await.unwrap();
        assert_eq!(a.peer_addr().unwrap(), at_b);
        a.send(b"hello").await.unwrap();
        match b.peek(&mut buf[..2]).await {
            Ok(length) => assert_eq!(length, 2),
            // WSAEMSGSIZE: Windows reports this if the datagram is longer.
            Err(error) => assert_eq!((cfg!(windows), error.raw_os_error()), (true, Some(10040))),
        }
        assert_eq!(b.recv(&mut buf).await.unwrap(), 5);
        assert_eq!(&buf[..5], b"hello");
    });
}

#[test]
fn a_connected_socket_receives_from_its_peer_only() {
    run(async {
        let (a, b) = pair().await;
        let stranger = bind().await;
        stranger.send_to(b"stranger", a.local_addr().unwrap()).await.unwrap();
        b.send(b"peer").await.unwrap();
        let mut buf = [0; 100];
        assert_eq!(a.recv(&mut buf).await.unwrap(), 4);
        assert_eq!(&buf[..4], b"peer");
    });
}

/// Not on Windows, which reports an error.
#[test]
#[cfg(unix)]
fn bytes_that_do_not_fit_are_lost() {
    run(async {
        let (a, b) = pair().await;
        let mut buf = [0; 3];
        for _ in 0..2 {
            b.send(b"first").await.unwrap();
        }
        b.send(b"2nd").await.unwrap();
        assert_eq!(a.recv(&mut buf).await.unwrap(), 3);
        assert_eq!(&buf, b"fir");
        assert_eq!(a.recv_from(&mut buf).await.unwrap(), (3, b.local_addr().unwrap()));
        assert_eq!(&buf, b"fir");
        assert_eq!(a.recv(&mut buf).await.unwrap(), 3);
        assert_eq!(&buf, b"2nd");
    });
}

#[test]
fn the_poll_and_try_forms_that_name_an_address_do_so() {
    run(async {
        let (a, b) = (bind().await, bind().await);
        let (at_a, at_b) = (a.local_addr().unwrap(), b.local_addr().unwrap());
        let mut buf = [0; 100];
        assert_eq!(a.try_peek_from(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(poll_fn(|cx| Poll::Ready(a.poll_peek_from(cx, &mut buf).is_pending())).await);
        assert_eq!(poll_fn(|cx| b.poll_send_to(cx, b"hello", at_a)).await.unwrap(), 5);
        assert_eq!(poll_fn(|cx| a.poll_peek_from(cx, &mut buf)).await.unwrap(), (5, at_b));
        assert_eq!(&buf[..5], b"hello");
        assert_eq!(a.try_peek_from(&mut buf[5..]).unwrap(), (5, at_b));
        assert_eq!(&buf[5..10], b"hello");
        // It is still there.
        assert_eq!(a.recv_from(&mut buf).await.unwrap(), (5, at_b));
    });
}

/// If one datagram is refused, that causes one error, and does not end the socket.
#[test]
fn a_refusal_surfaces_once_and_later_sends_work() {
    run(async {
        let (a, b) = pair().await;
        let at_b = b.local_addr().unwrap();
        drop(b);
        a.send(b"into the void").await.unwrap();
        let error = a.recv(&mut [0; 10]).await.unwrap_err();
        let refused = if cfg!(windows) { ErrorKind::ConnectionReset } else { ErrorKind::ConnectionRefused };
        assert_eq!(error.kind(), refused);
        assert_eq!(a.try_recv(&mut [0; 10]).unwrap_err().kind(), ErrorKind::WouldBlock);

        let b = UdpSocket::bind(at_b).await.unwrap();
        a.send(b"back").await.unwrap();
        assert_eq!(b.recv_from(&mut [0; 10]).await.unwrap(), (4, a.local_addr().unwrap()));
        b.send_to(b"again", a.local_addr().unwrap()).await.unwrap();
        assert_eq!(a.recv(&mut [0; 10]).await.unwrap(), 5);
    });
}

#[test]
fn several_tasks_share_one_socket() {
    const TASKS: u8 = 4;
    const EACH: u8 = 20;
    run(async {
        let (a, b) = pair().await;
        let (a, b) = (Arc::new(a), Arc::new(b));
        let receivers: Vec<_> = (0..TASKS)
            .map(|_| {
                let b = b.clone();
                spawn(async move {
                    let mut got = Vec::new();
                    for _ in 0..EACH {
                        let mut byte = [0];
                        assert_eq!(b.recv(&mut byte).await.unwrap(), 1);
                        got.push(byte[0]);
                    }
                    got
                })
            })
            .collect();
        // They all wait before the first datagram is sent.
        sleep(Duration::from_millis(5)).await;
        let senders: Vec<_> = (0..TASKS)
            .map(|task| {
                let a = a.clone();
                spawn(async move {
                    for n in 0..EACH {
                        a.send(&[task * EACH + n]).await.unwrap();
                        if n % 5 == 0 {
                            sleep(Duration::from_millis(1)).await;
                        }
                    }
                })
            })
            .collect();
        for sender in senders {
            sender.await.unwrap();
        }
        let mut all = BTreeSet::new();
        for got in join_all(receivers).await {
            for byte in got.unwrap() {
                assert!(all.insert(byte), "received twice");
            }
        }
        assert_eq!(all.len(), usize::from(TASKS * EACH));
    });
}

#[test]
fn trying_and_polling() {
    run(async {
        let (a, b) = pair().await;
        let mut buf = [0; 10];
        assert_eq!(b.try_recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        a.writable().await.unwrap();
        assert_eq!(a.try_send(b"one").unwrap(), 3);
        b.readable().await.unwrap();
        assert_eq!(b.try_peek(&mut buf).unwrap(), 3);
        assert_eq!(b.try_recv_from(&mut buf).unwrap(), (3, a.local_addr().unwrap()));
        assert_eq!(b.try_recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);

        assert_eq!(poll_fn(|cx| a.poll_send(cx, b"three")).await.unwrap(), 5);
        assert_eq!(poll_fn(|cx| b.poll_peek(cx, &mut buf)).await.unwrap(), 5);
        assert_eq!(poll_fn(|cx| b.poll_recv(cx, &mut buf)).await.unwrap(), 5);
    });
}

#[test]
fn blocking_sockets_of_std_are_made_non_blocking() {
    run(async {
        let socket = UdpSocket::from_std(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        assert_eq!(socket.try_recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let socket = socket.into_std().unwrap();
        assert_eq!(socket.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn options_are_set_and_read_back() {
    run(async {
        let socket = bind().await;
        for on in [true, false] {
            socket.set_broadcast(on).unwrap();
            assert_eq!(socket.broadcast().unwrap(), on);
            socket.set_multicast_loop_v4(on).unwrap();
            assert_eq!(socket.multicast_loop_v4().unwrap(), on);
        }
        socket.set_ttl(33).unwrap();
        assert_eq!(socket.ttl().unwrap(), 33);
        socket.set_multicast_ttl_v4(3).unwrap();
        for too_large in [256, u32::MAX] {
            assert_eq!(socket.set_ttl(too_large).unwrap_err().kind(), ErrorKind::InvalidInput);
            assert_eq!(socket.set_multicast_ttl_v4(too_large).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        assert_eq!((socket.ttl().unwrap(), socket.multicast_ttl_v4().unwrap()), (33, 3));
        assert!(socket.take_error().unwrap().is_none());
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_group_is_joined_and_left() {
    run(async {
        let (group, local) = (Ipv4Addr::new(239, 1, 2, 3), Ipv4Addr::LOCALHOST);
        let socket = bind().await;
        // Only a member can leave.
        assert_eq!(
            socket.leave_multicast_v4(&group, &local).unwrap_err().kind(),
            ErrorKind::AddrNotAvailable
        );
        socket.join_multicast_v4(&group, &local).unwrap();
        assert_eq!(socket.join_multicast_v4(&group, &local).unwrap_err().kind(), ErrorKind::AddrInUse);
        socket.leave_multicast_v4(&group, &local).unwrap();
    });
}
