//! Slots that are no longer short, of which most timers were cancelled, in every order.

use mainspring_driver::Nanos;
use mainspring_driver::wheel::{Due, Slack};

use crate::bench::{Random, Usual, at, width};

/// Cancels most of the keys in front of `from`: from the front, from the end, every few, or at random.
fn cancel_most(bench: &mut Usual, live: &mut Vec<usize>, random: &mut Random) {
    let count = live.len() * (60 + random.below(36)) / 100;
    match random.below(5) {
        0 => live.drain(..count).for_each(|key| bench.cancel(key)),
        1 => (0..count).for_each(|_| bench.cancel(live.pop().expect("there are more"))),
        2 => {
            // All but every few, then from the end.
            let (every, phase) = (2 + random.below(9), random.below(2));
            let mut left = count;
            live.retain(|&key| {
                let stays = left == 0 || key % every == phase;
                if !stays {
                    left -= 1;
                    bench.cancel(key);
                }
                stays
            });
            (0..random.below(live.len())).for_each(|_| bench.cancel(live.pop().expect("there are more")));
        }
        3 => {
            // A gap in the middle, then from both sides of it.
            let from = random.below(live.len() - count);
            live.drain(from..from + count).for_each(|key| bench.cancel(key));
            (0..from / 2).for_each(|_| bench.cancel(live.remove(0)));
        }
        _ => (0..count).for_each(|_| bench.cancel(live.swap_remove(random.below(live.len())))),
    }
    live.sort_unstable();
}

