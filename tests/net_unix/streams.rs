//! Streams and listeners, their halves, and peers that close.

use crate::Place;
use crate::common::{LONG, is_ready, ms, paused};
use crate::net_support::{self, no_child_begins, run};
use futures::stream::FusedStream;
use futures::{AsyncReadExt, AsyncWriteExt, StreamExt};
use mainspring::io::{AsyncFd, Interest};
use mainspring::net::ReuniteError;
use mainspring::net::unix::{UnixListener, UnixStream};
use mainspring::task::{has_budget_remaining, yield_now};
use mainspring::{sleep, spawn, timeout};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Write};
use std::net::Shutdown;
use std::os::unix::net;
use std::sync::Arc;

#[test]
fn a_thousand_messages_are_echoed_in_order() {
    run(async {
        let place = Place::new("echo");
        let listener = UnixListener::bind(&place).unwrap();
        assert_eq!(listener.local_addr().unwrap().as_pathname(), Some(place.as_ref()));
        let serving = spawn(async move {
            let (stream, peer) = listener.accept().await.unwrap();
            assert!(peer.is_unnamed());
            let (reader, mut writer) = stream.into_split();
            futures::io::copy(reader, &mut writer).await.unwrap()
        });
        let client = UnixStream::connect(&place).await.unwrap();
        assert_eq!(client.peer_addr().unwrap().as_pathname(), Some(place.as_ref()));
        let (mut reader, mut writer) = client.into_split();
        assert_eq!(reader.peer_addr().unwrap().as_pathname(), Some(place.as_ref()));
        assert!(writer.local_addr().unwrap().is_unnamed());
        let message = |n: u32| format!("message {n} {}\n", "x".repeat(n as usize % 300));
        let sending = spawn(async move {
            for n in 0..1000 {
                writer.write_all(message(n).as_bytes()).await.unwrap();
            }
        });
        for n in 0..1000 {
            let mut got = vec![0; message(n).len()];
            reader.read_exact(&mut got).await.unwrap();
            assert_eq!(got, message(n).as_bytes());
        }
        sending.await.unwrap();
        // The writing half is gone: so the server has seen the end of the stream, and ends.
        assert_eq!(reader.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(serving.await.unwrap(), (0..1000).map(|n| message(n).len() as u64).sum::<u64>());
    });
}

#[test]
fn a_pair_is_two_connected_streams_that_are_read_and_written_in_every_way() {
    run(async {
        let (one, mut other) = UnixStream::pair().unwrap();
        let mut buffer = [0; 8];
        assert_eq!(other.try_read(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(one.try_write(b"hello").unwrap(), 5);
        other.readable().await.unwrap();
        assert_eq!(other.try_read(&mut buffer).unwrap(), 5);
        let parts = [io::IoSlice::new(b"he"), io::IoSlice::new(b"llo")];
        assert_eq!((&one).write_vectored(&parts).await.unwrap(), 5);
        assert_eq!(one.try_write_vectored(&parts).unwrap(), 5);
        let (mut start, mut end) = ([0; 3], [0; 7]);
        let mut parts = [io::IoSliceMut::new(&mut start), io::IoSliceMut::new(&mut end)];
        assert_eq!(other.read_vectored(&mut parts).await.unwrap(), 10);
        assert_eq!((&start, &end), (b"hel", b"lohello"));
        let mut parts = [io::IoSliceMut::new(&mut start)];
        assert_eq!(other.try_read_vectored(&mut parts).unwrap_err().kind(), ErrorKind::WouldBlock);
        one.writable().await.unwrap();
        assert!(one.take_error().unwrap().is_none());
        // Closing ends only the writing direction.
        (&one).close().await.unwrap();
        assert_eq!(other.read(&mut buffer).await.unwrap(), 0);
        other.write_all(b"still").await.unwrap();
        assert_eq!((&one).read(&mut buffer).await.unwrap(), 5);
    });
}

/// The system looks at no more than about a thousand buffers. If these have no room, it reads nothing, as at a stream's end.
#[test]
fn buffers_without_room_in_front_of_others_do_not_end_a_stream() {
    const PLACES: usize = 2_000;
    run(async {
        let (one, other) = net::UnixStream::pair().unwrap();
        let (descriptor, peer) = net::UnixStream::pair().unwrap();
        let (unix, descriptor) = (UnixStream::from_std(one).unwrap(), AsyncFd::new(descriptor).unwrap());
        let (tcp, tcp_peer) = net_support::pair().await;
        (&tcp_peer).write_all(b"hellohello").unwrap();
        (&other).write_all(b"hellohello").unwrap();
        (&peer).write_all(b"hello").unwrap();
        tcp.readable().await.unwrap();
        let mut places = [[0; 5]; 5];
        for (n, place) in places.iter_mut().enumerate() {
            let mut bufs: Vec<_> = (0..PLACES).map(|_| IoSliceMut::new(&mut [])).collect();
            bufs.push(IoSliceMut::new(place));
            let read = match n {
                0 => tcp.try_read_vectored(&mut bufs),
                1 => (&tcp).read_vectored(&mut bufs).await,
                2 => unix.try_read_vectored(&mut bufs),
                3 => (&unix).read_vectored(&mut bufs).await,
                _ => (&descriptor).read_vectored(&mut bufs).await,
            };
            assert_eq!(read.unwrap(), 5, "{n}");
        }
        assert_eq!(places, [*b"hello"; 5]);
        // All without room.
        let read = unix.try_read_vectored(&mut [IoSliceMut::new(&mut []), IoSliceMut::new(&mut [])]);
        assert_eq!(read.unwrap(), 0);
        let mut bufs = vec![IoSlice::new(b""); PLACES];
        bufs.push(IoSlice::new(b"hello"));
        assert_eq!((&descriptor).write_vectored(&bufs).await.unwrap(), 5);
    });
}

#[test]
fn a_peer_that_closes_wakes_reader_and_writer() {
    run(async {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut reader, mut writer) = one.into_split();
        let reading = spawn(async move { reader.read(&mut [0]).await });
        let writing = spawn(async move { writer.write_all(&vec![0; 10_000_000]).await });
        sleep(ms(5)).await;
        assert!(!reading.is_finished() && !writing.is_finished());
        drop(other);
        // Linux reports that the peer has left unread bytes that were sent to it.
        let read = reading.await.unwrap();
        assert!(matches!(&read, Ok(0)) || read.unwrap_err().kind() == ErrorKind::ConnectionReset);
        assert_eq!(writing.await.unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
        let (mut one, other) = UnixStream::pair().unwrap();
        drop(other);
        assert_eq!(one.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(one.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        one.close().await.unwrap();
    });
}

#[test]
fn a_shutdown_by_one_task_ends_the_waits_of_others() {
    run(async {
        for how in [Shutdown::Write, Shutdown::Read, Shutdown::Both] {
            let (one, _other) = UnixStream::pair().unwrap();
            let one = Arc::new(one);
            let (reader, writer) = (one.clone(), one.clone());
            let reading = spawn(async move { (&*reader).read(&mut [0]).await });
            let writing = spawn(async move { (&*writer).write_all(&vec![0; 10_000_000]).await });
            sleep(ms(5)).await;
            assert!(!reading.is_finished() && !writing.is_finished());
            one.shutdown(how).unwrap();
            if how != Shutdown::Write {
                let read = timeout(LONG / 10, reading).await.expect("the reader is told");
                assert_eq!(read.unwrap().unwrap(), 0, "{how:?}");
            }
            if how != Shutdown::Read {
                let written = timeout(LONG / 10, writing).await.expect("the writer is told");
                assert_eq!(written.unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe, "{how:?}");
            }
        }
    });
}

#[test]
fn a_listener_whose_path_is_removed_takes_nobody_more_and_keeps_whom_it_has() {
    let _alone = no_child_begins();
    run(async {
        let place = Place::new("removed");
        let listener = UnixListener::bind(&place).unwrap();
        assert_eq!(UnixListener::bind(&place).unwrap_err().kind(), ErrorKind::AddrInUse);
        let mut early = UnixStream::connect(&place).await.unwrap();
        std::fs::remove_file(&place).unwrap();
        assert_eq!(UnixStream::connect(&place).await.unwrap_err().kind(), ErrorKind::NotFound);
        let (mut accepted, _) = listener.accept().await.unwrap();
        accepted.write_all(b"hello").await.unwrap();
        early.read_exact(&mut [0; 5]).await.unwrap();
        assert!(!is_ready(listener.accept()).await);
        // A new listener at the same path is a different one.
        let second = UnixListener::bind(&place).unwrap();
        let _client = UnixStream::connect(&place).await.unwrap();
        second.accept().await.unwrap();
        assert!(!is_ready(listener.accept()).await);
        // The file outlives its listener, and then nothing listens there.
        drop(second);
        assert_eq!(UnixStream::connect(&place).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn several_tasks_accept_and_a_stream_of_connections_is_fused() {
    run(async {
        let place = Place::new("accept");
        let listener = Arc::new(UnixListener::bind(&place).unwrap());
        let accepting: Vec<_> = (0..4)
            .map(|_| {
                let listener = listener.clone();
                spawn(async move { listener.accept().await.unwrap() })
            })
            .collect();
        yield_now().await;
        let clients: Vec<_> = (0..5).map(|_| net::UnixStream::connect(&place).unwrap()).collect();
        for accepted in accepting {
            accepted.await.unwrap();
        }
        let mut incoming = listener.incoming();
        futures::select! {
            stream = incoming.next() => drop(stream.unwrap().unwrap()),
        }
        assert!(!incoming.is_terminated());
        assert!(listener.take_error().unwrap().is_none());
        drop(clients);
    });
}

#[test]
fn halves_are_put_together_again_and_strange_ones_given_back() {
    run(async {
        let (one, other) = UnixStream::pair().unwrap();
        let (one_reader, one_writer) = one.into_split();
        let (other_reader, other_writer) = other.into_split();
        let ReuniteError(one_reader, other_writer) = one_reader.reunite(other_writer).unwrap_err();
        // The halves do what the stream does.
        let halves: (&UnixStream, &UnixStream) = (one_reader.as_ref(), other_writer.as_ref());
        assert_eq!(halves.1.try_io(Interest::Writable, || Ok(1)).unwrap(), 1);
        let mut one = one_writer.reunite(one_reader).unwrap();
        let other = other_reader.reunite(other_writer).unwrap();
        // That has not ended the direction.
        (&other).write_all(b"x").await.unwrap();
        one.read_exact(&mut [0]).await.unwrap();
        drop(one.into_split().1);
        assert_eq!((&other).read(&mut [0]).await.unwrap(), 0);
    });
}

/// The budget decides, because time is paused: no slice ends meanwhile.
#[test]
fn connections_take_part_in_the_budget() {
    paused().block_on(async {
        let place = Place::new("budget");
        let _listener = net::UnixListener::bind(&place).unwrap();
        yield_now().await;
        let mut streams = Vec::new();
        while has_budget_remaining() && streams.len() < 129 {
            streams.push(UnixStream::connect(&place).await.unwrap());
        }
        assert_eq!(streams.len(), 128);
    });
}
