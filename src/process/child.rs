//! A child process that was started.

use super::watched::Watched;
use super::{ChildStderr, ChildStdin, ChildStdout};
use crate::coop;
use crate::runtime::Handle;
use crate::task;
use futures_io::AsyncRead;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::process::{ExitStatus, Output};
use std::task::{Context, Poll, ready};

/// A child process, made by [`Command::spawn`](super::Command::spawn).
///
/// It belongs to the runtime in which it was spawned, and may be used and dropped on any thread. Dropping it leaves the
/// process running, unless it was spawned with [`kill_on_drop`](super::Command::kill_on_drop). What happens to a process that
/// is no longer awaited is described [there](super#a-child-that-nobody-waits-for). After its runtime has shut down,
/// [`wait`](Self::wait) fails if it would have to wait, and [`try_wait`](Self::try_wait) still works.
///
/// On Linux it has one descriptor until the child's end was seen, and one for each pipe.
///
/// # Examples
///
/// ```
/// use mainspring::process::Command;
///
/// mainspring::block_on(async {
///     let mut child = Command::new("true").spawn()?;
///     assert!(child.wait().await?.success());
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
#[derive(Debug)]
pub struct Child {
    /// The pipe to the child's standard input, if it was set to [piped](std::process::Stdio::piped). Take it out to use it.
    pub stdin: Option<ChildStdin>,
    /// The pipe from the child's standard output, if it was set to piped.
    pub stdout: Option<ChildStdout>,
    /// The pipe from the child's standard error, if it was set to piped.
    pub stderr: Option<ChildStderr>,
    /// `None` only in `drop`.
    watched: Option<Watched>,
    kill_on_drop: bool,
}

impl Child {
    /// Takes over std's child. If its pipes cannot be watched, it is killed.
    pub(super) fn new(
        mut child: std::process::Child,
        kill_on_drop: bool,
        runtime: Handle,
    ) -> io::Result<Child> {
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let watched = Some(Watched::new(child, runtime));
        // From here on, an early return drops it.
        let mut child = Child { stdin: None, stdout: None, stderr: None, watched, kill_on_drop: true };
        child.stdin = pipes.0.map(ChildStdin::new).transpose()?;
        child.stdout = pipes.1.map(ChildStdout::new).transpose()?;
        child.stderr = pipes.2.map(ChildStderr::new).transpose()?;
        child.kill_on_drop = kill_on_drop;
        Ok(child)
    }

    /// Returns the number of the process, or `None` once its end was seen by [`wait`](Self::wait),
    /// [`try_wait`](Self::try_wait) or a kill: the system may then give the number to another process.
    pub fn id(&self) -> Option<u32> {
        self.watched.as_ref()?.id()
    }

