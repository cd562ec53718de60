//! `StateCell`: the one atomic word that holds a timer's state.
//!
//! Ground rules:
//!
//! * The word is a deadline, or one of four values that each mean a state. No [`Nanos`] equals one of the four.
//! * While it is a deadline, the entry is linked in the wheel and holds a waker. Otherwise it is not linked and holds no waker.
//! * Leaving or entering a deadline takes the driver's lock (arrows 1 to 5). Moving a deadline to a later one takes no
//!   lock (arrow 6): the wheel finds out when the old deadline comes due. A thread that gets the lock at no cost
//!   moves it with a plain store.
//! * `FIRED` and `SHUTDOWN` are the driver's last touch: once the owner reads one of them, it may free the entry.
//!
//! ```text
//!                       1 arm                  3 fire
//!            ┌──────┐ ────────▶ ┌──────────┐ ────────▶ ┌───────┐
//!            │ IDLE │           │ deadline │           │ FIRED │
//!            └──────┘ ◀──────── └──────────┘           └───────┘
//!              ▲  │   2 disarm    │  ▲   │ 4 shut_down     │
//!              │  │               └──┘   ▼                 │
//!              │  │         6 extend   ┌──────────┐        │
//!              │  └──────────────────▶ │ SHUTDOWN │        │
//!              │    5 refuse           └──────────┘        │
//!              └───────────────────────────────────────────┘
//!                              7 forget
//!
//!   1  TimerEntry::arm            owner, under the lock; also `bring_forward`, from a deadline to an earlier one
//!   2  TimerEntry::unlink         owner, under the lock (drop, cancel)
//!   3  EntryRef::fire             driver, under the lock; also the owner, under the lock, when a poll or
//!                                 a reset finds the deadline in the past (`settle`; from IDLE without the lock)
//!   4  EntryRef::fire             driver, under the lock, at shutdown
//!   5  TimerEntry::arm            owner: the driver is closed already
//!   6  TimerEntry::reset          owner, without the lock, by compare-and-swap; on the lock's own thread under it
//!   7  TimerEntry::reset, cancel  owner, without the lock
//! ```
//!
//! `FIRED` has a second value, `SEEN`, which only the owner distinguishes: a poll has reported that the timer fired.

use crate::Nanos;
use crate::sync::{AtomicU64, Ordering};

/// Not registered: never polled, cancelled, or reset after it fired. Entered by `new`, `disarm` and
/// `forget`; left by `arm`, `settle` and `refuse`. The entry is in no wheel and holds no waker.
const IDLE: u64 = u64::MAX;

/// The deadline has passed, and the waker was taken out to be woken. Entered by `fire` and `settle`; left
/// by `forget`. The driver will not touch the entry again.
const FIRED: u64 = u64::MAX - 1;

/// The driver was shut down before the deadline. Entered by `shut_down` and `refuse`; never left. The
/// driver will not touch the entry again.
const SHUTDOWN: u64 = u64::MAX - 2;

/// Like `FIRED`, and a poll has told the owner so. Entered by `see`; left by `forget`.
const SEEN: u64 = u64::MAX - 3;

const _: () = assert!(Nanos::NEVER.get() < SEEN, "a deadline must not equal a state");

/// The state of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not registered with the driver.
    Idle,
    /// Registered, waiting for this deadline.
    Deadline(Nanos),
    /// The deadline has passed.
    Fired,
    /// The driver was shut down before the deadline.
    Shutdown,
}

/// One atomic word, changed by compare-and-swap: a deadline, or a value that means a state.
#[derive(Debug)]
pub(super) struct StateCell(AtomicU64);

impl StateCell {
    /// A cell that is [`State::Idle`].
    #[cfg(not(loom))]
    pub(super) const fn new() -> StateCell {
        StateCell(AtomicU64::new(IDLE))
    }

    /// A cell that is [`State::Idle`].
    #[cfg(loom)]
    pub(super) fn new() -> StateCell {
        StateCell(AtomicU64::new(IDLE))
    }

    /// The state of the timer.
    #[inline]
    pub(super) fn load(&self) -> State {
        // Acquire: pairs with the Release of `fire` and `shut_down`. A thread that reads FIRED or SHUTDOWN may free
        // or reuse the entry, so the driver's accesses to it must have happened before.
        decode(self.0.load(Ordering::Acquire))
    }

    /// Arrow 1: the entry is about to be linked, or is linked and about to be filed under an earlier deadline. Only the owner
    /// calls this, under the lock, when the entry is idle or linked, and files the entry before it unlocks.
    #[inline]
    pub(super) fn arm(&self, deadline: Nanos) {
        // Relaxed: the driver, which goes on from the deadline to the waker, reads both under the lock, and the owner is
        // ordered as in `disarm`. For any other reader it is only a number.
        self.0.store(deadline.get(), Ordering::Relaxed);
    }

    /// Arrow 2: the entry has been unlinked. Only the owner calls this, under the lock.
    #[inline]
    pub(super) fn disarm(&self) {
        // Relaxed: only the owner still reads it, and its hand-over to another thread is ordered
        // by whatever moved it there.
        self.0.store(IDLE, Ordering::Relaxed);
    }

    /// Arrow 3, by the owner: the deadline is in the past. Only when idle, or under the lock when the entry has been removed.
    #[inline]
    pub(super) fn settle(&self) {
        // Relaxed: as in `disarm`.
        self.0.store(FIRED, Ordering::Relaxed);
    }

    /// Arrow 5: the driver is closed. Only the owner calls this, when the entry is idle.
    #[inline]
    pub(super) fn refuse(&self) {
        // Relaxed: as in `disarm`.
        self.0.store(SHUTDOWN, Ordering::Relaxed);
    }

