//! Tests of what is charged to a lane, of the estimates, and of when the clock is read.

use super::*;

/// Charges a lane with so much time, in pieces so short that none is forgiven.
fn charge_lane(lanes: &mut Lanes, lane: Lane, elapsed: u64) {
    (0..elapsed / SUSPECT).for_each(|_| lanes.charge_lane(lane, SUSPECT));
    lanes.charge_lane(lane, elapsed % SUSPECT);
}

#[test]
fn a_lane_that_used_more_than_its_share_beside_its_polls_must_wait_while_others_have_work() {
    let mut lanes = Lanes::default();
    lanes.begin();
    lanes.push(Lane::Woken, 1);
    charge_lane(&mut lanes, Lane::Timer, LEAD as u64);
    assert!(!lanes.must_wait(Lane::Timer), "as much as it may be ahead");
    lanes.charge_lane(Lane::Timer, 1);
    assert!(lanes.must_wait(Lane::Timer) && !lanes.must_wait(Lane::Woken));
    lanes.push(Lane::Timer, 0);
    assert_eq!(next(&mut lanes), Some(1), "the lane that is ahead was served");
    lanes.charge(1_000, || 0);
    // No other lane has work.
    lanes.looked(false);
    assert_eq!(next(&mut lanes), Some(0));
    assert!(!lanes.must_wait(Lane::Timer));
    let mut lanes = Lanes::default();
    lanes.make_single();
    lanes.push(Lane::Woken, 1);
    charge_lane(&mut lanes, Lane::Timer, 10 * LEAD as u64);
    assert!(!lanes.must_wait(Lane::Timer), "there is one lane only");
}

/// So it may, if time was paused, advanced and resumed within one poll.
#[test]
fn a_clock_that_jumps_by_centuries_makes_a_lane_wait_as_long_as_any_may() {
    for elapsed in [i64::MAX as u64, i64::MAX as u64 + 1 + MOST as u64 + 1_000, u64::MAX] {
        let mut lanes = Lanes::default();
        lanes.begin();
        lanes.push(Lane::Woken, 1);
        lanes.push(Lane::Yielded, 3);
        lanes.used = [0, 1_000_000, 0, 1_500_000];
        assert_eq!(next(&mut lanes), Some(1));
        lanes.push(Lane::Woken, 1);
        lanes.charge(elapsed, || 0);
        assert!(lanes.must_wait(Lane::Woken) && !lanes.must_wait(Lane::Yielded));
        assert_eq!(lanes.used, [-1_500_000, MOST, -1_500_000, 0]);
    }
}

#[test]
fn lanes_that_all_wait_are_weighed_anew_among_themselves() {
    let mut lanes = Lanes::default();
    lanes.begin();
    lanes.push(Lane::Timer, 0);
    lanes.push(Lane::Woken, 1);
    lanes.push(Lane::Exhausted, 2);
    charge_lane(&mut lanes, Lane::Woken, 3_000_000);
    charge_lane(&mut lanes, Lane::Exhausted, 6_000_000);
    assert!(lanes.must_wait(Lane::Woken) && lanes.must_wait(Lane::Exhausted));
    // The lane that they waited for is empty now; of the two, the later lane is still too far ahead.
    assert_eq!(next(&mut lanes), Some(0));
    lanes.charge(1_000, || 0);
    assert_eq!(next(&mut lanes), Some(1));
}

#[test]
fn the_clock_is_read_when_a_lane_has_got_ahead_and_only_then() {
    let mut lanes = Lanes::default();
    lanes.begin();
    for (lane, key) in [(Lane::Woken, 1), (Lane::Yielded, 3)] {
        lanes.push(lane, key);
        lanes.push(lane, key);
    }
    // Both have used much time, and neither more than the other.
    lanes.used = [0, 2 * LEAD, 0, 2 * LEAD];
    assert_eq!([next(&mut lanes), next(&mut lanes)], [Some(1), Some(1)]);
    // Now one lane may well have used more.
    lanes.usual[Lane::Woken as usize] = 2 * LEAD as u64;
    lanes.push(Lane::Woken, 1);
    lanes.push(Lane::Woken, 1);
    assert_eq!(next(&mut lanes), Some(1));
    assert_eq!(lanes.pop(), Next::Read);
    lanes.charge(3_000, || 0);
    assert_eq!(next(&mut lanes), Some(1), "it had not");
}

