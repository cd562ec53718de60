//! The bare wheel: what a timer costs without a lock, a clock or a future, per timer.
//!
//! Run with: cargo bench -p mainspring-bench --bench wheel

use std::hint::black_box;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mainspring_driver::Nanos;
use mainspring_driver::wheel::{Due, Place, Rank, Slack, Store, Wheel};

const MILLION: u32 = 1_000_000;
const MS: u64 = 1_000_000;
/// Deadlines are spread over this long.
const SPAN: u64 = 10_000 * MS;

/// Where each key's cell lies; a key is an index.
struct Places(Vec<Place>);

impl Store<u32> for Places {
    #[inline]
    fn set_place(&mut self, key: u32, place: Place) {
        self.0[key as usize] = place;
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The numbers below `n`, shuffled.
    fn order(&mut self, n: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..n).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, (self.next() % (i as u64 + 1)) as usize);
        }
        order
    }
}

/// A wheel, its keys' places, and a million random deadlines to use.
struct Bench {
    wheel: Wheel<u32>,
    places: Places,
    deadlines: Vec<Nanos>,
}

impl Bench {
    fn new(count: u32) -> Bench {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        Bench {
            wheel: Wheel::new(Nanos::ZERO),
            places: Places(vec![Place::NOWHERE; count as usize]),
            deadlines: (0..count).map(|_| Nanos::new(1 + random.next() % SPAN)).collect(),
        }
    }

    fn filled(count: u32) -> Bench {
        let mut bench = Bench::new(count);
        (0..count).for_each(|key| bench.insert(key));
        bench
    }

    #[inline]
    fn insert(&mut self, key: u32) {
        let rank = Rank::new(u64::from(key), Slack::ZERO);
        self.wheel.insert(&mut self.places, key, self.deadlines[key as usize], rank);
    }

    #[inline]
    fn remove(&mut self, key: u32) {
        let place = self.places.0[key as usize];
        black_box(self.wheel.remove(&mut self.places, place));
    }

    /// Fires all that is due at `now`.
    fn advance(&mut self, now: u64) -> u32 {
        let mut fired = 0;
        while let Due::Fire { key, .. } =
            self.wheel.next_due(&mut self.places, Nanos::new(now), &mut { usize::MAX })
        {
            black_box(key);
            fired += 1;
        }
        fired
    }
}

/// One timer comes and goes while others wait.
fn insert_and_remove(c: &mut Criterion) {
    let mut group = c.benchmark_group("wheel/insert+remove");
    group.throughput(Throughput::Elements(1));
    for live in [0, 1_000, 100_000, MILLION] {
        let mut bench = Bench::filled(live);
        bench.places.0.push(Place::NOWHERE);
        let mut random = Random(1);
        group.bench_function(BenchmarkId::from_parameter(live), |b| {
            b.iter(|| {
                let deadline = Nanos::new(1 + random.next() % SPAN);
                let rank = Rank::new(u64::from(live), Slack::ZERO);
                bench.wheel.insert(&mut bench.places, live, deadline, rank);
                bench.remove(live);
            });
        });
    }
    group.finish();
}

/// A million at once: in, out, and through the levels.
fn a_million(c: &mut Criterion) {
    let mut group = c.benchmark_group("wheel/1M");
    group.throughput(Throughput::Elements(u64::from(MILLION)));
    group.sample_size(10);
    // Each run needs a wheel of its own, whose making and freeing is not measured.
    let mut measure = |name: &str, prepare: &dyn Fn() -> Bench, work: &mut dyn FnMut(&mut Bench)| {
        group.bench_function(name, |b| {
            b.iter_custom(|runs| {
                let run = |_| {
                    let mut bench = prepare();
                    let start = Instant::now();
                    work(&mut bench);
                    start.elapsed()
                };
                (0..runs).map(run).sum()
            });
        });
    };
    let order = Random(2).order(MILLION);

    measure("insert, random deadlines", &|| Bench::new(MILLION), &mut |bench| {
        (0..MILLION).for_each(|key| bench.insert(key));
    });
    measure("cancel, random order", &|| Bench::filled(MILLION), &mut |bench| {
        order.iter().for_each(|&key| bench.remove(key));
    });
    measure("cascade and fire, 1 ms steps", &|| Bench::filled(MILLION), &mut |bench| {
        let fired: u32 = (1..=SPAN / MS).map(|step| bench.advance(step * MS)).sum();
        assert_eq!(fired, MILLION);
    });
    let same_deadline = || {
        let mut bench = Bench::new(MILLION);
        bench.deadlines.fill(Nanos::new(5_000 * MS));
        (0..MILLION).for_each(|key| bench.insert(key));
        bench
    };
    measure("fire, all the same deadline", &same_deadline, &mut |bench| {
        assert_eq!(bench.advance(5_000 * MS), MILLION);
    });
    group.finish();
}

criterion_group!(benches, insert_and_remove, a_million);
criterion_main!(benches);
