//! The driver with real entries, compared with the list.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use mainspring_driver::{Driver, Nanos, Processed, TestClock, Tolerance};

use super::Tally;
use super::op::{LAST, Op, parse};
use super::world::{Log, World, lock};

struct Case {
    driver: Driver,
    clock: TestClock,
    log: Arc<Log>,
    unparks: Arc<AtomicUsize>,
    /// The number of steps after which the wheel is inspected. That makes it catch up with entries that were armed and dropped.
    look_after: usize,
    tally: Tally,
}

/// Plays a case twice: the wheel is inspected after each step, and only now and then.
///
/// # Panics
///
/// If the driver does not do what the list does.
pub(crate) fn run(bytes: &[u8]) -> Tally {
    play(bytes, 8);
    play(bytes, 1)
}

fn play(bytes: &[u8], look_after: usize) -> Tally {
    let (start, ops) = parse(bytes);
    let clock = TestClock::new(Nanos::new(start.start()));
    let unparks = Arc::new(AtomicUsize::new(0));
    let counted = unparks.clone();
    let driver = Driver::new(clock.clock(), move || {
        counted.fetch_add(1, SeqCst);
    });
    // The default, without its widening under load: the list knows nothing of load.
    let tolerance = Tolerance::Fixed { ratio: 1.0 / 128.0, max: Duration::from_millis(1) };
    let driver = driver.with_tolerance(tolerance);
    let log = World::log(driver.handle(), &clock);
    let mut case = Case { driver, clock, log, unparks, look_after, tally: Tally::default() };
    for op in ops {
        case.play(op);
        case.tally.steps += 1;
        case.check();
    }
    case.finish(start)
}

impl Case {
    fn play(&mut self, op: Op) {
        match op.what >> 4 {
            0..=8 => lock(&self.log.world).act(op, &self.log),
            9 => self.park(),
            10 => self.check_next_deadline(),
            11 => self.go_back(op),
            12 => self.process(1 + usize::from(op.who & 15)),
            _ => self.advance(op),
        }
    }

    /// Checks what must hold between any two calls.
    fn check(&mut self) {
        let world = lock(&self.log.world);
        if self.tally.steps % self.look_after == 0 {
            world.handle.check();
        }
        let stats = world.handle.stats();
        assert_eq!(stats.live, world.list.len());
        assert_eq!((stats.armed, stats.fired, stats.cancelled), (world.armed, world.fired, world.cancelled));
        assert_eq!(stats.reset, world.reset_later);
        assert_eq!(self.unparks.load(SeqCst), world.unparked, "unparked too often, or not at all");
        assert!(world.list.iter().all(|t| !t.taken), "taken, but never woken");
        // The time that can be read without the lock is never later than the true one, and shows when there is work to do.
        let (published, earliest) = (world.handle.earliest_due(), world.earliest());
        assert!(published <= earliest.unwrap_or(Nanos::NEVER), "{published:?}, but {earliest:?} is armed");
        let draining = world.drain.is_some() && !world.closed;
        assert_eq!(published.get() <= world.published, draining, "{published:?}");
    }

    /// The driver is about to park; it must wake up for every timer, and for every one that is armed from now on.
    fn park(&mut self) {
        let wake = self.driver.next_wake();
        let mut world = lock(&self.log.world);
        if let Some(now) = world.drain {
            assert_eq!(wake, Some(Nanos::new(now)), "a drain was cut short, but the driver would park");
        } else {
            assert_eq!(wake.is_some(), !world.list.is_empty());
            let latest = world.latest_wake();
            assert!(wake <= latest, "would sleep until {wake:?}, past {latest:?}");
            // Every registered timer is due after the latest drain, and so must be the wake-up.
            assert!(
                wake.is_none_or(|wake| wake.get() > world.published),
                "would wake at {wake:?} for nobody"
            );
        }
        world.parked_until = Some(wake.unwrap_or(Nanos::NEVER));
        // The list of what is pending holds exactly these timers, in the order in which they will fire.
        let pending = world.handle.pending();
        let mut listed: Vec<_> = world.list.iter().map(|t| (t.deadline, t.number)).collect();
        listed.sort_unstable();
        assert!(pending.iter().map(|p| p.deadline.get()).eq(listed.iter().map(|l| l.0)), "{pending:?}");
        // A timer gets its number when it is filed, so a timer that was dropped before has none.
        let mut numbers: Vec<_> = listed.iter().zip(&pending).map(|(l, p)| (l.1, p.sequence)).collect();
        numbers.sort_unstable();
        assert!(numbers.is_sorted_by(|a, b| a.1 < b.1), "{numbers:?}");
        assert!(pending.iter().all(|p| p.origin.file().ends_with("world.rs")), "{pending:?}");
    }

