//! Child processes: their ends, their pipes, and what is left of a child that no task waits for.
#![cfg(all(unix, feature = "process"))]

#[path = "../common/mod.rs"]
mod common;

#[cfg(target_os = "linux")]
mod alone;
mod awaited;
#[cfg(target_os = "linux")]
mod left;

#[cfg(target_os = "linux")]
use common::{LONG, ms};
use mainspring::process::{Child, Command, Stdio};
#[cfg(target_os = "linux")]
use mainspring::{sleep, time::Instant};

/// A child that ends when its standard input does.
fn cat() -> Child {
    Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// A child that does not end by itself.
fn endless(command: &mut Command) -> &mut Command {
    command.arg("3600").stdin(Stdio::null()).stdout(Stdio::null())
}

/// Whether a child of this process has ended, and its status has not been asked for; `None` if no child has this number.
#[cfg(target_os = "linux")]
fn is_zombie(pid: u32) -> Option<bool> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let (state, parent) = (fields.next()?, fields.next()?);
    (parent == std::process::id().to_string()).then_some(state == "Z")
}

/// Waits until a child has ended and its status was asked for.
#[cfg(target_os = "linux")]
async fn reaped(pid: u32) {
    let start = Instant::now();
    while is_zombie(pid).is_some() {
        assert!(start.elapsed() < LONG / 2, "child {pid} is still there: zombie {:?}", is_zombie(pid));
        sleep(ms(1)).await;
    }
}
