//! The order by (deadline, sequence number), and its cost for a crowd.

use mainspring_driver::wheel::Due;

use crate::bench::{Bench, LEVELS, Usual, at, width};

#[test]
fn a_crowd_that_has_its_slots_to_itself_is_neither_moved_nor_sorted() {
    // Armed one after the other, or with one deadline; from each level down.
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
fn a_crowd_with_one_deadline_is_neither_moved_nor_sorted_before_its_first_fires() {
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
        let left = bench.next_wake();
        assert_eq!(left.is_some_and(|wake| wake <= at(deadline)), expected < 999, "{left:?}");
    }
    assert_eq!((bench.wheel.moved(), bench.wheel.len()), (0, 0));
}

#[test]
fn a_few_timers_do_not_upset_the_order_of_a_crowd() {
    // A crowd of 500 in order; then `few` that are due among them, some of which are cancelled or reset, as is one of the crowd.
    for (few, is_upset) in [(1, false), (62, false), (66, true)] {
        let (mut bench, start) = (Bench::new(0), width(5));
        let crowd: Vec<usize> = (0..500).map(|i| bench.add(start + 1_000 * (i + 1))).collect();
        let few: Vec<usize> = (0..few).map(|i| bench.add(start + 1_500 + 7_000 * (i % 60))).collect();
        bench.check();
        bench.refile(crowd[100], start + 50_300);
        for key in few.iter().skip(10).step_by(10) {
            bench.refile(*key, start + 2_700);
        }
        for key in few.iter().skip(5).step_by(10) {
            bench.cancel(*key);
        }
        bench.check();
        let deals = if is_upset { start - width(2) } else { u64::MAX };
        assert_eq!(
            bench.next_wake(),
            Some(at((start + 1_000).min(deals))),
            "the first of all, unless they are dealt before"
        );
        let mut expected: Vec<usize> = (0..bench.owners.place.len()).collect();
        expected.retain(|key| !few.iter().skip(5).step_by(10).any(|gone| gone == key));
        expected.sort_by_key(|key| (bench.owners.deadline[*key], *key));
        let fired: Vec<usize> = (0..600).flat_map(|i| bench.advance(start + 1_000 * i, 10)).collect();
        assert_eq!(fired, expected);
        assert_eq!(bench.wheel.moved() > 0, is_upset, "{} moves", bench.wheel.moved());
    }
}

