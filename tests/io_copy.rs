//! `copy_bidirectional`, over connections in memory and over sockets.

mod common;
#[path = "common/duplex.rs"]
mod duplex;

use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use common::{LONG, metrics, ms, paused, watchdog};
use duplex::{Duplex, duplex};
use futures::io::BufWriter;
use futures::{AsyncReadExt, AsyncWriteExt, poll};
use mainspring::io::{AsyncRead, AsyncWrite, CopyError, Direction, copy_bidirectional};
use mainspring::task::JoinHandle;
use mainspring::time::Instant;
use mainspring::{Handle, Runtime, block_on, sleep, spawn, timeout};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

type Copied = JoinHandle<Result<(u64, u64), CopyError>>;

/// A copy in a task of its own, with the ends that face away from it. `room` is that of each of the two connections.
fn copying(room: usize) -> (Duplex, Duplex, Copied) {
    let (client, mut a) = duplex(room);
    let (mut b, server) = duplex(room);
    (client, server, spawn(async move { copy_bidirectional(&mut a, &mut b).await }))
}

/// A stream of which each half does what a closure says. Closing and flushing are done at once.
struct Fake<R, W> {
    read: R,
    write: W,
}

impl<R: FnMut(&mut [u8]) -> Poll<io::Result<usize>> + Unpin, W: Unpin> AsyncRead for Fake<R, W> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, b: &mut [u8]) -> Poll<io::Result<usize>> {
        (self.read)(b)
    }
}

