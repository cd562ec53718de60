//! Timers on the driver, without a runtime: what the lock, the state cell and the waker add to the wheel.
//!
//! Run with: cargo bench -p mainspring-bench --bench futures

use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mainspring_driver::{Clock, Driver, Handle, Nanos, TestClock, TimerEntry};

const SECOND: u64 = 1_000_000_000;

/// An armed timer.
fn armed(handle: &Handle, at: Nanos) -> Pin<Box<TimerEntry>> {
    let mut timer = Box::pin(handle.sleep_until(at));
    assert!(timer.as_mut().poll_elapsed(&mut Context::from_waker(Waker::noop())).is_pending());
    timer
}

/// Timers that wait during the measurement. They are due in a minute to an hour.
fn crowd(handle: &Handle, count: u64) -> Vec<Pin<Box<TimerEntry>>> {
    let ahead =
        |i: u64| Duration::from_nanos(60 * SECOND + i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (3_540 * SECOND));
    (0..count).map(|i| armed(handle, handle.now().saturating_add(ahead(i)))).collect()
}

/// A timer is made, polled once and dropped, as a timeout that does not expire. It runs on the real clock,
/// which is read once for it.
fn create_poll_drop(c: &mut Criterion) {
    let mut group = c.benchmark_group("entry/create+poll+drop");
    group.throughput(Throughput::Elements(1));
    for live in [0, 1_000, 100_000] {
        let driver = Driver::new(Clock::monotonic(), || ());
        let handle = driver.handle();
        let _crowd = crowd(handle, live);
        let mut cx = Context::from_waker(Waker::noop());
        group.bench_function(BenchmarkId::from_parameter(live), |b| {
            b.iter(|| {
                let timer = pin!(handle.sleep(black_box(Duration::from_secs(5))));
                black_box(timer.poll_elapsed(&mut cx))
            });
        });
    }
    group.finish();
}

/// A timer is made and dropped without a poll; a sleep of zero is polled; a timer that already waits is
/// polled.
fn cheap_paths(c: &mut Criterion) {
    let driver = Driver::new(Clock::monotonic(), || ());
    let handle = driver.handle();
    let mut cx = Context::from_waker(Waker::noop());
    c.bench_function("entry/create+drop", |b| {
        b.iter(|| drop(black_box(handle.sleep(black_box(Duration::from_secs(5))))));
    });
    c.bench_function("entry/sleep(0), poll", |b| {
        b.iter(|| {
            let timer = pin!(handle.sleep(black_box(Duration::ZERO)));
            black_box(timer.poll_elapsed(&mut cx))
        });
    });
    let mut timer = armed(handle, Nanos::NEVER);
    c.bench_function("entry/pending poll", |b| b.iter(|| black_box(timer.as_mut().poll_elapsed(&mut cx))));
}

/// A heartbeat moves a timer: to a later time without the lock, to an earlier time with it.
fn reset(c: &mut Criterion) {
    let mut group = c.benchmark_group("entry/reset");
    group.throughput(Throughput::Elements(1));
    for live in [0, 100_000] {
        let driver = Driver::new(TestClock::new(Nanos::ZERO).clock(), || ());
        let handle = driver.handle();
        let _crowd = crowd(handle, live);
        let mut timer = armed(handle, Nanos::new(60 * SECOND));
        let mut at = 60 * SECOND;
        group.bench_function(BenchmarkId::new("later", live), |b| {
            b.iter(|| {
                at += 1_000;
                timer.as_mut().reset(Nanos::new(at));
            });
        });
        let mut at = Nanos::NEVER.get();
        let mut timer = armed(handle, Nanos::NEVER);
        group.bench_function(BenchmarkId::new("earlier", live), |b| {
            b.iter(|| {
                at -= 1_000;
                timer.as_mut().reset(Nanos::new(at));
            });
        });
    }
    group.finish();
}

/// Ten thousand timers fire, all at once or spread over a second in steps of a millisecond. Arming them is
/// not measured.
fn fire(c: &mut Criterion) {
    const TIMERS: u64 = 10_000;
    let mut group = c.benchmark_group("entry/fire 10k");
    group.throughput(Throughput::Elements(TIMERS));
    group.sample_size(20);
    for (name, spread) in [("at once", 0), ("over a second", SECOND / TIMERS)] {
        let clock = TestClock::new(Nanos::ZERO);
        let mut driver = Driver::new(clock.clock(), || ());
        let mut timers: Vec<_> =
            (0..TIMERS).map(|_| Box::pin(driver.handle().sleep_until(Nanos::NEVER))).collect();
        group.bench_function(name, |b| {
            b.iter_custom(|runs| {
                let mut took = Duration::ZERO;
                for _ in 0..runs {
                    let now = clock.now().get();
                    for (timer, i) in timers.iter_mut().zip(1..) {
                        timer.as_mut().reset(Nanos::new(now + SECOND + i * spread));
                        let pending = timer.as_mut().poll_elapsed(&mut Context::from_waker(Waker::noop()));
                        assert!(pending.is_pending());
                    }
                    let start = Instant::now();
                    let mut fired = 0;
                    for step in 1..=2_000 {
                        clock.set(Nanos::new(now + step * SECOND / 1_000));
                        fired += driver.process(clock.now(), usize::MAX).fired;
                    }
                    took += start.elapsed();
                    assert_eq!(fired as u64, TIMERS);
                }
                took
            });
        });
    }
    group.finish();
}

criterion_group!(benches, create_poll_drop, cheap_paths, reset, fire);
criterion_main!(benches);
