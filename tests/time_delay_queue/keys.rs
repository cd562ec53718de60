//! Keys: each stays the same, and a key that is no longer in the queue is refused.

use std::collections::HashSet;

use crate::common::{HOUR, manual, ms, panicked};
use crate::{due_now, ignore};
use mainspring::time::delay_queue::Key;
use mainspring::time::{DelayQueue, Instant, advance};

#[test]
fn an_old_key_never_touches_a_new_value() {
    manual().block_on(async {
        let mut queue = DelayQueue::new();
        let old = queue.insert("old", ms(1));
        assert_eq!(queue.remove(&old).into_inner(), "old");
        let new = queue.insert("new", ms(2));
        assert!(old != new && HashSet::from([old, new]).len() == 2);
        assert!(
            queue.try_remove(&old).is_none()
                && !queue.try_reset(&old, HOUR)
                && !queue.try_reset_at(&old, Instant::now())
        );
        assert_eq!(queue.try_deadline(&old), None);
        assert_eq!(queue.deadline(&new), Instant::now() + ms(2));
        queue.clear();
        assert!(queue.try_remove(&new).is_none());
        let newest = queue.insert("newest", ms(3));
        advance(ms(3)).await;
        assert_eq!(due_now(&mut queue).await[0].key(), newest);
        assert!(queue.try_remove(&newest).is_none());
    });
}

/// The first keys of two queues have the same number and the same place.
#[test]
fn a_key_of_another_queue_never_touches_a_value() {
    manual().block_on(async {
        let (mut queue, mut other) = (DelayQueue::new(), DelayQueue::new());
        let (key, strange) = (queue.insert("here", ms(1)), other.insert("elsewhere", HOUR));
        assert!(key != strange && HashSet::from([key, strange]).len() == 2);
        assert!(queue.try_remove(&strange).is_none() && !queue.try_reset(&strange, HOUR));
        assert!(
            !queue.try_reset_at(&strange, Instant::now() + HOUR) && queue.try_deadline(&strange).is_none()
        );
        let panicked = panicked(|| ignore(queue.remove(&strange)));
        assert!(panicked.message.contains("a key of another queue"), "{}", panicked.message);
        assert_eq!(queue.deadline(&key), Instant::now() + ms(1));
        assert_eq!(queue.remove(&key).into_inner(), "here");
    });
}

#[test]
fn an_unknown_key_panics_at_the_callers_place() {
    manual().block_on(async {
        let mut queue = DelayQueue::new();
        let key = queue.insert((), ms(1));
        queue.remove(&key);
        let calls: [fn(&mut DelayQueue<()>, &Key); 4] = [
            |queue, key| ignore(queue.remove(key)),
            |queue, key| queue.reset(key, HOUR),
            |queue, key| queue.reset_at(key, Instant::now()),
            |queue, key| ignore(queue.deadline(key)),
        ];
        for call in calls {
            let panicked = panicked(|| call(&mut queue, &key));
            assert!(panicked.message.starts_with("key #1 is not in this DelayQueue"), "{}", panicked.message);
            assert!(panicked.file.ends_with("keys.rs"), "{}", panicked.file);
        }
    });
}
