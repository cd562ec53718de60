//! Random steps, compared with a sorted map.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::{delay, manual};
use crate::due_now;
use mainspring::time::delay_queue::Key;
use mainspring::time::{DelayQueue, Instant, advance_to};
use proptest::prelude::*;

/// A step of the comparison with a sorted map.
#[derive(Clone, Debug)]
enum Op {
    Insert(u64),
    Remove(usize),
    Reset(usize, u64),
    Advance(u64),
    Clear,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => delay().prop_map(Op::Insert),
        2 => any::<usize>().prop_map(Op::Remove),
        3 => (any::<usize>(), delay()).prop_map(|(which, delay)| Op::Reset(which, delay)),
        4 => delay().prop_map(|delay| Op::Advance(delay.min(1 << 50))),
        1 => Just(Op::Clear),
    ]
}

/// Compares the queue, drained whenever time has passed, with a map sorted by deadline and order of insertion.
async fn compare(ops: Vec<Op>) {
    let mut queue = DelayQueue::new();
    let mut model: BTreeMap<(Instant, u64), Key> = BTreeMap::new();
    let mut gone = Vec::new();
    let mut number = 0;
    for op in ops {
        let pick = |which: usize| model.keys().nth(which % model.len().max(1)).copied();
        let at = |nanos: u64| Instant::now() + Duration::from_nanos(nanos).max(Duration::from_nanos(1));
        match op {
            Op::Insert(nanos) => {
                number += 1;
                let key = queue.insert_at(number, at(nanos));
                model.insert((at(nanos), number), key);
            }
            Op::Remove(which) => {
                if let Some(first) = pick(which) {
                    let key = model.remove(&first).unwrap();
                    assert_eq!(queue.remove(&key).into_inner(), first.1);
                    gone.push(key);
                }
            }
            Op::Reset(which, nanos) => {
                if let Some(first) = pick(which) {
                    let key = model.remove(&first).unwrap();
                    queue.reset_at(&key, at(nanos));
                    model.insert((at(nanos), first.1), key);
                }
            }
            Op::Advance(nanos) => {
                advance_to(Instant::now() + Duration::from_nanos(nanos)).await;
                let now = Instant::now();
                for expired in due_now(&mut queue).await {
                    let ((deadline, number), key) = model.pop_first().expect("one more than there are");
                    assert!(deadline <= now, "early");
                    assert_eq!(
                        (expired.deadline(), *expired.get_ref(), expired.key()),
                        (deadline, number, key)
                    );
                    gone.push(key);
                }
                assert!(
                    model.first_key_value().is_none_or(|((deadline, _), _)| *deadline > now),
                    "forgotten"
                );
            }
            Op::Clear => {
                queue.clear();
                gone.extend(std::mem::take(&mut model).into_values());
            }
        }
        assert!(due_now(&mut queue).await.is_empty());
        assert_eq!(queue.len(), model.len());
        assert_eq!(queue.peek().as_ref(), model.values().next());
        for ((deadline, _), key) in &model {
            assert_eq!(queue.try_deadline(key), Some(*deadline));
        }
        assert!(gone.iter().all(|key| queue.try_deadline(key).is_none()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_a_sorted_map_does(ops in prop::collection::vec(op(), 1..80)) {
        manual().block_on(compare(ops));
    }
}
