//! A driver in its own loop, without a runtime: timers that another thread arms and drops, wakers that panic,
//! small budgets. The wheel's invariants are asserted every few turns.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use futures::future::{Either, select};
use mainspring_driver::{Clock, Driver, Handle, Nanos, TimerEntry};

use crate::ledger::Account;
use crate::rng::Rng;
use crate::soak::{Intended, LONG, Soak};

const TIMERS: usize = 500;
/// The loop sleeps at most this long, so that it notices the end of the soak.
const NAP: Duration = Duration::from_millis(20);

/// A waker's flag, which records that it was woken. The waker may panic when it is woken.
struct Flag {
    woken: AtomicBool,
    panics: bool,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        // Release: see the loop's swap.
        self.woken.store(true, Ordering::Release);
        if self.panics {
            resume_unwind(Box::new(Intended));
        }
    }
}

/// A timer of the loop.
struct Timer<'a> {
    entry: Pin<Box<TimerEntry>>,
    flag: Arc<Flag>,
    waker: Waker,
    account: Option<Account<'a>>,
}

/// Runs the loop until the soak ends.
pub(crate) fn run(soak: &Arc<Soak>, mut rng: Rng) {
    let clock = Clock::monotonic();
    let origin = clock.origin().expect("it is a real clock");
    let this = thread::current();
    let mut driver = Driver::new(clock, move || this.unpark());
    let handle = driver.handle().clone();
    let guest = thread::spawn({
        let (soak, handle, rng) = (soak.clone(), handle.clone(), rng.fork());
        move || guest(&soak, &handle, rng)
    });

    let mut timers: Vec<Timer<'_>> = (0..TIMERS).map(|number| timer(&handle, number % 50 == 0)).collect();
    for turn in 0_u64.. {
        if !soak.running() {
            break;
        }
        let watched = soak.ledger.operation("a turn of the embedded driver", LONG);
        for _ in 0..rng.below(20) {
            let chosen = rng.below(TIMERS as u64) as usize;
            disturb(soak, &handle, origin, &mut timers[chosen], &mut rng);
        }
        if rng.percent(80) {
            let now = handle.now();
            let wait = driver.next_wake().map_or(NAP, |at| at.saturating_duration_since(now).min(NAP));
            thread::park_timeout(wait);
        }
        let budget = if rng.percent(30) { rng.between(1, 20) as usize } else { 1024 };
        loop {
            match catch_unwind(AssertUnwindSafe(|| driver.process(handle.now(), budget))) {
                Ok(processed) if processed.fired > budget => {
                    soak.ledger.fault(format!("{} timers fired on a budget of {budget}", processed.fired));
                }
                Ok(processed) if processed.more => {}
                Ok(_) => break,
                Err(payload) if payload.is::<Intended>() => soak.tally.panics.one(),
                Err(payload) => resume_unwind(payload),
            }
        }
        for timer in &mut timers {
            // Acquire: makes visible what the waker's thread did before.
            if timer.flag.woken.swap(false, Ordering::Acquire) {
                poll(soak, timer);
            }
        }
        if turn % 64 == 0 {
            handle.check();
            soak.tally.checks.one();
        }
        balance(soak, &handle);
        drop(watched);
    }
    drop(timers);
    // This tells the other thread, which waits, that the driver is gone.
    let down = catch_unwind(AssertUnwindSafe(|| drop(driver)));
    if guest.join().is_err() || down.is_err() {
        soak.ledger.fault("the embedded driver's end panicked".to_owned());
    }
    balance(soak, &handle);
    if handle.stats().live != 0 {
        soak.ledger.fault("an embedded driver that was shut down has timers".to_owned());
    }
}

fn timer<'a>(handle: &Handle, panics: bool) -> Timer<'a> {
    let flag = Arc::new(Flag { woken: AtomicBool::new(false), panics });
    let waker = Waker::from(flag.clone());
    Timer { entry: Box::pin(handle.sleep_until(Nanos::NEVER)), flag, waker, account: None }
}

/// Arms, resets, cancels or replaces a timer.
fn disturb<'a>(soak: &'a Soak, handle: &Handle, origin: Instant, timer: &mut Timer<'a>, rng: &mut Rng) {
    let now = handle.now();
    let at = match rng.below(10) {
        0 => Nanos::NEVER,
        1 => now.saturating_add(rng.endless()),
        2 => Nanos::new(now.get().saturating_sub(rng.below(1_000_000))),
        3 => Nanos::new(now.get() + rng.edge(5).min(500_000_000)),
        _ => now.saturating_add(rng.short()),
    };
    let due = origin.checked_add(at.as_duration());
    soak.tally.embedded.one();
    match rng.below(10) {
        0 => {
            timer.account = None;
            timer.entry.as_mut().cancel();
        }
        1 => {
            // The timer is dropped as it is, and a new one is made.
            timer.account = None;
            timer.entry = Box::pin(handle.sleep_until(at));
            timer.account = Some(soak.ledger.timer_at("an embedded timer", due));
            poll(soak, timer);
        }
        _ => {
            match &timer.account {
                Some(account) => account.moved(due),
                None => timer.account = Some(soak.ledger.timer_at("an embedded timer", due)),
            }
            // A reset to the past wakes at once, and the waker's panic surfaces here.
            match catch_unwind(AssertUnwindSafe(|| timer.entry.as_mut().reset(at))) {
                Err(payload) if !payload.is::<Intended>() => resume_unwind(payload),
                _ => poll(soak, timer),
            }
        }
    }
}

fn poll(soak: &Soak, timer: &mut Timer<'_>) {
    match timer.entry.as_mut().poll_elapsed(&mut Context::from_waker(&timer.waker)) {
        Poll::Ready(Ok(())) => {
            if let Some(account) = timer.account.take() {
                account.fired();
            }
        }
        Poll::Ready(Err(error)) => soak.ledger.fault(format!("an embedded timer: {error}")),
        Poll::Pending => {
            // Cancelled before, and armed again by this very poll.
            if timer.account.is_none() {
                timer.entry.as_mut().cancel();
            }
        }
    }
}

/// Arms timers from another thread, and drops them at any time.
fn guest(soak: &Soak, handle: &Handle, mut rng: Rng) {
    while soak.running() {
        let (first, second) = (rng.short(), rng.short());
        let watched = soak.ledger.operation("a sleep on a driver of another thread", LONG);
        let account = soak.ledger.timer("a sleep on a driver of another thread", first.min(second));
        let (left, right) = (Box::pin(handle.sleep(first)), Box::pin(handle.sleep(second)));
        let result = match block_on(select(left, right)) {
            Either::Left((result, _)) | Either::Right((result, _)) => result,
        };
        match result {
            Ok(()) => account.fired(),
            // The driver's thread has seen the end of the soak first.
            Err(_) => return,
        }
        soak.tally.embedded.add(2);
        drop(watched);
    }
}

fn balance(soak: &Soak, handle: &Handle) {
    let stats = handle.stats();
    if stats.armed != stats.fired + stats.cancelled + stats.live as u64 {
        soak.ledger.fault(format!("the embedded driver's counts do not add up: {stats:?}"));
    }
}
