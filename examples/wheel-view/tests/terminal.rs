//! Runs the program in a terminal: one that goes away, and one that nobody reads.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Starts the program in a terminal of its own. Returns the other side of the terminal.
fn start(arguments: &[&str]) -> (OwnedFd, Child) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    tcsetwinsize(&terminal, Winsize { ws_row: 28, ws_col: 96, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let program = ioctl_tiocgptpeer(&terminal, flags).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_wheel-view"));
    command.args(arguments);
    command.stdin(program.try_clone().unwrap()).stdout(program.try_clone().unwrap()).stderr(program);
    (terminal, command.spawn().unwrap())
}

/// Waits until the program has ended; every tenth of a second something may be done to it.
fn ended(mut child: Child, mut meanwhile: impl FnMut(&Child)) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it still runs");
        }
        thread::sleep(Duration::from_millis(100));
        meanwhile(&child);
    }
}

#[test]
fn it_ends_when_its_terminal_is_gone() {
    let (terminal, child) = start(&[]);
    let mut terminal = File::from(terminal);
    let mut drawn = 0;
    while drawn < 10_000 {
        drawn += terminal.read(&mut [0; 4096]).unwrap();
    }
    drop(terminal);
    let status = ended(child, |_| ());
    assert!(status.success(), "{status}");
}

#[test]
fn the_terminal_is_restored_when_a_signal_ends_the_program() {
    for signal in [Signal::INT, Signal::TERM, Signal::QUIT, Signal::HUP] {
        let (terminal, child) = start(&[]);
        let mut terminal = File::from(terminal);
        let reader = thread::spawn(move || {
            let (mut drawn, mut piece) = (Vec::new(), [0; 4096]);
            // It ends with an error once no program has the terminal any more.
            while let Ok(read @ 1..) = terminal.read(&mut piece) {
                drawn.extend_from_slice(&piece[..read]);
            }
            drawn
        });
        thread::sleep(Duration::from_secs(1));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let status = ended(child, |_| ());
        let drawn = reader.join().unwrap();
        let restored = drawn.windows(8).any(|part| part == b"\x1b[?1049l");
        assert!(status.success() && restored, "{signal:?}: {status}, restored: {restored}");
    }
}

/// It waits for its terminal then, and does not notice the first.
#[test]
fn a_second_signal_ends_it_whatever_it_waits_for() {
    let (_terminal, child) = start(&["--rate", "5000"]);
    // Until it has drawn more than the terminal takes.
    thread::sleep(Duration::from_secs(2));
    let terminate = |child: &Child| {
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
    };
    terminate(&child);
    ended(child, terminate);
}
