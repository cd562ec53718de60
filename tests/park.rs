//! The park: it ends when it should, not more often, and no event is slept through.

mod common;

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use common::{HOUR, LONG, Random, beside_parked, metrics, ms, turn, us, watchdog};
use futures::channel::oneshot;
use futures::future::{Either, select};
use futures::poll;
use mainspring::runtime::Handle;
use mainspring::time::{sleep, timeout, try_sleep};
use mainspring::{Runtime, block_on, spawn};

// mio #1614: the remaining wait was rounded down to no wait, and the loop spun until the deadline.
#[test]
fn a_wait_of_less_than_a_millisecond_does_not_spin() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let start = StdInstant::now();
        let before = metrics();
        let mut timers = 0;
        while start.elapsed() < ms(500) {
            sleep(us(900)).await;
            timers += 1;
        }
        let after = metrics();
        let (wakeups, turns) = (after.wakeups() - before.wakeups(), after.turns() - before.turns());
        assert!(wakeups <= 2 * timers, "{wakeups} wake-ups for {timers} timers");
        assert!(turns <= 3 * timers, "{turns} turns for {timers} timers");
    });
}

// mio #1948: a wait of more than 24.8 days became a negative one, which means forever, or no wait at all.
#[test]
fn a_wait_of_forty_days_neither_spins_nor_deafens() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let handle = Handle::current();
        let (send, receive) = oneshot::channel();
        let other = thread::spawn(move || {
            thread::sleep(ms(50));
            drop(handle.spawn(async { send.send("called").unwrap() }));
        });
        let long = pin!(sleep(Duration::from_secs(40 * 86_400)));
        match select(long, receive).await {
            Either::Left(_) => panic!("forty days passed"),
            Either::Right((result, _)) => assert_eq!(result, Ok("called")),
        }
        let wakeups = metrics().wakeups();
        assert!(wakeups <= 5, "{wakeups} wake-ups in forty days that lasted 50 ms");
        other.join().unwrap();
    });
}

#[test]
fn an_idle_runtime_takes_no_turns() {
    let _watchdog = watchdog(LONG);
    // A runtime that waits for a timer.
    let turns = block_on(async {
        sleep(ms(200)).await;
        metrics().turns()
    });
    assert!(turns <= 3, "{turns} turns for one sleep");

    // A runtime that waits for nothing.
    beside_parked(|handle, _| {
        while handle.metrics().turns() == 0 {
            thread::yield_now();
        }
        let before = handle.metrics().turns();
        thread::sleep(ms(200));
        let turns = handle.metrics().turns() - before;
        assert!(turns <= 3, "{turns} turns for nothing");
    });
}

#[cfg(unix)]
mod signals {
    use super::*;

    extern "C" fn nothing(_: libc::c_int) {}

    /// Makes SIGUSR1 interrupt system calls, and do nothing else.
    fn install() {
        // SAFETY: all zeroes is a valid `sigaction`: an empty mask, no flags, no handler.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        // SAFETY: `action` is initialised; its handler has the signature that a handler without SA_SIGINFO
        // must have, and does nothing, which is async-signal-safe; the old action is not asked for.
        let result = unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) };
        assert_eq!(result, 0);
    }

    // A poll that a signal interrupts must neither be an error nor wait for its whole time anew.
    #[test]
    fn a_thousand_signals_a_second_neither_shorten_nor_prolong_a_sleep() {
        let _watchdog = watchdog(LONG);
        install();
        // SAFETY: it has no preconditions.
        let target = unsafe { libc::pthread_self() } as usize;
        let done = Arc::new(AtomicBool::new(false));
        let stop = done.clone();
        let sender = thread::spawn(move || {
            let mut sent = 0;
            while !stop.load(Ordering::SeqCst) {
                // SAFETY: the target is the thread of this test, which joins this one before it ends; the
                // signal has a handler.
                let result = unsafe { libc::pthread_kill(target as libc::pthread_t, libc::SIGUSR1) };
                assert_eq!(result, 0);
                sent += 1;
                thread::sleep(ms(1));
            }
            sent
        });
        block_on(async {
            for _ in 0..3 {
                let start = StdInstant::now();
                sleep(ms(100)).await;
                let slept = start.elapsed();
                assert!(slept >= ms(100), "{slept:?}");
                // If the wait began anew at each signal, it would last as long as the signals do.
                assert!(slept < Duration::from_secs(5), "{slept:?}");
            }
            assert!(metrics().wakeups() > 3, "no signal interrupted a park");
        });
        done.store(true, Ordering::SeqCst);
        assert!(sender.join().unwrap() > 10);
    }
}

