//! The life of a `TimerEntry`: armed, moved, fired, cancelled, dropped, forgotten, in every order, even after
//! its driver is gone. Each test is named after the promise it keeps. `resets.rs` has resets and the order.

#[path = "../probe/mod.rs"]
mod probe;
mod resets;

use std::marker::PhantomData;
use std::task::{Poll, Waker};
use std::time::Duration;

use futures::executor::block_on;
use mainspring_driver::wheel::Wheel;
use mainspring_driver::{Driver, Handle, Nanos, TimerEntry};
use probe::{Fixture, Probe, READY, poll};

const MS: u64 = 1_000_000;

/// Tells whether a type has a trait: the inherent constant exists only if the type has the trait, and takes
/// precedence over the constant of [`Otherwise`].
struct Ask<T>(PhantomData<T>);
trait Otherwise {
    const SEND: bool = false;
    const SYNC: bool = false;
    const UNPIN: bool = false;
    const CLONE: bool = false;
}
impl<T> Otherwise for Ask<T> {}
impl<T: Send> Ask<T> {
    const SEND: bool = true;
}
impl<T: Sync> Ask<T> {
    const SYNC: bool = true;
}
impl<T: Unpin> Ask<T> {
    const UNPIN: bool = true;
}
impl<T: Clone> Ask<T> {
    const CLONE: bool = true;
}

// event-listener RUSTSEC-2026-0221: a listener was Send and Sync where it must not be.
const _: () = {
    assert!(Ask::<TimerEntry>::SEND && Ask::<TimerEntry>::SYNC, "timers may go to other threads");
    assert!(!Ask::<TimerEntry>::UNPIN, "the wheel points at a timer: it must stay where it is");
    assert!(!Ask::<TimerEntry>::CLONE);
    assert!(Ask::<Driver>::SEND && Ask::<Driver>::SYNC && Ask::<Driver>::UNPIN);
    assert!(!Ask::<Driver>::CLONE, "one driver parks and fires, and one only");
    assert!(Ask::<Handle>::SEND && Ask::<Handle>::SYNC && Ask::<Handle>::CLONE);
    // A wheel is Send and Sync if its keys are, and only then.
    assert!(Ask::<Wheel<u32>>::SEND && Ask::<Wheel<u32>>::SYNC);
    assert!(!Ask::<Wheel<*const u8>>::SEND && !Ask::<Wheel<*const u8>>::SYNC);
};

#[test]
fn a_timer_dropped_on_the_tick_it_is_due_does_not_fire() {
    // tokio #3229: a timer is dropped while it waits in the list of timers that will be fired. A budget of
    // one leaves the second timer of the batch waiting.
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    let mut first = f.armed(MS, &probe.waker());
    let second = f.armed(MS, &probe.waker());
    f.clock.set(Nanos::new(MS));
    while f.driver.process(Nanos::new(MS), 1).fired == 0 {}
    f.handle.check();
    assert_eq!((probe.wakes(), f.live()), (1, 1), "the second one is not waiting to be fired");
    drop(second);
    f.handle.check();
    assert_eq!(f.advance_to(MS), 0);
    assert_eq!((probe.wakes(), probe.wakers()), (1, 0));
    assert_eq!(poll(&mut first, Waker::noop()), READY);
}

#[test]
fn a_timer_reset_after_it_fired_fires_again() {
    // tokio #2587.
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    let mut timer = f.armed(MS, &probe.waker());
    assert_eq!(f.advance_to(MS), 1);
    assert!(timer.is_elapsed());
    assert_eq!(poll(&mut timer, Waker::noop()), READY);
    timer.as_mut().reset(Nanos::new(3 * MS));
    assert!(!timer.is_elapsed());
    assert_eq!((f.live(), timer.deadline()), (0, Nanos::new(3 * MS)));
    assert!(poll(&mut timer, &probe.waker()).is_pending());
    assert!(poll(&mut timer, &probe.waker()).is_pending());
    assert_eq!((f.advance_to(3 * MS - 1), f.advance_to(3 * MS)), (0, 1));
    assert_eq!((poll(&mut timer, Waker::noop()), probe.wakes(), probe.wakers()), (READY, 2, 0));
}

