//! What is pending: a dump names every task and every timer by its line, says what each waits for, and hangs for nobody.

mod common;

use std::cell::RefCell;
use std::future::pending;
use std::pin::pin;
use std::rc::Rc;
use std::sync::mpsc::{self, channel};
use std::thread;
use std::time::Duration;

use common::{HOUR, LONG, ms, panicked, watchdog};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use mainspring::dump::{Dump, Running, TaskState, Wakes};
use mainspring::net::UdpSocket;
use mainspring::task::yield_now;
use mainspring::time::{self, DelayQueue, Instant, Sleep, StreamExt as _, TimerMap, interval, sleep_until};
use mainspring::{Builder, Handle, Runtime, block_on, sleep, spawn, task, timeout};

/// What is pending in the runtime that this runs in.
fn here() -> Dump {
    Handle::current().dump().expect("the runtime's own thread")
}

/// Lets every task go as far as it can.
async fn rest() {
    while here().tasks.iter().any(|task| task.state == TaskState::Ready) {
        yield_now().await;
    }
}

#[test]
fn a_task_is_named_by_the_line_that_spawned_it() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let first = line!() + 1;
    drop(runtime.spawn(pending::<()>()));
    drop(runtime.handle().spawn(pending::<()>()));
    runtime.block_on(async {
        drop(spawn(pending::<()>()));
        let dump = here();
        let lines: Vec<u32> = dump.tasks.iter().map(|task| task.spawned_at.line()).collect();
        assert_eq!(lines.len(), 3);
        assert!(dump.tasks.iter().all(|task| task.spawned_at.file() == file!()));
        for (line, of) in [(first, "Runtime::spawn"), (first + 1, "Handle::spawn"), (first + 3, "spawn")] {
            assert!(lines.contains(&line), "{of} at {line}: {lines:?}");
        }
    });
}

#[test]
fn a_task_that_was_given_a_name_is_shown_with_it() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let (worker, other) =
        (task::Builder::new().name("worker"), task::Builder::new().name("line\nfeed".to_owned()));
    worker.spawn_local_on(pending::<()>(), &runtime).detach();
    let handle = runtime.handle().clone();
    thread::spawn(move || other.spawn_on(pending::<()>(), &handle).detach()).join().unwrap();
    drop(runtime.spawn(pending::<()>()));
    let line = runtime.block_on(async {
        rest().await;
        worker.spawn(pending::<()>()).detach();
        line!() - 1
    });
    let dump = runtime.dump();
    let names: Vec<Option<&str>> = dump.tasks.iter().map(|task| task.name.as_deref()).collect();
    assert_eq!(names, [Some("worker"), Some("line\nfeed"), None, Some("worker")]);
    assert_eq!((dump.tasks[3].spawned_at.file(), dump.tasks[3].spawned_at.line()), (file!(), line));
    let text = dump.to_string();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("  task ")).collect();
    for (line, task) in lines.iter().zip(&dump.tasks) {
        let name = task.name.as_ref().map(|name| format!("task {} {name:?} ", task.id));
        assert!(line.contains(&name.unwrap_or(format!("task {} ", task.id))), "{text}");
    }
    // A long name moves all columns.
    let columns: Vec<_> = lines.iter().map(|line| line.find("spawned at")).collect();
    assert!(lines.len() == 4 && columns.iter().all(|column| *column == columns[0]), "{text}");
}

#[test]
fn a_timer_is_named_by_the_line_that_made_it() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut due = Vec::new();
        let tasks = FuturesUnordered::new();
        macro_rules! waits {
            ($future:expr) => {
                due.push(line!());
                let future = $future;
                tasks.push(spawn(async move {
                    let _ = future.await;
                }));
            };
        }
        waits!(sleep(HOUR));
        waits!(sleep_until(Instant::now() + HOUR));
        waits!(time::try_sleep(HOUR));
        waits!(Sleep::never());
        waits!(timeout(HOUR, pending::<()>()));
        waits!(time::timeout_at(Instant::now() + HOUR, pending::<()>()));
        waits!(time::FutureExt::timeout(pending::<()>(), HOUR));
        waits!({
            let mut late = time::interval_at(Instant::now() + HOUR, HOUR);
            async move { late.tick().await }
        });
        waits!({
            let mut late = interval(HOUR);
            async move {
                late.tick().await;
                late.tick().await
            }
        });
        waits!({
            let mut items = Box::pin(futures::stream::pending::<()>().timeout(HOUR));
            async move { items.next().await }
        });
        waits!({
            let mut queue = DelayQueue::new();
            queue.insert((), HOUR);
            async move { queue.next().await }
        });
        waits!({
            let mut map = TimerMap::new();
            map.insert("key", (), HOUR);
            async move { map.next().await }
        });
        rest().await;
        let dump = here();
        let mut lines: Vec<u32> = dump.timers.iter().map(|timer| timer.made_at.line()).collect();
        lines.sort_unstable();
        assert!(dump.timers.iter().all(|timer| timer.made_at.file() == file!()), "{dump}");
        assert_eq!(lines.len(), due.len(), "{dump}");
        for (made, expected) in lines.iter().zip(&due) {
            // Within the macro's argument, which may take a few lines.
            assert!((*expected..expected + 6).contains(made), "{made} for {expected}: {dump}");
        }
    });
}

