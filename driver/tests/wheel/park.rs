//! Until when a park may last.

use mainspring_driver::Nanos;
use mainspring_driver::wheel::{Due, Rank, Slack};

use crate::bench::{Bench, Usual, at, width};

#[test]
fn a_park_ends_at_the_last_deadline_that_it_can_gather() {
    let slack = Slack::at_most_nanos(1 << 20);
    let mut bench = Bench::new(0);
    let file = |bench: &mut Bench, deadline: u64| {
        let key = bench.add_with(slack, deadline);
        bench.check();
        key
    };
    // A timer that is alone is woken at its deadline, however far away and whatever its slack.
    let first = 5 << 20;
    file(&mut bench, first);
    assert_eq!(bench.next_wake(), Some(at(first)));
    // Timers beyond the slack of the first change nothing, even if their slots begin within that slack.
    let beyond = file(&mut bench, first + (1 << 20) + width(0));
    file(&mut bench, 30 * width(3));
    file(&mut bench, Nanos::NEVER.get());
    assert_eq!(bench.next_wake(), Some(at(first)));
    // The park waits for timers within that slack, including the last of them; but not longer than the slack of the first lasts.
    for ahead in [width(0), 100, 1 << 19] {
        file(&mut bench, first + ahead);
        assert_eq!(bench.next_wake(), Some(at(first + ahead)));
    }
    bench.cancel(beyond);
    let edge = file(&mut bench, first + (1 << 20));
    assert_eq!(bench.next_wake(), Some(at(first + (1 << 20))));
    bench.cancel(edge);
    let precise = bench.add(first + 50);
    assert_eq!(bench.next_wake(), Some(at(first + 50)));
    assert_eq!(bench.advance(first + 50, 100).last(), Some(&precise));
}

#[test]
fn while_a_timer_is_due_its_slack_does_not_put_the_end_of_the_park_off() {
    let first = 2 * width(3);
    let mut bench = Bench::new(0);
    for ahead in [0, 0, 500] {
        bench.add_with(Slack::at_most_nanos(1 << 10), first + ahead);
    }
    assert_eq!(bench.next_wake(), Some(at(first + 500)));
    assert!(matches!(bench.next(first), Due::Fire { .. }));
    // The second is due at the time up to which the wheel has been processed.
    assert_eq!((bench.wheel.elapsed(), bench.next_wake()), (at(first), Some(at(first))));
}

#[test]
fn a_slot_that_begins_within_the_slack_and_is_due_beyond_it_puts_nothing_off() {
    let first = (8 << 20) - 100;
    let mut bench = Bench::new(0);
    bench.add_with(Slack::at_most_nanos(1 << 20), first);
    // Its slot begins at 8 << 20.
    bench.add((9 << 20) + 5);
    assert_eq!(bench.next_wake(), Some(at(first)));
}

#[test]
fn a_precise_timer_far_behind_others_shortens_the_park_to_those_that_were_looked_at() {
    // In a slot that is open, and in order: a hundred timers with slack, then perhaps one without.
    for precise in [false, true] {
        let start = 2 * width(3);
        let mut bench = Bench::new(0);
        for n in 0..=100 {
            let slack = if precise && n == 100 { Slack::ZERO } else { Slack::at_most_nanos(1 << 20) };
            bench.add_with(slack, start + 1_000 + n * 100);
        }
        assert_eq!(bench.advance(start + 500, 100), []);
        // The wheel looks at 64, and assumes that the next one may be precise if any timer is.
        let last = if precise { 64 } else { 100 };
        assert_eq!(bench.next_wake(), Some(at(start + 1_000 + last * 100)));
    }
}

