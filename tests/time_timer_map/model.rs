//! Random steps, compared with two sorted maps.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::common::{delay, manual};
use crate::{Poor, due_now};
use mainspring::time::{Instant, TimerMap, advance_to};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Set(u8, u64),
    Send(u8, u64),
    Move(u8, u64),
    SendMove(u8, u64),
    Remove(u8),
    SendRemove(u8),
    Advance(u64),
    Drain,
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0u8..24;
    prop_oneof![
        6 => (key(), delay()).prop_map(|(key, delay)| Op::Set(key, delay)),
        2 => (key(), delay()).prop_map(|(key, delay)| Op::Send(key, delay)),
        4 => (key(), delay()).prop_map(|(key, delay)| Op::Move(key, delay)),
        1 => (key(), delay()).prop_map(|(key, delay)| Op::SendMove(key, delay)),
        2 => key().prop_map(Op::Remove),
        1 => key().prop_map(Op::SendRemove),
        4 => delay().prop_map(|delay| Op::Advance(delay.min(1 << 50))),
        1 => Just(Op::Drain),
    ]
}

/// Compares the map, drained whenever time has passed, with one map sorted by deadline and order, and one by key.
async fn compare(ops: Vec<Op>) {
    let mut map = TimerMap::new();
    let handle = map.handle();
    let mut by_time: BTreeMap<(Instant, u64), u8> = BTreeMap::new();
    let mut by_key: HashMap<u8, (Instant, u64)> = HashMap::new();
    let mut number = 0;
    for op in ops {
        // An entry that is due at once would come out between the steps.
        let at = |nanos: u64| Instant::now() + Duration::from_nanos(nanos.max(1));
        match op {
            Op::Set(key, nanos) | Op::Send(key, nanos) => {
                number += 1;
                let old = by_key.insert(key, (at(nanos), number));
                if let Some(old) = old {
                    by_time.remove(&old);
                }
                by_time.insert((at(nanos), number), key);
                match op {
                    Op::Set(..) => {
                        assert_eq!(map.insert_at(Poor(key), number, at(nanos)), old.map(|old| old.1));
                    }
                    _ => handle.insert_at(Poor(key), number, at(nanos)).unwrap(),
                }
            }
            Op::Move(key, nanos) | Op::SendMove(key, nanos) => {
                match op {
                    Op::Move(..) => {
                        assert_eq!(map.reset_at(&Poor(key), at(nanos)), by_key.contains_key(&key));
                    }
                    _ => handle.reset_at(Poor(key), at(nanos)).unwrap(),
                }
                if let Some(old) = by_key.get_mut(&key) {
                    by_time.remove(old);
                    old.0 = at(nanos);
                    by_time.insert(*old, key);
                }
            }
            Op::Remove(key) | Op::SendRemove(key) => {
                let old = by_key.remove(&key);
                if let Some(old) = old {
                    by_time.remove(&old);
                }
                match op {
                    Op::Remove(_) => assert_eq!(map.remove(&Poor(key)), old.map(|old| old.1)),
                    _ => handle.remove(Poor(key)).unwrap(),
                }
            }
            Op::Advance(nanos) => {
                advance_to(Instant::now() + Duration::from_nanos(nanos)).await;
                let now = Instant::now();
                for (Poor(key), value) in due_now(&mut map).await {
                    let ((deadline, number), first) = by_time.pop_first().expect("one more than there are");
                    assert!(deadline <= now, "early");
                    assert_eq!((key, value), (first, number));
                    by_key.remove(&key);
                }
                assert!(
                    by_time.first_key_value().is_none_or(|((deadline, _), _)| *deadline > now),
                    "forgotten"
                );
            }
            Op::Drain => {
                let drained: Vec<_> = map.drain().map(|(Poor(key), value)| (value, key)).collect();
                let expected: Vec<_> = by_time.iter().map(|((_, number), key)| (*number, *key)).collect();
                assert_eq!(drained, expected);
                by_time.clear();
                by_key.clear();
            }
        }
        assert!(due_now(&mut map).await.is_empty());
        assert_eq!(map.len(), by_key.len());
        for key in 0..24 {
            let known = by_key.get(&key);
            assert_eq!(map.deadline(&Poor(key)), known.map(|known| known.0));
            assert_eq!(map.get(&Poor(key)), known.map(|known| &known.1));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_two_sorted_maps_do(ops in prop::collection::vec(op(), 1..80)) {
        manual().block_on(compare(ops));
    }
}
