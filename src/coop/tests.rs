//! The budget alone: its limit, its slice, and what is outside it.

use super::*;
use futures_task::noop_waker_ref;

const MOST: u32 = super::MOST as u32;

fn take() -> bool {
    match poll_proceed(&mut Context::from_waker(noop_waker_ref())) {
        Poll::Ready(permit) => {
            permit.spend();
            true
        }
        Poll::Pending => false,
    }
}

#[test]
fn a_poll_takes_exactly_the_limit() {
    fresh(|| {
        for _ in 0..LIMIT {
            assert!(has_budget_remaining() && take());
        }
        assert!(!has_budget_remaining());
        assert!(!take());
        assert!(!take());
    });
    assert!(take_exhausted() && !take_exhausted());
    fresh(|| assert!(take()));
    assert!(!take_exhausted());
}

#[test]
fn one_overdue_timer_ends_after_the_budget_and_no_other() {
    let poll_timer = |overdue| poll_proceed_timer(&mut Context::from_waker(noop_waker_ref()), || overdue);
    fresh(|| {
        (0..LIMIT).for_each(|_| assert!(poll_timer(false).map(Permit::spend).is_ready()));
        assert!(!take() && !has_budget_remaining() && poll_timer(false).is_pending());
        // One that waits uses nothing.
        (0..LIMIT).for_each(|_| assert!(poll_timer(true).is_ready()));
        assert!(poll_timer(true).map(Permit::spend).is_ready());
        assert!(poll_timer(true).is_pending() && poll_timer(false).is_pending() && !take());
    });
    fresh(|| {
        while take() {}
        assert!(poll_timer(true).map(Permit::spend).is_ready() && poll_timer(true).is_pending());
    });
    assert!(take_exhausted());
    // Code that goes on asking is an executor of its own.
    fresh(|| {
        while take() {}
        assert!((0..REFUSALS).any(|_| poll_timer(false).is_ready()));
    });
}

#[test]
fn an_unspent_permit_is_free() {
    fresh(|| {
        for _ in 0..10 * LIMIT {
            let _ = poll_proceed(&mut Context::from_waker(noop_waker_ref())).is_ready();
        }
        assert!(take());
    });
}

#[test]
fn unlimited_and_outside_have_no_limit_and_give_back() {
    assert!((0..1000).all(|_| take()));
    fresh(|| {
        for _ in 0..LIMIT {
            assert!(take());
        }
        unlimited(|| assert!((0..1000).all(|_| take())));
        assert!(!take());
    });
    let panicked = std::panic::catch_unwind(|| fresh(|| panic!("inside a poll")));
    assert!(panicked.is_err());
    assert!((0..1000).all(|_| take()));
}

std::thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
}

fn now() -> Nanos {
    Nanos::new(NOW.with(Cell::get))
}

/// A slice that begins now.
fn slice(length: u64) -> Slice {
    Slice { until: Nanos::new(now().get() + length), length, now }
}

/// Takes results that take this number of nanoseconds each, until one is refused or the limit is reached. Returns how many it
/// took.
fn take_for(each: u64) -> u64 {
    fresh(|| {
        let mut taken = 0;
        while taken < u64::from(LIMIT) && take() {
            NOW.with(|now| now.set(now.get() + each));
            taken += 1;
        }
        taken
    })
}

#[test]
fn a_slice_ends_a_poll_one_result_late_at_the_most_once_the_results_are_known() {
    for each in [1, 300, 2_000, 30_000, 90_000, 5_000_000] {
        let mut took = 0;
        for _ in 0..8 {
            set_slice(Some(slice(SLICE)));
            took = take_for(each) * each;
        }
        // Here a result is charged before its time passes, and readings of the clock are an eighth of a slice apart.
        let most = SLICE + SLICE / 8 + 2 * each;
        assert!(took <= most, "results of {each} ns were taken for {took} ns");
        assert!(took + each >= SLICE.min(each * u64::from(LIMIT)), "results of {each} ns: only {took} ns");
    }
    set_slice(None);
    assert_eq!(take_for(5_000_000), u64::from(LIMIT));
}

