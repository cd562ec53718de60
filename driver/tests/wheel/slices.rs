//! Work in slices: work that is interrupted continues where it stopped, whatever happens meanwhile.

use mainspring_driver::Nanos;
use mainspring_driver::wheel::{Due, Place};

use crate::bench::{Bench, Usual, at, width};

#[test]
fn thirty_two_timers_that_are_sorted_cost_a_move() {
    let mut bench = Usual::of((0..640).map(|key| width(3) + 640 - key));
    let mut moves = 100;
    let due = bench.wheel.next_due(&mut bench.owners, at(2 * width(3)), &mut moves);
    assert!(matches!(due, Due::Fire { key: 639, .. }), "{due:?}");
    assert_eq!((moves, bench.wheel.moved()), (80, 0));
}

#[test]
fn a_cascade_that_its_moves_cut_short_keeps_all_timers_in_order() {
    // In one slot, the last first, and more than a short row. Every third was reset to later: beyond the drain,
    // into another slot that is due, or within its own.
    let start = width(4);
    let now = start + 100_000;
    for moves in [1, 2, 7, 1_000] {
        let mut bench = Bench::new(0);
        for i in 0..100 {
            let key = bench.add(start + 60_000 - i * 100);
            match key % 9 {
                0 => bench.owners.deadline[key] = at(now + 500),
                3 => bench.owners.deadline[key] = at(start + 70_000),
                6 => bench.owners.deadline[key] = at(start + 60_001),
                _ => {}
            }
        }
        let mut left: Vec<usize> = (0..100).collect();
        let mut calls = 0;
        // Meanwhile some timers leave, both moved and not yet moved ones, and some come.
        loop {
            let due = bench.wheel.next_due(&mut bench.owners, at(start + 60_500), &mut { moves });
            bench.check();
            calls += 1;
            if due != Due::Exhausted {
                let Due::Fire { key, .. } = due else { panic!("{due:?}, but timers are due") };
                left.retain(|&other| other != key);
                bench.file(key, now + 900);
                left.push(key);
                break;
            }
            if bench.wheel.occupancy().levels().any(|level| level.cascading.is_some()) {
                assert_eq!(bench.next_wake(), Some(at(0)), "it would sleep in the middle of a cascade");
                assert_eq!(bench.wheel.earliest(), Nanos::ZERO);
            }
            if calls % 3 == 0 && left.len() > 50 {
                let gone = left.remove(calls * 5 % left.len());
                bench.cancel(gone);
                bench.check();
                left.push(bench.add(start + 60_700 + calls as u64));
                bench.check();
            }
        }
        assert_eq!(calls > 1, moves < 1_000, "{calls} calls of {moves} moves");
        let mut expected = left.clone();
        expected.sort_by_key(|&key| (bench.owners.deadline[key], key));
        assert_eq!(bench.wheel.next_deadline(&mut bench.owners), Some(bench.owners.deadline[expected[0]]));
        bench.check();
        let mut fired = bench.advance(start + 60_500, moves);
        fired.extend(bench.advance(now, moves));
        fired.extend(bench.advance(now + 1_000, moves));
        assert_eq!(fired, expected, "with {moves} moves at a time");
    }
}

#[test]
fn a_cascade_goes_on_where_its_moves_were_used_up() {
    let mut bench = Bench::of((0..10).map(|key| (1 << 22) + ((9 - key) << 16)));
    for expected in [3, 6, 9] {
        let mut moves = 3;
        assert_eq!(bench.wheel.next_due(&mut bench.owners, Nanos::new(2 << 22), &mut moves), Due::Exhausted);
        assert_eq!((moves, bench.wheel.moved()), (0, expected));
    }
    assert_eq!(bench.advance(2 << 22, usize::MAX), (0..10).rev().collect::<Vec<_>>());
}

#[test]
fn the_next_deadline_is_found_among_timers_that_cascade() {
    // The timers that are left in the slot are not in order: the first of all lies behind a later one.
    let deadline = |nth: u64| (1 << 22) + (nth << 16);
    let mut bench = Bench::of([9, 8, 5, 3, 7, 0, 6, 1, 4, 2].map(deadline));
    assert_eq!(bench.wheel.next_due(&mut bench.owners, at(2 << 22), &mut 3), Due::Exhausted);
    assert_eq!((bench.wheel.moved(), bench.wheel.occupancy().opened()), (3, 0));
    assert_eq!(bench.wheel.next_deadline(&mut bench.owners), Some(at(deadline(0))));
    let mut all = vec![];
    bench.wheel.for_each(|key, rank| all.push((key, rank.sequence())));
    all.sort_unstable();
    assert_eq!(all, (0..10).map(|key| (key as usize, key)).collect::<Vec<_>>());
    assert_eq!(bench.advance(2 << 22, 3), [5, 7, 9, 3, 8, 2, 6, 4, 1, 0]);
}

