//! W17: a queue of values, each with a deadline. Each is moved once, and half of them are removed before their time.

use std::time::Instant;

use mainspring_bench::peers::Queues;

use super::burst::{deadlines, in_time};
use crate::measure::{Metrics, Rng, cpu, histogram, in_task, percentiles, wakeups};
use crate::scale::Scale;

/// The lateness of one value out of this many is noted, so that it is not the reading of the clock that is measured.
const NOTED: usize = 16;

/// Measures the CPU time to insert a value, and in random order to move one and to remove one; then, per value that comes out,
/// the CPU time, how late the values are, and the wake-ups.
pub(crate) fn queue<P: Queues>(scale: &Scale) -> Result<Metrics, String> {
    let (count, spread) = (scale.queued, scale.spread);
    // Three operations for each value.
    in_time(3 * count, |lead| {
        in_task(move |_: P| async move {
            let base = Instant::now() + lead;
            let zero = P::now() + base.saturating_duration_since(Instant::now());
            let whens = deadlines(base, 2 * count, spread);
            // The first deadline of each value, and then the deadline to which it is moved.
            let moments: Vec<_> = whens.iter().map(|when| zero + (*when - base)).collect();
            let (first, last) = moments.split_at(count);
            let mut order: Vec<usize> = (0..count).collect();
            Rng::new(17).shuffle(&mut order);

            let mut queue = P::Queue::default();
            let begin = cpu();
            let keys: Vec<_> =
                first.iter().enumerate().map(|(n, at)| P::insert(&mut queue, n, *at)).collect();
            let inserted = cpu();
            order.iter().for_each(|n| P::move_to(&mut queue, &keys[*n], last[*n]));
            let moved = cpu();
            let (gone, left) = order.split_at(count / 2);
            gone.iter().for_each(|n| assert_eq!(P::remove(&mut queue, &keys[*n]), *n));
            let removed = cpu();
            if Instant::now() >= base {
                return None;
            }

            let mut late = histogram();
            let slept = wakeups();
            let resumed = cpu();
            let mut came = 0;
            while let Some(n) = P::next(&mut queue).await {
                came += 1;
                if came % NOTED == 0 {
                    late.saturating_record(
                        Instant::now().saturating_duration_since(whens[count + n]).as_nanos() as u64,
                    );
                }
            }
            let ended = cpu();
            assert_eq!(came, left.len(), "values were lost or came twice");
            let mut metrics = vec![
                ("insert".into(), (inserted - begin) / count as f64),
                ("move".into(), (moved - inserted) / count as f64),
                ("remove".into(), (removed - moved) / gone.len() as f64),
                ("expire".into(), (ended - resumed) / came as f64),
                ("wakeups".into(), wakeups() - slept),
            ];
            percentiles(&mut metrics, "late/", &late);
            Some(metrics)
        })
    })
}
