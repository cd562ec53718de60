//! The contents of a frame: how full the wheel is, which slots were opened since the last frame, counts and lateness.
//!
//! Ground rules:
//!
//! * A [`Scene`] is plain, self-contained data. Only the [`Recorder`] remembers anything between frames.

use std::collections::VecDeque;
use std::time::Duration;

use mainspring::runtime::{LevelOccupancy, Metrics, Occupancy};
use mainspring::time::Instant;

use crate::load::Load;

/// Slots narrower than this are not shown.
const SEEN: Duration = Duration::from_micros(50);
/// The number of frames for which an opened slot is shown as opened.
const GLOW: u8 = 4;
/// The number of frames for which the lateness is remembered.
const HISTORY: usize = 512;
/// The number of frames over which rates are averaged.
const RATE_FRAMES: usize = 20;

/// The upper ends of the lateness buckets; anything later goes into one more bucket.
pub(crate) const BUCKETS: [Duration; 7] = [
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
];

/// How late timers were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lateness {
    pub(crate) buckets: [u64; BUCKETS.len() + 1],
    pub(crate) worst: Duration,
}

impl Lateness {
    pub(crate) fn count(&mut self, late: Duration) {
        let bucket = BUCKETS.iter().position(|most| late < *most).unwrap_or(BUCKETS.len());
        self.buckets[bucket] += 1;
        self.worst = self.worst.max(late);
    }

    pub(crate) fn total(&self) -> u64 {
        self.buckets.iter().sum()
    }

    fn add(&mut self, other: &Lateness) {
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket += more;
        }
        self.worst = self.worst.max(other.worst);
    }
}

/// A count since the beginning, and its rate per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Count {
    pub(crate) total: u64,
    pub(crate) per_second: f64,
}

/// A level of the wheel.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    /// The level's number in the wheel, where the level with the narrowest slots is the first.
    pub(crate) number: usize,
    pub(crate) slot_width: Duration,
    /// Timers in each slot.
    pub(crate) slots: Vec<u32>,
    pub(crate) current: usize,
    /// How recently each slot was opened: from zero, for long ago or never, up to [`GLOW`].
    pub(crate) opened: Vec<u8>,
}

