//! Whether this process was forked from the process in which an object was made.
//!
//! A child has a copy of everything its parent has, and shares the parent's descriptors. The check is made before each look
//! at the sockets, and asking the system which process this is would take a system call each time. Instead, the C library
//! calls a function in each child, which counts the fork: the check is a load.
//!
//! Ground rules:
//!
//! * Two calls of [`Process::current`] return different values if there was a `fork` between them and the second call is made
//!   in the child. Otherwise they return equal values.
//! * In a child, the counting function performs one atomic operation and nothing else, because little is allowed there.
//! * A child made by `_Fork`, or by a bare system call, is not noticed: the counting function is not called there.
//! * A child never looks at what is [one per process](PerProcess) of its parent: another thread may have left a lock taken there.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks between the first process that counted and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A process: this one, or one of its ancestors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// Returns this process. From the first call on, forks are counted.
    ///
    /// # Errors
    ///
    /// The system's, if it has no memory to register the function.
    pub(crate) fn watched() -> io::Result<Process> {
        static WATCHED: OnceLock<i32> = OnceLock::new();
        match *WATCHED.get_or_init(watch) {
            0 => Ok(Process::current()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Returns this process, as far as forks are counted.
    #[inline]
    pub(crate) fn current() -> Process {
        // Relaxed: a child begins with the one thread that has counted, and what it starts later comes after that.
        Process(FORKS.load(Ordering::Relaxed))
    }
}

/// A value that each process has one of.
pub(crate) struct PerProcess<T> {
    own: T,
    /// That of this process's child by `fork`. It is made in the child.
    of_child: OnceLock<Box<PerProcess<T>>>,
}

impl<T> PerProcess<T> {
    /// With the value of the first process.
    pub(crate) const fn new(first: T) -> PerProcess<T> {
        PerProcess { own: first, of_child: OnceLock::new() }
    }

    /// Returns the value of `process`, which is this one. `make` makes a child's.
    pub(crate) fn of(&self, process: Process, make: fn() -> T) -> &T {
        let child = || Box::new(PerProcess::new(make()));
        &(0..process.0).fold(self, |parent, _| parent.of_child.get_or_init(child)).own
    }
}

/// Makes the C library count forks from now on; returns an error number, or zero.
#[cfg(all(unix, not(miri)))]
fn watch() -> i32 {
    // SAFETY: It is declared as POSIX has it. What it is given are functions that nobody is forbidden to call, or none, and that
    // stay where they are: the C library forgets them when the library that they are part of is unloaded.
    unsafe extern "C" {
        safe fn pthread_atfork(
            before: Option<extern "C" fn()>,
            in_parent: Option<extern "C" fn()>,
            in_child: Option<extern "C" fn()>,
        ) -> i32;
    }

    extern "C" fn count() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }

    pthread_atfork(None, None, Some(count))
}

/// There is no `fork`.
#[cfg(not(all(unix, not(miri))))]
fn watch() -> i32 {
    0
}
