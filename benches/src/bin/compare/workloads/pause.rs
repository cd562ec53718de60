//! P: how long the tasks wait for the runtime while many timers cascade and fire.
//!
//! A task that yields in a loop notes the longest time between two of its polls. It does so for each group of
//! polls that make about one turn of the runtimes that check their timers that often. The polls of other
//! tasks in between, each of which a timer woke, are included.

use std::rc::Rc;
use std::time::{Duration, Instant};

use mainspring_bench::peers::Peer;

use super::gate::Gate;
use crate::measure::{Metrics, Rng, histogram, in_task, percentiles, wake_itself};
use crate::scale::Scale;

/// The time over which the timers are spread.
const SPREAD: Duration = Duration::from_secs(60);
/// A turn: tokio and Mainspring poll this many tasks before they check the clock and the sockets.
const POLLS: usize = 61;
/// The time between making the timers and the measurement.
const SETTLE: Duration = Duration::from_millis(20);

/// Measures the percentiles of the longest pause in a turn.
pub(crate) fn pauses<P: Peer>(scale: &Scale) -> Metrics {
    let (timers, watch) = (scale.pause_timers, scale.pause_watch);
    in_task(move |peer: P| async move {
        let mut rng = Rng::new(9);
        let gate = Rc::new(Gate::new(timers));
        for _ in 0..timers {
            let (sleep, gate) = (peer.sleep(rng.duration(Duration::from_millis(1), SPREAD)), gate.clone());
            peer.detach(async move {
                gate.pass();
                sleep.await;
            });
        }
        // On a runtime that runs the tasks of timers before new tasks, the new ones might not have begun.
        gate.all_passed().await;
        peer.sleep(SETTLE).await;
        let mut pauses = histogram();
        let end = Instant::now() + watch;
        let mut last = Instant::now();
        while last < end {
            let mut longest = Duration::ZERO;
            for _ in 0..POLLS {
                wake_itself().await;
                let now = Instant::now();
                longest = longest.max(now - last);
                last = now;
            }
            pauses.saturating_record(longest.as_nanos() as u64);
        }
        let mut metrics = Metrics::new();
        percentiles(&mut metrics, "pause/", &pauses);
        metrics
    })
}
