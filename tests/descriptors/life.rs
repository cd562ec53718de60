//! The life of a watched descriptor: what it leaves alone when it is dropped, and what outlives its runtime.

use crate::common::{LONG, is_ready, orphan, watchdog};
use crate::pipe;
use futures::channel::oneshot;
use futures::{AsyncReadExt, AsyncWriteExt};
use mainspring::io::{AsyncFd, Interest};
use mainspring::task::yield_now;
use mainspring::{Runtime, block_on, spawn};
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::thread;

#[test]
fn a_wait_that_is_dropped_and_a_descriptor_that_is_dropped_leave_the_others_alone() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (reader, mut writer) = pipe();
        let copy = reader.try_clone().unwrap();
        let reader = AsyncFd::new(reader).unwrap();
        assert!(!is_ready(reader.readable()).await);
        let waiting = spawn({
            let other = AsyncFd::new(copy).unwrap();
            async move { other.readable().await }
        });
        yield_now().await;
        // A copy of the same end, and another wait: the drop affects neither.
        drop(reader);
        writer.write_all(b"x").unwrap();
        waiting.await.unwrap().unwrap();
        // Hundreds of descriptors that come and go in the middle of a wait, under the same number.
        for _ in 0..300 {
            let (reader, mut writer) = pipe();
            let mut reader = AsyncFd::new(reader).unwrap();
            assert!(!is_ready(reader.readable()).await);
            writer.write_all(b"x").unwrap();
            if writer.as_raw_fd() % 2 == 0 {
                reader.read_exact(&mut [0]).await.unwrap();
            }
        }
    });
}

#[test]
fn what_is_taken_back_is_whole_and_watched_no_longer() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (one, mut other) = UnixStream::pair().unwrap();
        let number = one.as_raw_fd();
        let mut watched = AsyncFd::new(one).unwrap();
        assert!(!is_ready(watched.readable()).await);
        watched.get_mut().set_read_timeout(Some(LONG)).unwrap();
        let one = watched.into_inner().unwrap();
        assert_eq!(one.as_raw_fd(), number);
        one.set_nonblocking(false).unwrap();
        other.write_all(b"x").unwrap();
        (&one).read_exact(&mut [0]).unwrap();
        // The descriptor can be watched again.
        let one = AsyncFd::new(one).unwrap();
        other.write_all(b"x").unwrap();
        one.readable().await.unwrap();
    });
}

#[test]
fn without_a_runtime_there_is_an_error_that_says_so() {
    let (reader, _writer) = pipe();
    for error in [
        AsyncFd::new(&reader).unwrap_err(),
        AsyncFd::with_interest(&reader, Interest::Readable).unwrap_err(),
        AsyncFd::unchanged(&reader, None).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(error.to_string().starts_with("no Mainspring runtime on this thread"), "{error}");
    }
}

#[test]
fn a_descriptor_outlives_its_runtime_as_an_error() {
    let _watchdog = watchdog(LONG);
    let (reader, writer) = pipe();
    let (mut reader, mut writer) = orphan(|| (AsyncFd::new(reader).unwrap(), AsyncFd::new(writer).unwrap()));
    let gone = |error: io::Error| {
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(error.to_string().contains("has shut down"), "{error}");
    };
    block_on(async {
        gone(reader.readable().await.unwrap_err());
        gone(writer.writable().await.unwrap_err());
        gone(reader.read(&mut [0]).await.unwrap_err());
        gone(writer.write(b"x").await.unwrap_err());
        gone(reader.try_io(Interest::Readable, |_| Ok(())).unwrap_err());
        gone(poll_fn(|cx| reader.poll_io(cx, Interest::Readable, |_| Ok(()))).await.unwrap_err());
        // The descriptor inside is intact, and another runtime takes it.
        let mut again = AsyncFd::new(reader.into_inner().unwrap()).unwrap();
        writer.into_inner().unwrap().write_all(b"x").unwrap();
        again.read_exact(&mut [0]).await.unwrap();
    });
}

#[test]
fn a_task_elsewhere_that_waits_is_told_that_the_runtime_is_gone() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let (reader, _writer) = pipe();
    let reader = runtime.block_on(async { AsyncFd::new(reader).unwrap() });
    let (polled, begun) = std::sync::mpsc::channel();
    let waiting = thread::spawn(move || {
        let mut waiting = pin!(reader.readable());
        futures::executor::block_on(poll_fn(|cx| {
            let result = waiting.as_mut().poll(cx);
            let _ = polled.send(());
            result
        }))
    });
    begun.recv().unwrap();
    drop(runtime);
    assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Other);
}

#[test]
fn whatever_has_a_descriptor_may_be_watched_and_goes_where_it_may() {
    fn anywhere<T: Send + Sync + UnwindSafe + RefUnwindSafe + Unpin>() {}
    anywhere::<AsyncFd<OwnedFd>>();
    anywhere::<AsyncFd<File>>();
    anywhere::<AsyncFd<BorrowedFd<'static>>>();
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (reader, mut writer) = pipe();
        writer.write_all(b"x").unwrap();
        AsyncFd::new(reader.as_fd()).unwrap().readable().await.unwrap();
        AsyncFd::new(&reader).unwrap().readable().await.unwrap();
        let shared = Arc::new(reader);
        let watched = AsyncFd::new(shared.clone()).unwrap();
        assert_eq!(watched.as_raw_fd(), shared.as_raw_fd());
        // On another thread, which wakes this one.
        let (done, read) = oneshot::channel();
        let reading = thread::spawn(move || done.send(futures::executor::block_on(watched.readable())));
        read.await.unwrap().unwrap();
        reading.join().unwrap().unwrap();
    });
}
