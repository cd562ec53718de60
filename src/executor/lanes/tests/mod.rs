//! Tests of the lanes: shares of time, and order. What is charged to a lane, and when the clock is read, is in `charged`.

mod charged;
mod credit;

use super::time::*;
use super::*;
use std::mem;

/// The lanes, in their order.
const OF: [Lane; LANES] = [Lane::Timer, Lane::Woken, Lane::Exhausted, Lane::Yielded];

/// Keeps every lane that has a `cost` ready, and serves the lanes for `polls` polls, each of which takes its lane's cost.
/// Reads the clock as often as the runtime does. Returns the time that each lane got.
fn serve(lanes: &mut Lanes, cost: [Option<u64>; LANES], polls: usize) -> [u64; LANES] {
    lanes.begin();
    serve_with(lanes, cost, polls, |lanes| fit(lanes).min(61))
}

fn next(lanes: &mut Lanes) -> Option<u32> {
    match lanes.pop() {
        Next::Poll(key, _) => Some(key),
        Next::Read | Next::Nothing => None,
    }
}

/// How many polls are expected to fit into the time between two looks at the sockets.
fn fit(lanes: &Lanes) -> usize {
    lanes.fit(50_000).max(1) as usize
}

/// Like [`serve`], but reads the clock after the number of polls that `stretch` returns.
fn serve_with(
    lanes: &mut Lanes,
    cost: [Option<u64>; LANES],
    polls: usize,
    stretch: impl Fn(&Lanes) -> usize,
) -> [u64; LANES] {
    let mut got = [0; LANES];
    for lane in 0..LANES {
        if cost[lane].is_some() && lanes.queues[lane].is_empty() {
            lanes.push(OF[lane], lane as u32);
        }
    }
    let (mut left, mut elapsed) = (stretch(lanes), 0);
    for _ in 0..polls {
        let key = match next(lanes) {
            Some(key) => key,
            None => {
                lanes.charge(elapsed, || 0);
                (left, elapsed) = (stretch(lanes), 0);
                next(lanes).unwrap()
            }
        };
        if lanes.queues[key as usize].is_empty() {
            lanes.push(OF[key as usize], key);
        }
        let took = cost[key as usize].unwrap();
        got[key as usize] += took;
        elapsed += took;
        left -= 1;
        if left == 0 {
            lanes.charge(elapsed, || 0);
            (left, elapsed) = (stretch(lanes), 0);
        }
    }
    got
}

fn assert_equal(got: [u64; LANES], among: &[usize]) {
    let sum: u64 = got.iter().sum();
    for &lane in among {
        let share = got[lane] as f64 / sum as f64 * among.len() as f64;
        assert!((0.8..1.25).contains(&share), "lane {lane} got {share:.2} of an equal share: {got:?}");
    }
}

#[test]
fn lanes_with_endless_work_share_the_time_equally_whatever_a_poll_costs() {
    // Tasks that yielded may get less: see below.
    for cost in [
        [100, 100, 100, 100],
        [50_000, 300, 8_000, 20_000],
        [20, 300, 20_000, 20_000],
        [300_000, 10_000, 20, 300_000],
    ] {
        let got = serve(&mut Lanes::default(), cost.map(Some), 3_000_000);
        assert_equal(got, &[0, 1, 2, 3]);
    }
}

#[test]
fn who_yields_has_a_turn_after_those_that_were_woken_before_and_not_more_than_its_share() {
    for (others, each, own) in
        [(1, 10_000, 700), (1, 300, 20), (50, 5_000, 100), (20, 50_000, 1_000), (2_000, 200, 50)]
    {
        let mut lanes = Lanes::default();
        lanes.begin();
        (0..others).for_each(|key| lanes.push(Lane::Woken, key));
        lanes.push(Lane::Yielded, 9_999);
        // Each task is ready again as soon as it was polled. Counts the polls in a fifth of a second.
        let (mut polls, mut elapsed, mut read) = ([0, 0], 0, 0);
        while elapsed < 200_000_000 {
            let key = next(&mut lanes);
            if let Some(key) = key {
                let yields = key == 9_999;
                polls[usize::from(yields)] += 1;
                elapsed += if yields { own } else { each };
                lanes.push(if yields { Lane::Yielded } else { Lane::Woken }, key);
            }
            if key.is_none() || elapsed - read > 20_000 {
                lanes.charge(elapsed - read, || 0);
                read = elapsed;
            }
        }
        let turns = f64::from(polls[1]) / f64::from(polls[0] / others as i32);
        assert!((0.9..1.1).contains(&turns), "{turns} turns each time around {others}");
    }
}

#[test]
fn two_lanes_share_what_the_third_does_not_need() {
    let got = serve(&mut Lanes::default(), [None, Some(10_000), None, Some(70_000)], 200_000);
    assert_equal(got, &[1, 3]);
    let got = serve(&mut Lanes::default(), [Some(5_000), None, None, Some(70_000)], 200_000);
    assert_equal(got, &[0, 3]);
    let got = serve(&mut Lanes::default(), [None, Some(10_000), Some(700), None], 200_000);
    assert_equal(got, &[1, 2]);
    // A task that yields gives nothing up for tasks that exhaust their budgets or were woken by timers.
    let got = serve(&mut Lanes::default(), [None, None, Some(100_000), Some(700)], 200_000);
    assert_equal(got, &[2, 3]);
    let got = serve(&mut Lanes::default(), [Some(10_000), None, None, Some(700)], 200_000);
    assert_equal(got, &[0, 3]);
}

