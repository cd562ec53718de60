//! The three futures of the runtime, inside `block_on`: what a program pays for a sleep, a timeout and an
//! interval, and for tasks.
//!
//! Run with: cargo bench -p mainspring-bench --bench runtime

use std::future::{poll_fn, ready};
use std::hint::black_box;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use mainspring::{Runtime, interval, sleep, spawn, task::yield_now, timeout};

const LONG: Duration = Duration::from_secs(5);

/// Measures `once` within a runtime's `block_on`.
fn measure<F: AsyncFnMut()>(c: &mut Criterion, name: &str, mut once: F) {
    let runtime = Runtime::new().expect("the system has a poller");
    c.bench_function(name, |b| {
        b.iter_custom(|runs| {
            runtime.block_on(async {
                let start = Instant::now();
                for _ in 0..runs {
                    once().await;
                }
                start.elapsed()
            })
        });
    });
}

fn sleeps(c: &mut Criterion) {
    measure(c, "sleep/create+drop", async || drop(black_box(sleep(LONG))));
    measure(c, "sleep/create+poll+drop", async || {
        let mut timer = pin!(sleep(black_box(LONG)));
        poll_fn(|cx| {
            assert!(timer.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
    });
    measure(c, "sleep/zero", async || sleep(black_box(Duration::ZERO)).await);
}

fn timeouts(c: &mut Criterion) {
    measure(c, "timeout/ready at once", async || {
        assert!(timeout(LONG, black_box(ready(1))).await.is_ok());
    });
    measure(c, "timeout/yields once", async || {
        assert!(timeout(LONG, yield_now()).await.is_ok());
    });
}

/// The period is so short that a tick is always due: what is measured is a tick and its re-arming.
fn intervals(c: &mut Criterion) {
    let runtime = Runtime::new().expect("the system has a poller");
    c.bench_function("interval/tick", |b| {
        b.iter_custom(|runs| {
            runtime.block_on(async {
                let mut ticks = interval(Duration::from_nanos(1));
                let start = Instant::now();
                for _ in 0..runs {
                    black_box(ticks.tick().await);
                }
                start.elapsed()
            })
        });
    });
}

fn tasks(c: &mut Criterion) {
    measure(c, "task/yield_now", async || yield_now().await);
    measure(c, "task/spawn+finish", async || {
        assert_eq!(spawn(ready(black_box(1))).await.ok(), Some(1));
    });
}

criterion_group!(benches, sleeps, timeouts, intervals, tasks);
criterion_main!(benches);
