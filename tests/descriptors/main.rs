//! Anything with a descriptor: pipes, terminals, Linux's descriptors for time, files and processes; and what can go wrong
//! with it.
#![cfg(unix)]

#[path = "../common/mod.rs"]
mod common;

mod life;
#[cfg(target_os = "linux")]
mod linux;
mod readiness;
mod transfer;

use std::fs::File;

/// The two ends of a pipe, for reading and for writing.
fn pipe() -> (File, File) {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    (File::from(reader), File::from(writer))
}
