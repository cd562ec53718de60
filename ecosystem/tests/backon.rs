//! Retries by `backon`: all that it needs from a runtime is a function that makes a sleep.

use std::cell::Cell;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use mainspring::Builder;
use mainspring::time::{Instant, sleep};
use mainspring_ecosystem::watchdog;

#[test]
fn backon_waits_between_attempts_by_our_sleeps_to_the_nanosecond() {
    let _watchdog = watchdog();
    Builder::new().start_paused(true).build().unwrap().block_on(async {
        let start = Instant::now();
        let attempts = Cell::new(0);
        let fourth_time_lucky = async || {
            attempts.set(attempts.get() + 1);
            if attempts.get() == 4 { Ok(start.elapsed()) } else { Err("not yet") }
        };
        let backoff = ExponentialBuilder::default().with_min_delay(Duration::from_secs(1)).with_factor(2.0);
        let answer = fourth_time_lucky.retry(backoff.with_max_times(5)).sleep(sleep).await;
        // After one, two and four seconds.
        assert_eq!(answer, Ok(Duration::from_secs(7)));

        attempts.set(4);
        let answer = fourth_time_lucky.retry(backoff.with_max_times(2)).sleep(sleep).await;
        assert_eq!(answer, Err("not yet"));
        assert_eq!(start.elapsed(), Duration::from_secs(7 + 3));
    });
}
