//! A deadline shortly before the end of time is one for which the thread sleeps.

use std::time::Duration;

use mainspring::{Handle, Runtime, sleep, spawn, task};

#[test]
fn a_deadline_near_the_end_of_time_does_not_keep_the_thread_awake() {
    for before_the_end in [1, 60, 3600] {
        let far = Duration::from_nanos(u64::MAX) - Duration::from_secs(before_the_end);
        let turns = Runtime::new().unwrap().block_on(async move {
            let waits = spawn(sleep(far));
            task::yield_now().await;
            let turns = || Handle::current().metrics().turns();
            let before = turns();
            task::unblock(|| std::thread::sleep(Duration::from_millis(100))).await;
            assert!(!waits.is_finished());
            turns() - before
        });
        assert!(turns < 10, "{turns} turns in 100 ms in which nothing was to be done");
    }
}
