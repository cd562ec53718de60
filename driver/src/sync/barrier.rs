//! The barrier of which one side is free: [`heavy`] makes every other thread of this process pass a full barrier, wherever it
//! is, so that [`light`] need only keep the compiler from reordering.
//!
//! Ground rules:
//!
//! * For each `heavy` and each `light` of the process one of two holds: what stands before the `light` in its thread is seen by
//!   what stands after the `heavy` in the other; or what stands before the `heavy` is seen by what stands after the `light`.
//!   Two `SeqCst` fences promise the same, and are what loom gets.
//! * Where [`EXISTS`] is false, or [`prepare`] returned false, neither of the two is called.

pub(super) use implementation::{EXISTS, heavy, light, prepare};

/// Linux: `membarrier`. The kernel's documentation promises that between entry to and return from a private expedited one
/// all running threads of the process have passed a full memory barrier; those that do not run pass one when they are
/// switched to. It does so at some place between two instructions of each: a `light` before this place is the first of the
/// two cases above, one after it the second. ThreadSanitizer and Miri know nothing of this.
#[cfg(all(target_os = "linux", feature = "membarrier", not(any(loom, miri, mainspring_sanitize))))]
mod implementation {
    use std::sync::OnceLock;
    use std::sync::atomic::{Ordering, compiler_fence};

    use rustix::thread::{MembarrierCommand, membarrier};

    pub(in super::super) const EXISTS: bool = true;

    /// Whether the system grants it. The first call in a process with several threads may take 20 ms.
    pub(in super::super) fn prepare() -> bool {
        static GRANTED: OnceLock<bool> = OnceLock::new();
        *GRANTED.get_or_init(|| register() && run())
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
        // A kernel might not register a child by `fork` as its parent was.
        let done = run() || (register() && run());
        if !done {
            refused();
        }
    }

    /// The system has taken back what it granted. Nothing else makes the own thread's stores visible, and going on without would
    /// corrupt the wheel. A panic would free an entry to which the wheel points.
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

#[cfg(loom)]
mod implementation {
    use loom::sync::atomic::{Ordering, fence};

    pub(in super::super) const EXISTS: bool = true;

    pub(in super::super) fn prepare() -> bool {
        true
    }

    pub(in super::super) fn light() {
        fence(Ordering::SeqCst);
    }

    pub(in super::super) fn heavy() {
        fence(Ordering::SeqCst);
    }
}

#[cfg(not(any(
    loom,
    all(target_os = "linux", feature = "membarrier", not(any(miri, mainspring_sanitize)))
)))]
mod implementation {
    pub(in super::super) const EXISTS: bool = false;

    pub(in super::super) fn prepare() -> bool {
        false
    }

    pub(in super::super) fn light() {}

    pub(in super::super) fn heavy() {}
}
