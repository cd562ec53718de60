//! A child by `fork` has its parent's runtime, with the same poller and the same alarm. It is told so, and the parent does
//! not notice. One test, in a program of its own: a child has only the thread that forked.
#![cfg(all(target_os = "linux", feature = "net"))]

mod common;

use std::io::{Read, Write};
use std::net::UdpSocket as StdSocket;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{LONG, ms, watchdog};
use futures::channel::oneshot;
use futures::future::join_all;
use futures::{AsyncReadExt, AsyncWriteExt};
use mainspring::Runtime;
use mainspring::net::unix::UnixStream;
use mainspring::net::{TcpStream, UdpSocket};
use mainspring::task::yield_now;
use mainspring::time::{Instant, sleep, timeout};
use rustix::event::{PollFd, PollFlags, poll};

/// Returns zero in the child, whose panics are not reported.
fn fork() -> libc::pid_t {
    // SAFETY: What the child calls may allocate, which is allowed after `fork` with this C library, and takes no lock that
    // another thread may have held: the others wait for this one, or hold none that the child needs, which is to be shown.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        std::panic::set_hook(Box::new(|_| ()));
    }
    child
}

fn exit(code: u8) -> ! {
    // SAFETY: It ends the process, without what the parent has registered to be done at its end.
    unsafe { libc::_exit(code.into()) }
}

/// Waits for the child, and returns how it ended.
fn wait_for(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: The status is ours to write to.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "the child has died: {status}");
    libc::WEXITSTATUS(status)
}

/// Runs `f` in a child, and returns the value that it returns.
fn in_child(f: impl FnOnce() -> u8) -> i32 {
    match fork() {
        0 => exit(catch_unwind(AssertUnwindSafe(f)).unwrap_or(255)),
        child => wait_for(child),
    }
}

/// Whether `f` panics with a message that says what to do.
fn is_told(f: impl FnOnce()) -> bool {
    let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else { return false };
    payload
        .downcast_ref::<&str>()
        .is_some_and(|message| message.contains("`fork`") && message.contains("child"))
}

/// Which of the expectations, counted from one, is the first that does not hold.
fn first_wrong(expectations: &[bool]) -> u8 {
    expectations.iter().position(|holds| !holds).map_or(0, |at| at as u8 + 1)
}

async fn receives(socket: &UdpSocket, sender: &StdSocket) -> bool {
    let mut buf = [0; 8];
    // Nothing is there, so that the receive needs an event.
    let early = timeout(ms(1), socket.recv(&mut buf)).await;
    sender.send_to(b"x", socket.local_addr().unwrap()).unwrap();
    early.is_err() && timeout(LONG, socket.recv(&mut buf)).await.is_ok()
}

/// All cases are in one test, because no other test may run during a `fork`.
#[test]
fn a_child_is_told_and_its_parent_notices_nothing() {
    let _watchdog = watchdog(4 * LONG);
    before_a_block_on();
    by_its_drop();
    by_a_sockets_drop();
    by_the_drop_of_a_writing_half();
    inside_of_a_block_on();
    inside_of_a_block_on_that_never_sleeps();
    inside_of_a_block_on_under_a_host();
    #[cfg(feature = "process")]
    with_a_child_process();
    #[cfg(feature = "process")]
    while_others_drop_processes();
    with_work_that_blocks();
    while_others_begin_work_that_blocks();
    by_work_that_blocks();
}

/// A child whose parent had the runtime before.
fn before_a_block_on() {
    let sender = StdSocket::bind("127.0.0.1:0").unwrap();
    let runtime = Runtime::new().unwrap();
    let mut socket = Some(runtime.block_on(UdpSocket::bind("127.0.0.1:0")).unwrap());
    assert!(runtime.block_on(receives(socket.as_ref().unwrap(), &sender)));
    let wrong = in_child(|| {
        let told = is_told(|| runtime.block_on(sleep(ms(1))));
        let refused = {
            let _entered = runtime.handle().enter();
            UdpSocket::from_std(StdSocket::bind("127.0.0.1:0").unwrap()).is_err()
        };
        drop(runtime.handle().spawn(async {}));
        drop(socket.take());
        let own = Runtime::new().unwrap();
        let works = own.block_on(async {
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            receives(&socket, &sender).await
        });
        first_wrong(&[told, refused, works])
    });
    assert_eq!(wrong, 0, "expectation {wrong} of the child");
    let received = runtime.block_on(receives(socket.as_ref().unwrap(), &sender));
    assert!(received, "the child has taken the parent's socket out of the parent's poller");
}

