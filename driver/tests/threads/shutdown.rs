//! A shutdown while other threads use timers.

use std::sync::atomic::Ordering::SeqCst;
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::probe::{Timer, poll};
use crate::{HANG, Random, Running, wait_for};
use mainspring_driver::Handle;

#[test]
fn a_shutdown_leaves_nobody_waiting_and_uses_nothing_that_was_dropped() {
    for round in 0..20 {
        let running = Running::new(8);
        let users: Vec<_> = (0..4)
            .map(|user| {
                let handle = running.handle.clone();
                thread::spawn(move || use_until_shutdown(&handle, user))
            })
            .collect();
        thread::sleep(Duration::from_micros(round * 100));
        running.stop.store(true, SeqCst);
        running.thread.thread().unpark();
        users.into_iter().for_each(|user| user.join().expect("a user's thread failed"));
        let handle = running.handle.clone();
        running.stop();
        assert!(handle.is_shutdown());
    }
}

/// One thread waits for a far timer, the others arm, move and drop timers, until the driver refuses.
fn use_until_shutdown(handle: &Handle, user: u64) {
    if user == 0 {
        let mut far = Box::pin(handle.sleep(Duration::MAX));
        assert!(wait_for(&mut far).is_err());
        return;
    }
    let mut random = Random(user);
    let start = Instant::now();
    let mut kept: Vec<Timer> = vec![];
    loop {
        assert!(start.elapsed() < HANG, "the driver did not shut down");
        let mut timer = Box::pin(handle.sleep(Duration::from_micros(2_000 + random.below(100_000))));
        match poll(&mut timer, Waker::noop()) {
            Poll::Ready(Err(_)) => return,
            Poll::Ready(Ok(())) => continue,
            Poll::Pending => {}
        }
        let deadline = handle.now().saturating_add(Duration::from_micros(random.below(20_000)));
        if random.below(2) == 0 {
            timer.as_mut().reset(deadline);
        }
        kept.push(timer);
        if kept.len() > 20 {
            kept.swap_remove(random.below(20) as usize);
        }
    }
}
