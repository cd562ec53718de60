//! Descriptors: running out of them, closing them, and keeping them from children. Most of these tests need a
//! process of their own, because the limit and the count belong to the process.
#![cfg(all(feature = "net", target_os = "linux"))]

mod common;
mod net_support;

use common::{cpu, has_alarm};
use futures::future::join_all;
use mainspring::net::{TcpListener, TcpStream, UdpSocket};
use mainspring::task::unconstrained;
use mainspring::time::sleep_until_wall;
use mainspring::{Runtime, sleep, spawn};
use net_support::{in_child, run};
use socket2::{Domain, Socket, Type};
use std::cell::Cell;
use std::fs::File;
use std::future::{pending, poll_fn};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::process::Command;
use std::rc::Rc;
use std::sync::mpsc::{TryRecvError, channel};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

/// How many descriptors this process has open.
fn open() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// tokio #4782, #6221; libuv's test-emfile.
#[test]
fn out_of_descriptors_is_an_error_that_passes() {
    const CLIENTS: usize = 5;
    const EMFILE: i32 = 24;
    if !in_child("out_of_descriptors_is_an_error_that_passes", 64) {
        return;
    }
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let clients: Vec<_> = (0..CLIENTS).map(|_| std::net::TcpStream::connect(addr).unwrap()).collect();
        let mut fill = Vec::new();
        let before = cpu();
        while let Ok(file) = File::open("/dev/null") {
            fill.push(file);
        }
        let start = Instant::now();
        let mut errors = 0;
        while start.elapsed() < Duration::from_millis(500) {
            assert_eq!(listener.accept().await.unwrap_err().raw_os_error(), Some(EMFILE));
            errors += 1;
            sleep(Duration::from_millis(10)).await;
        }
        // Each call is one error, and the timers between the calls run.
        assert!((2..=50).contains(&errors), "{errors}");
        // Reading the processor time takes a descriptor, too.
        fill.truncate(fill.len() - CLIENTS - 1);
        let used = cpu() - before;
        assert!(used < start.elapsed() / 5, "{used:?}");
        for client in &clients {
            let (_stream, peer) = listener.accept().await.unwrap();
            assert_eq!(peer, client.local_addr().unwrap());
        }

        // A failing accept that is repeated at once still lets other tasks run.
        while let Ok(file) = File::open("/dev/null") {
            fill.push(file);
        }
        fill.pop();
        let _one_more = std::net::TcpStream::connect(addr).unwrap();
        let slept = Rc::new(Cell::new(false));
        let seen = slept.clone();
        let stubborn = spawn(async move {
            // Ends without help only if the sleep next to it is starved.
            let start = Instant::now();
            while !seen.get() && start.elapsed() < Duration::from_secs(10) {
                listener.accept().await.unwrap_err();
            }
            seen.get()
        });
        sleep(Duration::from_millis(10)).await;
        slept.set(true);
        assert!(stubborn.await.unwrap(), "the sleep was starved");
    });
}

#[test]
fn a_connect_that_is_dropped_closes_its_descriptor() {
    if !in_child("a_connect_that_is_dropped_closes_its_descriptor", 256) {
        return;
    }
    run(async {
        has_alarm().await;
        // A listener whose queue is full makes further clients wait.
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let addr = listener.local_addr().unwrap().as_socket().unwrap();
        let mut queued = Vec::new();
        loop {
            let before = open();
            // Whatever this poll has used of its budget before, and however long that took, the connect begins at once.
            let mut waiting = Box::pin(unconstrained(TcpStream::connect(addr)));
            let mut polled = poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx))).await;
            if polled.is_pending() {
                sleep(Duration::from_millis(50)).await;
                polled = poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx))).await;
            }
            match polled {
                Poll::Ready(stream) => queued.push(stream.unwrap()),
                Poll::Pending => {
                    assert_eq!(open(), before + 1);
                    drop(waiting);
                    assert_eq!(open(), before);
                    break;
                }
            }
            assert!(queued.len() < 100, "nobody has to wait");
        }
    });
}

#[test]
fn refusals_and_dropped_sockets_leave_no_descriptor_open() {
    if !in_child("refusals_and_dropped_sockets_leave_no_descriptor_open", 256) {
        return;
    }
    run(async {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let before = open();
        for _ in 0..1000 {
            TcpStream::connect(nobody).await.unwrap_err();
            let _ = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        }
        assert_eq!(open(), before);
    });
}

