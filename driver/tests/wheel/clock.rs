//! A clock that goes back.

use mainspring_driver::wheel::Due;

use crate::bench::{Bench, at, width};

#[test]
fn a_clock_that_goes_back_does_not_move_the_wheel() {
    // tokio #3619.
    let now = width(2) + 5;
    let mut bench = Bench::new(0);
    let key = bench.add(now + 100);
    assert_eq!(bench.advance(now, 10), []);
    for back in [0, 1, width(1), now - 1] {
        assert_eq!(bench.advance(back, 10), []);
        assert_eq!(bench.wheel.elapsed(), at(now));
    }
    // A timer that is already due stays due for the time at which it was due, and fires when that time is reached again.
    let late = bench.add(now - 7);
    assert_eq!(bench.advance(now - 7, 10), []);
    assert_eq!(bench.advance(now, 10), [late]);
    assert_eq!(bench.advance(now + 100, 10), [key]);
}

#[test]
fn a_clock_that_goes_back_in_the_middle_of_a_batch_fires_what_is_due_by_it() {
    let mut bench = Bench::new(0);
    let keys = [bench.add(10), bench.add(20), bench.add(30)];
    let due = bench.wheel.next_due(&mut bench.owners, at(30), &mut 100);
    assert!(matches!(due, Due::Fire { key, .. } if key == keys[0]));
    assert_eq!(bench.advance(20, 100), [keys[1]]);
    assert_eq!(bench.advance(29, 100), []);
    assert_eq!(bench.advance(30, 100), [keys[2]]);
}

#[test]
fn a_clock_that_goes_back_in_the_middle_of_a_slot_fires_nothing_early_and_loses_no_timer() {
    // After one step of a drain of a slot that is left in order, that is split, that cascades; with some timers reset to later.
    let start = 5 * width(1);
    for (step, reverse, reset) in
        [(1, false, false), (1, true, true), (10, true, true), (40_000, false, true), (40_000, true, true)]
    {
        for moves in [1, 3, 100] {
            let mut bench = Bench::new(0);
            for i in 0..40 {
                let key = bench.add(start + 100 + step * if reverse { 40 - i } else { i });
                if reset && key % 4 == 1 {
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
