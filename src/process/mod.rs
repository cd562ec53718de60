//! Child processes, awaited: [`Command`] is std's with an asynchronous wait. Unix only; feature `process`.
//!
//! ```
//! use mainspring::process::Command;
//!
//! mainspring::block_on(async {
//!     let output = Command::new("echo").arg("hello").output().await?;
//!     assert!(output.status.success());
//!     assert_eq!(output.stdout, b"hello\n");
//!     Ok::<_, std::io::Error>(())
//! })
//! # .unwrap();
//! ```
//!
//! The end of a child is reported by a pidfd (Linux 5.3 and later), which the runtime's poller watches; where there is
//! none, by SIGCHLD (see [`signal`](crate::signal)) or [a look now and then](self#without-a-pidfd). The
//! [pipes](ChildStdout) are `AsyncRead` and `AsyncWrite`. No thread is used, except without a pidfd while time is paused.
//!
//! # A child that takes too long
//!
//! [`Child::wait`] may be dropped at any time, so a [`timeout`](crate::timeout) can be put around it:
//!
//! ```
//! use mainspring::process::Command;
//! use mainspring::timeout;
//! use std::os::unix::process::ExitStatusExt;
//! use std::time::Duration;
//!
//! mainspring::block_on(async {
//!     let mut child = Command::new("sleep").arg("3600").spawn()?;
//!     let status = match timeout(Duration::from_millis(10), child.wait()).await {
//!         Ok(status) => status?,
//!         Err(_elapsed) => {
//!             child.kill().await?;
//!             child.wait().await?
//!         }
//!     };
//!     assert_eq!(status.signal(), Some(9));
//!     Ok::<_, std::io::Error>(())
//! })
//! # .unwrap();
//! ```
//!
//! ## With what it has started
//!
//! A kill reaches the child alone. What the child has started runs on, and keeps the pipes open, so that reading its
//! output has no end, either. To end all of them, start the child in a process group of its own, and kill that group.
//! Do so before the child's end was seen: until then no other process can have its number.
//!
//! ```
//! use mainspring::process::{Command, Stdio};
//! use mainspring::timeout;
//! use rustix::process::{Pid, Signal, kill_process_group};
//! use std::os::unix::process::ExitStatusExt;
//! use std::pin::pin;
//! use std::time::Duration;
//!
//! mainspring::block_on(async {
//!     let mut shell = Command::new("sh");
//!     shell.args(["-c", "sleep 3600 & sleep 3600"]).process_group(0).stdout(Stdio::piped());
//!     let child = shell.spawn()?;
//!     // The group has the number of the child.
//!     let group = child.id().and_then(|id| Pid::from_raw(id as i32)).expect("its end was not seen yet");
//!     // This reads first, and looks for the child's end when all have closed the pipe.
//!     let mut output = pin!(child.wait_with_output());
//!     let output = match timeout(Duration::from_millis(100), &mut output).await {
//!         Ok(output) => output?,
//!         Err(_elapsed) => {
//!             kill_process_group(group, Signal::KILL)?;
//!             // A process that has left the group, such as a daemon, may still hold the pipe.
//!             timeout(Duration::from_secs(60), output).await??
//!         }
//!     };
//!     assert_eq!(output.status.signal(), Some(9));
//!     Ok::<_, std::io::Error>(())
//! })
//! # .unwrap();
//! ```
//!
//! # A child that nobody waits for
//!
//! A [`Child`] that is dropped leaves its process running, unless it was set to be [killed](Command::kill_on_drop) then.
//! Its status has to be asked for when it ends; otherwise it stays in the system's table, as a zombie. The status is asked
//! for
//!
//! * at once, if it has ended already;
//! * otherwise by a small task of the runtime that it was spawned in, as soon as it ends. The task appears in a
//!   [dump](crate::dump) under its name, `reaps a child`, and [`shutdown_timeout`](crate::Runtime::shutdown_timeout) waits
//!   for it as for any other;
//! * and also whenever a child of this module is spawned or dropped, in any runtime: then up to 32 are asked, in turns. This is
//!   for children whose runtime is gone or does not run; if it never happens, they stay zombies until this process ends. It costs a
//!   system call for each of the 32.
//!
//! # Without a pidfd
//!
//! A child that has no pidfd, because the system has none or there was no descriptor left, is asked for its status when
//! SIGCHLD comes, and once a second. So its end is noticed, at most a second late, even if the signal never comes: because it
//! is blocked, as this process may have inherited it, or because another library has replaced the handler. If there is
//! no descriptor for the signal, either, the child is asked every 100 ms. All this happens while a child is awaited, and
//! after it was dropped. The children of a runtime are asked at the same moments, so they share wake-ups.
//!
//! # Virtual time
//!
//! Paused time does not wait for another process: a timeout around a child elapses at once, unless a
//! [`stand_still`](crate::time::stand_still) is held.
//!
//! The second and the 100 ms [without a pidfd](self#without-a-pidfd) are always real time. While time is paused, and with a
//! [`TestClock`](crate::time::TestClock), each child that has no pidfd and is awaited, or was dropped, takes a thread of those
//! for [work that blocks](crate::task#work-that-blocks) for this. Only if time is paused while a child waits already, the
//! rest of that one second is a timer like any other, to which virtual time may move.

mod child;
mod command;
mod pipes;
mod watched;

pub use self::child::Child;
pub use self::command::Command;
pub use self::pipes::{ChildStderr, ChildStdin, ChildStdout};
pub use std::process::{ExitStatus, Output, Stdio};
