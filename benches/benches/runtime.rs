//! What a program pays for a sleep, a timeout, an interval and a task, on Mainspring and on its peers. In each group
//! every runtime does the same work in the same harness with the same numbers.
//!
//! Everything runs inside the runtime's `block_on`; work that yields runs in a task. What a peer lacks is left out, and a comment
//! there says so. CPU time over many timers, lateness and memory cannot be seen here; the program `compare` measures them.
//!
//! Run with: cargo bench -p mainspring-bench --bench runtime

use std::future::{poll_fn, ready};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
#[cfg(target_os = "linux")]
use mainspring_bench::peers::{Compio, Monoio};
use mainspring_bench::peers::{Mainspring, Peer, Resets, Smol, Tokio, Zruntime};
use mainspring_bench::random::Random;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

type Group<'c> = BenchmarkGroup<'c, WallTime>;

/// The length of a timeout that does not expire.
const LONG: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);
/// The number of other timers, for the workloads that have them.
const CROWD: u32 = 100_000;

/// A group with a limited measurement time.
fn group<'c>(c: &'c mut Criterion, name: &str) -> Group<'c> {
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(1));
    group.sample_size(20);
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    group
}

/// Calls a function with each runtime.
macro_rules! for_each_peer {
    ($call:ident($($argument:expr),*)) => {
        for_each_peer_that_resets!($call($($argument),*));
        #[cfg(target_os = "linux")]
        $call::<Compio>($($argument),*);
    };
}

/// Calls a function with each runtime whose sleeps can be reset: all but compio.
macro_rules! for_each_peer_that_resets {
    ($call:ident($($argument:expr),*)) => {
        $call::<Mainspring>($($argument),*);
        $call::<Tokio>($($argument),*);
        $call::<Smol>($($argument),*);
        $call::<Zruntime>($($argument),*);
        #[cfg(target_os = "linux")]
        $call::<Monoio>($($argument),*);
    };
}

/// Measures `work` while `live` other timers wait. `work` repeats its work the given number of times and returns how long that
/// took.
fn measure<P: Peer>(group: &mut Group<'_>, live: u32, work: impl AsyncFn(&P, u64) -> Duration) {
    group.bench_function(P::NAME, |b| {
        b.iter_custom(|runs| {
            P::run(async |peer| {
                let crowd = crowd(&peer, live).await;
                settle(&peer).await;
                work(&peer, 1).await;
                let took = work(&peer, runs).await;
                drop(crowd);
                took
            })
        });
    });
}

/// Lets the runtime do work that it has put off, such as filing the crowd, so that this work is not measured.
async fn settle<P: Peer>(peer: &P) {
    for _ in 0..1_000 {
        peer.yield_now().await;
    }
}

/// Sleeps that wait during the measurement, due in one to two hours, each in a box of its own.
async fn crowd<P: Peer>(peer: &P, live: u32) -> Vec<Pin<Box<impl Future<Output = ()> + use<P>>>> {
    let mut random = Random::new(1);
    let mut crowd = Vec::with_capacity(live as usize);
    for _ in 0..live {
        let ahead = HOUR + Duration::from_micros(random.below(3_600_000_000));
        let mut sleep = Box::pin(peer.sleep(ahead));
        poll_once(sleep.as_mut()).await;
        crowd.push(sleep);
    }
    crowd
}