#[test]
fn a_timer_moved_onto_anothers_tick_and_dropped_leaves_no_hole() {
    // `b` is moved onto `c`'s tick, `a` fires, then `b` is dropped.
    for (silent, b_at) in [(true, 2 * MS), (false, 9 * MS)] {
        let mut f = Fixture::new();
        let probe = Probe::new(&f.handle);
        let _a = f.armed(MS, &probe.waker());
        let mut b = f.armed(b_at, &probe.waker());
        let mut c = f.armed(3 * MS, &probe.waker());
        b.as_mut().reset(Nanos::new(3 * MS));
        assert_eq!(f.handle.stats().reset, u64::from(silent));
        f.handle.check();
        assert_eq!(f.advance_to(2 * MS), 1);
        drop(b);
        f.handle.check();
        assert_eq!(f.advance_to(3 * MS), 1);
        assert_eq!((poll(&mut c, Waker::noop()), probe.wakes()), (READY, 2));
    }
}

#[test]
fn a_timer_may_be_moved_in_memory_before_its_first_poll() {
    let mut f = Fixture::new();
    let timers: Vec<TimerEntry> = (1..=50).map(|i| f.handle.sleep_until(Nanos::new(i * MS))).collect();
    let mut timers: Vec<_> = timers.into_iter().rev().map(Box::pin).collect();
    for timer in &mut timers {
        assert!(poll(timer, Waker::noop()).is_pending());
    }
    // A pinned box may be moved, because its contents stay where they are.
    timers.reverse();
    f.handle.check();
    for (i, timer) in timers.iter_mut().enumerate() {
        assert_eq!(f.advance_to((i as u64 + 1) * MS), 1);
        assert_eq!(poll(timer, Waker::noop()), READY);
    }
}

#[test]
fn a_timer_that_is_forgotten_does_no_harm() {
    // Forgetting a pinned box leaks it: the wheel may point at it forever.
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    let forgotten = f.armed(MS, &probe.waker());
    let mut forgotten = std::mem::ManuallyDrop::new(forgotten);
    let never = std::mem::ManuallyDrop::new(f.armed(u64::MAX, &probe.waker()));
    assert_eq!(f.advance_to(MS), 1);
    assert_eq!((probe.wakes(), f.live()), (1, 1));
    f.driver.shutdown();
    assert_eq!((probe.wakes(), f.live(), probe.wakers()), (2, 0, 0));
    drop(f);
    // Only so that the test itself does not leak.
    assert_eq!(poll(&mut forgotten, Waker::noop()), READY);
    drop((std::mem::ManuallyDrop::into_inner(forgotten), std::mem::ManuallyDrop::into_inner(never)));
}

#[test]
fn a_timer_dropped_in_any_state_gives_back_its_waker_and_its_place() {
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    drop(f.at(MS));
    drop(f.armed(MS, &probe.waker()));
    assert_eq!((f.live(), probe.wakers()), (0, 0));
    let mut cancelled = f.armed(MS, &probe.waker());
    cancelled.as_mut().cancel();
    assert_eq!((f.live(), probe.wakers()), (0, 0));
    drop(cancelled);
    let fired = f.armed(MS, &probe.waker());
    f.advance_to(MS);
    drop(fired);
    let shut = f.armed(2 * MS, &probe.waker());
    f.driver.shutdown();
    drop(shut);
    assert_eq!((f.live(), probe.wakers(), probe.wakes()), (0, 0, 2));
    let stats = f.handle.stats();
    assert_eq!((stats.armed, stats.fired, stats.cancelled), (4, 1, 3));
}

