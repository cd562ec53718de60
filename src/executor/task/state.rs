//! The atomic word of a task, and the only steps it can take; and a word for the source location that spawned a task.
//!
//! Ground rules:
//!
//! * A step that another thread could disturb is a single read-modify-write. A step is a load and a store only where
//!   no other thread has a reference. The caller must know that; each such step says why.
//! * The thread that drops the last reference has the task to itself.
//! * Until the task completes, the count is higher by `KEPT`, and the owner thread counts the references that it makes and drops
//!   in a number of its own, `held` (see `header.rs`). That takes no atomic step, and the count cannot reach zero. The number of
//!   references is the sum of both. When the task completes, or `held` reaches its limit, `held` is added to the count.

use crate::executor::tasks::Origin;
use crate::sync::{AtomicPtr, AtomicU32, Ordering, fence};
use std::panic::Location;
use std::{process, ptr};

/// Another thread has woken the task. It is in the inbox or about to be put there.
const SCHEDULED: u32 = 1;
/// The result is stored. Never unset.
const COMPLETE: u32 = 2;
/// The owner must drop the future when it next takes up the task. Never unset.
const ABORTED: u32 = 4;
/// The claim has not given up the output. COMPLETE is set by one side, and this bit is unset by the other. The side that
/// comes second finds the other's step done, and has to drop the output.
const JOIN_INTEREST: u32 = 8;
/// The cell for the claim's waker is full. While this bit is unset, the cell is the claim's. While it is set, no side
/// touches the cell. Once COMPLETE is set as well, the cell is the owner's. Only the claim sets and unsets this bit, and only
/// before COMPLETE.
const JOIN_WAKER: u32 = 16;
/// One reference. The count takes up the bits from here on.
const REF: u32 = 32;

/// More references than the owner thread can count in `held`, in either direction.
const KEPT: u32 = 256;

/// The maximum number of references: half of what the word can count, so that racing threads cannot overflow it.
const MAX_REFS: u32 = u32::MAX / REF / 2;

/// The atomic word of a task.
pub(super) struct State(AtomicU32);

/// The value of the word at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loaded(u32);

impl Loaded {
    #[inline]
    pub(super) fn is_scheduled(self) -> bool {
        self.0 & SCHEDULED != 0
    }

    #[inline]
    pub(super) fn is_complete(self) -> bool {
        self.0 & COMPLETE != 0
    }

    #[inline]
    pub(super) fn is_aborted(self) -> bool {
        self.0 & ABORTED != 0
    }

    #[inline]
    pub(super) fn has_join_interest(self) -> bool {
        self.0 & JOIN_INTEREST != 0
    }

    #[inline]
    pub(super) fn has_join_waker(self) -> bool {
        self.0 & JOIN_WAKER != 0
    }

    /// The number of references to a task that has not completed, if the owner thread counts `held` of them.
    #[inline]
    pub(super) fn refs(self, held: i8) -> u32 {
        (self.0 / REF).wrapping_sub(KEPT).wrapping_add_signed(held.into())
    }
}

/// A change that the claim makes before COMPLETE.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// The cell has been filled.
    SetWaker,
    /// The claim takes the cell back.
    UnsetWaker,
    /// The claim gives up the output, and its reference. The cell is the claim's and stays empty.
    Leave,
}

impl Change {
    #[inline]
    fn apply(self, word: u32) -> u32 {
        match self {
            Change::SetWaker => word | JOIN_WAKER,
            Change::UnsetWaker => word & !JOIN_WAKER,
            Change::Leave => (word & !JOIN_INTEREST) - REF,
        }
    }
}

impl State {
    /// Returns the word of a task with two references, the owner's and the claim's.
    #[inline]
    pub(super) fn new() -> State {
        State(AtomicU32::new(JOIN_INTEREST | ((KEPT + 2) * REF)))
    }

    #[inline]
    pub(super) fn load(&self) -> Loaded {
        // Acquire: COMPLETE publishes the output, ABORTED what was written before the abort.
        Loaded(self.0.load(Ordering::Acquire))
    }

    /// Marks the task as woken from another thread. Returns whether the caller has to put it into the inbox.
    pub(super) fn schedule(&self) -> bool {
        // Release, also when the bit was set: the poll to come sees what was written before any of the wakes
        // that led to it. (tokio #7622)
        self.0.fetch_or(SCHEDULED, Ordering::Release) & (SCHEDULED | COMPLETE) == 0
    }

