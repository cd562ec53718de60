//! The examples, started as processes: how they end, also if nobody reads what they print, or nothing can be printed.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

/// An example, which `cargo test` builds into the directory next to this test's.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let binary = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(binary.exists(), "run `cargo build -p mainspring-driver --examples` first");
    Command::new(binary)
}

#[test]
fn an_example_prints_its_report() {
    for (name, lines) in [("own_loop", 3), ("under_smol", 2)] {
        let output = example(name).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), lines);
    }
}

#[test]
fn a_reader_that_has_gone_is_no_failure_and_a_full_disk_is_one_without_a_panic() {
    for name in ["own_loop", "under_smol"] {
        // A write to this fails as one to a pipe without a reader does.
        let (_, writer) = UnixStream::pair().unwrap();
        let unread = || Stdio::from(OwnedFd::from(writer.try_clone().unwrap()));
        let ended = example(name).stdout(unread()).stderr(unread()).status().unwrap();
        assert_eq!(ended.code(), Some(0), "{name}");
        let full = || File::options().write(true).open("/dev/full").unwrap();
        let ended = example(name).stdout(full()).stderr(full()).status().unwrap();
        assert_eq!(ended.code(), Some(1), "{name}");
    }
}
