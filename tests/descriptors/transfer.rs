//! Bytes that go through: streams, tasks that share a descriptor, and waits that a timeout ends.

use crate::common::{HOUR, LONG, ms, paused, watchdog};
use crate::pipe;
use futures::future::join_all;
use futures::{AsyncReadExt, AsyncWriteExt};
use mainspring::io::{AsyncFd, Interest};
use mainspring::task::yield_now;
use mainspring::{block_on, sleep, spawn, timeout};
use std::fs::File;
use std::future::Future;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

const MESSAGES: u32 = 1000;

/// Sends numbers, each of which may arrive in pieces.
async fn send_all(mut writer: impl futures::AsyncWrite + Unpin) {
    for n in 0..MESSAGES {
        writer.write_all(&n.to_ne_bytes()).await.unwrap();
    }
}

async fn receive_all(mut reader: impl futures::AsyncRead + Unpin) {
    let mut bytes = [0; 4];
    for n in 0..MESSAGES {
        reader.read_exact(&mut bytes).await.unwrap();
        assert_eq!(u32::from_ne_bytes(bytes), n);
    }
}

#[test]
fn a_pipe_carries_what_is_written_and_then_its_end() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (reader, writer) = pipe();
        let (mut reader, mut writer) = (AsyncFd::new(reader).unwrap(), AsyncFd::new(writer).unwrap());
        // More bytes than a pipe holds, so that both sides have to wait for one another.
        let sent: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
        let copy = sent.clone();
        let writing = spawn(async move {
            writer.write_all(&copy).await.unwrap();
            writer.close().await.unwrap();
        });
        let mut received = Vec::new();
        reader.read_to_end(&mut received).await.unwrap();
        writing.await.unwrap();
        assert!(received == sent);
        // The end of the stream remains the end.
        assert_eq!(reader.read(&mut [0]).await.unwrap(), 0);
    });
}

#[test]
fn a_writer_whose_reader_is_gone_is_told() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (reader, writer) = pipe();
        let mut writer = AsyncFd::new(writer).unwrap();
        let filled = timeout(ms(20), writer.write_all(&[0; 1_000_000])).await;
        assert!(filled.is_err(), "a pipe does not hold that much");
        // The writer waits when the reader goes.
        let writing = spawn(async move { writer.write_all(b"more").await });
        sleep(ms(5)).await;
        drop(reader);
        assert_eq!(writing.await.unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_reader_and_a_writer_in_two_tasks_share_one_descriptor() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (one, other) = UnixStream::pair().unwrap();
        let (one, other) = (AsyncFd::new(one).unwrap(), AsyncFd::new(other).unwrap());
        let tasks: Vec<_> = [Arc::new(one), Arc::new(other)]
            .into_iter()
            .flat_map(|end| {
                let reader = end.clone();
                [
                    spawn(async move { receive_all(&*reader).await }),
                    spawn(async move { send_all(&*end).await }),
                ]
            })
            .collect();
        for ended in join_all(tasks).await {
            ended.unwrap();
        }
    });
}

#[test]
fn any_number_of_tasks_wait_for_one_direction() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (reader, mut writer) = pipe();
        let reader = Arc::new(AsyncFd::new(reader).unwrap());
        let tasks: Vec<_> = (0..10)
            .map(|_| {
                let reader = reader.clone();
                let read = |mut file: &File| {
                    let mut byte = [0];
                    file.read_exact(&mut byte).map(|()| byte[0])
                };
                spawn(async move { reader.async_io(Interest::Readable, read).await.unwrap() })
            })
            .collect();
        sleep(ms(1)).await;
        for n in 0..10 {
            writer.write_all(&[n]).unwrap();
            yield_now().await;
        }
        let mut got: Vec<_> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
        got.sort();
        assert_eq!(got, (0..10).collect::<Vec<_>>());
    });
}