    /// Waits until the process has ended, and returns its status, on each call. The child's standard input is closed first,
    /// if it is still here, so that a child that reads it to the end does not wait forever.
    ///
    /// A child that writes more to its pipes than they hold (64 KiB on Linux) waits until its output is read:
    /// [`wait_with_output`](Self::wait_with_output) reads and waits at the same time.
    ///
    /// # Errors
    ///
    /// One of kind [`Other`](io::ErrorKind::Other) after the runtime has shut down; and the system's: mostly `ECHILD`, if this
    /// process ignores SIGCHLD, or another part of it has asked for the status. The status is lost then, and each further call
    /// returns the same error. Without a pidfd, while time is paused, also the system's if it cannot create a thread; then the
    /// child can be awaited again.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped: a timeout may go [around it](super#a-child-that-takes-too-long).
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        let is_news = self.id().is_some();
        let ended = self.watched().wait().await;
        // The end itself is free, so that another branch of a `select` does not hide it. An error, or a status that was known
        // before, comes at each call, and is charged.
        if !is_news || ended.is_err() {
            coop::consume_budget().await;
        }
        ended
    }

    /// Returns the status of the process, if it has ended. Does not wait, and leaves standard input open.
    ///
    /// # Errors
    ///
    /// The system's, as for [`wait`](Self::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// use mainspring::process::Command;
    ///
    /// mainspring::block_on(async {
    ///     let mut child = Command::new("sleep").arg("3600").kill_on_drop(true).spawn()?;
    ///     assert_eq!(child.try_wait()?, None);
    ///     Ok::<_, std::io::Error>(())
    /// })
    /// # .unwrap();
    /// ```
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.watched().try_wait()
    }

    /// Kills the process by SIGKILL and waits until it has ended. It is no error if the process has ended already.
    /// [What it has started](super#with-what-it-has-started) runs on.
    ///
    /// # Errors
    ///
    /// As for [`start_kill`](Self::start_kill) and [`wait`](Self::wait).
    ///
    /// # Cancel safety
    ///
    /// The first poll kills the process; waiting for its end can be left to [`wait`](Self::wait).
    pub async fn kill(&mut self) -> io::Result<()> {
        coop::charge_error(self.start_kill()).await?;
        self.wait().await.map(drop)
    }

    /// Kills the process by SIGKILL, and does not wait. It is no error if the process has ended already.
    ///
    /// To ask a process to end, send another signal to its [`id`](Self::id), for example with
    /// `rustix::process::kill_process`.
    ///
    /// # Errors
    ///
    /// The system's, if this process is not allowed to kill the other.
    pub fn start_kill(&mut self) -> io::Result<()> {
        self.watched().kill()
    }

    /// Waits until the process has ended, and meanwhile reads everything that it writes to the pipes that are still here. The
    /// child's standard input is closed first, if it is still here.
    ///
    /// Reading goes on until all processes that have the pipes have closed them, including processes that the child has
    /// started and that outlive it; [how to end those, too](super#with-what-it-has-started).
    ///
    /// # Errors
    ///
    /// As for [`wait`](Self::wait), and those of reading.
    ///
    /// # Cancel safety
    ///
    /// The output that was read is lost if the future is dropped, and the child is dropped with it.
    ///
    /// # Examples
    ///
    /// ```
    /// use mainspring::process::{Command, Stdio};
    ///
    /// mainspring::block_on(async {
    ///     let mut command = Command::new("sh");
    ///     command.args(["-c", "echo out; echo err >&2; exit 3"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    ///     let output = command.spawn()?.wait_with_output().await?;
    ///     assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
    ///     assert_eq!(output.status.code(), Some(3));
    ///     Ok::<_, std::io::Error>(())
    /// })
    /// # .unwrap();
    /// ```
    pub async fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (mut stdout, mut stderr) = (Reading::new(self.stdout.take()), Reading::new(self.stderr.take()));
        poll_fn(|cx| match (stdout.poll(cx)?, stderr.poll(cx)?) {
            (Poll::Ready(()), Poll::Ready(())) => Poll::Ready(Ok::<_, io::Error>(())),
            _ => Poll::Pending,
        })
        .await?;
        let status = self.wait().await?;
        Ok(Output { status, stdout: stdout.read, stderr: stderr.read })
    }

    fn watched(&mut self) -> &mut Watched {
        self.watched.as_mut().expect("it is there until the drop")
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let Some(mut watched) = self.watched.take() else { return };
        if self.kill_on_drop {
            // After an error, the child has ended, or is no longer ours.
            let _ = watched.kill();
        }
        if matches!(watched.try_wait(), Ok(None)) {
            // If the runtime is gone, or is dropped before the child ends, the task is dropped. If it does not run, the task
            // does not, either. So others must be able to ask for the status, too.
            watched.leave();
            let runtime = watched.runtime().clone();
            let reaps = async move { watched.wait().await.map(drop) };
            task::Builder::new().name("reaps a child").spawn_on(reaps, &runtime).detach();
        }
    }
}

/// A pipe that is read to its end.
struct Reading<R> {
    /// `None` at its end.
    pipe: Option<R>,
    read: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Reading<R> {
    fn new(pipe: Option<R>) -> Reading<R> {
        Reading { pipe, read: Vec::new() }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [0; 8192];
        while let Some(pipe) = &mut self.pipe {
            match ready!(Pin::new(pipe).poll_read(cx, &mut bytes))? {
                0 => self.pipe = None,
                n => self.read.extend_from_slice(&bytes[..n]),
            }
        }
        Poll::Ready(Ok(()))
    }
}