/// A place where two threads pass a number to and fro.
#[derive(Default)]
struct Relay {
    sent: AtomicUsize,
    seen: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

/// Spins for a while, and yields the processor during longer waits.
fn spin_until(condition: impl Fn() -> bool) {
    let mut spins = 0_u32;
    while !condition() {
        spins += 1;
        if spins % 1024 == 0 { thread::yield_now() } else { std::hint::spin_loop() }
    }
}

#[test]
fn no_wake_from_another_thread_is_slept_over() {
    const WAKES: usize = 100_000;
    let _watchdog = watchdog(4 * LONG);
    let relay = Arc::new(Relay::default());
    let other = relay.clone();
    let sender = thread::spawn(move || {
        let mut random = Random::new(3);
        for n in 1..=WAKES {
            // Wait until the runtime is awake, about to park, or parked.
            let pause = random.below(30_000);
            let start = StdInstant::now();
            spin_until(|| start.elapsed() >= Duration::from_nanos(pause));
            other.sent.store(n, Ordering::SeqCst);
            let waker = other.waker.lock().unwrap().clone();
            if let Some(waker) = waker {
                waker.wake();
            }
            spin_until(|| other.seen.load(Ordering::SeqCst) == n);
        }
    });
    block_on(poll_fn(|cx| {
        // In the right order: the waker first.
        match &mut *relay.waker.lock().unwrap() {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        let sent = relay.sent.load(Ordering::SeqCst);
        relay.seen.store(sent, Ordering::SeqCst);
        if sent == WAKES { Poll::Ready(()) } else { Poll::Pending }
    }));
    sender.join().unwrap();
}

#[test]
fn no_spawn_from_another_thread_is_slept_over() {
    const SPAWNS: usize = 20_000;
    let _watchdog = watchdog(4 * LONG);
    block_on(async {
        let handle = Handle::current();
        let (done, all) = oneshot::channel();
        let sender = thread::spawn(move || {
            let mut random = Random::new(4);
            let seen = Arc::new(AtomicUsize::new(0));
            for n in 1..=SPAWNS {
                let pause = random.below(30_000);
                let start = StdInstant::now();
                spin_until(|| start.elapsed() >= Duration::from_nanos(pause));
                let count = seen.clone();
                drop(handle.spawn(async move {
                    count.fetch_add(1, Ordering::SeqCst);
                }));
                spin_until(|| seen.load(Ordering::SeqCst) == n);
            }
            done.send(()).unwrap();
        });
        all.await.unwrap();
        sender.join().unwrap();
    });
}

// tokio #3190: a timer that another thread registered waited for the end of a longer park.
#[test]
fn a_shorter_timer_from_another_thread_ends_the_park() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let handle = Handle::current();
        let (done, all) = oneshot::channel();
        let other = thread::spawn(move || {
            for round in 0..100 {
                let _entered = handle.enter();
                let start = StdInstant::now();
                futures::executor::block_on(try_sleep(us(50 * (round % 7)))).unwrap();
                assert!(start.elapsed() >= us(50 * (round % 7)));
            }
            done.send(()).unwrap();
        });
        match select(pin!(sleep(HOUR)), all).await {
            Either::Left(_) => panic!("an hour passed"),
            Either::Right((result, _)) => result.unwrap(),
        }
        other.join().unwrap();
    });
}

