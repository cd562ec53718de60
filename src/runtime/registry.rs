//! The runtimes of this process by number, for those who remember nothing but the number.
//!
//! A timeout belongs to the runtime in which it was made, but most timeouts never need it: their future is
//! ready first. To remember a number costs them a copy of a word, where a handle would cost two atomic steps.
//!
//! Ground rules:
//!
//! * A number is never given twice.
//! * The list's references are weak: to be listed keeps no runtime alive. What was found is dropped by who
//!   asked for it, without the lock.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::handle::Shared;

/// Which of the process's runtimes.
pub(crate) type Number = NonZeroU64;

static RUNTIMES: Mutex<BTreeMap<Number, Weak<Shared>>> = Mutex::new(BTreeMap::new());

/// A number for a runtime that is being made.
pub(super) fn number() -> Number {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: the numbers differ, and nothing else is asked of them.
    Number::new(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(Number::MAX)
}

/// Lists a runtime under its number.
pub(super) fn list(shared: &Arc<Shared>) {
    lock().insert(shared.number, Arc::downgrade(shared));
}

/// Strikes a runtime off the list, as the last that knew it goes.
pub(super) fn strike(number: Number) {
    lock().remove(&number);
}

/// The runtime of this number; `None` if nobody knows it any more.
pub(super) fn find(number: Number) -> Option<Arc<Shared>> {
    lock().get(&number).and_then(Weak::upgrade)
}

fn lock() -> MutexGuard<'static, BTreeMap<Number, Weak<Shared>>> {
    // No user code runs under it, so nothing can be left half changed.
    RUNTIMES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;

    #[test]
    fn a_runtime_is_found_while_anybody_knows_it() {
        let runtime = Runtime::new().unwrap();
        let handle = runtime.handle().clone();
        let number = handle.number();
        assert!(find(number).is_some_and(|found| found.number == number));
        drop(runtime);
        assert!(find(number).is_some());
        drop(handle);
        assert!(find(number).is_none());
        assert!(!lock().contains_key(&number));
    }
}
