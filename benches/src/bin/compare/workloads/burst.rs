//! W4, W4s: many tasks with one sleep each, spread over a while; W14: over a millisecond. W4b: many tasks and one
//! deadline. W4 and W4s also measure tokio-util's `DelayQueue`, without tasks.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mainspring_bench::peers::{Peer, Tokio};
use tokio_util::time::DelayQueue;

use super::gate::Gate;
use crate::measure::{Metrics, Rng, cpu, in_task, wakeups};
use crate::scale::Scale;

/// How long before the first deadline the timers are made, per timer. If this lead turns out to be too short,
/// everything is repeated with a new runtime and a longer lead.
const LEADS: [Duration; 3] = [Duration::from_micros(2), Duration::from_micros(10), Duration::from_micros(50)];
/// The minimum lead of each attempt: a thread may have to wait for its CPU.
const AT_LEAST: [Duration; 3] =
    [Duration::from_millis(30), Duration::from_millis(200), Duration::from_millis(2000)];

/// The deadlines of W14 are spread over this time. It is less than a tick of some runtimes, and less than the time it
/// takes to fire the timers.
pub(crate) const CRUSH: Duration = Duration::from_millis(1);

/// The state that the tasks of a burst share.
struct Burst {
    registered: Gate,
    fired: Gate,
    first: Cell<Option<Instant>>,
}

/// Makes one task with one sleep for each deadline, and waits until every sleep has been polled once.
async fn start<P: Peer>(peer: &P, deadlines: &[Instant]) -> Rc<Burst> {
    let gate = || Gate::new(deadlines.len());
    let burst = Rc::new(Burst { registered: gate(), fired: gate(), first: Cell::new(None) });
    for deadline in deadlines {
        let sleep = peer.sleep_until(*deadline);
        let burst = burst.clone();
        peer.detach(async move {
            burst.registered.pass();
            sleep.await;
            if burst.first.get().is_none() {
                burst.first.set(Some(Instant::now()));
            }
            burst.fired.pass();
        });
    }
    burst.registered.all_passed().await;
    burst
}

/// Returns the result of `attempt` with the shortest lead that is long enough.
pub(super) fn in_time(
    count: usize,
    attempt: impl Fn(Duration) -> Option<Metrics>,
) -> Result<Metrics, String> {
    LEADS
        .iter()
        .zip(AT_LEAST)
        .find_map(|(each, least)| attempt((count as u32 * *each).max(least)))
        .ok_or_else(|| "the first deadline came before all sleeps were registered".into())
}

pub(super) fn deadlines(base: Instant, count: usize, spread: Duration) -> Vec<Instant> {
    let mut rng = Rng::new(5);
    (0..count).map(|_| base + rng.duration(Duration::ZERO, spread)).collect()
}

/// Measures the CPU time per timer: first to spawn and register, then until all have fired. For the second part, also
/// the wake-ups, and how late the last timer was.
pub(crate) fn spread<P: Peer>(scale: &Scale, count: usize, suffix: &'static str) -> Result<Metrics, String> {
    in_time(count, |lead| spread_out::<P>(scale.spread, lead, count, suffix))
}

fn spread_out<P: Peer>(
    spread: Duration,
    lead: Duration,
    count: usize,
    suffix: &'static str,
) -> Option<Metrics> {
    in_task(move |peer: P| async move {
        let base = Instant::now() + lead;
        let deadlines = deadlines(base, count, spread);
        let begin = cpu();
        let burst = start(&peer, &deadlines).await;
        outcome(suffix, base, &deadlines, begin, async || burst.fired.all_passed().await).await
    })
}

/// Returns what it cost to register these timers, since `begin` on the CPU clock, and then to wait for all of them.
/// Returns `None` if they were not registered before `base`, after which they are due.
async fn outcome(
    suffix: &str,
    base: Instant,
    deadlines: &[Instant],
    begin: f64,
    all_fired: impl AsyncFnOnce(),
) -> Option<Metrics> {
    if Instant::now() >= base {
        return None;
    }
    let (registered, wakeups_before) = (cpu(), wakeups());
    // The cost of reading the wake-ups is not part of the workload.
    let resumed = cpu();
    all_fired().await;
    let end = Instant::now();
    let fired = cpu();
    let last = deadlines.iter().max().expect("a burst is not empty");
    let late = end.saturating_duration_since(*last).as_nanos() as f64;
    let count = deadlines.len() as f64;
    Some(vec![
        (format!("register{suffix}"), (registered - begin) / count),
        (format!("fire{suffix}"), (fired - resumed) / count),
        (format!("wakeups{suffix}"), wakeups() - wakeups_before),
        (format!("late{suffix}"), late),
    ])
}

/// Measures the same for deadlines within [`CRUSH`].
pub(crate) fn crush<P: Peer>(scale: &Scale) -> Result<Metrics, String> {
    in_time(scale.crush, |lead| spread_out::<P>(CRUSH, lead, scale.crush, ""))
}

/// Measures the wall-clock time from the first completion to the last, per timer, and how late the first is.
pub(crate) fn at_once<P: Peer>(scale: &Scale) -> Result<Metrics, String> {
    let count = scale.burst;
    in_time(count, |lead| one_deadline::<P>(count, lead))
}

fn one_deadline<P: Peer>(count: usize, lead: Duration) -> Option<Metrics> {
    in_task(move |peer: P| async move {
        let deadline = Instant::now() + lead;
        let burst = start(&peer, &vec![deadline; count]).await;
        if Instant::now() >= deadline {
            return None;
        }
        burst.fired.all_passed().await;
        let end = Instant::now();
        let first = burst.first.get().expect("all have fired");
        Some(vec![
            ("complete".into(), (end - first).as_nanos() as f64 / count as f64),
            ("late".into(), first.saturating_duration_since(deadline).as_nanos() as f64),
        ])
    })
}

/// Like [`spread`], with a queue instead of the tasks.
pub(crate) fn delay_queue(scale: &Scale, count: usize, suffix: &'static str) -> Result<Metrics, String> {
    in_time(count, |lead| queued(scale.spread, lead, count, suffix))
}

fn queued(spread: Duration, lead: Duration, count: usize, suffix: &'static str) -> Option<Metrics> {
    in_task(move |_: Tokio| async move {
        let base = Instant::now() + lead;
        let deadlines = deadlines(base, count, spread);
        let begin = cpu();
        let mut queue = DelayQueue::new();
        for deadline in &deadlines {
            queue.insert_at((), (*deadline).into());
        }
        let all = async || while poll_fn(|cx| queue.poll_expired(cx)).await.is_some() {};
        outcome(suffix, base, &deadlines, begin, all).await
    })
}
