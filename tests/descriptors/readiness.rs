//! What counts as ready: what the poller has reported and no call has found used up, in a direction that is watched.

use crate::common::{LONG, is_ready, ms, watchdog};
use crate::pipe;
use futures::{AsyncReadExt, AsyncWriteExt};
use mainspring::io::{AsyncFd, Interest};
use mainspring::{block_on, timeout};
use std::cell::Cell;
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// Whether calls by this descriptor return instead of waiting.
fn is_nonblocking(fd: impl AsFd) -> bool {
    rustix::fs::fcntl_getfl(fd).unwrap().contains(rustix::fs::OFlags::NONBLOCK)
}

#[test]
fn a_descriptor_is_put_into_non_blocking_mode_unless_it_is_to_stay_as_it_is() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (reader, _writer) = pipe();
        assert!(!is_nonblocking(&reader));
        let unchanged = AsyncFd::unchanged(reader.as_fd(), None).unwrap();
        assert!(!is_nonblocking(&unchanged));
        drop(unchanged);
        let mut watched = AsyncFd::new(reader).unwrap();
        assert!(is_nonblocking(&watched));
        // A read that waits does not block other tasks.
        let mut byte = [0];
        let start = Instant::now();
        assert!(timeout(ms(10), watched.read(&mut byte)).await.is_err());
        assert!(start.elapsed() >= ms(10));
        drop(watched);
        let (reader, _writer) = pipe();
        assert!(is_nonblocking(AsyncFd::with_interest(reader, Interest::Readable).unwrap()));
    });
}

#[test]
fn a_descriptor_that_is_refused_keeps_its_mode() {
    let _watchdog = watchdog(LONG);
    // A terminal's mode is shared with the shell.
    let (reader, _writer) = pipe();
    assert!(AsyncFd::new(reader.as_fd()).is_err(), "there is no runtime");
    assert!(!is_nonblocking(&reader));
    block_on(async {
        let _watched = AsyncFd::unchanged(reader.as_fd(), None).unwrap();
        #[cfg(target_os = "linux")]
        assert!(AsyncFd::new(reader.as_fd()).is_err(), "it is watched already");
        #[cfg(target_os = "linux")]
        assert!(!is_nonblocking(&reader));
    });
}

#[test]
fn a_blocking_descriptor_is_read_once_for_each_event_without_blocking() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        // As its documentation says: code that cannot change the mode asks for the readiness, and reports when it is used up.
        let (reader, mut writer) = pipe();
        let reader = AsyncFd::unchanged(reader, Interest::Readable).unwrap();
        for n in 0..3 {
            writer.write_all(&[n]).unwrap();
            let got = Cell::new(None);
            let read = |mut file: &File| {
                let mut byte = [0];
                file.read_exact(&mut byte).map(|()| got.set(Some(byte[0])))?;
                Err::<(), _>(ErrorKind::WouldBlock.into())
            };
            reader.readable().await.unwrap();
            assert_eq!(reader.try_io(Interest::Readable, read).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert_eq!(got.get(), Some(n));
            assert!(!is_ready(reader.readable()).await);
        }
    });
}

#[test]
fn nothing_is_ready_before_the_poller_has_said_so() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (reader, mut writer) = pipe();
        let reader = AsyncFd::new(reader).unwrap();
        assert!(timeout(ms(5), reader.readable()).await.is_err());
        writer.write_all(b"x").unwrap();
        reader.readable().await.unwrap();
        // Bytes that were there before the registration are reported, too.
        let (ready, mut writer) = pipe();
        writer.write_all(b"x").unwrap();
        let ready = AsyncFd::new(ready).unwrap();
        assert!(!is_ready(ready.readable()).await);
        timeout(LONG, ready.readable()).await.unwrap().unwrap();
        assert!(is_ready(poll_fn(|cx| ready.poll_readable(cx))).await);
    });
}

#[test]
fn a_direction_that_is_not_watched_is_an_error() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (one, mut other) = UnixStream::pair().unwrap();
        let mut one = AsyncFd::with_interest(one, Interest::Readable).unwrap();
        let refused = |error: io::Error| {
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains("watched for the other direction only"), "{error}");
        };
        refused(one.writable().await.unwrap_err());
        refused(one.ready(Interest::Writable).await.unwrap_err());
        refused(poll_fn(|cx| one.poll_writable(cx)).await.unwrap_err());
        refused(one.write(b"x").await.unwrap_err());
        refused(one.try_io(Interest::Writable, |_| Ok(())).unwrap_err());
        refused(one.async_io(Interest::Writable, |_| Ok(())).await.unwrap_err());
        refused(poll_fn(|cx| one.poll_io(cx, Interest::Writable, |_| Ok(()))).await.unwrap_err());
        other.write_all(b"x").unwrap();
        one.read_exact(&mut [0]).await.unwrap();
        // The other way round.
        let (one, _other) = UnixStream::pair().unwrap();
        let mut one = AsyncFd::with_interest(one, Interest::Writable).unwrap();
        refused(one.read(&mut [0]).await.unwrap_err());
        one.write_all(b"x").await.unwrap();
    });
}

#[test]
fn only_a_call_inside_of_try_io_clears_the_readiness() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (reader, mut writer) = pipe();
        let reader = AsyncFd::new(reader).unwrap();
        let read = |mut file: &File| file.read(&mut [0; 8]);
        writer.write_all(b"four").unwrap();
        reader.readable().await.unwrap();
        assert_eq!(read(reader.get_ref()).unwrap(), 4);
        // The pitfall that the documentation names: these calls find nothing, and the runtime is not told.
        for _ in 0..3 {
            assert_eq!(read(reader.get_ref()).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert!(is_ready(reader.readable()).await);
        }
        assert_eq!(reader.try_io(Interest::Readable, read).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(!is_ready(reader.readable()).await);
        // A call that is known not to be ready is not even tried, and bytes that arrive are found.
        assert!(reader.try_io(Interest::Readable, |_| -> io::Result<()> { panic!("it is tried") }).is_err());
        writer.write_all(b"four").unwrap();
        assert_eq!(reader.async_io(Interest::Readable, read).await.unwrap(), 4);
    });
}
