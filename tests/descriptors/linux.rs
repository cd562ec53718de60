//! What a descriptor stands for on Linux: time, files, processes, terminals.

use crate::common::{LONG, is_ready, ms, watchdog};
use crate::pipe;
use futures::AsyncReadExt;
use mainspring::io::{AsyncFd, Interest};
use mainspring::{block_on, sleep, timeout};
use rustix::fs::inotify;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

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
fn a_device_that_is_always_ready_is_refused_and_the_error_does_not_take_it_for_a_file() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        for device in ["/dev/null", "/dev/zero"] {
            let error = AsyncFd::new(File::open(device).unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("a device such as /dev/null"), "{error}");
        }
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
        // The refusal has harmed neither descriptor.
        first.readable().await.unwrap();
        copy.readable().await.unwrap();
    });
}

/// The poller goes on watching a file that was replaced under its number, and of which there is a copy.
#[test]
fn a_file_that_is_replaced_under_its_number_disturbs_no_newcomer() {
    let _watchdog = watchdog(LONG);
    for takes_out in [false, true] {
        block_on(async {
            let (reader, mut writer) = pipe();
            let _copy = reader.try_clone().unwrap();
            let mut replaced = AsyncFd::new(OwnedFd::from(reader)).unwrap();
            rustix::io::dup2(File::open("/dev/null").unwrap(), replaced.get_mut()).unwrap();
            if takes_out {
                assert!(replaced.into_inner().is_err(), "the poller does not know what is there now");
            } else {
                drop(replaced);
            }
            // By then its key would have been given to the next source.
            sleep(ms(2)).await;
            let (silent, _writer) = pipe();
            let newcomer = AsyncFd::new(silent).unwrap();
            writer.write_all(b"x").unwrap();
            sleep(ms(2)).await;
            assert!(!is_ready(newcomer.readable()).await, "an event of the old file");
        });
    }
}

/// A socket is watched from when it first has to wait. If its descriptor is watched by then, it says so.
#[test]
#[cfg(feature = "net")]
fn a_socket_whose_descriptor_is_watched_says_so_when_it_has_to_wait() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (socket, _peer) = mainspring::net::unix::UnixStream::pair().unwrap();
        let watching = AsyncFd::new(std::os::fd::AsFd::as_fd(&socket)).unwrap();
        let error = socket.try_read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert!(error.to_string().contains("watch a copy"), "{error}");
        drop(watching);
        assert_eq!(socket.try_read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
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
                // Room for few events at a time: a read that fills the buffer does not show what is left, either.
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

/// A short read does not show what is left. An edge-triggered poller does not report it again.
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
    // The table of mounts reports a change as an error and as something urgent. Nothing changes here; the test can only
    // show that it is accepted, and is ready in the way that a reader sees it.
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mounts = AsyncFd::new(File::open("/proc/self/mounts").unwrap()).unwrap();
        timeout(LONG, mounts.readable()).await.unwrap().unwrap();
        assert!(mounts.try_io(Interest::Readable, |mut file| file.read(&mut [0; 64])).unwrap() > 0);
    });
}