#[test]
fn without_a_clock_a_lane_waits_for_as_many_polls_as_it_was_ahead() {
    let mut lanes = Lanes::default();
    lanes.push(Lane::Yielded, 3);
    charge_lane(&mut lanes, Lane::Timer, LEAD as u64 + 1);
    lanes.push(Lane::Timer, 0);
    let mut order = Vec::new();
    while order.len() < 3 * LEAD as usize / GUESS as usize {
        let Next::Poll(key, _) = lanes.pop() else { panic!("there is no clock") };
        lanes.push(if key == 0 { Lane::Timer } else { Lane::Yielded }, key);
        order.push(key);
    }
    // The lanes are balanced when one has used more than the lead.
    let waited = order.iter().position(|key| *key == 0);
    assert_eq!(waited, Some(LEAD as usize / GUESS as usize + 1));
}

#[test]
fn without_a_clock_a_lane_catches_up_also_if_the_one_that_is_ahead_has_no_work() {
    let mut lanes = Lanes::default();
    lanes.push(Lane::Yielded, 3);
    charge_lane(&mut lanes, Lane::Timer, LEAD as u64 + 5 * GUESS);
    for _ in 0..5 {
        assert!(lanes.must_wait(Lane::Timer));
        assert_eq!(next(&mut lanes), Some(3));
        lanes.push(Lane::Yielded, 3);
    }
    assert!(!lanes.must_wait(Lane::Timer));
}

#[test]
fn a_poll_far_longer_than_usual_is_charged_little_the_first_time() {
    let mut lanes = Lanes::default();
    lanes.begin();
    let mut poll = |elapsed| {
        (lanes.used, lanes.ahead) = ([0; LANES], 0);
        lanes.push(Lane::Woken, 1);
        lanes.push(Lane::Yielded, 3);
        assert_eq!(next(&mut lanes), Some(1));
        lanes.charge(elapsed, || 0);
        lanes.remove(3);
        (lanes.used[Lane::Woken as usize], lanes.usual[Lane::Woken as usize], lanes.next_cost())
    };
    // The usual cost doubles until it reaches the measured cost.
    for (n, charged) in
        [100_000, 100_000, 100_000, 100_000, 100_000, 128_000, 256_000].into_iter().enumerate()
    {
        assert_eq!(poll(500_000), (charged, (2_000 << n).min(500_000), GUESS));
    }
    assert_eq!(poll(500_000).0, 500_000);
    // And it shrinks by an eighth.
    assert_eq!(poll(50_000), (50_000, 224_000, GUESS));
    // The same for several polls: they are charged what they took, up to four times the usual cost of that number of polls.
    for (elapsed, charged) in [(600_000, 600_000), (1_200_000, 800_000)] {
        let mut lanes = Lanes { counting: false, usual: [20_000; LANES], ..Lanes::default() };
        (0..11).for_each(|key| lanes.push(Lane::Woken, key));
        lanes.push(Lane::Yielded, 99);
        (0..10).for_each(|key| assert_eq!(next(&mut lanes), Some(key)));
        lanes.charge(elapsed, || 0);
        assert_eq!(lanes.used[Lane::Woken as usize], charged);
    }
}

#[test]
fn long_polls_that_alternate_with_short_ones_are_charged_in_full() {
    let mut lanes = Lanes::default();
    lanes.begin();
    let mut charged = 0;
    for n in 0..200 {
        (lanes.used, lanes.ahead) = ([0; LANES], 0);
        lanes.push(Lane::Woken, 1);
        lanes.push(Lane::Yielded, 3);
        assert_eq!(next(&mut lanes), Some(1));
        lanes.charge(if n % 2 == 0 { 1_000 } else { 1_000_000 }, || 0);
        lanes.remove(3);
        charged += lanes.used[Lane::Woken as usize];
    }
    // Nearly all of the hundred milliseconds: it takes some polls to learn what is usual.
    assert!(charged > 85_000_000, "{charged} ns");
}