#[test]
fn of_timers_that_are_gone_the_driver_does_not_speak() {
    // Timers that are dropped leave the wheel together, a few at a time; their memory is free at once.
    type Action = fn(&mut Fixture, &mut Vec<probe::Timer>);
    let actions: [Action; 9] = [
        |f, _| f.handle.check(),
        |f, timers| assert_eq!(f.handle.pending().len(), timers.len()),
        |f, timers| assert_eq!(f.handle.occupancy().timers(), timers.len()),
        |f, _| assert!(f.driver.next_wake() >= Some(Nanos::new(8 * MS))),
        |f, _| assert!(f.driver.next_deadline() >= Some(Nanos::new(8 * MS))),
        |f, _| assert_eq!(f.advance_to(7 * MS), 0),
        |_, timers| {
            // To an earlier time, in the same slot and in another slot.
            for at in [8 * MS + 1, 7 * MS] {
                timers[3].as_mut().reset(Nanos::new(at));
            }
        },
        |f, timers| {
            // New timers where the dropped ones were, and with the same deadlines.
            timers.extend((0..9).map(|key| f.armed(9 * MS - 3 * key * 1_000, Waker::noop())));
        },
        |_, timers| {
            // The same timers again.
            for timer in &mut timers[..5] {
                timer.as_mut().cancel();
                assert!(poll(timer, Waker::noop()).is_pending());
            }
        },
    ];
    // The timers are in the wheel when they are dropped, or not yet.
    for ((number, action), filed) in
        actions.into_iter().enumerate().flat_map(|one| [(one, true), (one, false)])
    {
        // Up to two groups of sixteen, which arrive or leave together. Miri takes minutes for more.
        for dropped in if cfg!(miri) { &[17][..] } else { &[1, 5, 9, 10, 15, 16, 17, 33] } {
            let mut f = Fixture::new();
            let all = dropped + 7;
            let mut timers: Vec<_> =
                (0..all as u64).map(|key| f.armed(9 * MS - key * 1_000, Waker::noop())).collect();
            if filed {
                f.handle.check();
            }
            drop(timers.drain(1..1 + dropped));
            assert_eq!(f.live(), 7);
            action(&mut f, &mut timers);
            f.handle.check();
            let case = format!("action {number}, {dropped} dropped, filed: {filed}");
            assert_eq!(f.live(), timers.len(), "{case}");
            assert_eq!(f.advance_to(9 * MS), timers.len(), "{case}");
        }
    }
}

#[test]
fn timers_that_have_just_been_armed_fire_in_their_order_whatever_is_done_to_them() {
    // More timers than are filed together; the operations find some of them filed and others not.
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    let all = if cfg!(miri) { 70 } else { 100 };
    let mut timers: Vec<_> = (0..all).map(|key| f.armed(MS + 1_000 * (key % 10), &probe.waker())).collect();
    for (key, timer) in timers.iter_mut().enumerate() {
        match key % 5 {
            0 => timer.as_mut().cancel(),
            // Earlier; later; and later first and then earlier.
            1 => timer.as_mut().reset(Nanos::new(MS - key as u64)),
            2 => timer.as_mut().reset(Nanos::new(2 * MS + key as u64)),
            3 => {
                timer.as_mut().reset(Nanos::new(3 * MS));
                timer.as_mut().reset(Nanos::new(MS + 500 - key as u64));
            }
            _ => {}
        }
        assert_eq!(f.live(), all as usize - key / 5 - 1);
    }
    let mut expected: Vec<_> = timers.iter().enumerate().filter(|(key, _)| key % 5 > 0).collect();
    expected.sort_by_key(|(key, timer)| (timer.deadline(), *key));
    let pending: Vec<_> = f.handle.pending().iter().map(|pending| pending.deadline).collect();
    assert_eq!(pending, expected.iter().map(|(_, timer)| timer.deadline()).collect::<Vec<_>>());
    f.handle.check();
    let mut now = 0;
    for (_, timer) in &expected {
        let at = timer.deadline().get();
        assert_eq!(timer.is_elapsed(), at == now, "{at}");
        if at > now {
            f.advance_to(at - 1);
            assert!(!timer.is_elapsed(), "{at}");
            f.advance_to(at);
            assert!(timer.is_elapsed(), "{at}");
        }
        now = at;
    }
    assert_eq!((f.live(), probe.wakes()), (0, expected.len()));
    drop(timers);
    assert_eq!(probe.wakers(), 0);
}

#[test]
fn a_timer_that_leaves_at_once_moves_none_that_is_about_to_leave() {
    // No timer that was opened is due later than this. So a timer that is due by then leaves at once, even from a slot.
    const OPENED: u64 = (1 << 28) + (3 << 22) + 1_000;
    let leave: [fn(&mut probe::Timer); 2] =
        [|timer| timer.as_mut().cancel(), |timer| timer.as_mut().reset(Nanos::new((1 << 28) + 1_000))];
    for leave in leave {
        let mut f = Fixture::new();
        let (_first, _opened) = (f.armed(1 << 28, Waker::noop()), f.armed(OPENED, Waker::noop()));
        assert_eq!(f.advance_to(1 << 28), 1);
        // A row with so few timers left that others move when one more leaves.
        let at = |key: u64| if key == 83 { OPENED - 1 } else { OPENED + key };
        let mut row: Vec<_> = (0..100).map(|key| f.armed(at(key), Waker::noop())).collect();
        f.handle.check();
        row[..83].iter_mut().for_each(|timer| timer.as_mut().cancel());
        f.handle.check();
        row[84..99].iter_mut().for_each(|timer| timer.as_mut().cancel());
        leave(&mut row[83]);
        f.handle.check();
        row[84..99].iter_mut().for_each(|timer| assert!(poll(timer, Waker::noop()).is_pending()));
        f.handle.check();
        let left = f.live();
        assert!([17, 18].contains(&left));
        assert_eq!(f.advance_to(2 * OPENED), left);
    }
}

