//! `Pending`: what a timer that waits looks like from outside, and the list of all.
//!
//! Ground rules:
//!
//! * Bits are read under the lock and nothing else: no waker is cloned, called or compared by foreign code.
//! * What is told was so under the lock. A timer may have fired, or have been dropped, before it is looked at.

use std::panic::Location;

use super::Handle;
use crate::Nanos;

/// A timer that was registered when [`Handle::pending`] looked.
///
/// ```
/// use std::task::{Context, Waker};
/// use std::time::Duration;
/// use futures::FutureExt;
/// use mainspring_driver::{Clock, Driver};
///
/// let driver = Driver::new(Clock::monotonic(), || {});
/// let mut sleep = Box::pin(driver.handle().sleep(Duration::from_secs(60)));
/// assert!(sleep.poll_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
/// let pending = driver.handle().pending();
/// assert_eq!(pending.len(), 1);
/// assert_eq!(pending[0].waker_data, Waker::noop().data() as usize);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pending {
    /// When it is due.
    pub deadline: Nanos,
    /// Its sequence number, in the order of registration: of equal deadlines the lower fires first.
    pub sequence: u64,
    /// Where it was made; see [`TimerEntry::origin`](crate::TimerEntry::origin).
    pub origin: &'static Location<'static>,
    /// Who is woken when it fires: the address that is the [data](std::task::Waker::data) of its waker. To be compared,
    /// while the waker is known to live, and never followed.
    pub waker_data: usize,
    /// The address of that waker's [functions](std::task::Waker::vtable).
    pub waker_vtable: usize,
}

impl Handle {
    /// All timers that are registered, by (deadline, sequence number): to show what is pending.
    ///
    /// They are collected under the driver's lock, in one go, because they move meanwhile otherwise: arming on another
    /// thread waits so long, about 40 ms for a million timers. They are sorted without it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring_driver::{Clock, Driver};
    /// use futures::FutureExt;
    ///
    /// let driver = Driver::new(Clock::monotonic(), || ());
    /// let mut timer = Box::pin(driver.handle().sleep(Duration::from_secs(5)));
    /// assert!(driver.handle().pending().is_empty());
    /// let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// assert!(timer.poll_unpin(&mut cx).is_pending());
    /// let pending = driver.handle().pending();
    /// assert_eq!((pending[0].deadline, pending[0].origin), (timer.deadline(), timer.origin()));
    /// ```
    pub fn pending(&self) -> Vec<Pending> {
        // Room for all, and for what is armed until the lock is held, so that it is not made under it.
        let expected = self.lock().entries.len();
        let mut found = Vec::with_capacity(expected + expected / 8 + 64);
        self.lock().entries.each(|pending| found.push(pending));
        found.sort_unstable_by_key(|pending: &Pending| (pending.deadline, pending.sequence));
        found
    }
}
