//! The turns that a runtime takes before it is shut down.

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use crate::common::{HOUR, LONG, ms, paused, watchdog};
use futures::FutureExt;
use futures::channel::oneshot;
use mainspring::task::yield_now;
use mainspring::time::Instant;
use mainspring::{Runtime, sleep, spawn};

#[test]
fn a_shutdown_waits_for_its_tasks_and_for_those_that_they_spawn() {
    let _watchdog = watchdog(LONG);
    let runtime = paused();
    let (stop, stopped) = oneshot::channel::<()>();
    let ended = Rc::new(Cell::new(None));
    let seen = ended.clone();
    runtime
        .spawn(async move {
            let start = Instant::now();
            let _ = stopped.await;
            sleep(ms(300)).await;
            spawn(async move {
                sleep(ms(300)).await;
                seen.set(Some(start.elapsed()));
            })
            .detach();
        })
        .detach();
    drop(stop);
    assert_eq!(runtime.shutdown_timeout(HOUR), 0);
    assert_eq!(ended.get(), Some(ms(600)));
    // With nothing to do the shutdown does not wait.
    assert_eq!(Runtime::new().unwrap().shutdown_timeout(HOUR), 0);
}

#[test]
fn a_shutdown_drops_what_has_not_ended_when_the_time_is_up() {
    let _watchdog = watchdog(LONG);
    let runtime = paused();
    let last = Rc::new(Cell::new(Duration::ZERO));
    let ticked = last.clone();
    let endless = runtime.spawn(async move {
        let start = Instant::now();
        loop {
            sleep(ms(100)).await;
            ticked.set(start.elapsed());
        }
    });
    let pends = runtime.spawn(pending::<()>());
    runtime.spawn(sleep(ms(400))).detach();
    assert_eq!(runtime.shutdown_timeout(ms(950)), 2);
    assert_eq!(last.get(), ms(900));
    for task in [endless, pends] {
        assert!(task.now_or_never().unwrap().unwrap_err().is_cancelled());
    }
}

#[test]
fn a_shutdown_without_time_polls_nothing() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let ran = Rc::new(Cell::new(false));
    let flag = ran.clone();
    runtime.spawn(async move { flag.set(true) }).detach();
    assert_eq!(runtime.shutdown_timeout(Duration::ZERO), 1);
    assert!(!ran.get());
}

#[test]
fn a_shutdown_ends_on_time_beside_tasks_that_never_rest() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    runtime
        .spawn(async {
            loop {
                yield_now().await;
            }
        })
        .detach();
    let start = StdInstant::now();
    assert_eq!(runtime.shutdown_timeout(ms(20)), 1);
    assert!(start.elapsed() >= ms(20));
}

#[test]
fn tasks_that_another_thread_has_sent_are_counted_as_unfinished() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    let sends = move || (0..100).map(|_| handle.spawn(pending::<()>())).collect::<Vec<_>>();
    let tasks = thread::spawn(sends).join().unwrap();
    assert_eq!(runtime.shutdown_timeout(Duration::ZERO), 100);
    for task in tasks {
        assert!(task.now_or_never().unwrap().unwrap_err().is_cancelled());
    }
}
