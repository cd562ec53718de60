//! Anything with a descriptor: pipes, terminals, what Linux has for time, files and processes; and what can go wrong with it.
#![cfg(unix)]

mod common;

use common::{HOUR, LONG, ms, orphan, paused, watchdog};
use futures::channel::oneshot;
use futures::future::join_all;
use futures::{AsyncReadExt, AsyncWriteExt};
use mainspring::io::{AsyncFd, Interest};
use mainspring::task::yield_now;
use mainspring::{Runtime, block_on, sleep, spawn, timeout};
use std::cell::Cell;
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

const MESSAGES: u32 = 1000;

/// The two ends of a pipe, for reading and for writing.
fn pipe() -> (File, File) {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    (File::from(reader), File::from(writer))
}

/// Whether calls by this descriptor return instead of waiting.
fn is_nonblocking(fd: impl AsFd) -> bool {
    rustix::fs::fcntl_getfl(fd).unwrap().contains(rustix::fs::OFlags::NONBLOCK)
}

/// Polls once.
async fn is_ready(future: impl Future) -> bool {
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

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
        // More than a pipe holds, so that both have to wait for one another.
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
        // The end stays the end.
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
        // It waits when the reader goes.
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
        // A read that waits blocks nobody else.
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
fn a_blocking_descriptor_is_read_once_for_each_event_without_blocking() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        // As its documentation says: who cannot change the mode asks for the readiness, and says when it is used up.
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
        // What was there before it was registered is told, too.
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
        // The trap that its documentation names: these calls find nothing, and nobody is told.
        for _ in 0..3 {
            assert_eq!(read(reader.get_ref()).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert!(is_ready(reader.readable()).await);
        }
        assert_eq!(reader.try_io(Interest::Readable, read).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(!is_ready(reader.readable()).await);
        // What is known not to be ready is not even tried, and what arrives is.
        assert!(reader.try_io(Interest::Readable, |_| -> io::Result<()> { panic!("it is tried") }).is_err());
        writer.write_all(b"four").unwrap();
        assert_eq!(reader.async_io(Interest::Readable, read).await.unwrap(), 4);
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
            // Some of these elapse, and take nothing with them.
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
        // And with nothing to tell, time jumps.
        assert!(timeout(HOUR, reader.read(&mut [0])).await.is_err());
        assert!(start.elapsed() >= HOUR);
    });
}

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
        // A copy of the same end, and another wait: neither is taken along.
        drop(reader);
        writer.write_all(b"x").unwrap();
        waiting.await.unwrap().unwrap();
        // Hundreds that come and go in the middle of a wait, under the same number.
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
        // It can be watched again.
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
        // What is inside is as good as ever, and another runtime takes it.
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

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use rustix::fs::inotify;
    use rustix::pipe::{PipeFlags, pipe_with};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
    use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
    use rustix::time::{timerfd_create, timerfd_settime};
    use std::mem::MaybeUninit;
    use std::process::{Command, Stdio};

    #[test]
    fn a_regular_file_is_refused_with_what_to_do() {
        let _watchdog = watchdog(LONG);
        block_on(async {
            let error = AsyncFd::new(File::open(std::env::current_exe().unwrap()).unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("on another thread"), "{error}");
        });
    }

    #[test]
    fn a_descriptor_that_is_watched_already_is_refused_and_its_copy_is_not() {
        let _watchdog = watchdog(LONG);
        block_on(async {
            let (reader, mut writer) = pipe();
            let first = AsyncFd::new(&reader).unwrap();
            let error = AsyncFd::new(&reader).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            assert!(error.to_string().contains("watch a copy"), "{error}");
            let copy = AsyncFd::new(reader.try_clone().unwrap()).unwrap();
            writer.write_all(b"x").unwrap();
            // The refusal has harmed neither.
            first.readable().await.unwrap();
            copy.readable().await.unwrap();
        });
    }

    #[test]
    fn a_timerfd_is_awaited() {
        let _watchdog = watchdog(LONG);
        block_on(async {
            let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).unwrap();
            let timer = AsyncFd::with_interest(timer, Interest::Readable).unwrap();
            let start = Instant::now();
            let after = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
            let never = Timespec { tv_sec: 0, tv_nsec: 0 };
            let value = Itimerspec { it_value: after, it_interval: never };
            timerfd_settime(&timer, TimerfdTimerFlags::empty(), &value).unwrap();
            let mut count = [0; 8];
            let read = |timer: &OwnedFd| Ok(rustix::io::read(timer, &mut count)?);
            assert_eq!(timer.async_io(Interest::Readable, read).await.unwrap(), 8);
            assert!(start.elapsed() >= ms(5));
            assert_eq!(u64::from_ne_bytes(count), 1);
            assert!(
                !is_ready(timer.async_io(Interest::Readable, |_| Err::<(), _>(ErrorKind::WouldBlock.into())))
                    .await
            );
        });
    }

    #[test]
    fn an_inotify_tells_of_each_file_once() {
        let _watchdog = watchdog(LONG);
        let directory = std::env::temp_dir().join(format!("mainspring-inotify-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        block_on(async {
            let inotify = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
            inotify::add_watch(&inotify, &directory, inotify::WatchFlags::CREATE).unwrap();
            let inotify = AsyncFd::new(inotify).unwrap();
            let making = thread::spawn({
                let directory = directory.clone();
                move || (0..20).for_each(|n| drop(File::create(directory.join(n.to_string())).unwrap()))
            });
            let mut names = Vec::new();
            while names.len() < 20 {
                let read = |fd: &OwnedFd| {
                    // Room for few at a time: a read that is full says nothing about what is left, either.
                    let mut space = [MaybeUninit::uninit(); 64];
                    let mut events = inotify::Reader::new(fd, &mut space);
                    let mut found = vec![events.next()?.file_name().unwrap().to_str().unwrap().to_owned()];
                    while !events.is_buffer_empty() {
                        found.push(events.next()?.file_name().unwrap().to_str().unwrap().to_owned());
                    }
                    Ok(found)
                };
                names.extend(inotify.async_io(Interest::Readable, read).await.unwrap());
            }
            making.join().unwrap();
            assert_eq!(names, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
        });
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn the_end_of_a_child_is_awaited_by_its_pidfd() {
        let _watchdog = watchdog(LONG);
        block_on(async {
            let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
            let pidfd = AsyncFd::unchanged(pidfd, Interest::Readable).unwrap();
            assert!(timeout(ms(10), pidfd.readable()).await.is_err(), "it has not ended");
            drop(child.stdin.take());
            pidfd.readable().await.unwrap();
            assert!(child.try_wait().unwrap().expect("it has ended").success());
        });
    }

    /// A short read says nothing about what is left. An edge-triggered poller does not tell of it again.
    #[test]
    fn a_terminals_line_and_a_pipes_packet_hide_no_other() {
        let _watchdog = watchdog(LONG);
        block_on(async {
            let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
            grantpt(&terminal).unwrap();
            unlockpt(&terminal).unwrap();
            let program = ioctl_tiocgptpeer(&terminal, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
            let mut program = AsyncFd::new(File::from(program)).unwrap();
            File::from(terminal.try_clone().unwrap()).write_all(b"one\ntwo\nthree\n").unwrap();
            let mut buffer = [0; 64];
            for line in ["one\n", "two\n", "three\n"] {
                let read = timeout(LONG, program.read(&mut buffer)).await.expect("it is there").unwrap();
                assert_eq!(&buffer[..read], line.as_bytes());
            }

            let (reader, writer) = pipe_with(PipeFlags::DIRECT | PipeFlags::CLOEXEC).unwrap();
            let mut reader = AsyncFd::new(File::from(reader)).unwrap();
            let mut writer = File::from(writer);
            (0..10).for_each(|n| writer.write_all(&vec![n; usize::from(n) + 1]).unwrap());
            for n in 0..10 {
                let read = timeout(LONG, reader.read(&mut buffer)).await.expect("it is there").unwrap();
                assert_eq!(buffer[..read], vec![n; usize::from(n) + 1]);
            }
        });
    }

    #[test]
    fn a_file_of_the_kernels_that_changes_is_awaited() {
        // The table of mounts tells of a change as of an error and as of something urgent. Nothing changes here; that it is
        // taken, and ready as a reader sees it, is what can be shown.
        let _watchdog = watchdog(LONG);
        block_on(async {
            let mounts = AsyncFd::new(File::open("/proc/self/mounts").unwrap()).unwrap();
            timeout(LONG, mounts.readable()).await.unwrap().unwrap();
            assert!(mounts.try_io(Interest::Readable, |mut file| file.read(&mut [0; 64])).unwrap() > 0);
        });
    }
}