/// tokio #3809.
#[test]
fn a_child_process_inherits_nothing() {
    let descriptors = || {
        let output = Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter(|line| line.contains("anon_inode:") || line.contains("socket:")).count()
    };
    let before = descriptors();
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let accepted = listener.accept().await.unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        sleep(Duration::from_millis(1)).await;
        assert_eq!(descriptors(), before);
        drop((stream, accepted, socket));
    });
}

/// A waker, a handle, a timer or a socket keeps no descriptor of a runtime that is gone.
#[test]
fn what_outlives_its_runtime_keeps_none_of_its_descriptors() {
    const RUNTIMES: usize = 100;
    if !in_child("what_outlives_its_runtime_keeps_none_of_its_descriptors", 512) {
        return;
    }
    let before = open();
    let mut outlives = Vec::new();
    for _ in 0..RUNTIMES {
        let runtime = Runtime::new().unwrap();
        let handle = runtime.spawn(pending::<()>());
        let kept = runtime.block_on(async {
            let root = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
            let task = spawn(poll_fn(|cx| Poll::Ready(cx.waker().clone()))).await.unwrap();
            // This sleep watches the system's time of day, by a descriptor of its own.
            let mut wall = Box::pin(sleep_until_wall(SystemTime::now() + Duration::from_secs(3600)));
            assert!(poll_fn(|cx| Poll::Ready(wall.as_mut().poll(cx).is_pending())).await);
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            (root, task, wall, socket)
        });
        outlives.push((runtime.handle().clone(), handle, kept));
        drop(runtime);
    }
    // Only the socket of each runtime is left.
    assert_eq!(open(), before + RUNTIMES);
    for (runtime, handle, (root, task, wall, socket)) in outlives {
        // And all of these can be used, without any effect.
        root.wake();
        task.wake();
        drop(runtime.spawn(async {}));
        assert!(handle.is_finished());
        assert!(socket.try_recv(&mut [0; 8]).unwrap_err().to_string().contains("shut down"));
        drop(wall);
        // Closed by the standard library: there is no poller left to remove it from.
        drop(socket.into_std().unwrap());
    }
    assert_eq!(open(), before);
}

/// A thread that wakes a runtime while it is dropped writes to no descriptor whose number has been reused by then.
#[test]
fn rousing_a_runtime_that_is_being_dropped_is_safe() {
    let (sender, receiver) = channel::<Waker>();
    let rouser = std::thread::spawn(move || {
        let mut roused = 0;
        let mut root = receiver.recv().unwrap();
        loop {
            root.wake_by_ref();
            roused += 1;
            match receiver.try_recv() {
                Ok(next) => root = next,
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return roused,
            }
        }
    });
    for round in 0..200 {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            sender.send(poll_fn(|cx| Poll::Ready(cx.waker().clone())).await).unwrap();
            sleep(Duration::from_micros(round * 5)).await;
        });
        drop(runtime);
        // The files get the numbers that the runtime had.
        let files: Vec<_> = (0..8).map(|number| nameless(&format!("{round}-{number}"))).collect();
        assert!(files.iter().all(|file| file.metadata().unwrap().len() == 0));
    }
    drop(sender);
    assert!(rouser.join().unwrap() > 0);
}

/// An empty file that no longer has a name.
fn nameless(name: &str) -> File {
    let path = std::env::temp_dir().join(format!("mainspring-{}-{name}", std::process::id()));
    let file = File::create_new(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

/// Four times as many ready sockets as the poller reports at once.
#[test]
fn thousands_of_ready_sockets_are_all_served_and_timers_run() {
    const SOCKETS: usize = 4 * 1024;
    if !in_child("thousands_of_ready_sockets_are_all_served_and_timers_run", SOCKETS + 200) {
        return;
    }
    run(async {
        let mut tasks = Vec::new();
        let mut addrs = Vec::new();
        for _ in 0..SOCKETS {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            addrs.push(socket.local_addr().unwrap());
            tasks.push(spawn(async move { socket.recv(&mut [0; 8]).await.unwrap() }));
        }
        // Wait until all of them are waiting.
        sleep(Duration::from_millis(100)).await;
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let start = Instant::now();
        let mut timer = pin!(sleep(Duration::from_millis(1)));
        assert!(poll_fn(|cx| Poll::Ready(timer.as_mut().poll(cx).is_pending())).await);
        for addr in &addrs {
            sender.send_to(b"x", addr).unwrap();
        }
        let sent = start.elapsed();
        timer.await;
        let late = start.elapsed() - sent;
        assert!(late < Duration::from_millis(500), "{late:?}");
        for received in join_all(tasks).await {
            assert_eq!(received.unwrap(), 1);
        }
    });
}
