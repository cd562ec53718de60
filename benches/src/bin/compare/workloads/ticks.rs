//! W6: many intervals of one period, their phases spread over it.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mainspring_bench::peers::Peer;

use crate::measure::{Metrics, Rng, cpu, in_task, wakeups};
use crate::scale::Scale;

const PERIOD: Duration = Duration::from_millis(10);

/// The CPU time per tick, and wake-ups per second.
pub(crate) fn intervals<P: Peer>(scale: &Scale) -> Metrics {
    let (tasks, watch) = (scale.tasks, scale.watch);
    in_task(move |peer: P| async move {
        let mut rng = Rng::new(7);
        let (ticks, stop) = (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(false)));
        let start = Instant::now() + PERIOD;
        for _ in 0..tasks {
            let (ticks, stop) = (ticks.clone(), stop.clone());
            let mut interval = peer.interval_at(start + rng.duration(Duration::ZERO, PERIOD), PERIOD);
            peer.detach(async move {
                while !stop.get() {
                    P::tick(&mut interval).await;
                    ticks.set(ticks.get() + 1);
                }
            });
        }
        peer.sleep(watch / 4).await;
        let (ticks_before, wakeups_before) = (ticks.get(), wakeups());
        let (start, begin) = (Instant::now(), cpu());
        peer.sleep(watch).await;
        let (seconds, used) = (start.elapsed().as_secs_f64(), cpu() - begin);
        let ticked = (ticks.get() - ticks_before).max(1) as f64;
        let woken = wakeups() - wakeups_before;
        stop.set(true);
        vec![("tick".into(), used / ticked), ("wakeups".into(), woken / seconds)]
    })
}
