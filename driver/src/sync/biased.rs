//! `Biased`: a mutex that costs its own thread no atomic step as long as no other thread wants it.
//!
//! ```text
//!              another thread: raises `shared`, then the heavy barrier, then waits until `inside` is down
//!            ┌───────────────────────────────────────────────────────────────────────────────────────┐
//!            │                                                                                       ▼
//!   own: the own thread raises `inside`, the others wait           shared: everybody takes the mutex, as at first
//!            ▲                                                                                       │
//!            └───────────────────────────────────────────────────────────────────────────────────────┘
//!              the own thread: lowers `shared`, under the mutex, after QUIET sections with nobody between
//! ```
//!
//! Ground rules:
//!
//! * The own thread is the first that calls [`settle`](Biased::settle), forever: a later one could not know whether the first is
//!   about to raise `inside`. Thread numbers are not used again: when the own thread has ended, no other thread is taken for it.
//! * Only the own thread writes `inside` and lowers `shared`; only other threads raise `shared`, which changes under the mutex.
//! * A thread enters in one of two ways: the own thread, if it has raised `inside` and then found `shared` down; or the holder of
//!   the mutex, if it has found `shared` raised, and `inside` down after `shared` was raised. Not both: the two barriers order
//!   "raise `inside`, look at `shared`" and "raise `shared`, look at `inside`", so at least one side sees the other.
//! * The barrier costs one side nothing: `heavy` makes every other thread of this process pass a full barrier, wherever it is, so
//!   that `light` need only keep the compiler from reordering. For each `heavy` and each `light` one of two holds: what stands
//!   before the `light` in its thread is seen by what stands after the `heavy` in the other; or what stands before the `heavy` is
//!   seen by what stands after the `light`. Two `SeqCst` fences promise the same, and are what loom gets. Where `EXISTS` is
//!   false, or `prepare` returned false, neither of the two is called.
//! * A waiting thread sleeps and holds nothing: on the mutex, or on the condition variable until the own thread has left.
//! * A second `lock` on a thread that has the lock panics or hangs, as with std's mutex. It never enters.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};

use barrier::EXISTS;

use super::counted::{claim_number, number};
use super::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, lock};

/// After this many sections of its own with none of another thread between, the own thread goes without the mutex again. Each
/// section then costs 10 ns less. The barrier costs the next thread that comes 3 µs, and every running thread up to one: that is
/// worth the risk.
pub(super) const QUIET: u32 = if cfg!(loom) { 1 } else { 1024 };

/// There is no own thread yet (`VACANT`), or, because there is no barrier, there never is (`NOBODY`).
const VACANT: u64 = u64::MAX;
const NOBODY: u64 = u64::MAX - 1;

pub(crate) struct Biased<T> {
    /// The number of the own thread, or `VACANT` or `NOBODY`.
    own: AtomicU64,
    /// The own thread has entered, or is trying to, without the mutex.
    inside: AtomicBool,
    /// Every thread takes the mutex.
    shared: AtomicBool,
    /// How often the own thread has locked the mutex since another thread has.
    mutex: Mutex<u32>,
    /// The own thread has lowered `inside`.
    left: Condvar,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time gets at the value, by the ground rules, and each sees what those before have done.
unsafe impl<T: Send> Sync for Biased<T> {}

/// The lock is held while the guard exists.
pub(crate) struct BiasedGuard<'a, T> {
    lock: &'a Biased<T>,
    /// `None` if the own thread has entered without the mutex.
    pub(super) mutex: Option<MutexGuard<'a, u32>>,
    /// So that threads may share the guard if they may share a `&mut T`.
    _value: PhantomData<&'a mut T>,
}

