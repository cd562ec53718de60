//! What only Linux has: abstract names, a peer's process, full queues, and a count of the descriptors that are open.

use crate::Place;
use crate::common::{LONG, has_alarm, is_ready, ms, paused, watchdog};
use crate::net_support::{in_child, no_child_begins, run};
use futures::{AsyncReadExt, AsyncWriteExt};
use mainspring::net::unix::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use mainspring::task::yield_now;
use mainspring::time::Instant;
use mainspring::{sleep, spawn, timeout};
use std::fs::File;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;

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
        // The system returns zero for a process that has no number here. A socket without a peer has none, either.
        let alone =
            rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None);
        let alone = UnixStream::from_std(alone.unwrap().into()).unwrap();
        assert_eq!(alone.peer_cred().unwrap().pid(), None);
    });
}

#[test]
fn abstract_names_are_addresses_of_all_three() {
    let _alone = no_child_begins();
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
        // Nothing is left of the address.
        assert_eq!(UnixStream::connect_addr(&stream).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
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

/// std's types take any socket over. A packet ends a read before the buffer is full, and others may be behind it.
#[test]
fn packets_behind_a_packet_are_not_forgotten() {
    use rustix::net::{
        AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, send,
        socket, socketpair,
    };
    use std::os::unix::net;

    run(async {
        let (unix, packets) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (one, other) = socketpair(unix, packets, SocketFlags::CLOEXEC, None).unwrap();
        let name = format!("mainspring packets {}", std::process::id());
        let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        let listener = socket(unix, packets, None).unwrap();
        bind(&listener, &name).unwrap();
        listen(&listener, 1).unwrap();
        let listener = UnixListener::from_std(net::UnixListener::from(listener)).unwrap();
        let client = socket(unix, packets, None).unwrap();
        connect(&client, &name).unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let taken_over = UnixStream::from_std(net::UnixStream::from(one)).unwrap();
        for (mut ours, theirs) in [(taken_over, other), (accepted, client)] {
            let mut buf = [0; 8];
            assert!(!is_ready(ours.read(&mut buf)).await);
            for packet in [b"one", b"two", b"six"] {
                send(&theirs, packet, SendFlags::empty()).unwrap();
            }
            for packet in [b"one", b"two", b"six"] {
                assert_eq!(ours.read(&mut buf).await.unwrap(), 3);
                assert_eq!(&buf[..3], packet);
            }
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

#[test]
fn a_connect_that_waits_for_the_backlog_fails_with_its_runtime() {
    let place = Place::new("orphan");
    let _full = {
        let listener = std::os::unix::net::UnixListener::bind(&place).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        (std::os::unix::net::UnixStream::connect(&place).unwrap(), listener)
    };
    let mut connecting = Box::pin(UnixStream::connect(&place));
    run(async {
        assert!(!is_ready(&mut connecting).await);
    });
    let error = futures::executor::block_on(connecting).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other);
}

/// No event reports that there is room again in a queue that other sockets had filled.
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
        // The same without waiting: after a queue was full it is tried again.
        while other.try_send_to(b"other", &place).is_ok() {}
        let ours = UnixDatagram::unbound().unwrap();
        assert_eq!(ours.try_send_to(b"ours", &place).unwrap_err().kind(), ErrorKind::WouldBlock);
        receiver.recv(&mut buffer).await.unwrap();
        ours.try_send_to(b"ours", &place).unwrap();
    });
}

#[test]
fn a_datagram_socket_that_is_connected_has_one_sender_and_loses_what_has_come_as_it_changes_its_peer() {
    run(async {
        let places = ["ours", "first", "second"].map(Place::new);
        let [ours, first, second] = places.each_ref().map(|place| UnixDatagram::bind(place).unwrap());
        // What has come before the first connect stays.
        second.send_to(b"early", &places[0]).await.unwrap();
        ours.connect(&places[1]).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(ours.recv(&mut buffer).await.unwrap(), 5);
        assert_eq!(
            second.send_to(b"late", &places[0]).await.unwrap_err().kind(),
            ErrorKind::PermissionDenied
        );
        first.connect(&places[0]).unwrap();
        first.send(b"lost").await.unwrap();
        ours.connect(&places[2]).unwrap();
        assert_eq!(first.recv(&mut buffer).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        second.send_to(b"second", &places[0]).await.unwrap();
        assert_eq!(ours.recv(&mut buffer).await.unwrap(), 6);
    });
}

/// An attempt that fails brings an event of its own: to try again at each event would be to try all the time.
#[test]
fn a_send_to_a_full_queue_is_tried_after_pauses_only() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        for case in ["others filled it", "this socket filled it", "this socket is connected elsewhere"] {
            let (place, elsewhere) = (Place::new("pauses"), Place::new("elsewhere"));
            let receiver = UnixDatagram::bind(&place).unwrap();
            let _elsewhere = UnixDatagram::bind(&elsewhere).unwrap();
            let (ours, other) = (UnixDatagram::unbound().unwrap(), UnixDatagram::unbound().unwrap());
            let filler = if case == "this socket filled it" { &ours } else { &other };
            while filler.try_send_to(b"x", &place).is_ok() {}
            if case == "this socket is connected elsewhere" {
                ours.connect(&elsewhere).unwrap();
            }
            let mut polls = 0;
            let mut sending = Box::pin(ours.send_to(b"ours", &place));
            let sent = timeout(
                ms(640),
                poll_fn(|cx| {
                    polls += 1;
                    sending.as_mut().poll(cx)
                }),
            );
            assert!(sent.await.is_err(), "{case}");
            // 1 + 2 + 4 + 8 + 16 + 32 ms, and then 64 ms each.
            assert!((10..40).contains(&polls), "{case}: {polls} polls in 640 ms");
            let start = Instant::now();
            receiver.recv(&mut [0]).await.unwrap();
            assert_eq!(sending.await.unwrap(), 4, "{case}");
            assert!(start.elapsed() <= ms(64), "{case}");
        }
    });
}

