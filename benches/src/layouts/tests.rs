//! Tests each layout against a plain list: which timers have fired at each moment, in which order, and which
//! never fire.

use super::*;
use crate::random::Random;

/// Rounds a deadline up to the layout's tick.
fn up<L: Layout>(deadline: u64) -> u64 {
    deadline.div_ceil(L::TICK) * L::TICK
}

/// Returns how far ahead a deadline lies: in every order of magnitude, and often at the edge of a slot of one
/// of the layouts.
fn ahead(random: &mut Random) -> u64 {
    let edges = [1 << 16, 1 << 22, 1 << 28, 1 << 34, MS, 10 * MS, 64 * MS, 256 * MS, 300 * MS, 4096 * MS];
    let far = [1 << 40, 60_000 * MS, 4096 * 32 * MS, 256 * 64 * 10 * MS, 64 * 64 * 64 * MS];
    match random.below(8) {
        0 => 1 + random.below(MS),
        1 => 1 + random.below(1000 * MS),
        2 => 1 + random.below(200_000 * MS),
        3 => far[random.below(5) as usize] + random.below(3) - 1,
        _ => edges[random.below(10) as usize] * (1 + random.below(5)) + random.below(3) - 1,
    }
}

/// Returns the length of the next step: mostly short, sometimes past all deadlines.
fn step(random: &mut Random) -> u64 {
    match random.below(16) {
        0 => 0,
        1..8 => random.below(3 * MS),
        8..12 => MS,
        12..15 => random.below(5000) * MS,
        _ if random.below(16) == 0 => random.below(3_000_000 * MS),
        _ => ahead(random),
    }
}

/// Inserts, cancels and advances at random, next to a list of the armed timers.
fn agrees_with_a_list<L: Layout>() {
    const KEYS: u32 = 200;
    // A layout that advances tick by tick is slow on the long jumps.
    let seeds = if L::TELLS_NEXT { 40 } else { 4 };
    for seed in 1..=seeds {
        let mut random = Random::new(seed);
        let (mut layout, mut timers) = (L::new(), Timers::new(KEYS));
        let mut armed: Vec<Option<(u64, u64)>> = vec![None; KEYS as usize];
        let (mut now, mut number) = (0, 0);
        for _ in 0..1500 {
            match random.below(8) {
                0..4 => {
                    let key = random.below(u64::from(KEYS)) as u32;
                    if armed[key as usize].take().is_some() {
                        layout.cancel(&mut timers, key);
                    }
                    // Reaches the edges of slots from any time, and edges of time as the layout sees it.
                    let origin = if random.below(2) == 0 { now } else { now & !0xFFFF };
                    let deadline = (origin + ahead(&mut random)).max(now + 1);
                    layout.insert(&mut timers, deadline, key);
                    number += 1;
                    armed[key as usize] = Some((deadline, number));
                }
                4 => {
                    let key = random.below(u64::from(KEYS)) as u32;
                    if armed[key as usize].take().is_some() {
                        layout.cancel(&mut timers, key);
                    }
                }
                _ => {
                    now += step(&mut random);
                    let mut fired = vec![];
                    layout.advance(&mut timers, now, &mut |key, timer| {
                        timer.fire();
                        fired.push(key);
                    });
                    let due = |key: &u32| armed[*key as usize].is_some_and(|(when, _)| up::<L>(when) <= now);
                    let mut expected: Vec<u32> = (0..KEYS).filter(due).collect();
                    expected.sort_by_key(|&key| armed[key as usize]);
                    if !L::ORDERED {
                        expected.sort_unstable();
                        fired.sort_unstable();
                    }
                    assert_eq!(fired, expected, "{} at {now}, seed {seed}", L::NAME);
                    expected.iter().for_each(|&key| armed[key as usize] = None);
                }
            }
            tells_next_wake(&layout, &armed, now);
        }
    }
}

/// Checks that the next wake-up is never after the first deadline, and exists exactly while a timer is armed.
fn tells_next_wake<L: Layout>(layout: &L, armed: &[Option<(u64, u64)>], now: u64) {
    let first = armed.iter().flatten().map(|&(when, _)| up::<L>(when)).min();
    match (layout.next_wake(), first) {
        _ if !L::TELLS_NEXT => assert_eq!(layout.next_wake(), None),
        (Some(wake), Some(first)) => assert!(wake <= first, "{} sleeps from {now} to {wake}", L::NAME),
        (wake, first) => assert_eq!(wake, first, "{} at {now}", L::NAME),
    }
}

/// Checks that going from wake-up to wake-up reaches every timer on its tick.
fn wakes_lead_to_every_timer<L: Layout>() {
    if !L::TELLS_NEXT {
        return;
    }
    let mut random = Random::new(7);
    let (mut layout, mut timers) = (L::new(), Timers::new(500));
    let mut deadlines: Vec<u64> = (0..500).map(|_| up::<L>(ahead(&mut random).max(1))).collect();
    deadlines.iter().zip(0..).for_each(|(&deadline, key)| layout.insert(&mut timers, deadline, key));
    let mut fired = vec![];
    let mut now = 0;
    while let Some(wake) = layout.next_wake() {
        assert!(wake > now || fired.is_empty(), "{} stands still at {now}", L::NAME);
        now = wake;
        layout.advance(&mut timers, now, &mut |_, _| fired.push(now));
    }
    deadlines.sort_unstable();
    assert_eq!(fired, deadlines, "{}", L::NAME);
}

/// Checks that a timer whose deadline has passed when it is inserted fires with the next tick, and can be
/// cancelled before that.
fn what_is_past_fires_at_the_next_tick<L: Layout>() {
    let (mut layout, mut timers) = (L::new(), Timers::new(3));
    let now = 5000 * MS;
    layout.advance(&mut timers, now, &mut |_, _| unreachable!("it is empty"));
    for (key, deadline) in [(0, now), (1, 0), (2, now - MS)] {
        layout.insert(&mut timers, deadline, key);
    }
    layout.cancel(&mut timers, 1);
    let mut fired = vec![];
    layout.advance(&mut timers, now + L::TICK, &mut |key, _| fired.push(key));
    fired.sort_unstable();
    assert_eq!(fired, [0, 2], "{}", L::NAME);
}

macro_rules! test {
    ($layout:ty) => {
        agrees_with_a_list::<$layout>();
        wakes_lead_to_every_timer::<$layout>();
        what_is_past_fires_at_the_next_tick::<$layout>();
    };
}

#[test]
fn all_layouts_keep_the_contract() {
    crate::for_each_layout!(test!());
}
