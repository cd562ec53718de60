//! Crowds that are out of order, and are dealt to lower slots before their time comes.

use std::collections::BTreeSet;

use mainspring_driver::Nanos;
use mainspring_driver::wheel::Due;

use crate::bench::{Bench, Random, Usual, at, width};

#[test]
fn nobody_waits_for_a_crowd_whatever_its_order() {
    // Above a short row, and so many that a cascade takes milliseconds.
    for (level, crowd) in [(4, 3_000), (5, 50_000), (6, 50_000)] {
        let (mut bench, mut random) = (Usual::new(0), Random(1));
        let start = 2 * width(level);
        for _ in 0..crowd {
            bench.add(start + random.below(width(level) as usize) as u64);
        }
        // A ticker beside it, and its next deadline.
        let mut tick = start - 10 * width(3);
        let ticker = bench.add(tick);
        let (mut fired, mut most) = (0, 0);
        while fired < crowd {
            let now = bench.next_wake().expect("there are timers").max(bench.wheel.elapsed());
            let mut moves = 1_000_000;
            loop {
                let before = moves;
                let due = bench.wheel.next_due(&mut bench.owners, now, &mut moves);
                most = most.max(before - moves);
                match due {
                    Due::Fire { key, deadline, .. } => {
                        assert_eq!(deadline, now, "{key} is late, or early");
                        if key == ticker {
                            tick += if now < at(start + 10 * width(3)) { width(2) } else { width(level) / 8 };
                            bench.file(ticker, tick);
                        } else {
                            fired += 1;
                        }
                    }
                    Due::Idle => break,
                    Due::Exhausted => panic!("so many moves"),
                }
            }
        }
        // As many are dealt at a time, or as are sorted.
        assert!(most <= 400, "{most} moves in one step, at level {level}");
        bench.check();
    }
}

#[test]
fn a_crowd_that_was_reset_to_many_times_is_dealt() {
    // Out of order, and due at about the same time, so it would not be dealt. Then each is brought forward, in the same slot.
    let (mut bench, mut random, start) = (Usual::new(0), Random(1), 2 * width(5));
    for _ in 0..5_000 {
        bench.add(start + width(5) - 1 - random.below(1_000_000) as u64);
    }
    for key in 0..5_000 {
        bench.refile(key, start + key as u64 * 1_667 % 5_000 * (width(5) / 5_001));
    }
    let (mut fired, mut most) = (0, 0);
    while fired < 5_000 {
        let now = bench.next_wake().expect("there are timers").max(bench.wheel.elapsed());
        let mut moves = 1_000_000;
        fired += usize::from(bench.wheel.next_due(&mut bench.owners, now, &mut moves) != Due::Idle);
        most = most.max(1_000_000 - moves);
    }
    assert!(most <= 400, "{most} moves in one step");
    bench.check();
}

#[test]
fn a_park_ends_when_a_crowd_is_to_be_dealt() {
    let start = 5 * width(3);
    let deadline = |key: u64| start + 2 * width(2) + (key * 7 % 20) * width(2);
    let mut bench = Bench::of((0..20).map(deadline));
    let from = start - width(2);
    assert_eq!(bench.next_wake(), Some(at(from)));
    assert_eq!(bench.wheel.next_due(&mut bench.owners, at(from), &mut 5), Due::Idle);
    bench.check();
    assert_eq!(
        (bench.next_wake(), bench.wheel.earliest()),
        (Some(at(from)), at(deadline(0))),
        "it goes on at once"
    );
    let view = bench.wheel.occupancy();
    let level = view.levels().nth(3).expect("there are more");
    assert_eq!((level.slots[5], level.cascading, view.timers(), view.opened()), (15, Some(5), 20, 0));
    // Nor does it hold up who is due meanwhile, and need not wait for it.
    let near = bench.add(from + 100);
    assert!(matches!(bench.next(from + 100), Due::Fire { key, .. } if key == near));
    assert_eq!(bench.wheel.moved(), 5);
    let from = from + 100;
    assert_eq!(bench.wheel.next_due(&mut bench.owners, at(from), &mut 1), Due::Idle);
    // One that leaves meanwhile, and comes back, changes nothing.
    bench.cancel(15);
    assert_eq!((bench.next_wake(), bench.wheel.earliest()), (Some(at(from)), at(deadline(0))));
    bench.file(15, deadline(15));
    assert_eq!(bench.advance(from, 100), []);
    let view = bench.wheel.occupancy();
    let level = view.levels().nth(2).expect("there are more");
    assert_eq!((level.current, level.slots[2], level.slots[21], view.timers()), (63, 1, 1, 20));
    assert_eq!((bench.next_wake(), bench.wheel.moved()), (Some(at(deadline(0))), 19));
    for turn in 0..20 {
        let now = start + (turn + 2) * width(2);
        assert_eq!(bench.advance(now, 100), [(turn * 3 % 20) as usize]);
    }
    assert_eq!(bench.wheel.moved(), 20, "each was moved once");
}

