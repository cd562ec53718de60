//! The bare wheel next to the timer structures of other systems: what a timer costs without a lock, a clock or a
//! future, per timer. Each group does the same work with the same numbers on every layout.
//!
//! A timer lies in 256 bytes of its own, as a task does, and timers are used in shuffled order. So an access
//! that misses the cache in a program with a million timers misses it here, too.
//!
//! Run with: cargo bench -p mainspring-bench --bench wheel

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{
    BatchSize, BenchmarkGroup, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use mainspring_bench::for_each_layout;
use mainspring_bench::layouts::{Layout, MS, Rounds, Timers};
use mainspring_bench::random::Random;

const SECOND: u64 = 1000 * MS;

/// The number of timers of a bench with a million. Under `--test`, which only shows that each bench works, there are fewer.
static MILLION: LazyLock<u32> =
    LazyLock::new(|| if std::env::args().any(|arg| arg == "--test") { 10_000 } else { 1_000_000 });

/// A layout, its timers, and their keys in the order in which they are used.
struct Bench<L> {
    layout: L,
    timers: Timers,
    keys: Vec<u32>,
    random: Random,
}

impl<L: Layout> Bench<L> {
    /// Makes room for `count` timers, none of which is armed.
    fn new(count: u32) -> Bench<L> {
        let mut random = Random::new(1);
        let keys = random.order(count);
        Bench { layout: L::new(), timers: Timers::new(count), keys, random }
    }

    /// Arms timers, each at a deadline that `when` computes from a random number.
    #[inline]
    fn insert(&mut self, keys: std::ops::Range<u32>, when: impl Fn(&mut Random) -> u64) {
        for i in keys {
            let deadline = when(&mut self.random);
            self.layout.insert(&mut self.timers, deadline, self.keys[i as usize]);
        }
    }

    #[inline]
    fn cancel(&mut self, key: u32) {
        self.layout.cancel(&mut self.timers, key);
    }

    /// Fires the timers that are due at `now`; returns their number.
    #[inline]
    fn advance(&mut self, now: u64) -> u32 {
        let mut fired = 0;
        self.layout.advance(&mut self.timers, now, &mut |key, timer| {
            timer.fire();
            black_box(key);
            fired += 1;
        });
        fired
    }
}

/// A deadline like that of a timeout: within the next minute, but not in its first second.
fn within_a_minute(random: &mut Random) -> u64 {
    SECOND + random.below(59 * SECOND)
}

/// A group whose throughput is counted in timers, with a limited measurement time.
fn group<'c>(c: &'c mut Criterion, name: &str, timers: u32) -> BenchmarkGroup<'c, WallTime> {
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(u64::from(timers)));
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(500));
    group
}

/// Measures `work` on a layout that `prepare` has made ready. The timers' memory is allocated once, the layout
/// is made anew for each run.
fn measure<L: Layout>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    count: u32,
    prepare: impl Fn(&mut Bench<L>),
    mut work: impl FnMut(&mut Bench<L>),
) {
    let mut bench = None;
    group.bench_function(L::NAME, |b| {
        let bench = bench.get_or_insert_with(|| Bench::new(count));
        b.iter_custom(|runs| {
            let mut took = Duration::ZERO;
            for _ in 0..runs {
                bench.layout = L::new();
                bench.random = Random::new(2);
                prepare(bench);
                let start = Instant::now();
                work(bench);
                took += start.elapsed();
            }
            took
        });
    });
}

/// A million timers are inserted.
fn insert(c: &mut Criterion) {
    let mut group = group(c, "wheel/insert 1M", *MILLION);
    macro_rules! layout {
        ($layout:ty) => {
            measure::<$layout>(
                &mut group,
                *MILLION,
                |_| (),
                |bench| bench.insert(0..*MILLION, within_a_minute),
            );
        };
    }
    for_each_layout!(layout!());
    group.finish();
}

/// A million timers are cancelled, in random order.
fn cancel(c: &mut Criterion) {
    let mut group = group(c, "wheel/cancel 1M, random order", *MILLION);
    let order = Random::new(3).order(*MILLION);
    macro_rules! layout {
        ($layout:ty) => {
            measure::<$layout>(
                &mut group,
                *MILLION,
                |bench| bench.insert(0..*MILLION, within_a_minute),
                |bench| order.iter().for_each(|&key| bench.cancel(key)),
            );
        };
    }
    for_each_layout!(layout!());
    group.finish();
}

/// A timer is inserted and cancelled while others wait, as a timeout is. Time advances by a millisecond per
/// thousand timers, so that a layout which only marks cancelled timers gets to free them; the cost of its ticks
/// is included.
fn churn(c: &mut Criterion) {
    for live in [1_000, 100_000, *MILLION] {
        let mut group = group(c, &format!("wheel/insert+cancel, {live} live"), 1);
        macro_rules! layout {
            ($layout:ty) => {
                let mut prepared = None;
                group.bench_function(<$layout>::NAME, |b| {
                    let (bench, now, left) = prepared.get_or_insert_with(|| {
                        let mut bench = Bench::<$layout>::new(live + 1);
                        // Far enough ahead that none of these timers fires during the measurement.
                        bench.insert(0..live, |random| 3600 * SECOND + random.below(3600 * SECOND));
                        (bench, 0, 1000)
                    });
                    b.iter(|| {
                        let at = *now;
                        bench.insert(live..live + 1, |random| at + within_a_minute(random));
                        bench.cancel(bench.keys[live as usize]);
                        *left -= 1;
                        if *left == 0 {
                            *left = 1000;
                            *now += MS;
                            assert_eq!(bench.advance(*now), 0);
                        }
                    });
                });
            };
        }
        for_each_layout!(layout!());
        group.finish();
    }
}

