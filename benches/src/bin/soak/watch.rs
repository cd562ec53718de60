//! The watchdog: checks the ledger and the runtime's own counts while the soak goes on. If something hangs, it says what,
//! and ends the process.
//!
//! Ground rule: if the process was stopped, or had no CPU at all, it is not blamed for what is overdue when it goes on.
//! The watchdog was stopped with it, and notices because its own check came late.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use mainspring::runtime::Handle;

use crate::ledger::LOST;
use crate::soak::Soak;
use crate::threads;

const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// A check that comes after this long was delayed, and so was everything else.
const HELD_UP: Duration = Duration::from_secs(1);

/// Watches until it is dismissed.
#[derive(Debug)]
pub(crate) struct Watchdog {
    thread: JoinHandle<()>,
    dismiss: Sender<()>,
}

impl Watchdog {
    /// Starts to watch. `line` makes the last line, in case the watchdog ends the process.
    ///
    /// # Errors
    ///
    /// If no further thread can be started.
    pub(crate) fn start(
        soak: &Arc<Soak>,
        runtime: &Handle,
        line: impl Fn(&Soak) -> String + Send + 'static,
    ) -> std::io::Result<Watchdog> {
        let (dismiss, dismissed) = mpsc::channel();
        let (soak, runtime) = (soak.clone(), runtime.clone());
        let thread = thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            let bar = progress(&soak);
            let mut last_look = Instant::now();
            let mut judge_from = last_look;
            while dismissed.recv_timeout(BETWEEN_LOOKS) == Err(RecvTimeoutError::Timeout) {
                let now = Instant::now();
                if now.duration_since(last_look) > HELD_UP {
                    judge_from = now + LOST;
                }
                last_look = now;
                if now >= judge_from
                    && let Some(message) = soak.ledger.overdue()
                {
                    bar.finish_and_clear();
                    eprintln!("soak: {message}");
                    crate::say(line(&soak));
                    // The thread that hangs cannot be asked to end.
                    std::process::abort();
                }
                threads::check(&soak, "the runtime", &runtime);
                bar.set_position(soak.elapsed().as_secs());
            }
            bar.finish_and_clear();
        })?;
        Ok(Watchdog { thread, dismiss })
    }

    /// Stops watching.
    pub(crate) fn dismiss(self) {
        drop(self.dismiss);
        if self.thread.join().is_err() {
            std::process::abort();
        }
    }
}

/// Makes the progress bar, which is hidden if standard error is no terminal.
fn progress(soak: &Soak) -> ProgressBar {
    let bar = ProgressBar::new(soak.length().as_secs());
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos} of {len} s") {
        bar.set_style(style);
    }
    bar
}
