//! Tests of what a lane without work saves, and of how long those wait who have little to do.

use super::*;

/// The key of a task that has little to do.
const RARE: u32 = 100;

/// Keeps tasks ready in the lanes given, each poll of which takes the time given, for 20 ms. Now and then, after `pause`, a task with a
/// poll of a microsecond becomes ready in `lane`. Reads the clock as the runtime does. Returns how long this task has waited at most,
/// after the first 5 ms.
fn longest_wait(lane: Lane, pause: u64, busy: &[(Lane, u64)]) -> u64 {
    let mut lanes = Lanes::default();
    lanes.begin();
    busy.iter().zip(0..).for_each(|((lane, _), key)| lanes.push(*lane, key));
    let (mut now, mut read, mut due, mut queued, mut longest) = (0, 0, pause, false, 0);
    while now < 20_000_000 {
        if now >= due && !queued {
            lanes.push(lane, RARE);
            queued = true;
        }
        let mut read_now = false;
        match next(&mut lanes) {
            Some(RARE) => {
                longest = longest.max(if now < 5_000_000 { 0 } else { now - due });
                now += 1_000;
                (due, queued) = (now + pause, false);
            }
            Some(key) => {
                let (lane, cost) = busy[key as usize];
                now += cost;
                lanes.push(lane, key);
            }
            None if lanes.must_look() => lanes.looked(false),
            None => read_now = true,
        }
        if now - read >= 20_000 || read_now {
            lanes.charge(now - read, || 0);
            read = now;
        }
    }
    longest
}