impl<R: Unpin, W: FnMut(&[u8]) -> Poll<io::Result<usize>> + Unpin> AsyncWrite for Fake<R, W> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, b: &[u8]) -> Poll<io::Result<usize>> {
        (self.write)(b)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Has nothing to read yet.
fn silent(_: &mut [u8]) -> Poll<io::Result<usize>> {
    Poll::Pending
}

/// Takes all.
fn sink(bytes: &[u8]) -> Poll<io::Result<usize>> {
    Poll::Ready(Ok(bytes.len()))
}

/// Always has more.
fn endless(buffer: &mut [u8]) -> Poll<io::Result<usize>> {
    Poll::Ready(Ok(buffer.len()))
}

#[test]
fn a_half_close_is_passed_on_and_the_other_direction_goes_on() {
    let _alive = watchdog(LONG);
    for b_first in [false, true] {
        block_on(async {
            let (client, server, copied) = copying(100);
            let (mut first, mut second) = if b_first { (server, client) } else { (client, server) };
            first.write_all(b"question").await.unwrap();
            first.close().await.unwrap();
            let mut asked = String::new();
            second.read_to_string(&mut asked).await.unwrap();
            assert_eq!(asked, "question");
            for word in ["an ", "answer"] {
                second.write_all(word.as_bytes()).await.unwrap();
                let mut answer = vec![0; word.len()];
                first.read_exact(&mut answer).await.unwrap();
                assert_eq!(answer, word.as_bytes());
            }
            assert!(!copied.is_finished());
            second.close().await.unwrap();
            assert_eq!(first.read(&mut [0]).await.unwrap(), 0);
            let (ahead, back) = if b_first { (9, 8) } else { (8, 9) };
            assert_eq!(copied.await.unwrap().unwrap(), (ahead, back));
        });
    }
}

#[test]
fn what_is_in_flight_at_a_close_arrives_before_the_end() {
    let _alive = watchdog(LONG);
    block_on(async {
        // Far less room than bytes: the most of them wait at the writers when both have closed.
        let (mut client, mut a) = duplex(4096);
        let (mut b, mut server) = duplex(10);
        let sent: Vec<u8> = (0..3000_u32).map(|n| n as u8).collect();
        client.write_all(&sent).await.unwrap();
        server.write_all(b"in time").await.unwrap();
        client.close().await.unwrap();
        server.close().await.unwrap();
        let copied = spawn(async move { copy_bidirectional(&mut a, &mut b).buffer_sizes(64, 0).await });
        let (mut got, mut answer) = (Vec::new(), String::new());
        server.read_to_end(&mut got).await.unwrap();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(got == sent && answer == "in time");
        assert_eq!(copied.await.unwrap().unwrap(), (3000, 7));
    });
}

#[test]
fn a_direction_that_stands_still_ends_the_copy_however_busy_the_other_is() {
    for silent in [Direction::AToB, Direction::BToA] {
        paused().block_on(async {
            let (mut client, mut a) = duplex(100);
            let (mut b, mut server) = duplex(100);
            let start = Instant::now();
            let copied = spawn(async move {
                let copy = copy_bidirectional(&mut a, &mut b);
                match silent {
                    Direction::AToB => copy.idle_a_to_b(secs(10)).await,
                    Direction::BToA => copy.idle_b_to_a(secs(10)).await,
                }
            });
            let (quiet, busy) = match silent {
                Direction::AToB => (&mut client, &mut server),
                Direction::BToA => (&mut server, &mut client),
            };
            sleep(secs(7)).await;
            quiet.write_all(b"the last for long").await.unwrap();
            while !copied.is_finished() {
                busy.write_all(b"x").await.unwrap();
                sleep(secs(1)).await;
                quiet.read_exact(&mut [0]).await.unwrap();
            }
            let error = copied.await.unwrap().unwrap_err();
            // Its timer was armed anew when ten seconds had passed, before the sleep above that ends in the same moment.
            assert_eq!(start.elapsed(), secs(17));
            assert_eq!((error.direction(), error.kind()), (Some(silent), ErrorKind::TimedOut));
            assert!(error.is_idle() && error.to_string().ends_with("no byte went in this direction for 10s"));
            assert!(error.copied().0 >= 10 && error.copied().1 >= 10);
        });
    }
}

#[test]
fn a_limit_for_both_directions_counts_from_the_last_byte_of_either_to_the_nanosecond() {
    paused().block_on(async {
        let (mut client, mut a) = duplex(100);
        let (mut b, mut server) = duplex(100);
        let start = Instant::now();
        let copied = spawn(async move {
            let result = copy_bidirectional(&mut a, &mut b).idle(secs(60)).await;
            (result, start.elapsed())
        });
        for _ in 0..100 {
            sleep(Duration::from_nanos(59_999_999_999)).await;
            server.write_all(b"page").await.unwrap();
            client.read_exact(&mut [0; 4]).await.unwrap();
        }
        let (result, after) = copied.await.unwrap();
        let error = result.unwrap_err();
        assert_eq!((error.direction(), error.is_idle(), error.copied()), (None, true, (0, 400)));
        assert_eq!(after, 100 * Duration::from_nanos(59_999_999_999) + secs(60));
    });
}

#[test]
fn a_writer_that_takes_nothing_stands_still_too() {
    paused().block_on(async {
        let (mut client, mut a) = duplex(100);
        let (mut b, _server) = duplex(3);
        client.write_all(b"four").await.unwrap();
        let start = Instant::now();
        let error = copy_bidirectional(&mut a, &mut b).idle_a_to_b(ms(5)).await.unwrap_err();
        assert_eq!((error.copied(), start.elapsed()), ((3, 0), ms(5)));
        assert_eq!(error.to_string(), "a to b: no byte went in this direction for 5ms");
    });
}

#[test]
fn the_limit_of_a_direction_that_has_ended_is_over() {
    paused().block_on(async {
        let (client, mut a) = duplex(100);
        let (mut b, mut server) = duplex(100);
        let (mut reader, mut writer) = client.split();
        writer.close().await.unwrap();
        let copied =
            spawn(async move { copy_bidirectional(&mut a, &mut b).idle_a_to_b(ms(1)).idle(secs(5)).await });
        for _ in 0..10 {
            sleep(secs(4)).await;
            server.write_all(b"more").await.unwrap();
            reader.read_exact(&mut [0; 4]).await.unwrap();
        }
        server.close().await.unwrap();
        assert_eq!(copied.await.unwrap().unwrap(), (0, 40));
    });
}

#[test]
fn bytes_that_move_do_not_move_the_timer() {
    paused().block_on(async {
        let (mut client, mut a) = duplex(100);
        let (mut b, mut server) = duplex(100);
        let copied = spawn(async move {
            copy_bidirectional(&mut a, &mut b)
                .idle(secs(60))
                .idle_a_to_b(secs(60))
                .idle_b_to_a(secs(90))
                .await
        });
        for _ in 0..1000 {
            client.write_all(b"ping").await.unwrap();
            server.read_exact(&mut [0; 4]).await.unwrap();
            server.write_all(b"pong").await.unwrap();
            client.read_exact(&mut [0; 4]).await.unwrap();
        }
        assert_eq!((metrics().timers_armed(), metrics().timers_reset()), (1, 0));
        // A byte every 40 seconds for an hour: the timer fires once a minute at the most, and is armed again.
        for _ in 0..90 {
            sleep(secs(40)).await;
            client.write_all(b"ping").await.unwrap();
            server.write_all(b"pong").await.unwrap();
            server.read_exact(&mut [0; 4]).await.unwrap();
            client.read_exact(&mut [0; 4]).await.unwrap();
        }
        let armed = metrics().timers_armed() - 90;
        assert!((2..=91).contains(&armed), "armed {armed} times");
        drop((client, server));
        copied.await.unwrap().unwrap();
        assert_eq!(metrics().timers_live(), 0);
    });
}

#[test]
fn a_limit_of_no_end_and_one_of_no_length_are_legal() {
    paused().block_on(async {
        let (mut a, mut b) = (Fake { read: silent, write: sink }, Fake { read: silent, write: sink });
        let forever = copy_bidirectional(&mut a, &mut b).idle(Duration::MAX).idle_a_to_b(Duration::MAX);
        assert!(timeout(secs(1_000_000), forever).await.is_err());
        let start = Instant::now();
        let error = copy_bidirectional(&mut a, &mut b).idle(Duration::ZERO).await.unwrap_err();
        assert!(error.is_idle() && start.elapsed().is_zero());
        // What is there goes before a limit that is over.
        let (mut client, mut a) = duplex(100);
        let (mut b, mut server) = duplex(100);
        client.write_all(b"quick").await.unwrap();
        client.close().await.unwrap();
        server.close().await.unwrap();
        assert_eq!(copy_bidirectional(&mut a, &mut b).idle(Duration::ZERO).await.unwrap(), (5, 0));
    });
}

#[test]
fn an_error_says_which_direction_failed_in_what() {
    let reset = || Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
    block_on(async {
        let mut good = Fake { read: silent, write: sink };
        let mut bad = Fake { read: |_: &mut [u8]| reset(), write: sink };
        let error = copy_bidirectional(&mut bad, &mut good).await.unwrap_err();
        assert_eq!((error.direction(), error.is_read()), (Some(Direction::AToB), true));
        let error = copy_bidirectional(&mut good, &mut bad).await.unwrap_err();
        assert_eq!((error.direction(), error.is_read()), (Some(Direction::BToA), true));
        assert_eq!(error.io_error().unwrap().kind(), ErrorKind::ConnectionReset);
        assert_eq!(io::Error::from(error).kind(), ErrorKind::ConnectionReset);

        let mut talks = Fake { read: endless, write: sink };
        let mut deaf = Fake { read: silent, write: |_: &[u8]| reset() };
        let error = copy_bidirectional(&mut talks, &mut deaf).await.unwrap_err();
        assert_eq!((error.direction(), error.is_read()), (Some(Direction::AToB), false));
        assert!(error.to_string().starts_with("a to b: cannot write: "), "{error}");
        let error = copy_bidirectional(&mut deaf, &mut talks).await.unwrap_err();
        assert_eq!((error.direction(), error.is_read()), (Some(Direction::BToA), false));
    });
}

#[test]
fn counts_that_cannot_be_true_are_errors_and_no_panic() {
    block_on(async {
        let mut talks = Fake { read: endless, write: sink };
        let mut full = Fake { read: silent, write: |_: &[u8]| Poll::Ready(Ok(0)) };
        let error = copy_bidirectional(&mut talks, &mut full).await.unwrap_err();
        assert_eq!((error.kind(), error.copied()), (ErrorKind::WriteZero, (0, 0)));
        let mut boasts = Fake { read: silent, write: |b: &[u8]| Poll::Ready(Ok(b.len() + 1)) };
        let error = copy_bidirectional(&mut talks, &mut boasts).await.unwrap_err();
        assert_eq!((error.kind(), error.is_read()), (ErrorKind::InvalidData, false));
        let mut liar = Fake { read: |b: &mut [u8]| Poll::Ready(Ok(b.len() + 1)), write: sink };
        let error = copy_bidirectional(&mut liar, &mut talks).await.unwrap_err();
        assert_eq!((error.kind(), error.is_read()), (ErrorKind::InvalidData, true));
        // Polled on after an error, it does not panic either.
        let mut copy = pin!(copy_bidirectional(&mut liar, &mut talks));
        for _ in 0..3 {
            assert!(copy.as_mut().await.is_err());
        }
    });
}

#[test]
fn a_stream_that_never_runs_dry_starves_neither_the_other_direction_nor_other_tasks() {
    let _alive = watchdog(LONG);
    block_on(async {
        let (mut a, mut b) = (Fake { read: endless, write: sink }, Fake { read: endless, write: sink });
        let mut copy = pin!(copy_bidirectional(&mut a, &mut b).buffer_size(10).idle(LONG));
        // The time is looked at although the streams are always ready.
        assert!(timeout(ms(5), copy.as_mut()).await.is_err());
        let (there, back) = copy.copied();
        assert!(there > 0 && back > 0, "{there} bytes went in one direction, {back} in the other");
        assert!(timeout(ms(5), copy.as_mut()).await.is_err());
        let (more, more_back) = copy.copied();
        assert!(more > there && more_back > back);
    });
}

#[test]
fn a_writer_that_buffers_is_flushed_while_its_reader_is_silent() {
    let _alive = watchdog(LONG);
    block_on(async {
        let (mut client, mut a) = duplex(100);
        let (b, mut server) = duplex(100);
        let mut b = Unread(BufWriter::new(b));
        let copied = spawn(async move { copy_bidirectional(&mut a, &mut b).await });
        for _ in 0..3 {
            client.write_all(b"ping").await.unwrap();
            let mut got = [0; 4];
            server.read_exact(&mut got).await.unwrap();
            assert_eq!(&got, b"ping");
        }
        drop((client, server));
        assert_eq!(copied.await.unwrap().unwrap(), (12, 0));
    });
}

/// A `BufWriter` that reads, too.
struct Unread(BufWriter<Duplex>);

impl AsyncRead for Unread {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, b: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(self.0.get_mut()).poll_read(cx, b)
    }
}

