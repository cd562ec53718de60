//! A steady state allocates nothing, and the memory of a burst is given back.

use std::collections::VecDeque;

use mainspring_driver::Nanos;
use mainspring_driver::wheel::{Due, Place, Rank, Slack};

use crate::bench::{Owners, Usual, at, width};
use crate::counting::{allocations, blocks, bytes};

#[test]
fn a_bursts_memory_is_given_back_bit_by_bit() {
    let mut bench = Usual::new(0);
    let mut now = 0;
    let idle = bench.wheel.allocated_bytes();
    for cancelled in [false, true] {
        for i in 0..100_000 {
            bench.add(now + 1_000_000 + if cancelled { i } else { 0 });
        }
        let busy = bench.wheel.allocated_bytes();
        assert!(busy > 16 * 100_000);
        if cancelled {
            (bench.owners.place.len() - 100_000..bench.owners.place.len()).for_each(|key| bench.cancel(key));
        }
        let mut steps = 0;
        now += 1_000_000;
        while let Due::Fire { .. } | Due::Exhausted =
            bench.wheel.next_due(&mut bench.owners, at(now), &mut 1_000)
        {
            steps += 1;
        }
        assert!(steps <= 110_000);
        // Some seconds pass, with one timer at a time.
        for _ in 0..1_000 {
            let key = bench.add(now + 10_000_000);
            now += 10_000_000;
            let before = bench.wheel.allocated_bytes();
            while bench.wheel.next_due(&mut bench.owners, at(now), &mut 1_000) != Due::Idle {}
            let released = before.saturating_sub(bench.wheel.allocated_bytes());
            // Thirty-two blocks and as many lists, and the memory that keeps account of them.
            assert!(released <= 140_000, "{released} of {before} bytes were released at once");
            bench.owners.place[key] = Place::NOWHERE;
        }
        let kept = bench.wheel.allocated_bytes();
        assert!(kept - idle < 200_000, "{kept} bytes are kept of {busy}");
        bench.check();
    }
}

#[test]
fn the_memory_of_many_reset_at_once_is_given_back() {
    let mut bench = Usual::of((0..5_000).map(|key| 6_000 - key));
    bench.owners.deadline.fill(at(1 << 20));
    // All timers are found at once to be due later; then all are due at once.
    assert_eq!((bench.fire_all(6_000), bench.fire_all(1 << 20)), (0, 5_000));
    assert!(bench.wheel.allocated_bytes() > 16 * 5_000);
    // Seconds later there is one timer at a time, which is found to be due later and then is due.
    for second in 2..100 {
        let start = second << 30;
        bench.file(0, start);
        bench.owners.deadline[0] = at(start + 10);
        assert_eq!((bench.fire_all(start + 5), bench.fire_all(start + 10)), (0, 1));
    }
    assert!(bench.wheel.allocated_bytes() < 150_000, "{} bytes", bench.wheel.allocated_bytes());
}

#[test]
fn timers_that_come_and_leave_while_time_stands_still_take_no_more_and_more_memory() {
    let mut bench = Usual::new(1_000);
    // Some are overdue all the time, among them the first.
    let mut overdue: VecDeque<_> = (0..3).map(|_| bench.add(1_000)).collect();
    for _ in 0..20_000 {
        overdue.push_back(bench.add(1_000));
        bench.cancel(overdue.remove(1).unwrap());
    }
    let kept = bench.wheel.allocated_bytes();
    assert!(kept < 250_000, "{kept} bytes are kept for three timers");
    bench.check();
    assert_eq!(bench.advance(1_000, 10), Vec::from(overdue));
}

