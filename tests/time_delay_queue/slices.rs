//! Large amounts of work are done in slices, so that other tasks run meanwhile.

use std::task::Poll;
use std::time::Duration;

use crate::common::{HOUR, Probe, manual, paused};
use crate::{ignore, poll};
use mainspring::spawn;
use mainspring::time::{DelayQueue, Instant, advance_to};

#[test]
fn a_large_cascade_is_done_in_slices() {
    manual().block_on(async {
        let mut queue = DelayQueue::new();
        let start = Instant::now();
        for n in 0..20_000u64 {
            // The last first: values that lie in order do not cascade.
            queue.insert_at(n, start + HOUR + Duration::from_nanos((19_999 - n) * 1_000));
        }
        advance_to(start + HOUR).await;
        let probe = Probe::new();
        assert!(poll(&probe, &mut queue).is_pending(), "all of twenty thousand moved in one poll");
        assert_eq!(probe.wakes(), 1, "it wakes itself to go on");
        let mut polls = 1;
        loop {
            match poll(&probe, &mut queue) {
                Poll::Ready(first) => break assert_eq!(first, Some(19_999)),
                Poll::Pending => polls += 1,
            }
        }
        assert!((3..40).contains(&polls), "{polls} polls");
    });
}

#[test]
fn due_values_do_not_starve_the_other_tasks() {
    paused().block_on(async {
        let others = spawn(async {
            let mut turns = 0;
            while turns < 20 {
                mainspring::task::yield_now().await;
                turns += 1;
            }
        });
        let mut queue = DelayQueue::new();
        (0..10_000).for_each(|n| ignore(queue.insert(n, Duration::ZERO)));
        let mut taken = 0;
        while !others.is_finished() {
            assert!(queue.next_expired().await.is_some());
            taken += 1;
        }
        assert!(taken < 30 * 128, "{taken} were taken before the other task was done");
    });
}
