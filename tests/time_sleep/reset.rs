//! A sleep that is reset: to earlier and later, in any state, from any thread.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{HOUR, LONG, metrics, ms, turn, us, watchdog};
use futures::poll;
use mainspring::task::unconstrained;
use mainspring::time::{Instant, sleep, sleep_until};
use mainspring::{block_on, spawn};

#[test]
fn a_reset_to_the_past_is_ready_at_the_next_poll() {
    // Without a budget, which a slow machine uses up.
    block_on(unconstrained(async {
        let past = Instant::now() - us(1);
        let turns = metrics().turns();

        let mut never_polled = pin!(sleep(HOUR));
        never_polled.as_mut().reset(past);
        assert!(poll!(never_polled).is_ready());

        let mut registered = pin!(sleep(HOUR));
        assert!(poll!(registered.as_mut()).is_pending());
        registered.as_mut().reset(past);
        assert!(poll!(registered.as_mut()).is_ready());

        // After it has fired, once more.
        registered.as_mut().reset(past);
        assert!(poll!(registered).is_ready());

        assert_eq!(metrics().turns(), turns);
        assert_eq!(metrics().timers_live(), 0);
    }));
}

#[test]
fn a_reset_to_the_past_wakes_its_task() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let shared = Arc::new(Mutex::new(Box::pin(sleep(HOUR))));
        let waiting = shared.clone();
        let waiter = spawn(poll_fn(move |cx| waiting.lock().unwrap().as_mut().poll(cx)));
        turn().await;
        shared.lock().unwrap().as_mut().reset(Instant::now());
        waiter.await.unwrap();
    });
}

#[test]
fn a_reset_moves_the_end_to_both_sides() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        // Never polled.
        let start = Instant::now();
        let mut sleep = pin!(sleep(HOUR));
        sleep.as_mut().reset(start + ms(3));
        assert_eq!(sleep.deadline(), start + ms(3));
        sleep.as_mut().await;
        assert!(start.elapsed() >= ms(3));

        // After it had fired.
        let start = Instant::now();
        sleep.as_mut().reset(start + ms(3));
        let _ = poll!(sleep.as_mut());
        sleep.as_mut().await;
        assert!(start.elapsed() >= ms(3));

        // Later, twice, while registered. (tokio #3229: dropped at its new time it left a dangling entry.)
        let start = Instant::now();
        sleep.as_mut().reset(start + ms(2));
        let _ = poll!(sleep.as_mut());
        sleep.as_mut().reset(start + ms(4));
        sleep.as_mut().reset(start + ms(8));
        sleep.as_mut().await;
        assert!(start.elapsed() >= ms(8));

        // Earlier.
        sleep.as_mut().reset(Instant::now() + HOUR);
        assert!(poll!(sleep.as_mut()).is_pending());
        let start = Instant::now();
        sleep.as_mut().reset(start + ms(3));
        sleep.as_mut().await;
        assert!(start.elapsed() >= ms(3));
        assert_eq!(metrics().timers_live(), 0);
    });
}

#[test]
fn a_reset_from_another_thread_ends_the_park() {
    let _watchdog = watchdog(LONG);
    for wait in [Duration::ZERO, ms(5)] {
        block_on(async {
            let shared = Arc::new(Mutex::new(Box::pin(sleep(HOUR))));
            let remote = shared.clone();
            let thread = thread::spawn(move || {
                thread::sleep(ms(20));
                let deadline = Instant::now() + wait;
                remote.lock().unwrap().as_mut().reset(deadline);
                deadline
            });
            poll_fn(|cx| shared.lock().unwrap().as_mut().poll(cx)).await;
            let ended = Instant::now();
            assert!(ended >= thread.join().unwrap());
        });
    }
}

#[test]
fn a_reset_to_later_from_another_thread_is_waited_for() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let start = Instant::now();
        let shared = Arc::new(Mutex::new(Box::pin(sleep(ms(30)))));
        let remote = shared.clone();
        let thread = thread::spawn(move || {
            // However late this thread is: in that case the sleep simply starts anew.
            thread::sleep(ms(5));
            remote.lock().unwrap().as_mut().reset(start + ms(60));
        });
        loop {
            poll_fn(|cx| shared.lock().unwrap().as_mut().poll(cx)).await;
            if thread.is_finished() && shared.lock().unwrap().is_elapsed() {
                break;
            }
            mainspring::task::yield_now().await;
        }
        assert!(start.elapsed() >= ms(60));
    });
}

#[test]
fn a_reset_keeps_the_place_in_the_order() {
    let _watchdog = watchdog(LONG);
    let ended = Arc::new(Mutex::new(Vec::new()));
    block_on(async {
        let deadline = Instant::now() + ms(200);
        let wait = |name: &'static str, from: Instant| {
            let ended = ended.clone();
            async move {
                let mut sleep = pin!(sleep_until(from));
                let mut polled = false;
                poll_fn(|cx| {
                    if polled {
                        return sleep.as_mut().poll(cx);
                    }
                    polled = true;
                    assert!(sleep.as_mut().poll(cx).is_pending());
                    sleep.as_mut().reset(deadline);
                    sleep.as_mut().poll(cx)
                })
                .await;
                ended.lock().unwrap().push(name);
            }
        };
        let tasks = [
            spawn(wait("earlier", deadline - ms(5))),
            spawn(wait("same", deadline)),
            spawn(wait("later", deadline + HOUR)),
            spawn(wait("last", deadline)),
        ];
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(*ended.lock().unwrap(), ["earlier", "same", "later", "last"]);
}