impl AsyncWrite for Unread {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, b: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, b)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }
}

#[test]
fn a_copy_that_is_awaited_again_loses_nothing() {
    paused().block_on(async {
        let (mut client, mut a) = duplex(10);
        let (mut b, server) = duplex(1);
        let copied = spawn(async move {
            let mut copy = pin!(copy_bidirectional(&mut a, &mut b));
            let mut again = 0;
            loop {
                // Shorter than what it takes the reader to make room.
                match timeout(ms(1), copy.as_mut()).await {
                    Ok(result) => return (result, again),
                    Err(_) => again += 1,
                }
            }
        });
        let got = spawn(async move {
            let (mut reader, _writer) = server.split();
            let (mut got, mut byte) = (Vec::new(), [0]);
            loop {
                sleep(ms(2)).await;
                match reader.read(&mut byte).await.unwrap() {
                    0 => return got,
                    _ => got.push(byte[0]),
                }
            }
        });
        client.write_all(b"letter by letter").await.unwrap();
        client.close().await.unwrap();
        assert_eq!(got.await.unwrap(), b"letter by letter");
        let (result, again) = copied.await.unwrap();
        assert_eq!(result.unwrap(), (16, 0));
        assert!(again >= 16, "it was awaited again {again} times");
    });
}

#[test]
fn without_a_runtime_it_copies_and_with_a_limit_it_says_what_is_missing() {
    let (mut client, mut a) = duplex(100);
    let (mut b, mut server) = duplex(100);
    let mut copy = Box::pin(copy_bidirectional(&mut a, &mut b));
    futures::executor::block_on(async {
        client.write_all(b"hello").await.unwrap();
        assert!(poll!(&mut copy).is_pending());
        server.read_exact(&mut [0; 5]).await.unwrap();
    });
    drop(copy);
    let copy = copy_bidirectional(&mut a, &mut b).idle(secs(1));
    let error = futures::executor::block_on(copy).unwrap_err();
    assert_eq!((error.direction(), error.kind(), error.is_idle()), (None, ErrorKind::Other, false));
    assert!(error.to_string().starts_with("no Mainspring runtime on this thread"), "{error}");
}

