//! A test that hangs ends with a message, instead of never. For the tests of this package.

use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

/// Longer than any test here takes, even on a machine that is busy with other things.
const LIMIT: Duration = Duration::from_secs(60);

/// Keeps the process alive; see [`watchdog`].
#[must_use = "the watchdog watches for as long as this lives"]
#[derive(Debug)]
pub struct Watchdog {
    _alive: Sender<()>,
}

/// Aborts the process if the returned value is not dropped within a minute: a panic in a thread of its own would leave
/// the test hanging.
pub fn watchdog() -> Watchdog {
    let (alive, gone) = mpsc::channel::<()>();
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    std::thread::spawn(move || {
        if gone.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            // Not `eprintln!`, whose output the test harness captures.
            let _ = writeln!(std::io::stderr(), "watchdog: {test} has not ended within {LIMIT:?}");
            std::process::abort();
        }
    });
    Watchdog { _alive: alive }
}