#[test]
fn a_cancelled_timer_does_not_fire_and_can_be_armed_again() {
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    let mut timer = f.armed(MS, &probe.waker());
    timer.as_mut().cancel();
    timer.as_mut().cancel();
    assert_eq!((f.advance_to(MS / 2), probe.wakes()), (0, 0));
    assert!(poll(&mut timer, &probe.waker()).is_pending());
    assert_eq!((f.advance_to(MS), probe.wakes()), (1, 1));
    timer.as_mut().cancel();
    assert!(!timer.is_elapsed());
    assert_eq!(poll(&mut timer, Waker::noop()), READY, "its deadline is past");
}

#[test]
fn a_timer_without_end_never_fires_and_can_be_cancelled() {
    // tokio #3551, #5183, #5710.
    let mut f = Fixture::starting_at(12_345);
    let probe = Probe::new(&f.handle);
    for duration in [
        Duration::MAX,
        Duration::from_secs(u64::MAX),
        Duration::from_millis(i64::MAX as u64),
        Duration::from_millis(u64::MAX),
        Duration::from_nanos(u64::MAX),
    ] {
        let mut timer = Box::pin(f.handle.sleep(duration));
        assert_eq!(timer.deadline(), Nanos::NEVER);
        assert!(poll(&mut timer, &probe.waker()).is_pending());
        assert_eq!(f.driver.next_deadline(), Some(Nanos::NEVER));
        assert_eq!(f.driver.next_wake(), Some(Nanos::NEVER));
        timer.as_mut().reset(Nanos::new(u64::MAX));
        let now = f.clock.now();
        assert_eq!(f.advance_to(now.get() + 365 * 86_400_000 * MS), 0);
        assert!(poll(&mut timer, &probe.waker()).is_pending());
        timer.as_mut().cancel();
        assert_eq!((f.live(), probe.wakers()), (0, 0));
        assert!(poll(&mut timer, &probe.waker()).is_pending());
        drop(timer);
        assert_eq!((f.live(), probe.wakers(), probe.wakes()), (0, 0, 0));
    }
}

#[test]
fn the_end_of_time_never_comes() {
    // Even if a clock shows that time.
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    let mut timer = f.armed(u64::MAX, &probe.waker());
    let mut last = f.armed(Nanos::NEVER.get() - 1, &probe.waker());
    assert_eq!(f.advance_to(u64::MAX), 1);
    assert_eq!((poll(&mut last, &probe.waker()), poll(&mut timer, &probe.waker())), (READY, Poll::Pending));
    assert!(poll(&mut f.at(u64::MAX), &probe.waker()).is_pending(), "never was reached");
    assert_eq!((probe.wakes(), f.live()), (1, 1));
}

#[test]
fn a_poll_with_another_waker_replaces_the_old_one() {
    let mut f = Fixture::new();
    let (old, new) = (Probe::new(&f.handle), Probe::new(&f.handle));
    let mut timer = f.armed(MS, &old.waker());
    assert_eq!((old.wakers(), old.drops()), (1, 1), "the test's own waker was dropped");
    assert!(poll(&mut timer, &old.waker()).is_pending());
    assert_eq!((old.wakers(), old.drops()), (1, 2), "the same waker was cloned again");
    assert!(poll(&mut timer, &new.waker()).is_pending());
    assert_eq!((old.wakers(), new.wakers()), (0, 1));
    f.advance_to(MS);
    assert_eq!((old.wakes(), new.wakes(), new.wakers()), (0, 1, 0));
}

