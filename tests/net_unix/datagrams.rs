//! Datagrams: whole and in order, between a pair and by path.

use crate::Place;
use crate::common::{LONG, ms};
use crate::net_support::{no_child_begins, run};
use mainspring::net::unix::UnixDatagram;
use mainspring::{sleep, spawn, timeout};
use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::Shutdown;
use std::sync::Arc;

#[test]
fn a_thousand_datagrams_come_whole_and_in_order() {
    let _alone = no_child_begins();
    run(async {
        let (one, other) = UnixDatagram::pair().unwrap();
        let sending = spawn(async move {
            for n in 0..1000u32 {
                // More than the queue holds: the sender waits.
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
fn a_shutdown_by_one_task_ends_the_sends_that_wait() {
    run(async {
        let (one, _other) = UnixDatagram::pair().unwrap();
        let one = Arc::new(one);
        let sends: Vec<_> = (0..3)
            .map(|_| {
                let one = one.clone();
                spawn(async move {
                    loop {
                        if let Err(error) = one.send(b"x").await {
                            return error.kind();
                        }
                    }
                })
            })
            .collect();
        sleep(ms(5)).await;
        assert!(sends.iter().all(|send| !send.is_finished()));
        one.shutdown(Shutdown::Write).unwrap();
        for send in sends {
            let ended = timeout(LONG / 10, send).await.expect("the sender is told");
            assert_eq!(ended.unwrap(), ErrorKind::BrokenPipe);
        }
    });
}