#[test]
fn without_a_clock_lanes_share_the_polls() {
    let mut lanes = Lanes::default();
    let got = serve_with(&mut lanes, [Some(1); LANES], 300_000, |_| usize::MAX);
    assert_equal(got, &[0, 1, 2, 3]);
}

#[test]
fn a_lane_with_little_to_do_is_served_at_once() {
    let mut lanes = Lanes::default();
    serve(&mut lanes, [None, Some(50_000), None, Some(50_000)], 10_000);
    for _ in 0..100 {
        lanes.push(Lane::Timer, 7);
        assert_eq!(next(&mut lanes), Some(7));
        lanes.charge(10_000, || 0);
        serve(&mut lanes, [None, Some(50_000), None, Some(50_000)], 20);
    }
}

#[test]
fn a_lane_that_was_without_work_has_an_equal_share_from_then_on() {
    let mut lanes = Lanes::default();
    serve(&mut lanes, [None, None, None, Some(50_000)], 10_000);
    let got = serve(&mut lanes, [Some(50_000), None, None, Some(50_000)], 1_000);
    assert_equal(got, &[0, 3]);
}

#[test]
fn the_wait_after_one_very_long_poll_is_bounded() {
    let mut lanes = Lanes::default();
    serve(&mut lanes, [Some(1_000), None, None, Some(1_000)], 100);
    while next(&mut lanes).is_some_and(|key| key != 3) {}
    lanes.push(Lane::Yielded, 3);
    lanes.push(Lane::Timer, 0);
    lanes.charge(3_600_000_000_000, || 0);
    assert!(lanes.used[3] <= MOST);
    let got = serve(&mut lanes, [Some(1_000), None, None, Some(1_000)], 50_000);
    assert!(got[3] > 4_000_000, "{got:?}");
}

#[test]
fn those_who_yield_go_after_all_who_were_ready_before_them() {
    // This also holds if the thread is kept from running now and then.
    for stop in [0, 8_000_000] {
        let mut lanes = Lanes::default();
        lanes.begin();
        // No lane has saved time.
        serve(&mut lanes, [None, Some(2_000), Some(2_000), Some(2_000)], 5_000);
        drain(&mut lanes, 1_000);
        (0..500).for_each(|key| lanes.push(Lane::Woken, key));
        (500..1_000).for_each(|key| lanes.push(Lane::Exhausted, key));
        (0..3).for_each(|key| lanes.push(Lane::Yielded, 5_000 + key));
        (1_000..2_000).for_each(|key| lanes.push(Lane::Exhausted, key));
        let mut order = Vec::new();
        while !lanes.is_empty() {
            match next(&mut lanes) {
                Some(key) => order.push(key),
                None => lanes.charge(1_000, || 0),
            }
            if order.len() % 10 == 0 {
                lanes.charge(if order.len() % 500 == 0 { stop } else { 10_000 }, || 0);
            }
        }
        let yielded = order.iter().position(|key| *key >= 5_000).unwrap();
        assert_eq!(yielded, 1_000, "a task that yielded went on after {yielded} of 1,000");
        assert_eq!(order.len(), 2_003);
    }
}

/// Serves until nothing is ready; each poll takes `each` nanoseconds and is measured. Returns the order of the keys.
fn drain(lanes: &mut Lanes, each: u64) -> Vec<u32> {
    let mut order = Vec::new();
    while !lanes.is_empty() {
        if let Some(key) = next(lanes) {
            order.push(key);
            lanes.charge(each, || 0);
        } else {
            lanes.charge(0, || 0);
        }
    }
    order
}

#[test]
fn who_yielded_waits_for_ten_milliseconds_of_others_and_for_a_hundredth_of_that_of_timers() {
    for (lane, tasks, wait) in [
        (Lane::Woken, 400, 400),
        (Lane::Exhausted, 400, 400),
        (Lane::Woken, 2_000, 1_000),
        (Lane::Exhausted, 2_000, 1_000),
        (Lane::Timer, 2_000, 10),
    ] {
        let mut lanes = Lanes::default();
        lanes.begin();
        (0..tasks).for_each(|key| lanes.push(lane, key));
        lanes.push(Lane::Yielded, 9_999);
        let order = drain(&mut lanes, 10_000);
        let waited = order.iter().position(|key| *key == 9_999).unwrap();
        assert!(waited.abs_diff(wait) <= (wait / 20).max(1), "it waited for {waited} of {tasks} in {lane:?}");
        assert_eq!(order.len(), tasks as usize + 1);
    }
}