#[test]
fn what_is_left_of_a_crowd_that_was_in_order_is_dealt() {
    // In order, so that nothing has to be dealt, until nine of ten are cancelled.
    let (start, step) = (5 * width(3), width(3) / 1_000);
    let mut bench = Bench::of((0..1_000).map(|key| start + key * step));
    (0..1_000).filter(|key| key % 10 > 0).for_each(|key| bench.cancel(key));
    assert_eq!(bench.next_wake(), Some(at(start - width(2))));
    assert_eq!(bench.advance(start - width(2), 1_000), []);
    assert!(bench.wheel.moved() >= 90, "{} were dealt", bench.wheel.moved());
    assert_eq!(bench.advance(start + width(3), 100), Vec::from_iter((0..1_000).step_by(10)));
}

#[test]
fn a_crowd_whose_time_comes_before_it_is_dealt_loses_none() {
    for dealt in [0, 1, 30, 59, 60] {
        let start = 5 * width(3);
        let mut bench = Bench::of((0..60u64).map(|key| start + (key * 37 % 60) * width(2) + 7));
        assert_eq!(
            bench.wheel.next_due(&mut bench.owners, at(start - 1), &mut { dealt }),
            match dealt {
                0 => Due::Exhausted,
                _ => Due::Idle,
            }
        );
        bench.check();
        // One more, so that not only what is left of the crowd waits for that time.
        let late = bench.add(start + 61 * width(2));
        let mut expected: Vec<usize> = (0..60).collect();
        expected.sort_by_key(|&key| bench.owners.deadline[key]);
        expected.push(late);
        assert_eq!(bench.advance(start + 64 * width(2), 3), expected, "after {dealt} moves");
    }
}

#[test]
fn a_crowd_is_dealt_while_another_that_was_dealt_waits() {
    let start = 5 * width(4);
    let mut bench = Bench::of((0..60u64).map(|key| start + (key * 37 % 60) * width(3)));
    assert_eq!(bench.advance(start - width(3), 100), []);
    assert_eq!(bench.wheel.moved(), 60);
    // The time of the second comes before that of the first.
    let second = start - width(3) + 20 * width(2);
    for key in 0..60 {
        bench.add(second + (key * 37 % 60) * width(1));
    }
    assert_eq!(bench.next_wake(), Some(at(second - width(1))));
    assert_eq!(bench.advance(second - width(1), 100), []);
    assert_eq!(bench.wheel.moved(), 120);
    // One at a time, each at its deadline.
    for (start, step) in [(second, width(1)), (start, width(3))] {
        for turn in 0..60 {
            let fired = bench.advance(start + turn * step, 100);
            assert!(
                fired.len() == 1 && bench.owners.deadline[fired[0]] == at(start + turn * step),
                "{fired:?}"
            );
        }
    }
}

#[test]
fn who_was_put_off_beyond_the_crowds_slot_waits_in_this_round() {
    // The slot of the crowd comes shortly before one of a higher level, for which timers could be dealt, too.
    let far = 5 * width(5);
    let start = far - width(4) + 20 * width(3);
    let mut bench = Bench::new(far - width(4));
    for key in 0..40 {
        bench.add(start + (key * 37 % 40) * width(2));
    }
    let next = bench.add(far + 5);
    bench.owners.deadline[7] = at(far + 3 * width(4));
    assert_eq!(bench.advance(start - width(2), 100), []);
    assert_eq!(bench.wheel.moved(), 40);
    assert_eq!(bench.advance(start + width(3), 100).len(), 39);
    assert_eq!(bench.advance(far + width(5), 100), [next, 7]);
}

#[test]
fn what_cannot_be_dealt_is_left_alone() {
    // In the first and the last sixty-fourth of a slot.
    let start = 5 * width(4);
    let part = |key: u64| start + key % 2 * 63 * width(3) + (key * 37 % 50) * width(2);
    let mut bench = Bench::of((0..50).map(part));
    let mut wakes = 0;
    while let Some(wake) = bench.next_wake().filter(|wake| *wake < at(start)) {
        assert_eq!(bench.advance(wake.get(), 100), []);
        wakes += 1;
        assert!(wakes < 10, "it is dealt again and again");
    }
    // The first part was dealt to the level below.
    assert!(wakes >= 2 && bench.wheel.occupancy().levels().nth(2).is_some_and(|level| level.slots[2] > 0));
    let mut expected: Vec<usize> = (0..50).collect();
    expected.sort_by_key(|&key| bench.owners.deadline[key]);
    assert_eq!(bench.advance(start + width(4), 100), expected);
}

