//! The load on the wheel: tasks that come and go, at a rate that can be changed at any time.
//!
//! Of ten tasks five sleep for between a tenth of a millisecond and two minutes, evenly distributed on
//! a logarithmic scale; three are timeouts that are mostly cancelled long before they end; two are idle timers that
//! are pushed back again and again. There are also some intervals with jitter, and a few timers that are
//! hours, months and years away.
//!
//! Ground rules:
//!
//! * Lateness is recorded for every timer that ends, and for nothing else.
//! * The number of tasks at one time is limited: a task that would exceed the limit does not begin.

use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;

use mainspring::time::{Instant, interval, sleep, sleep_until, timeout};
use mainspring::{runtime::Handle, spawn};

use crate::scene::Lateness;

/// How many tasks may begin each second.
pub(crate) const RATES: RangeInclusive<u32> = 1..=25_600;

/// How many tasks there may be at once.
const TASKS: usize = 200_000;

/// How many intervals tick all the time.
const TICKERS: u32 = 24;

/// How often the tasks that have become due to begin are spawned.
const FEED: Duration = Duration::from_millis(5);

/// The load on this thread's runtime, and its figures.
#[derive(Debug)]
pub(crate) struct Load {
    rate: Cell<u32>,
    paused: Cell<bool>,
    tasks: Cell<usize>,
    lateness: RefCell<Lateness>,
}

impl Load {
    /// Starts the load. It must be called inside a runtime.
    pub(crate) fn start(rate: u32) -> Rc<Load> {
        let load = Rc::new(Load {
            rate: Cell::new(rate),
            paused: Cell::new(false),
            tasks: Cell::new(0),
            lateness: RefCell::default(),
        });
        spawn(feed(load.clone()));
        for n in 0..TICKERS {
            spawn(tick(load.clone(), Duration::from_millis(u64::from(20 + 40 * n))));
        }
        const HOUR: u64 = 3600;
        for far in [HOUR, 12 * HOUR, 72 * HOUR, 24 * 60 * HOUR, 365 * 24 * HOUR, 30 * 365 * 24 * HOUR] {
            spawn(nap(load.clone(), Duration::from_secs(far)));
        }
        load
    }

    pub(crate) fn rate(&self) -> u32 {
        self.rate.get()
    }

    /// Changes how many tasks begin each second, within [`RATES`].
    pub(crate) fn set_rate(&self, rate: u32) {
        self.rate.set(rate.clamp(*RATES.start(), *RATES.end()));
    }

    /// Pauses or resumes: while paused, no tasks begin.
    pub(crate) fn toggle(&self) {
        self.paused.set(!self.paused.get());
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused.get()
    }

    /// How many tasks there are now.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.get()
    }

    /// Returns how late the timers were that have ended since the last call.
    pub(crate) fn take_lateness(&self) -> Lateness {
        self.lateness.take()
    }

    /// The handle of the runtime.
    pub(crate) fn runtime(&self) -> Handle {
        Handle::current()
    }

    fn ended(&self, deadline: Instant) {
        self.lateness.borrow_mut().count(Instant::now() - deadline);
    }
}

/// Counts a task of the load while it exists.
struct Present(Rc<Load>);

impl Present {
    fn new(load: Rc<Load>) -> Present {
        load.tasks.set(load.tasks.get() + 1);
        Present(load)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.tasks.set(self.0.tasks.get() - 1);
    }
}

async fn feed(load: Rc<Load>) {
    let mut random = Random(0x6D61_696E_7370_7267);
    let mut ticks = interval(FEED);
    let mut last = ticks.tick().await;
    let mut owed = 0.0;
    loop {
        let now = ticks.tick().await;
        let passed = now - last;
        last = now;
        if load.is_paused() {
            owed = 0.0;
            continue;
        }
        owed += f64::from(load.rate()) * passed.as_secs_f64();
        while owed >= 1.0 {
            owed -= 1.0;
            if load.tasks() >= TASKS {
                continue;
            }
            let duration = random.duration(Duration::from_micros(100), Duration::from_secs(120));
            match random.below(10) {
                0..5 => drop(spawn(nap(load.clone(), duration))),
                5..8 => drop(spawn(hurry(load.clone(), duration))),
                _ => drop(spawn(idle(load.clone(), duration, 1 + random.below(20) as u32))),
            }
        }
    }
}

