//! A `block_on` whose future is ready at its first poll: everything else that waits gets a chance to run all the same.

mod common;

use std::thread;

use common::{LONG, Probe, ms, paused, watchdog};
use mainspring::task::yield_now;
use mainspring::{Runtime, sleep};

#[test]
fn a_task_that_has_yielded_goes_on() {
    let _watchdog = watchdog(LONG);
    // Paused: a turn is then as long on a slow machine.
    let runtime = paused();
    let task = runtime.spawn(yield_now());
    runtime.block_on(async {});
    assert!(task.is_finished());
}

#[test]
fn a_timer_that_is_due_fires_whether_a_task_waits_for_it_or_not() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let task = runtime.spawn(sleep(ms(1)));
    runtime.block_on(yield_now());
    thread::sleep(ms(2));
    // One fires the timer, the next one runs the task.
    (0..3).for_each(|_| runtime.block_on(async {}));
    assert!(task.is_finished());

    let probe = Probe::new();
    let mut timer = {
        let _entered = runtime.handle().enter();
        Box::pin(sleep(ms(1)))
    };
    assert!(probe.poll(timer.as_mut()).is_pending());
    thread::sleep(ms(2));
    runtime.block_on(async {});
    assert_eq!(probe.wakes(), 1);
}

#[cfg(unix)]
#[test]
fn the_event_of_a_descriptor_is_seen_whether_a_task_waits_for_it_or_not() {
    use mainspring::io::AsyncFd;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let (here, mut there) = UnixStream::pair().unwrap();
    let task = runtime.spawn(async move {
        AsyncFd::new(here).unwrap().readable().await.unwrap();
    });
    runtime.block_on(yield_now());
    assert!(!task.is_finished());
    there.write_all(b"x").unwrap();
    (0..3).for_each(|_| runtime.block_on(async {}));
    assert!(task.is_finished());

    let (here, mut there) = UnixStream::pair().unwrap();
    let here = {
        let _entered = runtime.handle().enter();
        AsyncFd::new(here).unwrap()
    };
    let probe = Probe::new();
    let mut ready = Box::pin(here.readable());
    assert!(probe.poll(ready.as_mut()).is_pending());
    there.write_all(b"x").unwrap();
    runtime.block_on(async {});
    assert_eq!(probe.wakes(), 1);
}