/// A child that only drops its copy of the parent's things: a runtime with a task that has a socket.
fn by_its_drop() {
    let sender = StdSocket::bind("127.0.0.1:0").unwrap();
    let mut runtime = Some(Runtime::new().unwrap());
    let here = runtime.as_ref().unwrap();
    let socket = here.block_on(UdpSocket::bind("127.0.0.1:0")).unwrap();
    let addr = socket.local_addr().unwrap();
    let task = here.spawn(async move { socket.recv(&mut [0; 8]).await });
    here.block_on(sleep(ms(1)));
    let wrong = in_child(|| {
        drop(runtime.take());
        first_wrong(&[task.is_finished()])
    });
    assert_eq!(wrong, 0, "the child has not dropped its copy of the task");
    sender.send_to(b"x", addr).unwrap();
    let received = runtime.unwrap().block_on(timeout(LONG, task));
    assert_eq!(received.expect("the parent was not told").unwrap().unwrap(), 1);
}

/// A child that drops a socket of the parent's, and has not touched the runtime before.
fn by_a_sockets_drop() {
    let sender = StdSocket::bind("127.0.0.1:0").unwrap();
    let runtime = Runtime::new().unwrap();
    let mut socket = Some(runtime.block_on(UdpSocket::bind("127.0.0.1:0")).unwrap());
    assert!(runtime.block_on(receives(socket.as_ref().unwrap(), &sender)));
    let wrong = in_child(|| {
        drop(socket.take());
        0
    });
    assert_eq!(wrong, 0);
    let received = runtime.block_on(receives(socket.as_ref().unwrap(), &sender));
    assert!(received, "the child has taken the parent's socket out of the parent's poller");
}

/// A child that drops the writing half of a connection of its parent's, alone and with the runtime whose task has it.
fn by_the_drop_of_a_writing_half() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut runtime = Some(Runtime::new().unwrap());
    let here = runtime.as_ref().unwrap();
    let tcp = here.block_on(TcpStream::connect(listener.local_addr().unwrap())).unwrap();
    let (unix, mut unix_peer) = here.block_on(async { UnixStream::pair() }).unwrap();
    let mut tcp_peer = listener.accept().unwrap().0;
    let (_reader, mut writer) = tcp.into_split();
    let (_unix_reader, unix_writer) = unix.into_split();
    let mut unix_writer = Some(unix_writer);
    let (go, told) = oneshot::channel::<()>();
    let task = here.spawn(async move {
        told.await.unwrap();
        writer.write_all(b"x").await
    });
    here.block_on(sleep(ms(1)));
    let wrong = in_child(|| {
        drop(unix_writer.take());
        drop(runtime.take());
        first_wrong(&[task.is_finished()])
    });
    assert_eq!(wrong, 0, "the child has not dropped its copy of the task");
    go.send(()).unwrap();
    let here = runtime.as_ref().unwrap();
    here.block_on(task).unwrap().expect("the child has ended its parent's connection");
    tcp_peer.read_exact(&mut [0]).expect("the child has ended its parent's connection");
    here.block_on(async {
        unix_writer
            .as_mut()
            .unwrap()
            .write_all(b"x")
            .await
            .expect("the child has ended its parent's connection");
        unix_peer.read_exact(&mut [0]).await.unwrap();
    });
    // In the parent it ends the connection, as ever.
    drop(unix_writer);
    assert_eq!(here.block_on(unix_peer.read(&mut [0])).unwrap(), 0);
    assert_eq!(tcp_peer.read(&mut [0]).unwrap(), 0);
}

/// A task forks: the child is told when it is about to sleep.
fn inside_of_a_block_on() {
    let runtime = Runtime::new().unwrap();
    let nap = ms(200);
    let mut child = 0;
    let mut took = None;
    let told = is_told(|| {
        took = Some(runtime.block_on(async {
            let start = Instant::now();
            child = fork();
            sleep(if child == 0 { LONG } else { nap }).await;
            start.elapsed()
        }));
    });
    if child == 0 {
        exit(first_wrong(&[told]));
    }
    assert!(took.is_some_and(|took| took >= nap && took < LONG), "{took:?}");
    assert_eq!(wait_for(child), 0, "the child was not told");
}

