//! The weather: storms of signals, famines of descriptors, and calms in which the runtime really sleeps. If the
//! weather were always the same, it would hide the faults of another weather: a missed wake-up is not noticed
//! while a signal ends every sleep within a millisecond.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::faults::{self, Famine};
use crate::rng::Rng;
use crate::soak::Soak;

/// The time from one signal to the next.
const BETWEEN_SIGNALS: Duration = Duration::from_millis(1);

/// Makes the weather, until the soak ends.
pub(crate) fn make(soak: &Arc<Soak>, mut rng: Rng) {
    while soak.running() {
        let length = Duration::from_millis(rng.between(50, 400));
        let until = Instant::now() + length;
        match rng.below(6) {
            0 => soak.begin_lull(length),
            1 | 2 => {
                storm(soak, until);
                continue;
            }
            3 => {
                let _famine = Famine::begin(rng.below(4));
                storm(soak, until);
                continue;
            }
            4 => {
                let _famine = Famine::begin(rng.below(4));
                fair(soak, until);
                continue;
            }
            _ => {}
        }
        fair(soak, until);
    }
}

fn fair(soak: &Soak, until: Instant) {
    while soak.running() && Instant::now() < until {
        thread::sleep(Duration::from_millis(20));
    }
}

fn storm(soak: &Soak, until: Instant) {
    let mut next = Instant::now();
    while soak.running() && Instant::now() < until {
        soak.tally.signals.add(u64::from(faults::signal()));
        next += BETWEEN_SIGNALS;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}