#[test]
fn a_limit_whose_runtime_is_gone_is_an_error() {
    let (_client, mut a) = duplex(100);
    let (mut b, _server) = duplex(100);
    let runtime = Runtime::new().unwrap();
    let mut copy = Box::pin(copy_bidirectional(&mut a, &mut b).idle(secs(1)));
    runtime.block_on(async { assert!(poll!(&mut copy).is_pending()) });
    drop(runtime);
    let error = futures::executor::block_on(copy).unwrap_err();
    assert!(error.to_string().contains("has shut down"), "{error}");
}

#[test]
fn a_dump_says_where_the_copy_with_the_limit_was_made() {
    paused().block_on(async {
        let (_client, mut a) = duplex(100);
        let (mut b, _server) = duplex(100);
        let (line, copy) = (line!(), copy_bidirectional(&mut a, &mut b).idle(secs(9)));
        let mut copy = pin!(copy);
        assert!(poll!(copy.as_mut()).is_pending());
        let dump = Handle::current().dump().unwrap();
        let timer = &dump.timers[0];
        assert_eq!((timer.made_at.file(), timer.made_at.line()), (file!(), line));
        assert_eq!(timer.deadline, Instant::now() + secs(9));
    });
}

#[cfg(feature = "net")]
mod sockets {
    use super::*;
    use mainspring::net::{TcpListener, TcpStream};
    use std::net::SocketAddr;