/// The child process of the next test runs this: only its own thread arms, moves, cancels and wakes.
#[cfg(target_os = "linux")]
fn stay_on_one_thread() {
    use mainspring::time::Instant;

    block_on(async {
        for _ in 0..50 {
            let mut long = pin!(sleep(HOUR));
            assert!(poll!(long.as_mut()).is_pending());
            let tasks: Vec<_> = (0..10)
                .map(|n| {
                    spawn(async move {
                        for _ in 0..n {
                            mainspring::task::yield_now().await;
                        }
                        timeout(HOUR, sleep(us(10 * n))).await.unwrap();
                    })
                })
                .collect();
            long.as_mut().reset(Instant::now() + us(300));
            for task in tasks {
                task.await.unwrap();
            }
            long.await;
        }
        println!("parks {}", metrics().wakeups());
    });
}

// tokio #5207: every wake on the runtime's own thread wrote to the eventfd.
#[cfg(target_os = "linux")]
#[test]
fn arming_and_waking_on_the_own_thread_make_no_system_call() {
    use std::process::Command;

    const CHILD: &str = "MAINSPRING_TEST_CHILD_OF_PARK";
    if std::env::var_os(CHILD).is_some() {
        return stay_on_one_thread();
    }
    let _watchdog = watchdog(2 * LONG);
    let works = Command::new("strace").args(["-f", "-e", "trace=none", "true"]).output();
    if !works.is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no strace that works here");
        return;
    }
    let log = std::env::temp_dir().join(format!("mainspring-park-{}.strace", std::process::id()));
    let output = Command::new("strace")
        .args(["-f", "-y", "-e", "trace=write,timerfd_settime,epoll_wait,epoll_pwait,epoll_pwait2", "-o"])
        .arg(&log)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "arming_and_waking_on_the_own_thread_make_no_system_call", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let calls = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let parks: usize = said
        .lines()
        .find_map(|line| line.split("parks ").nth(1)?.trim().parse().ok())
        .unwrap_or_else(|| panic!("the child said nothing of parks: {said}"));

    let count = |name: &str, what: &str| {
        calls.lines().filter(|line| line.contains(name) && line.contains(what)).count()
    };
    assert!(count("epoll_", "") >= parks, "strace has seen nothing:\n{calls}");
    assert_eq!(count("write(", "eventfd"), 0, "a wake on the own thread wrote to the eventfd");
    let settings = count("timerfd_settime(", "");
    assert!(settings <= parks, "the alarm was set {settings} times for {parks} parks");
}

#[test]
fn a_wake_on_the_own_thread_costs_no_further_turn() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        sleep(ms(1)).await;
        let before = metrics();
        for _ in 0..100 {
            sleep(ms(1)).await;
        }
        let after = metrics();
        let (turns, wakeups) = (after.turns() - before.turns(), after.wakeups() - before.wakeups());
        // A timer that wakes the root must not make the runtime skip the next park.
        assert!(turns <= 120, "{turns} turns, {wakeups} of them asleep, for a hundred sleeps");
    });
}

// tokio's `no_extra_poll`, #3582.
#[test]
fn what_wakes_tasks_does_not_poll_the_root() {
    let _watchdog = watchdog(LONG);
    let done = Arc::new(AtomicBool::new(false));
    let root_waker = Arc::new(Mutex::new(None::<Waker>));
    let mut polls = 0;
    let runtime = Runtime::new().unwrap();
    let (finished, waker) = (done.clone(), root_waker.clone());
    drop(runtime.spawn(async move {
        for _ in 0..100 {
            mainspring::task::yield_now().await;
        }
        let tasks: Vec<_> = (0..20).map(|n| spawn(sleep(us(100 * n)))).collect();
        for task in tasks {
            task.await.unwrap();
        }
        // A stale wake-up: for a timer that is gone by then.
        let mut cancelled = Box::pin(sleep(ms(2)));
        let _ = poll!(cancelled.as_mut());
        drop(cancelled);
        // And calls from outside.
        let handle = Handle::current();
        thread::spawn(move || (0..100).for_each(|_| drop(handle.spawn(async {})))).join().unwrap();
        sleep(ms(5)).await;
        finished.store(true, Ordering::SeqCst);
        waker.lock().unwrap().take().unwrap().wake();
    }));
    runtime.block_on(poll_fn(|cx| {
        polls += 1;
        if done.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        *root_waker.lock().unwrap() = Some(cx.waker().clone());
        Poll::Pending
    }));
    assert_eq!(polls, 2, "the root was polled although nobody had woken it");
}