#[test]
fn the_clock_is_looked_at_as_often_as_results_of_the_same_poll_were_long() {
    // Takes this number of results in one poll. Returns after how many results the clock is read from then on.
    let poll = |results: u32, each| {
        set_slice(Some(slice(SLICE)));
        fresh(|| {
            for _ in 0..results {
                assert!(take());
                NOW.with(|now| now.set(now.get() + each));
            }
        });
        BUDGET.with(|budget| u32::from(budget.every.get()))
    };
    assert_eq!(poll(LIMIT, 1), MOST);
    // The time between two polls does not count as the time of a result.
    NOW.with(|now| now.set(now.get() + 100 * SLICE));
    assert_eq!(poll(MOST, 1), MOST);
    // An eighth of a slice is the time of four results.
    assert_eq!(poll(2 * MOST, 3_000), 4);
    // The first reading in a poll comes too late.
    assert_eq!([poll(3, 150_000), poll(2, 150_000), poll(1, 150_000)], [2, 1, 1]);
    // No reading is too late again: the expected time shrinks by a quarter with each reading.
    assert_eq!([poll(2, 1_000), poll(2, 1_000), poll(2, 1_000)], [1, 1, 2]);
    assert!((0..20).any(|_| poll(LIMIT / 2, 1_000) >= 12));
    assert_eq!(poll(LIMIT / 2, 1_000), 12);
    assert_eq!(poll(LIMIT, 1), MOST);
    set_slice(None);
}

#[test]
fn a_poll_of_long_results_ends_in_time_although_other_polls_take_short_ones() {
    for each in [20_000, 45_000, 99_000, 1_000_000] {
        for _ in 0..50 {
            (0..20).for_each(|_| {
                set_slice(Some(slice(SLICE)));
                assert_eq!(take_for(100), u64::from(LIMIT));
            });
            set_slice(Some(slice(SLICE)));
            let took = take_for(each) * each;
            // The clock is read after three results and after six. Here a result is charged before its time passes.
            assert!(
                took <= SLICE.max(each) + (2 * u64::from(FIRST) - 1) * each,
                "results of {each} ns were taken for {took} ns"
            );
        }
    }
    set_slice(None);
}

#[test]
fn a_poll_with_two_results_does_not_read_the_clock() {
    fn never() -> Nanos {
        panic!("the clock was read")
    }
    set_slice(Some(Slice { until: Nanos::new(SLICE), length: SLICE, now: never }));
    fresh(|| assert!(take() && take()));
    set_slice(None);
}

#[test]
fn a_slice_of_any_length_ends_a_poll_close_to_its_end() {
    for each in [700, 1_500, 4_000] {
        // What results take is not known yet.
        for _ in 0..30 {
            set_slice(Some(slice(SLICE)));
            take_for(each);
        }
        for length in (5_000..=60_000).step_by(500) {
            set_slice(Some(slice(length)));
            let took = take_for(each) * each;
            // The last of them, and what is expected of one more than it takes.
            assert!(took <= length + 2 * each, "{length} ns, {each} ns each: {took} ns");
            assert!(took + each >= length, "{length} ns, {each} ns each: only {took} ns");
        }
    }
    set_slice(None);
}

#[test]
fn results_are_not_taken_for_long_because_a_poll_comes_to_them_late() {
    for _ in 0..30 {
        set_slice(Some(slice(SLICE)));
        take_for(1_500);
    }
    let every = || BUDGET.with(|budget| budget.every.get());
    let before = every();
    set_slice(Some(slice(5_000)));
    fresh(|| {
        // The poll does something else. Three results would have fitted into the slice, and the third ends as late as that
        // can make it.
        NOW.with(|now| now.set(now.get() + 5_000 + 1_500));
        while take() {
            NOW.with(|now| now.set(now.get() + 1_500));
        }
    });
    assert!(before > 4 && every() == before, "{before}, then {}", every());
    set_slice(None);
}

#[test]
fn results_that_take_longer_than_short_slices_are_noticed() {
    // At first results took little time.
    (0..100).for_each(|_| {
        set_slice(Some(slice(SLICE)));
        take_for(100);
    });
    let every = [(); 8].map(|()| {
        set_slice(Some(slice(5_000)));
        // Here a result is charged before its time passes.
        assert!(take_for(100_000) <= u64::from(FIRST));
        BUDGET.with(|budget| budget.every.get())
    });
    assert!(every[0] > 4 && every[7] == 1, "{every:?}");
    set_slice(None);
}

#[test]
fn a_short_result_does_not_put_the_look_off_at_a_long_one() {
    let took = |until: u64| {
        let began = now();
        set_slice(Some(slice(until)));
        fresh(|| {
            for took in [12_000, 2_000].into_iter().cycle() {
                if !take() {
                    break;
                }
                NOW.with(|now| now.set(now.get() + took));
            }
        });
        now().get() - began.get()
    };
    // What results take is not known yet.
    (0..4).for_each(|_| _ = took(SLICE));
    for until in (SLICE / 2..SLICE).step_by(1_000) {
        // Here a result is charged before its time passes.
        assert!(took(until) <= until + 12_000 + 2_000, "a slice of {until} ns");
    }
    set_slice(None);
}

