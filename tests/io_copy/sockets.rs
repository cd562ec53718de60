//! Over sockets: megabytes, and a client that resets.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use crate::Copied;
use crate::common::{self, LONG, watchdog};
use futures::{AsyncReadExt, AsyncWriteExt};
use mainspring::io::{Direction, copy_bidirectional};
use mainspring::net::{TcpListener, TcpStream};
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