    fn check_next_deadline(&mut self) {
        let next = self.driver.next_deadline();
        let mut world = lock(&self.log.world);
        assert_eq!(next, world.earliest());
        // From now on the driver may also park until then.
        let next = next.unwrap_or(Nanos::NEVER);
        world.parked_until = world.parked_until.map(|until| until.max(next));
    }

    fn go_back(&mut self, op: Op) {
        let before = op.past(self.clock.now().get());
        self.clock.set(Nanos::new(before));
        self.process(usize::from(op.who));
    }

    /// Advances the clock, mostly to a time at which something is due or nearly due, and processes.
    fn advance(&mut self, op: Op) {
        let now = self.clock.now().get();
        let earliest = lock(&self.log.world).earliest().map(Nanos::get);
        let to = match (op.who & 7, earliest) {
            (0 | 1, Some(at)) => at,
            (2, Some(at)) => at.saturating_sub(1),
            (3, Some(at)) => at.saturating_add(u64::from(op.amount) << (op.how & 31)),
            _ => op.time(now),
        };
        self.clock.set(Nanos::new(to.clamp(now, LAST)));
        // One time in four the clock goes on and the driver does not look.
        match op.who >> 3 & 7 {
            0 | 1 => {}
            2..=5 => self.process(usize::from(op.who >> 4)),
            _ => self.process(usize::MAX),
        }
    }

    fn process(&mut self, budget: usize) {
        let moved = self.driver.handle().stats().moved;
        let (now, before) = {
            let mut world = lock(&self.log.world);
            world.parked_until = None;
            if world.drain.is_none() {
                world.published = world.published.max(self.clock.now().get());
                world.drain = Some(world.published);
            }
            (self.clock.now(), world.wakes)
        };
        let Processed { fired, more, .. } = self.driver.process(now, budget);
        let mut world = lock(&self.log.world);
        assert_eq!(fired, world.wakes - before, "not every timer that fired was woken");
        let moved = (world.handle.stats().moved - moved) as usize;
        assert!(fired + moved <= budget, "{fired} fired and {moved} moved of {budget}");
        self.tally.fired += fired;
        if more {
            assert!(budget < usize::MAX, "an endless budget was used up");
            self.tally.cut += 1;
        } else {
            let now = world.drain.take();
            let left = world.list.iter().find(|t| Some(t.deadline) <= now);
            assert!(left.is_none(), "lost at {now:?}: {left:?}");
        }
    }

    /// Ends the case: the timers go first, or time runs out, or the driver goes first and wakes every timer that waits.
    fn finish(mut self, start: Op) -> Tally {
        match start.how >> 2 & 3 {
            0 => lock(&self.log.world).drop_all(),
            1 => {
                self.process(usize::MAX);
                self.clock.set(Nanos::new(LAST));
                self.process(usize::MAX);
            }
            _ => {
                lock(&self.log.world).closed = true;
                self.driver.shutdown();
                let mut world = lock(&self.log.world);
                assert!(world.list.is_empty(), "left waiting: {:?}", world.list);
                world.poll_all(&self.log);
            }
        }
        self.look_after = 1;
        self.check();
        lock(&self.log.world).drop_all();
        self.check();
        assert_eq!(Arc::strong_count(&self.log), 1, "a waker was not dropped");
        self.tally
    }
}
