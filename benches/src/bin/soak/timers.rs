//! Tasks that sleep, time out, reset, cancel, tick, abort each other and panic.

use std::cell::RefCell;
use std::future::pending;
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::channel::oneshot;
use futures::future::{Either, select};
use futures::stream::{FuturesUnordered, StreamExt};
use mainspring::task::{JoinHandle, yield_now};
use mainspring::time::{MissedTickBehavior, Sleep, interval_at, sleep};
use mainspring::{spawn, time};

use crate::rng::Rng;
use crate::soak::{Intended, LONG, Soak};

/// Starts all of them.
pub(crate) fn start(soak: &Arc<Soak>, rng: &mut Rng) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    for _ in 0..48 {
        tasks.push(spawn(sleeper(soak.clone(), rng.fork())));
    }
    for _ in 0..24 {
        tasks.push(spawn(impatient(soak.clone(), rng.fork())));
        tasks.push(spawn(fickle(soak.clone(), rng.fork())));
    }
    for _ in 0..8 {
        tasks.push(spawn(canceller(soak.clone(), rng.fork())));
        tasks.push(spawn(ticker(soak.clone(), rng.fork())));
        tasks.push(spawn(aborter(soak.clone(), rng.fork())));
    }
    for _ in 0..4 {
        tasks.push(spawn(panicker(soak.clone(), rng.fork())));
    }
    tasks.push(spawn(hog(soak.clone(), rng.fork())));
    tasks
}

async fn sleeper(soak: Arc<Soak>, mut rng: Rng) {
    while soak.running() {
        soak.rest().await;
        let duration = rng.short();
        soak.nap("a sleep", duration).await;
        soak.tally.sleeps.one();
        if duration < Duration::from_micros(100) {
            // Short sleeps must not take over the soak.
            soak.nap("a sleep after a short one", rng.micros(500, 3000)).await;
        }
    }
}

/// Gives all sorts of futures too little time, or enough.
async fn impatient(soak: Arc<Soak>, mut rng: Rng) {
    while soak.running() {
        soak.rest().await;
        let limit = rng.short();
        let elapsed = match rng.below(5) {
            0 => {
                soak.within("a timeout of a sleep", limit, soak.nap("a sleep with a timeout", rng.short()))
                    .await
            }
            1 => soak.within("a timeout of nothing", limit, pending()).await,
            2 => {
                // Takes its whole budget again and again, and still lets the timeout fire.
                let eager = async {
                    for _ in 0..400 {
                        sleep(Duration::ZERO).await;
                    }
                };
                soak.within("a timeout of an eager future", limit, eager).await
            }
            3 => soak.within("a timeout of what is ready", limit, async {}).await,
            _ => {
                let inner = soak.within("an inner timeout", rng.short(), pending::<()>());
                soak.within("an outer timeout", limit, async { _ = inner.await }).await
            }
        };
        soak.tally.timeouts.add(u64::from(elapsed.is_err()));
        soak.nap("a pause after a timeout", rng.micros(200, 3000)).await;
    }
}

/// Resets its sleep to another deadline again and again.
async fn fickle(soak: Arc<Soak>, mut rng: Rng) {
    let mut asleep = pin!(sleep(Duration::ZERO));
    while soak.running() {
        soak.rest().await;
        let due = Instant::now() + rng.short();
        let account = soak.ledger.timer_at("a sleep that is reset", Some(due));
        asleep.as_mut().reset(time::Instant::from_std(due));
        let mut fired = futures::poll!(asleep.as_mut()).is_ready();
        for _ in 0..rng.below(6) {
            if fired {
                break;
            }
            let now = Instant::now();
            let due = match rng.below(5) {
                0 => now.checked_sub(rng.short()).unwrap_or(now),
                1 => now,
                2 => now + Duration::from_nanos(rng.edge(5)).min(Duration::from_millis(200)),
                _ => now + rng.short(),
            };
            account.moved(Some(due));
            asleep.as_mut().reset(time::Instant::from_std(due));
            soak.tally.resets.one();
            fired = match rng.below(3) {
                0 => futures::poll!(asleep.as_mut()).is_ready(),
                1 => {
                    let pause = pin!(soak.nap("a pause between resets", rng.micros(1, 2000)));
                    matches!(select(asleep.as_mut(), pause).await, Either::Left(_))
                }
                // The sleep is not polled at all: it may have fired unnoticed when it is reset again.
                _ => {
                    soak.nap("a pause between resets", rng.micros(1, 2000)).await;
                    false
                }
            };
        }
        if !fired && rng.percent(80) {
            account.attended();
            asleep.as_mut().await;
            fired = true;
        }
        if fired {
            account.fired();
        }
    }
}

/// Arms many timers, and lets few of them fire.
async fn canceller(soak: Arc<Soak>, mut rng: Rng) {
    while soak.running() {
        soak.rest().await;
        let patience = rng.micros(0, 5000);
        let mut crowd = FuturesUnordered::new();
        for _ in 0..rng.between(1, 300) {
            let duration = if rng.percent(20) { rng.endless() } else { rng.short() };
            crowd.push(soak.nap("one of a crowd", duration));
        }
        let crowded = async { while crowd.next().await.is_some() {} };
        let _ = soak.within("the patience with a crowd", patience, crowded).await;
        soak.tally.cancels.add(crowd.len() as u64);
        drop(crowd);
        soak.nap("a pause after a crowd", rng.micros(1000, 20_000)).await;
    }
}

