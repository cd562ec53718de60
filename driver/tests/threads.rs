//! Timers that are polled, moved and dropped on one thread while the driver runs on another. Each test
//! bears the name of the promise it keeps; a hang ends in a panic that says who waits for what.

mod probe;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use mainspring_driver::{Clock, Driver, Handle, Nanos, Shutdown, TestClock};
use probe::{READY, Timer, poll};

/// Whoever waits longer than this waits in vain.
const HANG: Duration = Duration::from_secs(20);
const MS: u64 = 1_000_000;

struct Random(u64);
impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        ((u128::from(self.0) * u128::from(n)) >> 64) as u64
    }
}

/// Unparks a thread, and counts.
struct Unparker(Thread, AtomicUsize);
impl Unparker {
    fn new() -> Arc<Unparker> {
        Arc::new(Unparker(thread::current(), AtomicUsize::new(0)))
    }
    fn wakes(&self) -> usize {
        self.1.load(SeqCst)
    }
}
impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, SeqCst);
        self.0.unpark();
    }
}

/// Waits for the timer, but not for ever.
fn wait_for(timer: &mut Timer) -> Result<(), Shutdown> {
    let waker = Waker::from(Unparker::new());
    let start = Instant::now();
    loop {
        if let Poll::Ready(result) = poll(timer, &waker) {
            return result;
        }
        // Far longer than any timer here: to return from this park it must be woken.
        thread::park_timeout(HANG + Duration::from_secs(1));
        assert!(start.elapsed() < HANG, "nobody was woken for {timer:?}");
    }
}

