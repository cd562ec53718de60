//! A runtime under a loop that is not its own, and the turns that it takes before it is shut down.

mod common;

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use common::{HOUR, LONG, Probe, manual, ms, panicked, paused, us, watchdog};
use futures::FutureExt;
use futures::channel::oneshot;
use mainspring::task::yield_now;
use mainspring::time::{Clock, Instant, TestClock, advance, sleep_until};
use mainspring::{Builder, Runtime, block_on, sleep, spawn};

/// Turns until nothing is left to do at once.
fn rest(runtime: &Runtime) {
    while runtime.turn(Duration::ZERO) {}
}

#[test]
fn turns_run_tasks_and_timers_to_their_end() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let start = StdInstant::now();
    let task = runtime.spawn(async {
        for _ in 0..10 {
            sleep(us(300)).await;
            spawn(yield_now()).await.unwrap();
        }
        "done"
    });
    while !task.is_finished() {
        runtime.turn(HOUR);
    }
    assert!(start.elapsed() >= ms(3));
    assert_eq!(task.now_or_never().unwrap().unwrap(), "done");
}

#[test]
fn a_turn_of_no_length_never_sleeps() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let task = runtime.spawn(sleep(HOUR));
    for _ in 0..1_000 {
        runtime.turn(Duration::ZERO);
    }
    assert_eq!(runtime.handle().metrics().wakeups(), 0);
    assert!(!task.is_finished());
}

#[test]
fn a_turn_sleeps_no_longer_than_it_may_on_any_clock() {
    let _watchdog = watchdog(LONG);
    let test = Builder::new().clock(Clock::Test(TestClock::new())).build().unwrap();
    for runtime in [Runtime::new().unwrap(), manual(), test] {
        rest(&runtime);
        let start = StdInstant::now();
        // One that is interrupted by nothing waits for all of it.
        while start.elapsed() < ms(20) {
            assert!(!runtime.turn(ms(20)));
        }
        let task = runtime.spawn(sleep(HOUR));
        rest(&runtime);
        assert!(!runtime.turn(ms(1)));
        assert!(!task.is_finished());
    }
}

#[test]
fn the_next_wake_is_zero_with_something_ready_and_else_the_time_to_the_next_timer() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    assert_eq!(runtime.next_wake(), None);
    let short = runtime.spawn(sleep(Duration::from_secs(1_000)));
    let long = runtime.spawn(sleep(HOUR));
    assert_eq!(runtime.next_wake(), Some(Duration::ZERO));
    rest(&runtime);
    for _ in 0..3 {
        let left = runtime.next_wake().unwrap();
        assert!(left > Duration::from_secs(900) && left < Duration::from_secs(1_001), "{left:?}");
    }
    short.abort();
    assert_eq!(runtime.next_wake(), Some(Duration::ZERO));
    rest(&runtime);
    // The time of a timer that was cancelled may be named once more, and an idle turn corrects it.
    assert!(runtime.next_wake().unwrap() < Duration::from_secs(3_601));
    long.abort();
    rest(&runtime);
    let endless = runtime.spawn(async {
        loop {
            yield_now().await;
        }
    });
    for _ in 0..10 {
        assert!(runtime.turn(HOUR), "a task is ready");
        assert_eq!(runtime.next_wake(), Some(Duration::ZERO));
    }
    endless.abort();
    rest(&runtime);
}

#[test]
fn timers_that_one_turn_does_not_fire_are_more_to_do() {
    let _watchdog = watchdog(LONG);
    let runtime = Builder::new().timer_budget(10).build().unwrap();
    let at = Instant::now() + ms(20);
    let tasks: Vec<_> = (0..500).map(|_| runtime.spawn(sleep_until(at))).collect();
    rest(&runtime);
    while !tasks.iter().any(|task| task.is_finished()) {
        runtime.turn(HOUR);
    }
    // From here on nothing is waited for.
    rest(&runtime);
    assert!(tasks.iter().all(|task| task.is_finished()));
}

