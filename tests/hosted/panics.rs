//! Which panics reach the host, and that the next turn goes on after them.

use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use crate::common::{HOUR, LONG, Probe, ms, panicked, watchdog};
use crate::rest;
use futures::FutureExt;
use mainspring::time::{Instant, sleep_until};
use mainspring::{Runtime, block_on};

#[test]
fn a_turn_inside_a_block_on_or_a_turn_panics_where_it_was_called() {
    let _watchdog = watchdog(LONG);
    let runtime = Rc::new(Runtime::new().unwrap());
    let inner = runtime.clone();
    let inside = async move || {
        let mut lines = Vec::new();
        let (panic, line) = (panicked(|| inner.turn(Duration::ZERO)), line!());
        assert!(panic.message.starts_with("`turn` was called inside a"), "{}", panic.message);
        lines.push((panic, line));
        let (panic, line) = (panicked(|| Runtime::new().unwrap().turn(HOUR)), line!());
        assert!(panic.message.starts_with("`turn` was called inside a"), "{}", panic.message);
        lines.push((panic, line));
        let (panic, line) = (panicked(|| inner.next_wake()), line!());
        assert!(panic.message.starts_with("`next_wake` was called inside"), "{}", panic.message);
        lines.push((panic, line));
        let (panic, line) = (panicked(|| inner.block_on(async {})), line!());
        assert!(panic.message.starts_with("`block_on` was called inside a"), "{}", panic.message);
        lines.push((panic, line));
        // Without a task, or without time, it takes no turn.
        assert_eq!(Runtime::new().unwrap().shutdown_timeout(ms(1)), 0);
        let another = Runtime::new().unwrap();
        another.spawn(pending::<()>()).detach();
        assert_eq!(another.shutdown_timeout(Duration::ZERO), 1);
        let another = Runtime::new().unwrap();
        another.spawn(pending::<()>()).detach();
        let (panic, line) = (panicked(|| another.shutdown_timeout(ms(1))), line!());
        assert!(panic.message.starts_with("`shutdown_timeout` was called inside a"), "{}", panic.message);
        lines.push((panic, line));
        for (panic, line) in lines {
            assert_eq!((panic.file.as_str(), panic.line), (file!(), line), "{}", panic.message);
        }
    };
    runtime.block_on(inside());
    let task = runtime.spawn(async move { inside().await });
    while !task.is_finished() {
        runtime.turn(HOUR);
    }
    task.now_or_never().unwrap().unwrap();
    // And the runtime works afterwards.
    assert_eq!(block_on(async { 1 }), 1);
}

#[test]
fn panics_reach_the_host_only_if_they_are_of_a_foreign_waker_and_the_next_turn_goes_on() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let bad = runtime.spawn(async {
        if true {
            std::panic::resume_unwind(Box::new("a task's"))
        }
    });
    let good = runtime.spawn(async { 1 });
    rest(&runtime);
    let payload = bad.now_or_never().unwrap().unwrap_err().into_panic();
    assert_eq!(payload.downcast_ref(), Some(&"a task's"));
    assert_eq!(good.now_or_never().unwrap().unwrap(), 1);

    let probes = Probe::forty(20);
    let deadline = Instant::now() + ms(500);
    let _sleeps = Probe::all_wait(&probes, &runtime, || sleep_until(deadline));
    let task = runtime.spawn(sleep_until(deadline));
    let panic = panicked(|| {
        loop {
            runtime.turn(HOUR);
        }
    });
    assert_eq!(panic.message, "waker 20");
    assert!(probes.iter().all(|probe| probe.wakes() == 1));
    while !task.is_finished() {
        runtime.turn(HOUR);
    }
}
