//! What a dump lists: every task and every timer that is pending, with its line and what it waits for.

use std::cell::RefCell;
use std::future::pending;
use std::pin::pin;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use crate::common::{HOUR, LONG, ms, watchdog};
use crate::{here, rest};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use mainspring::dump::{TaskState, Wakes};
use mainspring::net::UdpSocket;
use mainspring::time::StreamExt as _;
use mainspring::time::{self, DelayQueue, Instant, Sleep, TimerMap, interval, sleep_until};
use mainspring::{Handle, Runtime, block_on, sleep, spawn, task, timeout};

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
                // The task's own timer, too, is known to be its own.
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
        // A task that was polled last and is waiting is in the table once.
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
fn thousands_are_complete_and_in_order() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        // At every level of the wheel, and some of the timers cascading.
        for n in 0..5_000u64 {
            drop(spawn(sleep(Duration::from_micros(50_000 + (n * 7919 % 5_000) * n))));
        }
        sleep(ms(60)).await;
        let dump = here();
        assert!(dump.timers.is_sorted_by_key(|timer| timer.deadline));
        assert!(dump.tasks.is_sorted_by_key(|task| task.id));
        let metrics = Handle::current().metrics();
        assert_eq!((dump.tasks.len(), dump.timers.len()), (metrics.tasks_alive(), metrics.timers_live()));
        // Tasks that wait have one timer each; the others have just been woken.
        let waiting = dump.tasks.iter().filter(|task| task.state == TaskState::Waiting).count();
        assert_eq!(waiting, dump.timers.len());
        assert!(dump.timers.iter().all(|timer| matches!(timer.wakes, Wakes::Task(_))));
    });
}
