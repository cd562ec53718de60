//! The numbers of tasks: given when a task is spawned, on any thread, in the order of spawning.
//!
//! ```text
//!   Numbers, in the Remote     0 .. 15 | 16 | 17 .. 32 | 33 ..
//!                              block A   one   block B   next
//!   owner thread               takes a block, and from it without an atomic step
//!   other threads              take one
//! ```
//!
//! Ground rules:
//!
//! * No number is given twice, until they wrap around.
//! * If one spawn happened before another, its number is the lower one. So the owner gives up the rest of its block as
//!   soon as it can see that another thread has taken a number since: some numbers are never given.

use super::task::NUMBERS;
use crate::sync::{AtomicU64, Ordering};
use std::cell::Cell;
use std::fmt;

/// So many numbers the owner takes at a time.
const BLOCK: u64 = 16;

/// Which task of its runtime: its number, as a [dump](crate::dump) shows it.
///
/// Tasks are numbered from zero in the order of spawning: if one was spawned before another, its number is lower. Some
/// numbers are left out when several threads spawn. Two tasks of different runtimes may have the same number, and two of
/// one runtime if 2^48 were spawned in between.
///
/// ```
/// mainspring::block_on(async {
///     let (first, second) = (mainspring::spawn(async {}), mainspring::spawn(async {}));
///     assert!(first.id() < second.id());
///     assert_eq!(first.id().to_string(), "0");
/// });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u64);

impl Id {
    /// The task that nobody sees: the last number before they wrap around.
    pub(crate) const HIDDEN: Id = Id(NUMBERS);

    /// The task of this number, which wraps around.
    #[inline]
    pub(crate) fn new(number: u64) -> Id {
        Id(number & NUMBERS)
    }

    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", self.0)
    }
}

impl From<Id> for u64 {
    fn from(id: Id) -> u64 {
        id.0
    }
}

/// The numbers of an executor that nobody has taken yet.
pub(super) struct Numbers {
    next: AtomicU64,
}

impl Numbers {
    /// All numbers from `first` on.
    pub(super) fn new(first: u64) -> Numbers {
        Numbers { next: AtomicU64::new(first) }
    }

    /// Takes the next number, on any thread.
    pub(super) fn take(&self) -> Id {
        // Relaxed, here and below: the steps of one atomic are in one order, which is all that the numbers promise.
        Id::new(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// A number that is higher than all that were taken.
    pub(super) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }
}

/// The numbers that the owner thread has taken and not given yet.
#[derive(Default)]
pub(super) struct NumberBlock {
    next: Cell<u64>,
    end: Cell<u64>,
}

impl NumberBlock {
    /// Takes a number, on the owner thread.
    #[inline]
    pub(super) fn take(&self, numbers: &Numbers) -> Id {
        let end = self.end.get();
        if self.next.get() == end || numbers.next() != end {
            self.refill(numbers);
        }
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        Id::new(number)
    }

    #[cold]
    fn refill(&self, numbers: &Numbers) {
        let first = numbers.next.fetch_add(BLOCK, Ordering::Relaxed);
        self.next.set(first);
        self.end.set(first.wrapping_add(BLOCK));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_later_task_gets_a_higher_number() {
        let (numbers, block) = (Numbers::new(0), NumberBlock::default());
        let mut last = None;
        for n in 0..100 {
            // Runs of both, of all lengths up to more than a block.
            let owner = (n * n / 7) % 3 != 0;
            let number = if owner { block.take(&numbers) } else { numbers.take() };
            assert!(Some(number) > last, "{number} after {last:?}");
            last = Some(number);
        }
    }

    #[test]
    fn one_thread_alone_gets_every_number() {
        let (numbers, block) = (Numbers::new(0), NumberBlock::default());
        assert!((0..100).all(|n| block.take(&numbers).number() == n));
    }

    #[test]
    fn numbers_wrap_around_to_zero() {
        for first in [u64::MAX - 3, NUMBERS - 3] {
            let (numbers, block) = (Numbers::new(first), NumberBlock::default());
            let given: Vec<u64> = (0..8).map(|_| block.take(&numbers).number()).collect();
            assert_eq!(given, [NUMBERS - 3, NUMBERS - 2, NUMBERS - 1, NUMBERS, 0, 1, 2, 3]);
        }
    }
}
