//! `TimerEntry`: a pinned future holds it, and the wheel points at it. [`owner`] is what the owner does
//! to a linked entry, [`linked`] is the driver's side.
//!
//! Ground rules. An entry is shared between its owner (the holder of `Pin<&mut TimerEntry>`, or its drop)
//! and the driver (the holder of the driver's lock):
//!
//! * The state cell determines to whom the rest belongs. While it is a deadline the entry is linked: the wheel holds an
//!   `EntryRef` to it, its place is valid and its waker present. In any other state the driver follows no
//!   pointer to the entry, and all of it belongs to the owner.
//! * Only the owner writes the waker, and while the entry is linked only under the lock. The owner may compare the waker without
//!   the lock (`will_wake` reads bits that no other thread writes). It clones a waker before locking and drops one after
//!   unlocking, because both are foreign code.
//! * The place is read and written only under the lock. So is the tolerance, except that the owner may access it while
//!   the entry is idle.
//! * While linked, the state is the deadline, so a reset touches nothing else. Once the wheel has filed the entry, `kept` is the
//!   cached deadline, under which it is filed. The side that moves the state on from the deadline stores the deadline in `kept`
//!   first. (A drop does not move the state.)
//! * To fire, the driver, under the lock, copies the waker's bits, then swaps the state as its last touch.
//!   From that moment the owner may free the entry from another thread. If the swap fails, a reset came
//!   first: the copy is forgotten, because the waker still belongs to the entry, which is filed again. (Swapping
//!   first and taking the waker afterwards is a use after free.)
//! * After locking, each side reads the state again.
//! * The wheel's pointer is made from a shared reference, and once an entry has been registered only
//!   `Pin<&TimerEntry>` is formed, except in `Drop`. Everything that the driver touches is an atomic or lies in an
//!   `UnsafeCell`.

mod linked;
mod owner;

use std::fmt;
use std::future::Future;
use std::marker::PhantomPinned;
use std::mem::MaybeUninit;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

pub(super) use linked::{Entries, Fired, Next};

use super::Handle;
use super::state::{State, StateCell};
use crate::Nanos;
use crate::slack::Slack;
use crate::sync::{AtomicU64, Ordering, UnsafeCell};
use crate::trace::TracedTimer;
use crate::wheel::Place;

/// The driver was shut down, so the timer can never fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shutdown(pub(crate) ());

impl fmt::Display for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the timer driver was shut down")
    }
}

impl std::error::Error for Shutdown {}

/// A timer: a future that is ready once its deadline has passed.
///
/// It is registered with the driver at its first pending poll, under the lock and without an allocation: the
/// wheel points at the entry itself, so the entry must stay where it is while it is polled. Dropping the entry
/// unregisters it; once it has fired, or if it was never polled, that takes no lock.
///
/// Entries are `Send` and `Sync`: they may be polled, reset and dropped on any thread, also after the driver
/// is gone.
///
/// # Cancel safety
///
/// A poll that was given up costs nothing: the deadline stays, and the next poll goes on.
///
/// ```
/// use std::time::Duration;
/// use std::task::{Context, Waker};
/// use mainspring_driver::{Driver, Nanos, TestClock};
/// use futures::FutureExt;
///
/// let test = TestClock::new(Nanos::ZERO);
/// let mut driver = Driver::new(test.clock(), || ());
/// let mut timer = Box::pin(driver.handle().sleep(Duration::from_millis(5)));
/// let mut cx = Context::from_waker(Waker::noop());
/// assert!(timer.poll_unpin(&mut cx).is_pending());
///
/// test.advance(Duration::from_millis(5));
/// assert_eq!(driver.process(test.now(), 1024).fired, 1);
/// assert!(timer.poll_unpin(&mut cx).is_ready());
/// ```
///
/// Its fields lie in the order in which they are needed. A reset, a poll of a linked timer and a firing touch only the first
/// 40 bytes, and a drop only the first 48, so that a timer that is far away in memory mostly costs one cache miss. An
/// `Option` of an entry, or of a type that contains one, takes no more memory.
#[repr(C)]
pub struct TimerEntry {
    handle: Handle,
    /// Separate from the waker, because the owner may read the waker while the driver, which holds the lock, writes
    /// this.
    filed: UnsafeCell<Filed>,
    _is_there: IsThere,
    /// Present exactly while the state is a deadline.
    waker: UnsafeCell<MaybeUninit<Waker>>,
    state: StateCell,
    /// The requested deadline, while the state is not a deadline; the cached deadline, while it is one.
    kept: AtomicU64,
    /// Where the timer was made.
    origin: &'static Location<'static>,
    _pin: PhantomPinned,
}