impl<T> Biased<T> {
    pub(crate) fn new(value: T) -> Biased<T> {
        Biased {
            own: AtomicU64::new(if barrier::prepare() { VACANT } else { NOBODY }),
            inside: AtomicBool::new(false),
            shared: AtomicBool::new(true),
            mutex: Mutex::new(0),
            left: Condvar::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Makes the calling thread the own thread, unless there is one already.
    #[inline]
    pub(crate) fn settle(&self) {
        // Relaxed, here and wherever `own` is read: a thread looks for its own number, which only it can have written.
        if EXISTS && self.own.load(Ordering::Relaxed) == VACANT {
            let _ = self.own.compare_exchange(VACANT, claim_number(), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> BiasedGuard<'_, T> {
        let enter = || if self.enter() { None } else { Some(self.lock_mutex()) };
        let mutex = if EXISTS { enter() } else { Some(lock(&self.mutex)) };
        BiasedGuard { lock: self, mutex, _value: PhantomData }
    }

    /// Runs `section` with `input` under the lock, if the calling thread gets it without an atomic step, and without waiting. The
    /// input and the result are handed through, so that where no thread waits nothing has to be kept meanwhile.
    ///
    /// # Errors
    ///
    /// The input, if the calling thread does not get the lock.
    #[inline]
    pub(crate) fn section_own<A, R>(&self, input: A, section: impl FnOnce(&mut T, A) -> R) -> Result<R, A> {
        if !EXISTS || !self.enter() {
            return Err(input);
        }
        // If the section panics, the guard leaves.
        let mut guard = BiasedGuard { lock: self, mutex: None, _value: PhantomData };
        let result = section(&mut guard, input);
        mem::forget(guard);
        Ok(self.leave(result))
    }

    #[inline]
    fn is_own(&self) -> bool {
        self.own.load(Ordering::Relaxed) == number()
    }

    /// Enters without the mutex, if this is the own thread and `shared` is down.
    #[inline]
    fn enter(&self) -> bool {
        if !self.is_own() {
            return false;
        }
        // Relaxed: only this thread writes it.
        assert!(!self.inside.load(Ordering::Relaxed), "the lock was taken by a thread that has it");
        // Only a hint, so that `inside` is not raised for nothing each time.
        if self.shared.load(Ordering::Relaxed) {
            return false;
        }
        // Relaxed: nothing is released by it.
        self.inside.store(true, Ordering::Relaxed);
        barrier::light();
        // Relaxed: if it is down, this thread lowered it, under the mutex, which acquired what was done before, and no other
        // thread has entered since.
        if self.shared.load(Ordering::Relaxed) {
            self.leave(());
            return false;
        }
        true
    }

    /// The own thread leaves, or gives up entering. Returns `result`.
    #[inline]
    fn leave<R>(&self, result: R) -> R {
        // Release: pairs with the Acquire in `lock_mutex`. What this thread has done happens before what is done by a thread
        // that finds `inside` down.
        self.inside.store(false, Ordering::Release);
        barrier::light();
        // Relaxed: either this finds it raised, or the thread that raised it finds `inside` down and does not wait.
        if self.shared.load(Ordering::Relaxed) {
            return self.tell(result);
        }
        result
    }

    #[cold]
    #[inline(never)]
    fn tell<R>(&self, result: R) -> R {
        // Locked for a moment: a thread that has found `inside` raised is waiting by now.
        drop(lock(&self.mutex));
        self.left.notify_all();
        result
    }

    #[cold]
    #[inline(never)]
    fn lock_mutex(&self) -> MutexGuard<'_, u32> {
        let mut quiet = lock(&self.mutex);
        if self.is_own() {
            // It has found `shared` raised, and no other thread lowers it.
            *quiet += 1;
            return quiet;
        }
        loop {
            *quiet = 0;
            // Again after each wait: the own thread may have lowered `shared` meanwhile. Relaxed: it changes under the mutex.
            if !self.shared.load(Ordering::Relaxed) {
                self.shared.store(true, Ordering::Relaxed);
                barrier::heavy();
            }
            // Acquire: pairs with the Release in `leave`. The barrier was passed by this thread, or by one that has held the
            // mutex before: the mutex hands on what that one was bound to see.
            if !self.inside.load(Ordering::Acquire) {
                return quiet;
            }
            quiet = self.left.wait(quiet).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

impl<T> Drop for BiasedGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        match &mut self.mutex {
            None => self.lock.leave(()),
            // Only the own thread counts it up. Relaxed: the mutex, which is held until after this, tells the other threads.
            Some(quiet) if EXISTS && **quiet >= QUIET => {
                **quiet = 0;
                self.lock.shared.store(false, Ordering::Relaxed);
            }
            Some(_) => {}
        }
    }
}

impl<T> Deref for BiasedGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard has the lock, and lends the value out as it is lent itself.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for BiasedGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.lock.value.get() }
    }
}

/// The barrier by Linux's `membarrier`. The kernel's documentation promises that between entry to and return from a private expedited one
/// all running threads of the process have passed a full memory barrier; those that do not run pass one when they are
/// switched to. It does so at some place between two instructions of each: a `light` before this place is the first of the
/// two cases above, one after it the second. ThreadSanitizer and Miri know nothing of this.
#[cfg(all(target_os = "linux", feature = "membarrier", not(any(loom, miri, mainspring_sanitize))))]
pub(super) mod barrier {
    use std::sync::atomic::{AtomicU8, Ordering, compiler_fence};

