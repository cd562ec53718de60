//! Child processes by `async-process`, which waits for them on a thread of its own.
#![cfg(unix)]

use std::time::Duration;

use async_process::{Command, Stdio};
use futures::AsyncReadExt;
use mainspring::{block_on, timeout};
use mainspring_ecosystem::watchdog;

#[test]
fn a_childs_output_and_status_are_read() {
    let _watchdog = watchdog();
    block_on(async {
        let output =
            Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]).output().await.unwrap();
        assert_eq!(output.stdout, b"out\n");
        assert_eq!(output.stderr, b"err\n");
        assert_eq!(output.status.code(), Some(3));
    });
}

#[test]
fn a_timeout_kills_a_child_that_does_not_end() {
    let _watchdog = watchdog();
    block_on(async {
        let mut command = Command::new("sleep");
        let mut child = command.arg("3600").stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let ended = timeout(Duration::from_millis(50), async move { child.status().await }).await;
        assert!(ended.is_err(), "it ended by itself: {ended:?}");
        // The timeout has dropped the child, which closes the child's end of the pipe.
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).await.unwrap();
        assert!(rest.is_empty());
    });
}
