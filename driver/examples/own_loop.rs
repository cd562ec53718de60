//! Run with: cargo run --release -p mainspring-driver --example own_loop
//!
//! The driver in the smallest loop there is: one thread that parks. A hundred timers run on it,
//! under the ordinary combinators of `futures`. The program ends with a short report, and with a failure if any timer
//! was early or lost.

use std::future::Future;
use std::io::{self, ErrorKind, Write};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::{Either, join, join_all, select};
use futures::stream::FuturesUnordered;
use mainspring_driver::{Clock, Driver, Handle};

/// How many timers run in total.
const TIMERS: usize = 100;

/// A waker that unparks the loop's thread.
struct Unparker(Thread);

impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The loop that the driver requires: run what is ready, park until the next timer, fire.
fn block_on<F: Future>(driver: &mut Driver, clock: &Clock, future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unparker(thread::current())));
    loop {
        // 1. Run. Here that is one future; an executor would run its queue.
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        // 2. Park until the driver needs to run, or `unpark` is called. A park that ends early
        //    does no harm.
        match driver.next_wake() {
            Some(at) => thread::park_timeout(at.saturating_duration_since(clock.now())),
            None => thread::park(),
        }
        // 3. Fire what is due, a bounded number at a time. The timers that are left over wait for the next turn:
        //    until then `next_wake` lies in the past, so that the thread does not park.
        let _ = driver.process(clock.now(), 1024);
    }
}

/// One timer's measurement: how late it was, or that it was early.
struct Slept {
    late: Duration,
    early: bool,
}

/// Sleeps, and reads another clock before and after.
async fn sleep(timers: &Handle, asked: Duration) -> Slept {
    let start = Instant::now();
    timers.sleep(asked).await.expect("the driver outlives its timers");
    let took = start.elapsed();
    Slept { late: took.saturating_sub(asked), early: took < asked }
}

/// The program: a hundred timers, in various combinations.
async fn program(timers: &Handle) -> Vec<Slept> {
    // Forty at once, all of which are awaited; every ten have the same deadline.
    let all = join_all((0..40).map(|i| sleep(timers, Duration::from_millis(i / 10 * 7 + 1))));
    // Forty more, which are collected in the order in which they end.
    let as_they_come: FuturesUnordered<_> =
        (0..40).map(|i| sleep(timers, Duration::from_micros(25_000 - i * 600))).collect();
    let (mut slept, more) = join(all, as_they_come.collect::<Vec<_>>()).await;
    slept.extend(more);

    // Twenty races. The shorter timer wins each; the other is dropped, which unregisters it.
    for i in 0..20 {
        let short = pin!(sleep(timers, Duration::from_micros(i * 100)));
        let long = pin!(timers.sleep(Duration::from_secs(3600)));
        match select(short, long).await {
            Either::Left((one, _)) => slept.push(one),
            Either::Right(_) => slept.push(Slept { late: Duration::ZERO, early: true }),
        }
    }
    slept
}

fn main() -> ExitCode {
    let clock = Clock::monotonic();
    let this = thread::current();
    // Timers may be armed on any thread: then the loop is unparked if it would sleep too long.
    let mut driver = Driver::new(clock.clone(), move || this.unpark());
    let timers = driver.handle().clone();

    let start = Instant::now();
    let slept = block_on(&mut driver, &clock, program(&timers));
    let took = start.elapsed();

    let early = slept.iter().filter(|one| one.early).count();
    let worst = slept.iter().map(|one| one.late).max().unwrap_or_default();
    let stats = timers.stats();
    let printed = writeln!(
        io::stdout(),
        "{} of {TIMERS} timers ended, {early} of them early, in {took:.1?}\n\
         the latest was {worst:.1?} late\n\
         {} were armed, {} fired, {} were dropped before",
        slept.len(),
        stats.armed,
        stats.fired,
        stats.cancelled
    );
    // It is no error if the reader has stopped reading.
    if let Some(error) = printed.err().filter(|error| error.kind() != ErrorKind::BrokenPipe) {
        // Not `eprintln!`, which panics if it cannot print, either.
        let _ = writeln!(io::stderr(), "own_loop: cannot print: {error}");
        return ExitCode::FAILURE;
    }
    if early > 0 || slept.len() != TIMERS || stats.live > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
