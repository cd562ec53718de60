//! Work in slices: what is interrupted goes on where it was, whatever happens meanwhile.

use mainspring_driver::Nanos;
use mainspring_driver::wheel::{Due, Place};

use crate::bench::{Bench, at, width};

#[test]
fn a_split_that_its_moves_cut_short_keeps_all_timers_in_order() {
    // In one slot of level 0, the last first, so that it must be split. Every third was reset to later: beyond the drain, into
    // another slot that is due, or within its own.
    let now = 3 * width(0);
    for moves in [1, 2, 7, 50] {
        let mut bench = Bench::new(0);
        for i in 0..100 {
            let key = bench.add(60_000 - i * 100);
            match key % 9 {
                0 => bench.owners.deadline[key] = at(now + 500),
                3 => bench.owners.deadline[key] = at(width(0) + 700),
                6 => bench.owners.deadline[key] = at(60_001),
                _ => {}
            }
        }
        bench.owners.asked = 0;
        let mut left: Vec<usize> = (0..100).collect();
        let mut calls = 0;
        // Each call asks those that it moves or finds due, and the one at which it stops. Meanwhile timers go that were
        // found due, that were not judged yet and that were reset, and one comes.
        loop {
            let before = bench.owners.asked;
            let due = bench.wheel.next_due(&mut bench.owners, at(60_500), &mut { moves });
            bench.check();
            calls += 1;
            if due != Due::Exhausted {
                let Due::Fire { key, .. } = due else { panic!("{due:?}, but timers are due") };
                assert!(bench.wheel.next_wake() <= Some(bench.wheel.elapsed()));
                left.retain(|&other| other != key);
                bench.file(key, now + 900);
                bench.owners.deadline[key] = at(now + 900);
                left.push(key);
                break;
            }
            // 22 of the hundred are reset beyond the slot; between two of those lie nine at most.
            assert!(bench.owners.asked - before <= 9 * moves + 10, "{} asked", bench.owners.asked - before);
            assert_eq!(bench.wheel.next_wake(), Some(at(0)), "it would sleep in the middle of a split");
            assert_eq!(bench.wheel.earliest(), Nanos::ZERO);
            let gone = left.remove(calls * 5 % left.len());
            bench.cancel(gone);
            bench.check();
            left.push(bench.add(60_700 + calls as u64));
            bench.check();
        }
        assert_eq!(calls > 1, moves < 50, "{calls} calls of {moves} moves");
        let mut expected = left.clone();
        expected.sort_by_key(|&key| (bench.owners.deadline[key], key));
        assert_eq!(bench.wheel.next_deadline(&mut bench.owners), Some(bench.owners.deadline[expected[0]]));
        let mut fired = bench.advance(60_500, moves);
        fired.extend(bench.advance(now, moves));
        fired.extend(bench.advance(now + 1_000, moves));
        assert_eq!(fired, expected, "with {moves} moves at a time");
    }
}

#[test]
fn a_cascade_goes_on_where_its_moves_were_used_up() {
    let mut bench = Bench::of((0..10).map(|key| (1 << 22) + (key << 16)));
    for expected in [3, 6, 9] {
        let mut moves = 3;
        assert_eq!(bench.wheel.next_due(&mut bench.owners, Nanos::new(2 << 22), &mut moves), Due::Exhausted);
        assert_eq!((moves, bench.wheel.moved()), (0, expected));
    }
    assert_eq!(bench.advance(2 << 22, usize::MAX), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_crowd_that_was_reset_to_later_is_moved_in_slices() {
    // Armed in order and then reset to later in silence, one and all: to find that out is work that is granted in slices.
    let mut bench = Bench::new(0);
    for key in 0..100 {
        bench.add(10);
        bench.owners.deadline[key] = at(width(2));
    }
    for slice in 1..=14 {
        let mut moves = 7;
        assert_eq!(bench.wheel.next_due(&mut bench.owners, at(20), &mut moves), Due::Exhausted);
        assert_eq!((moves, bench.wheel.moved()), (0, 7 * slice));
        bench.check();
    }
    let mut moves = 7;
    assert_eq!(bench.wheel.next_due(&mut bench.owners, at(20), &mut moves), Due::Idle);
    assert_eq!((moves, bench.wheel.moved()), (5, 100));
    assert_eq!(bench.advance(width(2), 7), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_wheel_can_be_emptied_in_the_middle_of_a_cascade() {
    // A driver that is shut down empties its wheel, wakes, and hears of more timers that are dropped.
    let mut bench = Bench::new(0);
    for i in 0..10 {
        bench.add(width(1) + i * width(0));
    }
    let due = bench.wheel.next_due(&mut bench.owners, at(width(1)), &mut 4);
    assert_eq!(due, Due::Exhausted, "the deal was not interrupted");
    for left in (0..10).rev() {
        let taken = bench.wheel.take_any().map(|(key, _)| key);
        assert!(taken.is_some() && bench.wheel.len() == left);
        bench.owners.place[taken.unwrap_or_default()] = Place::NOWHERE;
        bench.check();
    }
    assert_eq!(bench.wheel.take_any(), None);
}

#[test]
fn a_wheel_can_be_emptied_in_the_middle_of_a_batch() {
    let mut bench = Bench::of([4, 3, 2, 1, 5 << 16, 6 << 16]);
    assert!(matches!(
        bench.wheel.next_due(&mut bench.owners, Nanos::new(10), &mut 100),
        Due::Fire { key: 3, .. }
    ));
    // One of the batch has been cancelled; the rest of it comes first.
    let place = bench.owners.place[1];
    assert_eq!(bench.wheel.remove(&mut bench.owners, place), Some(1));
    let mut taken = vec![];
    while let Some((key, filed)) = bench.wheel.take_any() {
        assert_eq!(filed, bench.owners.deadline[key]);
        taken.push(key);
        bench.wheel.check(|key| bench.owners.place[key]);
        assert_eq!(bench.wheel.len() + taken.len(), 4);
    }
    assert_eq!(taken, [2, 0, 4, 5]);
}
