//! Work across threads: wakers and sleeps that are sent to other threads, tasks spawned from there, a runtime
//! that only other threads ever wake, and runtimes that come and go.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, sync_channel};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures::channel::oneshot;
use futures::executor::block_on;
use mainspring::runtime::Handle;
use mainspring::task::JoinHandle;
use mainspring::time::{Sleep, sleep};
use mainspring::{Runtime, spawn, time};

use crate::rng::Rng;
use crate::soak::{LONG, Soak};

/// A job that a task gives to a helper thread.
pub(crate) enum Job {
    /// Set the flag and wake, after a while.
    Wake { flag: Arc<AtomicBool>, waker: Waker, after: Duration },
    /// Poll the sleep, and drop it or await it; then answer.
    Adopt { asleep: Pin<Box<Sleep>>, due: Instant, fate: Fate, done: oneshot::Sender<()> },
}

/// What happens to a sleep on another thread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    Drop,
    Await,
    /// Reset it to a time this far ahead, and await it.
    Reset(Duration),
}

/// Starts the tasks that send jobs.
pub(crate) fn start(soak: &Arc<Soak>, jobs: &SyncSender<Job>, rng: &mut Rng) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    for _ in 0..6 {
        tasks.push(spawn(woken(soak.clone(), jobs.clone(), rng.fork())));
        tasks.push(spawn(exporter(soak.clone(), jobs.clone(), rng.fork())));
    }
    tasks
}

/// A channel for jobs, with room for a few.
pub(crate) fn jobs() -> (SyncSender<Job>, Receiver<Job>) {
    sync_channel(64)
}

/// Waits for wakes from another thread, which race its polls.
async fn woken(soak: Arc<Soak>, jobs: SyncSender<Job>, mut rng: Rng) {
    while soak.running() {
        soak.rest().await;
        let flag = Arc::new(AtomicBool::new(false));
        let after = rng.micros(0, 200);
        let mut sent = false;
        let watched = soak.ledger.operation("the wait for a wake from another thread", LONG);
        poll_fn(|cx| {
            // Acquire: makes visible what the other thread did before it set the flag.
            if flag.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
            // A poll for another reason than the wake does not send the waker again: the first one belongs to the
            // task all the same.
            if !sent {
                let job = Job::Wake { flag: flag.clone(), waker: cx.waker().clone(), after };
                match jobs.try_send(job) {
                    Ok(()) => sent = true,
                    Err(TrySendError::Full(_)) => cx.waker().wake_by_ref(),
                    Err(TrySendError::Disconnected(_)) => return Poll::Ready(()),
                }
            }
            Poll::Pending
        })
        .await;
        drop(watched);
        soak.tally.wakes.one();
        if rng.percent(20) {
            soak.nap("a pause after a wake", rng.short()).await;
        }
    }
}

/// Sends sleeps to another thread; some have been polled before.
async fn exporter(soak: Arc<Soak>, jobs: SyncSender<Job>, mut rng: Rng) {
    while soak.running() {
        soak.rest().await;
        let due = Instant::now() + rng.short();
        let mut asleep = Box::pin(time::sleep_until(time::Instant::from_std(due)));
        if rng.percent(50) {
            let _ = futures::poll!(asleep.as_mut());
        }
        let fate = match rng.below(3) {
            0 => Fate::Drop,
            1 => Fate::Await,
            _ => Fate::Reset(rng.short()),
        };
        let (done, answer) = oneshot::channel();
        if jobs.try_send(Job::Adopt { asleep, due, fate, done }).is_ok() {
            let watched = soak.ledger.operation("the wait for a sleep on another thread", LONG);
            // An error means that the helper has gone, which is noticed when it is joined.
            let _ = answer.await;
            drop(watched);
        }
        soak.nap("a pause between sleeps elsewhere", rng.micros(100, 3000)).await;
    }
}

