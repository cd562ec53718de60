//! The edges of the levels, and both ends of time.

use mainspring_driver::Nanos;
use mainspring_driver::wheel::Due;

use crate::bench::{Bench, LEVELS, at, width};

const YEAR: u64 = 365 * 86_400 * 1_000_000_000;

#[test]
fn a_far_timer_hides_no_near_one_behind_a_levels_edge() {
    // tokio #8334: uptime just under the top level's edge, one far timer, and every near timer hangs.
    for level in 0..LEVELS {
        for edge in [1, 2, 31, 32, 63].map(|k: u64| k * width(level)) {
            for before in [1, 2, 150, 299, 300].map(|before| edge.min(before)) {
                let start = edge - before;
                let mut bench = Bench::new(start);
                let far = bench.add(Nanos::NEVER.get() - 1);
                bench.check();
                let near = bench.add(start + 300);
                bench.check();
                assert_eq!(bench.next_wake(), Some(at(start + 300)));
                assert_eq!(bench.wheel.next_deadline(&mut bench.owners), Some(at(start + 300)));
                assert_eq!(bench.advance(start + 299, 1), []);
                assert_eq!(bench.advance(start + 300, 1), [near], "hidden at level {level}");
                bench.cancel(far);
                assert!(bench.wheel.is_empty());
            }
        }
    }
}

#[test]
fn a_deadline_at_or_before_now_is_due_at_once() {
    // tokio #2473, and every wheel that files such a timer behind its hand.
    for start in [5, 65_535, 65_536, width(3) - 1, width(3), width(9), Nanos::NEVER.get() - 1] {
        for late in [0, 1, 5] {
            let mut bench = Bench::new(start);
            let key = bench.add(start - late);
            bench.check();
            assert_eq!(bench.next_wake(), Some(at(start - late)));
            assert_eq!(bench.advance(start, 1), [key]);
        }
    }
}

#[test]
fn one_advance_past_every_level_fires_each_timer_once_and_in_order() {
    // tokio #2184. Ten thousand timers, spread over all levels; all of time passes at once, in small steps.
    const TIMERS: u64 = 10_000;
    let mut bench = Bench::new(0);
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    for i in 0..TIMERS {
        random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        let bits = i % 63 + 1;
        bench.add(1 << bits | random >> (64 - bits));
    }
    bench.check();
    let mut fired = vec![];
    let mut calls = 0_u64;
    let end = Nanos::NEVER.get() - 1;
    loop {
        let (before, mut moves) = (bench.wheel.moved(), 16);
        let due = bench.wheel.next_due(&mut bench.owners, at(end), &mut moves);
        calls += 1;
        assert!(bench.wheel.moved() - before <= 16, "more moves than were granted");
        if calls % 64 == 0 {
            bench.check();
        }
        match due {
            Due::Fire { key, .. } => fired.push(key),
            Due::Exhausted => assert_eq!(moves, 0, "it stopped with moves left"),
            Due::Idle => break,
        }
    }
    let mut expected: Vec<usize> = (0..TIMERS as usize).collect();
    expected.sort_by_key(|&key| (bench.owners.deadline[key], key));
    assert_eq!(fired, expected);
    assert!(bench.wheel.moved() <= TIMERS * 10, "a timer was moved more than once a level");
    assert!(calls <= TIMERS + TIMERS * 10 / 16 + 1, "{calls} calls for {TIMERS} timers");
    assert_eq!(bench.wheel.elapsed(), at(end));
}

#[test]
fn a_timer_in_three_hundred_years_fires_in_three_hundred_years() {
    // Linux clamped deadlines beyond its last level; other wheels wrap around.
    let start = 40 * 86_400 * 1_000_000_000;
    let deadline = start + 300 * YEAR;
    let mut bench = Bench::new(start);
    let key = bench.add(deadline);
    for level in 0..LEVELS {
        for slots in [1, 63, 64, 65] {
            let Some(to) = width(level).checked_mul(slots).map(|far| start.saturating_add(far)) else {
                continue;
            };
            if to < deadline && at(to) >= bench.wheel.elapsed() {
                assert_eq!(bench.advance(to, 1), []);
            }
        }
    }
    assert_eq!(bench.wheel.next_deadline(&mut bench.owners), Some(at(deadline)));
    assert_eq!(bench.advance(deadline - 1, 1), []);
    assert_eq!(bench.advance(deadline, 1), [key]);
}