    /// Marks the task as aborted. It must be woken then.
    pub(super) fn abort(&self) {
        // Release: what was written before the abort is seen by the thread that finds it.
        self.0.fetch_or(ABORTED, Ordering::Release);
    }

    /// To be called when a poll begins. A wake from now on has to send the task to the inbox again.
    #[inline]
    pub(super) fn begin(&self) -> Loaded {
        // Acquire, here and below: the poll sees what was written before every wake since the last one.
        let word = self.0.load(Ordering::Acquire);
        if word & SCHEDULED == 0 {
            return Loaded(word);
        }
        Loaded(self.0.fetch_and(!SCHEDULED, Ordering::Acquire))
    }

    /// Marks the task as complete, after its result is in its place. The owner thread, which calls this, counts `held`
    /// references. From here on it counts all references in the word.
    #[inline]
    pub(super) fn complete(&self, held: i8) -> Loaded {
        let word = self.0.load(Ordering::Acquire);
        let counted = (i32::from(held) as u32).wrapping_sub(KEPT).wrapping_mul(REF);
        let change = counted.wrapping_add(COMPLETE);
        if Loaded(word).refs(held) == 1 {
            // The owner's is the only reference, and no poll lends a waker out: there is no other thread that could see it.
            self.0.store(word.wrapping_add(change), Ordering::Relaxed);
            return Loaded(word);
        }
        // Release: publishes the result to a handle that finds COMPLETE; and what was done with the references that the owner
        // thread has dropped comes before the end of the task. Acquire: what a handle that is gone
        // did comes before the drop of the output, and the waker it left is whole. The bit was unset, so an addition sets
        // it, and is the cheaper step.
        Loaded(self.0.fetch_add(change, Ordering::AcqRel))
    }

    /// Makes a change for the claim. If COMPLETE is set, it changes nothing and returns false.
    ///
    /// `held` is the number of references that the owner thread counts by itself. It is given if this is the owner thread and it
    /// is not polling this very task.
    #[inline]
    pub(super) fn change(&self, change: Change, held: Option<i8>) -> bool {
        // Acquire, here and below: if COMPLETE is set, the output is the claim's.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            if word & COMPLETE != 0 {
                return false;
            }
            if held.is_some_and(|held| Loaded(word).refs(held) == 2) {
                // There are only the claim's reference and the owner's. Both are this thread's, and no poll
                // lends a waker out.
                self.0.store(change.apply(word), Ordering::Relaxed);
                return true;
            }
            // Release: the cell's new content is seen by the owner that completes the task; what the claim did
            // comes before the owner's drop of the output.
            match self.0.compare_exchange_weak(word, change.apply(word), Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Adds `more` references. It may be negative only on the owner thread, before the task completes.
    #[inline]
    pub(super) fn add_refs(&self, more: i32) {
        // Relaxed: each reference is made from another one, which its holder got in an orderly way; and what was done with the
        // references that the owner thread has dropped is released as the task completes.
        let before = self.0.fetch_add((more as u32).wrapping_mul(REF), Ordering::Relaxed);
        if before / REF > MAX_REFS {
            // Possible only by forgetting tens of millions of wakers. To continue counting could free the task too early.
            process::abort();
        }
    }

    /// Removes a reference. Returns whether it was the last one.
    #[inline]
    pub(super) fn drop_ref(&self) -> bool {
        // Acquire: whatever other threads did with their references comes before the end of the task.
        if self.0.load(Ordering::Acquire) / REF == 1 {
            return true;
        }
        // Release: what was done with this reference comes before the end of the task.
        if self.0.fetch_sub(REF, Ordering::Release) / REF != 1 {
            return false;
        }
        fence(Ordering::Acquire);
        true
    }
}

/// Where a task was spawned, or nothing yet. It is a word that another thread may read while its owner writes it.
pub(in crate::executor) struct AtomicOrigin(AtomicPtr<Location<'static>>);

impl AtomicOrigin {
    pub(in crate::executor) fn new() -> AtomicOrigin {
        AtomicOrigin(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline]
    pub(in crate::executor) fn store(&self, origin: Origin, ordering: Ordering) {
        self.0.store(ptr::from_ref(origin).cast_mut(), ordering);
    }

    pub(in crate::executor) fn load(&self, ordering: Ordering) -> Option<Origin> {
        let place = self.0.load(ordering);
        // SAFETY: The pointer is null, or was made in `store` from a reference that is valid for the life of the program
        // to something that nobody writes. So it may be followed whatever the ordering.
        unsafe { place.as_ref() }
    }
}
