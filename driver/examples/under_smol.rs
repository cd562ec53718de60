//! Run with: cargo run --release -p mainspring-driver --example under_smol
//!
//! The driver alongside another runtime: it runs on a separate thread, and its timers are awaited by tasks of
//! smol's executor on other threads. At the end the driver is shut down while a task still sleeps: that task's
//! sleep returns an error.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mainspring_driver::{Clock, Driver, Handle};

/// The driver's thread, and what is needed to stop it.
struct TimerThread {
    handle: Handle,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl TimerThread {
    fn start() -> TimerThread {
        let (send, receive) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let clock = Clock::monotonic();
            let this = thread::current();
            let mut driver = Driver::new(clock.clone(), move || this.unpark());
            // If the handle is not received, the driver is not needed: then it is stopped soon.
            let _ = send.send(driver.handle().clone());
            run(&mut driver, &clock, &stopped);
            // Tasks that still sleep are woken, with an error.
            driver.shutdown();
        });
        let handle = receive.recv().expect("the driver's thread sends its handle first");
        TimerThread { handle, stop, thread }
    }

    /// Ends the loop, shuts the driver down and waits for its thread.
    fn stop(self) {
        // Release: the loop, which acquires it, sees everything that was done before.
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread.join().expect("the driver's thread does not panic");
    }
}

/// In a loop, parks until the next timer is due or another thread arms one that is due sooner, and fires what is due.
fn run(driver: &mut Driver, clock: &Clock, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        match driver.next_wake() {
            Some(at) => thread::park_timeout(at.saturating_duration_since(clock.now())),
            None => thread::park(),
        }
        // While `process` reports more, the thread must not park. The tasks run on other threads meanwhile.
        while driver.process(clock.now(), 1024).more {}
    }
}

fn main() -> ExitCode {
    let timers = TimerThread::start();

    // Fifty tasks, each of which sleeps ten times; smol runs them on its own threads.
    let start = Instant::now();
    let tasks: Vec<_> = (0..50)
        .map(|i| {
            let timers = timers.handle.clone();
            smol::spawn(async move {
                let mut worst = Duration::ZERO;
                for round in 1..=10 {
                    let asked = Duration::from_micros(i * 50 + round * 300);
                    let begun = Instant::now();
                    timers.sleep(asked).await.expect("the driver is not shut down yet");
                    // None if it was early.
                    worst = worst.max(begun.elapsed().checked_sub(asked)?);
                }
                Some(worst)
            })
        })
        .collect();
    let total = tasks.len();
    let worst: Option<Vec<Duration>> =
        smol::block_on(async { futures::future::join_all(tasks).await.into_iter().collect() });
    let took = start.elapsed();

    // A task that would sleep for a year. The shutdown wakes it.
    let far = timers.handle.clone();
    let sleeper = smol::spawn(async move { far.sleep(Duration::from_secs(365 * 86_400)).await });
    while timers.handle.stats().live == 0 {
        thread::yield_now();
    }
    timers.stop();
    let refused = smol::block_on(sleeper);

    match (worst, refused) {
        (Some(worst), Err(shutdown)) => {
            let latest = worst.into_iter().max().unwrap_or_default();
            let printed = writeln!(
                io::stdout(),
                "{total} tasks slept ten times each in {took:.1?}; the latest was {latest:.1?} late\n\
                 the one that slept for a year was told: {shutdown}"
            );
            match printed {
                // It is no error if the reader has stopped reading.
                Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                    fail(&format!("cannot print: {error}"))
                }
                _ => ExitCode::SUCCESS,
            }
        }
        (None, _) => fail("a sleep ended early"),
        (_, Ok(())) => fail("a year has passed"),
    }
}

fn fail(why: &str) -> ExitCode {
    // Not `eprintln!`, which panics if it cannot print.
    let _ = writeln!(io::stderr(), "under_smol: {why}");
    ExitCode::FAILURE
}