#[test]
fn what_takes_long_does_not_begin_after_the_end_of_the_slice() {
    let begin = || {
        let mut cx = Context::from_waker(noop_waker_ref());
        std::pin::pin!(permit()).poll(&mut cx).map(Permit::spend).is_ready()
    };
    set_slice(Some(slice(1_000)));
    fresh(|| {
        assert!(begin());
        // The task does something else, for longer than the slice.
        NOW.with(|now| now.set(now.get() + 1_000));
        assert!(!begin() && !has_budget_remaining());
        unlimited(|| assert!(begin()));
    });
    assert!(take_exhausted());
    assert!(begin());
    // A poll that asks this late for the first time has taken nothing yet.
    fresh(|| {
        assert!(begin() && !begin());
        // Code that goes on asking is an executor of its own.
        assert!((0..=REFUSALS).any(|_| begin()));
    });
    // Nor does it begin as the last result of all.
    set_slice(Some(slice(1_000)));
    fresh(|| {
        (1..LIMIT).for_each(|_| assert!(take()));
        NOW.with(|now| now.set(now.get() + 1_000));
        assert!(!begin());
    });
    set_slice(None);
    fresh(|| assert!(begin() && begin()));
}

#[test]
fn a_poll_that_goes_on_although_refused_has_no_limit_from_then_on() {
    fresh(|| {
        assert_eq!((0..LIMIT + REFUSALS).filter(|_| !take()).count(), REFUSALS as usize);
        assert!(!has_budget_remaining());
        assert!((0..10 * LIMIT * LIMIT).all(|_| take() && has_budget_remaining()));
    });
    fresh(|| assert_eq!((0..2 * LIMIT).filter(|_| !take()).count(), LIMIT as usize));
}

#[test]
fn a_poll_that_takes_all_results_before_its_slice_ends_has_used_its_budget_up_too() {
    set_slice(Some(slice(SLICE)));
    assert_eq!(take_for(0), u64::from(LIMIT));
    assert!(take_exhausted());
    // A slice that ends now has ended.
    set_slice(Some(slice(0)));
    fresh(|| assert!(take() && !has_budget_remaining()));
    set_slice(None);
}

#[test]
fn results_that_take_no_time_are_taken_up_to_the_limit() {
    (0..20).for_each(|_| {
        set_slice(Some(slice(SLICE)));
        take_for(0);
    });
    assert_eq!(BUDGET.with(|budget| budget.each.get()), 0);
    set_slice(Some(slice(5_000)));
    assert_eq!(take_for(0), u64::from(LIMIT));
    set_slice(None);
}

#[test]
fn the_time_that_a_result_may_take_grows_at_once() {
    set_slice(Some(slice(SLICE)));
    fresh(|| {
        (0..2 * FIRST).for_each(|_| {
            assert!(take());
            NOW.with(|now| now.set(now.get() + 3_000));
        });
    });
    assert_eq!(BUDGET.with(|budget| budget.each.get()), 3_000);
    set_slice(None);
}

#[test]
fn the_clock_is_read_after_few_results_at_first_and_then_after_many() {
    std::thread_local! {
        static TAKEN: Cell<u32> = const { Cell::new(0) };
        static READ: Cell<Vec<u32>> = const { Cell::new(Vec::new()) };
    }
    fn reading() -> Nanos {
        READ.set(READ.take().into_iter().chain([TAKEN.get()]).collect());
        now()
    }
    // After how many results the clock is read in a poll.
    let readings = |each| {
        TAKEN.set(0);
        fresh(|| {
            for taken in 1..=LIMIT {
                TAKEN.set(taken);
                NOW.with(|now| now.set(now.get() + each));
                if !take() {
                    break;
                }
            }
        });
        READ.take()
    };
    let begin = |length| set_slice(Some(Slice { now: reading, ..slice(length) }));
    let short = [3, 6, 22, 38, 54, 70, 86, 102, 118];
    for length in [SLICE, SLICE / 10] {
        // In the same stretch a poll after one with long results reads the clock soon; a new stretch does not.
        begin(SLICE);
        readings(1_000_000);
        begin(100 * SLICE);
        readings(20_000);
        assert_eq!(readings(20_000)[..3], [1, 2, 3]);
        (0..20).for_each(|_| {
            begin(length);
            readings(1);
        });
        begin(length);
        assert_eq!(readings(1), short);
        assert_eq!(readings(1), short);
    }
    // No longer than until the end of a slice that is short.
    begin(100 * SLICE);
    readings(1_500);
    begin(2_000);
    assert_eq!(readings(1_500)[0], 1);
    set_slice(None);
}

#[test]
fn a_waker_that_panics_leaves_the_next_task_that_wakes_itself_as_it_is() {
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: std::sync::Arc<Self>) {
            panic!("no wake");
        }
    }
    let waker = std::sync::Arc::new(Panics).into();
    set_seen(Nanos::ZERO, Nanos::LAST);
    std::panic::catch_unwind(|| waits_for_others(Nanos::new(1), &waker)).unwrap_err();
    assert!(!take_waits());
    set_seen(Nanos::ZERO, Nanos::ZERO);
}
