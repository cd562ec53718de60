//! A steady state allocates nothing, and the memory of a burst is given back.

use mainspring_driver::Nanos;
use mainspring_driver::wheel::{Due, Place, Wheel};

use crate::bench::{Bench, Owners, at};
use crate::counting::{allocations, blocks, bytes};

#[test]
fn a_bursts_memory_is_given_back_bit_by_bit() {
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
fn the_memory_of_a_large_batch_and_of_many_reset_at_once_is_given_back() {
    let mut bench = Bench::of((0..5_000).map(|key| 6_000 - key));
    bench.owners.deadline.fill(at(1 << 20));
    // All are found to be late at once; then all are due at once.
    assert_eq!((bench.fire_all(6_000), bench.fire_all(1 << 20)), (0, 5_000));
    assert!(bench.wheel.allocated_bytes() > 400_000);
    // Seconds later there is one at a time, which is late and then due.
    for second in 2..100 {
        let start = second << 30;
        bench.file(0, start);
        bench.owners.deadline[0] = at(start + 10);
        assert_eq!((bench.fire_all(start + 5), bench.fire_all(start + 10)), (0, 1));
    }
    assert!(bench.wheel.allocated_bytes() < 150_000, "{} bytes", bench.wheel.allocated_bytes());
}

#[test]
fn the_wheel_knows_how_much_memory_it_has() {
    let deadline: Vec<_> = (0..3_000).map(|key| at(1 + key)).collect();
    let owners = Owners { place: vec![Place::NOWHERE; deadline.len()], deadline, asked: 0 };
    let before = bytes();
    let held = |bench: &Bench| assert_eq!(bench.wheel.allocated_bytes() as i64, bytes() - before);
    let mut bench = Bench { wheel: Wheel::new(Nanos::ZERO), owners };
    held(&bench);
    for key in 0..3_000 {
        bench.file(key, 1 + key as u64);
    }
    held(&bench);
    // Some were reset to later, so that there is a list of late ones; most make a large batch.
    bench.owners.deadline[..100].fill(at(1 << 20));
    assert!(matches!(bench.next(5_000), Due::Fire { key: 100, .. }));
    held(&bench);
    while let Due::Fire { .. } = bench.next(2 << 20) {
        held(&bench);
    }
    // Long after the burst its memory is given back, and the list of what is vacant is memory too.
    for second in 1..100 {
        assert_eq!(bench.fire_all(second << 30), 0);
        held(&bench);
    }
    assert!(bench.wheel.is_empty());
}

#[test]
fn memory_that_recurs_is_kept_and_a_bursts_is_given_back() {
    let mut bench = Bench::of((0..3_000).map(|key| (1 << 30) + key));
    assert_eq!(bench.fire_all((1 << 30) + 3_000), 3_000);
    let busy = blocks();
    // Within a second of it nothing is released, however often the wheel is asked.
    for step in 0..100 {
        bench.fire_all((1 << 30) + 4_000 + step * 1_000);
    }
    assert_eq!(blocks(), busy, "the memory of a habit was released");
    // Then it is, in small steps, but for a handful of chunks.
    let mut last = busy;
    for second in 2..100 {
        bench.fire_all(second << 30);
        let now = blocks();
        // The list of what is vacant is a block of its own.
        assert!((last - 8..=last + 1).contains(&now), "{last} blocks became {now} in one step");
        last = now;
    }
    let chunks = 3_000 / 32 + 1;
    let kept = 16;
    let released = busy - last;
    assert!((chunks - kept - 1..=chunks - kept).contains(&released), "{released} of {chunks} were released");
}

#[test]
fn the_bare_wheel_allocates_nothing_in_steady_state() {
    const LIVE: usize = 1_000;
    let mut bench = Bench::of([0; LIVE]);
    assert_eq!(bench.fire_all(0), LIVE);
    let mut now = 0;
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut round = |rounds: usize| {
        for _ in 0..rounds {
            for key in 0..LIVE {
                random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                bench.file(key, now + (random >> 40));
            }
            (0..LIVE).step_by(3).for_each(|key| bench.cancel(key));
            now += 1 << 24;
            bench.fire_all(now);
            assert!(bench.wheel.is_empty());
        }
    };
    round(300);
    assert_eq!(allocations(|| round(100)), 0);
}
