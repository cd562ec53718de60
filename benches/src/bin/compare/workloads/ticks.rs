//! W6: many intervals of one period, with their phases spread over it. W13: very many intervals of a long period, and how
//! late they tick.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use mainspring_bench::peers::Peer;

use crate::measure::{Metrics, Rng, cpu, histogram, in_task, percentiles, wakeups};
use crate::scale::Scale;

const PERIOD: Duration = Duration::from_millis(10);

/// Measures the CPU time per tick, and the wake-ups per second.
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

/// What the tasks of W13 do with a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Count it.
    Cost,
    /// Note how late it is.
    Lateness,
    /// Stop.
    Over,
}

/// Measures the CPU time per tick, and then how late ticks are. These are separate measurements, so that the first does
/// not include reading the clock at each tick.
pub(crate) fn seconds<P: Peer>(scale: &Scale) -> Metrics {
    let (tasks, period, watch) = (scale.ticking, scale.period, scale.watch);
    in_task(move |peer: P| async move {
        let mut rng = Rng::new(12);
        let (ticks, stage) = (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(Stage::Cost)));
        let late = Rc::new(RefCell::new(histogram()));
        let start = Instant::now() + period / 2;
        for _ in 0..tasks {
            let (ticks, stage, late) = (ticks.clone(), stage.clone(), late.clone());
            let mut due = start + rng.duration(Duration::ZERO, period);
            let mut interval = peer.interval_at(due, period);
            peer.detach(async move {
                loop {
                    P::tick(&mut interval).await;
                    match stage.get() {
                        Stage::Cost => ticks.set(ticks.get() + 1),
                        Stage::Lateness => {
                            let over = Instant::now().checked_duration_since(due);
                            let over = over.expect("no tick comes early");
                            late.borrow_mut().saturating_record(over.as_nanos() as u64);
                        }
                        Stage::Over => return,
                    }
                    due += period;
                }
            });
        }
        // By then each interval has ticked once. This is not only a warm-up: from now on the intervals are registered in
        // the order in which they tick.
        peer.sleep_until(start + period).await;
        let (ticks_before, begin) = (ticks.get(), cpu());
        peer.sleep(watch).await;
        let used = cpu() - begin;
        let ticked = (ticks.get() - ticks_before).max(1) as f64;
        stage.set(Stage::Lateness);
        peer.sleep(watch).await;
        stage.set(Stage::Over);
        let mut metrics = vec![("tick".into(), used / ticked)];
        percentiles(&mut metrics, "late/", &late.borrow());
        metrics
    })
}
