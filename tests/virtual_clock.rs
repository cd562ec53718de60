//! The virtual clock: what it promises, and what people suffer from elsewhere. A comment names the tokio issue that
//! a test guards against.

mod common;

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use common::{HOUR, LONG, ms, us, watchdog};
use mainspring::runtime::{Builder, Runtime};
use mainspring::task::yield_now;
use mainspring::time::{
    self, Instant, MissedTickBehavior, advance, advance_to, interval, pause, resume, sleep, sleep_until,
    stand_still, timeout,
};
use mainspring::{block_on, spawn};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn ns(n: u64) -> Duration {
    Duration::from_nanos(n)
}

const YEAR: Duration = secs(365 * 86_400);

fn paused() -> Runtime {
    Builder::new().start_paused(true).build().unwrap()
}

/// Paused, and moved by `advance` alone.
fn manual() -> Runtime {
    Builder::new().start_paused(true).auto_advance(false).build().unwrap()
}

/// What happened, and when.
#[derive(Clone)]
struct Trace {
    start: Instant,
    lines: Rc<RefCell<Vec<(Duration, u64)>>>,
}

impl Trace {
    fn start() -> Trace {
        Trace { start: Instant::now(), lines: Rc::default() }
    }

    fn note(&self, what: u64) {
        self.lines.borrow_mut().push((self.start.elapsed(), what));
    }

    fn take(&self) -> Vec<(Duration, u64)> {
        self.lines.take()
    }
}

mod auto_advance {
    use super::*;

    #[test]
    fn time_jumps_to_exactly_the_next_deadline() {
        let _watchdog = watchdog(LONG);
        paused().block_on(async {
            // Elsewhere a paused sleep ends at a multiple of a millisecond (tokio #6866), and time stops where the
            // wheel deals its slots out. Both would show in the sums.
            for d in [ns(1), ns(999), us(1), us(250), ms(1), ns(3_141_592_653), HOUR, YEAR, 90 * YEAR] {
                let start = Instant::now();
                sleep(d).await;
                assert_eq!(start.elapsed(), d);
            }
        });
    }

    #[test]
    fn a_sleep_until_now_ends_now() {
        // tokio #6866, #6940.
        paused().block_on(async {
            let start = Instant::now();
            sleep(Duration::ZERO).await;
            sleep_until(start).await;
            let mut ticks = interval(HOUR);
            ticks.tick().await;
            ticks.reset_immediately();
            ticks.tick().await;
            assert_eq!(start.elapsed(), Duration::ZERO);
        });
    }

    #[test]
    fn everything_that_can_run_runs_first() {
        paused().block_on(async {
            let trace = Trace::start();
            let ours = trace.clone();
            let busy = spawn(async move {
                for n in 0..1_000 {
                    yield_now().await;
                    ours.note(n);
                }
            });
            sleep(ns(1)).await;
            trace.note(1_000);
            busy.await.unwrap();
            let lines = trace.take();
            assert_eq!(lines.len(), 1_001);
            assert!(lines[..1_000].iter().all(|(at, _)| at.is_zero()), "time moved over a task that was ready");
            assert_eq!(lines[1_000], (ns(1), 1_000));
        });
    }
}
