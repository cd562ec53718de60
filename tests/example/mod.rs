//! An example as its users see it: started as a process. What the tests of several examples share.

#![allow(dead_code, reason = "every test binary uses its own part of it")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait for something that certainly happens.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The path of an example's binary, which `cargo test` builds into the directory next to this test's.
pub(crate) fn binary(example: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let directory = test.ancestors().nth(2).expect("a test lives in target/<profile>/deps");
    let binary = directory.join("examples").join(format!("{example}{}", std::env::consts::EXE_SUFFIX));
    let hint = format!(
        "run `cargo build --all-features --example {example}` first, or `cargo test --all-features` without naming a test"
    );
    assert!(binary.exists(), "{} is missing: {hint}", binary.display());
    binary
}

/// Runs an example to its end.
pub(crate) fn run(example: &str, arguments: &[&str]) -> Output {
    Command::new(binary(example)).args(arguments).stdin(Stdio::null()).output().expect("the example starts")
}

/// Runs a tool that a machine may not have; returns `None`, and prints a line that says so, if it is missing.
pub(crate) fn tool(name: &str, arguments: &[impl AsRef<OsStr>]) -> Option<Output> {
    match Command::new(name).args(arguments).stdin(Stdio::null()).output() {
        Ok(output) => Some(output),
        Err(error) => {
            // Not `eprintln!`, whose output the test harness captures.
            let test = thread::current().name().unwrap_or("a test").to_owned();
            let _ = writeln!(std::io::stderr(), "skipped: {test}, because {name} cannot be run: {error}");
            None
        }
    }
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// An example that runs until it is told to end; it is killed when this is dropped.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    /// The lines of its standard error, if it was piped.
    pub(crate) errors: Option<Receiver<String>>,
    seen: Vec<String>,
}

impl Running {
    pub(crate) fn start(example: &str, arguments: &[&str]) -> Running {
        Running::spawn(Command::new(binary(example)).args(arguments))
    }

    /// Starts a command that becomes an example in the end.
    pub(crate) fn spawn(command: &mut Command) -> Running {
        Running::spawn_heard(command, usize::MAX)
    }

    /// The same, but closes its standard output after this many lines.
    pub(crate) fn spawn_heard(command: &mut Command, lines: usize) -> Running {
        #[cfg(unix)]
        obey_ctrl_c();
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the example starts");
        let lines = lines_of(child.stdout.take().expect("standard output is piped"), lines);
        let errors = child.stderr.take().map(|pipe| lines_of(pipe, usize::MAX));
        Running { child, lines, errors, seen: Vec::new() }
    }

    /// Reads its next line.
    pub(crate) fn says(&mut self) -> String {
        self.line("of any kind")
    }

    /// Reads its next line, which contains the address on which it listens.
    pub(crate) fn address(&mut self) -> SocketAddr {
        let first = self.says();
        let address = first.strip_prefix("listening on ").and_then(|rest| rest.split(',').next());
        address.expect("an address in the first line").parse().expect("a socket address")
    }

    /// Reads its lines until one begins with `start`, and returns the rest of that line.
    pub(crate) fn wait_for(&mut self, start: &str) -> String {
        loop {
            if let Some(rest) = self.line(start).strip_prefix(start) {
                return rest.to_owned();
            }
        }
    }

    fn line(&mut self, wanted: &str) -> String {
        let line = self.lines.recv_timeout(PATIENCE);
        let line = line.unwrap_or_else(|_| panic!("no line {wanted:?} came; there were {:#?}", self.seen));
        self.seen.push(line.clone());
        line
    }

    /// All lines that it has printed by now.
    pub(crate) fn seen(&mut self) -> &[String] {
        self.seen.extend(self.lines.try_iter());
        &self.seen
    }

    #[cfg(unix)]
    pub(crate) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Sends it a signal.
    #[cfg(unix)]
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(), signal)
            .expect("the process is there until it is waited for");
    }

    /// How it has ended, if it has ended.
    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it can be waited for")
    }

    /// Waits until it ends by itself.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.has_ended() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the process does not end; it said {:#?}", self.seen);
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already, which is then what the test checks.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A standard stream whose reader has gone.
#[cfg(unix)]
pub(crate) fn without_reader() -> Stdio {
    // std closes both ends in children, on each system. (A write to it fails as one to a pipe does.)
    let (_reader, writer) = std::os::unix::net::UnixStream::pair().expect("a pair");
    std::os::fd::OwnedFd::from(writer).into()
}

/// Makes Ctrl-C end the processes that this process starts, even if this process ignores it, as the background job of some shells
/// does: a signal that is ignored remains ignored in a child, and a signal with a handler gets its default action. The handler
/// takes that action here, too.
#[cfg(unix)]
fn obey_ctrl_c() {
    use signal_hook::{consts::SIGINT, flag::register_conditional_default};
    use std::sync::{Arc, Once, atomic::AtomicBool};

    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        register_conditional_default(SIGINT, Arc::new(AtomicBool::new(true))).expect("it can be handled");
    });
}

/// Reads up to this many lines of a pipe, which is closed then, on a thread so that the process never waits for us.
fn lines_of(pipe: impl std::io::Read + Send + 'static, most: usize) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().take(most).map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
