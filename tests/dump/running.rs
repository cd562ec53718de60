//! What the runtime is polling at the moment, reported to other threads.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{LONG, ms, panicked, watchdog};
use mainspring::dump::Running;
use mainspring::task::yield_now;
use mainspring::{Builder, Handle, Runtime, sleep, spawn, task};

/// Looks until it sees something that is wanted.
fn look(handle: &Handle, wanted: impl Fn(&Running) -> bool) -> Running {
    loop {
        match handle.running() {
            Some(running) if wanted(&running) => return running,
            _ => thread::yield_now(),
        }
    }
}

#[test]
fn a_task_that_blocks_is_told_to_other_threads_by_its_line_and_for_how_long() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    assert_eq!(handle.running(), None, "it is in no `block_on`");
    let (go, blocked) = mpsc::channel::<()>();
    let watcher = thread::spawn({
        let handle = handle.clone();
        move || {
            let first = look(&handle, |running| running.name.as_deref() == Some("bad"));
            thread::sleep(ms(30));
            let second = handle.running().unwrap();
            go.send(()).unwrap();
            // The next poll of the same task.
            let next = look(&handle, |running| running.id == first.id && !running.is_same_poll(&first));
            go.send(()).unwrap();
            // And now it sleeps.
            while handle.running().is_some() {
                thread::yield_now();
            }
            (first, second, next)
        }
    });
    let line = line!() + 3;
    let (bad, mut polled) = (task::Builder::new().name("bad"), None);
    runtime.block_on(async {
        let bad = bad.spawn(async move {
            blocked.recv().unwrap();
            yield_now().await;
            blocked.recv().unwrap();
        });
        polled = Some(bad.id());
        bad.await.unwrap();
        while !watcher.is_finished() {
            sleep(ms(5)).await;
        }
    });
    let (first, second, next) = watcher.join().unwrap();
    for running in [&first, &second, &next] {
        assert_eq!(running.id, polled);
        assert_eq!((running.spawned_at.file(), running.spawned_at.line()), (file!(), line));
        assert!(running.at_most.is_some_and(|at_most| at_most >= running.at_least), "{running}");
    }
    assert!(second.is_same_poll(&first) && second.at_least >= ms(30), "{first}, then {second}");
    assert_eq!(next.at_least, Duration::ZERO, "{next}");
    let told = format!("task 0 \"bad\", spawned at {}:{line}:", file!());
    assert!(second.to_string().contains(&told), "{second}");
    drop(runtime);
    assert_eq!(handle.running(), None);
}

#[test]
fn a_poll_is_told_to_have_begun_no_earlier_than_the_stretch_to_which_it_belongs() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    let (tell, told) = mpsc::channel::<Instant>();
    let watcher = thread::spawn(move || {
        let before = told.recv().unwrap();
        let running = look(&handle, |_| true);
        (running.at_most.unwrap(), before.elapsed())
    });
    runtime.block_on(async {
        // The clock has advanced for a while by then.
        sleep(ms(100)).await;
        let before = Instant::now();
        sleep(ms(1)).await;
        tell.send(before).unwrap();
        while !watcher.is_finished() {
            thread::yield_now();
        }
    });
    let (at_most, elapsed) = watcher.join().unwrap();
    assert!(at_most <= elapsed, "{at_most:?} at most, and {elapsed:?} ago it had not begun");
}

#[test]
fn the_future_of_block_on_is_told_as_such_and_virtual_time_as_no_bound() {
    let _watchdog = watchdog(LONG);
    let runtime = Builder::new().start_paused(true).build().unwrap();
    let handle = runtime.handle().clone();
    let seen = thread::scope(|scope| {
        let watcher = scope.spawn(|| look(&handle, |_| true));
        let line = line!() + 1;
        runtime.block_on(async {
            while !watcher.is_finished() {
                thread::sleep(ms(1));
            }
        });
        let seen = watcher.join().unwrap();
        assert_eq!((seen.spawned_at.file(), seen.spawned_at.line()), (file!(), line));
        seen
    });
    assert_eq!((seen.id, seen.name.clone(), seen.at_most), (None, None, None));
    assert!(seen.to_string().starts_with("the future of `block_on`, called at"), "{seen}");
    // A poll that panics has ended.
    panicked(|| runtime.block_on(async { panic!("on purpose") }));
    assert_eq!(handle.running(), None);
}

#[test]
fn a_dump_that_times_out_says_who_keeps_the_runtime() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    let error = handle.dump_within(ms(1)).unwrap_err();
    assert!(error.running().is_none() && error.to_string().contains("in no `block_on` or `turn`"), "{error}");
    let ((ready, begun), (go, blocked)) = (mpsc::channel(), mpsc::channel::<()>());
    let asker = thread::spawn(move || {
        begun.recv().unwrap();
        let error = handle.dump_within(ms(30)).unwrap_err();
        go.send(()).unwrap();
        error
    });
    let line = line!() + 2;
    runtime.block_on(async {
        let bad = spawn(async move {
            ready.send(()).unwrap();
            blocked.recv().unwrap();
        });
        bad.await.unwrap();
    });
    let error = asker.join().unwrap();
    let running = error.running().expect("a task was polled");
    assert_eq!((running.spawned_at.file(), running.spawned_at.line()), (file!(), line));
    // The poll lasted at least as long as the wait for the dump.
    assert!(error.is_timed_out() && running.at_least >= ms(30), "{error}");
    assert!(error.to_string().contains(&format!("{}:{line}:", file!())), "{error}");
}
