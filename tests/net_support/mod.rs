//! What the tests of the sockets share.

#![allow(dead_code)]

use std::future::Future;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The time limit of each test.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs the future, and ends the whole process if it hangs: a panic on another thread would go unnoticed.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let name = thread::current().name().unwrap_or("a test").to_owned();
    let (done, watch) = channel::<()>();
    let watchdog = thread::spawn(move || {
        if watch.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{name} hangs");
            std::process::abort();
        }
    });
    let result = mainspring::block_on(future);
    drop(done);
    watchdog.join().unwrap();
    result
}

/// A connected pair: ours, and a blocking one of the standard library.
pub(crate) async fn pair() -> (mainspring::net::TcpStream, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = mainspring::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (theirs, _) = listener.accept().unwrap();
    theirs.set_read_timeout(Some(LIMIT)).unwrap();
    theirs.set_write_timeout(Some(LIMIT)).unwrap();
    (ours, theirs)
}

/// No child process begins while this is held. A child has our descriptors from its fork until its exec, so a descriptor that
/// another test closes meanwhile stays open until then: a test that counts on its being closed holds this.
pub(crate) fn no_child_begins() -> MutexGuard<'static, ()> {
    static BEGINNING: Mutex<()> = Mutex::new(());
    BEGINNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the test `name` of this binary in a process of its own, which may have `descriptors` descriptors.
/// Returns true in that process.
pub(crate) fn in_child(name: &str, descriptors: usize) -> bool {
    const CHILD: &str = "MAINSPRING_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let beginning = no_child_begins();
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -n {descriptors} && exec \"$0\" --exact {name} --nocapture --test-threads 1"))
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, "1")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    drop(beginning);
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > LIMIT {
            child.kill().unwrap();
        }
        thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "{name}: {status}");
    false
}
