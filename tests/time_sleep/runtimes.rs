//! Which runtime a sleep belongs to, and what it does without one.

use std::pin::pin;
use std::sync::mpsc;
use std::thread;
use std::time::Instant as StdInstant;

use crate::common::{HOUR, LONG, metrics, ms, orphan, panicked, watchdog};
use futures::poll;
use mainspring::time::{Instant, Sleep, sleep, sleep_until, timeout, try_sleep, try_sleep_until};
use mainspring::{Runtime, block_on};

#[test]
fn made_outside_it_starts_counting_at_its_first_poll() {
    let outside = sleep(ms(20));
    let moment = sleep_until(Instant::now() + ms(1));
    thread::sleep(ms(30));
    let start = StdInstant::now();
    block_on(outside);
    assert!(start.elapsed() >= ms(20));
    // A moment is the same moment, wherever it was named.
    block_on(async {
        let turns = metrics().turns();
        assert!(poll!(pin!(moment)).is_ready());
        assert_eq!(metrics().turns(), turns);
    });
}

#[test]
fn made_inside_it_stays_with_its_runtime() {
    let _watchdog = watchdog(LONG);
    let (send, receive) = mpsc::channel::<Sleep>();
    let (done, wait) = futures::channel::oneshot::channel();
    let maker = thread::spawn(move || {
        block_on(async move {
            send.send(sleep(ms(100))).unwrap();
            wait.await.unwrap();
            (metrics().timers_armed(), metrics().timers_fired())
        })
    });
    let sleep = receive.recv().unwrap();
    block_on(async {
        sleep.await;
        assert_eq!(metrics().timers_armed(), 0, "the sleep went over to the runtime that polled it");
    });
    done.send(()).unwrap();
    assert_eq!(maker.join().unwrap(), (1, 1));
}

#[test]
fn made_inside_it_needs_its_own_runtime_to_run() {
    let idle = Runtime::new().unwrap();
    let sleep = {
        let _entered = idle.handle().enter();
        sleep(ms(50))
    };
    // No thread runs `idle`, so only the poll that finds the deadline passed may end it.
    let mut sleep = Box::pin(sleep);
    block_on(async {
        assert!(timeout(ms(5), &mut sleep).await.is_err());
    });
    assert_eq!(idle.handle().metrics().timers_live(), 1);
    idle.block_on(sleep);
}

#[test]
fn without_a_runtime_it_says_what_to_do_and_where_it_was_made() {
    let line = line!() + 1;
    let sleep = sleep(ms(1));
    let panic = panicked(|| futures::executor::block_on(sleep));
    assert!(panic.message.contains("no Mainspring runtime"), "{}", panic.message);
    assert!(panic.message.contains("block_on"), "{}", panic.message);
    let place = format!("{}:{line}", file!());
    assert!(panic.message.contains(&place), "{} does not name {place}", panic.message);
}

#[test]
fn after_its_runtime_it_says_what_to_do_and_where_it_was_made() {
    let (sleep, line) = block_on(async { (sleep(HOUR), line!()) });
    let panic = panicked(|| futures::executor::block_on(sleep));
    assert!(panic.message.contains("runtime was dropped"), "{}", panic.message);
    let place = format!("{}:{line}", file!());
    assert!(panic.message.contains(&place), "{} does not name {place}", panic.message);
}

#[test]
fn try_sleep_returns_the_errors() {
    let outside = futures::executor::block_on(try_sleep(ms(1))).unwrap_err();
    assert!(outside.is_no_runtime() && !outside.is_shutdown());
    let outside = futures::executor::block_on(try_sleep_until(Instant::now())).unwrap_err();
    assert!(outside.is_no_runtime());
    assert!(std::io::Error::from(outside).to_string().contains("block_on"));

    let gone = orphan(|| try_sleep(HOUR));
    let gone = futures::executor::block_on(gone).unwrap_err();
    assert!(gone.is_shutdown() && !gone.is_no_runtime());

    block_on(async {
        let start = Instant::now();
        try_sleep(ms(1)).await.unwrap();
        try_sleep_until(start + ms(2)).await.unwrap();
        assert!(start.elapsed() >= ms(2));
    });
}