// tokio #8212: "there is work, so skip the park" skipped the look at timers and I/O as well.
#[test]
fn short_calls_of_block_on_still_advance_a_sleep() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let start = StdInstant::now();
    let task = runtime.spawn(sleep(ms(10)));
    while !task.is_finished() {
        runtime.block_on(async {});
    }
    assert!(start.elapsed() >= ms(10));
    assert_eq!(runtime.handle().metrics().wakeups(), 0, "it slept, with its future ready");
}

/// A hundred tasks that are always ready, until their handles are aborted.
fn restless() -> Vec<mainspring::task::JoinHandle<()>> {
    (0..100)
        .map(|_| {
            spawn(async {
                loop {
                    mainspring::task::yield_now().await;
                }
            })
        })
        .collect()
}

#[test]
fn tasks_that_never_rest_do_not_keep_a_timer_from_firing() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let tasks = restless();
        for _ in 0..5 {
            sleep(ms(10)).await;
        }
        spawn(sleep(ms(10))).await.unwrap();
        assert!(timeout(ms(10), pending::<()>()).await.is_err());
        tasks.iter().for_each(|task| task.abort());
    });
}

// tokio #5223, `io_driver_called_when_under_load`.
#[cfg(feature = "net")]
#[test]
fn tasks_that_never_rest_do_not_keep_a_socket_from_its_events() {
    use futures::io::{AsyncReadExt, AsyncWriteExt};
    use mainspring::net::{TcpListener, TcpStream};

    let _watchdog = watchdog(LONG);
    block_on(async {
        let tasks = restless();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let echo = spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 4];
            for _ in 0..20 {
                stream.read_exact(&mut buffer).await.unwrap();
                stream.write_all(&buffer).await.unwrap();
            }
        });
        let mut client = TcpStream::connect(addr).await.unwrap();
        for n in 0..20_u32 {
            client.write_all(&n.to_ne_bytes()).await.unwrap();
            let mut back = [0; 4];
            client.read_exact(&mut back).await.unwrap();
            assert_eq!(back, n.to_ne_bytes());
        }
        echo.await.unwrap();
        tasks.iter().for_each(|task| task.abort());
    });
}

// Each datagram needs a later alarm than the one before, and ends the sleep: the alarm is left as it is, and rings once
// for nothing.
#[cfg(feature = "net")]
#[test]
fn a_timer_after_many_sleeps_that_sockets_ended_is_on_time_and_wakes_the_thread_once_more_at_most() {
    use mainspring::net::UdpSocket;

    const MESSAGES: u64 = 500;
    let _watchdog = watchdog(LONG);
    block_on(async {
        let [client, server] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0"));
        let (client, server) = (client.await.unwrap(), server.await.unwrap());
        client.connect(server.local_addr().unwrap()).await.unwrap();
        server.connect(client.local_addr().unwrap()).await.unwrap();
        let echo = spawn(async move {
            let mut byte = [0];
            loop {
                server.recv(&mut byte).await.unwrap();
                server.send(&byte).await.unwrap();
            }
        });
        // The first alarm that is left rings during the sleep, or after it.
        for length in [ms(400), ms(100)] {
            let before = metrics();
            for _ in 0..MESSAGES {
                client.send(b"x").await.unwrap();
                timeout(ms(300), client.recv(&mut [0])).await.expect("an answer").unwrap();
            }
            let between = metrics();
            assert!(between.wakeups_by_io() - before.wakeups_by_io() >= MESSAGES, "there were few sleeps");
            let start = StdInstant::now();
            sleep(length).await;
            assert!(start.elapsed() >= length);
            let woken = metrics().wakeups_by_timer() - between.wakeups_by_timer();
            assert!(woken <= 2, "{woken} wake-ups for a timer");
        }
        echo.abort();
    });
}

#[test]
fn a_wake_before_the_first_park_is_not_lost() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    for _ in 0..100 {
        let handle = runtime.handle().clone();
        let task = thread::spawn(move || handle.spawn(async { 1 })).join().unwrap();
        assert_eq!(runtime.block_on(task).unwrap(), 1);
        runtime.block_on(turn());
    }
}
