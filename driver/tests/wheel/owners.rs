//! What owners tell the wheel and let it read: places, and deadlines that have moved.

use mainspring_driver::Nanos;
use mainspring_driver::wheel::{Due, Place, Rank, Slack, Store, Wheel};

use crate::bench::{Bench, Usual, at, width};

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
#[should_panic = "two timers of a wheel have one sequence number: give each its own"]
fn a_timer_is_not_replaced_by_another_with_its_number() {
    let mut bench = Bench::new(0);
    // The third and the fourth are due within the wheel's 16 ns, and before the others.
    for deadline in [15, 7, 3, 3] {
        let key = bench.add(deadline);
        bench.cancel(key);
        bench.wheel.insert(&mut bench.owners, key, at(deadline), Rank::new(0, Slack::ZERO));
    }
}

#[test]
fn timers_that_are_cancelled_in_a_crowd_in_order_move_no_other_until_the_holes_are_many() {
    let mut bench = Usual::of([1 << 20; 200]);
    let before = bench.owners.place.clone();
    // Three times as many holes as timers, and 32: with more holes than that, the last timers move into them.
    (1..=158).for_each(|key| bench.cancel(key));
    assert_eq!(bench.owners.place, before);
    bench.cancel(159);
    let moved = |key: &usize| bench.owners.place[*key] != before[*key];
    assert_eq!((160..200).filter(moved).collect::<Vec<_>>(), [196, 197, 198, 199]);
    bench.check();
}

/// Where in its slot a timer lies.
fn index(bench: &Bench, key: usize) -> usize {
    let place = format!("{:?}", bench.owners.place[key]);
    place.split(' ').nth(1).expect("it says `cell 3 of the slot of`").parse().expect("a number")
}

#[test]
fn holes_of_a_crowd_that_has_lost_its_order_are_filled_by_those_that_come() {
    let slot = 1 << 20;
    let mut bench = Bench::of((0..20).map(|key| slot + 20 - key));
    let cancelled = [3, 19, 14, 7, 8, 13, 9, 11, 12];
    for key in cancelled {
        bench.cancel(key);
        bench.check();
    }
    // The cell at the end is gone. Of the other holes the first are filled, until fewer than a third of the cells are holes; then
    // the row grows.
    let others = bench.owners.place.clone();
    for (deadline, expected) in [(40, 3), (30, 7), (50, 19), (60, 20)] {
        let key = bench.add(slot + deadline);
        assert_eq!(index(&bench, key), expected);
        bench.check();
    }
    assert_eq!(bench.owners.place[..20], others[..], "nobody else was moved");
    let left = (0..20).rev().filter(|key| !cancelled.contains(key));
    assert_eq!(bench.advance(slot + 60, 100), left.chain([21, 20, 22, 23]).collect::<Vec<_>>());
}

#[test]
fn a_crowd_that_comes_and_goes_at_random_has_few_more_cells_than_it_needs() {
    let (slot, mut random) = (1 << 32, 7_u64);
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % below
    };
    let mut bench = Bench::of((0..3_000).map(|key| slot + 3_000 - key));
    let mut live: Vec<usize> = (0..3_000).collect();
    for _ in 0..30_000 {
        let index = next(live.len());
        bench.cancel(live[index]);
        live[index] = bench.add(slot + next(100_000) as u64);
    }
    let most = live.iter().map(|&key| index(&bench, key)).max();
    assert!(most.is_some_and(|most| most < 3_000 * 8 / 5), "{most:?}");
    bench.check();
}

#[test]
fn a_crowd_that_has_lost_its_order_takes_fewer_cells_when_few_are_left() {
    let slot = 1 << 20;
    let mut bench = Bench::of((0..400).map(|key| slot + 500 - key));
    let allocated = bench.wheel.allocated_bytes();
    for key in 0..390 {
        bench.cancel(key);
        bench.check();
    }
    assert!((390..400).all(|key| index(&bench, key) < 80));
    // New timers take no cell that is about to be cut off, and they reuse the memory that was given up.
    for key in 0..200 {
        bench.add(slot + 1000 - key);
        bench.check();
    }
    assert!(bench.wheel.allocated_bytes() < allocated + 4096);
    let left = (390..400).rev().chain((400..600).rev());
    assert_eq!(bench.advance(slot + 1000, 100), left.collect::<Vec<_>>());
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
    fn check(deadlines: impl Iterator<Item = u64>, now: u64, cascades: bool) {
        let mut bench = Bench::of(deadlines);
        let _ = bench.wheel.next_due(&mut bench.owners, at(now), &mut 1);
        assert_eq!(bench.wheel.occupancy().levels().any(|level| level.cascading.is_some()), cascades);
        let [right, wrong] = [1, 2].map(|key| bench.owners.place[key]);
        bench.owners.place[1] = wrong;
        assert!(!bench.wheel.remove(&mut bench.owners, 1), "at {now}");
        bench.owners.place[1] = right;
        bench.check();
        bench.cancel(1);
    }
    // In a slot, in an open slot in its original order, in an open slot that was sorted, and in a slot that cascades.
    check(100..103, 0, false);
    check(100..103, 100, false);
    check((100..103).rev(), 100, false);
    check((1_100..1_200).rev(), 1_300, true);
}

#[test]
fn a_store_that_names_an_earlier_deadline_does_not_break_the_wheel() {
    // A store must not do this; but if it does, the timer fires at once, and the wheel stays intact.
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

#[test]
fn a_row_that_becomes_shorter_and_longer_loses_no_timer() {
    let (slot, mut random) = (1 << 20, 0x9e37_79b9_7f4a_7c15u64);
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as usize % below
    };
    for round in 0..300 {
        let mut bench = Bench::of([slot; 300]);
        let mut live: Vec<usize> = (0..300).collect();
        // Three kinds of steps, in stretches: any timer leaves, the last one leaves, one comes.
        for _ in 0..60 {
            let kind = next(3);
            for _ in 0..next(if kind == 2 { 8 } else { 30 }) {
                if kind == 2 {
                    live.push(bench.add(slot + 1));
                } else if !live.is_empty() {
                    let index = if kind == 0 { next(live.len()) } else { live.len() - 1 };
                    bench.cancel(live.remove(index));
                }
            }
            bench.check();
        }
        assert_eq!(bench.advance(slot + 1, 100), live, "round {round}");
    }
}
