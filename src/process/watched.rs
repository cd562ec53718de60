//! A child process whose end is watched for, and what happens to a child that is dropped before it ends.
//!
//! Ground rules:
//!
//! * std is asked whether a child has ended, by the child's number alone. A pidfd or SIGCHLD only tells when to ask. So
//!   neither another child's end nor a signal that stands for several children is mistaken for it.
//! * A task that waits for SIGCHLD starts watching for the signal first, and asks for the status after that. It asks now and
//!   then without a signal, too: the signal may be blocked, or another library may have replaced the handler.
//! * These pauses take real time, whatever the runtime's clock does.
//! * A child's status is asked for until the answer is final, so that its number stays its own, and not once more: another
//!   child may have the number by then. It is also asked for before a kill, because another part of this process may have
//!   taken the status, or this process may be a child by `fork`, which must not kill its siblings.
//! * No child is forgotten: a child that is dropped while it runs is one of the orphans from then on, whether or not its
//!   runtime runs. Whoever learns of an orphan's end first takes it from the list.
//! * A child that is spawned or dropped asks for the status of no more than [`AT_ONCE`] orphans, in turns. It adds at most one to
//!   them, so those that have ended do not pile up; and a child costs the same, however many orphans run.
//! * A child by `fork` has its own list: the orphans in its parent's are the parent's, and another thread may have had the lock.

use crate::blocking;
use crate::clock::instant;
use crate::coop::unconstrained;
use crate::fork::{PerProcess, Process};
use crate::io::{AsyncFd, Interest};
use crate::runtime::Handle;
use crate::signal::{SignalKind, signal};
use crate::time::{Instant, try_sleep_until};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::mem;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::task::Poll;
use std::time::Duration;

/// Children that were dropped while they ran.
struct Orphans {
    /// By keys of their own, because a process number is used again.
    children: BTreeMap<u64, Child>,
    /// The key from which on they are asked next.
    next: u64,
}

static ORPHANS: PerProcess<Mutex<Orphans>> = PerProcess::new(Mutex::new(Orphans::new()));

/// The number of orphans whose status a child asks for as it comes or goes.
const AT_ONCE: usize = 32;

/// The next orphan's key. It is not in the list, so that a key from before a `fork` stands for nothing in the child.
static NEXT_KEY: AtomicU64 = AtomicU64::new(0);

/// How often a child's status is asked for while nothing can tell of its end.
const WITHOUT_DESCRIPTORS: Duration = Duration::from_millis(100);

/// How often it is asked for while a signal should tell.
const WITHOUT_SIGNAL: Duration = Duration::from_secs(1);

/// A child process of a runtime.
#[derive(Debug)]
pub(super) struct Watched {
    runtime: Handle,
    place: Place,
    /// `None` where there is no pidfd, and once the child's end was seen.
    pidfd: Option<AsyncFd<OwnedFd>>,
    /// Its status, or that there is none to be had: another part of this process has asked for it.
    ended: Option<Result<ExitStatus, Errno>>,
}

/// Where the child is.
#[derive(Debug)]
enum Place {
    Here(Child),
    /// Among the orphans, under this key.
    Orphans(u64),
}

impl Place {
    /// Returns the child's status, if it has ended.
    fn ask(&mut self) -> io::Result<Option<ExitStatus>> {
        let key = match self {
            Place::Here(child) => return child.try_wait(),
            Place::Orphans(key) => key,
        };
        let mut orphans = orphans();
        // If it is not there, its status was asked for by somebody else.
        let answer = orphans.children.get_mut(key).ok_or(Errno::CHILD)?.try_wait();
        if is_final(&answer) {
            orphans.children.remove(key);
        }
        answer
    }
}