    use rustix::thread::{MembarrierCommand, membarrier};

    pub(in super::super) const EXISTS: bool = true;

    /// Returns whether the system grants the barrier. The first call in a process with several threads may take 20 ms. A thread
    /// that calls this meanwhile also asks the system, and does not wait for the first: a child by `fork` might wait for a thread
    /// that it does not have.
    pub(in super::super) fn prepare() -> bool {
        const UNKNOWN: u8 = 0;
        const GRANTED: u8 = 1;
        const REFUSED: u8 = 2;
        static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
        // Relaxed: the answer stands alone, and all threads that ask get the same one.
        let mut answer = ANSWER.load(Ordering::Relaxed);
        if answer == UNKNOWN {
            answer = if register() && run() { GRANTED } else { REFUSED };
            ANSWER.store(answer, Ordering::Relaxed);
        }
        answer == GRANTED
    }

    fn register() -> bool {
        membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    }

    fn run() -> bool {
        membarrier(MembarrierCommand::PrivateExpedited).is_ok()
    }

    #[inline(always)]
    pub(in super::super) fn light() {
        compiler_fence(Ordering::SeqCst);
    }

    pub(in super::super) fn heavy() {
        // A kernel might not register a child by `fork`, although its parent was registered.
        let done = run() || (register() && run());
        if !done {
            refused();
        }
    }

    /// Aborts the process: the system has taken back the barrier that it granted. Nothing else makes the own thread's stores
    /// visible, and going on without it would corrupt the wheel. A panic would free an entry to which the wheel points.
    #[cold]
    fn refused() -> ! {
        use std::io::Write;
        // An error output that is closed is no reason to go on.
        let _ = writeln!(
            std::io::stderr(),
            "mainspring-driver: the system call `membarrier`, which was granted when the first driver was made, is refused now. \
             A filter of system calls (seccomp) must allow it, be installed before, or the feature `membarrier` be left out. \
             Timers cannot be shared between threads without, so the process is aborted.",
        );
        std::process::abort();
    }
}

/// Without `membarrier`: for loom two fences; elsewhere there is no barrier, and the lock is a mutex.
#[cfg(not(all(target_os = "linux", feature = "membarrier", not(any(loom, miri, mainspring_sanitize)))))]
pub(super) mod barrier {
    pub(in super::super) const EXISTS: bool = cfg!(loom);

    pub(in super::super) fn prepare() -> bool {
        EXISTS
    }

    pub(in super::super) fn light() {
        #[cfg(loom)]
        loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
    }

    pub(in super::super) use light as heavy;
}
