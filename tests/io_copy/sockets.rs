//! Over sockets: megabytes, and a client that resets.

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use crate::Copied;
use crate::common::{self, LONG, watchdog};
use futures::future::{Either, select};
use futures::{AsyncReadExt, AsyncWriteExt};
use mainspring::io::{Direction, copy_bidirectional};
use mainspring::net::{TcpListener, TcpStream};
use mainspring::time::{Instant, sleep_until};
use mainspring::{block_on, spawn};

/// Accepts one connection and passes it on to `upstream`.
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

/// Bytes that differ at each position and for each seed.
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

/// Sends these bytes and closes; returns how many bytes came, and their checksum.
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
        // The streams of the proxy are gone, and its upstream is told.
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
    });
}

/// The task does something else for long, and only then polls the copy, whose byte has come meanwhile: before the limit's timer is
/// fired, or, if `moved`, after that, but before the end that an earlier byte has moved. Returns whether the byte came in time.
fn hold_up(moved: bool) -> bool {
    let limit = Duration::from_millis(200);
    let hold_until = |end: Instant| while Instant::now() < end {};
    block_on(async {
        let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = upstream.local_addr().unwrap();
        let mut a = TcpStream::connect(address).await.unwrap();
        let mut client = upstream.accept().await.unwrap().0.into_std().unwrap();
        let mut b = TcpStream::connect(address).await.unwrap();
        let (mut server, _) = upstream.accept().await.unwrap();
        let start = Instant::now();
        let busy = async {
            let mut end = start + limit;
            if moved {
                sleep_until(start + limit / 2).await;
                end += limit / 2;
                client.write_all(b"1").unwrap();
                server.read_exact(&mut [0]).await.unwrap();
                // Lets the timer fire together with the sleep.
                spawn(async move {
                    sleep_until(start + limit * 9 / 10).await;
                    hold_until(start + limit * 11 / 10);
                })
                .detach();
                sleep_until(start + limit * 19 / 20).await;
            } else {
                // The timer is due directly after this.
                sleep_until(start + limit - Duration::from_micros(500)).precise().await;
            }
            client.write_all(b"2").unwrap();
            let in_time = Instant::now() < end;
            hold_until(start + 2 * limit);
            in_time
        };
        // The copy goes on after that, until the byte has arrived or the limit has ended it.
        let mut copy = pin!(copy_bidirectional(&mut a, &mut b).idle(limit));
        let in_time = match select(pin!(busy), copy.as_mut()).await {
            Either::Left((in_time, _)) => in_time,
            Either::Right(_) => return false,
        };
        let copied = matches!(select(server.read_exact(&mut [0]), copy).await, Either::Left((Ok(()), _)));
        assert!(copied || !in_time, "silent, although a byte came in time (moved: {moved})");
        in_time
    })
}

#[test]
fn a_byte_that_came_in_time_while_the_task_held_the_thread_up_is_seen_before_the_limit() {
    let _alive = watchdog(LONG);
    for moved in [false, true] {
        // On a busy machine the byte may be late.
        while !hold_up(moved) {}
    }
}
