//! Slots that are no longer short, of which most timers were cancelled, in every order.

use mainspring_driver::Nanos;
use mainspring_driver::wheel::Due;

use crate::bench::{Usual, at, width};

/// A small generator of random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

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
/// wakes up in vain a few times at the most.
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
                live.push(bench.add(start + 1 + random.below(apart as usize * count) as u64));
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
    use mainspring_driver::wheel::Slack;
    let mut bench = Usual::new(0);
    let slack = |bench: &mut Usual, key: usize, deadline| {
        bench.cancel(key);
        bench.owners.slack[key] = Slack::at_most_nanos(1 << 20);
        bench.file(key, deadline);
    };
    let deadline = (1 << 30) + 100;
    let (first, second) = (bench.add(1), bench.add(2));
    slack(&mut bench, first, deadline);
    slack(&mut bench, second, deadline + 900_000);
    assert_eq!(bench.next_wake(), Some(at(deadline + 900_000)));
    bench.cancel(second);
    assert_eq!(bench.next_wake(), Some(at(deadline)));
}