#[test]
fn paused_time_moves_by_turns_and_not_without_them() {
    let _watchdog = watchdog(LONG);
    let runtime = paused();
    let log = Rc::new(RefCell::new(Vec::new()));
    let seen = log.clone();
    let task = runtime.spawn(async move {
        let start = Instant::now();
        for hours in [1, 5, 2] {
            sleep(HOUR * hours).await;
            seen.borrow_mut().push(start.elapsed().as_secs() / 3600);
        }
    });
    let start = StdInstant::now();
    while !task.is_finished() {
        rest(&runtime);
        assert_eq!(runtime.next_wake(), (!task.is_finished()).then_some(Duration::ZERO));
    }
    assert!(start.elapsed() < LONG);
    assert_eq!(*log.borrow(), [1, 6, 8]);

    // It stands unless it is advanced.
    let runtime = manual();
    let task = runtime.spawn(sleep(HOUR));
    rest(&runtime);
    assert_eq!(runtime.next_wake(), None);
    runtime.spawn(async { advance(HOUR).await }).detach();
    while !task.is_finished() {
        assert_eq!(runtime.next_wake(), Some(Duration::ZERO));
        runtime.turn(Duration::ZERO);
    }
}

#[test]
fn block_on_and_turns_take_turns() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    for _ in 0..20 {
        rest(&runtime);
        runtime.next_wake();
        // A sleep of its own after one that was promised to the host, and a call from elsewhere that ends it.
        let handle = handle.clone();
        let (send, receive) = oneshot::channel();
        let other = thread::spawn(move || {
            handle.spawn(async { send.send(7).unwrap() }).detach();
        });
        assert_eq!(runtime.block_on(receive), Ok(7));
        assert!(runtime.block_on(async { spawn(sleep(us(100))).await.is_ok() }));
        other.join().unwrap();
    }
}

