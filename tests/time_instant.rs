//! Instants: the same time for all threads and runtimes, and the same as std's.

mod common;

use std::thread;
use std::time::Instant as StdInstant;

use common::{HOUR, ms};
use mainspring::block_on;
use mainspring::time::{Instant, interval_at, sleep_until};

/// `now` must lie between two readings of std's clock.
fn agrees_with_std() {
    for _ in 0..1000 {
        let before = StdInstant::now();
        let now = Instant::now();
        let after = StdInstant::now();
        assert!(before <= now.into_std() && now.into_std() <= after);
        assert!(Instant::from(before) <= now && now <= Instant::from(after));
    }
}

#[test]
fn every_runtime_and_every_thread_has_stds_time() {
    agrees_with_std();
    thread::sleep(ms(2));
    // A runtime's clock begins with it; its instants do not.
    block_on(async { agrees_with_std() });
    thread::spawn(|| block_on(async { agrees_with_std() })).join().unwrap();
}

#[test]
fn instants_go_from_one_runtime_to_the_next() {
    let first = block_on(async { Instant::now() });
    thread::sleep(ms(3));
    block_on(async {
        assert!(first.elapsed() >= ms(3));
        assert!(Instant::now() > first);
        sleep_until(first + ms(6)).await;
        assert!(first.elapsed() >= ms(6));
        let mut ticks = interval_at(first, ms(1));
        for n in 0..5 {
            assert_eq!(ticks.tick().await, first + ms(n));
        }
    });
}

#[test]
fn a_deadline_reads_back_to_the_nanosecond() {
    block_on(async {
        let now = Instant::now();
        for nanos in [1, 999, 65_535, 65_536, 1_000_001, 86_400_000_000_007] {
            let deadline = now + std::time::Duration::from_nanos(nanos) + HOUR;
            assert_eq!(sleep_until(deadline).deadline(), deadline);
        }
    });
}
