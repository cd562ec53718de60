//! Which CPUs the processes run on: the measured process on one, everything else on another, if there are
//! two.

#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Which CPU runs the measured process, and which the helpers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cpus {
    pub(crate) measured: Option<usize>,
    pub(crate) helpers: Option<usize>,
}

impl Cpus {
    /// Chooses among the CPUs that this process may use. The last is for the measured process, because most
    /// of the system's own work is done on the first.
    pub(crate) fn choose() -> Cpus {
        match allowed()[..] {
            [] => Cpus { measured: None, helpers: None },
            [only] => Cpus { measured: Some(only), helpers: None },
            [first, .., last] => Cpus { measured: Some(last), helpers: Some(first) },
        }
    }
}

/// Returns the CPUs that this process may use, where the system reports them.
#[cfg(target_os = "linux")]
fn allowed() -> Vec<usize> {
    sched_getaffinity(None)
        .map_or_else(|_| Vec::new(), |set| (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> Vec<usize> {
    Vec::new()
}

/// Binds this thread, and the threads that it will start, to `cpu`. If the system refuses, the thread runs
/// where the system puts it.
#[cfg(target_os = "linux")]
pub(crate) fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        set.set(cpu);
        let _ = sched_setaffinity(None, &set);
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn pin(_cpu: usize) {}