/// A byte with one valid value of 256. The other values mean that there is no entry, so an `Option` of one takes no more memory.
#[repr(u8)]
enum IsThere {
    Yes,
}

/// How and where the wheel has filed the entry. Packed, so that one byte of eight is left free.
#[repr(C, packed(2))]
struct Filed {
    /// The index of its place; the place's deadline is `kept`. While the entry is arriving, its index among the arriving entries.
    index: u32,
    /// How far a park may outlast the timer's deadline; `None` if the driver's tolerance decides.
    tolerance: Option<Slack>,
}

// SAFETY: what is not `Send` in an entry is `EntryRef`s' doing: the two cells are only touched by the owner or
// under the driver's lock, whatever the thread (see the ground rules); the waker in one of them is `Send`.
unsafe impl Send for TimerEntry {}
// SAFETY: `&TimerEntry` gives access to atomics only (`deadline`, `is_elapsed`, `handle`); all that touches
// the cells takes `Pin<&mut TimerEntry>` or the driver's lock.
unsafe impl Sync for TimerEntry {}

impl fmt::Debug for TimerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerEntry")
            .field("deadline", &self.deadline())
            .field("state", &self.state.load())
            .finish_non_exhaustive()
    }
}

impl TimerEntry {
    /// A timer of this driver, due at `deadline`. It is registered at its first pending poll.
    #[inline]
    #[track_caller]
    pub fn new(handle: Handle, deadline: Nanos) -> TimerEntry {
        TimerEntry::with_origin(handle, deadline, Location::caller())
    }

    /// Like [`new`](TimerEntry::new), on behalf of other code: [`origin`](TimerEntry::origin) returns the given `origin`.
    #[inline]
    pub fn with_origin(handle: Handle, deadline: Nanos, origin: &'static Location<'static>) -> TimerEntry {
        TimerEntry {
            handle,
            filed: UnsafeCell::new(Filed { index: Place::NOWHERE.index, tolerance: None }),
            _is_there: IsThere::Yes,
            waker: UnsafeCell::new(MaybeUninit::uninit()),
            state: StateCell::new(),
            kept: AtomicU64::new(deadline.get()),
            origin,
            _pin: PhantomPinned,
        }
    }

    /// The driver to which this timer belongs.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Where the timer was made: the line that called [`TimerEntry::new`] or [`Handle::sleep`].
    #[inline]
    pub fn origin(&self) -> &'static Location<'static> {
        self.origin
    }

    /// When the timer is due.
    #[inline]
    pub fn deadline(&self) -> Nanos {
        match self.state.load() {
            State::Deadline(deadline) => deadline,
            _ => self.kept(),
        }
    }

    /// Whether the timer was found due, by the driver or by a poll. If it has not been polled since its
    /// deadline passed, this may still be false.
    #[inline]
    pub fn is_elapsed(&self) -> bool {
        self.state.load() == State::Fired
    }

    /// Whether a poll of the timer as a future has returned that it fired, and no reset or cancel has followed: for callers that do not want to
    /// poll it again then. ([`poll_elapsed`](TimerEntry::poll_elapsed) does not count.)
    ///
    /// ```
    /// use std::task::{Context, Waker};
    /// use std::time::Duration;
    /// use mainspring_driver::{Clock, Driver};
    /// use futures::FutureExt;
    ///
    /// let driver = Driver::new(Clock::monotonic(), || ());
    /// let mut timer = Box::pin(driver.handle().sleep(Duration::ZERO));
    /// assert!(!timer.is_terminated());
    /// assert!(timer.poll_unpin(&mut Context::from_waker(Waker::noop())).is_ready());
    /// assert!(timer.is_terminated());
    /// timer.as_mut().reset(driver.handle().now());
    /// assert!(!timer.is_terminated());
    /// ```
    #[inline]
    pub fn is_terminated(&self) -> bool {
        self.state.is_seen()
    }

