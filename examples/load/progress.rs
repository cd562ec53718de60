//! A progress bar on a terminal during the run.
//!
//! Ground rule: a terminal may be slow, or stopped. So a separate thread writes to it, and the thread that sends requests
//! only stores numbers for that thread.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// What the bar shows. All accesses are relaxed: these are counts, and order nothing.
#[derive(Debug, Default)]
struct Counts {
    arrived: AtomicU64,
    answered: AtomicU64,
    errors: AtomicU64,
    over: AtomicBool,
}

/// The bar, which is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Shows a bar for a run of this length, if standard error is a terminal.
    pub(crate) fn start(length: Duration) -> Progress {
        let counts = Arc::new(Counts::default());
        let start = || {
            let counts = Arc::clone(&counts);
            // Where the system has no thread for it, there is no bar.
            thread::Builder::new().spawn(move || show(&counts, length)).ok()
        };
        let thread = if io::stderr().is_terminal() { start() } else { None };
        Progress { counts, thread }
    }

    /// Stores how far the run is.
    pub(crate) fn tell(&self, arrived: u64, answered: u64, errors: u64) {
        self.counts.arrived.store(arrived, Ordering::Relaxed);
        self.counts.answered.store(answered, Ordering::Relaxed);
        self.counts.errors.store(errors, Ordering::Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.counts.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // If the thread panicked, there is no bar, and nothing else to report.
            let _ = thread.join();
        }
    }
}

fn show(counts: &Counts, length: Duration) {
    let start = Instant::now();
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let bar = ProgressBar::new(millis(length));
    let style = ProgressStyle::with_template("{bar:30} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    while !counts.over.load(Ordering::Relaxed) {
        bar.set_position(millis(start.elapsed().min(length)));
        bar.set_message(format!(
            "{} requests, {} answers, {} errors",
            read(&counts.arrived),
            read(&counts.answered),
            read(&counts.errors)
        ));
        thread::park_timeout(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}
