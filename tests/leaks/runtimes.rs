//! Runtimes that come and go leave nothing behind, whether or not something is left in them.

use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::mpsc::sync_channel;
use std::task::{Context, Poll, Waker};

use crate::common::{self, HOUR, LONG, turn, us, watchdog};
use crate::counting::live_bytes;
use crate::{alone, descriptors, often};
use futures::poll;
use mainspring::Runtime;
use mainspring::time::{TrySleep, sleep, timeout, try_sleep};

// tokio #3564.
#[test]
fn runtimes_that_come_and_go_leave_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(2 * LONG);
    let one = || {
        let runtime = Runtime::new().unwrap();
        drop(runtime.spawn(sleep(HOUR)));
        drop(runtime.handle().spawn(sleep(HOUR)));
        runtime.block_on(async {
            let mut left = pin!(sleep(HOUR));
            assert!(poll!(left.as_mut()).is_pending());
            sleep(us(1)).await;
            assert!(timeout(us(1), pending::<()>()).await.is_err());
        });
    };
    // The things that are made once for the thread and the process.
    for _ in 0..3 {
        one();
    }
    let before = (live_bytes(), descriptors());
    for _ in 0..often(10_000, 2_000) {
        one();
    }
    assert_eq!((live_bytes(), descriptors()), before, "bytes and descriptors");
}

#[test]
fn a_hundred_thousand_runtimes_that_their_timers_outlive_leave_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(4 * LONG);
    // A thread that polls and drops timers of runtimes that may be gone.
    let (sender, receiver) = sync_channel::<Vec<Pin<Box<TrySleep>>>>(16);
    let (done, drained) = sync_channel(1);
    let elsewhere = std::thread::spawn(move || {
        for mut sleeps in receiver {
            // An empty list is a question: what is left of the sleeps that came before?
            if sleeps.is_empty() {
                done.send(live_bytes()).expect("the test waits");
            }
            let mut cx = Context::from_waker(Waker::noop());
            for sleep in &mut sleeps {
                assert!(!matches!(sleep.as_mut().poll(&mut cx), Poll::Ready(Ok(()))), "an hour early");
            }
        }
    });
    let one = |n: usize| {
        let runtime = Runtime::new().unwrap();
        let left = runtime.block_on(async {
            let mut left: Vec<_> = (0..3).map(|_| Box::pin(try_sleep(HOUR))).collect();
            // One was never polled.
            assert!(poll!(left[0].as_mut()).is_pending() && poll!(left[1].as_mut()).is_pending());
            left
        });
        let (before, after) = if n % 2 == 0 { (Some(left), None) } else { (None, Some(left)) };
        before.into_iter().for_each(|left| sender.send(left).unwrap());
        drop(runtime);
        // These are dropped here.
        drop(after);
    };
    let settle = || {
        sender.send(vec![]).unwrap();
        (live_bytes() + drained.recv().unwrap(), descriptors())
    };
    (0..4).for_each(one);
    let before = settle();
    (0..often(100_000, 10_000)).for_each(one);
    let after = settle();
    // The channel may have allocated memory for a thread that waits.
    assert!((after.0 - before.0).abs() < 2_000, "{} bytes are left", after.0 - before.0);
    assert_eq!(after.1, before.1, "descriptors");
    drop(sender);
    elsewhere.join().unwrap();
}

#[test]
fn ten_thousand_live_timers_and_tasks_are_freed_with_the_runtime() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    let run = || {
        let runtime = Runtime::new().unwrap();
        for n in 0..10_000 {
            drop(runtime.spawn(async move { sleep(HOUR + us(n)).await }));
        }
        runtime.block_on(async {
            while common::metrics().timers_live() < 10_000 {
                turn().await;
            }
        });
    };
    run();
    let before = live_bytes();
    run();
    assert_eq!(live_bytes(), before);
}