#[test]
fn who_yielded_goes_before_those_who_exhaust_their_budget_later() {
    let mut lanes = Lanes::default();
    lanes.begin();
    (0..5).for_each(|key| lanes.push(Lane::Exhausted, key));
    (100..103).for_each(|key| lanes.push(Lane::Yielded, key));
    (5..10).for_each(|key| lanes.push(Lane::Exhausted, key));
    // These yielded while others waited for their turn, so they wait for another turn.
    (103..105).for_each(|key| lanes.push(Lane::Yielded, key));
    (10..12).for_each(|key| lanes.push(Lane::Exhausted, key));
    assert_eq!(drain(&mut lanes, 100), [0, 1, 2, 3, 4, 100, 5, 6, 7, 8, 9, 10, 11, 101, 102, 103, 104]);
}

#[test]
fn a_task_that_is_taken_out_is_waited_for_no_more() {
    for (lane, first) in [(Lane::Woken, 0), (Lane::Exhausted, 0), (Lane::Yielded, 100)] {
        let mut lanes = Lanes::default();
        lanes.begin();
        (0..3).for_each(|key| lanes.push(if lane == Lane::Yielded { Lane::Exhausted } else { lane }, key));
        lanes.push(Lane::Yielded, 100);
        lanes.push(Lane::Exhausted, 7);
        lanes.remove(first);
        lanes.remove(55);
        assert_eq!(lanes.len(), 4);
        let expected: &[u32] = if lane == Lane::Yielded { &[0, 1, 2, 7] } else { &[1, 2, 100, 7] };
        assert_eq!(drain(&mut lanes, 100), expected, "out of {lane:?}");
        assert_eq!((lanes.batch, lanes.held), (0, 0));
    }
    let mut lanes = Lanes::default();
    lanes.push(Lane::Timer, 3);
    lanes.remove(3);
    assert!(lanes.is_empty() && !lanes.is_ready(Lane::Timer));
}

#[test]
fn what_is_ready_is_told() {
    let mut lanes = Lanes::default();
    assert_eq!((lanes.is_empty(), lanes.len(), lanes.all(7)), (true, 0, true));
    assert_eq!(lanes.pop(), Next::Nothing);
    for (n, lane) in OF.into_iter().enumerate() {
        assert!(!lanes.is_ready(lane));
        lanes.push(lane, 7);
        assert_eq!(OF.map(|lane| lanes.is_ready(lane)), [0, 1, 2, 3].map(|lane| lane <= n));
        assert!(lanes.len() == n + 1 && lanes.all(7) && !lanes.all(8));
    }
    lanes.push(Lane::Woken, 8);
    assert!(!lanes.all(7) && !lanes.all(8));
}

#[test]
fn memory_of_a_burst_is_given_back_as_far_as_is_told() {
    let mut lanes = Lanes::default();
    (0..1_000).for_each(|key| lanes.push(Lane::Woken, key));
    (0..1_000).for_each(|key| lanes.push(Lane::Timer, key));
    assert!(lanes.capacity() >= 2_000);
    while next(&mut lanes).is_some() {}
    lanes.trim(|capacity| capacity);
    assert!(lanes.capacity() >= 2_000);
    lanes.trim(|capacity| capacity / 8);
    assert!((200..2_000).contains(&lanes.capacity()), "{}", lanes.capacity());
}

#[test]
fn each_lane_is_first_in_first_out_and_a_single_one_is_so_for_all() {
    let of = |key: u32| [Lane::Yielded, Lane::Timer, Lane::Woken][key as usize % 3];
    for single in [false, true] {
        let mut lanes = Lanes::default();
        if single {
            lanes.make_single();
        }
        (0..9).for_each(|key| lanes.push(of(key), key));
        assert_eq!(lanes.len(), 9);
        let order: Vec<_> = std::iter::from_fn(|| next(&mut lanes)).collect();
        let expected = if single { [0, 1, 2, 3, 4, 5, 6, 7, 8] } else { [1, 4, 7, 2, 5, 8, 0, 3, 6] };
        assert_eq!(order, expected);
        assert!(lanes.is_empty());
    }
}

#[test]
fn a_lane_has_work_if_tasks_are_in_it_or_wait_for_it_or_may_be_found() {
    let mut lanes = Lanes::default();
    for (ready, more, unseen) in (0..8).map(|n| (n & 1 > 0, n & 2 > 0, n & 4 > 0)) {
        lanes.set_more(more);
        lanes.unseen = if unseen { WOKEN } else { 0 };
        lanes.ready = if ready { WOKEN } else { 0 };
        assert_eq!(lanes.working(), if ready || more || unseen { WOKEN } else { 0 });
    }
}

#[test]
fn turns_of_woken_tasks_are_counted_beside_others_and_without_the_clock() {
    for counting in [true, false] {
        let mut lanes = Lanes::default();
        if !counting {
            lanes.begin();
        }
        (0..3).for_each(|key| lanes.push(Lane::Woken, key));
        (3..5).for_each(|key| lanes.push(Lane::Timer, key));
        lanes.push(Lane::Yielded, 5);
        assert_eq!((0..6).filter_map(|_| next(&mut lanes)).count(), 6);
        assert_eq!((lanes.turns_of_woken(), lanes.is_counting()), (3, counting));
    }
}
