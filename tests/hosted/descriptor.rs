//! With the descriptor: the host waits for it, and it reports everything that needs a turn.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
#[cfg(target_os = "linux")]
use std::time::Instant as StdInstant;

use crate::common::{HOUR, LONG, Probe, ms, paused, watchdog};
use crate::rest;
use futures::FutureExt;
use futures::channel::oneshot;
use mainspring::time::Instant;
use mainspring::{Runtime, sleep, spawn};
use rustix::event::{PollFd, PollFlags, poll};

/// Waits until the descriptor is readable; for `None` without a limit.
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
        // A thread may still have been about to report what was already seen.
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

        // A timer that is earlier than all others.
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
                // The timer lives until it has fired.
                while probe.wakes() == 0 {
                    thread::yield_now();
                }
            }))
            .unwrap();
        while woken.try_recv().is_err() {
            // The first time for the timer that was armed, the second for its end; a turn is needed both times.
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
fn it_tells_of_what_is_ready_or_due_as_the_sleep_is_prepared() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let told = |what| {
        assert_eq!(runtime.next_wake(), Some(Duration::ZERO), "{what}");
        assert!(readable(&runtime, Some(Duration::ZERO)), "{what}");
        // A second time, without a turn: the first one has lost nothing.
        assert_eq!(runtime.next_wake(), Some(Duration::ZERO), "{what}");
        assert!(readable(&runtime, None), "{what}");
        prepare(&runtime);
    };
    for _ in 0..20 {
        rest(&runtime);
        let (send, receive) = oneshot::channel();
        let waits = runtime.spawn(receive);
        told("a task that has been spawned");
        rest(&runtime);
        thread::scope(|threads| threads.spawn(|| send.send(()).unwrap()).join().unwrap());
        told("a wake from another thread");
        assert!(waits.is_finished());
        let sleeps = runtime.spawn(sleep(ms(1)));
        rest(&runtime);
        thread::sleep(ms(3));
        told("a timer that is due");
        assert!(sleeps.is_finished());
    }
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

#[test]
fn it_tells_of_a_block_on_that_has_taken_what_was_prepared() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let told = |what| assert!(readable(&runtime, Some(Duration::ZERO)), "{what}");

    prepare(&runtime);
    runtime.block_on(sleep(ms(1)));
    told("one that slept");

    // Its end has been told, but by a turn only.
    runtime.block_on(sleep(ms(1)));
    told("another one");

    prepare(&runtime);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            sleep(ms(1)).await;
            panic!("of the future");
        });
    }));
    assert!(unwound.is_err());
    told("one that panicked");

    // What is ready already is told once; this takes it, and it is told again.
    let ticks = runtime.spawn(async {
        loop {
            sleep(ms(2)).await;
        }
    });
    assert_eq!(runtime.next_wake(), Some(Duration::ZERO));
    runtime.block_on(sleep(ms(3)));
    told("one that began as something was ready");

    // After that the host's sleeps end by themselves again, and a `block_on` outside of them costs nothing.
    prepare(&runtime);
    assert!(readable(&runtime, None));
    rest(&runtime);
    ticks.abort();
    rest(&runtime);
    runtime.block_on(sleep(ms(1)));
    assert!(!readable(&runtime, Some(Duration::ZERO)), "no sleep had been prepared");
}

#[test]
fn in_paused_time_it_tells_of_a_timer_that_another_thread_arms() {
    let _watchdog = watchdog(LONG);
    let runtime = paused();
    // A timer that is in the wheel for an hour ahead, and never comes due.
    let task = runtime.spawn(async {
        let mut moved = pin!(sleep(HOUR));
        assert!(futures::poll!(&mut moved).is_pending());
        sleep(ms(1)).await;
        moved.as_mut().reset(Instant::now() + Duration::MAX);
        moved.await;
    });
    prepare(&runtime);
    assert_eq!(runtime.next_wake(), None);
    let handle = runtime.handle().clone();
    let armed = thread::spawn(move || {
        let _entered = handle.enter();
        let mut timer = Box::pin(sleep(2 * HOUR));
        assert!(Probe::new().poll(timer.as_mut()).is_pending());
        timer
    });
    let timer = armed.join().unwrap();
    assert!(readable(&runtime, Some(Duration::ZERO)));
    drop(timer);
    task.abort();
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
    // A notification that a turn has taken is reported once.
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
    // Strace splits a call in two when another thread's call comes between: the second part belongs to a call that is
    // already listed.
    let calls: Vec<_> = idle.filter(|line| !line.contains(" resumed>")).collect();
    assert!(calls.len() == 1 && calls[0].contains("poll("), "one wait, and nothing else: {calls:#?}");
}