#[test]
fn a_deadline_at_the_end_of_time_is_no_signal() {
    // tokio #5710.
    for far in [u64::MAX, u64::MAX - 1, u64::MAX - 2, u64::MAX - 3, Nanos::NEVER.get()] {
        for start in [0, width(9) - 1, Nanos::NEVER.get() - 1] {
            let mut bench = Bench::new(start);
            let (first, second) = (bench.add(far), bench.add(far));
            bench.check();
            assert_eq!(bench.advance(Nanos::NEVER.get() - 1, 1), [], "fired at {start}");
            assert_eq!(bench.wheel.next_deadline(&mut bench.owners), Some(Nanos::NEVER));
            bench.cancel(first);
            bench.check();
            bench.cancel(second);
            assert_eq!((bench.wheel.len(), bench.next_wake()), (0, None));
        }
    }
}

#[test]
fn a_deadline_of_zero_is_a_deadline() {
    let mut bench = Bench::new(0);
    let key = bench.add(0);
    bench.check();
    assert_eq!(bench.next_wake(), Some(Nanos::ZERO));
    assert_eq!(bench.wheel.next_deadline(&mut bench.owners), Some(Nanos::ZERO));
    assert_eq!(bench.advance(0, 1), [key]);
    assert_eq!(bench.next_wake(), None);
}

#[test]
fn a_timer_that_is_reset_once_moves_at_most_twice_through_the_levels() {
    // The wheel finds that a timer was reset when its slot cascades or it expires; then the timer goes down all levels again.
    let near = Nanos::NEVER.get() / 2;
    let mut bench = Bench::new(0);
    for i in 0..200 {
        let key = bench.add((1 << (i % 60)) + i);
        bench.owners.deadline[key] = at(near + (1 << (i % 61)));
    }
    bench.advance(near, 5);
    assert_eq!(bench.wheel.len(), 200);
    assert_eq!(bench.advance(Nanos::NEVER.get() - 1, 5).len(), 200);
    assert!(bench.wheel.moved() <= 200 * (10 + 10), "{} moves", bench.wheel.moved());
}

#[test]
fn a_cell_that_cascades_into_its_own_slot_does_not_do_so_for_ever() {
    // Timers that were silently reset go back to a slot of the level from which they come.
    for level in 0..LEVELS {
        let mut bench = Bench::new(0);
        let first = width(level);
        let last = first.saturating_mul(63).min(Nanos::NEVER.get() - 1);
        for i in 0..100 {
            let key = bench.add(first + i);
            // Some timers go into another slot of the same level, some to another place in the same slot.
            bench.owners.deadline[key] = at(if i % 2 == 0 { last } else { first + 500 + i });
        }
        bench.owners.asked = 0;
        assert_eq!(bench.advance(first, 7), []);
        assert!(bench.owners.asked <= 200, "{} questions about 100 timers", bench.owners.asked);
        assert_eq!(bench.wheel.len(), 100);
        assert_eq!(bench.advance(first + 600, 7).len(), 50);
        assert_eq!(bench.advance(last - 1, 7).len(), 0);
        assert_eq!(bench.advance(last, 7).len(), 50);
    }
}

#[test]
fn each_move_is_counted_once() {
    // All timers wait in one slot, more than a short row of them and out of order, and go straight to slots of their own
    // from there.
    let mut bench = Bench::of((0..9).map(|key| (1 << 30) + (8 - key) * (1 << 16)));
    assert_eq!(bench.advance(2 << 30, usize::MAX), (0..9).rev().collect::<Vec<_>>());
    assert_eq!(bench.wheel.moved(), 9);

    // So do those that are due at the end of the slot: the wheel stands at the first of them when they move.
    let end = (2 << 30) - (1 << 16);
    let mut bench = Bench::of((0..40).map(|key| end + (39 - key) * 16));
    assert_eq!(bench.advance(2 << 30, usize::MAX).len(), 40);
    assert_eq!(bench.wheel.moved(), 40);

    // Three timers are found to have been reset to later when they would expire.
    let mut bench = Bench::of([10, 11, 12]);
    bench.owners.deadline[2] = at(50 << 16);
    assert_eq!(bench.wheel.next_deadline(&mut bench.owners), Some(Nanos::new(10)));
    bench.owners.deadline[0] = at(40 << 16);
    bench.owners.deadline[1] = at(41 << 16);
    assert_eq!((bench.advance(20, usize::MAX), bench.wheel.moved()), (vec![], 3));
    assert_eq!((bench.advance(60 << 16, usize::MAX), bench.wheel.moved()), (vec![0, 1, 2], 3));

    // Asking for the next deadline moves no timer, neither one that is due now nor one in a slot.
    let mut bench = Bench::of([10, 1 << 20]);
    bench.owners.deadline[0] = at(1 << 30);
    bench.owners.deadline[1] = at(1 << 28);
    assert_eq!(bench.wheel.next_deadline(&mut bench.owners), Some(at(1 << 28)));
    assert_eq!(bench.wheel.moved(), 0);
    assert_eq!((bench.advance(1 << 28, usize::MAX), bench.wheel.moved()), (vec![1], 2));
}