/// Sleeps once.
async fn nap(load: Rc<Load>, duration: Duration) {
    let present = Present::new(load);
    let deadline = Instant::now() + duration;
    sleep_until(deadline).await;
    present.0.ended(deadline);
}

/// Gives half a minute to work that takes much less, or gives short work slightly less time than it takes.
async fn hurry(load: Rc<Load>, work: Duration) {
    let present = Present::new(load);
    let limit = if work < Duration::from_millis(5) { work * 9 / 10 } else { Duration::from_secs(30) };
    let work = work.min(Duration::from_secs(1));
    let begun = Instant::now();
    if timeout(limit, sleep(work)).await.is_err() {
        present.0.ended(begun + limit);
    } else {
        present.0.ended(begun + work);
    }
}

/// An idle timer of five seconds that is pushed back some times, and then cancelled.
async fn idle(load: Rc<Load>, pause: Duration, times: u32) {
    let present = Present::new(load);
    let pause = pause.clamp(Duration::from_millis(10), Duration::from_millis(500));
    let mut idle = std::pin::pin!(sleep(Duration::from_secs(5)));
    for _ in 0..times {
        let deadline = Instant::now() + pause;
        if timeout(pause, idle.as_mut()).await.is_err() {
            present.0.ended(deadline);
        }
        idle.as_mut().reset(Instant::now() + Duration::from_secs(5));
    }
}

/// Ticks forever, spread by jitter.
async fn tick(load: Rc<Load>, period: Duration) {
    let _present = Present::new(load);
    let mut ticks = interval(period);
    ticks.set_jitter(period / 4);
    loop {
        // A tick returns when it was scheduled, not when it was due after the jitter. So its lateness is not recorded.
        ticks.tick().await;
    }
}

/// Random numbers (xorshift64), the same sequence each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A duration between `least` and `most`, evenly distributed on a logarithmic scale.
    fn duration(&mut self, least: Duration, most: Duration) -> Duration {
        let fraction = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        let (low, high) = (least.as_secs_f64().ln(), most.as_secs_f64().ln());
        Duration::from_secs_f64((low + (high - low) * fraction).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_come_and_go_and_stop_when_paused() {
        mainspring::block_on(async {
            let load = Load::start(2_000);
            sleep(Duration::from_millis(200)).await;
            let metrics = load.runtime().metrics();
            assert!(
                metrics.timers_fired() > 0 && metrics.timers_cancelled() > 0 && metrics.timers_reset() > 0
            );
            assert!(load.tasks() > TICKERS as usize);
            assert!(load.take_lateness().total() > 0);

            load.toggle();
            sleep(2 * FEED).await;
            let before = load.tasks();
            sleep(Duration::from_millis(50)).await;
            assert!(load.is_paused() && load.tasks() <= before, "tasks begin though the load is paused");
        });
    }

    #[test]
    fn the_rate_stays_within_its_bounds() {
        mainspring::block_on(async {
            let load = Load::start(400);
            for (wanted, got) in [(0, 1), (800, 800), (u32::MAX, 25_600)] {
                load.set_rate(wanted);
                assert_eq!(load.rate(), got);
            }
        });
    }

    #[test]
    fn durations_are_spread_over_their_range() {
        let (least, most) = (Duration::from_micros(100), Duration::from_secs(120));
        let mut random = Random(1);
        let drawn: Vec<_> = (0..1000).map(|_| random.duration(least, most)).collect();
        assert!(drawn.iter().all(|d| *d >= least - Duration::from_nanos(1) && *d <= most));
        // The middle of the scale is at about 110 ms.
        let short = drawn.iter().filter(|d| **d < Duration::from_millis(110)).count();
        assert!((400..600).contains(&short), "{short}");
    }
}