#[test]
fn a_turn_inside_a_block_on_or_a_turn_panics_where_it_was_called() {
    let _watchdog = watchdog(LONG);
    let runtime = Rc::new(Runtime::new().unwrap());
    let inner = runtime.clone();
    let inside = async move || {
        let mut lines = Vec::new();
        let (panic, line) = (panicked(|| inner.turn(Duration::ZERO)), line!());
        assert!(panic.message.starts_with("`turn` was called on a thread that runs"), "{}", panic.message);
        lines.push((panic, line));
        let (panic, line) = (panicked(|| Runtime::new().unwrap().turn(HOUR)), line!());
        assert!(panic.message.starts_with("`turn` was called on a thread that runs"), "{}", panic.message);
        lines.push((panic, line));
        let (panic, line) = (panicked(|| inner.next_wake()), line!());
        assert!(panic.message.starts_with("`next_wake` was called inside"), "{}", panic.message);
        lines.push((panic, line));
        let (panic, line) = (panicked(|| inner.block_on(async {})), line!());
        assert!(panic.message.starts_with("`block_on` was called on a thread"), "{}", panic.message);
        lines.push((panic, line));
        let another = Runtime::new().unwrap();
        another.spawn(pending::<()>()).detach();
        let (panic, line) = (panicked(|| another.shutdown_timeout(ms(1))), line!());
        assert!(panic.message.starts_with("`turn` was called on a thread"), "{}", panic.message);
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
    // And all is well afterwards.
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
    let deadline = Instant::now() + ms(20);
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
    // With nothing to do it waits for nothing.
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

/// With the descriptor.
#[cfg(unix)]
mod descriptor {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::pin::pin;
    use std::sync::mpsc;

    /// Waits until the descriptor is readable; without a limit for `None`.
    fn readable(runtime: &Runtime, within: Option<Duration>) -> bool {
        let within = within.map(|within| within.try_into().unwrap());
        loop {
            match poll(&mut [PollFd::new(runtime, PollFlags::IN)], within.as_ref()) {
                Ok(ready) => return ready > 0,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Prepares for a sleep, with nothing left to do.
    #[track_caller]
    fn prepare(runtime: &Runtime) {
        loop {
            rest(runtime);
            // A thread may still have been about to tell of what was seen already.
            if runtime.next_wake() != Some(Duration::ZERO) && !readable(runtime, Some(Duration::ZERO)) {
                return;
            }
        }
    }

    #[test]
    fn it_tells_of_what_other_threads_do() {
        let _watchdog = watchdog(LONG);
        let runtime = Runtime::new().unwrap();
        let handle = runtime.handle().clone();
        let (orders, work) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let other = thread::spawn(move || work.into_iter().for_each(|job| job()));
        for _ in 0..50 {
            // A spawn.
            prepare(&runtime);
            let (send, receive) = oneshot::channel();
            let there = handle.clone();
            orders.send(Box::new(move || there.spawn(async { send.send(1).unwrap() }).detach())).unwrap();
            assert!(readable(&runtime, None));
            rest(&runtime);
            assert_eq!(receive.now_or_never(), Some(Ok(1)));

            // A wake.
            let (send, receive) = oneshot::channel();
            let task = runtime.spawn(receive);
            prepare(&runtime);
            orders.send(Box::new(move || send.send(2).unwrap())).unwrap();
            assert!(readable(&runtime, None));
            rest(&runtime);
            assert_eq!(task.now_or_never().unwrap().unwrap(), Ok(2));

            // A timer that is earlier than all.
            let long = runtime.spawn(sleep(HOUR));
            prepare(&runtime);
            let there = handle.clone();
            let (send, woken) = mpsc::channel();
            orders
                .send(Box::new(move || {
                    let _entered = there.enter();
                    let mut sleep = pin!(sleep(ms(1)));
                    let probe = Probe::with(move || send.send(()).unwrap());
                    assert!(probe.poll(sleep.as_mut()).is_pending());
                    // It lives until it has fired.
                    while probe.wakes() == 0 {
                        thread::yield_now();
                    }
                }))
                .unwrap();
            while woken.try_recv().is_err() {
                // The first time for the timer that was armed, the second for its end; in both a turn is needed.
                let within = if cfg!(target_os = "linux") { None } else { runtime.next_wake() };
                readable(&runtime, within);
                rest(&runtime);
                runtime.next_wake();
            }
            long.abort();
        }
        drop(orders);
        other.join().unwrap();
    }

    #[test]
    fn it_tells_of_what_this_thread_does_between_turns() {
        let _watchdog = watchdog(LONG);
        let runtime = Runtime::new().unwrap();
        let (send, receive) = oneshot::channel();
        let waits = runtime.spawn(receive);
        prepare(&runtime);
        let spawned = runtime.spawn(async { 1 });
        assert!(readable(&runtime, Some(Duration::ZERO)), "a spawn");
        prepare(&runtime);
        assert!(spawned.is_finished());
        let spawned = {
            let _entered = runtime.handle().enter();
            spawn(async { 1 })
        };
        assert!(readable(&runtime, Some(Duration::ZERO)), "a spawn under a guard");
        prepare(&runtime);
        assert!(spawned.is_finished());
        send.send(()).unwrap();
        assert!(readable(&runtime, Some(Duration::ZERO)), "a wake");
        prepare(&runtime);
        assert!(waits.is_finished());
        let mut timer = {
            let _entered = runtime.handle().enter();
            Box::pin(sleep(ms(1)))
        };
        let probe = Probe::new();
        assert!(probe.poll(timer.as_mut()).is_pending());
        assert!(readable(&runtime, Some(Duration::ZERO)), "a timer");
        while probe.wakes() == 0 {
            runtime.turn(HOUR);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn it_tells_of_a_timer_when_its_time_is_up_and_not_before() {
        let _watchdog = watchdog(LONG);
        let runtime = Runtime::new().unwrap();
        for _ in 0..20 {
            let start = StdInstant::now();
            let task = runtime.spawn(sleep(ms(5)));
            let mut wakes = 0;
            while !task.is_finished() {
                rest(&runtime);
                if task.is_finished() {
                    break;
                }
                runtime.next_wake();
                // Without a limit: the alarm must ring.
                assert!(readable(&runtime, None));
                wakes += 1;
            }
            assert!(start.elapsed() >= ms(5));
            assert!(wakes <= 3, "{wakes} wake-ups for one timer");
        }
    }

    #[cfg(feature = "net")]
    #[test]
    fn it_tells_of_sockets() {
        use futures::io::AsyncReadExt;
        use mainspring::net::TcpListener;
        use std::io::Write;

        let _watchdog = watchdog(LONG);
        let runtime = Runtime::new().unwrap();
        let (tell, addr) = mpsc::channel();
        let task = runtime.spawn(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 4];
            stream.read_exact(&mut buffer).await.unwrap();
            buffer
        });
        rest(&runtime);
        let addr = addr.recv().unwrap();
        prepare(&runtime);
        let client = thread::spawn(move || {
            std::net::TcpStream::connect(addr).unwrap().write_all(b"ping").unwrap();
        });
        while !task.is_finished() {
            assert!(readable(&runtime, None));
            rest(&runtime);
            runtime.next_wake();
        }
        assert_eq!(&task.now_or_never().unwrap().unwrap(), b"ping");
        client.join().unwrap();
    }

    #[test]
    fn it_is_the_same_one_and_quiet_while_there_is_nothing_to_do() {
        use std::os::fd::{AsFd, AsRawFd};
        let _watchdog = watchdog(LONG);
        let runtime = Runtime::new().unwrap();
        let number = runtime.as_raw_fd();
        let task = runtime.spawn(sleep(HOUR));
        prepare(&runtime);
        for _ in 0..10 {
            assert!(!readable(&runtime, Some(ms(10))));
            assert!(!runtime.turn(Duration::ZERO));
            runtime.next_wake();
        }
        // A notification that a turn has taken is told once.
        let handle = runtime.handle().clone();
        thread::spawn(move || handle.spawn(async {}).detach()).join().unwrap();
        assert!(readable(&runtime, Some(Duration::ZERO)));
        rest(&runtime);
        runtime.next_wake();
        assert!(!readable(&runtime, Some(ms(10))));
        assert_eq!((runtime.as_raw_fd(), runtime.as_fd().as_raw_fd()), (number, number));
        assert!(!task.is_finished());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_idle_second_under_a_host_costs_one_wait_and_no_wake_up() {
        use std::process::Command;

        /// Set in the process that is watched.
        const CHILD: &str = "MAINSPRING_IDLE_HOST";

        let _watchdog = watchdog(LONG);
        if std::env::var_os(CHILD).is_some() {
            let runtime = Runtime::new().unwrap();
            runtime.spawn(sleep(HOUR)).detach();
            prepare(&runtime);
            println!("idle");
            assert!(!readable(&runtime, Some(Duration::from_secs(1))));
            println!("over");
            return;
        }
        let works = Command::new("strace").args(["-f", "-e", "trace=none", "true"]).output();
        if !works.is_ok_and(|output| output.status.success()) {
            println!("skipped: there is no strace that works here");
            return;
        }
        let log = std::env::temp_dir().join(format!("mainspring-hosted-{}.strace", std::process::id()));
        let name = "descriptor::an_idle_second_under_a_host_costs_one_wait_and_no_wake_up";
        let output = Command::new("strace")
            .args(["-f", "-e", "signal=none", "-o"])
            .arg(&log)
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let calls = std::fs::read_to_string(&log).unwrap();
        std::fs::remove_file(&log).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let writes = |line: &str, word: &str| line.contains("write(1,") && line.contains(word);
        let began = calls.lines().position(|line| writes(line, "idle")).expect("it was idle");
        let thread = calls.lines().nth(began).unwrap().split(' ').next().unwrap();
        let own = calls.lines().skip(began + 1).filter(|line| line.split(' ').next() == Some(thread));
        let idle = own.take_while(|line| !writes(line, "over"));
        // Strace shows in two parts what another thread's call comes between: the second is of a call that is there already.
        let calls: Vec<_> = idle.filter(|line| !line.contains(" resumed>")).collect();
        assert!(calls.len() == 1 && calls[0].contains("poll("), "one wait, and nothing else: {calls:#?}");
    }
}
