//! Which CPUs the processes run on: what is measured on one, everything else on another, if there are two.

#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where to run what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cpus {
    pub(crate) measured: Option<usize>,
    pub(crate) helpers: Option<usize>,
}

impl Cpus {
    /// Of those that this process may use, the last for what is measured: the first is where most of the
    /// system's own work is done.
    pub(crate) fn choose() -> Cpus {
        match allowed()[..] {
            [] => Cpus { measured: None, helpers: None },
            [only] => Cpus { measured: Some(only), helpers: None },
            [first, .., last] => Cpus { measured: Some(last), helpers: Some(first) },
        }
    }
}

/// The CPUs that this process may use, where the system tells.
#[cfg(target_os = "linux")]
fn allowed() -> Vec<usize> {
    sched_getaffinity(None)
        .map_or_else(|_| Vec::new(), |set| (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> Vec<usize> {
    Vec::new()
}

/// Keeps this thread, and those it will start, on `cpu`. Where that is refused it runs where it is put.
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
