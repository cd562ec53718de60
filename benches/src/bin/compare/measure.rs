//! The tools with which a child measures: the CPU clock, wake-ups, resident memory, percentiles, pseudo-random
//! numbers.
//!
//! Ground rules:
//!
//! * CPU time is the user and system time of the whole process, by its own clock. So a runtime's helper threads
//!   and the kernel's work on its behalf count.
//! * Nothing here allocates or makes a system call within a measured stretch, except to read the clocks.

use std::fs;
use std::future::poll_fn;
use std::hint::black_box;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use hdrhistogram::Histogram;
use mainspring_bench::peers::Peer;
use mainspring_bench::random::Random;
use rustix::time::{ClockId, clock_gettime};

/// The results of one child: a number for each metric of the workload.
pub(crate) type Metrics = Vec<(String, f64)>;

/// Returns the CPU time that this process has used, in nanoseconds.
pub(crate) fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Returns how often a thread of this process has gone to sleep, as counted by the system: every wake-up
/// follows a sleep. Zero where the system does not report it.
pub(crate) fn wakeups() -> f64 {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return 0.0 };
    let count = |thread: fs::DirEntry| field(&thread.path().join("status"), "voluntary_ctxt_switches:");
    threads.flatten().filter_map(count).sum()
}

/// Returns the resident memory, in bytes; `None` where the system does not report it.
pub(crate) fn resident() -> Option<f64> {
    field("/proc/self/status".as_ref(), "VmRSS:").map(|kib| kib * 1024.0)
}

fn field(path: &std::path::Path, name: &str) -> Option<f64> {
    let status = fs::read_to_string(path).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// Returns the CPU time of an operation, in nanoseconds. `batch` does `ops` operations. The result is the
/// median of `batches` runs after one run that warms up.
pub(crate) async fn per_op(batches: usize, ops: usize, mut batch: impl AsyncFnMut()) -> f64 {
    batch().await;
    let mut costs = Vec::with_capacity(batches);
    for _ in 0..batches {
        let start = cpu();
        batch().await;
        costs.push((cpu() - start) / ops as f64);
    }
    median(&mut costs)
}

/// Returns the middle of `values`, or the mean of the two values in the middle. NaN if there are none.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

/// Runs `main` on a new runtime, as a task: programs do their work in tasks, and some runtimes treat the future
/// given to `block_on` differently.
pub(crate) fn in_task<P: Peer, F>(main: impl FnOnce(P) -> F) -> F::Output
where
    F: Future + 'static,
{
    P::run(async |peer: P| {
        let task = main(peer.clone());
        peer.spawn(task).await
    })
}

/// Makes `count` futures with `make`, each in a box, and polls each once; they stay live until they are
/// dropped.
pub(crate) async fn live<F: Future>(count: usize, mut make: impl FnMut() -> F) -> Vec<Pin<Box<F>>> {
    let mut all = Vec::with_capacity(count);
    poll_fn(|cx| {
        for _ in 0..count {
            let mut future = Box::pin(make());
            assert!(future.as_mut().poll(cx).is_pending(), "a timer far ahead is not due");
            all.push(future);
        }
        Poll::Ready(())
    })
    .await;
    black_box(all)
}

/// Yields once, in the same way on every runtime: wakes its own task and is pending.
pub(crate) async fn wake_itself() {
    let mut woken = false;
    poll_fn(|cx| {
        if woken {
            return Poll::Ready(());
        }
        woken = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Makes a histogram of nanoseconds, to three digits, up to a minute.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are in order")
}

/// Adds the percentiles of `histogram` to `metrics`, in nanoseconds. The name of each is `prefix` and the
/// percentile.
pub(crate) fn percentiles(metrics: &mut Metrics, prefix: &str, histogram: &Histogram<u64>) {
    for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)] {
        metrics.push((format!("{prefix}{name}"), histogram.value_at_quantile(quantile) as f64));
    }
}

/// Pseudo-random numbers that are the same for every peer, and the values that the workloads derive from them.
#[derive(Clone, Debug)]
pub(crate) struct Rng(Random);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(Random::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// Returns a duration from `low` up to, not including, `high`.
    pub(crate) fn duration(&mut self, low: Duration, high: Duration) -> Duration {
        let span = (high - low).as_nanos() as u64;
        low + Duration::from_nanos(self.next() % span.max(1))
    }

    /// Shuffles `values`.
    pub(crate) fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.next() as usize % (last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&mut []).is_nan());
    }

    #[test]
    fn a_shuffle_keeps_every_value_and_repeats() {
        let mut values: Vec<u32> = (0..100).collect();
        let mut again = values.clone();
        Rng::new(1).shuffle(&mut values);
        Rng::new(1).shuffle(&mut again);
        assert_eq!(values, again);
        assert_ne!(values, (0..100).collect::<Vec<_>>());
        values.sort_unstable();
        assert_eq!(values, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn the_cpu_clock_counts_what_is_done() {
        let start = cpu();
        let mut rng = Rng::new(1);
        while rng.next() != 0 && cpu() - start < 1e6 {}
        assert!(cpu() - start >= 1e6);
    }
}
