//! TCP, over the loopback interface.
#![cfg(feature = "net")]

mod net_support;

use futures::future::{join, join_all, select};
use futures::{AsyncReadExt, AsyncWriteExt, StreamExt};
use mainspring::net::{TcpListener, TcpStream};
use mainspring::task::unconstrained;
use mainspring::{sleep, spawn};
use net_support::{pair, run};
use socket2::SockRef;
use std::cell::Cell;
use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// An address on which nothing listens.
fn nobody() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Whether the future is pending when polled once.
async fn is_pending(mut future: Pin<&mut impl Future>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

/// Writes until nothing more fits.
async fn fill(stream: &TcpStream) {
    let junk = vec![7; 1 << 16];
    // The budget would make a write pending that otherwise is not.
    unconstrained(async {
        loop {
            let mut writer = stream;
            if is_pending(pin!(writer.write(&junk))).await {
                return;
            }
        }
    })
    .await;
}

#[test]
fn a_megabyte_there_and_back() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let server = spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let (reader, mut writer) = stream.into_split();
            futures::io::copy(reader, &mut writer).await.unwrap()
        });
        let sent: Vec<u8> = (0..4 << 20).map(|i: u32| (i * 7 / 3) as u8).collect();
        let (mut reader, mut writer) = TcpStream::connect(addr).await.unwrap().into_split();
        let mut got = Vec::new();
        let (_, read) = join(
            async {
                writer.write_all(&sent).await.unwrap();
                writer.close().await.unwrap();
            },
            reader.read_to_end(&mut got),
        )
        .await;
        read.unwrap();
        assert!(sent == got);
        assert_eq!(server.await.unwrap(), sent.len() as u64);
    });
}

#[test]
fn single_bytes_a_half_close_and_the_end() {
    run(async {
        let (mut ours, mut theirs) = pair().await;
        ours.set_nodelay(true).unwrap();
        for byte in 0..200 {
            ours.write_all(&[byte]).await.unwrap();
            let mut got = [0];
            theirs.read_exact(&mut got).unwrap();
            assert_eq!(got, [byte]);
            theirs.write_all(&[byte + 1]).unwrap();
            ours.read_exact(&mut got).await.unwrap();
            assert_eq!(got, [byte + 1]);
        }
        // The other side ends its direction, and we may still write.
        theirs.shutdown(Shutdown::Write).unwrap();
        let mut buf = [0; 10];
        for _ in 0..3 {
            assert_eq!(ours.read(&mut buf).await.unwrap(), 0);
        }
        ours.write_all(b"still here").await.unwrap();
        theirs.read_exact(&mut buf).unwrap();
        // Closing ends our direction, and closing twice is no error.
        ours.close().await.unwrap();
        ours.close().await.unwrap();
        assert_eq!(theirs.read(&mut buf).unwrap(), 0);
    });
}

/// Data and the end of the stream that one event announces: the short read must not make the stream forget the end.
#[test]
fn the_end_that_came_with_the_last_bytes_is_seen() {
    run(async {
        for _ in 0..50 {
            let (mut ours, mut theirs) = pair().await;
            let mut buf = [0; 100];
            assert!(is_pending(pin!(ours.read(&mut buf))).await);
            theirs.write_all(b"bye").unwrap();
            drop(theirs);
            let mut got = Vec::new();
            ours.read_to_end(&mut got).await.unwrap();
            assert_eq!(got, b"bye");
        }
    });
}

#[cfg(target_os = "linux")]
fn write_around_urgent_data(mut stream: &std::net::TcpStream) {
    stream.write_all(b"before").unwrap();
    SockRef::from(&stream).send_out_of_band(b"!").unwrap();
    stream.write_all(b"behind").unwrap();
}

#[cfg(target_os = "linux")]
async fn read_around_urgent_data(mut stream: &TcpStream) {
    let (mut buf, mut got) = ([0; 100], Vec::new());
    while got.len() < 12 {
        let n = stream.read(&mut buf).await.unwrap();
        assert_ne!(n, 0);
        got.extend_from_slice(&buf[..n]);
    }
    assert_eq!(got, b"beforebehind");
}

/// A read stops short at the mark of urgent data, although there is more behind it and no further event.
#[test]
#[cfg(target_os = "linux")]
fn bytes_behind_urgent_data_are_not_forgotten() {
    run(async {
        let (mut ours, theirs) = pair().await;
        theirs.set_nodelay(true).unwrap();
        assert!(is_pending(pin!(ours.read(&mut [0; 100]))).await);
        write_around_urgent_data(&theirs);
        read_around_urgent_data(&ours).await;
    });
}