/// A task forks, and the child does not sleep: it is told before it takes an event, which the parent would not be told of again.
fn inside_of_a_block_on_that_never_sleeps() {
    let sender = StdSocket::bind("127.0.0.1:0").unwrap();
    let runtime = Runtime::new().unwrap();
    let socket = runtime.block_on(UdpSocket::bind("127.0.0.1:0")).unwrap();
    let mut child = 0;
    let mut received = false;
    let told = is_told(|| {
        runtime.block_on(async {
            child = fork();
            let start = Instant::now();
            while child == 0 && start.elapsed() < LONG / 2 {
                yield_now().await;
            }
            received = true;
            for _ in 0..50 {
                received = received && receives(&socket, &sender).await;
            }
        });
    });
    if child == 0 {
        exit(first_wrong(&[told]));
    }
    assert!(received, "the child has taken an event of its parent's");
    assert_eq!(wait_for(child), 0, "the child was not told");
}

/// A child leaves a `block_on` without a look at anything; its parent sleeps in another event loop then.
fn inside_of_a_block_on_under_a_host() {
    let runtime = Runtime::new().unwrap();
    let now = Duration::ZERO.try_into().unwrap();
    let readable = || poll(&mut [PollFd::new(&runtime, PollFlags::IN)], Some(&now)).unwrap() > 0;
    let (mut ours, mut childs) = std::os::unix::net::UnixStream::pair().unwrap();
    assert_eq!(runtime.next_wake(), None);
    let child = runtime.block_on(async {
        let child = fork();
        if child == 0 {
            // Until the parent's sleep is prepared.
            childs.read_exact(&mut [0]).unwrap();
        }
        child
    });
    if child == 0 {
        exit(0);
    }
    while runtime.turn(Duration::ZERO) {}
    assert_eq!(runtime.next_wake(), None);
    assert!(!readable());
    ours.write_all(b"x").unwrap();
    assert_eq!(wait_for(child), 0);
    assert!(!readable(), "the child has ended its parent's sleep");
}

/// A child has a copy of an object that will kill a process of its parent's when it is dropped.
#[cfg(feature = "process")]
fn with_a_child_process() {
    use mainspring::process::{Command, Stdio};

    let runtime = Runtime::new().unwrap();
    let mut cat = Command::new("cat");
    cat.stdin(Stdio::piped()).kill_on_drop(true);
    let mut process = Some(runtime.block_on(async { cat.spawn() }).unwrap());
    let wrong = in_child(|| {
        let process = process.as_mut().unwrap();
        let killed = process.start_kill();
        let forgotten = process.id().is_none();
        first_wrong(&[killed.is_ok(), forgotten])
    });
    assert_eq!(wrong, 0, "expectation {wrong} of the child");
    let wrong = in_child(|| {
        drop(process.take());
        0
    });
    assert_eq!(wrong, 0);
    let process = process.as_mut().unwrap();
    let early = runtime.block_on(timeout(ms(20), async { process.try_wait() })).unwrap();
    assert!(early.unwrap().is_none(), "the child has killed its parent's process");
    let status = runtime.block_on(timeout(LONG, process.wait()));
    assert!(status.expect("the parent was not told").unwrap().success());
}

/// Whether other threads go on with what they do.
struct Others(AtomicBool);

impl Others {
    fn go_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// When the guard is dropped, also by a panic, they do not.
    fn end(&self) -> impl Drop + use<'_> {
        struct End<'a>(&'a Others);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.0.store(false, Ordering::Relaxed);
            }
        }
        End(self)
    }
}

/// Another thread drops processes that run while the child is made, and may hold the lock of their list: it is locked in the child.
#[cfg(feature = "process")]
fn while_others_drop_processes() {
    use std::sync::Barrier;

    use mainspring::process::{Child, Command};

    let start =
        |program: &str| -> Child { Command::new(program).arg("60").kill_on_drop(false).spawn().unwrap() };
    let (others, begun) = (Others(AtomicBool::new(true)), Barrier::new(2));
    let drops = || {
        let runtime = Runtime::new().unwrap();
        let _entered = runtime.handle().enter();
        let numbers: Vec<u32> = (0..200).map(|_| start("sleep").id().unwrap()).collect();
        begun.wait();
        while others.go_on() {
            drop(start("true"));
        }
        for number in numbers {
            // SAFETY: It sends a signal. The process is this one's child, whose status was not asked for since.
            unsafe { libc::kill(number as i32, libc::SIGKILL) };
        }
    };
    std::thread::scope(|scope| {
        let _end = others.end();
        scope.spawn(drops);
        begun.wait();
        let children = (0..100).map(|_| {
            in_child(|| {
                // SAFETY: It ends the child, should that wait for ever.
                unsafe { libc::alarm((LONG / 2).as_secs() as u32) };
                let own = Runtime::new().unwrap();
                let status = own.block_on(async { Command::new("true").status().await });
                first_wrong(&[status.is_ok_and(|status| status.success())])
            })
        });
        let wrong: Vec<i32> = children.filter(|&wrong| wrong != 0).collect();
        assert_eq!(wrong, []);
    });
}

