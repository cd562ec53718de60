//! Whether this process is a child by `fork` of the one in which something was made.
//!
//! A child has a copy of all that its parent has, and shares the parent's descriptors. To ask the system which process this is
//! takes a system call each time, and is asked before each look at the sockets. So the C library calls a function in each
//! child, and that counts: the question is a load.
//!
//! Ground rules:
//!
//! * What two calls of [`Process::current`] return differs if there was a `fork` between them and the second is the child's, and
//!   else it is equal.
//! * In a child that function makes one atomic step and nothing else, because little may be done there.
//! * A child in which that function is not called is not noticed: one made by `_Fork`, or by a bare system call.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between the first process that counted and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A process: this one, or one of those that it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// This process. From the first call on, forks are counted.
    ///
    /// # Errors
    ///
    /// The system's, if it has no memory to note down what is to be called.
    pub(crate) fn watched() -> io::Result<Process> {
        static WATCHED: OnceLock<i32> = OnceLock::new();
        match *WATCHED.get_or_init(watch) {
            0 => Ok(Process::current()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// This process, as far as forks are counted.
    #[inline]
    pub(crate) fn current() -> Process {
        // Relaxed: a child begins with the one thread that has counted, and what it starts later comes after that.
        Process(FORKS.load(Ordering::Relaxed))
    }

    /// How many forks lie between the first process that counted and this one.
    pub(crate) fn generation(self) -> u32 {
        self.0
    }
}

/// Has forks counted from now on; returns the number of an error, or zero.
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