/// Lets time pass from one wake-up to the next. Every timer comes out when it is due, in order; and between two of them the thread
/// wakes up in vain a few times at the most, but for those in which it deals them to lower slots.
fn come_out(bench: &mut Usual, live: &[usize]) {
    let mut expected = Vec::from_iter(live.iter().map(|&key| (bench.owners.deadline[key], key)));
    expected.sort_unstable();
    let mut idle = 0;
    let mut came = expected.iter();
    while let Some(wake) = bench.next_wake() {
        match bench.next(wake.max(bench.wheel.elapsed()).get()) {
            Due::Fire { key, deadline, .. } => {
                assert_eq!(Some(&(deadline, key)), came.next());
                assert!(wake == deadline || wake == Nanos::ZERO, "it is woken for its timer");
                idle = 0;
            }
            _ if bench.wheel.occupancy().levels().any(|level| level.cascading.is_some()) => {}
            _ => idle += 1,
        }
        assert!(idle < 5, "it wakes in vain again and again");
    }
    assert_eq!(came.next(), None);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of timers take Miri long")]
fn what_is_left_of_a_long_slot_and_what_comes_to_it_comes_out_in_order_and_on_time() {
    let mut random = Random(1);
    for case in 0..if cfg!(debug_assertions) { 60 } else { 600 } {
        let mut bench = Usual::new(0);
        let count = 2_100 + random.below(4_000);
        let level = 3 + random.below(3) as u32;
        let apart = width(level) / 10_000;
        let start = 5 * width(level);
        let mut live = Vec::from_iter((0..count as u64).map(|n| bench.add(start + apart * n)));
        // Some cases open the slot first.
        let opened = random.below(3) == 0;
        if opened {
            assert!(matches!(bench.next(start), Due::Fire { key: 0, .. }));
            live.remove(0);
        }
        for _ in 0..1 + random.below(3) {
            if live.len() > 20 {
                cancel_most(&mut bench, &mut live, &mut random);
                bench.check();
            }
            // Newcomers, between the others.
            for _ in 0..random.below(40) {
                let after = apart * random.below(count) as u64;
                live.push(bench.add(start + 1 + after + random.below(apart as usize) as u64));
            }
            bench.check();
        }
        assert_eq!(bench.wheel.len(), live.len(), "case {case}");
        come_out(&mut bench, &live);
    }
}

/// The case of the timer that came out a quarter of an hour late: its slot took a hole for the last timer.
#[test]
#[cfg_attr(miri, ignore = "thousands of timers take Miri long")]
fn who_comes_to_a_slot_whose_end_is_a_hole_is_not_late() {
    const MS: u64 = 1_000_000;
    let start = 1 << 40;
    for cancelled in (3_000..3_270).step_by(3) {
        let mut bench = Usual::new(0);
        let last = start + 900_000 * MS;
        for n in 0..4_097 {
            bench.add(if n < 4_095 { start + n * MS } else { last });
        }
        (0..4_095).filter(|key| key % 5 != 0).take(cancelled).for_each(|key| bench.cancel(key));
        bench.cancel(4_096);
        let late = bench.add(start + 5_000 * MS);
        bench.check();
        let before = bench.fire_all(start + 5_000 * MS - 1);
        assert_eq!(before, 4_095 - cancelled);
        let due = bench.next(start + 5_000 * MS);
        assert!(matches!(due, Due::Fire { key, .. } if key == late), "{due:?}");
        assert_eq!(bench.next_wake(), Some(at(last)));
    }
}

/// An open slot of which few timers are left gives its memory back, and no wake-up is in vain because of its holes.
#[test]
#[cfg_attr(miri, ignore = "thousands of timers take Miri long")]
fn an_open_slot_that_empties_is_filed_again() {
    let (start, count) = (5 * width(5), 100_000);
    for keeps in [[1, count - 1], [1, 2], [count / 2, count - 1]] {
        let mut bench = Usual::new(0);
        (0..count as u64).for_each(|n| _ = bench.add(start + n * 1_000));
        assert!(matches!(bench.next(start), Due::Fire { key: 0, .. }));
        let full = bench.wheel.allocated_bytes();
        (1..count).filter(|key| !keeps.contains(key)).for_each(|key| bench.cancel(key));
        bench.check();
        come_out(&mut bench, &keeps);
        for second in 1..100_000 {
            assert!(matches!(bench.next(2 * start + (second << 30)), Due::Idle));
        }
        assert!(bench.wheel.allocated_bytes() < full / 10);
    }
}

/// A neighbour that was cancelled is not waited for.
#[test]
fn a_timer_whose_neighbour_was_cancelled_is_woken_at_its_deadline() {
    let mut bench = Usual::new(0);
    let deadline = (1 << 30) + 100;
    let (first, second) = (bench.add(1), bench.add(2));
    slack(&mut bench, first, deadline);
    slack(&mut bench, second, deadline + 900_000);
    assert_eq!(bench.next_wake(), Some(at(deadline + 900_000)));
    bench.cancel(second);
    assert_eq!(bench.next_wake(), Some(at(deadline)));
}

/// A slot of which a timer within reach was cancelled may hold others, that are due when it is too late to share a wake-up.
#[test]
fn a_slot_whose_first_timer_was_cancelled_puts_nothing_off() {
    let mut bench = Usual::new(0);
    let edge = 3 * width(4);
    // The first two lie in two slots, the others in the slot of the second or behind it.
    for deadlines in [[-(1 << 18), 1 << 18, 1 << 22], [-(1 << 18), 1 << 18, 1 << 28]] {
        let keys = deadlines.map(|from: i64| {
            let key = bench.add(1);
            slack(&mut bench, key, edge.checked_add_signed(from).expect("it is in range"));
            key
        });
        let wake = |from: i64| Some(at(edge.checked_add_signed(from).expect("it is in range")));
        assert_eq!(bench.next_wake(), wake(1 << 18));
        bench.cancel(keys[1]);
        assert_eq!(bench.next_wake(), wake(-(1 << 18)));
        keys.iter().skip(2).chain(&keys[..1]).for_each(|key| bench.cancel(*key));
    }
}

/// Gives a timer of a millisecond's slack another deadline.
fn slack(bench: &mut Usual, key: usize, deadline: u64) {
    bench.cancel(key);
    bench.owners.slack[key] = Slack::at_most_nanos(1 << 20);
    bench.file(key, deadline);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of timers take Miri long")]
fn an_open_slot_in_which_few_are_left_gives_its_memory_back() {
    const COUNT: u64 = 100_000;
    let start = 3 * width(8);
    let apart = width(8) / COUNT;
    // Whether the timers in front come out; and whether another slot cascades while they are cancelled.
    for (fires, cascades) in [(true, false), (false, false), (false, true)] {
        let mut bench = Usual::new(0);
        (0..COUNT).for_each(|n| _ = bench.add(start + n * apart));
        let mut left = if fires { COUNT / 4 } else { 1 } as usize;
        let mut now = start;
        if fires {
            (COUNT / 4..COUNT).filter(|key| key % 100 != 0).for_each(|key| bench.cancel(key as usize));
            now += COUNT / 4 * apart - 1;
        }
        assert_eq!(bench.fire_all(now), left);
        left = bench.wheel.len();
        if cascades {
            now += width(5);
            (0..3_000).for_each(|n| _ = bench.add(now + 1_000 * (3_000 - n)));
            now += 1_000;
            assert_eq!(bench.wheel.next_due(&mut bench.owners, at(now), &mut 1_000), Due::Exhausted);
            left += 3_000;
        }
        if !fires {
            (1..COUNT).filter(|key| key % 100 != 0).for_each(|key| bench.cancel(key as usize));
            left -= bench.wheel.len();
            assert_eq!(left, (COUNT - COUNT / 100) as usize);
        }
        // It takes some seconds until nobody can need the memory again.
        (0..2_000).for_each(|_| {
            now += 1 << 28;
            bench.fire_all(now);
        });
        let bytes = bench.wheel.allocated_bytes();
        assert!(bytes < 500_000, "{bytes} bytes for {} timers", bench.wheel.len());
    }
}
