//! A child process whose end is watched for, and what happens to a child that is dropped before it ends.
//!
//! Ground rules:
//!
//! * std is asked whether a child has ended, by the child's number alone. A pidfd or SIGCHLD only tells when to ask. So
//!   neither another child's end nor a signal that stands for several children is mistaken for it.
//! * A task that waits for SIGCHLD starts watching for the signal first, and asks for the status after that.
//! * A child's status is asked for until it is returned, so that its number stays its own. It is also asked for before a
//!   kill, because another part of this process may have taken the status, or this process may be a child by `fork`, which
//!   must not kill its siblings.
//! * No child is forgotten: a child that is dropped while it runs is added to the orphans.

use crate::coop::unconstrained;
use crate::io::{AsyncFd, Interest};
use crate::runtime::Handle;
use crate::signal::{SignalKind, signal};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, PoisonError};

/// The children that run on, and for which no task waits.
static ORPHANS: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// A child process of a runtime.
#[derive(Debug)]
pub(super) struct Watched {
    runtime: Handle,
    /// `None` only in `drop`.
    child: Option<Child>,
    /// `None` where there is no pidfd, and once the child's end was seen.
    pidfd: Option<AsyncFd<OwnedFd>>,
    /// Its status was returned, or is not available: another part of this process has asked for it.
    ended: bool,
}

impl Watched {
    /// Watches for the child's end in `runtime`, which this thread is in.
    pub(super) fn new(child: Child, runtime: Handle) -> Watched {
        reap_orphans();
        // Whatever the reason for a failure, such as too many descriptors: the child exists, and SIGCHLD comes anyway.
        let pidfd = pidfd(&child);
        Watched { runtime, child: Some(child), pidfd, ended: false }
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Returns the child's number, which no other process has as long as the child has not ended.
    pub(super) fn id(&self) -> Option<u32> {
        if self.ended { None } else { self.child.as_ref().map(Child::id) }
    }

    /// Kills the child. Nothing happens if the child has ended.
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

    /// Returns the child's status, if it has ended.
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
                // Without a budget: a child ends once, and another branch of a `select` must not hide it.
                unconstrained(pidfd.async_io(Interest::Readable, ask)).await
            }
            _ => self.wait_for_signals().await,
        };
        self.note(status.as_ref().map(|_| true));
        status
    }

    async fn wait_for_signals(&mut self) -> io::Result<ExitStatus> {
        // This must work on whatever thread and executor polls this.
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

    /// Records an answer, which says whether the child has ended.
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

/// Asks for the status of all orphans.
fn reap_orphans() {
    let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
    orphans.retain_mut(|child| match child.try_wait() {
        Ok(status) => status.is_none(),
        Err(error) => !is_nobodys(&error),
    });
}

/// Returns whether the child's status is no longer available: this process ignores SIGCHLD, or another part of it has taken
/// the status.
fn is_nobodys(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::CHILD.raw_os_error())
}

/// Android has pidfds, too, but rustix does not offer them there.
#[cfg(target_os = "linux")]
fn pidfd(child: &Child) -> Option<AsyncFd<OwnedFd>> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    // It is never read, so its mode does not matter.
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok()?;
    AsyncFd::unchanged(pidfd, Interest::Readable).ok()
}

#[cfg(not(target_os = "linux"))]
fn pidfd(_: &Child) -> Option<AsyncFd<OwnedFd>> {
    None
}

/// The tests for all children are in `tests/process.rs`. These test what does not happen on Linux: children without a
/// pidfd.
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
            // One after the other, several at once, and one that ends before it is awaited.
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
