//! Tests of the reactor as a whole: `park` tests its sleep, `deliver` its events, `sources` the life of registered sources.
//! The tests of a single part are next to that part.

mod deliver;
mod park;
#[cfg(unix)]
mod sources;

use super::registration::Watched;
use super::*;
use mainspring_driver::Unpark;
use mio::{Interest, Registry, Token};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Wake};
use std::time::Instant;

/// No test waits longer than this for something that must happen.
const SOON: Duration = Duration::from_secs(20);

/// Counts its wakes.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Count {
    fn get(&self) -> usize {
        self.0.load(SeqCst)
    }
}

fn counter() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count::default());
    (count.clone(), Waker::from(count))
}

/// A source that no poller knows: its events are made up by the test.
#[derive(Debug)]
struct Fake;

#[cfg(unix)]
impl Watched for Fake {
    fn number(&self) -> std::os::fd::RawFd {
        -1
    }

    fn register(&self, _: &Registry, _: Token, _: Interest) -> Result<()> {
        Ok(())
    }

    fn reregister(&self, _: &Registry, _: Token, _: Interest) -> Result<()> {
        Ok(())
    }

    fn deregister(&self, _: &Registry) -> Result<()> {
        Ok(())
    }
}

#[cfg(not(unix))]
impl Watched for Fake {
    fn register(&mut self, _: &Registry, _: Token, _: Interest) -> Result<()> {
        Ok(())
    }

    fn reregister(&mut self, _: &Registry, _: Token, _: Interest) -> Result<()> {
        Ok(())
    }

    fn deregister(&mut self, _: &Registry) -> Result<()> {
        Ok(())
    }
}

/// An operation that finds nothing.
fn blocked<S>(_: &S) -> Result<()> {
    Err(ErrorKind::WouldBlock.into())
}

/// Begins to wait, which makes the way not ready.
fn wait<S: Watched>(source: &Registered<S>, way: Way, waker: &Waker) {
    assert!(source.poll_io(&mut Context::from_waker(waker), way, blocked).is_pending());
}

/// Whether an operation would be tried.
fn is_ready<S: Watched>(source: &Registered<S>, way: Way) -> bool {
    source.try_io(way, |_| Ok(())).is_ok()
}

/// A moment `timeout` from now.
fn after(timeout: Duration) -> Until {
    Until::Time { timeout, alarm_ns: monotonic_ns() + timeout.as_nanos() as u64 }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn monotonic_ns() -> u64 {
    0
}
