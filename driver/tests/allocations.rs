//! A steady state allocates nothing, and a burst's memory is given back. The allocator itself counts, for the
//! thread of each test alone.

mod counting;

use std::pin::Pin;
use std::task::{Context, Waker};

use counting::{allocations, bytes};
use mainspring_driver::{Driver, Handle, Nanos, TestClock, TimerEntry};

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
    assert_eq!(allocations(|| drop(std::hint::black_box(Vec::<u8>::new()))), 0);
}

/// A driver, a clock and timers that stay where they are.
struct House {
    driver: Driver,
    handle: Handle,
    clock: TestClock,
    timers: Vec<Pin<Box<TimerEntry>>>,
}

const MS: u64 = 1_000_000;

impl House {
    fn new(timers: usize) -> House {
        let clock = TestClock::new(Nanos::ZERO);
        let driver = Driver::new(clock.clock(), || ());
        let handle = driver.handle().clone();
        let timers = (0..timers).map(|_| Box::pin(handle.sleep_until(Nanos::NEVER))).collect();
        House { driver, handle, clock, timers }
    }

    fn now(&self) -> u64 {
        self.clock.now().get()
    }

    fn arm(&mut self, index: usize, deadline: u64) {
        let timer = &mut self.timers[index];
        timer.as_mut().reset(Nanos::new(deadline));
        let pending = timer.as_mut().poll_elapsed(&mut Context::from_waker(Waker::noop())).is_pending();
        assert!(pending, "a timer at {deadline} is due at once");
    }

    fn turn(&mut self, to: u64) -> usize {
        self.clock.set(Nanos::new(to));
        let processed = self.driver.process(Nanos::new(to), usize::MAX);
        let _ = self.driver.next_wake();
        processed.fired
    }

    /// Runs `round` until everything has its final size, and counts the allocations of the rounds after that.
    fn steady(&mut self, mut round: impl FnMut(&mut House)) -> u64 {
        for _ in 0..200 {
            round(self);
        }
        allocations(|| {
            for _ in 0..200 {
                round(self);
            }
        })
    }
}

#[test]
fn timers_that_are_dropped_before_the_drivers_next_step_leave_no_trace_in_the_wheel() {
    // As many timers as are filed together; each in a slot of its own, which would need memory.
    let mut house = House::new(16);
    let to_and_fro = |house: &mut House| {
        (0..16).for_each(|index| house.arm(index, 100 << (3 * index)));
        house.timers.iter_mut().for_each(|timer| timer.as_mut().cancel());
    };
    assert_eq!(allocations(|| (0..10).for_each(|_| to_and_fro(&mut house))), 0);
    // Timers that wait for the step are filed.
    (0..16).for_each(|index| house.arm(index, 100 << (3 * index)));
    assert!(allocations(|| assert_eq!(house.turn(1), 0)) >= 10);
}

#[test]
fn making_arming_and_dropping_a_timer_allocates_nothing() {
    let mut house = House::new(0);
    let once = || {
        let now = house.now();
        let mut timer = std::pin::pin!(house.handle.sleep_until(Nanos::new(now + MS)));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(timer.as_mut().poll_elapsed(&mut cx).is_pending());
        timer.as_mut().cancel();
        assert!(timer.as_mut().poll_elapsed(&mut cx).is_pending());
    };
    once();
    assert_eq!(allocations(|| (0..100).for_each(|_| once())), 0);
    house.turn(5 * MS);
}

#[test]
fn timers_that_fire_and_are_armed_again_allocate_nothing() {
    let mut house = House::new(1_000);
    let allocated = house.steady(|house| {
        let now = house.now();
        for index in 0..1_000 {
            house.arm(index, now + MS + index as u64 * 1_003);
        }
        for step in 1..=10 {
            house.turn(now + step * MS / 4);
        }
    });
    assert_eq!(allocated, 0);
}

