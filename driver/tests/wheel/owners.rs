//! What owners tell the wheel and show it: places, and deadlines that have moved.

use mainspring_driver::Nanos;
use mainspring_driver::wheel::{Due, Place, Rank, Slack, Store, Wheel};

use crate::bench::{Bench, Paged, at, width};

#[test]
fn a_timer_that_is_not_in_the_wheel_is_not_found() {
    let mut bench = Bench::new(0);
    let key = bench.add(1_000);
    bench.cancel(key);
    assert!(!bench.wheel.remove(&mut bench.owners, key), "it was cancelled");
    bench.owners.place[key] = Place::NOWHERE;
    assert!(!bench.wheel.remove(&mut bench.owners, key), "it is nowhere");
    let (first, second) = (bench.add(10), bench.add(20));
    let due = bench.wheel.next_due(&mut bench.owners, at(20), &mut 10);
    assert!(matches!(due, Due::Fire { key, .. } if key == first));
    assert!(!bench.wheel.remove(&mut bench.owners, first), "it has expired");
    bench.cancel(second);
    assert!(
        !bench.wheel.refile(&mut bench.owners, second, at(30), Slack::ZERO),
        "it was cancelled while it was due"
    );
    assert_eq!(bench.advance(20, 10), []);
    assert!(bench.wheel.is_empty());
}

#[test]
fn timers_that_are_cancelled_in_a_crowd_in_order_move_no_other_until_the_holes_are_many() {
    let mut bench = Paged::of([1 << 20; 200]);
    let before = bench.owners.place.clone();
    // As many holes as timers, and 32: then the others move together.
    (1..=116).for_each(|key| bench.cancel(key));
    assert_eq!(bench.owners.place, before);
    bench.cancel(117);
    assert!((118..200).all(|key| bench.owners.place[key] != before[key]));
    bench.check();
}

#[test]
fn holes_of_a_crowd_that_has_lost_its_order_are_filled() {
    // A long hole, made while it was in order; then one comes out of order, and the last two go.
    let mut bench = Bench::of([(1 << 20) + 10; 200]);
    (100..199).for_each(|key| bench.cancel(key));
    let early = bench.add((1 << 20) + 5);
    for key in [199, early, 99] {
        bench.cancel(key);
        bench.check();
    }
    let early = bench.add((1 << 20) + 5);
    // A hole in the middle is never more than one.
    for key in 5..95 {
        bench.cancel(key);
        bench.check();
    }
    let left: Vec<usize> = (0..5).chain(95..99).collect();
    assert_eq!(bench.advance((1 << 20) + 10, 100), [&[early], &left[..]].concat());
}

#[test]
fn a_timer_that_is_reset_within_its_slot_keeps_its_cell() {
    let mut bench = Bench::of([(1 << 20) + 1, (1 << 20) + 2]);
    bench.refile(0, (1 << 20) + 3);
    bench.check();
    let place = format!("{:?}", bench.owners.place[0]);
    assert!(place.starts_with("cell 0 "), "{place}");
}

#[test]
fn an_owner_with_a_wrong_place_removes_no_other_timer() {
    // In a slot, in a run that lies as it lay, in one that was sorted, and in a slot that cascades.
    for (deadlines, now) in [([100, 101, 102], 0), ([100, 101, 102], 100), ([102, 101, 100], 100)] {
        let mut bench = Bench::of(deadlines);
        let _ = bench.wheel.next_due(&mut bench.owners, at(now), &mut 1);
        let [right, wrong] = [1, 2].map(|key| bench.owners.place[key]);
        bench.owners.place[1] = wrong;
        let found = bench.wheel.remove(&mut bench.owners, 1);
        assert!(!found, "{deadlines:?} at {now}");
        bench.owners.place[1] = right;
        bench.check();
        bench.cancel(1);
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
    struct Places([Place; 4]);
    impl Store<usize> for Places {
        fn set_place(&mut self, key: usize, place: Place) {
            self.0[key] = place;
        }
        fn place(&self, key: usize) -> Place {
            self.0[key]
        }
    }
    let mut places = Places([Place::NOWHERE; 4]);
    let mut wheel = Wheel::new(Nanos::ZERO);
    for (key, deadline) in [(1, 300), (2, 100), (3, 200)] {
        wheel.insert(&mut places, key, Nanos::new(deadline), Rank::new(key as u64, Slack::ZERO));
    }
    for expected in [2, 3, 1] {
        let due = wheel.next_due(&mut places, Nanos::new(1_000), &mut 100);
        assert!(matches!(due, Due::Fire { key, .. } if key == expected), "{due:?}");
    }
}