/// A child has none of the threads for work that blocks, and makes its own. These cases come last: the threads stay for a second.
fn with_work_that_blocks() {
    use mainspring::task::unblock;

    let runtime = Runtime::new().unwrap();
    assert_eq!(runtime.block_on(unblock(|| 6 * 7)), 42);
    // The thread waits for more work, and holds no lock.
    let idle = || {
        std::fs::read_dir("/proc/self/task").unwrap().any(|task| {
            let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default();
            stat.contains("(mainspring-work) S")
        })
    };
    let start = std::time::Instant::now();
    loop {
        std::thread::sleep(ms(50));
        if idle() {
            break;
        }
        assert!(start.elapsed() < LONG, "the thread does not wait");
        // It may have ended meanwhile.
        assert_eq!(runtime.block_on(unblock(|| 6 * 7)), 42);
    }
    let wrong = in_child(|| {
        let own = Runtime::new().unwrap();
        let answer = own.block_on(timeout(LONG, unblock(|| 6 * 7)));
        first_wrong(&[answer == Ok(42)])
    });
    assert_eq!(wrong, 0, "the child has no thread for it");
    assert_eq!(runtime.block_on(unblock(|| 6 * 7)), 42);
}

/// Other threads begin such work while the child is made, and may hold the locks that they need for it: these are locked in
/// the child. All threads of the parent have begun before: std holds a lock of its own while a thread begins, and a child in which it is
/// locked cannot begin one.
fn while_others_begin_work_that_blocks() {
    use std::sync::{Arc, Barrier};

    use mainspring::task::unblock;

    let all = Arc::new(Barrier::new(200));
    let meets = |_| {
        let all = all.clone();
        unblock(move || {
            all.wait();
        })
    };
    futures::executor::block_on(join_all((0..200).map(meets)));
    let (others, begun) = (Others(AtomicBool::new(true)), Barrier::new(3));
    let work = || {
        begun.wait();
        while others.go_on() {
            let batch = join_all((0..50).map(|_| unblock(|| ())));
            futures::executor::block_on(batch);
        }
    };
    std::thread::scope(|scope| {
        let _end = others.end();
        scope.spawn(work);
        scope.spawn(work);
        begun.wait();
        let children = (0..100).map(|_| {
            in_child(|| {
                // SAFETY: It ends the child, should that wait for ever.
                unsafe { libc::alarm((LONG / 2).as_secs() as u32) };
                let answer = futures::executor::block_on(unblock(|| 6 * 7));
                first_wrong(&[answer == 42])
            })
        });
        let wrong: Vec<i32> = children.filter(|&wrong| wrong != 0).collect();
        assert_eq!(wrong, []);
    });
}

/// The child has the copy of a thread for such work, and of a queue that is the parent's.
fn by_work_that_blocks() {
    use std::io::Write;
    use std::sync::{Arc, Barrier, Mutex, mpsc};

    use mainspring::task::unblock;

    let path = std::env::temp_dir().join(format!("mainspring-fork-{}", std::process::id()));
    let (ends, end) = mpsc::channel::<()>();
    let (end, begun) = (Arc::new(Mutex::new(end)), Arc::new(Barrier::new(513)));
    let (tell, told) = mpsc::channel();
    let (go, forks) = mpsc::channel::<()>();
    let forks = Arc::new(Mutex::new(forks));
    // As many as there are threads at most; one of them forks, and returns in both processes.
    let busy: Vec<_> = (0..512)
        .map(|number| {
            let (end, begun, tell, forks) = (end.clone(), begun.clone(), tell.clone(), forks.clone());
            unblock(move || {
                begun.wait();
                if number > 0 {
                    let _ended = end.lock().unwrap().recv();
                    return;
                }
                forks.lock().unwrap().recv().unwrap();
                match fork() {
                    // SAFETY: It ends the child, should that wait for ever.
                    0 => _ = unsafe { libc::alarm((LONG / 2).as_secs() as u32) },
                    child => tell.send(child).unwrap(),
                }
            })
        })
        .collect();
    begun.wait();
    let to = path.clone();
    let waits = unblock(move || {
        let mut file = std::fs::File::options().append(true).create(true).open(to).unwrap();
        writeln!(file, "done").unwrap();
    });
    // Now it waits, for no thread is free.
    go.send(()).unwrap();
    wait_for(told.recv().unwrap());
    drop(ends);
    futures::executor::block_on(join_all(busy));
    futures::executor::block_on(waits);
    let done = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(done, "done\n", "the child did its parent's work once more");
}
