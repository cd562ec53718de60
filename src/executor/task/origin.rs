//! Where a task was spawned, in a word that another thread may read while its owner writes it.

use crate::executor::task_list::Origin;
use crate::sync::{AtomicPtr, Ordering};
use std::panic::Location;
use std::ptr;

/// A line of the program, or none yet.
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
