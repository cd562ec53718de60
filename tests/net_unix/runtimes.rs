//! Where a socket belongs: converted from std's and back, in virtual time, after the end of its runtime, on other threads.

use crate::Place;
use crate::common::{HOUR, LONG, is_ready, ms, orphan, paused, watchdog};
use crate::net_support::run;
use futures::channel::oneshot;
use futures::{AsyncReadExt, AsyncWriteExt};
use mainspring::net::unix::{UnixDatagram, UnixListener, UnixStream};
use mainspring::net::{Incoming, OwnedReadHalf, OwnedWriteHalf};
use mainspring::task::yield_now;
use mainspring::{sleep, timeout};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::thread;
use std::time::Duration;

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
    // Outside a runtime there is no runtime to register the socket with.
    let outside = |error: io::Error| {
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(error.to_string().starts_with("no Mainspring runtime on this thread"), "{error}");
    };
    outside(UnixStream::pair().unwrap_err());
    outside(UnixDatagram::unbound().unwrap_err());
    let nowhere = Place::new("outside");
    outside(UnixListener::bind(&nowhere).unwrap_err());
    outside(UnixDatagram::bind(&nowhere).unwrap_err());
    assert!(!nowhere.0.exists(), "a refused bind left a file");
    outside(futures::executor::block_on(UnixStream::connect(&place)).unwrap_err());
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
        // The socket inside is intact, and another runtime takes it.
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
        // The other thread has no runtime: the events that it waits for come from this thread.
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