async fn ticker(soak: Arc<Soak>, mut rng: Rng) {
    while soak.running() {
        soak.rest().await;
        let period = rng.micros(50, 10_000);
        let mut ticks = interval_at(time::Instant::now() + period, period);
        ticks.set_missed_tick_behavior(match rng.below(3) {
            0 => MissedTickBehavior::Burst,
            1 => MissedTickBehavior::Delay,
            _ => MissedTickBehavior::Skip,
        });
        for _ in 0..rng.between(1, 50) {
            if rng.percent(5) {
                ticks.reset();
            }
            let watched = soak.ledger.operation("a tick", LONG);
            let due = ticks.tick().await;
            drop(watched);
            soak.ledger.tick("a tick", due.into_std());
            soak.tally.ticks.one();
        }
    }
}

/// Spawns a family of tasks, each of which may abort any of them.
async fn aborter(soak: Arc<Soak>, mut rng: Rng) {
    type Family = Rc<RefCell<Vec<Rc<JoinHandle<()>>>>>;
    while soak.running() {
        soak.rest().await;
        let family = Family::default();
        let size = rng.between(2, 20);
        for _ in 0..size {
            let (soak, family, mut rng) = (soak.clone(), Rc::clone(&family), rng.fork());
            let task = spawn({
                let family = Rc::clone(&family);
                async move {
                    let duration = if rng.percent(10) { Duration::from_secs(3600) } else { rng.short() };
                    soak.nap("a sleep that may be aborted", duration).await;
                    let victim = family.borrow().get(rng.below(size) as usize).cloned();
                    if let Some(victim) = victim {
                        victim.abort();
                        soak.tally.aborts.one();
                    }
                    soak.nap("a sleep after an abort", rng.short()).await;
                }
            });
            family.borrow_mut().push(Rc::new(task));
        }
        soak.nap("the life of a family", rng.micros(1000, 15_000)).await;
        // The tasks hold the family, and the family holds their handles: this cycle is broken here.
        let mut members = std::mem::take(&mut *family.borrow_mut());
        while let Some(member) = members.pop() {
            member.abort();
            soak.tally.aborts.one();
            let watched = soak.ledger.operation("the join of an aborted task", LONG);
            if let Ok(member) = Rc::try_unwrap(member)
                && let Err(error) = member.await
                && error.is_panic()
            {
                soak.ledger.fault(format!("an aborted task: {error}"));
            }
            drop(watched);
        }
    }
}

/// Panics when it is dropped, unless that would end the process.
struct Mine;

impl Drop for Mine {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            resume_unwind(Box::new(Intended));
        }
    }
}

async fn panicker(soak: Arc<Soak>, mut rng: Rng) {
    while soak.running() {
        soak.rest().await;
        let (way, duration) = (rng.below(3), rng.short());
        let (begin, begun) = oneshot::channel();
        let task = spawn({
            let soak = soak.clone();
            async move {
                let _mine = (way == 1).then_some(Mine);
                // In most cases the receiver does not wait for this.
                let _ = begin.send(());
                soak.nap("a sleep before a panic", duration).await;
                if way == 2 {
                    // Another timer of the task is armed while it unwinds.
                    let mut left = Box::pin(sleep(Duration::from_secs(3600)));
                    let _ = futures::poll!(left.as_mut());
                    resume_unwind(Box::new(Intended));
                }
                if way == 0 {
                    resume_unwind(Box::new(Intended));
                }
            }
        });
        if way == 1 && rng.percent(50) {
            // From here on the task holds a value that panics when it is dropped. A yield instead would not be enough:
            // after a long poll, the lane of tasks that have yielded may be served before the lane of new tasks.
            let _ = begun.await;
            task.abort();
        }
        let watched = soak.ledger.operation("the join of a task that panics", LONG);
        match task.await.map_err(|error| error.try_into_panic()) {
            Err(Ok(payload)) if payload.is::<Intended>() => soak.tally.panics.one(),
            other => soak.ledger.fault(format!("a task that panics gave {other:?}")),
        }
        drop(watched);
        soak.nap("a pause after a panic", rng.micros(500, 10_000)).await;
    }
}

/// Keeps the run queue from becoming empty for a while, and holds timers that are not polled again.
async fn hog(soak: Arc<Soak>, mut rng: Rng) {
    while soak.running() {
        soak.rest().await;
        let mut unpolled: Vec<Pin<Box<Sleep>>> = (0..100).map(|_| Box::pin(sleep(rng.short()))).collect();
        for one in &mut unpolled {
            let _ = futures::poll!(one.as_mut());
        }
        let until = Instant::now() + rng.micros(100, 5000);
        while Instant::now() < until {
            yield_now().await;
        }
        drop(unpolled);
        soak.nap("a hog's pause", rng.micros(5000, 50_000)).await;
    }
}
