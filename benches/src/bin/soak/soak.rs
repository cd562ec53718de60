//! What all parts of a soak share: the ledger, the counts, when to end and when to be quiet.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mainspring::time::error::Elapsed;
use mainspring::time::timeout;

use crate::ledger::Ledger;

/// An operation that takes longer than this hangs.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// The time limit of an answer. Descriptors are never missing for as long as that.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The payload of panics that a part of the soak raises on purpose.
#[derive(Debug)]
pub(crate) struct Intended;

#[derive(Debug)]
pub(crate) struct Soak {
    pub(crate) ledger: Ledger,
    pub(crate) tally: Tally,
    start: Instant,
    length: Duration,
    /// Also set by Ctrl-C.
    stop: Arc<AtomicBool>,
    /// Until when the tasks rest, in nanoseconds since the start; 0 if they do not rest.
    lull: AtomicU64,
    /// The maximum lateness of a sleep of the operating system, in nanoseconds.
    machine: AtomicU64,
}

impl Soak {
    pub(crate) fn new(length: Duration, stop: Arc<AtomicBool>) -> Soak {
        Soak {
            ledger: Ledger::new(),
            tally: Tally::default(),
            start: Instant::now(),
            length,
            stop,
            lull: AtomicU64::new(0),
            machine: AtomicU64::new(0),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn length(&self) -> Duration {
        self.length
    }

    /// Returns whether the soak goes on, so that new work may begin.
    pub(crate) fn running(&self) -> bool {
        // Relaxed: the flag is read again and again, and orders nothing.
        !self.stop.load(Ordering::Relaxed) && self.elapsed() < self.length
    }

    /// Measures, until the soak ends, how late the machine itself is. A delay that affects a thread which only sleeps affects
    /// the runtime's thread, too.
    pub(crate) fn measure_machine(&self) {
        const NAP: Duration = Duration::from_millis(2);
        while self.running() {
            let start = Instant::now();
            std::thread::sleep(NAP);
            let late = start.elapsed().saturating_sub(NAP);
            // Relaxed: nothing depends on its order.
            self.machine.fetch_max(late.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// Returns the maximum lateness of the machine itself.
    pub(crate) fn machine(&self) -> Duration {
        Duration::from_nanos(self.machine.load(Ordering::Relaxed))
    }

    /// Asks the tasks to rest for this long.
    pub(crate) fn begin_lull(&self, length: Duration) {
        let until = (self.elapsed() + length).as_nanos() as u64;
        // Relaxed, as above.
        self.lull.store(until, Ordering::Relaxed);
    }

    /// Rests, if the tasks are to rest now.
    pub(crate) async fn rest(&self) {
        let until = Duration::from_nanos(self.lull.load(Ordering::Relaxed));
        if let Some(rest) = until.checked_sub(self.elapsed()) {
            self.nap("a rest", rest).await;
        }
    }

    /// Sleeps, with an account.
    pub(crate) async fn nap(&self, what: &'static str, duration: Duration) {
        let account = self.ledger.timer(what, duration);
        mainspring::sleep(duration).await;
        account.fired();
    }

    /// Runs `future` for at most this long, with an account.
    pub(crate) async fn within<F: Future>(
        &self,
        what: &'static str,
        duration: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        let account = self.ledger.timer(what, duration);
        let result = timeout(duration, future).await;
        if result.is_err() {
            account.fired();
        }
        result
    }

    /// Runs `future`, which is expected to end on its own, for at most [`PATIENCE`], and then for as long again: while the
    /// process was stopped, time went on, and nothing else did.
    pub(crate) async fn patiently<F: Future>(
        &self,
        what: &'static str,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        let mut future = pin!(future);
        match self.within(what, PATIENCE, future.as_mut()).await {
            Err(_) => self.within(what, PATIENCE, future).await,
            ended => ended,
        }
    }
}

/// A count.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, n: u64) {
        // Relaxed: nothing depends on its order.
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! tally {
    ($($name:ident $words:literal,)*) => {
        /// What was done, and how often.
        #[derive(Debug, Default)]
        pub(crate) struct Tally {
            $(pub(crate) $name: Count,)*
        }

        impl fmt::Display for Tally {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let all = [$(($words, self.$name.get()),)*];
                for (number, (words, count)) in all.iter().enumerate() {
                    write!(f, "{}{words} {count}", if number == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
        }
    };
}

tally! {
    sleeps "sleeps",
    timeouts "timeouts",
    ticks "ticks",
    resets "resets",
    cancels "cancelled",
    aborts "aborts",
    panics "panics",
    connections "connections",
    echoes "echoes",
    kills "kills",
    cut "cut off",
    datagrams "datagrams",
    requests "requests of HTTP",
    given_up "given up",
    broken_off "broken off",
    no_descriptors "times without descriptors",
    wakes "wakes across",
    spawns "spawns across",
    strays "sleeps elsewhere",
    runtimes "runtimes",
    signals "signals",
    received "received",
    pairs "pairs of descriptors",
    children "children",
    closures "closures",
    deadlines "deadlines",
    hosted "turns of another loop",
    embedded "embedded timers",
    checks "checks",
}