    /// Sets how far a park may outlast the deadline so that timers end together, whatever the driver's
    /// [`Tolerance`](crate::Tolerance). Zero ends the park at the deadline; `None`, the initial value, leaves it to the
    /// driver. The timer fires as soon as it is due and the driver runs. Takes effect when the timer is armed the next time.
    pub fn set_tolerance(self: Pin<&mut Self>, tolerance: Option<Duration>) {
        let this = self.as_ref();
        let mut locked;
        if let State::Deadline(_) = this.state.load() {
            locked = this.handle.lock();
            // The entry is filed with the tolerance with which it was armed.
            locked.entries.catch_up();
        }
        this.filed.with_mut(|filed| {
            // SAFETY: `filed` is ours alone: the lock is held, or the entry is not linked and we are its
            // owner, which `Pin<&mut Self>` proves.
            unsafe { (*filed).tolerance = tolerance.map(Slack::at_most) }
        });
    }

    /// Returns this timer, which has not been polled yet, with a tolerance as set by
    /// [`set_tolerance`](TimerEntry::set_tolerance).
    #[must_use]
    pub fn tolerance(self, most: Duration) -> TimerEntry {
        debug_assert_eq!(self.state.load(), State::Idle, "only a pinned entry is armed, and it is not moved");
        self.filed.with_mut(|filed| {
            // SAFETY: the entry is owned and not pinned, so it is in no wheel and nobody else looks.
            unsafe { (*filed).tolerance = Some(Slack::at_most(most)) }
        });
        self
    }