/// Polls a sleep that is not due.
#[inline]
async fn poll_once(mut sleep: Pin<&mut impl Future<Output = ()>>) {
    poll_fn(|cx| {
        assert!(sleep.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// A duration between a second and a minute.
#[inline]
fn some_time(random: &mut Random) -> Duration {
    Duration::from_micros(1_000_000 + random.below(59_000_000))
}

/// tokio-util's `DelayQueue`, on tokio: a queue of keyed values instead of sleeps. To poll it is to ask for the next value that
/// is due.
mod delay_queue {
    use super::*;

    const NAME: &str = "DelayQueue";

    /// Like the other `measure`. The queue holds `live` values, whose keys `work` receives.
    pub(super) fn measure(
        group: &mut Group<'_>,
        live: u32,
        work: impl AsyncFn(&mut DelayQueue<u32>, &[Key], u64) -> Duration,
    ) {
        group.bench_function(NAME, |b| {
            b.iter_custom(|runs| {
                Tokio::run(async |_| {
                    let mut random = Random::new(1);
                    let mut queue = DelayQueue::new();
                    let mut insert = |value| {
                        queue.insert(value, HOUR + Duration::from_micros(random.below(3_600_000_000)))
                    };
                    let keys: Vec<Key> = (0..live).map(&mut insert).collect();
                    poll_once(&mut queue).await;
                    settle(&Tokio).await;
                    work(&mut queue, &keys, 1).await;
                    work(&mut queue, &keys, runs).await
                })
            });
        });
    }

    /// Asks for a value; none is due.
    #[inline]
    pub(super) async fn poll_once(queue: &mut DelayQueue<u32>) {
        poll_fn(|cx| {
            // An empty queue is at its end.
            assert!(!matches!(queue.poll_expired(cx), Poll::Ready(Some(_))));
            Poll::Ready(())
        })
        .await;
    }
}

/// A sleep is made and dropped without a poll, as in a timeout around a future that is ready.
fn create_drop(c: &mut Criterion) {
    fn of<P: Peer>(group: &mut Group<'_>) {
        measure::<P>(group, 0, async |peer, runs| {
            let start = Instant::now();
            for _ in 0..runs {
                drop(black_box(peer.sleep(black_box(LONG))));
            }
            start.elapsed()
        });
    }
    let mut group = group(c, "sleep/create+drop");
    for_each_peer!(of(&mut group));
    group.finish();
}

/// A sleep is made, polled once and dropped, as in a timeout that does not expire.
fn create_poll_drop(c: &mut Criterion) {
    fn of<P: Peer>(group: &mut Group<'_>, live: u32) {
        measure::<P>(group, live, async |peer, runs| {
            let mut random = Random::new(2);
            let start = Instant::now();
            for _ in 0..runs {
                poll_once(pin!(peer.sleep(some_time(&mut random)))).await;
            }
            start.elapsed()
        });
    }
    for live in [0, 1_000, CROWD] {
        let mut group = group(c, &format!("sleep/create+poll+drop, {live} live"));
        for_each_peer!(of(&mut group, live));
        delay_queue::measure(&mut group, live, async |queue, _, runs| {
            let mut random = Random::new(2);
            let start = Instant::now();
            for _ in 0..runs {
                let key = queue.insert(0, some_time(&mut random));
                delay_queue::poll_once(queue).await;
                black_box(queue.remove(&key));
            }
            start.elapsed()
        });
        group.finish();
    }
}

/// A timeout around a future that is ready.
fn timeout_ready(c: &mut Criterion) {
    fn of<P: Peer>(group: &mut Group<'_>) {
        measure::<P>(group, 0, async |peer, runs| {
            let start = Instant::now();
            for _ in 0..runs {
                assert!(peer.timeout(LONG, black_box(ready(1))).await.is_ok());
            }
            start.elapsed()
        });
    }
    let mut group = group(c, "timeout/ready");
    for_each_peer!(of(&mut group));
    group.finish();
}

/// A timeout around a future that yields once. The cost of the yield is included; `task/yield` measures it alone.
fn timeout_yields(c: &mut Criterion) {
    fn of<P: Peer>(group: &mut Group<'_>, live: u32) {
        measure::<P>(group, live, async |peer, runs| {
            // In a task, as in `task/yield`.
            let task = peer.clone();
            peer.spawn(async move {
                let start = Instant::now();
                for _ in 0..runs {
                    assert!(task.timeout(LONG, task.yield_now()).await.is_ok());
                }
                start.elapsed()
            })
            .await
        });
    }
    for live in [0, CROWD] {
        let mut group = group(c, &format!("timeout/yields once, {live} live"));
        for_each_peer!(of(&mut group, live));
        group.finish();
    }
}

/// A heartbeat: one sleep is moved to half a minute from now, and polled. The clock is read for it.
fn reset_later(c: &mut Criterion) {
    fn of<P: Resets>(group: &mut Group<'_>) {
        measure::<P>(group, CROWD, async |peer, runs| {
            let mut sleep = pin!(peer.resettable(P::now() + LONG));
            poll_once(sleep.as_mut()).await;
            let start = Instant::now();
            for _ in 0..runs {
                P::reset(sleep.as_mut(), P::now() + LONG);
                poll_once(sleep.as_mut()).await;
            }
            start.elapsed()
        });
    }
    let mut group = group(c, "reset/later, 100000 live");
    for_each_peer_that_resets!(of(&mut group));
    delay_queue::measure(&mut group, CROWD, async |queue, _, runs| {
        let key = queue.insert(0, LONG);
        let start = Instant::now();
        for _ in 0..runs {
            queue.reset(&key, LONG);
            delay_queue::poll_once(queue).await;
        }
        start.elapsed()
    });
    group.finish();
}

/// One sleep is moved a millisecond earlier each time, so that no wheel can mistake it for the same tick, and polled.
fn reset_earlier(c: &mut Criterion) {
    const STEP: Duration = Duration::from_millis(1);
    fn of<P: Resets>(group: &mut Group<'_>) {
        measure::<P>(group, CROWD, async |peer, runs| {
            // Far enough ahead for all samples except the very longest; those begin again at the ceiling.
            let ceiling = P::now() + 49 * HOUR;
            let steps = (48 * HOUR).as_millis() as u64;
            let mut at = ceiling;
            let mut left = steps;
            let mut sleep = pin!(peer.resettable(at));
            poll_once(sleep.as_mut()).await;
            let start = Instant::now();
            for _ in 0..runs {
                (at, left) = if left > 0 { (at - STEP, left - 1) } else { (ceiling, steps) };
                P::reset(sleep.as_mut(), at);
                poll_once(sleep.as_mut()).await;
            }
            start.elapsed()
        });
    }
    let mut group = group(c, "reset/earlier, 100000 live");
    for_each_peer_that_resets!(of(&mut group));
    delay_queue::measure(&mut group, CROWD, async |queue, _, runs| {
        let floor = Instant::now() + HOUR;
        let ceiling = floor + 48 * HOUR;
        let mut at = ceiling;
        let key = queue.insert_at(0, at.into());
        let start = Instant::now();
        for _ in 0..runs {
            at = if at > floor { at - STEP } else { ceiling };
            queue.reset_at(&key, at.into());
            delay_queue::poll_once(queue).await;
        }
        start.elapsed()
    });
    group.finish();
}

/// A hundred thousand heartbeats: in random order, each sleep is moved to half a minute from now, and polled. One pass over all
/// of them is measured as a whole.
fn reset_many(c: &mut Criterion) {
    fn of<P: Resets>(group: &mut Group<'_>, order: &[u32]) {
        measure::<P>(group, 0, async |peer, runs| {
            let mut random = Random::new(3);
            let mut sleeps = Vec::with_capacity(order.len());
            for _ in order {
                let mut sleep = Box::pin(peer.resettable(P::now() + some_time(&mut random)));
                poll_once(sleep.as_mut()).await;
                sleeps.push(sleep);
            }
            // The same for every runtime from here on, however the sleeps were armed first.
            for sleep in &mut sleeps {
                P::reset(sleep.as_mut(), P::now() + LONG);
                poll_once(sleep.as_mut()).await;
            }
            let start = Instant::now();
            for _ in 0..runs {
                for &key in order {
                    let sleep = &mut sleeps[key as usize];
                    P::reset(sleep.as_mut(), P::now() + LONG);
                    poll_once(sleep.as_mut()).await;
                }
            }
            start.elapsed()
        });
    }
    let mut group = group(c, "reset/100000 in random order");
    let order = Random::new(4).order(CROWD);
    group.throughput(Throughput::Elements(u64::from(CROWD)));
    for_each_peer_that_resets!(of(&mut group, &order));
    delay_queue::measure(&mut group, CROWD, async |queue, keys, runs| {
        for key in keys {
            queue.reset(key, LONG);
        }
        let start = Instant::now();
        for _ in 0..runs {
            for &key in &order {
                queue.reset(&keys[key as usize], LONG);
                delay_queue::poll_once(queue).await;
            }
        }
        start.elapsed()
    });
    group.finish();
}

/// An interval whose period is so short that a tick is always due. A tick, and arming the next one, are measured.
fn interval_tick(c: &mut Criterion) {
    fn of<P: Peer>(group: &mut Group<'_>) {
        measure::<P>(group, 0, async |peer, runs| {
            let mut ticks = peer.interval_at(Instant::now(), Duration::from_nanos(1));
            let start = Instant::now();
            for _ in 0..runs {
                P::tick(&mut ticks).await;
            }
            start.elapsed()
        });
    }
    let mut group = group(c, "interval/tick");
    for_each_peer!(of(&mut group));
    group.finish();
}

/// A task is spawned, runs and is awaited; and a task lets other tasks run.
fn tasks(c: &mut Criterion) {
    fn spawn_finish<P: Peer>(group: &mut Group<'_>) {
        measure::<P>(group, 0, async |peer, runs| {
            let start = Instant::now();
            for _ in 0..runs {
                assert_eq!(peer.spawn(ready(black_box(1))).await, 1);
            }
            start.elapsed()
        });
    }
    fn yield_now<P: Peer>(group: &mut Group<'_>) {
        measure::<P>(group, 0, async |peer, runs| {
            // In a task: some runtimes treat the future of `block_on` as a special case.
            let task = peer.clone();
            peer.spawn(async move {
                let start = Instant::now();
                for _ in 0..runs {
                    task.yield_now().await;
                }
                start.elapsed()
            })
            .await
        });
    }
    let mut spawning = group(c, "task/spawn+finish");
    for_each_peer!(spawn_finish(&mut spawning));
    spawning.finish();
    let mut yielding = group(c, "task/yield");
    for_each_peer!(yield_now(&mut yielding));
    yielding.finish();
}

/// How long a sleep of 100 µs lasts, from call to return. The rest of the time is the kernel's and the poller's.
fn short_sleep(c: &mut Criterion) {
    fn of<P: Peer>(group: &mut Group<'_>) {
        measure::<P>(group, 0, async |peer, runs| {
            let start = Instant::now();
            for _ in 0..runs {
                peer.sleep(Duration::from_micros(100)).await;
            }
            start.elapsed()
        });
    }
    let mut group = group(c, "sleep/100 us");
    for_each_peer!(of(&mut group));
    group.finish();
}

criterion_group!(
    benches,
    create_drop,
    create_poll_drop,
    timeout_ready,
    timeout_yields,
    reset_later,
    reset_earlier,
    reset_many,
    interval_tick,
    tasks,
    short_sleep
);
criterion_main!(benches);