impl Watched {
    /// Watches for the child's end in `runtime`, which this thread is in.
    pub(super) fn new(child: Child, runtime: Handle) -> Watched {
        reap_orphans();
        // If it fails, as for lack of descriptors: the child exists, and its end can be learned without one.
        let pidfd = pidfd(&child);
        Watched { runtime, place: Place::Here(child), pidfd, ended: None }
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Returns the child's number, which no other process has as long as the child has not ended.
    pub(super) fn id(&self) -> Option<u32> {
        match &self.place {
            Place::Here(child) if self.ended.is_none() => Some(child.id()),
            _ => None,
        }
    }

    /// Kills the child. Nothing happens if the child has ended, or is an orphan.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        if let Err(error) = self.try_wait() {
            return if is_nobodys(&error) { Ok(()) } else { Err(error) };
        }
        match &mut self.place {
            Place::Here(child) if self.ended.is_none() => child.kill(),
            _ => Ok(()),
        }
    }

    /// Makes the child an orphan, whose status others ask for, too.
    pub(super) fn leave(&mut self) {
        // Relaxed: the number stands for itself.
        let key = NEXT_KEY.fetch_add(1, Ordering::Relaxed);
        match mem::replace(&mut self.place, Place::Orphans(key)) {
            Place::Here(child) => drop(orphans().children.insert(key, child)),
            left_before => self.place = left_before,
        }
    }

    /// Returns the child's status, if it has ended.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if let Some(ended) = self.ended {
            return Ok(Some(ended?));
        }
        let answer = self.place.ask();
        self.note(answer)
    }

    /// Waits for the child's end.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.try_wait()? {
            return Ok(status);
        }
        let Some(pidfd) = &self.pidfd else { return self.wait_for_signals().await };
        let place = &mut self.place;
        let ask = |_: &OwnedFd| place.ask()?.ok_or_else(|| ErrorKind::WouldBlock.into());
        // Without a budget: a child ends once, and another branch of a `select` must not hide it.
        let answer = unconstrained(pidfd.async_io(Interest::Readable, ask)).await;
        self.note(answer)
    }

    async fn wait_for_signals(&mut self) -> io::Result<ExitStatus> {
        loop {
            // This must work on whatever thread and executor polls this.
            let signals = {
                let _entered = self.runtime.enter();
                signal(SignalKind::child())
            };
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            match signals {
                Ok(mut signals) => loop {
                    {
                        let mut pause = pin!(self.pause(WITHOUT_SIGNAL));
                        poll_fn(|cx| match signals.poll_recv(cx) {
                            Poll::Pending => pause.as_mut().poll(cx),
                            received => received,
                        })
                        .await?;
                    }
                    if let Some(status) = self.try_wait()? {
                        return Ok(status);
                    }
                },
                // The system's, as for lack of descriptors. The child runs on all the same.
                Err(error) if error.raw_os_error().is_some() => self.pause(WITHOUT_DESCRIPTORS).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for a part of `length`: all children of a runtime that wait are asked for at the same moment.
    async fn pause(&self, length: Duration) -> io::Result<()> {
        if self.runtime.is_shutdown() {
            return Err(io::Error::other("the Mainspring runtime that this child belongs to has shut down"));
        }
        let timers = self.runtime.timers();
        if timers.is_paused() || timers.clock().is_test() {
            // A sleep would move the paused time, and perhaps never end by the test clock. The thread is free again when this
            // future is dropped.
            let (_waiting, waits) = mpsc::channel::<()>();
            let _ = unconstrained(blocking::start_beside(move || waits.recv_timeout(length))?).await;
            return Ok(());
        }
        let pause = {
            let _entered = self.runtime.enter();
            let now = Instant::now();
            let since = instant::to_nanos(now).get() % length.as_nanos() as u64;
            try_sleep_until(now + length - Duration::from_nanos(since))
        };
        unconstrained(pause).await.map_err(io::Error::other)
    }

    /// Keeps an answer, if it is final.
    fn note<T: Copy + Into<Option<ExitStatus>>>(&mut self, answer: io::Result<T>) -> io::Result<T> {
        self.ended = match &answer {
            Ok(status) => (*status).into().map(Ok),
            Err(error) => is_nobodys(error).then_some(Err(Errno::CHILD)),
        };
        if self.ended.is_some() {
            self.pidfd = None;
        }
        answer
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.leave();
        }
        reap_orphans();
    }
}

/// The orphans of this process. (There is a runtime, so forks are counted.)
fn orphans() -> MutexGuard<'static, Orphans> {
    ORPHANS
        .of(Process::current(), || Mutex::new(Orphans::new()))
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// Asks for the status of the orphans whose turn it is.
fn reap_orphans() {
    orphans().reap();
}

impl Orphans {
    const fn new() -> Orphans {
        Orphans { children: BTreeMap::new(), next: 0 }
    }

    fn reap(&mut self) {
        for _ in 0..self.children.len().min(AT_ONCE) {
            // After the last one, the first is next.
            let next = self.children.range(self.next..).next().or_else(|| self.children.first_key_value());
            let Some((&key, _)) = next else { return };
            self.next = key + 1;
            if self.children.get_mut(&key).is_some_and(|child| is_final(&child.try_wait())) {
                self.children.remove(&key);
            }
        }
    }
}

/// Returns whether nothing is left to be asked for.
fn is_final(answer: &io::Result<Option<ExitStatus>>) -> bool {
    answer.as_ref().map_or_else(is_nobodys, Option::is_some)
}

/// Returns whether the child's status is no longer available: this process ignores SIGCHLD, or another part of it has taken
/// the status.
fn is_nobodys(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::CHILD)
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

/// The tests for all children are in `tests/process`. These test what does not happen on Linux: children without a
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

    fn stds(watched: &mut Watched) -> &mut Child {
        let Place::Here(child) = &mut watched.place else { panic!("it is an orphan") };
        child
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
            drop(stds(&mut child).stdin.take());
            assert!(child.wait().await.unwrap().success());
        });
    }

    #[test]
    fn a_child_that_comes_asks_some_orphans_only_and_each_orphan_has_its_turn() {
        let mut orphans = Orphans::new();
        let running = |_| Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        // One of them ends; the others run on.
        let last = 2 * AT_ONCE as u64;
        orphans.children.extend((0..last).map(|key| (key, running(key))));
        let ended = Command::new("true").spawn().unwrap();
        let number = rustix::process::Pid::from_child(&ended);
        let seen = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(number), seen).unwrap();
        orphans.children.insert(last, ended);
        for asked in [1, 2] {
            orphans.reap();
            assert_eq!((orphans.next, orphans.children.len()), (asked * AT_ONCE as u64, last as usize + 1));
        }
        orphans.reap();
        assert_eq!(orphans.next, AT_ONCE as u64 - 1, "after the last one it starts anew");
        assert_eq!(orphans.children.len(), last as usize, "the one that has ended is asked, too");
        for child in orphans.children.values_mut() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        // All have ended; from the middle on, the rest is asked before it starts anew.
        (0..4).for_each(|_| orphans.reap());
        assert!(orphans.children.is_empty());
    }

    #[test]
    fn a_child_whose_status_was_taken_is_not_asked_for_again_when_another_has_its_number() {
        block_on(async {
            let mut watched = start("true", "");
            // Another part of this process takes the status, and starts a child that gets the same number. Only root can force
            // that, so std's child is replaced instead.
            rustix::process::waitpid(
                Some(rustix::process::Pid::from_child(stds(&mut watched))),
                rustix::process::WaitOptions::empty(),
            )
            .unwrap();
            assert!(is_nobodys(&watched.try_wait().unwrap_err()));
            *stds(&mut watched) = Command::new("true").spawn().unwrap();
            assert!(is_nobodys(&watched.wait().await.unwrap_err()));
            assert!(is_nobodys(&watched.try_wait().unwrap_err()));
            watched.kill().unwrap();
            let number = rustix::process::Pid::from_child(stds(&mut watched));
            let status = rustix::process::waitpid(Some(number), rustix::process::WaitOptions::empty());
            assert_eq!(status.unwrap().unwrap().1.exit_status(), Some(0), "its own parent has its status");
        });
    }
}
