//! A queue without a runtime, and one whose runtime is gone.

use std::task::Poll;

use crate::common::{self, HOUR, Probe, ms, panicked, us};
use crate::{ignore, poll};
use mainspring::time::{DelayQueue, Instant};

#[test]
fn without_a_runtime_it_says_what_to_do_and_where() {
    let mut queue = DelayQueue::new();
    let line = line!() - 1;
    for moment in [None, Some(Instant::now())] {
        let panicked = panicked(|| match moment {
            None => ignore(queue.insert((), ms(1))),
            Some(moment) => ignore(queue.insert_at((), moment)),
        });
        assert!(panicked.message.contains("no Mainspring runtime"), "{}", panicked.message);
        assert!(panicked.message.contains(&format!("runtimes.rs:{line}")), "{}", panicked.message);
        assert!(panicked.file.ends_with("runtimes.rs"), "{}", panicked.file);
    }
    // When it is used in a runtime, it belongs there.
    mainspring::block_on(async {
        queue.insert((), us(10));
        assert!(queue.next_expired().await.is_some());
    });
}

#[test]
fn after_its_runtime_it_says_so() {
    let mut queue = common::orphan(|| {
        let mut queue = DelayQueue::new();
        queue.insert((), HOUR);
        queue
    });
    let probe = Probe::new();
    let panicked = panicked(|| ignore(poll(&probe, &mut queue)));
    assert!(panicked.message.contains("was dropped before the deadline"), "{}", panicked.message);
}

#[test]
fn what_was_due_before_its_runtime_was_dropped_comes_out() {
    // Nobody has read the runtime's clock since the value came due, whether or not a task waited for it.
    for waits in [true, false] {
        let probe = Probe::new();
        let mut queue = common::orphan(|| {
            let mut queue = DelayQueue::new();
            queue.insert("far", HOUR);
            queue.insert("due", ms(2));
            if waits {
                assert!(poll(&probe, &mut queue).is_pending());
            }
            std::thread::sleep(ms(3));
            queue
        });
        assert_eq!(poll(&probe, &mut queue), Poll::Ready(Some("due")), "waits: {waits}");
        let panicked = panicked(|| ignore(poll(&probe, &mut queue)));
        assert!(panicked.message.contains("was dropped before the deadline"), "{}", panicked.message);
    }
}
