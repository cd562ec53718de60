//! What no other test noticed when the driver was changed on purpose (`ci/mutants.sh`): counts, small
//! answers, and what the wheel says of its memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::time::Duration;

use mainspring_driver::wheel::{Due, Place, Rank, Slack, Store, Wheel};
use mainspring_driver::{Clock, Driver, Nanos, TestClock};

thread_local! {
    /// What this thread has allocated and not freed: blocks and bytes.
    static LIVE: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

struct Counting;

fn count(blocks: isize, bytes: isize) {
    // Once a thread's locals are gone, nobody counts.
    let _ = LIVE.try_with(|live| live.set((live.get().0 + blocks, live.get().1 + bytes)));
}

// SAFETY: everything is passed on to `System` as it came; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as isize);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-1, -(layout.size() as isize));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(0, size as isize - layout.size() as isize);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Owners who may put their timers off without telling the wheel.
struct Owners(Vec<(Place, Nanos)>);

impl Store<usize> for Owners {
    fn set_place(&mut self, key: usize, place: Place) {
        self.0[key].0 = place;
    }
    fn deadline(&mut self, key: usize, _: Nanos) -> Nanos {
        self.0[key].1
    }
}

/// A wheel at zero with timers at these deadlines, numbered as they come.
fn wheel_of(deadlines: impl IntoIterator<Item = u64>) -> (Wheel<usize>, Owners) {
    let deadlines = deadlines.into_iter().map(|nanos| (Place::NOWHERE, Nanos::new(nanos)));
    let (mut wheel, mut owners) = (Wheel::new(Nanos::ZERO), Owners(deadlines.collect()));
    insert_all(&mut wheel, &mut owners);
    (wheel, owners)
}

fn insert_all(wheel: &mut Wheel<usize>, owners: &mut Owners) {
    for key in 0..owners.0.len() {
        let deadline = owners.0[key].1;
        wheel.insert(owners, key, deadline, Rank::new(key as u64, Slack::ZERO));
    }
}

/// Fires all that is due at `nanos`. Returns whom, in order.
fn advance(wheel: &mut Wheel<usize>, owners: &mut Owners, nanos: u64) -> Vec<usize> {
    let mut fired = vec![];
    loop {
        match wheel.next_due(owners, Nanos::new(nanos), &mut usize::MAX.clone()) {
            Due::Fire { key, .. } => fired.push(key),
            Due::Exhausted => {}
            Due::Idle => return fired,
        }
    }
}

thread_local! {
    /// What the next clone of a waker does.
    static ON_CLONE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// A waker that does [`ON_CLONE`] when it is cloned, and nothing else.
fn busy_waker() -> Waker {
    fn clone(data: *const ()) -> RawWaker {
        let action = ON_CLONE.take();
        if let Some(action) = action {
            action();
        }
        RawWaker::new(data, &VTABLE)
    }
    fn nothing(_: *const ()) {}
    static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, nothing, nothing, nothing);
    // SAFETY: no function of the table follows the data, which belongs to nobody, so they may be called on any
    // thread, in any order, any number of times.
    unsafe { Waker::new(std::ptr::null(), &VTABLE) }
}

#[test]
fn a_timer_that_ends_while_its_new_waker_is_cloned_says_that_it_ended_otherwise() {
    // Cloning is foreign code, and comes before the lock: meanwhile the timer fires, or the driver is closed.
    for close in [false, true] {
        let clock = TestClock::new(Nanos::ZERO);
        let mut driver = Driver::new(clock.clock(), || ());
        let mut timer = Box::pin(driver.handle().sleep(Duration::from_secs(1)));
        let first = timer.as_mut().poll_elapsed(&mut Context::from_waker(Waker::noop()));
        assert!(first.is_pending());
        ON_CLONE.set(Some(Box::new(move || {
            if close {
                driver.shutdown();
            } else {
                assert_eq!(driver.process(Nanos::from_duration(Duration::from_secs(1)), 100).fired, 1);
            }
        })));
        let polled = timer.as_mut().poll_elapsed(&mut Context::from_waker(&busy_waker()));
        assert_eq!(polled.map(|ended| ended.is_err()), Poll::Ready(close));
    }
}

#[test]
fn small_answers_are_wrong() {
    let clock = TestClock::new(Nanos::new(5));
    clock.advance(Duration::from_nanos(7));
    assert_eq!((clock.now(), clock.clock().now()), (Nanos::new(12), Nanos::new(12)));

    let (mut one, two) = (Driver::new(clock.clock(), || ()), Driver::new(clock.clock(), || ()));
    assert!(one.handle().same_driver(&one.handle().clone()) && !one.handle().same_driver(two.handle()));
    assert!(!one.handle().is_shutdown());
    one.shutdown();
    assert!(one.handle().is_shutdown() && !two.handle().is_shutdown());
}

#[test]
fn a_tolerance_of_millennia_becomes_a_short_one() {
    let longest = Slack::at_most_nanos(u64::MAX);
    for seconds in [1 << 40, 1 << 50, u64::MAX / 2, u64::MAX] {
        assert_eq!(Slack::at_most(Duration::from_secs(seconds)), longest, "{seconds} s");
    }
}

#[test]
fn a_real_clock_stands_still() {
    let clock = Clock::monotonic();
    let before = clock.now();
    std::thread::sleep(Duration::from_millis(2));
    assert!(clock.now() >= before.saturating_add(Duration::from_millis(2)));
}

#[test]
fn a_far_timer_polled_without_end_reads_the_clock_too_often_or_never() {
    let clock = TestClock::new(Nanos::ZERO);
    let mut driver = Driver::new(clock.clock(), || ());
    let mut cx = Context::from_waker(Waker::noop());
    let mut timer = Box::pin(driver.handle().sleep(Duration::from_millis(100)));
    assert!(timer.as_mut().poll_elapsed(&mut cx).is_pending());
    for polls in [20, 64] {
        // A turn of the driver begins the count anew. After it the clock runs on, unseen.
        assert_eq!(driver.process(Nanos::ZERO, 100).fired, 0);
        clock.set(Nanos::from_duration(Duration::from_millis(200)));
        for poll in 1..=polls {
            let ready = timer.as_mut().poll_elapsed(&mut cx).is_ready();
            assert_eq!(ready, poll == 64, "at poll {poll}");
        }
    }
    assert_eq!((driver.handle().stats().live, driver.handle().stats().fired), (0, 1));
}

#[test]
fn a_wheel_whose_store_knows_no_deadlines_forgets_those_it_was_told() {
    struct Nobody;
    impl Store<u32> for Nobody {
        fn set_place(&mut self, _: u32, _: Place) {}
    }
    let mut wheel = Wheel::new(Nanos::ZERO);
    for (key, deadline) in [(1, 300), (2, 100), (3, 200)] {
        wheel.insert(&mut Nobody, key, Nanos::new(deadline), Rank::new(key.into(), Slack::ZERO));
    }
    for expected in [2, 3, 1] {
        let due = wheel.next_due(&mut Nobody, Nanos::new(1_000), &mut 100);
        assert!(matches!(due, Due::Fire { key, .. } if key == expected), "{due:?}");
    }
}

#[test]
fn moves_are_miscounted() {
    // Both wait on level 2 and go straight to level 0 from there, to two slots.
    let (mut wheel, mut owners) = wheel_of([(1 << 30) + 5, (1 << 30) + (1 << 16)]);
    assert_eq!((advance(&mut wheel, &mut owners, 2 << 30), wheel.moved()), (vec![0, 1], 2));

    // Three of level 0 are found to have been put off: two when their slot is split, one when it is asked for.
    let (mut wheel, mut owners) = wheel_of([10, 11, 12]);
    owners.0[2].1 = Nanos::new(50 << 16);
    assert_eq!((wheel.next_deadline(&mut owners), wheel.moved()), (Some(Nanos::new(10)), 1));
    owners.0[0].1 = Nanos::new(40 << 16);
    owners.0[1].1 = Nanos::new(41 << 16);
    assert_eq!((advance(&mut wheel, &mut owners, 20), wheel.moved()), (vec![], 3));
    assert_eq!((advance(&mut wheel, &mut owners, 60 << 16), wheel.moved()), (vec![0, 1, 2], 3));
}

#[test]
fn a_deal_goes_on_when_its_moves_are_used_up() {
    let (mut wheel, mut owners) = wheel_of((0..10).map(|key| (1 << 22) + (key << 16)));
    for expected in [3, 6, 9] {
        let mut moves = 3;
        assert_eq!(wheel.next_due(&mut owners, Nanos::new(2 << 22), &mut moves), Due::Exhausted);
        assert_eq!((moves, wheel.moved()), (0, expected));
    }
    assert_eq!(advance(&mut wheel, &mut owners, 2 << 22), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_wheel_emptied_in_the_middle_of_a_batch_leaves_somebody() {
    let (mut wheel, mut owners) = wheel_of([4, 3, 2, 1, 5 << 16, 6 << 16]);
    assert!(matches!(wheel.next_due(&mut owners, Nanos::new(10), &mut 100), Due::Fire { key: 3, .. }));
    // One of the batch has been cancelled; the rest of it comes first.
    let place = owners.0[1].0;
    assert_eq!(wheel.remove(&mut owners, place), Some(1));
    let mut taken = vec![];
    while let Some((key, filed)) = wheel.take_any() {
        assert_eq!(filed, owners.0[key].1);
        taken.push(key);
        wheel.check(|key| owners.0[key].0);
        assert_eq!(wheel.len() + taken.len(), 4);
    }
    assert_eq!(taken, [2, 0, 4, 5]);
}

#[test]
fn a_timer_put_off_to_now_loses_its_place_among_equals() {
    let (mut wheel, mut owners) = wheel_of([10, 20, 5]);
    owners.0[0].1 = Nanos::new(20);
    assert_eq!(advance(&mut wheel, &mut owners, 20), [2, 0, 1]);
}

#[test]
fn the_memory_of_a_large_batch_or_of_many_put_off_at_once_is_kept() {
    let (mut wheel, mut owners) = wheel_of((0..5_000).map(|key| 6_000 - key));
    for owner in &mut owners.0 {
        owner.1 = Nanos::new(1 << 20);
    }
    // All are found to be late at once; then all are due at once.
    assert_eq!(advance(&mut wheel, &mut owners, 6_000), []);
    assert_eq!(advance(&mut wheel, &mut owners, 1 << 20).len(), 5_000);
    assert!(wheel.allocated_bytes() > 400_000);
    // Seconds later there is one at a time, which is late and then due.
    for second in 2..100 {
        let start = second << 30;
        owners.0[0].1 = Nanos::new(start);
        wheel.insert(&mut owners, 0, Nanos::new(start), Rank::new(0, Slack::ZERO));
        owners.0[0].1 = Nanos::new(start + 10);
        assert_eq!(advance(&mut wheel, &mut owners, start + 5), []);
        assert_eq!(advance(&mut wheel, &mut owners, start + 10), [0]);
    }
    assert!(wheel.allocated_bytes() < 150_000, "{} bytes", wheel.allocated_bytes());
}

#[test]
fn a_place_that_its_timer_has_left_still_removes_it() {
    // The topmost cell of a slot and one below it.
    for leaver in [1, 0] {
        let (mut wheel, mut owners) = wheel_of([7, 8, 9 << 16]);
        let place = owners.0[leaver].0;
        assert_eq!(wheel.remove(&mut owners, place), Some(leaver));
        let top = if leaver == 0 { Some(1) } else { None };
        assert_eq!(wheel.remove(&mut owners, place), top);
        assert_eq!(wheel.len(), 2 - usize::from(leaver == 0));
    }
}

#[test]
fn a_timer_put_off_after_it_was_sorted_is_moved_unseen() {
    let clock = TestClock::new(Nanos::ZERO);
    let mut driver = Driver::new(clock.clock(), || ());
    let mut cx = Context::from_waker(Waker::noop());
    let mut timers: Vec<_> = (0..3).map(|_| Box::pin(driver.handle().sleep_until(Nanos::new(10)))).collect();
    for timer in &mut timers {
        assert!(timer.as_mut().poll_elapsed(&mut cx).is_pending());
    }
    // The three are sorted, which costs nothing, and the first fires: two are in the batch.
    let cut = driver.process(Nanos::new(10), 1);
    assert_eq!((cut.fired, cut.more, driver.handle().stats().moved), (1, true, 0));
    timers[1].as_mut().reset(Nanos::new(1_000));
    timers[2].as_mut().reset(Nanos::new(2_000));
    assert_eq!(driver.process(Nanos::new(10), 100).fired, 0);
    assert_eq!(driver.handle().stats().moved, 2);
    assert_eq!(driver.process(Nanos::new(2_000), 100).fired, 2);
}

#[test]
fn the_wheels_account_of_its_memory_is_wrong() {
    let mut owners = Owners((0..3_000).map(|key| (Place::NOWHERE, Nanos::new(1 + key))).collect());
    let before = LIVE.get().1;
    let held = |wheel: &Wheel<usize>| assert_eq!(wheel.allocated_bytes() as isize, LIVE.get().1 - before);
    let mut wheel = Wheel::new(Nanos::ZERO);
    held(&wheel);
    insert_all(&mut wheel, &mut owners);
    held(&wheel);
    // Some were put off, so that there is a list of late ones; most make a large batch.
    for key in 0..100 {
        owners.0[key].1 = Nanos::new(1 << 20);
    }
    let due = wheel.next_due(&mut owners, Nanos::new(5_000), &mut usize::MAX.clone());
    assert!(matches!(due, Due::Fire { key: 100, .. }));
    held(&wheel);
    while let Due::Fire { .. } = wheel.next_due(&mut owners, Nanos::new(2 << 20), &mut usize::MAX.clone()) {
        held(&wheel);
    }
    // Long after the burst its memory is given back, and the list of what is vacant is memory too.
    for second in 1..100 {
        assert_eq!(wheel.next_due(&mut owners, Nanos::new(second << 30), &mut 100), Due::Idle);
        held(&wheel);
    }
    assert!(wheel.is_empty());
}

#[test]
fn memory_that_recurs_is_given_back_or_a_bursts_is_kept() {
    let (mut wheel, mut owners) = wheel_of((0..3_000).map(|key| (1 << 30) + key));
    assert_eq!(advance(&mut wheel, &mut owners, (1 << 30) + 3_000).len(), 3_000);
    let blocks = LIVE.get().0;
    // Within a second of it nothing is released, however often the wheel is asked.
    for step in 0..100 {
        advance(&mut wheel, &mut owners, (1 << 30) + 4_000 + step * 1_000);
    }
    assert_eq!(LIVE.get().0, blocks, "the memory of a habit was released");
    // Then it is, in small steps, but for a handful of chunks.
    let mut last = blocks;
    for second in 2..100 {
        advance(&mut wheel, &mut owners, second << 30);
        let now = LIVE.get().0;
        // The list of what is vacant is a block of its own.
        assert!((last - 8..=last + 1).contains(&now), "{last} blocks became {now} in one step");
        last = now;
    }
    let chunks = 3_000 / 32 + 1;
    let kept = 16;
    let released = blocks - last;
    assert!((chunks - kept - 1..=chunks - kept).contains(&released), "{released} of {chunks} were released");
}

#[test]
fn parks_that_slack_put_off_are_miscounted() {
    let clock = TestClock::new(Nanos::ZERO);
    let mut driver = Driver::new(clock.clock(), || ());
    let handle = driver.handle().clone();
    let park = |driver: &mut Driver, slack: u64| {
        let mut timers = [10_000_000, 10_400_000].map(|at| {
            let timer = handle.sleep_until(Nanos::new(at));
            Box::pin(timer.tolerance(Duration::from_nanos(slack)))
        });
        for timer in &mut timers {
            assert!(timer.as_mut().poll_elapsed(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        let wake = driver.next_wake().unwrap();
        (wake.get(), handle.stats().parks_coalesced)
    };
    assert_eq!(park(&mut driver, 0), (10_000_000, 0), "a park that ends at the deadline");
    assert_eq!(park(&mut driver, 1_000_000), (10_400_000, 1));
    assert_eq!(park(&mut driver, 1_000_000), (10_400_000, 2));
    handle.pause();
    assert_eq!(park(&mut driver, 1_000_000), (10_400_000, 2), "no park, as time stands");
}

#[test]
fn lateness_is_told_wrong() {
    let clock = TestClock::new(Nanos::ZERO);
    let mut driver = Driver::new(clock.clock(), || ());
    let mut timer = Box::pin(driver.handle().sleep_until(Nanos::new(1_000)));
    assert!(timer.as_mut().poll_elapsed(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(driver.process(Nanos::new(5_001_000), 100).fired, 1);
    let lateness = driver.handle().lateness();
    assert_eq!((lateness.count(), lateness.max()), (1, Duration::from_millis(5)));
}

#[test]
fn timers_that_a_shutdown_ends_are_miscounted() {
    let mut driver = Driver::new(TestClock::new(Nanos::ZERO).clock(), || ());
    let mut timers = [1, 2, 3].map(|at| Box::pin(driver.handle().sleep_until(Nanos::new(at))));
    for timer in &mut timers {
        assert!(timer.as_mut().poll_elapsed(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    driver.shutdown();
    let stats = driver.handle().stats();
    assert_eq!((stats.armed, stats.cancelled, stats.fired, stats.live), (3, 3, 0, 0));
}