    /// Arrow 7: a timer that fired becomes idle, and may start anew. Only the owner calls this, after it read `Fired`.
    #[inline]
    pub(super) fn forget(&self) {
        // Relaxed: as in `disarm`.
        self.0.store(IDLE, Ordering::Relaxed);
    }

    /// Notes that the owner was told that the timer fired. Only the owner calls this, after it read `Fired`.
    #[inline]
    pub(super) fn see(&self) {
        // Relaxed: as in `disarm`.
        self.0.store(SEEN, Ordering::Relaxed);
    }

    /// Whether the timer fired and the owner was told.
    #[inline]
    pub(super) fn is_seen(&self) -> bool {
        // Relaxed: only the owner writes it.
        self.0.load(Ordering::Relaxed) == SEEN
    }

    /// Arrow 6: moves a deadline to a later or equal one, without the lock.
    ///
    /// # Errors
    ///
    /// The state, if it is not a deadline, or is a deadline later than `deadline`.
    #[inline]
    pub(super) fn extend(&self, deadline: Nanos) -> Result<(), State> {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            if seen > deadline.get() {
                return Err(decode(seen));
            }
            // Relaxed on success: nothing but the deadline changes. Acquire on failure: the driver's FIRED may have been
            // read, see `load`.
            match self.0.compare_exchange_weak(seen, deadline.get(), Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
    }

    /// Arrow 6, like [`extend`](StateCell::extend), but under the lock: only the owner calls this, so the deadline does not
    /// move meanwhile.
    ///
    /// # Errors
    ///
    /// As for [`extend`](StateCell::extend).
    #[inline]
    pub(super) fn extend_locked(&self, deadline: Nanos) -> Result<(), State> {
        // Acquire: the driver's FIRED may be read, see `load`.
        let seen = self.0.load(Ordering::Acquire);
        if seen > deadline.get() {
            return Err(decode(seen));
        }
        // Relaxed: as in `arm`.
        self.0.store(deadline.get(), Ordering::Relaxed);
        Ok(())
    }

    /// Arrow 3, by the driver, as its last touch: `deadline` has passed.
    ///
    /// # Errors
    ///
    /// The state, if it is not `deadline`: a reset came first.
    #[inline]
    pub(super) fn fire(&self, deadline: Nanos) -> Result<(), State> {
        self.leave(deadline, FIRED)
    }

    /// Arrow 4, by the driver, as its last touch: the driver is shut down.
    ///
    /// # Errors
    ///
    /// The state, if it is not `deadline`: a reset came first.
    #[inline]
    pub(super) fn shut_down(&self, deadline: Nanos) -> Result<(), State> {
        self.leave(deadline, SHUTDOWN)
    }

    #[inline]
    fn leave(&self, deadline: Nanos, to: u64) -> Result<(), State> {
        // Release: the driver's reads of the waker and the place happen before the owner, which acquires the
        // new state, frees or overwrites them. Relaxed on failure: if a reset has moved the deadline, only the number
        // matters, and the lock orders everything else.
        match self.0.compare_exchange(deadline.get(), to, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(now) => Err(decode(now)),
        }
    }
}

#[inline]
fn decode(word: u64) -> State {
    match word {
        IDLE => State::Idle,
        FIRED | SEEN => State::Fired,
        SHUTDOWN => State::Shutdown,
        deadline => State::Deadline(Nanos::new(deadline)),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn deadlines_at_the_end_of_time_are_no_states() {
        // tokio #5710: a clamped duration became a signal value of the state cell.
        for word in [u64::MAX, u64::MAX - 1, u64::MAX - 2, u64::MAX - 3, Nanos::NEVER.get(), 0] {
            let cell = StateCell::new();
            let deadline = Nanos::new(word);
            cell.arm(deadline);
            assert_eq!(cell.load(), State::Deadline(deadline));
            assert_eq!(cell.extend(Nanos::NEVER), Ok(()));
            assert_eq!(cell.fire(Nanos::NEVER), Ok(()));
        }
    }

    #[test]
    fn a_state_is_never_extended() {
        let cell = StateCell::new();
        assert_eq!(cell.extend(Nanos::NEVER), Err(State::Idle));
        cell.settle();
        assert_eq!(cell.extend(Nanos::NEVER), Err(State::Fired));
        cell.forget();
        cell.refuse();
        assert_eq!(cell.extend(Nanos::NEVER), Err(State::Shutdown));
    }

    #[test]
    fn what_was_seen_has_fired_until_it_is_forgotten() {
        let cell = StateCell::new();
        cell.settle();
        assert!(cell.load() == State::Fired && !cell.is_seen());
        cell.see();
        assert!(cell.load() == State::Fired && cell.is_seen());
        assert_eq!(cell.extend(Nanos::NEVER), Err(State::Fired));
        cell.forget();
        assert!(cell.load() == State::Idle && !cell.is_seen());
    }

    #[test]
    fn extending_goes_only_forward() {
        let cell = StateCell::new();
        cell.arm(Nanos::new(100));
        assert_eq!(cell.extend(Nanos::new(99)), Err(State::Deadline(Nanos::new(100))));
        assert_eq!(cell.extend(Nanos::new(100)), Ok(()));
        assert_eq!(cell.extend(Nanos::new(101)), Ok(()));
        assert_eq!(cell.shut_down(Nanos::new(100)), Err(State::Deadline(Nanos::new(101))));
        assert_eq!(cell.shut_down(Nanos::new(101)), Ok(()));
        assert_eq!(cell.load(), State::Shutdown);
    }
}
