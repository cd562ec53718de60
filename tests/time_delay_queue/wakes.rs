//! What the queue wakes, and when: the task that waits, and never for nothing.

use std::task::Poll;
use std::time::Duration;

use crate::common::{HOUR, LONG, Probe, manual, ms, paused, watchdog};
use crate::poll;
use mainspring::time::{DelayQueue, Instant, advance, sleep};

#[test]
fn a_task_that_waits_is_woken_by_what_concerns_it() {
    manual().block_on(async {
        let probe = Probe::new();
        let mut queue = DelayQueue::new();
        let first = queue.insert(1, ms(10));
        assert!(poll(&probe, &mut queue).is_pending());
        let second = queue.insert(2, ms(20));
        queue.reset(&second, ms(15));
        queue.reset(&first, ms(12));
        assert_eq!(probe.wakes(), 0, "nothing comes sooner");
        let third = queue.insert(3, ms(5));
        assert_eq!(probe.wakes(), 1, "an earlier deadline");
        assert!(poll(&probe, &mut queue).is_pending());
        queue.reset(&second, Duration::ZERO);
        assert_eq!(probe.wakes(), 2, "a reset to the present");
        assert_eq!(poll(&probe, &mut queue), Poll::Ready(Some(2)));
        assert!(poll(&probe, &mut queue).is_pending());
        queue.remove(&first);
        assert_eq!(probe.wakes(), 2);
        queue.remove(&third);
        assert_eq!(probe.wakes(), 3, "the last one is gone");
        assert_eq!(poll(&probe, &mut queue), Poll::Ready(None));

        queue.insert(4, ms(10));
        assert!(poll(&probe, &mut queue).is_pending());
        queue.clear();
        assert_eq!(probe.wakes(), 4, "cleared");
        queue.insert(5, ms(10));
        assert!(poll(&probe, &mut queue).is_pending());
        advance(ms(10)).await;
        assert_eq!(probe.wakes(), 5, "due");
        assert_eq!(poll(&probe, &mut queue), Poll::Ready(Some(5)));
    });
}

#[test]
fn an_earlier_value_after_a_pending_poll_is_waited_for() {
    let _dog = watchdog(LONG);
    mainspring::block_on(async {
        let mut queue = DelayQueue::new();
        queue.insert("late", HOUR);
        let probe = Probe::new();
        assert!(poll(&probe, &mut queue).is_pending());
        queue.insert("soon", ms(1));
        assert_eq!(queue.next_expired().await.unwrap().into_inner(), "soon");
    });
}

#[test]
fn the_latest_task_is_woken() {
    manual().block_on(async {
        let (one, other) = (Probe::new(), Probe::new());
        let mut queue = DelayQueue::new();
        queue.insert((), ms(10));
        assert!(poll(&one, &mut queue).is_pending() && poll(&other, &mut queue).is_pending());
        queue.insert((), ms(5));
        assert_eq!((one.wakes(), other.wakes()), (0, 1));
        assert!(poll(&one, &mut queue).is_pending() && poll(&other, &mut queue).is_pending());
        advance(ms(5)).await;
        assert_eq!((one.wakes(), other.wakes()), (0, 2));
    });
}

#[test]
fn an_empty_queue_leaves_no_timer_behind() {
    paused().block_on(async {
        let mut queue = DelayQueue::new();
        let key = queue.insert((), HOUR);
        let probe = Probe::new();
        assert!(poll(&probe, &mut queue).is_pending());
        queue.remove(&key);
        assert_eq!(poll(&probe, &mut queue), Poll::Ready(None));
        let start = Instant::now();
        sleep(2 * HOUR).await;
        assert_eq!((start.elapsed(), probe.wakes()), (2 * HOUR, 1));
    });
}
