//! The bare wheel where others broke: at the edges of its levels, at both ends of time, and when it is moved
//! far, back, or in small steps. Each test bears the name of the failure it guards against.

use mainspring_driver::Nanos;
use mainspring_driver::wheel::{Due, Place, Rank, Slack, Store, Wheel};

const LEVELS: u32 = 8;
const YEAR: u64 = 365 * 86_400 * 1_000_000_000;

/// The width of a slot of this level.
fn width(level: u32) -> u64 {
    1 << (16 + 6 * level)
}

fn at(nanos: u64) -> Nanos {
    Nanos::new(nanos)
}

/// What the owners of the timers know; a key is its index.
#[derive(Default)]
struct Owners {
    place: Vec<Place>,
    deadline: Vec<Nanos>,
    /// How often the wheel asked for a deadline.
    asked: usize,
}

impl Store<usize> for Owners {
    fn set_place(&mut self, key: usize, place: Place) {
        self.place[key] = place;
    }
    fn deadline(&mut self, key: usize, _filed: Nanos) -> Nanos {
        self.asked += 1;
        self.deadline[key]
    }
}

/// A wheel and its owners, checked after every step.
struct Bench {
    wheel: Wheel<usize>,
    owners: Owners,
}

impl Bench {
    fn new(start: u64) -> Bench {
        Bench { wheel: Wheel::new(at(start)), owners: Owners::default() }
    }

    /// Adds a timer, whose number is its key.
    fn add(&mut self, deadline: u64) -> usize {
        let key = self.owners.place.len();
        self.owners.place.push(Place::NOWHERE);
        self.owners.deadline.push(at(deadline));
        self.file(key, deadline);
        key
    }

    fn file(&mut self, key: usize, deadline: u64) {
        self.owners.deadline[key] = at(deadline);
        self.wheel.insert(&mut self.owners, key, at(deadline), Rank::new(key as u64, Slack::ZERO));
    }

    fn cancel(&mut self, key: usize) {
        let place = self.owners.place[key];
        assert_eq!(self.wheel.remove(&mut self.owners, place), Some(key));
    }

    fn check(&self) {
        self.wheel.check(|key| self.owners.place[key]);
    }

    /// Fires all that is due at `now`, `moves` moves at a time, and checks the wheel after every step.
    fn advance(&mut self, now: u64, moves: usize) -> Vec<usize> {
        let mut fired = vec![];
        loop {
            let due = self.wheel.next_due(&mut self.owners, at(now), &mut { moves });
            self.check();
            match due {
                Due::Fire { key, deadline, .. } => {
                    assert!(deadline <= at(now), "{key} fired early");
                    assert_eq!(deadline, self.owners.deadline[key]);
                    fired.push(key);
                }
                Due::Exhausted => {}
                Due::Idle => return fired,
            }
        }
    }
}