#[test]
fn a_lane_in_which_few_polls_are_long_has_no_more_than_its_share() {
    for one_in in [1, 2, 5, 7, 10, 20, 50] {
        let mut lanes = Lanes::default();
        lanes.begin();
        for (lane, key) in [(Lane::Woken, 1), (Lane::Exhausted, 2)] {
            lanes.push(lane, key);
        }
        let (mut polls, mut read, mut took) = (0, 0, [0; LANES]);
        while took.iter().sum::<u64>() < 2_000_000_000 {
            let Some(key) = next(&mut lanes) else {
                lanes.charge(mem::take(&mut read), || 0);
                continue;
            };
            let (lane, elapsed) = if key == 2 {
                (Lane::Exhausted, 100_000)
            } else {
                polls += 1;
                (Lane::Woken, if polls % one_in == 0 { 5_000_000 } else { 1_000 })
            };
            took[lane as usize] += elapsed;
            read += elapsed;
            lanes.push(lane, key);
            if read >= 50_000 {
                lanes.charge(mem::take(&mut read), || 0);
            }
        }
        let share = took[Lane::Exhausted as usize] as f64 / took.iter().sum::<u64>() as f64;
        assert!((0.45..0.55).contains(&share), "one in {one_in} is long: {share}");
    }
}

/// Another program has two thirds of the processor. It comes on whenever the thread has run for three milliseconds, and always while
/// tasks of one lane are polled, because they make system calls.
#[test]
fn what_other_programs_take_from_the_polls_of_one_lane_does_not_count_against_it() {
    let mut lanes = Lanes::default();
    lanes.begin();
    for (lane, key) in [(Lane::Exhausted, 2), (Lane::Yielded, 3)] {
        lanes.push(lane, key);
    }
    let (mut own, mut ran) = ([0; LANES], 0);
    while own.iter().sum::<u64>() < 1_000_000_000 {
        let Some(key) = next(&mut lanes) else {
            lanes.charge(0, || 0);
            continue;
        };
        let (lane, took) = if key == 2 { (Lane::Exhausted, 100_000) } else { (Lane::Yielded, 20_000) };
        own[lane as usize] += took;
        ran += took;
        let waited = if ran >= 3_000_000 && lane == Lane::Yielded { 2 * mem::take(&mut ran) } else { 0 };
        lanes.push(lane, key);
        lanes.charge(took + waited, || waited);
    }
    assert_equal(own, &[Lane::Exhausted as usize, Lane::Yielded as usize]);
}

#[test]
fn the_system_is_asked_only_about_what_took_longer_than_usual() {
    let mut lanes = Lanes::default();
    lanes.begin();
    let mut charge = |elapsed, waited: fn() -> u64| {
        lanes.push(Lane::Woken, 1);
        (lanes.used, lanes.ahead, lanes.usual) = ([0; LANES], 0, [GUESS, 50_000, GUESS, GUESS]);
        assert_eq!(next(&mut lanes), Some(1));
        lanes.push(Lane::Yielded, 3);
        lanes.charge(elapsed, waited);
        lanes.remove(3);
        lanes.used[Lane::Woken as usize]
    };
    assert_eq!(charge(8_000_000, || 7_900_000), 200_000);
    // The usual time stays, whatever the thread has waited since the system was last asked.
    assert_eq!(charge(8_000_000, || u64::MAX), 200_000);
    assert_eq!(charge(8_000_000, || 7_700_000), 200_000, "some of the rest is forgiven");
    assert_eq!(charge(200_000, || panic!("four times the usual time")), 200_000);
    assert_eq!(charge(ASKED, || panic!("it is not long")), 200_000, "the rest is forgiven");
}

#[test]
fn a_sixteenth_of_the_time_may_be_that_of_another_program() {
    let mut lanes = Lanes::default();
    lanes.begin();
    let mut charge = |elapsed| {
        lanes.push(Lane::Woken, 1);
        lanes.used = [0; LANES];
        (lanes.ahead, lanes.usual) = (0, [GUESS; LANES]);
        assert_eq!(next(&mut lanes), Some(1));
        lanes.push(Lane::Yielded, 3);
        lanes.charge(elapsed, || 0);
        lanes.remove(3);
        lanes.used[Lane::Woken as usize]
    };
    assert_eq!(charge(15_000_000), 100_000, "once it is forgiven");
    assert_eq!(charge(15_000_000), 15_000_000 - (20_000_000 - 14_900_000 + 15_000_000 / 16));
    // What is expected is charged in full, and saves something up for what is not.
    for _ in 0..2_000 {
        assert_eq!(charge(100_000), 100_000);
    }
    assert_eq!(charge(15_000_000), 15_000_000 - (2_000 * 100_000 / 16 + 15_000_000 / 16));
    assert_eq!(lanes.spare, 15_000_000 / 16);
}

