//! Every byte arrives, whether a direction ends, waits, or never runs dry.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use crate::common::{LONG, ms, paused, watchdog};
use crate::duplex::{Duplex, duplex};
use crate::{Copied, Fake, endless, sink};
use futures::io::BufWriter;
use futures::{AsyncReadExt, AsyncWriteExt};
use mainspring::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use mainspring::{block_on, sleep, spawn, timeout};

/// A copy in a task of its own, with the outer ends of its connections. `room` is the room of each of the two connections.
fn copying(room: usize) -> (Duplex, Duplex, Copied) {
    let (client, mut a) = duplex(room);
    let (mut b, server) = duplex(room);
    (client, server, spawn(async move { copy_bidirectional(&mut a, &mut b).await }))
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
        // Far less room than bytes: most of the bytes wait at the writers when both have closed.
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
fn a_stream_that_never_runs_dry_starves_neither_the_other_direction_nor_other_tasks() {
    let _alive = watchdog(LONG);
    block_on(async {
        let (mut a, mut b) = (Fake { read: endless, write: sink }, Fake { read: endless, write: sink });
        let mut copy = pin!(copy_bidirectional(&mut a, &mut b).buffer_size(10).idle(LONG));
        // The time is checked although the streams are always ready.
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

/// A `BufWriter` that can also read.
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
                // Shorter than the time that the reader needs to make room.
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
