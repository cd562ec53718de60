//! The soak without I/O, threads and the system's clock: a driver on a clock that the program advances, thousands of
//! timers that are checked against a plain list, and tasks of combinators in a small loop. The same seed gives the same
//! trace, whose hash is in the last line.
//!
//! Ground rules:
//!
//! * Nothing here depends on an address, on a hash map's order or on the time of day.
//! * The list is the reference: a timer fires at the first `process` that is not before its deadline; timers that are due
//!   together fire by (deadline, registration); each fires once.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::future::{Either, join, select};
use futures::stream::{FuturesUnordered, StreamExt};
use mainspring_driver::{Driver, Handle, Nanos, TestClock, TimerEntry};

use crate::rng::Rng;

const TIMERS: usize = 4000;
const PROGRAMS: usize = 200;
/// The clock's start: just before an edge of each of the wheel's lower levels.
const BEGIN: u64 = (1 << 40) - 1_000_000;

/// Simulates `length` of virtual time. Returns the last line, or what is wrong.
pub(crate) fn run(seed: u64, length: Duration, stop: &AtomicBool) -> Result<String, String> {
    let mut world = World::new(seed);
    let end = world.test.now().saturating_add(length);
    // Relaxed: the flag orders nothing.
    while world.test.now() < end && !stop.load(Ordering::Relaxed) {
        world.turn()?;
    }
    let length = world.test.now().saturating_duration_since(Nanos::new(BEGIN));
    let World { trace, counts, .. } = world;
    let Counts { turns, armed, moved, cancelled, fired, ended, checks } = counts;
    Ok(format!(
        "soak: seed {seed}, {length:.1?} of virtual time: {turns} turns, armed {armed}, moved {moved}, cancelled \
         {cancelled}, fired {fired}, steps of combinators {ended}, checks {checks}; early 0, lost 0; trace {:016x}",
        trace.0
    ))
}

/// The hash, FNV-1a, of everything that happens.
struct Trace(u64);

