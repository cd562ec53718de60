//! `Timers`: the memory in which a layout's timers lie, and the lists that run through them.
//!
//! Ground rules:
//!
//! * A timer takes 256 bytes, like a task with a small future. The layouts and the firing touch its first cache
//!   line only. Touching a timer that is not in the cache costs as much as in a runtime.
//! * A layout that is intrusive in the original keeps its links here; one that is not keeps at most its handle.
//! * Links are indices, so the lists need no unsafe code. The one unsafe block is a prefetch, which a wheel of
//!   arrays can use and a list cannot: only an array knows which timer comes next.

use std::ops::{Index, IndexMut};
use std::sync::atomic::{AtomicU64, Ordering};

use mainspring_driver::wheel::Place;

/// No timer.
pub(super) const NONE: u32 = u32::MAX;

/// A timer, in the middle of the data that a task would hold.
#[derive(Debug)]
#[repr(align(256))]
pub struct Timer {
    /// The state that firing changes.
    state: AtomicU64,
    /// The deadline, in the layout's unit.
    pub(super) when: u64,
    /// A handle that is a number.
    pub(super) handle: u64,
    /// A handle that is a place in Mainspring's wheel.
    pub(super) place: Place,
    /// The list that the timer is in, by the layout's numbering.
    pub(super) slot: u32,
    prev: u32,
    next: u32,
}

impl Timer {
    /// Does what firing a timer costs in any runtime: one atomic step on its state.
    #[inline]
    pub fn fire(&self) {
        // As strong as a runtime needs it: what was done before the timer fired must be visible to the thread
        // that finds it fired, and the waker's registration to the thread that fires it.
        self.state.swap(1, Ordering::AcqRel);
    }
}

/// All timers of a measurement. A timer's key is its index.
#[derive(Debug)]
pub struct Timers(Box<[Timer]>);

impl Timers {
    /// Makes `count` timers, all idle.
    pub fn new(count: u32) -> Timers {
        let idle = |_| Timer {
            state: AtomicU64::new(0),
            when: 0,
            handle: 0,
            place: Place::NOWHERE,
            slot: NONE,
            prev: NONE,
            next: NONE,
        };
        Timers((0..count).map(idle).collect())
    }

    /// Prefetches the timer's cache line, without waiting for it.
    #[inline]
    pub(super) fn prefetch(&self, key: u32) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let timer: *const Timer = &self[key];
            // SAFETY: a prefetch is a hint: it reads nothing and cannot fault, whatever the address; SSE is
            // part of x86_64.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(timer.cast::<i8>()) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = key;
    }
}

impl Index<u32> for Timers {
    type Output = Timer;

    #[inline]
    fn index(&self, key: u32) -> &Timer {
        &self.0[key as usize]
    }
}

impl IndexMut<u32> for Timers {
    #[inline]
    fn index_mut(&mut self, key: u32) -> &mut Timer {
        &mut self.0[key as usize]
    }
}

/// The ends of a doubly linked list that runs through timers.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub(super) const EMPTY: List = List { head: NONE, tail: NONE };

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    #[inline]
    pub(super) fn push_back(&mut self, timers: &mut Timers, key: u32) {
        let timer = &mut timers[key];
        timer.prev = self.tail;
        timer.next = NONE;
        match self.tail {
            NONE => self.head = key,
            tail => timers[tail].next = key,
        }
        self.tail = key;
    }

    #[inline]
    pub(super) fn pop_front(&mut self, timers: &mut Timers) -> Option<u32> {
        let key = self.head;
        if key == NONE {
            return None;
        }
        self.head = timers[key].next;
        match self.head {
            NONE => self.tail = NONE,
            head => timers[head].prev = NONE,
        }
        Some(key)
    }

    /// Appends another list.
    pub(super) fn append(&mut self, timers: &mut Timers, other: List) {
        if other.is_empty() {
            return;
        }
        if self.is_empty() {
            *self = other;
            return;
        }
        timers[self.tail].next = other.head;
        timers[other.head].prev = self.tail;
        self.tail = other.tail;
    }

    /// Removes a timer that is in this list.
    #[inline]
    pub(super) fn unlink(&mut self, timers: &mut Timers, key: u32) {
        let Timer { prev, next, .. } = timers[key];
        match prev {
            NONE => self.head = next,
            prev => timers[prev].next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => timers[next].prev = prev,
        }
    }
}