#[test]
fn what_is_used_beside_polls_is_never_much_at_a_time() {
    for spare in [MOST as u64, 0] {
        let mut lanes = Lanes { spare, ..Lanes::default() };
        lanes.begin();
        lanes.push(Lane::Woken, 1);
        lanes.charge_lane(Lane::Timer, 15_000_000);
        let charged = if spare > 0 { SUSPECT } else { BESIDE };
        let waits = charged as i64 > LEAD;
        assert_eq!((lanes.used, lanes.must_wait(Lane::Timer)), ([charged as i64, 0, 0, 0], waits));
    }
}

#[test]
fn the_next_poll_may_cost_what_the_lane_that_is_next_has_cost() {
    let mut lanes = Lanes::default();
    lanes.begin();
    assert_eq!(lanes.next_cost(), GUESS);
    for (lane, elapsed) in [(Lane::Woken, 9_000), (Lane::Yielded, 4_000), (Lane::Timer, 500)] {
        lanes.push(lane, 1);
        assert_eq!(next(&mut lanes), Some(1));
        lanes.charge(elapsed, || 0);
    }
    assert_eq!(lanes.next_cost(), GUESS);
    // It shrinks by a quarter of the excess.
    lanes.push(Lane::Yielded, 3);
    assert_eq!((lanes.next_cost(), lanes.most_cost()), (4_000, 4_000));
    lanes.push(Lane::Timer, 1);
    assert_eq!((lanes.next_cost(), lanes.most_cost()), (875, 4_000));
    lanes.push(Lane::Woken, 1);
    assert_eq!((lanes.next_cost(), lanes.most_cost()), (875, 9_000));
    // The timers' lane is too far ahead, then all are.
    lanes.ahead = 1 << Lane::Timer as u8;
    assert_eq!((lanes.next_cost(), lanes.most_cost()), (9_000, 9_000));
    lanes.ahead = lanes.ready;
    assert_eq!(lanes.next_cost(), 9_000);
    // While polls are counted, nothing is measured.
    lanes.count();
    assert_eq!(lanes.next_cost(), GUESS);
}

#[test]
fn polls_that_are_only_counted_are_not_measured_later() {
    let mut lanes = Lanes::default();
    lanes.begin();
    for counted in [false, true] {
        if counted {
            lanes.count();
        }
        lanes.push(Lane::Woken, 1);
        assert_eq!(next(&mut lanes), Some(1));
        assert_eq!(lanes.polls, [0, u64::from(!counted), 0, 0]);
    }
    assert_eq!(lanes.turns_of_woken(), 2);
}

#[test]
fn as_many_polls_fit_as_the_lane_that_is_next_has_tasks_whatever_others_cost() {
    let mut lanes = Lanes::default();
    lanes.begin();
    for (lane, elapsed) in [(Lane::Yielded, 5_000), (Lane::Woken, 100)] {
        lanes.push(lane, 1);
        assert_eq!(next(&mut lanes), Some(1));
        lanes.charge(elapsed, || 0);
    }
    // What those that were woken cost shrinks to 100 by and by; now it is 775.
    lanes.push(Lane::Yielded, 1);
    assert_eq!(lanes.fit(50_000), 10);
    for (woken, fits) in [(10, 10), (11, 11), (64, 64), (65, 64)] {
        (lanes.waiting(Lane::Woken)..woken).for_each(|key| lanes.push(Lane::Woken, key as u32));
        assert_eq!(lanes.fit(50_000), fits, "{woken} were woken");
    }
    // They have to wait for the one that yielded; then all have to.
    lanes.ahead = 1 << Lane::Woken as u8;
    assert_eq!(lanes.fit(50_000), 10);
    lanes.ahead = lanes.ready;
    assert_eq!(lanes.fit(50_000), 10);
}