impl Trace {
    fn note(&mut self, what: u64, which: u64, when: Nanos) {
        for byte in [what, which, when.get()].iter().flat_map(|word| word.to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[derive(Default)]
struct Counts {
    turns: u64,
    armed: u64,
    moved: u64,
    cancelled: u64,
    fired: u64,
    ended: u64,
    checks: u64,
}

/// Which timers or tasks were woken, in order.
#[derive(Default)]
struct Woken(Mutex<Vec<usize>>);

impl Woken {
    fn push(&self, who: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(who);
    }

    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Waking {
    who: usize,
    woken: Arc<Woken>,
}

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        self.woken.push(self.who);
    }
}

type Steps = Arc<Mutex<Vec<(usize, Nanos)>>>;

struct World {
    rng: Rng,
    test: TestClock,
    driver: Driver,
    handle: Handle,
    timers: Vec<Pin<Box<TimerEntry>>>,
    wakers: Vec<Waker>,
    /// Records which timers' wakers were called.
    rung: Arc<Woken>,
    /// The deadline and registration of each timer, if it is in the list.
    numbers: Vec<Option<(Nanos, u64)>>,
    /// The reference: (deadline, registration) of the armed timers, and the timer of each.
    list: BTreeMap<(Nanos, u64), usize>,
    registered: u64,
    /// The `now` of the drain in progress.
    drain: Option<Nanos>,
    programs: Vec<Pin<Box<dyn Future<Output = ()>>>>,
    program_wakers: Vec<Waker>,
    called: Arc<Woken>,
    steps: Steps,
    trace: Trace,
    counts: Counts,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let test = TestClock::new(Nanos::new(BEGIN));
        let driver = Driver::new(test.clock(), || ());
        let handle = driver.handle().clone();
        let (rung, called) = (Arc::<Woken>::default(), Arc::<Woken>::default());
        let waker = |who, woken: &Arc<Woken>| Waker::from(Arc::new(Waking { who, woken: woken.clone() }));
        let steps = Steps::default();
        let programs = (0..PROGRAMS)
            .map(|who| {
                called.push(who);
                Box::pin(program(who, handle.clone(), rng.fork(), steps.clone()))
                    as Pin<Box<dyn Future<Output = ()>>>
            })
            .collect();
        World {
            test,
            timers: (0..TIMERS).map(|_| Box::pin(handle.sleep_until(Nanos::NEVER))).collect(),
            wakers: (0..TIMERS).map(|who| waker(who, &rung)).collect(),
            numbers: vec![None; TIMERS],
            list: BTreeMap::new(),
            registered: 0,
            drain: None,
            programs,
            program_wakers: (0..PROGRAMS).map(|who| waker(who, &called)).collect(),
            rung,
            called,
            steps,
            trace: Trace(0xcbf2_9ce4_8422_2325),
            counts: Counts::default(),
            rng,
            driver,
            handle,
        }
    }

    /// One turn: something happens, time passes, timers fire, tasks go on.
    fn turn(&mut self) -> Result<(), String> {
        self.counts.turns += 1;
        for _ in 0..self.rng.below(50) {
            self.disturb()?;
        }
        self.pass()?;
        self.fire()?;
        self.go_on();
        if self.counts.turns.is_multiple_of(256) {
            self.handle.check();
            self.counts.checks += 1;
        }
        let stats = self.handle.stats();
        if stats.armed != stats.fired + stats.cancelled + stats.live as u64 {
            return Err(format!("the counts do not add up: {stats:?}"));
        }
        Ok(())
    }

    /// Arms, moves or cancels a timer.
    fn disturb(&mut self) -> Result<(), String> {
        let who = self.rng.below(TIMERS as u64) as usize;
        let now = self.handle.now();
        let at = match self.rng.below(10) {
            0 => Nanos::new(now.get().saturating_sub(self.rng.below(1_000_000))),
            1 => now.saturating_add(self.rng.endless()),
            2..=4 => now.saturating_add(Duration::from_nanos(self.rng.edge(6))),
            _ => now.saturating_add(self.rng.short()),
        };
        // While the clock has gone back behind its latest reading or behind the drain, a deadline between them is due. But
        // a poll of a registered timer may leave it to the driver, which already has the timer in its batch, to report
        // that. The list cannot predict when such a timer fires, and in which order.
        let clock = self.test.now();
        let at = if at > clock && at <= now.max(self.drain.unwrap_or(now)) { clock } else { at };
        self.trace.note(1, who as u64, at);
        if self.rng.percent(20) {
            self.strike(who);
            self.counts.cancelled += 1;
            if self.rng.percent(50) {
                self.timers[who].as_mut().cancel();
            } else {
                self.timers[who] = Box::pin(self.handle.sleep_until(at));
            }
            return Ok(());
        }
        let number = self.strike(who);
        self.timers[who].as_mut().reset(at);
        self.counts.moved += u64::from(number.is_some());
        let ready = self.poll(who);
        // The timer is due at once if the clock, or the drain in progress, has reached its deadline.
        match (ready, at <= now.max(self.drain.unwrap_or(now))) {
            (true, true) => {
                self.counts.fired += 1;
                // A reset to the past also wakes, once.
                let woken = self.rung.take();
                if woken.iter().any(|woken| *woken != who) {
                    return Err(format!("a reset of timer {who} woke {woken:?}"));
                }
            }
            (true, false) => return Err(format!("early: timer {who}, due at {at:?}, at {now:?}")),
            (false, true) => return Err(format!("timer {who}, due at {at:?}, is pending at {now:?}")),
            (false, false) => {
                let number = number.unwrap_or_else(|| {
                    self.counts.armed += 1;
                    self.registered += 1;
                    self.registered
                });
                self.numbers[who] = Some((at, number));
                self.list.insert((at, number), who);
            }
        }
        Ok(())
    }

    fn poll(&mut self, who: usize) -> bool {
        let mut cx = Context::from_waker(&self.wakers[who]);
        self.timers[who].as_mut().poll_elapsed(&mut cx).is_ready()
    }

    /// Removes a timer from the list, and returns its registration.
    fn strike(&mut self, who: usize) -> Option<u64> {
        let row = self.numbers[who].take()?;
        self.list.remove(&row);
        Some(row.1)
    }

    /// Lets time pass: mostly to the next wake-up, sometimes less, far too much, or backwards.
    fn pass(&mut self) -> Result<(), String> {
        let now = self.test.now();
        let next = self.driver.next_deadline();
        let wake = self.driver.next_wake();
        if let (Some(((first, _), _)), Some(next)) = (self.list.first_key_value(), next)
            && next > *first
        {
            return Err(format!("the next deadline is {next:?}, and {first:?} comes before it"));
        }
        if next.is_none() && !self.list.is_empty() {
            return Err("there is no next deadline, and timers are armed".to_owned());
        }
        let to = match self.rng.below(100) {
            0..=59 => wake.unwrap_or(now).min(now.saturating_add(Duration::from_millis(5))),
            60..=79 => next.unwrap_or(now).min(now.saturating_add(Duration::from_millis(5))),
            80..=94 => now.saturating_add(self.rng.micros(0, 100)),
            95..=97 => now.saturating_add(self.rng.micros(0, 50_000)),
            98 => Nanos::new(now.get().saturating_sub(self.rng.below(1_000_000))),
            _ => now,
        };
        self.test.set(to);
        self.trace.note(2, 0, to);
        Ok(())
    }

    /// Fires the due timers, with some budget, and compares with the list.
    fn fire(&mut self) -> Result<(), String> {
        let now = self.handle.now();
        let budget = if self.rng.percent(30) { self.rng.between(1, 64) as usize } else { 100_000 };
        // A drain that was cut short continues with its own `now`.
        let now = *self.drain.get_or_insert(now);
        let processed = self.driver.process(self.handle.now(), budget);
        if processed.fired > budget {
            return Err(format!("{} fired on a budget of {budget}", processed.fired));
        }
        if !processed.more {
            self.drain = None;
        }
        for who in self.rung.take() {
            let Some((&row, &first)) = self.list.first_key_value() else {
                return Err(format!("timer {who} fired, and none was armed"));
            };
            if row.0 > now {
                return Err(format!("early: timer {who} fired at {now:?}, and the first is due at {row:?}"));
            }
            if first != who {
                return Err(format!(
                    "timer {who} fired before timer {first}, which is due first, at {row:?}"
                ));
            }
            self.trace.note(3, who as u64, now);
            self.strike(who);
            self.counts.fired += 1;
            if !self.poll(who) {
                return Err(format!("timer {who} fired and is pending"));
            }
        }
        match self.list.first_key_value() {
            Some((row, who)) if row.0 <= now && !processed.more => {
                Err(format!("lost: timer {who}, due at {row:?}, has not fired at {now:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Polls the tasks that were woken.
    fn go_on(&mut self) {
        let now = self.test.now();
        for who in self.called.take() {
            let mut cx = Context::from_waker(&self.program_wakers[who]);
            let Poll::Pending = self.programs[who].as_mut().poll(&mut cx) else {
                continue;
            };
        }
        for (who, at) in self.steps.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            self.trace.note(4, who as u64, at);
            self.counts.ended += 1;
        }
        self.trace.note(5, 0, now);
    }
}

/// A task that sleeps in all sorts of combinations, forever.
async fn program(who: usize, handle: Handle, mut rng: Rng, steps: Steps) {
    loop {
        let begin = handle.now();
        let (one, two) = (rng.short(), rng.short());
        let least = match rng.below(4) {
            0 => {
                let _ = handle.sleep(one).await;
                one
            }
            1 => {
                let _ = join(handle.sleep(one), handle.sleep(two)).await;
                one.max(two)
            }
            2 => match select(Box::pin(handle.sleep(one)), Box::pin(handle.sleep(two))).await {
                Either::Left(_) => one,
                Either::Right(_) => two,
            },
            _ => {
                let mut crowd: FuturesUnordered<_> =
                    (0..rng.between(1, 10)).map(|_| handle.sleep(rng.short())).collect();
                for _ in 0..rng.between(1, 10) {
                    let _ = crowd.next().await;
                }
                Duration::ZERO
            }
        };
        let now = handle.now();
        assert!(now >= begin.saturating_add(least), "early: program {who} slept from {begin:?} to {now:?}");
        steps.lock().unwrap_or_else(PoisonError::into_inner).push((who, now));
        // Keeps a single poll from going on forever.
        let _ = handle.sleep(Duration::from_nanos(rng.between(2_000_000, 20_000_000))).await;
    }
}