    /// Takes one connection and hands it on to `upstream`.
    async fn proxy(upstream: SocketAddr) -> (SocketAddr, Copied) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let copied = spawn(async move {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(upstream).await.unwrap();
            copy_bidirectional(&mut client, &mut server).idle(LONG).await
        });
        (address, copied)
    }

    /// Bytes that are others at each place and for each seed.
    fn noise(seed: u64, bytes: usize) -> Vec<u8> {
        let mut random = common::Random::new(seed);
        (0..bytes).map(|_| random.below(256) as u8).collect()
    }

    /// FNV-1a.
    fn checksum(bytes: &[u8]) -> u64 {
        bytes
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    }

    /// Sends these bytes and closes; returns how many came, and their checksum.
    async fn exchange(stream: TcpStream, sent: Vec<u8>) -> (usize, u64) {
        let (mut reader, mut writer) = stream.into_split();
        let sending = spawn(async move {
            writer.write_all(&sent).await.unwrap();
            writer.close().await.unwrap();
        });
        let mut got = Vec::new();
        reader.read_to_end(&mut got).await.unwrap();
        sending.await.unwrap();
        (got.len(), checksum(&got))
    }

    #[test]
    fn megabytes_go_in_both_directions_at_once_and_arrive_as_they_were_sent() {
        let _alive = watchdog(LONG);
        let (there, back) = (noise(1, 6_000_001), noise(2, 3_000_017));
        let sums = [&there, &back].map(|sent| (sent.len(), checksum(sent)));
        block_on(async {
            let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let (address, copied) = proxy(upstream.local_addr().unwrap()).await;
            let client = TcpStream::connect(address).await.unwrap();
            let client = spawn(exchange(client, there));
            let server = exchange(upstream.accept().await.unwrap().0, back).await;
            assert_eq!([server, client.await.unwrap()], sums);
            assert_eq!(copied.await.unwrap().unwrap(), (6_000_001, 3_000_017));
        });
    }

    #[test]
    fn a_client_that_resets_is_an_error_of_its_direction() {
        let _alive = watchdog(LONG);
        block_on(async {
            let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let (address, copied) = proxy(upstream.local_addr().unwrap()).await;
            let mut client = TcpStream::connect(address).await.unwrap();
            let (mut server, _) = upstream.accept().await.unwrap();
            client.write_all(b"hello").await.unwrap();
            server.read_exact(&mut [0; 5]).await.unwrap();
            client.set_linger(Some(Duration::ZERO)).unwrap();
            drop(client);
            let error = copied.await.unwrap().unwrap_err();
            assert_eq!((error.direction(), error.is_read()), (Some(Direction::AToB), true), "{error}");
            assert_eq!((error.kind(), error.copied()), (ErrorKind::ConnectionReset, (5, 0)));
            // The streams of the proxy are gone, and its upstream hears of it.
            assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
        });
    }
}