#[test]
fn what_came_before_the_beginning_is_charged_to_nobody() {
    let mut lanes = Lanes::default();
    lanes.begin();
    lanes.push(Lane::Woken, 1);
    lanes.push(Lane::Yielded, 3);
    assert_eq!(next(&mut lanes), Some(1));
    lanes.begin();
    lanes.charge(90_000, || 0);
    assert_eq!((lanes.used, lanes.next_cost()), ([0; LANES], GUESS));
    // Two polls of one lane, and the time of both together.
    lanes.push(Lane::Woken, 1);
    lanes.push(Lane::Woken, 1);
    assert_eq!((next(&mut lanes), next(&mut lanes)), (Some(1), Some(1)));
    lanes.charge(6_000, || 0);
    assert_eq!((lanes.used, lanes.cost[Lane::Woken as usize]), ([0, 6_000, 0, 0], 3_000));
}

#[test]
fn what_was_used_counts_until_a_look_after_which_nothing_is_ready() {
    let mut lanes = Lanes::default();
    lanes.push(Lane::Woken, 1);
    charge_lane(&mut lanes, Lane::Timer, 2 * LEAD as u64);
    lanes.looked(false);
    lanes.begin();
    assert!(lanes.must_wait(Lane::Timer), "it was forgotten though another lane has work");
    assert_eq!(next(&mut lanes), Some(1));
    lanes.looked(false);
    lanes.begin();
    lanes.push(Lane::Woken, 1);
    assert!(!lanes.must_wait(Lane::Timer));
    assert_eq!(lanes.used, [0; LANES]);
}

#[test]
fn lanes_that_were_polled_before_all_is_at_rest_catch_up_with_a_lane_that_must_wait() {
    let mut lanes = Lanes::default();
    lanes.begin();
    lanes.push(Lane::Woken, 1);
    charge_lane(&mut lanes, Lane::Timer, LEAD as u64 + 2_000);
    for left in [1_000, 0] {
        assert!(lanes.must_wait(Lane::Timer));
        assert_eq!(next(&mut lanes), Some(1));
        lanes.charge(1_000, || 0);
        assert_eq!(lanes.used, [LEAD + left, 0, left - 2_000, left - 2_000], "two lanes save");
        lanes.push(Lane::Woken, 1);
        lanes.begin();
    }
    assert!(!lanes.must_wait(Lane::Timer));
}

#[test]
fn a_lane_that_is_ahead_waits_for_a_look_when_the_lane_of_what_sockets_wake_becomes_empty() {
    for found in [true, false] {
        let mut lanes = Lanes::default();
        lanes.begin();
        lanes.push(Lane::Woken, 1);
        lanes.push(Lane::Timer, 0);
        charge_lane(&mut lanes, Lane::Timer, 2 * LEAD as u64);
        assert!(!lanes.must_look());
        assert_eq!(next(&mut lanes), Some(1));
        lanes.charge(1_000, || 0);
        assert_eq!(lanes.pop(), Next::Nothing);
        assert!(lanes.must_look() && lanes.must_wait(Lane::Timer));
        lanes.looked(found);
        assert!(!lanes.must_look());
        if found {
            lanes.push(Lane::Woken, 2);
            lanes.begin();
            assert_eq!(
                [next(&mut lanes), next(&mut lanes)],
                [Some(2), None],
                "what had been used was forgotten"
            );
        } else {
            lanes.begin();
            assert_eq!(next(&mut lanes), Some(0));
        }
    }
}

#[test]
fn estimates_grow_at_once_and_shrink_slowly() {
    let mut lanes = Lanes::default();
    lanes.begin();
    lanes.push(Lane::Woken, 0);
    assert_eq!(fit(&lanes), 50);
    lanes.pop();
    lanes.push(Lane::Woken, 1);
    lanes.charge(25_000, || 0);
    assert_eq!(fit(&lanes), 2);
    serve(&mut lanes, [None, Some(20), None, None], 10);
    assert!(fit(&lanes) < 100);
    serve(&mut lanes, [None, Some(20), None, None], 20_000);
    assert!(fit(&lanes) > 500);
    // A reading after no poll changes nothing.
    lanes.begin();
    let before = fit(&lanes);
    lanes.charge(1_000_000_000, || 0);
    assert_eq!(fit(&lanes), before);
}