#[test]
fn who_has_little_to_do_waits_for_a_round_of_those_who_never_rest() {
    let costs = [100, 700, 1_000, 5_000, 20_000];
    for lane in OF {
        for first in OF {
            for second in OF {
                for (n, cost) in costs.into_iter().enumerate() {
                    let busy = [(first, cost), (first, cost), (second, costs[4 - n])];
                    if [first, second].contains(&lane) {
                        continue;
                    }
                    for pause in [200_000, 1_000_000] {
                        let round: u64 = busy.iter().map(|(_, cost)| cost).sum();
                        let waited = longest_wait(lane, pause, &busy);
                        assert!(
                            waited <= 2 * round + 20_000,
                            "{waited} ns in {lane:?} beside {busy:?}, after {pause}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_lane_without_work_saves_two_milliseconds_and_no_more() {
    for busy in [200_000, 1_000_000, 50_000_000] {
        let mut lanes = Lanes::default();
        serve(&mut lanes, [None, None, None, Some(1_000)], busy / 1_000);
        // Both have more work than there is time for, from now on.
        (0..1_000).for_each(|_| lanes.push(Lane::Timer, 0));
        let before = std::iter::from_fn(|| {
            let key = loop {
                match next(&mut lanes) {
                    Some(key) => break key,
                    None => lanes.charge(0, || 0),
                }
            };
            lanes.charge(10_000, || 0);
            (key == 0).then_some(10_000)
        });
        let (before, expected) = (before.sum::<i64>(), CREDIT.min(busy as i64) + LEAD);
        assert!(before.abs_diff(expected) <= 30_000, "{before} ns instead of {expected}");
    }
}

#[test]
fn a_lane_that_has_saved_time_goes_first_as_soon_as_it_has_work() {
    for (saved, expected) in [(2 * LEAD, 1), (LEAD, 0), (0, 0)] {
        let mut lanes = Lanes::default();
        lanes.begin();
        lanes.used[Lane::Woken as usize] = -saved;
        lanes.push(Lane::Timer, 0);
        lanes.push(Lane::Woken, 1);
        assert_eq!(next(&mut lanes), Some(expected), "after {saved} ns");
    }
}

#[test]
fn what_was_saved_is_kept_while_timers_never_rest_and_forgotten_while_the_thread_does() {
    let mut lanes = Lanes::default();
    lanes.begin();
    for _ in 0..10 {
        lanes.push(Lane::Timer, 0);
        assert_eq!(next(&mut lanes), Some(0));
        lanes.charge(10_000, || 0);
    }
    // A look that finds nothing, after which a timer fires.
    lanes.looked(false);
    assert_eq!(lanes.used[Lane::Woken as usize], -100_000);
    assert!(!lanes.is_uneven(), "no lane has used more than one with work");
    lanes.forgive(60_000);
    assert_eq!(lanes.used, [0, -40_000, -40_000, -40_000]);
    lanes.forgive(60_000);
    assert_eq!(lanes.used, [0; LANES]);
}

#[test]
fn timers_do_not_wait_for_a_task_that_yielded_while_it_waits_for_others() {
    for (used, others, waits) in [
        (5 * LEAD, 4 * LEAD, false),
        (5 * LEAD + 1, 4 * LEAD, true),
        // They would have to wait for that long later.
        (CREDIT + LEAD, 3 * CREDIT, false),
        (CREDIT + LEAD + 1, 3 * CREDIT, true),
    ] {
        // All is relative to the least, also while the time of a poll is not known yet.
        for (least, polls) in [(0, 0), (3 * CREDIT, 1)] {
            let mut lanes = Lanes::default();
            lanes.begin();
            lanes.push(Lane::Exhausted, 2);
            lanes.push(Lane::Yielded, 3);
            lanes.polls[Lane::Yielded as usize] = polls;
            lanes.used = [least + used, 0, least + others, least - (polls * GUESS) as i64];
            lanes.balance(lanes.working());
            assert_eq!(lanes.must_wait(Lane::Timer), waits, "they have used {used} ns");
            assert!(!lanes.must_wait(Lane::Exhausted), "it goes before the task that yielded");
        }
    }
}

#[test]
fn timers_wait_if_the_lane_that_is_next_goes_before_no_task_that_yielded() {
    let mut lanes = Lanes::default();
    lanes.begin();
    lanes.push(Lane::Woken, 1);
    lanes.push(Lane::Exhausted, 2);
    lanes.used = [LEAD + 1, LEAD, 0, 0];
    lanes.balance(lanes.working());
    assert!(lanes.must_wait(Lane::Timer) && !lanes.must_wait(Lane::Woken));
}

#[test]
fn what_is_measured_belongs_to_one_lane_unless_all_is_cheap() {
    for (first, second) in
        [(Lane::Timer, Lane::Woken), (Lane::Timer, Lane::Exhausted), (Lane::Woken, Lane::Exhausted)]
    {
        for (costs, reads) in [([5_000, 100], true), ([100, 5_000], true), ([1_999, 100], false)] {
            for others in [0, 1] {
                let mut lanes = Lanes::default();
                lanes.begin();
                (lanes.cost[first as usize], lanes.cost[second as usize]) = (costs[0], costs[1]);
                lanes.push(first, 0);
                lanes.push(second, 1);
                // Whether or not another lane has work beside the one that is next.
                (0..others).for_each(|key| lanes.push(second, key + 2));
                assert_eq!(next(&mut lanes), Some(0));
                if reads {
                    assert_eq!(lanes.pop(), Next::Read, "{first:?}, then {second:?}");
                    lanes.charge(5_000, || 0);
                    assert_eq!(lanes.cost[second as usize], costs[1], "it was not measured");
                }
                assert_eq!(next(&mut lanes), Some(1));
            }
        }
    }
}

#[test]
fn polls_of_the_same_lane_are_measured_together() {
    // Tasks that yielded take turns with those that were ready before.
    for lane in [Lane::Timer, Lane::Woken, Lane::Exhausted] {
        for other in OF {
            let mut lanes = Lanes::default();
            lanes.begin();
            lanes.cost = [DEAR; LANES];
            (0..3).for_each(|_| lanes.push(lane, 0));
            if other != lane {
                lanes.push(other, 1);
            }
            let first = next(&mut lanes).unwrap();
            let of_one = if first == 0 { 2 } else { 0 };
            (0..of_one).for_each(|_| assert_eq!(next(&mut lanes), Some(0), "{lane:?} beside {other:?}"));
        }
    }
}

/// A task that computes and yields, and wakes another each time, whose lane has saved time.
#[test]
fn a_look_that_finds_nothing_is_not_repeated_at_once() {
    for (found, expected) in [(false, 0..=1), (true, 800..=1_000)] {
        let mut lanes = Lanes::default();
        lanes.begin();
        let mut looks = 0;
        lanes.push(Lane::Yielded, 3);
        for _ in 0..1_000 {
            while next(&mut lanes) != Some(3) {
                if lanes.must_look() {
                    looks += 1;
                    lanes.looked(found);
                }
                lanes.charge(100, || 0);
            }
            lanes.charge(1_000, || 0);
            lanes.push(Lane::Woken, 1);
            lanes.push(Lane::Yielded, 3);
        }
        assert!(expected.contains(&looks), "{looks} looks, if these find something: {found}");
    }
}