/// A million timers cascade and fire over a second, in steps of a millisecond.
fn fire(c: &mut Criterion) {
    let mut group = group(c, "wheel/cascade and fire 1M over 1 s", *MILLION);
    macro_rules! layout {
        ($layout:ty) => {
            measure::<$layout>(
                &mut group,
                *MILLION,
                |bench| bench.insert(0..*MILLION, |random| 1 + random.below(SECOND)),
                |bench| {
                    let fired: u32 = (1..=1000).map(|step| bench.advance(step * MS)).sum();
                    assert_eq!(fired, *MILLION);
                },
            );
        };
    }
    for_each_layout!(layout!());
    group.finish();
}

/// The same over a minute: there are more levels to cascade through, and more rounds to pass over. The layout
/// with 300 slots and rounds is left out: it passes over each timer more than a hundred times, and one run takes
/// seconds.
fn fire_over_a_minute(c: &mut Criterion) {
    let mut group = group(c, "wheel/cascade and fire 1M over 60 s", *MILLION);
    macro_rules! layout {
        ($layout:ty) => {
            if <$layout>::NAME != Rounds::<300>::NAME {
                measure::<$layout>(
                    &mut group,
                    *MILLION,
                    |bench| bench.insert(0..*MILLION, within_a_minute),
                    |bench| {
                        let fired: u32 = (1..=60_000).map(|step| bench.advance(step * MS)).sum();
                        assert_eq!(fired, *MILLION);
                    },
                );
            }
        };
    }
    for_each_layout!(layout!());
    group.finish();
}

/// A million timers are due at one moment, which the layout reaches in steps of a millisecond.
fn fire_at_once(c: &mut Criterion) {
    let mut group = group(c, "wheel/cascade and fire 1M, one deadline", *MILLION);
    macro_rules! layout {
        ($layout:ty) => {
            measure::<$layout>(
                &mut group,
                *MILLION,
                |bench| bench.insert(0..*MILLION, |_| 5 * SECOND),
                |bench| {
                    let fired: u32 = (1..5000).map(|step| bench.advance(step * MS)).sum();
                    assert_eq!(fired, 0);
                    assert_eq!(bench.advance(5 * SECOND), *MILLION);
                },
            );
        };
    }
    for_each_layout!(layout!());
    group.finish();
}

/// The distances of timers in a wheel that is nearly empty: some near, some hours away.
const SPARSE: [u64; 12] = [
    3 * MS,
    20 * MS,
    110 * MS,
    700 * MS,
    2 * SECOND,
    3 * SECOND,
    9 * SECOND,
    20 * SECOND,
    40 * SECOND,
    55 * SECOND,
    600 * SECOND,
    7200 * SECOND,
];

/// Asks when the next timer is due, of each layout that can tell.
fn next_wake(c: &mut Criterion) {
    let mut group = group(c, "wheel/next wake-up of a dozen", 1);
    macro_rules! layout {
        ($layout:ty) => {
            if <$layout>::TELLS_NEXT {
                let mut bench = Bench::<$layout>::new(SPARSE.len() as u32);
                SPARSE.iter().zip(0..).for_each(|(&at, key)| bench.layout.insert(&mut bench.timers, at, key));
                group.bench_function(<$layout>::NAME, |b| b.iter(|| black_box(&bench.layout).next_wake()));
            }
        };
    }
    for_each_layout!(layout!());
    group.finish();
}

/// A minute with a dozen timers, as an event loop goes through it: from wake-up to wake-up, or from tick to tick
/// if the layout cannot tell the next wake-up. The cost of the wake-ups themselves is not included.
fn sparse(c: &mut Criterion) {
    let mut group = group(c, "wheel/a minute with a dozen", 1);
    macro_rules! layout {
        ($layout:ty) => {
            group.bench_function(<$layout>::NAME, |b| {
                let prepare = || {
                    let mut bench = Bench::<$layout>::new(SPARSE.len() as u32);
                    SPARSE
                        .iter()
                        .zip(0..)
                        .for_each(|(&at, key)| bench.layout.insert(&mut bench.timers, at, key));
                    bench
                };
                let live = |bench: &mut Bench<$layout>| {
                    let (mut now, mut fired) = (0, 0);
                    loop {
                        now = match bench.layout.next_wake() {
                            Some(wake) => wake,
                            None => now + <$layout>::TICK,
                        };
                        if now > 60 * SECOND {
                            break;
                        }
                        fired += bench.advance(now);
                    }
                    assert_eq!(fired, 10);
                };
                b.iter_batched_ref(prepare, live, BatchSize::LargeInput);
            });
        };
    }
    for_each_layout!(layout!());
    group.finish();
}

criterion_group!(benches, insert, cancel, churn, fire, fire_over_a_minute, fire_at_once, next_wake, sparse);
criterion_main!(benches);
