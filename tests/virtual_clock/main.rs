//! The virtual clock: its promises, and the known problems of other virtual clocks. A comment names the tokio issue
//! that a test guards against.

#[path = "../common/mod.rs"]
mod common;

mod advance;
mod auto_advance;
mod cost;
mod determinism;
mod misuse;
mod resume;
mod std_instants;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use mainspring::time::Instant;

use common::{manual, paused};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn ns(n: u64) -> Duration {
    Duration::from_nanos(n)
}

const YEAR: Duration = secs(365 * 86_400);

/// What happened, and how long after the start.
#[derive(Clone)]
struct Trace<T> {
    start: Instant,
    lines: Rc<RefCell<Vec<(Duration, T)>>>,
}

impl<T> Trace<T> {
    fn start() -> Trace<T> {
        Trace { start: Instant::now(), lines: Rc::default() }
    }

    fn note(&self, what: T) {
        self.lines.borrow_mut().push((self.start.elapsed(), what));
    }

    fn take(&self) -> Vec<(Duration, T)> {
        self.lines.take()
    }
}