#[test]
fn a_wheel_can_be_emptied_while_a_crowd_is_dealt() {
    let start = 5 * width(3);
    let mut bench = Bench::of((0..60u64).map(|key| start + (key * 37 % 60) * width(2)));
    assert_eq!(bench.wheel.next_due(&mut bench.owners, at(start - 1), &mut 20), Due::Idle);
    let mut taken = BTreeSet::new();
    while let Some((key, deadline)) = bench.wheel.take_any(&mut bench.owners) {
        assert_eq!(deadline, bench.owners.deadline[key]);
        assert!(taken.insert(key));
        bench.check();
    }
    assert_eq!((taken.len(), bench.wheel.len(), bench.next_wake()), (60, 0, None));
}

/// Timers that come, leave and are reset around the time in which a crowd is dealt, compared with a sorted list.
#[test]
fn whatever_happens_while_a_crowd_is_dealt_each_timer_expires_in_order() {
    let seeds = if cfg!(miri) { 2 } else { 60 };
    let mut met = 0;
    for seed in 0..seeds {
        let (mut bench, mut random) = (Bench::new(0), Random(seed));
        let level = 2 + random.below(5) as u32;
        let start = [1, 2, 63, 64, 65][random.below(5)] * width(level);
        let mut list = BTreeSet::new();
        let mut now = 0;
        // Mostly in the slot that is dealt, or near it.
        let deadline = |random: &mut Random, now: u64| {
            let ahead = match random.below(8) {
                0 => random.below(100) as u64,
                1 => random.below(width(level - 1) as usize) as u64,
                2 => start.saturating_sub(now) + random.below(3 * width(level) as usize) as u64,
                3 => start.saturating_sub(now) + random.below(64) as u64 * width(level - 1),
                _ => start.saturating_sub(now) + random.below(width(level) as usize) as u64,
            };
            now + 1 + ahead
        };
        for _ in 0..120 {
            for _ in 0..if list.is_empty() { 60 } else { 1 + random.below(3) } {
                let key = bench.add(deadline(&mut random, now));
                list.insert((bench.owners.deadline[key], key));
            }
            let (mut when, key) = *list.iter().nth(random.below(list.len())).expect("it is below the length");
            match random.below(4) {
                0 => {
                    bench.cancel(key);
                    list.remove(&(when, key));
                }
                1 => {
                    list.remove(&(when, key));
                    when = at(deadline(&mut random, now));
                    bench.refile(key, when.get());
                    list.insert((when, key));
                }
                // Put off without telling the wheel.
                2 => {
                    list.remove(&(when, key));
                    when = when.max(at(deadline(&mut random, now)));
                    bench.owners.deadline[key] = when;
                    list.insert((when, key));
                }
                _ => {}
            }
            bench.check();
            met += usize::from(bench.wheel.occupancy().levels().any(|level| level.cascading.is_some()));
            let first = list.first().map(|(when, _)| *when);
            assert_eq!(bench.wheel.next_deadline(&mut bench.owners), first);
            assert!(first.is_none_or(|first| bench.wheel.earliest() <= first));
            let mut count = 0;
            bench.wheel.for_each(|_, _| count += 1);
            assert_eq!(count, list.len());
            let wake = bench.next_wake().map_or(now, Nanos::get);
            now = match random.below(6) {
                0 => now + random.below(width(level - 1) as usize) as u64,
                1 if now < start - width(level - 1) => start - width(level - 1) + random.below(100) as u64,
                2 if now < start => start - 1 - random.below(2) as u64,
                3 if random.below(10) == 0 => now.max(start) + random.below(width(level) as usize) as u64,
                _ => wake,
            }
            .max(now);
            let moves = 1 + random.below(12);
            loop {
                let due = bench.wheel.next_due(&mut bench.owners, at(now), &mut { moves });
                bench.check();
                match due {
                    Due::Fire { key, deadline, .. } => assert_eq!(list.pop_first(), Some((deadline, key))),
                    Due::Exhausted => {}
                    Due::Idle => break,
                }
            }
            assert!(list.first().is_none_or(|(when, _)| *when > at(now)), "one is late");
        }
    }
    assert!(met as u64 >= 3 * seeds, "a crowd that is being dealt was met {met} times only");
}