#[test]
fn who_waits_for_a_timer_is_told() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (one, other) = (spawn(sleep(HOUR)), spawn(timeout(2 * HOUR, sleep(3 * HOUR))));
        let mut set = FuturesUnordered::from_iter([sleep(4 * HOUR)]);
        let mut mine = pin!(sleep(5 * HOUR));
        assert!(futures::poll!(mine.as_mut()).is_pending());
        assert!(futures::poll!(set.next()).is_pending());
        rest().await;
        let dump = here();
        let waits: Vec<Wakes> = dump.timers.iter().map(|timer| timer.wakes).collect();
        let [first, second] = [&dump.tasks[0], &dump.tasks[1]];
        let (task, both) = (Wakes::Task(first.id), Wakes::Task(second.id));
        assert_eq!(waits, [task, both, both, Wakes::Foreign, Wakes::BlockOn], "{dump}");
        assert_eq!(dump.timers_of(second.id).count(), 2);
        assert_eq!((first.state, second.state), (TaskState::Waiting, TaskState::Waiting));
        let in_hours = |n: u32| dump.timers[n as usize - 1].deadline.saturating_duration_since(dump.at);
        for n in 1..=5 {
            assert!(in_hours(n) <= n * HOUR && in_hours(n) > n * HOUR - LONG, "{dump}");
        }
        drop((one, other));
    });
}

#[test]
fn a_task_that_runs_or_is_ready_is_not_said_to_wait() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let seen = Rc::new(RefCell::new(None));
        let running = spawn({
            let seen = seen.clone();
            async move {
                // Its own timer, too, is known to be its own.
                let mut nap = pin!(sleep(HOUR));
                assert!(futures::poll!(nap.as_mut()).is_pending());
                *seen.borrow_mut() = Some(here());
            }
        });
        drop(spawn(async {
            pending::<()>().await;
        }));
        running.await.unwrap();
        let dump = seen.take().expect("the task has looked");
        let states: Vec<TaskState> = dump.tasks.iter().map(|task| task.state).collect();
        assert_eq!(states, [TaskState::Running, TaskState::Ready], "{dump}");
        assert_eq!(dump.timers[0].wakes, Wakes::Task(dump.tasks[0].id));
        // A task that was polled last and waits is in the table once.
        rest().await;
        let dump = here();
        assert_eq!(dump.tasks.len(), 1, "{dump}");
        assert_eq!(dump.tasks[0].state, TaskState::Waiting);
    });
}

#[test]
fn what_has_ended_or_was_dropped_is_not_pending() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let short = spawn(sleep(ms(1)));
        let long = spawn(sleep(HOUR));
        let mut given_up = Box::pin(sleep(HOUR));
        let _never_polled = sleep(HOUR);
        assert!(futures::poll!(given_up.as_mut()).is_pending());
        short.await.unwrap();
        assert_eq!((here().tasks.len(), here().timers.len()), (1, 2));
        drop(given_up);
        assert_eq!(here().timers.len(), 1);
        long.abort();
        assert!(long.await.unwrap_err().is_cancelled());
        let dump = here();
        assert!(dump.tasks.is_empty() && dump.timers.is_empty(), "{dump}");
    });
}

#[test]
fn a_task_that_waits_for_a_socket_is_shown_without_a_timer() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
        drop(spawn(async move {
            let _ = socket.recv_from(&mut [0; 16]).await;
        }));
        rest().await;
        let dump = here();
        assert!(dump.timers.is_empty() && dump.tasks[0].state == TaskState::Waiting, "{dump}");
        assert!(dump.to_string().contains("waiting, for no timer"), "{dump}");
    });
}

