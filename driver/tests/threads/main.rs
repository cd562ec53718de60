//! Timers that are polled, moved and dropped on one thread while the driver runs on another. Each test is
//! named after the promise it keeps; a hang ends in a panic that says what waits for what.

#[path = "../probe/mod.rs"]
mod probe;

mod park;
mod races;
mod shutdown;
mod users;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use mainspring_driver::{Clock, Driver, Handle, Shutdown};
use probe::{Timer, poll};

/// A thread that waits longer than this waits for nothing.
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

/// Waits for the timer, but not forever.
fn wait_for(timer: &mut Timer) -> Result<(), Shutdown> {
    let waker = Waker::from(Unparker::new());
    let start = Instant::now();
    loop {
        if let Poll::Ready(result) = poll(timer, &waker) {
            return result;
        }
        // Far longer than any timer here: the thread returns from this park only if it is woken.
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
    /// Runs the driver until it is stopped, and then shuts it down.
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
                        // The thread returns from this park only if it is unparked.
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
