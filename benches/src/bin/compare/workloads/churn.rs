//! W12: very many tasks whose timers come and go: most fire soon, some are far ahead and given up.

use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

use mainspring_bench::peers::Peer;

use super::meter::Meter;
use crate::measure::{Metrics, Rng, in_task};
use crate::scale::Scale;

const SHORTEST: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_millis(200);
/// How far ahead the timers that are given up lie.
const FAR: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(60)];

/// Measures the CPU time of an operation, which ends after a short random time. Half of the operations are a sleep of that
/// length. The other half are a race between a sleep and a timeout, one of which is far ahead and given up: the timeout
/// three times in four, the sleep once.
pub(crate) fn churn<P: Peer>(scale: &Scale) -> Metrics {
    let (tasks, operations) = (scale.churning, scale.churns);
    in_task(move |peer: P| async move {
        let meter = Rc::new(Meter::new(operations));
        for task in 0..tasks {
            peer.detach(one::<P>(peer.clone(), task as u64, meter.clone()));
        }
        vec![("operation".into(), meter.cost().await)]
    })
}

async fn one<P: Peer>(peer: P, seed: u64, meter: Rc<Meter>) {
    let mut rng = Rng::new(seed);
    loop {
        let (kind, short) = (rng.next() % 8, rng.duration(SHORTEST, LONGEST));
        match kind {
            0..4 => peer.sleep(short).await,
            4..7 => {
                let far = rng.duration(FAR[0], FAR[1]);
                let _ = black_box(peer.timeout(far, peer.sleep(short)).await);
            }
            _ => {
                let far = rng.duration(FAR[0], FAR[1]);
                let _ = black_box(peer.timeout(short, peer.sleep(far)).await);
            }
        }
        if !meter.count() {
            return;
        }
    }
}