/// The same, where the program has taken the urgent byte before the runtime heard of it.
#[test]
#[cfg(target_os = "linux")]
fn bytes_behind_urgent_data_that_was_taken_are_not_forgotten() {
    run(async {
        let (mut ours, mut theirs) = pair().await;
        theirs.set_nodelay(true).unwrap();
        let mut buf = [0; 100];
        assert!(is_pending(pin!(ours.read(&mut buf))).await);
        // Not a short read: the stream still counts as ready.
        theirs.write_all(b"1234").unwrap();
        ours.read_exact(&mut buf[..4]).await.unwrap();
        write_around_urgent_data(&theirs);
        let take = || SockRef::from(&ours).recv_out_of_band(&mut [std::mem::MaybeUninit::uninit()]);
        assert_eq!(ours.async_io(mainspring::io::Interest::Readable, take).await.unwrap(), 1);
        sleep(Duration::from_millis(5)).await;
        read_around_urgent_data(&ours).await;
    });
}

/// A formatter's output is foreign code: here it makes a socket of the same runtime.
#[test]
fn a_socket_can_be_printed_by_code_that_uses_the_runtime() {
    use std::fmt::Write;
    struct Connects(String);
    impl Write for Connects {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            drop(TcpListener::from_std(listener).unwrap());
            self.0.push_str(text);
            Ok(())
        }
    }
    run(async {
        let (ours, _theirs) = pair().await;
        let mut out = Connects(String::new());
        write!(out, "{ours:?}").unwrap();
        let port = ours.local_addr().unwrap().port().to_string();
        assert!(out.0.contains(&port) && out.0.len() < 200, "{}", out.0);
    });
}