    /// Polls the timer: ready once the deadline has passed.
    ///
    /// The first poll that is pending registers it. A pending poll reads the clock only if the deadline lies
    /// within a millisecond of the driver's latest reading, and at every 64th such poll, so that a loop that
    /// never lets the driver run still sees its timer elapse.
    ///
    /// # Errors
    ///
    /// [`Shutdown`] if the driver was shut down before it fired the timer; see [`Driver::shutdown`](crate::Driver::shutdown)
    /// for a timer that was not armed by then.
    #[inline]
    pub fn poll_elapsed(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Shutdown>> {
        let this = self.as_ref();
        match this.state.load() {
            State::Fired => Poll::Ready(Ok(())),
            State::Shutdown => Poll::Ready(Err(Shutdown(()))),
            State::Idle => this.poll_idle(cx),
            State::Deadline(deadline) => this.poll_linked(this.handle.is_overdue(deadline), cx),
        }
    }

    /// Polls the timer for a timeout: as [`poll_elapsed`](Self::poll_elapsed), but a registered timer is pending until the driver
    /// fires it, also if its deadline has passed.
    ///
    /// A host looks at its sockets before it lets the driver fire timers. So what has arrived in time is seen before the timeout
    /// that waits for it, also if the program has held the thread up. Only in a loop that never lets the driver run does the
    /// timer elapse by itself, after some thousands of polls.
    ///
    /// # Errors
    ///
    /// As [`poll_elapsed`](Self::poll_elapsed).
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::task::{Context, Waker};
    /// use std::time::Duration;
    /// use mainspring_driver::{Driver, Nanos, TestClock};
    ///
    /// let clock = TestClock::new(Nanos::ZERO);
    /// let mut driver = Driver::new(clock.clock(), || {});
    /// let mut up = pin!(driver.handle().sleep(Duration::from_millis(1)));
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert!(up.as_mut().poll_fired(&mut cx).is_pending());
    /// clock.advance(Duration::from_millis(2));
    /// // Now the host looks at its sockets, and then:
    /// assert!(up.as_mut().poll_fired(&mut cx).is_pending());
    /// driver.process(driver.handle().now(), 100);
    /// assert!(up.as_mut().poll_fired(&mut cx).is_ready());
    /// ```
    #[inline]
    pub fn poll_fired(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Shutdown>> {
        let this = self.as_ref();
        match this.state.load() {
            State::Deadline(deadline) => this.poll_linked(this.handle.is_stuck(deadline), cx),
            _ => self.poll_elapsed(cx),
        }
    }

    /// Moves the deadline, to any time.
    ///
    /// A move to a later time is one compare-and-swap, without the lock, or less on the driver's own thread; the timer keeps the
    /// slack that it had (or has the new deadline's, if the wheel has not filed it yet). For an earlier time the timer is filed again. For a time in the past, the timer is ready at the next
    /// poll, and its task is woken. (A time more than a millisecond ahead of the latest reading of the clock is not compared with
    /// a new reading. If it is in the past all the same, the driver's next step finds out, without a park.) The timer keeps its
    /// place in the order of registration, unless it had fired: then it starts anew at its next poll.
    #[inline]
    pub fn reset(self: Pin<&mut Self>, deadline: Nanos) {
        let this = self.as_ref();
        let extend = || {
            let at_home = this.handle.section_own((), |_, ()| this.state.extend_locked(deadline));
            at_home.unwrap_or_else(|()| this.state.extend(deadline))
        };
        let extended = match this.state.load() {
            // Only the owner moves the deadline; if the driver fires the timer meanwhile, `bring_forward` finds that out.
            later @ State::Deadline(at) if at > deadline => Err(later),
            _ => extend(),
        };
        match extended {
            Ok(()) => {
                this.handle.count_reset();
                this.traced().reset(deadline);
            }
            Err(State::Deadline(_)) => this.bring_forward(deadline),
            Err(_) => this.reset_unlinked(deadline),
        }
    }

    /// Unregisters the timer, if it is registered: its waker is dropped and it will not fire. The next poll
    /// registers it again.
    pub fn cancel(self: Pin<&mut Self>) {
        let this = self.as_ref();
        match this.state.load() {
            State::Deadline(_) => this.disarm(TimerEntry::rest),
            State::Fired => this.state.forget(),
            State::Idle | State::Shutdown => {}
        }
    }

    #[inline]
    fn kept(&self) -> Nanos {
        // Relaxed: while linked it is read and written under the lock; otherwise the owner wrote it, or the driver before it
        // released the state that has been read.
        Nanos::from_word(self.kept.load(Ordering::Relaxed))
    }

    /// Stores the deadline in `kept` before the state moves on from it, or the cached deadline when the wheel files the entry.
    #[inline]
    fn keep(&self, deadline: Nanos) {
        // Relaxed: the swap that follows releases it, or only the owner or the thread that has the lock will read it.
        self.kept.store(deadline.get(), Ordering::Relaxed);
    }

    /// How events identify this timer.
    #[inline]
    fn traced(&self) -> TracedTimer {
        TracedTimer::new(std::ptr::from_ref(self), self.origin)
    }
}

impl Future for TimerEntry {
    type Output = Result<(), Shutdown>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(self.as_mut().poll_elapsed(cx));
        if result.is_ok() {
            self.state.see();
        }
        Poll::Ready(result)
    }
}

impl Drop for TimerEntry {
    #[inline]
    fn drop(&mut self) {
        // A state that is not a deadline means that the driver follows no pointer to the entry, and no lock is
        // needed: `load` acquires the driver's last touch.
        if let State::Deadline(_) = self.state.load() {
            self.disarm(|_, _, _| ());
        }
        // From here on the memory holds no entry. Loom is told, so that it detects a driver that still reads it.
        #[cfg(loom)]
        self.waker.with_mut(|_| self.filed.with_mut(|_| ()));
    }
}

// Everything that a reset, a poll and a firing touch lies in the first half of a cache line.
#[cfg(all(not(loom), target_pointer_width = "64"))]
const _: () = assert!(std::mem::offset_of!(TimerEntry, filed) <= 32 && size_of::<TimerEntry>() <= 56);
