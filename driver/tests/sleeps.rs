//! Real sleeps on the real clock: never early, not by a nanosecond (libuv #4773). How late they are depends
//! on the machine; only a hang is a failure.

use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures::future::join_all;
use mainspring_driver::{Clock, Driver};

struct Unparker(thread::Thread);
impl Wake for Unparker {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

/// The loop of the driver's contract, around one future.
fn block_on<F: Future>(driver: &mut Driver, clock: &Clock, future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(std::sync::Arc::new(Unparker(thread::current())));
    let start = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let wake = driver.next_wake().expect("nobody waits for anything");
        thread::park_timeout(wake.saturating_duration_since(clock.now()));
        let _ = driver.process(clock.now(), 1_000);
        assert!(start.elapsed() < Duration::from_secs(60), "a sleep was lost");
    }
}

#[test]
fn a_sleep_never_ends_early() {
    const SLEEPS: u64 = 2_000;
    let clock = Clock::monotonic();
    let thread = thread::current();
    let mut driver = Driver::new(clock.clone(), move || thread.unpark());
    let handle = driver.handle().clone();
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut durations = (0..SLEEPS).map(|i| {
        random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        // From zero to five milliseconds, and every twentieth very short.
        Duration::from_nanos((random >> 20) % if i % 20 == 0 { 5_000 } else { 5_000_000 })
    });
    let mut worst = Duration::ZERO;
    // Alone and in crowds.
    for crowd in [1; 200].into_iter().chain([100; 18]) {
        let sleeps = durations.by_ref().take(crowd).map(|asked| {
            let start = Instant::now();
            let timer = handle.sleep(asked);
            async move {
                timer.await.expect("the driver is there");
                (asked, start.elapsed())
            }
        });
        for (asked, took) in block_on(&mut driver, &clock, join_all(sleeps)) {
            assert!(took >= asked, "asked for {asked:?}, took {took:?}");
            worst = worst.max(took - asked);
        }
    }
    assert_eq!(durations.next(), None, "not all were slept");
    println!("{SLEEPS} sleeps; the latest was {worst:?} late");
}
