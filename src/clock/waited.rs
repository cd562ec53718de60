//! `Waited`: for how long a thread was ready to run, and another had the processor.
//!
//! Ground rules:
//!
//! * The system is asked only when something took suspiciously long, because the answer takes some microseconds. It is for
//!   estimates: where the system does not say (not Linux, no `/proc`, no descriptor left), the answer is zero.
//! * Nothing is allocated.

use std::cell::Cell;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::{fs::File, io::Read, str};

/// Counts what was asked for already.
#[derive(Debug, Default)]
pub(crate) struct Waited {
    told: Cell<u64>,
}

impl Waited {
    /// For how many nanoseconds the calling thread has waited for a processor since the last call, which is meant to have been made on
    /// the same thread.
    pub(crate) fn since_asked(&self) -> u64 {
        let in_all = in_all().unwrap_or(0);
        in_all.saturating_sub(self.told.replace(in_all))
    }
}

/// For how many nanoseconds this thread has waited since it began.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn in_all() -> Option<u64> {
    // Three numbers: the time that the thread ran, the time that it waited, and how often it began to run.
    let mut text = [0; 64];
    let length = File::open("/proc/thread-self/schedstat").ok()?.read(&mut text).ok()?;
    str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn in_all() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_thread_has_waited_no_longer_than_time_has_passed_since_it_was_asked() {
        let waited = Waited::default();
        for _ in 0..3 {
            let began = Instant::now();
            waited.since_asked();
            while began.elapsed() < Duration::from_millis(5) {}
            let told = waited.since_asked();
            assert!(u128::from(told) <= began.elapsed().as_nanos(), "{told} ns");
        }
        #[cfg(target_os = "linux")]
        assert_eq!(in_all().is_some(), std::path::Path::new("/proc/thread-self/schedstat").exists());
    }
}