#[test]
fn the_wheel_knows_how_much_memory_it_has() {
    let deadline: Vec<_> = (0..5_000).map(|key| at(1 + key)).collect();
    let (place, slack) = (vec![Place::NOWHERE; deadline.len()], vec![Slack::ZERO; deadline.len()]);
    let owners = Owners { place, deadline, slack, asked: 0 };
    let before = bytes();
    let held = |bench: &Usual| assert_eq!(bench.wheel.allocated_bytes() as i64, bytes() - before);
    let mut bench = Usual { owners, ..Usual::new(0) };
    held(&bench);
    for key in 0..5_000 {
        bench.file(key, 1 + key as u64);
        held(&bench);
    }
    // Some were reset to later.
    bench.owners.deadline[..100].fill(at(1 << 20));
    assert!(matches!(bench.next(5_000), Due::Fire { key: 100, .. }));
    held(&bench);
    while let Due::Fire { .. } = bench.next(2 << 20) {
        held(&bench);
    }
    // Long after the burst its memory is given back.
    for second in 1..100 {
        assert_eq!(bench.fire_all(second << 30), 0);
        held(&bench);
    }
    assert!(bench.wheel.is_empty());
}

#[test]
fn the_wheel_knows_how_much_memory_it_sorts_with() {
    let deadline: Vec<_> = (0..1_000).map(|key| at((1 << 22) + 20 * (1_000 - key))).collect();
    let (place, slack) = (vec![Place::NOWHERE; deadline.len()], vec![Slack::ZERO; deadline.len()]);
    let owners = Owners { place, deadline, slack, asked: 0 };
    let before = bytes();
    let mut bench = Usual { owners, ..Usual::new(0) };
    (0..1_000).for_each(|key| bench.file(key, bench.owners.deadline[key].get()));
    let armed = bench.wheel.allocated_bytes();
    assert_eq!(bench.fire_all(1 << 23), 1_000);
    assert!(bench.wheel.allocated_bytes() > armed, "nothing was sorted");
    assert_eq!(bench.wheel.allocated_bytes() as i64, bytes() - before);
}

#[test]
fn the_wheel_knows_how_much_memory_long_rows_have() {
    // Rows that are not short: in order, so that the slot is opened as it is; and out of order, so that it cascades.
    for reverse in [false, true] {
        let deadline: Vec<_> =
            (0..10_000).map(|key| at((1 << 20) + if reverse { 10_000 - key } else { key })).collect();
        let (place, slack) = (vec![Place::NOWHERE; deadline.len()], vec![Slack::ZERO; deadline.len()]);
        let owners = Owners { place, deadline, slack, asked: 0 };
        let before = bytes();
        let mut bench = Usual { owners, ..Usual::new(0) };
        // Except the tree of timers that no slot can tell apart.
        let held = |bench: &Usual| {
            let untold = bytes() - before - bench.wheel.allocated_bytes() as i64;
            assert!(untold == 0 || reverse && (1..1_000).contains(&untold), "{untold} bytes");
        };
        for key in 0..10_000 {
            bench.file(key, bench.owners.deadline[key].get());
            held(&bench);
        }
        while bench.wheel.next_due(&mut bench.owners, at(2 << 20), &mut 1) != Due::Idle {
            held(&bench);
        }
        held(&bench);
        assert!(bench.wheel.is_empty());
    }
}

#[test]
fn a_little_memory_is_kept_and_the_list_of_it_becomes_short() {
    // A timer in each of nearly all slots of the lower levels, so that there are many blocks.
    let deadline = |key: usize| (1 + key as u64 % 60) << (4 + 6 * (key / 60));
    let mut bench = Usual::new(0);
    assert_eq!(bench.wheel.allocated_bytes(), 0, "nothing is allocated before the first timer");
    bench.add(deadline(0));
    // The first block, and room for four in the list of free blocks, are not part of the slots' memory.
    let (block, pointer) = (64 * size_of::<(Nanos, Rank, usize)>(), size_of::<usize>());
    let idle = bench.wheel.allocated_bytes() - block - 4 * pointer;
    for key in 1..300 {
        bench.add(deadline(key));
    }
    let busy = bench.wheel.allocated_bytes();
    // More steps per second than there are blocks.
    for second in 1..=20 {
        (0..400).for_each(|step| _ = bench.next((second << 30) + step));
    }
    assert!(bench.wheel.is_empty());
    let kept = bench.wheel.allocated_bytes() - idle;
    assert!(busy - idle >= 300 * block && kept >= 16 * block + 32 * pointer, "{kept} bytes are kept");
    assert!(kept <= 16 * block + (64 + 4 * 16) * pointer, "{kept} bytes are kept");
    let start = 21 << 30;
    assert_eq!(bench.fire_all(start), 0);
    let again = allocations(|| {
        (0..16).for_each(|key| bench.file(key, start + 100 + deadline(key)));
        assert_eq!(bench.fire_all(start + (1 << 20)), 16);
    });
    assert_eq!(again, 0, "a habit allocates");
}