#[test]
fn who_was_there_before_a_crowd_cascades_alone() {
    // Some that are due among a crowd of 500, and come before it. So many cells lie before those in order.
    for (before, cells) in [(1, 1), (3, 3), (240, 256), (700, 704)] {
        let (mut bench, start) = (Bench::new(0), width(5));
        let before = Vec::from_iter((0..before).map(|i| bench.add(start + 451_500 - 600 * i)));
        let crowd = Vec::from_iter((0..500).map(|i| bench.add(start + 1_000 * (i + 1))));
        bench.check();
        let moved = fires_in_order(bench, start, &before, &crowd);
        // Through two levels at the most. The order begins with a block of the crowd.
        assert!((1..=2 * cells).contains(&moved), "{moved} moves");
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of timers take Miri long")]
fn as_many_as_are_sorted_may_be_there_before_a_crowd() {
    // Also when a part of their cells are holes, which the first of the crowd fill.
    for before in [1_984, 1_985, 2_047, 2_048_usize] {
        for every in [before, 3, 2] {
            let (mut bench, start) = (Usual::new(0), width(5));
            (0..before).for_each(|i| _ = bench.add(start + 11_451_500 - 600 * i as u64));
            (0..before).filter(|key| key % every == 1).for_each(|key| bench.cancel(key));
            (0..10_000).for_each(|i| _ = bench.add(start + 1_000 * (i + 1)));
            bench.check();
            while let Some(wake) = bench.next_wake() {
                bench.next(wake.get());
            }
            // Through two levels at the most.
            assert!(bench.wheel.moved() <= 2 * 2_048, "{before}, {every}: {} moves", bench.wheel.moved());
        }
    }
}

#[test]
fn who_comes_among_a_crowd_and_is_due_after_it_does_not_upset_it() {
    for (late, is_upset) in [(1, false), (3, false), (100, true)] {
        let (mut bench, start) = (Bench::new(0), width(5));
        let mut crowd = Vec::from_iter((0..250).map(|i| bench.add(start + 1_000 * (i + 1))));
        let late = Vec::from_iter((0..late).map(|i| bench.add(start + 520_500 + 600 * i)));
        crowd.extend((250..500).map(|i| bench.add(start + 1_000 * (i + 1))));
        bench.check();
        let moved = fires_in_order(bench, start, &late, &crowd);
        assert_eq!(moved > 0, is_upset, "{moved} moves");
    }
}

#[test]
fn who_gives_way_leaves_a_tidy_slot_behind() {
    // All of the crowd that are left give way to one that is due before them.
    let (mut bench, start) = (Bench::new(0), width(5));
    let crowd = Vec::from_iter((0..30).map(|i| bench.add(start + 10 * i)));
    crowd[..28].iter().for_each(|key| bench.cancel(*key));
    let early = bench.add(start + 275);
    bench.check();
    assert_eq!(bench.advance(start + 300, 10), [early, crowd[28], crowd[29]]);

    // Where the row ends with holes, of which there may be many, nobody gives way.
    let mut bench = Bench::new(0);
    let crowd = Vec::from_iter((0..1_000).map(|i| bench.add(start + 10 * i)));
    crowd[500..].iter().for_each(|key| bench.cancel(*key));
    let places = bench.owners.place.clone();
    bench.add(start + 8_925);
    bench.check();
    assert!(bench.owners.place[..500] == places[..500], "somebody gave way");

    // Again and again one comes that is due before the last three, and these are cancelled.
    let mut bench = Bench::new(0);
    let mut crowd = Vec::from_iter((0..5_000).map(|i| (i, bench.add(start + 10 * i))));
    crowd.drain(..3_700).for_each(|(_, key)| bench.cancel(key));
    while crowd.len() > 3 {
        let late = crowd.split_off(crowd.len() - 3);
        let (i, _) = late[0];
        crowd.push((i, bench.add(start + 10 * i - 5)));
        late.iter().for_each(|(_, key)| bench.cancel(*key));
        bench.check();
    }
    assert_eq!(bench.advance(start + 50_000, 1_000).len(), crowd.len());
}

/// Cancels and resets some of both, and asserts that the others fire in order. Returns how many were moved for that.
fn fires_in_order(mut bench: Bench, start: u64, others: &[usize], crowd: &[usize]) -> u64 {
    bench.refile(crowd[100], start + 50_300);
    bench.refile(others[0], start + 70_200);
    let gone = Vec::from_iter(others.iter().chain(crowd).skip(3).step_by(7).copied());
    gone.iter().for_each(|key| bench.cancel(*key));
    bench.check();
    let mut expected: Vec<usize> = (0..bench.owners.place.len()).filter(|key| !gone.contains(key)).collect();
    expected.sort_by_key(|key| (bench.owners.deadline[*key], *key));
    let fired: Vec<usize> = (0..700).flat_map(|i| bench.advance(start + 1_000 * i, 10)).collect();
    assert_eq!(fired, expected);
    bench.wheel.moved()
}

#[test]
fn equal_deadlines_keep_their_order_on_the_way_down() {
    // Inserted at many distances, so that they come down from every level; some are cancelled, some are moved
    // away and back, some are moved silently.
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
fn a_timer_reset_to_now_keeps_its_place_among_equals() {
    let mut bench = Bench::of([10, 20, 5]);
    bench.owners.deadline[0] = at(20);
    assert_eq!(bench.advance(20, usize::MAX), [2, 0, 1]);
}

#[test]
fn a_timer_that_was_reset_alone_in_its_slot_does_not_spoil_the_order_of_a_crowd() {
    let deadline = width(3) + 10;
    let mut bench = Bench::new(0);
    let (first, second) = (bench.add(deadline - 2), bench.add(deadline - 1));
    bench.cancel(second);
    bench.refile(first, deadline);
    for _ in 0..99 {
        bench.add(deadline);
    }
    // The last timer may leave without harm.
    bench.cancel(100);
    let due = bench.wheel.next_due(&mut bench.owners, at(deadline), &mut 1);
    assert!(matches!(due, Due::Fire { key, .. } if key == first), "{due:?}");
    assert_eq!(bench.owners.asked, 1, "others were asked before it was their turn");
    assert_eq!(bench.advance(deadline, 1), (2..100).collect::<Vec<_>>());
}

#[test]
fn a_slot_whose_last_was_moved_away_does_not_take_the_next_for_in_order() {
    let mut bench = Bench::new(0);
    let [low, middle, high] = [(); 3].map(|()| bench.add(width(5)));
    for (key, deadline) in [(high, 10), (low, 12)] {
        bench.cancel(key);
        bench.file(key, deadline);
    }
    bench.refile(low, width(4));
    assert_eq!(bench.wheel.next_deadline(&mut bench.owners), Some(at(10)));
    bench.check();
    // Its number is above that of the timer which has gone, and below that of the timer which is there.
    bench.cancel(middle);
    bench.file(middle, 10);
    bench.check();
    assert_eq!(bench.advance(10, 100), [middle, high]);
}

#[test]
fn a_crowd_that_is_disturbed_while_it_leaves_keeps_its_order() {
    let deadline = width(3) + 10;
    let leave = |bench: &mut Bench, n: usize| -> Vec<usize> {
        (0..n)
            .map(|_| match bench.wheel.next_due(&mut bench.owners, at(deadline + 50), &mut 100) {
                Due::Fire { key, .. } => key,
                other => panic!("{other:?}"),
            })
            .collect()
    };
    // What happens when ten of a hundred timers have left, and which timers come after that.
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
    let reset_among_the_others = |bench: &mut Bench| {
        bench.owners.deadline[12] = at(deadline + 30);
        bench.owners.deadline[11] = at(deadline + 30);
        (10..100).filter(|key| ![11, 12].contains(key)).chain([11, 12]).collect()
    };
    let reset_beyond = |bench: &mut Bench| {
        bench.owners.deadline[12] = at(2 * deadline);
        (10..100).filter(|key| *key != 12).collect()
    };
    let brought_forward = |bench: &mut Bench| {
        bench.refile(70, deadline - 1);
        std::iter::once(70).chain((10..100).filter(|key| *key != 70)).collect()
    };
    type Disturb<'a> = &'a dyn Fn(&mut Bench) -> Vec<usize>;
    let cases: [Disturb<'_>; 6] = [
        &cancelled,
        &joined_by_an_earlier_one,
        &joined_by_an_equal_one,
        &reset_among_the_others,
        &reset_beyond,
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