#[test]
fn a_timer_that_outlives_its_driver_says_that_it_was_shut_down() {
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    let mut armed = f.armed(MS, &probe.waker());
    let mut fired = f.armed(MS / 2, &probe.waker());
    f.advance_to(MS / 2);
    let mut never_polled = f.at(MS);
    let past = f.at(3);
    let handle = f.handle.clone();
    drop(f);
    assert_eq!((probe.wakes(), probe.wakers()), (2, 0));
    assert!(handle.is_shutdown());
    let ended = std::thread::spawn(move || {
        assert_eq!(poll(&mut fired, Waker::noop()), READY, "it fired before the shutdown");
        assert!(matches!(poll(&mut armed, Waker::noop()), Poll::Ready(Err(_))));
        assert!(matches!(poll(&mut never_polled, Waker::noop()), Poll::Ready(Err(_))));
        assert_eq!(block_on(past), Ok(()), "its deadline was past before the shutdown");
        // That stays so, whatever is done to the timer.
        armed.as_mut().reset(Nanos::new(9 * MS));
        armed.as_mut().cancel();
        armed.as_mut().set_tolerance(None);
        assert!(matches!(poll(&mut armed, Waker::noop()), Poll::Ready(Err(_))));
        let refused = block_on(handle.sleep(Duration::from_secs(3600)));
        assert_eq!(refused.map_err(|e| e.to_string()), Err("the timer driver was shut down".to_owned()));
        assert_eq!(handle.stats().live, 0);
    });
    ended.join().expect("nothing failed on the other thread");
}

#[test]
#[cfg_attr(
    miri,
    ignore = "each of its thousands of wakes asks another thread, which takes Miri a quarter of an hour"
)]
fn a_shutdown_in_the_middle_of_a_drain_loses_no_timer() {
    // With a cascade and a drain that are half done, and wakers that drop other timers.
    for budget in [1, 7, 60, 90] {
        let mut f = Fixture::new();
        let probe = Probe::new(&f.handle);
        let slot = 1 << 22;
        let timers: Vec<_> = (0..100).map(|i| f.armed(slot + i * 5, &probe.waker())).collect();
        let others: Vec<_> = (0..40).map(|i| f.armed(slot + i * 40_000, Waker::noop())).collect();
        let mut kept = Some(others);
        probe.on_wake(move || drop(kept.take()));
        let now = slot + 1_000_000;
        f.clock.set(Nanos::new(now));
        let fired = f.driver.process(Nanos::new(now), budget).fired;
        f.driver.shutdown();
        f.driver.shutdown();
        assert_eq!(probe.wakes(), 100, "after a budget of {budget}, which fired {fired}");
        assert_eq!((f.live(), probe.wakers()), (0, 0));
        assert_eq!(f.driver.next_wake(), None);
        for mut timer in timers {
            assert!(poll(&mut timer, Waker::noop()).is_ready());
        }
    }
}

#[test]
fn a_timer_that_was_told_of_the_shutdown_is_told_again_whatever_its_owner_does() {
    let mut f = Fixture::new();
    let mut timer = f.armed(MS, Waker::noop());
    f.driver.shutdown();
    let mut is_told = |change: &dyn Fn(std::pin::Pin<&mut TimerEntry>)| {
        change(timer.as_mut());
        matches!(poll(&mut timer, Waker::noop()), Poll::Ready(Err(_)))
    };
    assert!(is_told(&|_| ()) && is_told(&|_| ()));
    assert!(is_told(&|timer| timer.cancel()));
    for deadline in [0, MS, 2 * MS] {
        assert!(is_told(&|timer| timer.reset(Nanos::new(deadline))), "reset to {deadline}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "twenty thousand timers take Miri long")]
fn a_shutdown_of_a_crowd_of_which_most_were_cancelled_lets_its_wakers_drop_the_others() {
    // All timers are in one slot and out of order, so that holes stay; as many are cancelled as the wheel allows without
    // moving a cell.
    let mut f = Fixture::new();
    let probe = Probe::new(&f.handle);
    let mut timers: Vec<_> = (0..20_000).map(|n| f.armed((1 << 41) - n, &probe.waker())).collect();
    let mut last = timers.split_off(19_960);
    let others = timers.split_off(15_000);
    drop(timers);
    // When few timers are left, each wake drops one of those that come last.
    let mut wakes = 0;
    probe.on_wake(move || {
        wakes += 1;
        if wakes > 4_940 {
            last.truncate(last.len().saturating_sub(1));
        }
    });
    f.driver.shutdown();
    assert!(probe.wakes() < 5_000, "none was dropped before it was reached");
    assert_eq!((f.live(), probe.wakers()), (0, 0));
    for mut timer in others {
        assert!(matches!(poll(&mut timer, Waker::noop()), Poll::Ready(Err(_))), "it is told");
    }
}