#[test]
fn a_future_of_ones_own_waits_by_poll_io() {
    struct Numbers<'a>(&'a AsyncFd<File>);

    impl Future for Numbers<'_> {
        type Output = io::Result<u32>;

        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u32>> {
            self.0.poll_io(cx, Interest::Readable, |mut file| {
                let mut bytes = [0; 4];
                file.read_exact(&mut bytes).map(|()| u32::from_ne_bytes(bytes))
            })
        }
    }

    let _watchdog = watchdog(LONG);
    block_on(async {
        let (reader, writer) = pipe();
        let (reader, writer) = (AsyncFd::new(reader).unwrap(), AsyncFd::new(writer).unwrap());
        let writing = spawn(async move { send_all(&writer).await });
        for n in 0..MESSAGES {
            assert_eq!(Numbers(&reader).await.unwrap(), n);
        }
        writing.await.unwrap();
    });
}

#[test]
fn a_timeout_around_a_read_loses_nothing() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (reader, mut writer) = pipe();
        let mut reader = AsyncFd::new(reader).unwrap();
        let (write, told) = std::sync::mpsc::channel();
        let writing = thread::spawn(move || told.iter().for_each(|n: u8| writer.write_all(&[n]).unwrap()));
        for n in 0..50 {
            let mut byte = [0];
            assert!(timeout(Duration::from_micros(300), reader.read(&mut byte)).await.is_err());
            write.send(n).unwrap();
            // Some of these timeouts elapse, and no byte is lost with them.
            let read = loop {
                if let Ok(read) = timeout(Duration::from_micros(10), reader.read(&mut byte)).await {
                    break read.unwrap();
                }
            };
            assert_eq!((read, byte), (1, [n]));
        }
        drop(write);
        writing.join().unwrap();
    });
}

#[test]
fn what_a_pipe_has_to_tell_comes_before_time_jumps() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let start = mainspring::time::Instant::now();
        let (reader, mut writer) = pipe();
        let mut reader = AsyncFd::new(reader).unwrap();
        for n in 0..100 {
            let mut byte = [0];
            // The byte is in the kernel when the write returns: no timeout, however short, may come first.
            let reading = timeout(Duration::from_nanos(1), reader.read_exact(&mut byte));
            let writing = async {
                yield_now().await;
                writer.write_all(&[n]).unwrap();
            };
            let (read, ()) = futures::join!(reading, writing);
            read.expect("the byte is there").unwrap();
            assert_eq!(byte, [n]);
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        // And with nothing to report, time jumps.
        assert!(timeout(HOUR, reader.read(&mut [0])).await.is_err());
        assert!(start.elapsed() >= HOUR);
    });
}

/// There is nothing to flush, so there is nothing to wait for.
#[test]
fn a_flush_does_not_wait_for_room() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (_reader, writer) = pipe();
        let mut writer = AsyncFd::new(writer).unwrap();
        let much = vec![0; 1 << 20];
        assert!(timeout(ms(10), writer.write_all(&much)).await.is_err());
        writer.flush().await.unwrap();
        writer.close().await.unwrap();
    });
}

/// Code in blocking mode may block in a flush, so it waits for room.
#[test]
fn a_flush_waits_where_it_might_block() {
    struct Flushes<'a>(&'a UnixStream);
    impl std::os::fd::AsFd for Flushes<'_> {
        fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
    impl Write for &Flushes<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            (&mut &*self.0).write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            (&mut &*self.0).write(b"x").map(drop)
        }
    }
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        while (&mut &ours).write(&[0; 4096]).is_ok() {}
        ours.set_nonblocking(false).unwrap();
        let mut socket = AsyncFd::unchanged(Flushes(&ours), None).unwrap();
        assert!(timeout(ms(10), socket.flush()).await.is_err());
        theirs.set_nonblocking(true).unwrap();
        while (&mut &theirs).read(&mut [0; 4096]).is_ok() {}
        socket.flush().await.unwrap();
    });
}