/// A short time to linger must not become none, which resets the connection.
#[test]
fn a_time_to_linger_is_rounded_up() {
    run(async {
        let (ours, mut theirs) = pair().await;
        let seconds = |secs| Some(Duration::from_secs(secs));
        for (set, expected) in [
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(999), 1),
            (Duration::from_secs(3), 3),
            (Duration::from_millis(3_001), 4),
        ] {
            ours.set_linger(Some(set)).unwrap();
            assert_eq!(ours.linger().unwrap(), seconds(expected), "{set:?}");
        }
        for long in [Duration::from_secs(1 << 32), Duration::MAX] {
            ours.set_linger(Some(long)).unwrap();
            assert!(ours.linger().unwrap() > seconds(60_000), "{long:?}");
        }
        ours.set_linger(None).unwrap();
        assert_eq!(ours.linger().unwrap(), None);
        ours.set_linger(Some(Duration::ZERO)).unwrap();
        drop(ours);
        assert_eq!(theirs.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn dropping_the_reading_half_ends_nothing() {
    run(async {
        let (ours, mut theirs) = pair().await;
        let (reader, mut writer) = ours.into_split();
        drop(reader);
        theirs.write_all(b"nobody reads this").unwrap();
        writer.write_all(b"hello").await.unwrap();
        let mut buf = [0; 5];
        theirs.read_exact(&mut buf).unwrap();
        assert_eq!(&buf, b"hello");
    });
}

/// tokio #2218.
#[test]
fn a_reset_wakes_both_halves() {
    run(async {
        let (ours, theirs) = pair().await;
        fill(&ours).await;
        let (mut reader, mut writer) = ours.into_split();
        let reading = spawn(async move { reader.read(&mut [0; 10]).await });
        let writing = spawn(async move { writer.write_all(&vec![0; 1 << 22]).await });
        sleep(Duration::from_millis(20)).await;
        SockRef::from(&theirs).set_linger(Some(Duration::ZERO)).unwrap();
        drop(theirs);
        // One of them takes the error from the socket, the other finds it gone.
        let read = reading.await.unwrap();
        let written = writing.await.unwrap();
        assert!(matches!(&read, Err(_) | Ok(0)), "{read:?}");
        assert!(written.is_err());
        let reset = |error: &std::io::Error| error.kind() == ErrorKind::ConnectionReset;
        assert!(
            read.as_ref().is_err_and(reset) || written.as_ref().is_err_and(reset),
            "{read:?} {written:?}"
        );
    });
}

#[test]
fn a_refusal_is_reported_as_what_it_is() {
    run(async {
        for _ in 0..20 {
            let error = TcpStream::connect(nobody()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        }
    });
}

#[test]
fn addresses_are_tried_in_turn() {
    run(async {
        let listener = TcpListener::bind(("localhost", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let stream = TcpStream::connect(&[nobody(), nobody(), addr][..]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), addr);
        // A name is looked up while the runtime goes on.
        let stream = TcpStream::connect(("localhost", addr.port())).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), addr);
        for nonsense in ["", "localhost", "localhost:high"] {
            let error = TcpStream::connect(nonsense).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{nonsense}");
        }
        let error = TcpStream::connect(&[][..]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn outside_a_runtime_there_is_an_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let error = TcpListener::from_std(listener).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other);
    assert!(error.to_string().contains("block_on"), "{error}");
}

#[test]
fn several_tasks_accept_from_one_listener() {
    const TASKS: usize = 4;
    const EACH: usize = 10;
    run(async {
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let addr = listener.local_addr().unwrap();
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let listener = listener.clone();
                spawn(async move {
                    for _ in 0..EACH {
                        let (mut stream, peer) = listener.accept().await.unwrap();
                        assert_eq!(stream.peer_addr().unwrap(), peer);
                        stream.write_all(b"x").await.unwrap();
                    }
                })
            })
            .collect();
        // A task that gives up waiting loses no connection.
        assert!(is_pending(pin!(listener.accept())).await);
        let clients = (0..TASKS * EACH).map(|_| async {
            let mut stream = TcpStream::connect(addr).await.unwrap();
            stream.read_exact(&mut [0]).await.unwrap();
        });
        join_all(clients).await;
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// A client that is gone before it is accepted causes at most one error, and the listener lives on.
#[test]
fn a_listener_survives_clients_that_give_up() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        for _ in 0..20 {
            let gone = std::net::TcpStream::connect(addr).unwrap();
            SockRef::from(&gone).set_linger(Some(Duration::ZERO)).unwrap();
            drop(gone);
        }
        let mut client = std::net::TcpStream::connect(addr).unwrap();
        client.write_all(b"alive").unwrap();
        let mut incoming = listener.incoming();
        loop {
            // Clients that gave up appear as an error, or as a stream that fails.
            let Ok(mut stream) = incoming.next().await.unwrap() else { continue };
            let mut buf = [0; 5];
            if stream.read_exact(&mut buf).await.is_ok() {
                assert_eq!(&buf, b"alive");
                break;
            }
        }
    });
}

/// tokio #7172.
#[test]
fn blocking_sockets_of_std_do_not_block_the_runtime() {
    run(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let client = std::net::TcpStream::connect(addr).unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let mut client = TcpStream::from_std(client).unwrap();

        let start = Instant::now();
        let mut buf = [0; 5];
        {
            let accept = pin!(listener.accept());
            let read = pin!(client.read(&mut buf));
            let nothing = pin!(select(accept, read));
            let timer = pin!(sleep(Duration::from_millis(20)));
            assert!(matches!(select(nothing, timer).await, futures::future::Either::Right(_)));
        }
        assert!(start.elapsed() >= Duration::from_millis(20));
        server.write_all(b"hello").await.unwrap();
        client.read_exact(&mut buf).await.unwrap();

        // Converted back to std they are as documented: non-blocking, and usable.
        let mut client = client.into_std().unwrap();
        assert_eq!(client.read(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        client.set_nonblocking(false).unwrap();
        server.write_all(b"again").await.unwrap();
        client.read_exact(&mut buf).unwrap();
        let listener = listener.into_std().unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn halves_close_and_reunite() {
    run(async {
        let mut buf = [0; 10];
        let (ours, mut theirs) = pair().await;
        let (mut reader, writer) = ours.into_split();
        drop(writer);
        assert_eq!(theirs.read(&mut buf).unwrap(), 0);
        theirs.write_all(b"x").unwrap();
        assert_eq!(reader.read(&mut buf).await.unwrap(), 1);

        let (ours, mut theirs) = pair().await;
        let (other, _theirs) = pair().await;
        let (reader, writer) = ours.into_split();
        let (other_reader, _other_writer) = other.into_split();
        let error = writer.reunite(other_reader).unwrap_err();
        let mut ours = error.1.reunite(reader).unwrap();
        ours.write_all(b"whole").await.unwrap();
        theirs.read_exact(&mut buf[..5]).unwrap();

        // Two references are two halves.
        let (mut reader, mut writer) = (&ours, &ours);
        writer.write_all(b"lent").await.unwrap();
        theirs.read_exact(&mut buf[..4]).unwrap();
        theirs.write_all(b"lent").unwrap();
        reader.read_exact(&mut buf[..4]).await.unwrap();
        theirs.set_nonblocking(true).unwrap();
        assert_eq!(theirs.read(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn trying_peeking_and_vectors() {
    run(async {
        let (mut ours, mut theirs) = pair().await;
        let mut buf = [0; 6];
        assert_eq!(ours.try_read(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        theirs.write_all(b"abcdef").unwrap();
        for _ in 0..2 {
            assert_eq!(ours.peek(&mut buf[..3]).await.unwrap(), 3);
            assert_eq!(&buf[..3], b"abc");
        }
        ours.readable().await.unwrap();
        let (mut one, mut two) = ([0; 2], [0; 3]);
        let n = ours.try_read_vectored(&mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)]).unwrap();
        assert_eq!((n, &one, &two), (5, b"ab", b"cde"));
        assert_eq!(ours.try_read(&mut buf).unwrap(), 1);
        assert_eq!(ours.try_read(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);

        ours.writable().await.unwrap();
        assert_eq!(ours.try_write(b"ab").unwrap(), 2);
        assert_eq!(ours.try_write_vectored(&[IoSlice::new(b"c"), IoSlice::new(b"d")]).unwrap(), 2);
        assert_eq!(ours.write_vectored(&[IoSlice::new(b"e"), IoSlice::new(b"f")]).await.unwrap(), 2);
        theirs.read_exact(&mut buf).unwrap();
        assert_eq!(&buf, b"abcdef");

        theirs.write_all(b"xyz").unwrap();
        let n =
            ours.read_vectored(&mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)]).await.unwrap();
        assert_eq!((n, &one, two[0]), (3, b"xy", b'z'));

        // The socket is full, and then no longer.
        fill(&ours).await;
        assert_eq!(ours.try_write(b"x").unwrap_err().kind(), ErrorKind::WouldBlock);
        let drain = std::thread::spawn(move || {
            std::io::copy(&mut theirs, &mut std::io::sink()).unwrap();
        });
        ours.writable().await.unwrap();
        assert!(ours.try_write(b"x").is_ok());
        drop(ours);
        drain.join().unwrap();
    });
}

#[test]
fn options_are_set_and_read_back() {
    run(async {
        let (ours, _theirs) = pair().await;
        for on in [true, false] {
            ours.set_nodelay(on).unwrap();
            assert_eq!(ours.nodelay().unwrap(), on);
        }
        for linger in [Some(Duration::from_secs(3)), None] {
            ours.set_linger(linger).unwrap();
            assert_eq!(ours.linger().unwrap(), linger);
        }
        ours.set_ttl(33).unwrap();
        assert_eq!(ours.ttl().unwrap(), 33);
        assert!(ours.take_error().unwrap().is_none());

        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        listener.set_ttl(44).unwrap();
        // To Linux the largest of these numbers means "the default".
        for too_large in [256, u32::MAX] {
            for error in [ours.set_ttl(too_large), listener.set_ttl(too_large)].map(Result::unwrap_err) {
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
                assert!(error.to_string().contains("255"), "{error}");
            }
        }
        assert_eq!((ours.ttl().unwrap(), listener.ttl().unwrap()), (33, 44));
        assert!(listener.take_error().unwrap().is_none());
        // The address can be bound again at once, although some of its connections are still being closed.
        let addr = listener.local_addr().unwrap();
        let client = std::net::TcpStream::connect(addr).unwrap();
        drop(listener.accept().await.unwrap());
        drop((client, listener));
        TcpListener::bind(addr).await.unwrap();
    });
}

/// A task that always finds something to read still lets other tasks run.
#[test]
fn a_stream_that_never_runs_dry_starves_nobody() {
    run(async {
        let (mut ours, mut theirs) = pair().await;
        let feeder = std::thread::spawn(move || while theirs.write_all(&[0; 1 << 16]).is_ok() {});
        let done = Rc::new(Cell::new(false));
        let seen = done.clone();
        let reader = spawn(async move {
            // Ends without help only if the sleeps next to it are starved.
            let start = Instant::now();
            let mut byte = [0];
            let mut reads = 0_u64;
            while !seen.get() && start.elapsed() < Duration::from_secs(20) {
                ours.read_exact(&mut byte).await.unwrap();
                reads += 1;
            }
            (seen.get(), reads)
        });
        for _ in 0..20 {
            sleep(Duration::from_millis(5)).await;
        }
        done.set(true);
        let (in_time, reads) = reader.await.unwrap();
        assert!(in_time, "the sleeps were starved");
        assert!(reads > 128, "the stream ran dry after {reads} bytes");
        feeder.join().unwrap();
    });
}

#[test]
fn sockets_may_be_shared_between_threads() {
    fn is_shared<T: Send + Sync>(_: &T) {}
    run(async {
        let (ours, theirs) = pair().await;
        is_shared(&ours);
        is_shared(&pin!(ours.readable()));
        // If it is dropped on another thread, it is closed at once.
        std::thread::spawn(move || drop(ours)).join().unwrap();
        assert_eq!((&theirs).read(&mut [0]).unwrap(), 0);
    });
}
