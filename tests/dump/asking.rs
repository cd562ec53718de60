//! Asking for a dump, from any thread and at any time: the request is answered, and changes nothing.

use std::future::pending;
use std::pin::pin;
use std::sync::mpsc;
use std::sync::mpsc::channel;
use std::thread;

use futures::FutureExt;

use crate::common::{HOUR, LONG, ms, watchdog};
use crate::{here, rest};
use mainspring::dump::Wakes;
use mainspring::task::yield_now;
use mainspring::time::Instant;
use mainspring::{Builder, Handle, Runtime, sleep, spawn, task};

#[test]
fn another_thread_gets_an_answer() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    drop(runtime.spawn(sleep(HOUR)));
    let handle = runtime.handle().clone();
    // A request is answered between two polls, so even before the first poll of `block_on`'s future: the request is made
    // after that poll.
    let (begin, begun) = channel();
    // The runtime sleeps: it is woken for the request.
    let other = thread::spawn(move || {
        begun.recv_timeout(LONG).unwrap();
        assert!(handle.dump().unwrap_err().is_elsewhere());
        let (sender, receiver) = channel();
        handle.request_dump(move |dump| sender.send((thread::current().id(), dump)).unwrap());
        let (answered_by, requested) = receiver.recv_timeout(LONG).unwrap();
        (handle.dump_within(LONG).unwrap(), requested.unwrap(), answered_by)
    });
    let (waited, requested, answered_by) = runtime.block_on(async {
        // A timer that is there even while the short one has fired and has not been made anew.
        let mut far = pin!(sleep(HOUR));
        assert!(futures::poll!(far.as_mut()).is_pending());
        begin.send(()).unwrap();
        while !other.is_finished() {
            sleep(ms(5)).await;
        }
        other.join().unwrap()
    });
    assert_eq!(answered_by, thread::current().id());
    for dump in [waited, requested] {
        assert_eq!(dump.tasks.len(), 1, "{dump}");
        assert!(dump.timers.iter().any(|timer| timer.wakes == Wakes::Task(dump.tasks[0].id)), "{dump}");
        assert!(dump.timers.iter().any(|timer| timer.wakes == Wakes::BlockOn), "{dump}");
    }
}

#[test]
fn a_runtime_that_is_blocked_or_idle_or_gone_hangs_nobody_who_asks() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    // The runtime is in no `block_on`.
    assert!(handle.dump().unwrap_err().is_elsewhere());
    let error = handle.dump_within(ms(20)).unwrap_err();
    assert!(error.is_timed_out() && error.to_string().contains("20ms"), "{error}");
    assert!(runtime.dump().tasks.is_empty());
    // A task that blocks.
    let (blocked, unblock) = (mpsc::sync_channel::<()>(0), mpsc::sync_channel::<()>(0));
    let asking = handle.clone();
    let other = thread::spawn(move || {
        blocked.1.recv().unwrap();
        let error = asking.dump_within(ms(20)).unwrap_err();
        unblock.0.send(()).unwrap();
        error
    });
    runtime.block_on(async {
        blocked.0.send(()).unwrap();
        unblock.1.recv().unwrap();
    });
    assert!(other.join().unwrap().is_timed_out());
    // A runtime that is dropped while a request waits, and one that was dropped before.
    let (sender, receiver) = channel();
    let late = sender.clone();
    handle.request_dump(move |dump| sender.send(dump.map(drop)).unwrap());
    assert!(receiver.try_recv().is_err());
    drop(runtime);
    assert!(receiver.try_recv().unwrap().unwrap_err().is_shutdown());
    assert!(handle.dump().unwrap_err().is_shutdown());
    assert!(handle.dump_within(LONG).unwrap_err().is_shutdown());
    handle.request_dump(move |dump| late.send(dump.map(drop)).unwrap());
    assert!(receiver.try_recv().unwrap().unwrap_err().is_shutdown());
}

#[test]
fn an_answer_that_panics_takes_no_other_with_it() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let (sender, receiver) = channel();
    for bad in [false, true, false] {
        let sender = sender.clone();
        runtime.handle().request_dump(move |dump| {
            assert!(!bad, "a bad answer");
            sender.send(dump.is_ok()).unwrap();
        });
    }
    let answers = runtime.block_on(async {
        let mut answers = Vec::new();
        while answers.len() < 2 {
            sleep(ms(1)).await;
            answers.extend(receiver.try_iter());
        }
        answers
    });
    assert_eq!(answers, [true, true]);
}

#[test]
fn who_asks_for_a_dump_is_in_no_dump_and_has_no_number() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let (sender, receiver) = channel();
    runtime.block_on(async {
        let first = spawn(pending::<()>());
        for _ in 0..3 {
            let sender = sender.clone();
            Handle::current().request_dump(move |dump| sender.send(dump.unwrap()).unwrap());
        }
        assert_eq!(here().tasks.len(), 1, "the requests wait, and are not seen");
        assert_eq!(Handle::current().metrics().tasks_alive(), 1);
        let second = spawn(pending::<()>());
        while receiver.try_iter().map(|dump| dump.tasks.len()).sum::<usize>() == 0 {
            sleep(ms(1)).await;
        }
        assert_eq!(u64::from(second.id()), u64::from(first.id()) + 1);
        let ids: Vec<task::Id> = here().tasks.iter().map(|task| task.id).collect();
        assert_eq!(ids, [first.id(), second.id()]);
    });
}

#[test]
fn a_look_does_not_make_virtual_time_jump() {
    let _watchdog = watchdog(LONG);
    let runtime = Builder::new().start_paused(true).auto_advance(false).build().unwrap();
    let handle = runtime.handle().clone();
    drop(runtime.spawn(sleep(HOUR)));
    let other = thread::spawn(move || handle.dump_within(LONG).unwrap());
    let dump = runtime.block_on(async {
        let start = Instant::now();
        rest().await;
        while !other.is_finished() {
            thread::sleep(ms(1));
            yield_now().await;
        }
        assert_eq!(Instant::now(), start, "time has moved");
        other.join().unwrap()
    });
    assert_eq!(dump.timers[0].deadline - dump.at, HOUR, "{dump}");
    // To the nanosecond, and in the text.
    assert!(dump.to_string().contains("in 3600.0s"), "{dump}");
}

#[test]
fn a_dump_made_while_the_runtime_ends_does_not_panic() {
    let _watchdog = watchdog(LONG);
    struct Looks(Handle);
    impl Drop for Looks {
        fn drop(&mut self) {
            assert!(self.0.dump().unwrap_err().is_shutdown());
        }
    }
    let runtime = Runtime::new().unwrap();
    let looks = Looks(runtime.handle().clone());
    drop(runtime.spawn(async move {
        let _looks = looks;
        pending::<()>().await;
    }));
    runtime.block_on(rest());
    let handle = runtime.handle().clone();
    drop(runtime);
    assert!(handle.is_shutdown());
}

#[test]
fn a_task_lists_what_is_pending_in_a_turn_too_and_the_error_elsewhere_says_so() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    let error = handle.dump().unwrap_err();
    assert!(error.is_elsewhere() && error.to_string().contains("inside `block_on` or `turn`"), "{error}");
    let error = handle.dump_within(ms(1)).unwrap_err();
    assert!(error.is_timed_out() && error.to_string().contains("in no `block_on` or `turn`"), "{error}");
    let task = runtime.spawn(async move { handle.dump() });
    while !task.is_finished() {
        runtime.turn(HOUR);
    }
    assert_eq!(task.now_or_never().unwrap().unwrap().unwrap().tasks.len(), 1);
}
