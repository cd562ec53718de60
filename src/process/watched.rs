//! A child process whose end is watched for, and what becomes of one that is dropped before.
//!
//! Ground rules:
//!
//! * Whether a child has ended is asked of std, by its number alone, and told by a pidfd or SIGCHLD: so neither another
//!   child's end nor a signal that stands for several is mistaken for it.
//! * Who waits for SIGCHLD watches first and asks after.
//! * A child is asked for its status until it was given, so that its number stays its own; and before it is killed, because
//!   another part of this process may have taken the status, or this is a child by `fork`, whose siblings it must not kill.
//! * None is forgotten: what is dropped while it runs goes to the orphans.

use crate::io::{AsyncFd, Interest};
use crate::runtime::Handle;
use crate::signal::{SignalKind, signal};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, PoisonError};

/// Those who run on, and whom no task waits for.
static ORPHANS: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// A child process of a runtime.
#[derive(Debug)]
pub(super) struct Watched {
    runtime: Handle,
    /// `None` only in `drop`.
    child: Option<Child>,
    /// `None` where there is none, and once the child's end was seen.
    pidfd: Option<AsyncFd<OwnedFd>>,
    /// Its status was given, or is not to be had: somebody else in this process has asked for it.
    ended: bool,
}

impl Watched {
    /// Watches for the child's end in `runtime`, which this thread is in.
    pub(super) fn new(child: Child, runtime: Handle) -> Watched {
        reap_orphans();
        // Whatever the reason for a refusal, such as too many descriptors: the child is there, and SIGCHLD comes anyway.
        let pidfd = pidfd(&child);
        Watched { runtime, child: Some(child), pidfd, ended: false }
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// The child's number, which nobody else has as long as it has not ended.
    pub(super) fn id(&self) -> Option<u32> {
        if self.ended { None } else { self.child.as_ref().map(Child::id) }
    }

    /// Kills the child. Nothing happens if it has ended.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        if self.ended {
            return Ok(());
        }
        match self.try_wait() {
            Ok(None) => self.child().kill(),
            Err(error) if !is_nobodys(&error) => Err(error),
            _ended => Ok(()),
        }
    }

    /// The child's status, if it has ended.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let asked = self.child().try_wait();
        self.note(asked.as_ref().map(Option::is_some));
        asked
    }

    /// Waits for the child's end.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.try_wait()? {
            return Ok(status);
        }
        let status = match (&self.pidfd, &mut self.child) {
            (Some(pidfd), Some(child)) => {
                let ask = |_: &OwnedFd| child.try_wait()?.ok_or_else(|| ErrorKind::WouldBlock.into());
                pidfd.async_io(Interest::Readable, ask).await
            }
            _ => self.wait_for_signals().await,
        };
        self.note(status.as_ref().map(|_| true));
        status
    }

    async fn wait_for_signals(&mut self) -> io::Result<ExitStatus> {
        // Whatever thread and executor polls this.
        let mut signals = {
            let _entered = self.runtime.enter();
            signal(SignalKind::child())?
        };
        loop {
            if let Some(status) = self.child().try_wait()? {
                return Ok(status);
            }
            signals.recv().await?;
        }
    }

    /// Takes note of an answer, which says whether the child has ended.
    fn note(&mut self, answer: Result<bool, &io::Error>) {
        if answer.unwrap_or_else(is_nobodys) {
            self.ended = true;
            self.pidfd = None;
        }
    }

    fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("it is there until the drop")
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.ended {
            let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
            orphans.extend(self.child.take());
        }
        reap_orphans();
    }
}

/// Asks all orphans for their status.
fn reap_orphans() {
    let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
    orphans.retain_mut(|child| match child.try_wait() {
        Ok(status) => status.is_none(),
        Err(error) => !is_nobodys(&error),
    });
}

/// Whether the child's status cannot be had any more: this process ignores SIGCHLD, or somebody else in it has taken it.
fn is_nobodys(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::CHILD.raw_os_error())
}

/// Android has them, too, and rustix does not show them there.
#[cfg(target_os = "linux")]
fn pidfd(child: &Child) -> Option<AsyncFd<OwnedFd>> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    // Nobody reads it: so its mode does not matter.
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok()?;
    AsyncFd::unchanged(pidfd, Interest::Readable).ok()
}

#[cfg(not(target_os = "linux"))]
fn pidfd(_: &Child) -> Option<AsyncFd<OwnedFd>> {
    None
}

/// Those of all children are in `tests/process.rs`; these are of what they do not do on Linux: without a pidfd.
#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{block_on, sleep, spawn, timeout};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    fn start(program: &str, argument: &str) -> Watched {
        let child = Command::new(program).arg(argument).stdin(Stdio::piped()).spawn().unwrap();
        let mut watched = Watched::new(child, Handle::current());
        watched.pidfd = None;
        watched
    }

    #[test]
    fn without_a_pidfd_children_are_awaited_by_their_signals() {
        block_on(async {
            // One after the other, several at once, and one that ends before anybody waits.
            for _ in 0..50 {
                assert!(start("true", "").wait().await.unwrap().success());
            }
            let several: Vec<_> = (0..20)
                .map(|n| {
                    let mut child = start("sleep", &format!("0.0{n:02}"));
                    spawn(async move { child.wait().await.unwrap() })
                })
                .collect();
            for child in several {
                assert!(child.await.unwrap().success());
            }
            let mut ended = start("true", "");
            sleep(Duration::from_millis(50)).await;
            assert!(ended.wait().await.unwrap().success());
            assert!(ended.id().is_none());
        });
    }

    #[test]
    fn without_a_pidfd_a_child_may_be_awaited_on_another_thread() {
        block_on(async {
            let mut child = start("sleep", "0.05");
            let (ended, end) = futures::channel::oneshot::channel();
            let thread = std::thread::spawn(move || {
                ended.send(futures::executor::block_on(child.wait()).unwrap().success())
            });
            // The runtime goes on meanwhile, as it must.
            assert!(end.await.unwrap());
            thread.join().unwrap().unwrap();
        });
    }

    #[test]
    fn without_a_pidfd_a_wait_that_is_dropped_loses_nothing() {
        block_on(async {
            let mut child = start("cat", "-");
            for _ in 0..10 {
                assert!(timeout(Duration::from_millis(1), child.wait()).await.is_err());
            }
            drop(child.child().stdin.take());
            assert!(child.wait().await.unwrap().success());
        });
    }
}