#[test]
fn who_was_cancelled_in_an_open_slot_is_not_waited_for() {
    // In order and out of order; the slot is open, and no timer in it is due.
    for deadlines in [[1_000, 1_010, 1_020, 1_200, 1_300, 9_000], [1_010, 9_000, 1_000, 1_300, 1_020, 1_200]]
    {
        let start = 2 * width(3);
        let mut bench = Bench::new(0);
        let keys: Vec<usize> = Vec::from_iter(
            deadlines.map(|deadline| bench.add_with(Slack::at_most_nanos(256), start + deadline)),
        );
        let key_of =
            |deadline| keys[deadlines.iter().position(|other| *other == deadline).expect("it is one")];
        assert_eq!(bench.advance(start + 10, 100), []);
        assert_eq!((bench.wheel.occupancy().opened(), bench.next_wake()), (6, Some(at(start + 1_200))));
        // What counts is the first timer, and the last one within its slack; the first and those in between need not be
        // there any more.
        bench.cancel(key_of(1_010));
        bench.cancel(key_of(1_200));
        assert_eq!(bench.next_wake(), Some(at(start + 1_020)));
        assert_eq!(bench.wheel.earliest(), at(start + 1_000));
        bench.cancel(key_of(1_000));
        assert_eq!((bench.wheel.earliest(), bench.next_wake()), (at(start + 1_020), Some(at(start + 1_020))));
        assert_eq!(bench.advance(start + 1_020, 100), [key_of(1_020)]);
        assert_eq!(bench.next_wake(), Some(at(start + 1_300)));
        assert_eq!(bench.advance(start + 9_000, 100), [key_of(1_300), key_of(9_000)]);
    }
}

#[test]
fn who_waits_in_a_later_slot_is_not_asked_for_the_next_deadline() {
    let mut bench = Bench::of([10, 1 << 20]);
    assert_eq!(bench.wheel.next_deadline(&mut bench.owners), Some(at(10)));
    assert_eq!(bench.owners.asked, 1);
}

#[test]
fn of_a_crowd_with_one_deadline_one_timer_is_asked_for_the_next_deadline() {
    let crowd = (1 << 28) + (1 << 27);
    // It waits, and it is open. (If it is sorted, it was out of order.)
    for (now, first) in [(0, crowd), (1 << 28, crowd), (1 << 28, crowd + 1)] {
        let mut bench = Bench::of([first].into_iter().chain((0..2_000).map(|_| crowd)));
        assert!(bench.advance(now, 10_000).is_empty());
        assert_eq!(bench.wheel.next_deadline(&mut bench.owners), Some(at(crowd)));
        assert!(now == 0 && first > crowd || bench.owners.asked <= 2, "{} are asked", bench.owners.asked);
        // One that is due before it is the only one.
        bench.add(now + 100);
        bench.owners.asked = 0;
        assert_eq!(bench.wheel.next_deadline(&mut bench.owners), Some(at(now + 100)));
        assert_eq!(bench.owners.asked, 1);
    }
}

#[test]
fn a_reset_brings_the_new_slack() {
    // To a time within its slot, and to another slot.
    for to in [(5 << 20) - 100, 3 << 20] {
        let mut bench = Bench::new(0);
        let (key, precise) = (bench.add(Nanos::NEVER.get()), bench.add(6 << 20));
        bench.cancel(key);
        bench.owners.slack[key] = Slack::at_most_nanos(1 << 22);
        bench.file(key, 5 << 20);
        assert_eq!(bench.next_wake(), Some(at(6 << 20)));
        bench.owners.slack[key] = Slack::ZERO;
        bench.refile(key, to);
        bench.check();
        assert_eq!(bench.next_wake(), Some(at(to)), "it sleeps on as if it had not been reset");
        let due = bench.wheel.next_due(&mut bench.owners, at(to), &mut 100);
        assert_eq!(due, Due::Fire { key, deadline: at(to), rank: Rank::new(key as u64, Slack::ZERO) });
        assert_eq!(bench.advance(6 << 20, 100), [precise]);
    }
}

#[test]
fn a_park_gathers_crowds_too() {
    // Hundreds of timers within the slack of the first, in order and out of order, before and after their slot was opened.
    let slack = Slack::at_most_nanos(1 << 20);
    for reverse in [false, true] {
        for opened in [false, true] {
            let start = 5 << 22;
            // (A crowd that is out of order, and no longer short, is dealt before its time: that ends a park, too.)
            let mut bench = Usual::new(0);
            let mut file = |deadline: u64| {
                bench.add_with(slack, deadline);
            };
            (0..1_000).for_each(|n| file(start + 2_000 * if reverse { 999 - n } else { n }));
            if opened {
                file(start - 5);
                assert_eq!(bench.advance(start - 1, 100).len(), 1);
                bench.check();
            }
            let wake = bench.next_wake().map_or(0, Nanos::get);
            let end = start + slack.as_nanos();
            assert!((end - 2_000..=end).contains(&wake), "wakes {} after the first", wake - start);
            // A crowd with one deadline is woken at that deadline.
            let mut bench = Bench::new(0);
            for _ in 0..1_000 {
                bench.add_with(slack, start);
            }
            assert_eq!(bench.next_wake(), Some(at(start)));
        }
    }
}
