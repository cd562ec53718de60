//! Sleeps that practically last forever: legal, pending, and out of the wheel when they are dropped.

use std::pin::pin;
use std::thread;
use std::time::Duration;

use crate::common::{metrics, ms, turn, us};
use futures::poll;
use mainspring::task::{unblock, unconstrained};
use mainspring::time::{Instant, Sleep, sleep, sleep_until};
use mainspring::{block_on, spawn};

/// Times that must practically be forever, and once overflowed somewhere.
const FOR_EVER: [Duration; 7] = [
    Duration::MAX,
    Duration::from_millis(u64::MAX),
    Duration::from_millis(i64::MAX as u64),
    Duration::from_secs(u64::MAX / 10),
    Duration::from_secs(u64::MAX / 1_000_000_000),
    Duration::from_secs(10 * 365 * 86_400),
    Duration::from_nanos(u64::MAX),
];

// tokio #3551, #5183.
#[test]
fn a_sleep_for_ever_is_pending_and_can_be_dropped() {
    // Without a budget, which a slow machine uses up.
    block_on(unconstrained(async {
        for far in FOR_EVER {
            let start = Instant::now();
            let mut from_now = pin!(sleep(far));
            let mut until = pin!(sleep_until(start + far + far + far));
            let mut moved = pin!(sleep(us(1)));
            moved.as_mut().reset(start + far);
            for sleep in [&mut from_now, &mut until, &mut moved] {
                assert!(poll!(sleep.as_mut()).is_pending(), "{far:?}");
                assert!(sleep.deadline() - start >= Duration::from_secs(9 * 365 * 86_400));
                assert!(!sleep.is_elapsed());
                let _ = format!("{sleep:?}");
            }
            turn().await;
            assert!(poll!(from_now.as_mut()).is_pending(), "{far:?}");
            // The deadline that a sleep reports may be given to another sleep.
            let mut same = pin!(sleep_until(from_now.deadline()));
            assert!(poll!(same.as_mut()).is_pending());
            // And back to a time that comes.
            from_now.as_mut().reset(Instant::now() + us(100));
            from_now.await;
        }
        let mut never = pin!(Sleep::never());
        assert!(poll!(never.as_mut()).is_pending());
        never.as_mut().reset(Instant::now());
        assert!(poll!(never).is_ready());
    }));
}

#[test]
fn all_the_sleeps_for_ever_leave_the_wheel() {
    block_on(async {
        let mut sleeps: Vec<_> = FOR_EVER.iter().map(|far| Box::pin(sleep(*far))).collect();
        for sleep in &mut sleeps {
            assert!(poll!(sleep.as_mut()).is_pending());
        }
        assert_eq!(metrics().timers_live(), FOR_EVER.len());
        sleep(ms(1)).await;
        drop(sleeps);
        assert_eq!((metrics().timers_live(), metrics().timers_cancelled()), (0, FOR_EVER.len() as u64));
    });
}

#[test]
fn a_deadline_shortly_before_the_end_of_time_does_not_keep_the_thread_awake() {
    for before_the_end in [1, 60, 3600] {
        let far = Duration::from_nanos(u64::MAX) - Duration::from_secs(before_the_end);
        let turns = block_on(async move {
            let waits = spawn(sleep(far));
            turn().await;
            let before = metrics().turns();
            unblock(|| thread::sleep(ms(100))).await;
            assert!(!waits.is_finished());
            metrics().turns() - before
        });
        assert!(turns < 10, "{turns} turns in 100 ms in which nothing was to be done");
    }
}