/// Of these cases Linux does tell.
#[test]
fn a_send_to_goes_on_at_once_when_this_sockets_buffer_or_its_peers_queue_has_room() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        for connected in [false, true] {
            let place = Place::new("room");
            let receiver = UnixDatagram::bind(&place).unwrap();
            let ours = UnixDatagram::unbound().unwrap();
            let datagram: &[u8] = if connected { &[0] } else { &[0; 2000] };
            if connected {
                ours.connect(&place).unwrap();
            } else {
                // The least that the system grants.
                rustix::net::sockopt::set_socket_send_buffer_size(&ours, 0).unwrap();
            }
            let mut filled = 0;
            while ours.try_send_to(datagram, &place).is_ok() {
                filled += 1;
            }
            if !connected {
                UnixDatagram::unbound().unwrap().try_send_to(b"x", &place).expect("the queue has room");
                filled += 1;
            }
            let mut sending = Box::pin(ours.send_to(b"ours", &place));
            assert!(timeout(ms(100), &mut sending).await.is_err());
            let start = Instant::now();
            for _ in 0..filled {
                receiver.recv(&mut [0]).await.unwrap();
            }
            assert_eq!(sending.await.unwrap(), 4);
            assert_eq!(start.elapsed(), ms(0), "connected: {connected}");
        }
    });
}

#[test]
fn a_send_to_that_pauses_fails_with_the_runtime_that_was_entered() {
    let own = paused();
    let place = Place::new("entered");
    let (_receiver, ours) = own.block_on(async {
        let receiver = UnixDatagram::bind(&place).unwrap();
        let ours = UnixDatagram::unbound().unwrap();
        while ours.try_send_to(b"x", &place).is_ok() {}
        (receiver, ours)
    });
    let mut sending = Box::pin(ours.send_to(b"ours", &place));
    run(async {
        assert!(!is_ready(&mut sending).await);
    });
    let error = futures::executor::block_on(sending).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other);
    // Outside a runtime there is nothing to wait with.
    let error = futures::executor::block_on(ours.send_to(b"ours", &place)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other);
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
        has_alarm().await;
        let before = open();
        for _ in 0..200 {
            let (reader, _writer) = rustix::pipe::pipe().unwrap();
            let copy = AsyncFd::new(reader.try_clone().unwrap()).unwrap();
            // Waits that are dropped, descriptors that are taken back, and registrations that are refused.
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
        // The aborted tasks are dropped when their turn comes.
        sleep(ms(10)).await;
        assert_eq!(open(), before);
    });
}