/// The helper thread: does jobs, and spawns tasks of its own on the runtime, until all senders of jobs have gone.
pub(crate) fn help(soak: &Arc<Soak>, jobs: &Receiver<Job>, runtime: &Handle, mut rng: Rng) {
    loop {
        match jobs.recv_timeout(rng.micros(10, 2000)) {
            Ok(Job::Wake { flag, waker, after }) => {
                wait(after);
                // Release: see the task's load.
                flag.store(true, Ordering::Release);
                if rng.percent(50) { waker.wake() } else { waker.wake_by_ref() }
            }
            Ok(Job::Adopt { asleep, due, fate, done }) => {
                adopt(soak, asleep, due, fate);
                let _ = done.send(());
            }
            Err(RecvTimeoutError::Timeout) => prod(soak, runtime, &mut rng),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Waits, without sleeping if the time is too short for that.
fn wait(time: Duration) {
    if time >= Duration::from_micros(100) {
        return thread::sleep(time);
    }
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn adopt(soak: &Soak, mut asleep: Pin<Box<Sleep>>, due: Instant, fate: Fate) {
    let account = soak.ledger.timer_at("a sleep on another thread", Some(due));
    match fate {
        Fate::Drop => {
            block_on(async {
                let _ = futures::poll!(asleep.as_mut());
            });
            drop(asleep);
            return;
        }
        Fate::Await => block_on(asleep),
        Fate::Reset(duration) => {
            let due = Instant::now() + duration;
            account.moved(Some(due));
            asleep.as_mut().reset(time::Instant::from_std(due));
            block_on(asleep);
        }
    }
    account.fired();
    soak.tally.strays.one();
}

/// Spawns a task from outside and awaits, aborts or abandons it.
fn prod(soak: &Arc<Soak>, runtime: &Handle, rng: &mut Rng) {
    let duration = rng.short();
    let watched = soak.ledger.operation("a task spawned from another thread", LONG);
    let task = runtime.spawn({
        let soak = soak.clone();
        async move { soak.nap("a sleep of a task spawned across", duration).await }
    });
    soak.tally.spawns.one();
    match rng.below(4) {
        0 => drop(task),
        1 => {
            task.abort();
            drop(block_on(task));
        }
        _ => {
            // Cancelled is a correct result only once the runtime has gone.
            if let Err(error) = block_on(task)
                && !runtime.is_shutdown()
            {
                soak.ledger.fault(format!("a task spawned from another thread: {error}"));
            }
        }
    }
    drop(watched);
}

/// A runtime on which nothing happens except what other threads do to it: no signal, no traffic and no timer of
/// its own ends its sleep. So the other threads must wake it.
///
/// Drops `ready` once it has its descriptors.
///
/// # Errors
///
/// If no runtime or no thread can be made.
pub(crate) fn quiet(soak: &Arc<Soak>, mut rng: Rng, ready: Sender<()>) -> io::Result<()> {
    let runtime = Runtime::new()?;
    drop(ready);
    let handle = runtime.handle().clone();
    let (end, ended) = oneshot::channel::<()>();
    let soak = soak.clone();
    let prodder = thread::Builder::new().name("prodder".to_owned()).spawn(move || {
        while soak.running() {
            let watched = soak.ledger.operation("the quiet runtime", LONG);
            match rng.below(3) {
                0 => prod(&soak, &handle, &mut rng),
                1 => {
                    // The timer is armed from this thread, while the runtime sleeps.
                    let duration = rng.short();
                    let account = soak.ledger.timer("a sleep armed by another thread", duration);
                    let asleep = {
                        let _entered = handle.enter();
                        sleep(duration)
                    };
                    block_on(asleep);
                    account.fired();
                    soak.tally.strays.one();
                }
                _ => {
                    let (wake, woken) = oneshot::channel();
                    let task = handle.spawn(woken);
                    wait(rng.micros(0, 1000));
                    let _ = wake.send(());
                    if block_on(task).is_err() {
                        soak.ledger.fault("a task on the quiet runtime was cancelled".to_owned());
                    }
                    soak.tally.wakes.one();
                }
            }
            drop(watched);
            check(&soak, "the quiet runtime", &handle);
            thread::sleep(rng.micros(0, 5000));
        }
        drop(end);
    })?;
    let _ = runtime.block_on(ended);
    drop(runtime);
    prodder.join().map_err(|_| io::Error::other("the prodder panicked"))
}

/// Makes runtimes that come and go, with all sorts of things unfinished.
pub(crate) fn mayflies(soak: &Arc<Soak>, mut rng: Rng) {
    while soak.running() {
        let watched = soak.ledger.operation("a short-lived runtime", LONG);
        match Runtime::new() {
            Ok(runtime) => {
                for _ in 0..rng.below(20) {
                    let (soak, duration) = (soak.clone(), rng.short());
                    drop(
                        runtime.spawn(
                            async move { soak.nap("a sleep on a short-lived runtime", duration).await },
                        ),
                    );
                }
                let handle = runtime.handle().clone();
                runtime.block_on(soak.nap("the life of a runtime", rng.short()));
                check(soak, "a short-lived runtime", &handle);
                drop(runtime);
                check(soak, "a runtime that has gone", &handle);
                if handle.metrics().timers_live() != 0 {
                    soak.ledger.fault("a runtime that has gone has timers".to_owned());
                }
                soak.tally.runtimes.one();
            }
            Err(_) => soak.tally.no_descriptors.one(),
        }
        drop(watched);
        thread::sleep(rng.micros(1000, 20_000));
    }
}

/// Checks that each timer that was armed has fired, was cancelled, or is live.
pub(crate) fn check(soak: &Soak, whose: &str, runtime: &Handle) {
    let metrics = runtime.metrics();
    let (armed, fired) = (metrics.timers_armed(), metrics.timers_fired());
    let (cancelled, live) = (metrics.timers_cancelled(), metrics.timers_live() as u64);
    if armed != fired + cancelled + live {
        soak.ledger.fault(format!(
            "{whose}: {armed} timers were armed, {fired} fired, {cancelled} were cancelled and {live} are live"
        ));
    }
    soak.tally.checks.one();
}