/// All data from which a frame is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) uptime: Duration,
    pub(crate) rate: u32,
    pub(crate) paused: bool,
    pub(crate) tasks: usize,
    pub(crate) live: usize,
    /// The narrowest slots first.
    pub(crate) levels: Vec<Level>,
    /// Armed, fired, cancelled, reset, moved within the wheel, wake-ups of the thread.
    pub(crate) counts: [(&'static str, Count); 6],
    pub(crate) lateness: Lateness,
    /// The worst lateness of each of the last frames, in microseconds, the newest frame last.
    pub(crate) recent: Vec<u64>,
}

/// Remembers what a scene needs from earlier frames.
#[derive(Debug)]
pub(crate) struct Recorder {
    began: Instant,
    /// The levels of the latest frame, and up to when the wheel had been processed then.
    levels: Vec<Level>,
    elapsed: Duration,
    history: VecDeque<(Instant, [u64; 6])>,
    lateness: Lateness,
    recent: VecDeque<u64>,
}

impl Recorder {
    pub(crate) fn new() -> Recorder {
        Recorder {
            began: Instant::now(),
            levels: Vec::new(),
            elapsed: Duration::ZERO,
            history: VecDeque::new(),
            lateness: Lateness::default(),
            recent: VecDeque::new(),
        }
    }

    /// Returns the current scene.
    pub(crate) fn record(&mut self, load: &Load) -> Scene {
        let runtime = load.runtime();
        let (metrics, occupancy) = (runtime.metrics(), runtime.occupancy());
        let now = Instant::now();
        let late = load.take_lateness();
        self.lateness.add(&late);
        push(&mut self.recent, HISTORY, late.worst.as_micros().try_into().unwrap_or(u64::MAX));
        self.look(&occupancy);
        let counts = self.rates(now, counts(&metrics));
        Scene {
            uptime: now - self.began,
            rate: load.rate(),
            paused: load.is_paused(),
            tasks: load.tasks(),
            live: metrics.timers_live(),
            levels: self.levels.clone(),
            counts,
            lateness: self.lateness.clone(),
            recent: self.recent.iter().copied().collect(),
        }
    }

    /// Updates the levels. Slots that were opened since the last frame glow, and other glowing slots fade.
    fn look(&mut self, now: &Occupancy) {
        // Changes in narrower slots are over before a frame is drawn.
        let seen = now.levels().enumerate().filter(|(_, level)| level.slot_width >= SEEN);
        let levels = seen.map(|(number, level)| {
            let LevelOccupancy { slot_width, slots, current, .. } = level;
            let mut opened = vec![0; slots.len()];
            if let Some(before) = self.levels.iter().find(|before| before.number == number) {
                opened = before.opened.iter().map(|glow| glow.saturating_sub(1)).collect();
                for slot in passed(self.elapsed, now.elapsed(), &level) {
                    if before.slots[slot] > 0 && slots[slot] == 0 {
                        opened[slot] = GLOW;
                    }
                }
            }
            Level { number, slot_width, slots: slots.to_vec(), current, opened }
        });
        self.levels = levels.collect();
        self.elapsed = now.elapsed();
    }

    fn rates(&mut self, now: Instant, totals: [(&'static str, u64); 6]) -> [(&'static str, Count); 6] {
        push(&mut self.history, RATE_FRAMES, (now, totals.map(|(_, total)| total)));
        let (since, first) = self.history[0];
        let seconds = (now - since).as_secs_f64();
        std::array::from_fn(|n| {
            let (name, total) = totals[n];
            let more = (total - first[n]) as f64;
            (name, Count { total, per_second: if seconds > 0.0 { more / seconds } else { 0.0 } })
        })
    }
}

/// The slots of a level that the wheel has entered between two frames.
fn passed(
    before: Duration,
    now: Duration,
    level: &LevelOccupancy<'_>,
) -> impl Iterator<Item = usize> + use<> {
    let (width, count) = (level.slot_width.as_nanos(), level.slots.len() as u128);
    let (from, to) = (before.as_nanos() / width, now.as_nanos() / width);
    // All slots, if the wheel has gone round.
    let from = from.max(to.saturating_sub(count));
    (from..to).map(move |slot| ((slot + 1) % count) as usize)
}

fn counts(metrics: &Metrics) -> [(&'static str, u64); 6] {
    [
        ("armed", metrics.timers_armed()),
        ("fired", metrics.timers_fired()),
        ("cancelled", metrics.timers_cancelled()),
        ("reset", metrics.timers_reset()),
        ("moved", metrics.timers_moved()),
        ("wake-ups", metrics.wakeups()),
    ]
}

fn push<T>(queue: &mut VecDeque<T>, most: usize, value: T) {
    if queue.len() == most {
        queue.pop_front();
    }
    queue.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_goes_into_its_bucket() {
        let mut lateness = Lateness::default();
        for micros in [0, 49, 50, 999, 1_000, 5_000, 80_000] {
            lateness.count(Duration::from_micros(micros));
        }
        assert_eq!(lateness.buckets, [2, 1, 0, 0, 1, 1, 0, 2]);
        assert_eq!((lateness.total(), lateness.worst), (7, Duration::from_millis(80)));
    }

    #[test]
    fn a_second_of_frames_has_counts_and_opened_slots() {
        mainspring::block_on(async {
            let load = Load::start(2_000);
            let mut recorder = Recorder::new();
            let mut glowed = false;
            let mut scene = recorder.record(&load);
            for _ in 0..30 {
                mainspring::sleep(Duration::from_millis(10)).await;
                scene = recorder.record(&load);
                glowed |= scene.levels.iter().flat_map(|level| &level.opened).any(|&glow| glow == GLOW);
            }
            assert!(glowed, "no slot was seen being opened");
            assert_eq!(scene.recent.len(), 31);
            let (name, armed) = scene.counts[0];
            assert!(name == "armed" && armed.total > 0 && armed.per_second > 0.0);
            // The view's own sleep was armed and has fired, so it is not in the wheel.
            let in_slots: usize =
                scene.levels.iter().flat_map(|level| &level.slots).map(|&n| n as usize).sum();
            assert!(in_slots > 0 && scene.live > 0 && scene.tasks > 0);
            let far = scene.levels[5..7].iter().flat_map(|level| &level.slots);
            assert!(far.copied().any(|n| n > 0), "the far ones are there");
        });
    }
}