/// A driver on a thread of its own, on the real clock.
struct Running {
    handle: Handle,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Running {
    /// Runs until it is stopped, and then shuts down.
    fn new(budget: usize) -> Running {
        let (give, take) = std::sync::mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let run = move || {
            let clock = Clock::monotonic();
            let me = thread::current();
            let mut driver = Driver::new(clock.clone(), move || me.unpark());
            give.send(driver.handle().clone()).expect("somebody waits for it");
            let mut more = false;
            while !stopped.load(SeqCst) {
                if !more {
                    match driver.next_wake() {
                        Some(at) => thread::park_timeout(at.saturating_duration_since(clock.now())),
                        // To return from this one, it must be unparked.
                        None => thread::park_timeout(2 * HANG),
                    }
                }
                more = driver.process(clock.now(), budget).more;
            }
        };
        let thread = thread::spawn(run);
        Running { handle: take.recv().expect("the driver's thread began"), stop, thread }
    }

    fn stop(self) {
        self.stop.store(true, SeqCst);
        self.thread.thread().unpark();
        self.thread.join().expect("the driver's thread failed");
        let stats = self.handle.stats();
        assert_eq!((stats.live, stats.armed), (0, stats.fired + stats.cancelled));
    }
}

#[test]
fn a_timer_used_on_other_threads_is_neither_lost_nor_early() {
    for round in 0..20 {
        let running = Running::new(if round % 2 == 0 { 4 } else { 1_000 });
        let users: Vec<_> = (0..3)
            .map(|user| {
                let handle = running.handle.clone();
                thread::spawn(move || use_timers(&handle, round * 3 + user))
            })
            .collect();
        users.into_iter().for_each(|user| user.join().expect("a user's thread failed"));
        running.stop();
    }
}

fn use_timers(handle: &Handle, seed: u64) {
    let mut random = Random(seed);
    let other = Waker::from(Unparker::new());
    for _ in 0..60 {
        let mut timer = Box::pin(handle.sleep(Duration::from_nanos(random.below(300_000))));
        let first = poll(&mut timer, if random.below(2) == 0 { &other } else { Waker::noop() });
        for _ in 0..random.below(3) {
            let deadline = handle.now().saturating_add(Duration::from_nanos(random.below(600_000)));
            match random.below(4) {
                0 => timer.as_mut().cancel(),
                1 => timer.as_mut().set_tolerance(Some(Duration::ZERO)),
                _ => {}
            }
            timer.as_mut().reset(deadline);
            let _ = poll(&mut timer, &other);
        }
        if random.below(5) == 0 && first.is_pending() {
            drop(timer);
            continue;
        }
        let deadline = timer.deadline();
        assert_eq!(wait_for(&mut timer), Ok(()));
        assert!(handle.clock().now() >= deadline, "early");
    }
}

/// Drives it on this thread, and arms and drops timers here, until `stop`. Returns how many it armed.
fn drive_and_use(driver: &mut Driver, stop: impl Fn() -> bool) -> u64 {
    let mut armed = 0;
    let start = Instant::now();
    while !stop() {
        assert!(start.elapsed() < HANG, "the others hang");
        // More than it takes for the lock to be this thread's alone, if nobody comes meanwhile.
        for n in 0..2_000 {
            let mut timer = Box::pin(driver.handle().sleep(Duration::from_secs(1 + n % 50)));
            assert!(poll(&mut timer, Waker::noop()).is_pending());
            armed += 1;
        }
        let _ = driver.process(driver.handle().now(), 1_000);
    }
    armed
}

#[test]
fn timers_of_the_drivers_own_thread_and_of_three_others_are_all_accounted_for() {
    let mut driver = Driver::new(Clock::monotonic(), || ());
    let handle = driver.handle().clone();
    // How often the others have come. In the second half the driver is driven by another thread than in the first.
    let visits = AtomicU64::new(0);
    let rounds = 60;
    let armed: u64 = thread::scope(|scope| {
        let users: Vec<_> = (0..3)
            .map(|user| {
                let (handle, visits) = (&handle, &visits);
                scope.spawn(move || {
                    for round in 0..rounds {
                        use_timers_once(handle, user * rounds + round);
                        visits.fetch_add(1, SeqCst);
                    }
                    10 * rounds
                })
            })
            .collect();
        let first = scope
            .spawn(|| (drive_and_use(&mut driver, || visits.load(SeqCst) >= 3 * rounds / 2), driver))
            .join()
            .expect("the first thread failed");
        let (first, mut driver) = first;
        // The first thread has ended.
        let second = drive_and_use(&mut driver, || visits.load(SeqCst) == 3 * rounds);
        let others: u64 = users.into_iter().map(|user| user.join().expect("a user's thread failed")).sum();
        first + second + others
    });
    handle.check();
    let stats = handle.stats();
    assert_eq!((stats.live, stats.armed), (0, armed));
    assert_eq!(stats.armed, stats.fired + stats.cancelled);
}

/// Arms ten timers and ends them: by a drop, by a cancel, or by waiting for them.
fn use_timers_once(handle: &Handle, seed: u64) {
    let mut random = Random(seed);
    let mut timers: Vec<Timer> =
        (0..10).map(|n| Box::pin(handle.sleep(Duration::from_secs(n + 10)))).collect();
    let waker = Waker::from(Unparker::new());
    timers.iter_mut().for_each(|timer| assert!(poll(timer, &waker).is_pending()));
    let mut last = timers.pop().expect("there are ten");
    last.as_mut().reset(handle.now().saturating_add(Duration::from_micros(random.below(50))));
    assert_eq!(wait_for(&mut last), Ok(()));
    timers[random.below(9) as usize].as_mut().cancel();
    if random.below(2) == 0 {
        thread::sleep(Duration::from_micros(random.below(100)));
    }
}

#[test]
fn a_timer_armed_around_the_park_ends_it() {
    // tokio #3190, #6682. The driver has nothing to wait for: each of these must end its park.
    let running = Running::new(100);
    let mut random = Random(3);
    for _ in 0..2_000 {
        let mut timer = Box::pin(running.handle.sleep(Duration::from_nanos(1_000 + random.below(40_000))));
        assert_eq!(wait_for(&mut timer), Ok(()));
        for _ in 0..random.below(2_000) {
            std::hint::spin_loop();
        }
    }
    running.stop();
}

#[test]
fn a_shorter_timer_ends_the_park_and_a_longer_one_does_not() {
    let unparks = Arc::new(AtomicUsize::new(0));
    let counted = unparks.clone();
    let clock = TestClock::new(Nanos::ZERO);
    let count = move || {
        counted.fetch_add(1, SeqCst);
    };
    let mut driver = Driver::new(clock.clock(), count);
    let handle = driver.handle().clone();
    let arm = |at: u64| {
        let mut timer = Box::pin(handle.sleep_until(Nanos::new(at)));
        let arm = move || {
            assert!(poll(&mut timer, Waker::noop()).is_pending());
            timer
        };
        thread::spawn(arm).join().expect("armed on another thread")
    };
    let mut kept = vec![arm(500 * MS)];
    assert_eq!(unparks.load(SeqCst), 0, "nobody is parked");
    let mut expected = 0;
    for _ in 0..3 {
        let until = driver.next_wake().expect("a timer is armed");
        let park_end = until.get();
        kept.extend([arm(park_end), arm(park_end + 1), arm(u64::MAX)]);
        assert_eq!(unparks.load(SeqCst), expected, "unparked for nothing");
        // A shorter one ends it, and each that is shorter still: who ended it before may not have got round to it.
        kept.extend([arm(park_end / 2), arm(park_end / 4), arm(park_end / 3), arm(park_end / 4)]);
        expected += 2;
        assert_eq!(unparks.load(SeqCst), expected);
        kept.last_mut().expect("armed").as_mut().reset(Nanos::new(park_end / 5));
        expected += 1;
        assert_eq!(unparks.load(SeqCst), expected);
        assert_eq!(driver.process(Nanos::new(1), 1_000).fired, 0);
        kept.push(arm(park_end / 6));
        assert_eq!(unparks.load(SeqCst), expected, "unparked while it runs");
    }
    // A reset to an earlier time ends the park as well; one to a later time does not.
    let until = driver.next_wake().expect("a timer is armed").get();
    kept[0].as_mut().reset(Nanos::new(600 * MS));
    assert_eq!(unparks.load(SeqCst), expected);
    kept[0].as_mut().reset(Nanos::new(until / 2));
    expected += 1;
    assert_eq!(unparks.load(SeqCst), expected);
    // Without a timer it would park for ever.
    kept.clear();
    while driver.next_wake().is_some_and(|at| driver.process(at, 1_000).fired == 0) {}
    assert_eq!(driver.next_wake(), None);
    kept.extend([arm(u64::MAX), arm(900 * MS)]);
    assert_eq!(unparks.load(SeqCst), expected + 1);
}

#[test]
fn a_thread_held_up_before_its_unpark_holds_up_no_earlier_timer() {
    // The first call of `unpark` does not come through until the second thread is done.
    let (arrived, first_arrived) = std::sync::mpsc::channel();
    let (release, held_up) = std::sync::mpsc::channel::<()>();
    let first = Mutex::new(Some((arrived, held_up)));
    let unparks = Arc::new(AtomicUsize::new(0));
    let unparker = unparks.clone();
    let unpark = move || {
        let first = first.lock().expect("no call panicked").take();
        if let Some((arrived, held_up)) = first {
            arrived.send(()).expect("the test waits for it");
            held_up.recv_timeout(HANG).expect("nobody let it go on");
        }
        unparker.fetch_add(1, SeqCst);
    };
    let mut driver = Driver::new(TestClock::new(Nanos::ZERO).clock(), unpark);
    assert_eq!(driver.next_wake(), None);
    let arm = |at: u64| {
        let handle = driver.handle().clone();
        thread::spawn(move || {
            let mut timer = Box::pin(handle.sleep_until(Nanos::new(at)));
            assert!(poll(&mut timer, Waker::noop()).is_pending());
            timer
        })
    };
    let late = arm(100 * MS);
    first_arrived.recv_timeout(HANG).expect("the first thread ends the park");
    let _early = arm(MS).join().expect("armed");
    assert_eq!(unparks.load(SeqCst), 1, "the earlier timer relies on a thread that is held up");
    // One that is not earlier than both has nothing to end.
    let _between = arm(50 * MS).join().expect("armed");
    assert_eq!(unparks.load(SeqCst), 1);
    release.send(()).expect("the first thread waits");
    let _late = late.join().expect("armed");
    assert_eq!(unparks.load(SeqCst), 2);
}

/// A driver on a thread of its own that drains when it is told to, so that races can be staged.
struct Racer {
    handle: Handle,
    /// To what time it is to drain, and to what it has drained.
    go: Arc<AtomicU64>,
    done: Arc<AtomicU64>,
    thread: JoinHandle<()>,
    random: Random,
}

impl Racer {
    fn new() -> Racer {
        let mut driver = Driver::new(TestClock::new(Nanos::ZERO).clock(), || ());
        let handle = driver.handle().clone();
        let (go, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (told, finished) = (go.clone(), done.clone());
        let thread = thread::spawn(move || {
            let mut last = 0;
            loop {
                match told.load(SeqCst) {
                    u64::MAX => break,
                    now if now == last => thread::yield_now(),
                    now => {
                        let _ = driver.process(Nanos::new(now), usize::MAX);
                        last = now;
                        finished.store(now, SeqCst);
                    }
                }
            }
        });
        Racer { handle, go, done, thread, random: Random(11) }
    }

    /// Does `ours` while the driver drains to `now`.
    fn race<R>(&mut self, now: u64, ours: impl FnOnce() -> R) -> R {
        self.go.store(now, SeqCst);
        for _ in 0..self.random.below(400) {
            std::hint::spin_loop();
        }
        let result = ours();
        let start = Instant::now();
        while self.done.load(SeqCst) != now {
            assert!(start.elapsed() < HANG, "the driver hangs");
            thread::yield_now();
        }
        self.handle.check();
        result
    }

    fn drain(&mut self, now: u64) {
        self.race(now, || ());
    }

    fn stop(self) {
        self.go.store(u64::MAX, SeqCst);
        self.thread.join().expect("the driver's thread failed");
        let stats = self.handle.stats();
        assert_eq!((stats.live, stats.armed), (0, stats.fired + stats.cancelled));
    }
}

/// The races of a round are ten milliseconds apart: further than a pending poll looks at the clock.
fn rounds() -> impl Iterator<Item = u64> {
    (1..=2_000).map(|round| round * 10 * MS)
}

#[test]
fn a_task_that_replaces_its_waker_while_its_timer_fires_learns_of_it() {
    let mut racer = Racer::new();
    for now in rounds() {
        let (old, new) = (Unparker::new(), Unparker::new());
        let mut timer = Box::pin(racer.handle.sleep_until(Nanos::new(now)));
        assert!(poll(&mut timer, &Waker::from(old.clone())).is_pending());
        let waker = Waker::from(new.clone());
        let polled = racer.race(now, || poll(&mut timer, &waker));
        if polled.is_pending() {
            assert_eq!((old.wakes(), new.wakes()), (0, 1), "the last waker was not the one that was woken");
        } else {
            assert_eq!((polled, new.wakes()), (READY, 0));
        }
        assert!(timer.is_elapsed());
        drop(waker);
        assert_eq!((Arc::strong_count(&old), Arc::strong_count(&new)), (1, 1), "a waker was leaked");
    }
    racer.stop();
}

#[test]
fn a_timer_dropped_while_it_fires_is_not_used_afterwards() {
    let mut racer = Racer::new();
    for now in rounds() {
        let unparker = Unparker::new();
        let waker = Waker::from(unparker.clone());
        let arm = |_| {
            let mut timer = Box::pin(racer.handle.sleep_until(Nanos::new(now)));
            assert!(poll(&mut timer, &waker).is_pending());
            timer
        };
        let mut timers: Vec<_> = (0..8).map(arm).collect();
        drop(waker);
        let cancel = now % 3 == 0;
        racer.race(now, || match cancel {
            true => timers.iter_mut().for_each(|timer| timer.as_mut().cancel()),
            false => drop(std::mem::take(&mut timers)),
        });
        assert!(unparker.wakes() <= 8);
        assert_eq!(Arc::strong_count(&unparker), 1, "a waker was leaked");
    }
    racer.stop();
}

#[test]
fn a_timer_reset_to_later_while_it_fires_is_neither_lost_nor_early() {
    let mut racer = Racer::new();
    for now in rounds() {
        let unparker = Unparker::new();
        let waker = Waker::from(unparker.clone());
        let later = Nanos::new(now + 5 * MS);
        let mut timer = Box::pin(racer.handle.sleep_until(Nanos::new(now)));
        assert!(poll(&mut timer, &waker).is_pending());
        racer.race(now, || timer.as_mut().reset(later));
        // Whoever came first, it is no longer elapsed, and waits for the new deadline.
        assert!(!timer.is_elapsed());
        let fired = unparker.wakes();
        assert!(poll(&mut timer, &waker).is_pending());
        racer.drain(now + 5 * MS - 1);
        assert!(!timer.is_elapsed());
        racer.drain(now + 5 * MS);
        assert_eq!((timer.is_elapsed(), unparker.wakes()), (true, fired + 1));
    }
    racer.stop();
}

#[test]
fn a_timer_brought_forward_while_the_driver_runs_is_not_lost() {
    let mut racer = Racer::new();
    for now in rounds() {
        let unparker = Unparker::new();
        let waker = Waker::from(unparker.clone());
        let mut timer = Box::pin(racer.handle.sleep_until(Nanos::new(now + 900 * MS)));
        assert!(poll(&mut timer, &waker).is_pending());
        // Before, at and after the time to which the driver is on its way.
        let to = now - 1 + racer.random.below(3);
        racer.race(now, || timer.as_mut().reset(Nanos::new(to)));
        if !timer.is_elapsed() {
            racer.drain(now + 2);
        }
        assert_eq!((timer.is_elapsed(), unparker.wakes()), (true, 1));
    }
    racer.stop();
}

#[test]
fn a_shutdown_leaves_nobody_waiting_and_uses_nothing_that_was_dropped() {
    for round in 0..20 {
        let running = Running::new(8);
        let users: Vec<_> = (0..4)
            .map(|user| {
                let handle = running.handle.clone();
                thread::spawn(move || use_until_shutdown(&handle, user))
            })
            .collect();
        thread::sleep(Duration::from_micros(round * 100));
        running.stop.store(true, SeqCst);
        running.thread.thread().unpark();
        users.into_iter().for_each(|user| user.join().expect("a user's thread failed"));
        let handle = running.handle.clone();
        running.stop();
        assert!(handle.is_shutdown());
    }
}

/// One waits for a far timer, the others arm, move and drop, until the driver refuses.
fn use_until_shutdown(handle: &Handle, user: u64) {
    if user == 0 {
        let mut far = Box::pin(handle.sleep(Duration::MAX));
        assert!(wait_for(&mut far).is_err());
        return;
    }
    let mut random = Random(user);
    let start = Instant::now();
    let mut kept: Vec<Timer> = vec![];
    loop {
        assert!(start.elapsed() < HANG, "the driver did not shut down");
        let mut timer = Box::pin(handle.sleep(Duration::from_micros(2_000 + random.below(100_000))));
        match poll(&mut timer, Waker::noop()) {
            Poll::Ready(Err(_)) => return,
            Poll::Ready(Ok(())) => continue,
            Poll::Pending => {}
        }
        let deadline = handle.now().saturating_add(Duration::from_micros(random.below(20_000)));
        if random.below(2) == 0 {
            timer.as_mut().reset(deadline);
        }
        kept.push(timer);
        if kept.len() > 20 {
            kept.swap_remove(random.below(20) as usize);
        }
    }
}