#[test]
fn a_crowd_that_ticks_together_allocates_nothing() {
    // Between two ticks all of the crowd's memory is free, for a moment.
    for period in [MS, 100 * MS] {
        let mut house = House::new(5_000);
        let allocated = house.steady(|house| {
            let tick = house.now() + period;
            for index in 0..5_000 {
                house.arm(index, tick);
            }
            for step in 1..=4 {
                let fired = house.turn(tick - period + period / 4 * step);
                assert_eq!(fired, if step == 4 { 5_000 } else { 0 });
            }
        });
        assert_eq!(allocated, 0, "with a period of {period} ns");
    }
}

#[test]
fn timers_that_are_moved_to_a_later_time_allocate_nothing_when_their_old_cell_comes_due() {
    // A heartbeat: every message pushes the expiry back, and the wheel finds out later.
    let mut house = House::new(5_000);
    let now = house.now();
    (0..5_000).for_each(|index| house.arm(index, now + 3 * MS));
    let allocated = house.steady(|house| {
        let now = house.now();
        for timer in &mut house.timers {
            timer.as_mut().reset(Nanos::new(now + 3 * MS));
        }
        assert_eq!(house.turn(now + MS), 0);
    });
    assert_eq!(allocated, 0);
}

#[test]
fn timers_that_are_moved_to_an_earlier_time_allocate_nothing() {
    let mut house = House::new(500);
    let allocated = house.steady(|house| {
        let now = house.now();
        for index in 0..500 {
            house.arm(index, now + 50 * MS);
            house.timers[index].as_mut().reset(Nanos::new(now + MS + index as u64));
        }
        assert_eq!(house.turn(now + 2 * MS), 500);
    });
    assert_eq!(allocated, 0);
}

#[test]
fn a_bursts_memory_is_given_back() {
    let mut house = House::new(1);
    let before = bytes();
    {
        let mut burst = House::new(0);
        std::mem::swap(&mut burst.timers, &mut house.timers);
        for _ in 0..100_000 {
            house.timers.push(Box::pin(house.handle.sleep_until(Nanos::new(MS))));
        }
        for timer in &mut house.timers {
            let _ = timer.as_mut().poll_elapsed(&mut Context::from_waker(Waker::noop()));
        }
        assert!(bytes() - before > 2_400_000);
        assert_eq!(house.turn(MS), 100_000);
        std::mem::swap(&mut burst.timers, &mut house.timers);
    }
    // The program runs on for some seconds, with one timer.
    for _ in 0..5_000 {
        let next = house.now() + MS;
        house.arm(0, next);
        house.turn(next);
    }
    let kept = bytes() - before;
    assert!(kept < 150_000, "{kept} bytes are kept");
}

#[test]
fn a_bursts_memory_is_given_back_although_the_host_parks_for_ever() {
    let mut house = House::new(50_000);
    let before = bytes();
    (0..50_000).for_each(|index| house.arm(index, (1 + index as u64) * 1_000 * MS));
    house.turn(MS);
    assert!(bytes() - before > 1_200_000 && !house.driver.has_spare());
    house.timers.iter_mut().for_each(|timer| timer.as_mut().cancel());
    let mut seconds = 0;
    while house.driver.has_spare() {
        seconds += 1;
        assert!(seconds < 10, "it never ends");
        house.clock.set(Nanos::new(seconds * 1_000 * MS));
        while house.driver.process(house.clock.now(), usize::MAX).releasing {}
    }
    let kept = bytes() - before;
    assert!(kept < 150_000, "{kept} bytes are kept");
}

#[test]
fn a_host_whose_time_stands_is_not_asked_to_wake_up_for_memory() {
    let mut house = House::new(50_000);
    (0..50_000).for_each(|index| house.arm(index, (1 + index as u64) * 1_000 * MS));
    house.turn(MS);
    house.timers.iter_mut().for_each(|timer| timer.as_mut().cancel());
    assert!(house.driver.has_spare());
    assert!(house.handle.pause());
    assert!(!house.driver.has_spare(), "it would wake up for ever");
    assert!(house.handle.resume() && house.driver.has_spare());
}