#[test]
fn memory_that_recurs_is_kept_and_a_bursts_is_given_back() {
    let mut bench = Usual::new(0);
    let idle = blocks();
    for key in 0..100_000 {
        bench.add((1 << 30) + key);
    }
    let needed = 100_000 / 64;
    assert_eq!(bench.fire_all((1 << 30) + 100_000), 100_000);
    let busy = blocks();
    assert!(busy - idle > needed, "{} blocks where {needed} are needed", busy - idle);
    // Within a second of the burst nothing is released, however often the wheel is asked.
    for step in 0..100 {
        bench.fire_all((1 << 30) + 200_000 + step * 1_000);
    }
    assert_eq!(blocks(), busy, "the memory of a habit was released");
    // Then the memory is released, in small steps, except a little.
    let mut last = busy;
    for second in 2..100 {
        bench.fire_all(second << 30);
        let now = blocks();
        // One or two lists may be released, too.
        assert!((last - 34..=last).contains(&now), "{last} blocks became {now} in one step");
        last = now;
    }
    assert!(busy - last >= needed - 16, "{} of {needed} blocks were released", busy - last);
}

#[test]
fn the_bare_wheel_allocates_nothing_in_steady_state() {
    const LIVE: usize = 1_000;
    let mut bench = Usual::of([0; LIVE]);
    assert_eq!(bench.fire_all(0), LIVE);
    let mut now = 0;
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut round = |rounds: usize| {
        for _ in 0..rounds {
            for key in 0..LIVE {
                random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                bench.file(key, now + (random >> 40));
            }
            (0..LIVE).step_by(3).for_each(|key| bench.cancel(key));
            now += 1 << 24;
            bench.fire_all(now);
            assert!(bench.wheel.is_empty());
        }
    };
    round(300);
    assert_eq!(allocations(|| round(100)), 0);
}

#[test]
fn to_sort_a_few_timers_again_and_again_allocates_nothing() {
    // A tick each second, and each five seconds two timers that come out of order.
    let mut bench = Usual::of([0; 3]);
    let mut now = 0;
    assert_eq!(bench.fire_all(now), 3);
    let mut round = || {
        let end = now + (5 << 30);
        bench.file(0, end - 1_000);
        bench.file(1, end - 2_000);
        for _ in 0..5 {
            now += 1 << 30;
            bench.file(2, now);
            bench.fire_all(now);
        }
        assert!(bench.wheel.is_empty());
    };
    (0..20).for_each(|_| round());
    assert_eq!(allocations(|| (0..20).for_each(|_| round())), 0);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of timers take Miri long")]
fn one_timer_that_is_left_of_a_crowd_keeps_no_list_of_the_crowds_memory() {
    let mut bench = Usual::new(0);
    for slot in 1..30 {
        let first = bench.owners.place.len();
        (0..20_000).for_each(|_| _ = bench.add(slot * width(6)));
        (first + 1..first + 20_000).for_each(|key| bench.cancel(key));
    }
    for step in 0..3_000 {
        assert_eq!(bench.next((step / 500) << 30 | step), Due::Idle);
    }
    // The list of a crowd takes 8 kB.
    let bytes = bench.wheel.allocated_bytes();
    assert!(bytes < 220_000, "{bytes} bytes for {} timers", bench.wheel.len());
}
