//! What owners tell the wheel and show it: places, and deadlines that have moved.

use mainspring_driver::Nanos;
use mainspring_driver::wheel::{Due, Place, Rank, Slack, Store, Wheel};

use crate::bench::{Bench, at, width};

#[test]
fn a_place_at_which_nothing_lies_removes_nothing() {
    let mut bench = Bench::new(0);
    let key = bench.add(1_000);
    let place = bench.owners.place[key];
    bench.cancel(key);
    assert_eq!(bench.wheel.remove(&mut bench.owners, place), None);
    assert_eq!(bench.wheel.remove(&mut bench.owners, Place::NOWHERE), None);
    let (first, second) = (bench.add(10), bench.add(20));
    let due = bench.wheel.next_due(&mut bench.owners, at(20), &mut 10);
    assert!(matches!(due, Due::Fire { key, .. } if key == first));
    bench.cancel(second);
    let place = bench.owners.place[second];
    assert_eq!(bench.wheel.remove(&mut bench.owners, place), None, "a tombstone was taken for a timer");
    assert_eq!(bench.advance(20, 10), []);
    assert!(bench.wheel.is_empty());
}

#[test]
fn a_place_that_its_timer_has_left_does_not_remove_it() {
    // The topmost cell of a slot and one below it.
    for leaver in [1, 0] {
        let mut bench = Bench::of([7, 8, 9 << 16]);
        let place = bench.owners.place[leaver];
        assert_eq!(bench.wheel.remove(&mut bench.owners, place), Some(leaver));
        let top = if leaver == 0 { Some(1) } else { None };
        assert_eq!(bench.wheel.remove(&mut bench.owners, place), top);
        assert_eq!(bench.wheel.len(), 2 - usize::from(leaver == 0));
    }
}

#[test]
fn a_store_that_names_an_earlier_deadline_does_not_break_the_wheel() {
    // It must not; but if it does, the timer fires at once, and the wheel stays whole.
    for filed in [50, width(0) + 50, width(1) + 50, width(3) + 50] {
        for others in [0, 5] {
            let mut bench = Bench::new(0);
            let key = bench.add(filed);
            bench.owners.deadline[key] = at(7);
            for i in 0..others {
                bench.add(filed - i);
            }
            let fired = bench.advance(filed + 10, 1);
            assert_eq!(fired.len() as u64, 1 + others);
            assert!(fired.contains(&key));
        }
    }
}

#[test]
fn a_wheel_whose_store_knows_no_deadlines_keeps_those_it_was_told() {
    struct Nobody;
    impl Store<u32> for Nobody {
        fn set_place(&mut self, _: u32, _: Place) {}
    }
    let mut wheel = Wheel::new(Nanos::ZERO);
    for (key, deadline) in [(1, 300), (2, 100), (3, 200)] {
        wheel.insert(&mut Nobody, key, Nanos::new(deadline), Rank::new(key.into(), Slack::ZERO));
    }
    for expected in [2, 3, 1] {
        let due = wheel.next_due(&mut Nobody, Nanos::new(1_000), &mut 100);
        assert!(matches!(due, Due::Fire { key, .. } if key == expected), "{due:?}");
    }
}