#[test]
fn another_thread_gets_an_answer() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    drop(runtime.spawn(sleep(HOUR)));
    let handle = runtime.handle().clone();
    // A request is answered between two polls, so also before the first poll of `block_on`'s future: it is made after it.
    let (begin, begun) = channel();
    // The runtime sleeps: it is woken for this.
    let other = thread::spawn(move || {
        begun.recv_timeout(LONG).unwrap();
        assert!(handle.dump().unwrap_err().is_elsewhere());
        let (sender, receiver) = channel();
        handle.request_dump(move |dump| sender.send((thread::current().id(), dump)).unwrap());
        let (answered_by, requested) = receiver.recv_timeout(LONG).unwrap();
        (handle.dump_within(LONG).unwrap(), requested.unwrap(), answered_by)
    });
    let (waited, requested, answered_by) = runtime.block_on(async {
        // One timer that is there also while the short one has fired and not been made anew.
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
    // In no `block_on`.
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
    // A runtime that is dropped while somebody waits, and one that was dropped before.
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

/// Looks until something is seen that is wanted.
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
    assert!(second.to_string().contains("task 0 \"bad\", spawned at tests/dump.rs:"), "{second}");
    drop(runtime);
    assert_eq!(handle.running(), None);
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
    assert!(error.running().is_none() && error.to_string().contains("in no `block_on`"), "{error}");
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
    // It was polled for as long as was waited for it.
    assert!(error.is_timed_out() && running.at_least >= ms(30), "{error}");
    assert!(error.to_string().contains(&format!("tests/dump.rs:{line}:")), "{error}");
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
fn thousands_are_complete_and_in_order() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        // At every level of the wheel, and some of it cascading.
        for n in 0..5_000u64 {
            drop(spawn(sleep(Duration::from_micros(50_000 + (n * 7919 % 5_000) * n))));
        }
        sleep(ms(60)).await;
        let dump = here();
        assert!(dump.timers.is_sorted_by_key(|timer| timer.deadline));
        assert!(dump.tasks.is_sorted_by_key(|task| task.id));
        let metrics = Handle::current().metrics();
        assert_eq!((dump.tasks.len(), dump.timers.len()), (metrics.tasks_alive(), metrics.timers_live()));
        // Those that wait have one timer each; the others have just been woken.
        let waiting = dump.tasks.iter().filter(|task| task.state == TaskState::Waiting).count();
        assert_eq!(waiting, dump.timers.len());
        assert!(dump.timers.iter().all(|timer| matches!(timer.wakes, Wakes::Task(_))));
    });
}

#[cfg(unix)]
mod example {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc::Receiver;

    struct Killed(Child);

    impl Drop for Killed {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn start(example: &str, arguments: &[&str]) -> (Killed, Receiver<String>) {
        let test = std::env::current_exe().expect("the path of this test");
        let directory = test.ancestors().nth(2).expect("a test lives in target/<profile>/deps");
        let binary = directory.join("examples").join(example);
        let hint =
            "run `cargo build --examples` first, or `cargo test` without naming a test, which builds them";
        assert!(binary.exists(), "{} is missing: {hint}", binary.display());
        let mut command = Command::new(binary);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the example starts");
        let output = child.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        (Killed(child), lines)
    }

    #[test]
    fn the_example_answers_a_signal() {
        let _watchdog = watchdog(2 * LONG);
        let (child, lines) = start("dump", &["--duration", "10min"]);
        let first = lines.recv_timeout(LONG).expect("it says how to ask");
        assert!(first.contains(&child.0.id().to_string()) && first.contains("kill -USR1"), "{first}");
        // Twice: once asked, it can be asked again.
        for _ in 0..2 {
            let pid = rustix::process::Pid::from_child(&child.0);
            rustix::process::kill_process(pid, rustix::process::Signal::USR1).expect("it runs");
            let next = || lines.recv_timeout(LONG).expect("it answers");
            assert_eq!(next(), "6 tasks, 6 timers");
            let text: Vec<String> =
                std::iter::from_fn(|| Some(next()).filter(|line| !line.is_empty())).collect();
            let text = text.join("\n");
            for (words, times) in [
                ("made at examples/dump.rs:", 6),
                ("spawned at examples/dump.rs:", 6),
                ("wakes task ", 5),
                ("wakes block_on", 1),
                ("waiting, for 1 timer: in ", 5),
                ("waiting, for no timer", 1),
            ] {
                assert_eq!(text.matches(words).count(), times, "{words}:\n{text}");
            }
        }
    }

    #[test]
    fn the_watchdog_names_the_task_that_blocks() {
        let _watchdog = watchdog(2 * LONG);
        let (mut child, lines) = start("watchdog", &[]);
        assert!(child.0.wait().expect("it ends").success());
        let lines: Vec<String> = lines.iter().collect();
        // Other polls may be long as well, on a machine that has other things to do.
        let bad = |line: &&String| line.contains("\"report\", spawned at examples/watchdog.rs:");
        assert!(lines.iter().any(|line| bad(&line)), "{lines:?}");
    }

    #[test]
    fn the_example_ends() {
        let _watchdog = watchdog(2 * LONG);
        let (mut child, lines) = start("dump", &["--duration", "50ms"]);
        assert!(child.0.wait().expect("it ends").success());
        let text = lines.iter().collect::<Vec<_>>().join("\n");
        assert!(text.contains("tasks:     6 alive") && text.contains("lateness:  1 timer,"), "{text}");
    }
}
