//! What the operating system allows and counts: descriptors and CPU time.

use std::time::Duration;

use crate::descriptors;

/// The descriptors that the process has or opens besides its connections: standard streams, pollers, alarms, listener.
const OTHERS: u64 = 32;

/// Raises the limit of open descriptors so that both ends of `connections` fit, or returns why they do not.
pub(crate) fn allow(connections: u32) -> Result<(), String> {
    descriptors::allow(u64::from(connections) * 2 + OTHERS, |maximum| {
        match maximum.saturating_sub(OTHERS) / 2 {
            0 => None,
            possible => Some(format!("ask for --connections {possible} at most")),
        }
    })
}

/// Raises the limit of open descriptors as far as possible: a server does not know how many clients will come.
#[cfg(unix)]
pub(crate) fn allow_all_sockets() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If this is refused, the old limit applies, and the code around `accept` handles reaching it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Elsewhere sockets are not limited in this way.
#[cfg(not(unix))]
pub(crate) fn allow_all_sockets() {}

/// CPU time used so far, by the whole process and by the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuTime {
    pub(crate) process: Duration,
    pub(crate) thread: Duration,
}

impl CpuTime {
    /// Reads the clocks. Where there are none, both times are zero.
    pub(crate) fn now() -> Self {
        #[cfg(unix)]
        {
            use rustix::time::{ClockId, clock_gettime};
            let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
            Self { process: read(ClockId::ProcessCPUTime), thread: read(ClockId::ThreadCPUTime) }
        }
        #[cfg(not(unix))]
        Self::default()
    }

    /// The time used since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            process: self.process.saturating_sub(earlier.process),
            thread: self.thread.saturating_sub(earlier.thread),
        }
    }
}