#[test]
fn a_crowd_that_no_slot_can_tell_apart_expires_in_order_and_in_slices() {
    // With one deadline, and out of order: a reset that comes after the registration of other timers keeps its timer's number.
    let deadline = (1 << 30) + 5;
    let mut bench = Bench::new(0);
    for key in 0..500 {
        bench.add(1_000 + key * 7);
    }
    // All timers are found to have been reset to the same time, in the order of their old deadlines. The
    // loop below files every third one again, out of that order.
    for key in 0..500 {
        bench.owners.deadline[key] = at(deadline);
    }
    for key in (0..500).step_by(3) {
        bench.cancel(key);
        bench.file(key, deadline);
    }
    assert_eq!(bench.advance(10_000, 20), []);
    let mut fired = vec![];
    for _ in 0..400 {
        // A timer that is cancelled meanwhile stays cancelled.
        let mut moves = 20;
        match bench.wheel.next_due(&mut bench.owners, at(deadline), &mut moves) {
            Due::Fire { key, .. } => fired.push(key),
            due => assert_eq!((due, moves), (Due::Exhausted, 0)),
        }
        bench.check();
    }
    let last = fired.last().map_or(0, |key| key + 1);
    (last..500).step_by(10).for_each(|key| bench.cancel(key));
    bench.check();
    fired.extend(bench.advance(deadline, 20));
    let expected = (0..500).filter(|&key| key < last || (key - last) % 10 != 0);
    assert_eq!(fired, expected.collect::<Vec<_>>());
}

#[test]
fn a_crowd_that_was_reset_to_later_is_moved_in_slices() {
    // All timers were armed in order and then silently reset to later: finding that out is work that is granted in slices.
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
fn to_pass_over_many_cancelled_timers_is_done_in_slices() {
    // In order, so that the timers leave from the front; all but two are cancelled behind the first.
    let count = 300_000;
    let mut bench = Bench::of((0..count as u64).map(|_| width(2)));
    assert!(matches!(bench.next(width(2)), Due::Fire { key: 0, .. }));
    (2..count - 1).for_each(|key| bench.cancel(key));
    let (mut fired, mut steps) = (vec![], 0);
    loop {
        match bench.wheel.next_due(&mut bench.owners, at(width(2)), &mut 1) {
            Due::Fire { key, .. } => fired.push(key),
            Due::Exhausted => steps += 1,
            Due::Idle => break,
        }
        bench.check();
    }
    assert_eq!(fired, [1, count - 1]);
    // A step skips a thousand cells.
    assert!((count / 1_024..count / 800).contains(&steps), "{steps} steps");
}

#[test]
fn a_wheel_can_be_emptied_in_the_middle_of_a_cascade() {
    // A driver that is shut down empties its wheel, wakes tasks, and is told of more timers that are dropped.
    let mut bench = Bench::new(0);
    for i in (0..10).rev() {
        bench.add(width(2) + i * width(1));
    }
    let due = bench.wheel.next_due(&mut bench.owners, at(width(2)), &mut 4);
    assert_eq!(due, Due::Exhausted, "the cascade was not interrupted");
    for left in (0..10).rev() {
        let taken = bench.wheel.take_any(&mut bench.owners).map(|(key, _)| key);
        assert!(taken.is_some() && bench.wheel.len() == left);
        bench.owners.place[taken.unwrap_or_default()] = Place::NOWHERE;
        bench.check();
    }
    assert_eq!(bench.wheel.take_any(&mut bench.owners), None);
}

#[test]
fn a_wheel_that_was_emptied_goes_on_from_where_it_stood() {
    let mut bench = Bench::of([3, 1 << 16, 1 << 40]);
    while let Some((key, _)) = bench.wheel.take_any(&mut bench.owners) {
        bench.owners.place[key] = Place::NOWHERE;
    }
    assert_eq!(bench.wheel.elapsed(), at(0));
    let key = bench.add(70);
    let due = bench.wheel.next_due(&mut bench.owners, at(70), &mut 10);
    assert!(matches!(due, Due::Fire { key: fired, .. } if fired == key));
}

#[test]
fn a_wheel_can_be_emptied_while_timers_expire() {
    let mut bench = Bench::of([4, 3, 2, 1, 5 << 16, 6 << 16]);
    assert!(matches!(
        bench.wheel.next_due(&mut bench.owners, Nanos::new(10), &mut 100),
        Due::Fire { key: 3, .. }
    ));
    // One of the timers that are due is cancelled; the other due timers come first.
    bench.cancel(1);
    let mut taken = vec![];
    while let Some((key, filed)) = bench.wheel.take_any(&mut bench.owners) {
        assert_eq!(filed, bench.owners.deadline[key]);
        taken.push(key);
        bench.check();
        assert_eq!(bench.wheel.len() + taken.len(), 4);
    }
    assert_eq!(taken, [2, 0, 4, 5]);
}
