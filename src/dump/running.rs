//! `Running`: the task that the runtime's thread is polling now, seen from another thread.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use crate::runtime::{Handle, PollId};
use crate::task::Id;

/// The task that a runtime's thread is polling, or the future of its `block_on`. Made by [`Handle::running`].
///
/// # For how long
///
/// No poll reads a clock for this, so a single call does not return the length of a poll, but two bounds on it, both true:
///
/// * [`at_least`](Running::at_least) is how long ago this very poll was first seen, by any caller that asked this runtime.
///   It is zero the first time, so ask now and then: a poll that is found again and again is long.
/// * [`at_most`](Running::at_most) is how long ago the runtime last handled its I/O and timers, by its own clock. Since
///   then it has polled one task after the other. If the tasks before this one were quick, as they mostly are, this bound
///   is the length of the poll.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Running {
    /// Which task it is. `None`: the future of the `block_on` that is under way.
    pub id: Option<Id>,
    /// Its name, if it [has](crate::task::Builder) one.
    pub name: Option<Arc<str>>,
    /// The line that spawned the task, or that called `block_on`.
    pub spawned_at: &'static Location<'static>,
    /// The poll has taken at least this long.
    pub at_least: Duration,
    /// The poll has taken no longer than this so far. `None` if the runtime's time is or was virtual, or is advanced by the
    /// program.
    pub at_most: Option<Duration>,
    poll: PollId,
}

impl Running {
    /// Returns whether both are observations of the same poll of the same task, of one runtime: to report it only once.
    pub fn is_same_poll(&self, other: &Running) -> bool {
        self.poll == other.poll
    }
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.id, &self.name) {
            (Some(id), Some(name)) => write!(f, "task {id} {name:?}, spawned at {}", self.spawned_at)?,
            (Some(id), None) => write!(f, "task {id}, spawned at {}", self.spawned_at)?,
            (None, _) => write!(f, "the future of `block_on`, called at {}", self.spawned_at)?,
        }
        write!(f, ", polled for at least {:.1?}", self.at_least)?;
        match self.at_most {
            Some(at_most) => write!(f, " and at most {at_most:.1?}"),
            None => Ok(()),
        }
    }
}

impl Handle {
    /// Returns what the runtime's thread is polling at this moment. `None` if it polls nothing: it sleeps, fires timers,
    /// answers a request for a dump, is in no `block_on`, or is just between two polls.
    ///
    /// This is how another thread finds out which task keeps the others from running. It neither waits nor disturbs the
    /// runtime, and takes less than a microsecond. `examples/watchdog.rs` is a thread that reports tasks that block.
    ///
    /// ```
    /// use std::time::Duration;
    /// use std::{sync::mpsc, thread};
    /// use mainspring::{Handle, block_on, task};
    ///
    /// let (tell, handle) = mpsc::channel::<Handle>();
    /// let watchdog = thread::spawn(move || {
    ///     let handle = handle.recv().unwrap();
    ///     loop {
    ///         thread::sleep(Duration::from_millis(5));
    ///         match handle.running() {
    ///             Some(running) if running.at_least > Duration::from_millis(20) => return running,
    ///             _ => {}
    ///         }
    ///     }
    /// });
    /// let stuck = block_on(async {
    ///     tell.send(Handle::current()).unwrap();
    ///     let bad = async move { watchdog.join().unwrap() };
    ///     task::Builder::new().name("bad").spawn(bad).await.unwrap()
    /// });
    /// assert_eq!(stuck.name.as_deref(), Some("bad"));
    /// println!("{stuck}");
    /// ```
    pub fn running(&self) -> Option<Running> {
        let seen = self.running_poll()?;
        Some(Running {
            id: seen.id,
            name: seen.name,
            spawned_at: seen.origin,
            at_least: seen.at_least,
            at_most: seen.at_most,
            poll: seen.poll,
        })
    }
}