#[test]
fn a_far_timer_hides_a_near_one_behind_a_levels_edge() {
    // tokio #8334: uptime just under the top level's edge, one far timer, and every near one hangs.
    for level in 0..LEVELS {
        for edge in [1, 2, 31, 32, 63].map(|k: u64| k * width(level)) {
            for before in [1, 2, 150, 299, 300] {
                let start = edge - before;
                let mut bench = Bench::new(start);
                let far = bench.add(Nanos::NEVER.get() - 1);
                bench.check();
                let near = bench.add(start + 300);
                bench.check();
                assert_eq!(bench.wheel.next_wake(), Some(at(start + 300)));
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
fn a_deadline_at_or_before_now_waits_a_turn_of_the_wheel() {
    // tokio #2473, and every wheel that files such a timer behind its hand.
    for start in [5, 65_535, 65_536, width(3) - 1, width(3), width(7), Nanos::NEVER.get() - 1] {
        for late in [0, 1, 5] {
            let mut bench = Bench::new(start);
            let key = bench.add(start - late);
            bench.check();
            assert_eq!(bench.wheel.next_wake(), Some(at(start - late)));
            assert_eq!(bench.advance(start, 1), [key]);
        }
    }
}

#[test]
fn one_advance_past_every_level_loses_or_reorders_timers_or_never_ends() {
    // tokio #2184. Ten thousand timers, spread over all levels; all of time at once, in small steps.
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
    assert!(bench.wheel.moved() <= TIMERS * 7, "a timer was moved more than once a level");
    assert!(calls <= TIMERS + TIMERS * 7 / 16 + 1, "{calls} calls for {TIMERS} timers");
    assert_eq!(bench.wheel.elapsed(), at(end));
}

#[test]
fn a_timer_in_three_hundred_years_fires_at_the_wheels_next_turn() {
    // Linux clamped what lay beyond its last level; others wrap around.
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
fn a_clock_that_goes_back_moves_the_wheel() {
    // tokio #3619.
    let now = width(2) + 5;
    let mut bench = Bench::new(0);
    let key = bench.add(now + 100);
    assert_eq!(bench.advance(now, 10), []);
    for back in [0, 1, width(1), now - 1] {
        assert_eq!(bench.advance(back, 10), []);
        assert_eq!(bench.wheel.elapsed(), at(now));
    }
    // What is due already stays due for the time at which it was, and fires when that is reached again.
    let late = bench.add(now - 7);
    assert_eq!(bench.advance(now - 7, 10), []);
    assert_eq!(bench.advance(now, 10), [late]);
    assert_eq!(bench.advance(now + 100, 10), [key]);
}

#[test]
fn a_clock_that_goes_back_in_the_middle_of_a_batch_fires_what_is_not_due() {
    let mut bench = Bench::new(0);
    let keys = [bench.add(10), bench.add(20), bench.add(30)];
    let due = bench.wheel.next_due(&mut bench.owners, at(30), &mut 100);
    assert!(matches!(due, Due::Fire { key, .. } if key == keys[0]));
    assert_eq!(bench.advance(20, 100), [keys[1]]);
    assert_eq!(bench.advance(29, 100), []);
    assert_eq!(bench.advance(30, 100), [keys[2]]);
}

#[test]
fn a_clock_that_goes_back_in_the_middle_of_a_slot_fires_early_or_loses_timers() {
    // After one step of a drain: of a slot that is left in order, that is split, that is dealt out; with some put off.
    let start = 5 * width(1);
    for (step, reverse, put_off) in
        [(1, false, false), (1, true, true), (10, true, true), (40_000, false, true), (40_000, true, true)]
    {
        for moves in [1, 3, 100] {
            let mut bench = Bench::new(0);
            for i in 0..40 {
                let key = bench.add(start + 100 + step * if reverse { 40 - i } else { i });
                if put_off && key % 4 == 1 {
                    bench.owners.deadline[key] = at(start + 100 + step * 45);
                }
            }
            let end = start + 100 + step * 50;
            let due = bench.wheel.next_due(&mut bench.owners, at(end), &mut { moves });
            bench.check();
            let mut fired = vec![];
            if let Due::Fire { key, .. } = due {
                fired.push(key);
            }
            for back in [start - 1, start + 100 + step * 20, start + 100 + step * 10, end] {
                let now = bench.advance(back, moves);
                assert!(now.iter().all(|&key| bench.owners.deadline[key] <= at(back)), "early at {back}");
                fired.extend(now);
            }
            let mut expected: Vec<usize> = (0..40).collect();
            expected.sort_by_key(|&key| (bench.owners.deadline[key], key));
            assert_eq!(fired, expected, "step {step}, {moves} moves");
        }
    }
}

#[test]
fn a_store_that_names_an_earlier_deadline_breaks_the_wheel() {
    // It must not; but if it does, the timer fires at once, and the wheel stays whole.
    for filed in [50, width(0) + 50, width(1) + 50, width(3) + 50] {
        for others in [0, 5] {
            let mut bench = Bench::new(0);
            let key = bench.add(filed);
            bench.owners.deadline[key] = at(7);
            for i in 0..others {
                bench.add(filed - i);
            }
            let fired = bench.advance(filed + 10, 1);
            assert_eq!(fired.len() as u64, 1 + others);
            assert!(fired.contains(&key));
        }
    }
}

#[test]
fn a_crowd_that_has_its_slots_to_itself_is_moved_or_sorted() {
    // Armed one after the other, or of one deadline; from each level down.
    for level in 0..LEVELS {
        let deadline = width(level) + 12_345;
        let mut bench = Bench::new(0);
        let keys: Vec<usize> = (0..500).map(|i| bench.add(deadline + i / 10)).collect();
        let first = bench.wheel.next_due(&mut bench.owners, at(deadline + 100), &mut 1);
        assert!(matches!(first, Due::Fire { key: 0, .. }), "{first:?} from level {level}");
        assert_eq!((bench.wheel.moved(), bench.owners.asked), (0, 1), "from level {level}");
        assert_eq!(bench.advance(deadline + 100, 1), keys[1..]);
        assert_eq!(bench.wheel.moved(), 0);
    }
}

#[test]
fn a_timer_that_is_put_off_once_moves_more_often_than_twice_through_the_levels() {
    // Each is found put off when its slot is dealt out, split or left; then it goes down all levels anew.
    let near = Nanos::NEVER.get() / 2;
    let mut bench = Bench::new(0);
    for i in 0..200 {
        let key = bench.add((1 << (i % 60)) + i);
        bench.owners.deadline[key] = at(near + (1 << (i % 61)));
    }
    bench.advance(near, 5);
    assert_eq!(bench.wheel.len(), 200);
    assert_eq!(bench.advance(Nanos::NEVER.get() - 1, 5).len(), 200);
    assert!(bench.wheel.moved() <= 200 * (7 + 8), "{} moves", bench.wheel.moved());
}

#[test]
fn a_deadline_at_the_end_of_time_is_taken_for_a_signal() {
    // tokio #5710.
    for far in [u64::MAX, u64::MAX - 1, u64::MAX - 2, u64::MAX - 3, Nanos::NEVER.get()] {
        for start in [0, width(7) - 1, Nanos::NEVER.get() - 1] {
            let mut bench = Bench::new(start);
            let (first, second) = (bench.add(far), bench.add(far));
            bench.check();
            assert_eq!(bench.advance(Nanos::NEVER.get() - 1, 1), [], "fired at {start}");
            assert_eq!(bench.wheel.next_deadline(&mut bench.owners), Some(Nanos::NEVER));
            bench.cancel(first);
            bench.check();
            bench.cancel(second);
            assert_eq!((bench.wheel.len(), bench.wheel.next_wake()), (0, None));
        }
    }
}

#[test]
fn a_deadline_of_zero_is_taken_for_none() {
    let mut bench = Bench::new(0);
    let key = bench.add(0);
    bench.check();
    assert_eq!(bench.wheel.next_wake(), Some(Nanos::ZERO));
    assert_eq!(bench.wheel.next_deadline(&mut bench.owners), Some(Nanos::ZERO));
    assert_eq!(bench.advance(0, 1), [key]);
    assert_eq!(bench.wheel.next_wake(), None);
}

#[test]
fn a_cell_dealt_back_to_its_own_slot_is_dealt_for_ever() {
    // Timers that were reset in silence go back to a slot of the level from which they come.
    for level in 0..LEVELS {
        let mut bench = Bench::new(0);
        let first = width(level);
        let last = first.saturating_mul(63).min(Nanos::NEVER.get() - 1);
        for i in 0..100 {
            let key = bench.add(first + i);
            // Some into another slot of the same level, some to another place in the same slot.
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
fn a_split_that_its_moves_cut_short_loses_or_reorders_timers() {
    // In one slot of level 0, the last first, so that it must be split. Every third was put off beyond the drain, or into
    // another slot that is due, or within its own.
    let now = 3 * width(0);
    for moves in [1, 2, 7, 50] {
        let mut bench = Bench::new(0);
        for i in 0..100 {
            let key = bench.add(60_000 - i * 100);
            match key % 9 {
                0 => bench.owners.deadline[key] = at(now + 500),
                3 => bench.owners.deadline[key] = at(width(0) + 700),
                6 => bench.owners.deadline[key] = at(60_001),
                _ => {}
            }
        }
        bench.owners.asked = 0;
        let mut left: Vec<usize> = (0..100).collect();
        let mut calls = 0;
        // Each call asks those that it moves or finds due, and the one at which it stops. Meanwhile timers go that were
        // found due, that were not judged yet and that were put off, and one comes.
        loop {
            let before = bench.owners.asked;
            let due = bench.wheel.next_due(&mut bench.owners, at(60_500), &mut { moves });
            bench.check();
            calls += 1;
            if due != Due::Exhausted {
                let Due::Fire { key, .. } = due else { panic!("{due:?}, but timers are due") };
                assert!(bench.wheel.next_wake() <= Some(bench.wheel.elapsed()));
                left.retain(|&other| other != key);
                bench.file(key, now + 900);
                bench.owners.deadline[key] = at(now + 900);
                left.push(key);
                break;
            }
            // 22 of the hundred are put off beyond the slot; between two of those lie nine at most.
            assert!(bench.owners.asked - before <= 9 * moves + 10, "{} asked", bench.owners.asked - before);
            assert_eq!(bench.wheel.next_wake(), Some(at(0)), "it would sleep in the middle of a split");
            assert_eq!(bench.wheel.earliest(), Nanos::ZERO);
            let gone = left.remove(calls * 5 % left.len());
            bench.cancel(gone);
            bench.check();
            left.push(bench.add(60_700 + calls as u64));
            bench.check();
        }
        assert_eq!(calls > 1, moves < 50, "{calls} calls of {moves} moves");
        let mut expected = left.clone();
        expected.sort_by_key(|&key| (bench.owners.deadline[key], key));
        assert_eq!(bench.wheel.next_deadline(&mut bench.owners), Some(bench.owners.deadline[expected[0]]));
        let mut fired = bench.advance(60_500, moves);
        fired.extend(bench.advance(now, moves));
        fired.extend(bench.advance(now + 1_000, moves));
        assert_eq!(fired, expected, "with {moves} moves at a time");
    }
}

#[test]
fn equal_deadlines_lose_their_order_on_the_way_down() {
    // Inserted from everywhere, so that they come down from every level; some cancelled, some moved away
    // and back, some moved in silence.
    let deadline = width(6) * 3 + width(4) * 5 + width(2) * 7 + 12_345;
    let mut bench = Bench::new(0);
    let mut expected = vec![];
    for level in (0..LEVELS - 1).rev() {
        for i in 0..60 {
            let key = bench.add(if i % 5 == 4 { deadline - 1 - i } else { deadline });
            match i % 5 {
                0 => bench.cancel(key),
                1 => {
                    bench.cancel(key);
                    bench.file(key, deadline + width(level));
                    bench.cancel(key);
                    bench.file(key, deadline);
                }
                4 => bench.owners.deadline[key] = at(deadline),
                _ => {}
            }
            if i % 5 != 0 {
                expected.push(key);
            }
        }
        let closer = deadline - width(level).min(deadline / 2);
        assert_eq!(bench.advance(closer.max(bench.wheel.elapsed().get()), 5), []);
    }
    assert_eq!(bench.advance(deadline, 5), expected);
}

#[test]
fn a_bursts_memory_is_kept() {
    let mut bench = Bench::new(0);
    let mut now = 0;
    let idle = bench.wheel.allocated_bytes();
    // A burst of equal deadlines makes a large batch, too; one of cancelled timers makes none.
    for cancelled in [false, true] {
        for i in 0..100_000 {
            bench.add(now + 1_000_000 + if cancelled { i } else { 0 });
        }
        let busy = bench.wheel.allocated_bytes();
        assert!(busy > 24 * 100_000);
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
        // Life goes on, a timer at a time, for some seconds.
        for _ in 0..1_000 {
            let key = bench.add(now + 10_000_000);
            now += 10_000_000;
            let before = bench.wheel.allocated_bytes();
            while bench.wheel.next_due(&mut bench.owners, at(now), &mut 1_000) != Due::Idle {}
            let released = before.saturating_sub(bench.wheel.allocated_bytes());
            // A large batch is one piece of memory and goes at once, but slots give theirs back bit by bit.
            assert!(!cancelled || released <= 16_384, "{released} of {before} bytes were released at once");
            bench.owners.place[key] = Place::NOWHERE;
        }
        let kept = bench.wheel.allocated_bytes();
        assert!(kept - idle < 200_000, "{kept} bytes are kept of {busy}");
        bench.check();
    }
}

#[test]
fn a_wheel_emptied_in_the_middle_of_a_deal_forgets_where_it_was() {
    // A driver that is shut down empties its wheel, wakes, and hears of more timers that are dropped.
    let mut bench = Bench::new(0);
    for i in 0..10 {
        bench.add(width(1) + i * width(0));
    }
    let due = bench.wheel.next_due(&mut bench.owners, at(width(1)), &mut 4);
    assert_eq!(due, Due::Exhausted, "the deal was not interrupted");
    for left in (0..10).rev() {
        let taken = bench.wheel.take_any().map(|(key, _)| key);
        assert!(taken.is_some() && bench.wheel.len() == left);
        bench.owners.place[taken.unwrap_or_default()] = Place::NOWHERE;
        bench.check();
    }
    assert_eq!(bench.wheel.take_any(), None);
}

#[test]
fn a_park_outlasts_the_last_deadline_that_it_can_gather() {
    let slack = Slack::at_most_nanos(1 << 20);
    let mut bench = Bench::new(0);
    let file = |bench: &mut Bench, deadline: u64| {
        let key = bench.add(Nanos::NEVER.get());
        bench.cancel(key);
        bench.owners.deadline[key] = at(deadline);
        let rank = Rank::new(key as u64, slack);
        bench.wheel.insert(&mut bench.owners, key, at(deadline), rank);
        bench.check();
        key
    };
    // Alone it is woken at its deadline, however far away and whatever its slack.
    let first = 5 << 20;
    file(&mut bench, first);
    assert_eq!(bench.wheel.next_wake(), Some(at(first)));
    // Others beyond the slack of the first change nothing, also where their slots begin before it.
    let beyond = file(&mut bench, first + (1 << 20) + width(0));
    file(&mut bench, 30 * width(3));
    file(&mut bench, Nanos::NEVER.get());
    assert_eq!(bench.wheel.next_wake(), Some(at(first)));
    // Those within it are waited for, the last of them too; not longer than the slack of the first lasts.
    for ahead in [100, width(0), 1 << 19] {
        file(&mut bench, first + ahead);
        assert_eq!(bench.wheel.next_wake(), Some(at(first + ahead)));
    }
    bench.cancel(beyond);
    let edge = file(&mut bench, first + (1 << 20));
    assert_eq!(bench.wheel.next_wake(), Some(at(first + (1 << 20))));
    bench.cancel(edge);
    let precise = bench.add(first + 50);
    assert_eq!(bench.wheel.next_wake(), Some(at(first + 50)));
    assert_eq!(bench.advance(first + 50, 100).last(), Some(&precise));
}

#[test]
fn a_crowd_with_one_deadline_is_moved_or_sorted_before_its_first_fires() {
    let deadline = 3 * width(4) + 5 * width(2) + 77;
    let mut bench = Bench::new(0);
    for _ in 0..1_000 {
        bench.add(deadline);
    }
    // On each level, and between them.
    for now in [width(4), 3 * width(4), 3 * width(4) + 5 * width(2), deadline - 78, deadline - 1] {
        assert_eq!(bench.wheel.next_due(&mut bench.owners, at(now), &mut 1), Due::Idle);
        bench.check();
    }
    assert_eq!((bench.wheel.moved(), bench.owners.asked), (0, 0));
    for expected in 0..1_000 {
        let due = bench.wheel.next_due(&mut bench.owners, at(deadline), &mut 1);
        assert!(matches!(due, Due::Fire { key, .. } if key == expected), "{due:?}");
        assert_eq!(bench.owners.asked, expected + 1, "others were asked before it was their turn");
        bench.check();
        let left = bench.wheel.next_wake();
        assert_eq!(left.is_some_and(|wake| wake <= bench.wheel.elapsed()), expected < 999, "{left:?}");
    }
    assert_eq!((bench.wheel.moved(), bench.wheel.len()), (0, 0));
}

#[test]
fn a_reset_leaves_the_old_slack() {
    // Within its slot, and to another one.
    for to in [(5 << 20) - 100, 3 << 20] {
        let mut bench = Bench::new(0);
        let (key, precise) = (bench.add(Nanos::NEVER.get()), bench.add(6 << 20));
        bench.cancel(key);
        bench.owners.deadline[key] = at(5 << 20);
        let rank = Rank::new(key as u64, Slack::at_most_nanos(1 << 22));
        bench.wheel.insert(&mut bench.owners, key, at(5 << 20), rank);
        assert_eq!(bench.wheel.next_wake(), Some(at(6 << 20)));
        let place = bench.owners.place[key];
        bench.owners.deadline[key] = at(to);
        assert_eq!(bench.wheel.refile_at(&mut bench.owners, place, at(to), Slack::ZERO), Some(key));
        bench.check();
        assert_eq!(bench.wheel.next_wake(), Some(at(to)), "it sleeps on as if it had not been reset");
        let due = bench.wheel.next_due(&mut bench.owners, at(to), &mut 100);
        assert_eq!(due, Due::Fire { key, deadline: at(to), rank: Rank::new(key as u64, Slack::ZERO) });
        assert_eq!(bench.advance(6 << 20, 100), [precise]);
    }
}

#[test]
fn a_timer_that_was_reset_alone_in_its_slot_spoils_the_order_of_a_crowd() {
    let deadline = width(3) + 10;
    let mut bench = Bench::new(0);
    let (first, second) = (bench.add(deadline - 2), bench.add(deadline - 1));
    bench.cancel(second);
    let place = bench.owners.place[first];
    bench.owners.deadline[first] = at(deadline);
    assert_eq!(bench.wheel.refile_at(&mut bench.owners, place, at(deadline), Slack::ZERO), Some(first));
    for _ in 0..99 {
        bench.add(deadline);
    }
    // The last may go without harm.
    bench.cancel(100);
    let due = bench.wheel.next_due(&mut bench.owners, at(deadline), &mut 1);
    assert!(matches!(due, Due::Fire { key, .. } if key == first), "{due:?}");
    assert_eq!(bench.owners.asked, 1, "others were asked before it was their turn");
    assert_eq!(bench.advance(deadline, 1), (2..100).collect::<Vec<_>>());
}

#[test]
fn a_slot_whose_last_was_moved_away_takes_the_next_for_in_order() {
    let mut bench = Bench::new(0);
    let [low, middle, high] = [(); 3].map(|()| bench.add(width(5)));
    for (key, deadline) in [(high, 10), (low, 12)] {
        bench.cancel(key);
        bench.file(key, deadline);
    }
    bench.owners.deadline[low] = at(width(4));
    assert_eq!(bench.wheel.next_deadline(&mut bench.owners), Some(at(10)));
    bench.check();
    // Its number is above that of the one which has gone, and below that of the one which is there.
    bench.cancel(middle);
    bench.file(middle, 10);
    bench.check();
    assert_eq!(bench.advance(10, 100), [middle, high]);
}

#[test]
fn a_crowd_that_was_put_off_is_moved_without_a_pause() {
    // Armed in order and then put off in silence, one and all: to find that out is work that is granted in slices.
    let mut bench = Bench::new(0);
    for key in 0..100 {
        bench.add(10);
        bench.owners.deadline[key] = at(width(2));
    }
    for slice in 1..=14 {
        let mut moves = 7;
        assert_eq!(bench.wheel.next_due(&mut bench.owners, at(20), &mut moves), Due::Exhausted);
        assert_eq!((moves, bench.wheel.moved()), (0, 7 * slice));
        bench.check();
    }
    let mut moves = 7;
    assert_eq!(bench.wheel.next_due(&mut bench.owners, at(20), &mut moves), Due::Idle);
    assert_eq!((moves, bench.wheel.moved()), (5, 100));
    assert_eq!(bench.advance(width(2), 7), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_crowd_that_is_disturbed_while_it_leaves_loses_its_order() {
    let deadline = width(3) + 10;
    let leave = |bench: &mut Bench, n: usize| -> Vec<usize> {
        (0..n)
            .map(|_| match bench.wheel.next_due(&mut bench.owners, at(deadline + 50), &mut 100) {
                Due::Fire { key, .. } => key,
                other => panic!("{other:?}"),
            })
            .collect()
    };
    // What happens when ten of a hundred have left, and what comes after.
    let cancelled = |bench: &mut Bench| {
        bench.cancel(40);
        bench.cancel(99);
        (10..99).filter(|key| *key != 40).collect::<Vec<_>>()
    };
    let joined_by_an_earlier_one = |bench: &mut Bench| {
        let new = bench.add(deadline - 5);
        std::iter::once(new).chain(10..100).collect()
    };
    let joined_by_an_equal_one = |bench: &mut Bench| {
        bench.add(deadline);
        (10..101).collect()
    };
    let put_off_among_the_others = |bench: &mut Bench| {
        bench.owners.deadline[12] = at(deadline + 30);
        bench.owners.deadline[11] = at(deadline + 30);
        (10..100).filter(|key| ![11, 12].contains(key)).chain([11, 12]).collect()
    };
    let put_off_beyond = |bench: &mut Bench| {
        bench.owners.deadline[12] = at(2 * deadline);
        (10..100).filter(|key| *key != 12).collect()
    };
    let brought_forward = |bench: &mut Bench| {
        let place = bench.owners.place[70];
        bench.owners.deadline[70] = at(deadline - 1);
        assert_eq!(bench.wheel.refile_at(&mut bench.owners, place, at(deadline - 1), Slack::ZERO), Some(70));
        std::iter::once(70).chain((10..100).filter(|key| *key != 70)).collect()
    };
    type Disturb<'a> = &'a dyn Fn(&mut Bench) -> Vec<usize>;
    let cases: [Disturb<'_>; 6] = [
        &cancelled,
        &joined_by_an_earlier_one,
        &joined_by_an_equal_one,
        &put_off_among_the_others,
        &put_off_beyond,
        &brought_forward,
    ];
    for (case, disturb) in cases.into_iter().enumerate() {
        let mut bench = Bench::new(0);
        for _ in 0..100 {
            bench.add(deadline);
        }
        assert_eq!(leave(&mut bench, 10), (0..10).collect::<Vec<_>>());
        let expected = disturb(&mut bench);
        bench.check();
        assert_eq!(leave(&mut bench, expected.len()), expected, "case {case}");
        bench.check();
        assert_eq!(bench.wheel.next_due(&mut bench.owners, at(deadline + 50), &mut 100), Due::Idle);
        assert_eq!(bench.wheel.len(), usize::from(case == 4));
    }
}

#[test]
fn a_place_at_which_nothing_lies_removes_another_timer() {
    let mut bench = Bench::new(0);
    let key = bench.add(1_000);
    let place = bench.owners.place[key];
    bench.cancel(key);
    assert_eq!(bench.wheel.remove(&mut bench.owners, place), None);
    assert_eq!(bench.wheel.remove(&mut bench.owners, Place::NOWHERE), None);
    let (first, second) = (bench.add(10), bench.add(20));
    let due = bench.wheel.next_due(&mut bench.owners, at(20), &mut 10);
    assert!(matches!(due, Due::Fire { key, .. } if key == first));
    bench.cancel(second);
    let place = bench.owners.place[second];
    assert_eq!(bench.wheel.remove(&mut bench.owners, place), None, "a tombstone was taken for a timer");
    assert_eq!(bench.advance(20, 10), []);
    assert!(bench.wheel.is_empty());
}
