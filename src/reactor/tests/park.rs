//! Parking, its end, and what it costs.

use super::*;
use std::sync::atomic::AtomicBool;
use std::thread;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn the_poller_is_never_told_zero_nor_more_than_an_hour() {
    let time = |far| timeout(Until::Time { timeout: far, alarm_ns: 0 });
    assert_eq!(timeout(Until::Now), Some(Duration::ZERO));
    // If there is no time that could be missed, it waits only for events.
    assert_eq!(timeout(Until::Event), None);
    assert_eq!(time(Duration::MAX), Some(HOUR));
    assert_eq!(time(Duration::from_secs(40 * 24 * 3600)), Some(HOUR));
    assert_eq!(time(HOUR), Some(HOUR));
    assert_eq!(time(Duration::from_nanos(1)), Some(Duration::from_nanos(1)));
    assert_eq!(time(Duration::ZERO), Some(Duration::ZERO));
}

/// mio #1948: a wait of more than 24.8 days became negative.
#[test]
fn an_unpark_ends_a_park_of_forty_days() {
    for until in [after(Duration::from_secs(40 * 24 * 3600)), after(HOUR), Until::Event] {
        let mut reactor = Reactor::new().unwrap();
        let io = reactor.io().clone();
        let start = Instant::now();
        let unparker = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            io.unpark();
        });
        // A park may end for no reason, so it is the notification that counts.
        let mut parks = 0;
        while !reactor.park(until).unwrap().notified {
            parks += 1;
            assert!(parks < 100, "spins");
        }
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(50) && took < SOON, "{took:?}");
        unparker.join().unwrap();
    }
}

/// bun #34780, mio #1614: EINTR is taken for the end of the wait, begins the wait anew, or loses what the poll had to report.
#[cfg(all(unix, feature = "net"))]
#[test]
fn an_interruption_at_any_poll_changes_nothing() {
    use std::io::Write;
    for every in 2..=8 {
        for first in 0..every {
            let mut reactor = Reactor::new().unwrap();
            reactor.interruption = Some((first, every));
            let (ours, mut theirs) = mio::net::UnixStream::pair().unwrap();
            let source = Registered::new(reactor.io(), ours).unwrap();
            let (count, waker) = counter();
            wait(&source, Way::Read, &waker);
            reactor.io().unpark();
            theirs.write_all(b"x").unwrap();
            let deadline = Instant::now() + Duration::from_millis(5);
            let (mut parks, mut notified) = (0, 0);
            while Instant::now() < deadline {
                let parked = reactor.park(after(deadline - Instant::now())).unwrap();
                parks += 1;
                notified += usize::from(parked.notified);
                reactor.dispatch();
            }
            assert_eq!((notified, count.get()), (1, 1), "interrupted at {first} and every {every}");
            assert!(parks <= 12, "{parks} polls for one wait");
        }
    }
}

/// mio #1614: waits of less than a millisecond became zero and spun.
#[test]
fn a_short_wait_takes_one_poll_and_is_never_early() {
    const WAITS: usize = 300;
    let mut reactor = Reactor::new().unwrap();
    let mut parks = 0;
    for _ in 0..WAITS {
        let deadline = Instant::now() + Duration::from_micros(900);
        // No time is left if the machine has stopped this thread for that long.
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            let slept = reactor.park(after(left)).unwrap().slept;
            assert!(slept || Instant::now() >= deadline, "it returned at once with {left:?} to go");
            parks += 1;
        }
    }
    assert!(parks <= 2 * WAITS, "{parks} polls for {WAITS} waits");
}

/// tokio #5207 and #8383.
#[test]
fn unparking_costs_at_most_one_write_and_none_while_awake() {
    let mut reactor = Reactor::new().unwrap();
    let io = reactor.io().clone();
    for _ in 0..1000 {
        io.unpark();
    }
    assert_eq!(io.writes(), 0);
    // The notification counts as seen with the next park, of whichever kind, and only then.
    let parked = reactor.park(Until::Event).unwrap();
    assert!(parked.notified && !parked.slept, "{parked:?}");
    io.unpark();
    assert!(reactor.park(Until::Now).unwrap().notified);
    assert!(!reactor.park(Until::Now).unwrap().notified);
    assert_eq!(io.writes(), 0);

    for round in 1..=20 {
        let io = io.clone();
        let unparker = thread::spawn(move || {
            thread::sleep(Duration::from_millis(2));
            for _ in 0..1000 {
                io.unpark();
            }
        });
        while !reactor.park(Until::Event).unwrap().notified {}
        // No thread parks from here on, so the rest of the thousand calls cost nothing.
        unparker.join().unwrap();
        assert!(reactor.io().writes() <= round);
        reactor.park(Until::Now).unwrap();
    }
    assert!(reactor.io().writes() >= 1, "nothing was tested");
}

#[test]
fn no_unpark_is_slept_over() {
    const ROUNDS: usize = 50_000;
    let mut reactor = Reactor::new().unwrap();
    let io = reactor.io().clone();
    let (said, heard, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let (said, heard, stop) = (&said, &heard, &stop);
        scope.spawn(move || {
            for round in 1..=ROUNDS {
                said.store(round, SeqCst);
                io.unpark();
                // Some of the rounds hit the moment before the park, some the park.
                for _ in 0..(round * 7) % 400 {
                    std::hint::spin_loop();
                }
                while round % 2 == 0 && heard.load(SeqCst) < round && !stop.load(SeqCst) {
                    thread::yield_now();
                }
            }
        });
        let mut seen = 0;
        while seen < ROUNDS {
            let parked = reactor.park(after(SOON)).unwrap();
            let now = said.load(SeqCst);
            if parked.slept && parked.alarm {
                stop.store(true, SeqCst);
                panic!("slept over a notification after {seen} rounds");
            }
            seen = now;
            heard.store(seen, SeqCst);
        }
    });
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod alarm {
    use super::*;

    /// The poller's own timeout is far longer, so the alarm ends these parks.
    fn alarm_in(offset: Duration) -> Until {
        Until::Time { timeout: SOON, alarm_ns: monotonic_ns() + offset.as_nanos() as u64 }
    }

    #[test]
    fn it_rings_again_and_again_without_being_read() {
        let mut reactor = Reactor::new().unwrap();
        for _ in 0..20 {
            let start = Instant::now();
            let parked = reactor.park(alarm_in(Duration::from_millis(3))).unwrap();
            assert!(parked.alarm && parked.slept && parked.events == 0, "{parked:?}");
            assert!(start.elapsed() >= Duration::from_millis(3));
            assert_eq!(reactor.dispatch(), 0);
        }
        assert_eq!(reactor.alarm.settings, 20);
    }

    #[test]
    fn it_rings_again_for_the_same_moment() {
        let mut reactor = Reactor::new().unwrap();
        let until = alarm_in(Duration::from_millis(3));
        for _ in 0..3 {
            assert!(reactor.park(until).unwrap().alarm);
        }
        let long_past = Until::Time { timeout: SOON, alarm_ns: 0 };
        assert!(reactor.park(long_past).unwrap().alarm);
    }

    #[test]
    fn it_is_set_only_when_the_moment_changes() {
        let mut reactor = Reactor::new().unwrap();
        let until = Until::Time { timeout: Duration::from_millis(1), alarm_ns: u64::MAX };
        for _ in 0..10 {
            assert!(!reactor.park(until).unwrap().alarm);
            reactor.park(Until::Now).unwrap();
        }
        assert_eq!(reactor.alarm.settings, 1);
        let io = reactor.io().clone();
        for _ in 0..10 {
            io.unpark();
            reactor.park(Until::Event).unwrap();
        }
        assert_eq!(reactor.alarm.settings, 1, "set for a park that did not sleep");
    }

    #[test]
    fn a_park_without_a_timer_is_not_ended_by_an_old_one() {
        let mut reactor = Reactor::new().unwrap();
        let io = reactor.io().clone();
        let (sooner, later) = (Duration::from_millis(40), Duration::from_millis(200));
        // A park for which the alarm is set, but which ends before it rings.
        let at = monotonic_ns() + sooner.as_nanos() as u64;
        let early = Until::Time { timeout: Duration::from_millis(1), alarm_ns: at };
        assert!(!reactor.park(early).unwrap().alarm);
        let start = Instant::now();
        let unparker = thread::spawn(move || {
            thread::sleep(later);
            io.unpark();
        });
        loop {
            let parked = reactor.park(Until::Event).unwrap();
            assert!(!parked.alarm, "after {:?}", start.elapsed());
            if parked.notified {
                break;
            }
        }
        unparker.join().unwrap();
        assert_eq!(reactor.alarm.settings, 2);
    }

    #[test]
    fn moving_it_takes_back_a_ringing_that_nobody_has_heard() {
        let mut reactor = Reactor::new().unwrap();
        reactor.alarm.set(reactor.poll.registry(), alarm_in(Duration::ZERO));
        thread::sleep(Duration::from_millis(5));
        let later = Until::Time { timeout: Duration::from_millis(20), alarm_ns: u64::MAX };
        let start = Instant::now();
        assert!(!reactor.park(later).unwrap().alarm);
        assert!(start.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn without_it_the_timeout_ends_the_park() {
        let mut reactor = Reactor::new().unwrap();
        reactor.alarm.refused = true;
        for _ in 0..5 {
            let start = Instant::now();
            let parked = reactor.park(after(Duration::from_millis(5))).unwrap();
            assert!(!parked.alarm);
            assert!(start.elapsed() >= Duration::from_millis(5));
            assert!(start.elapsed() < SOON);
        }
        // The alarm may be granted later.
        reactor.alarm.refused = false;
        assert!(reactor.park(alarm_in(Duration::from_millis(5))).unwrap().alarm);
    }

    /// bun #34780: an interrupted wait began anew with its whole timeout. A process that is stopped and
    /// continued finds its `epoll_wait` interrupted even if it handles no signal, so a copy of this test is
    /// stopped and continued while it parks.
    #[test]
    fn a_signal_neither_fails_nor_prolongs_a_park() {
        const CHILD: &str = "MAINSPRING_TEST_INTERRUPTED";
        if std::env::var_os(CHILD).is_some() {
            return interrupted_child();
        }
        let name = "reactor::tests::park::alarm::a_signal_neither_fails_nor_prolongs_a_park";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let id = child.id();
        let script = format!("while kill -STOP {id} && kill -CONT {id}; do sleep 0.005; done 2>/dev/null");
        let mut shell = std::process::Command::new("sh").args(["-c", &script]).spawn().unwrap();
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > 3 * SOON {
                child.kill().unwrap();
            }
            thread::sleep(Duration::from_millis(5));
        };
        shell.kill().ok();
        shell.wait().unwrap();
        assert!(status.success(), "{status}");
    }

    fn interrupted_child() {
        let mut reactor = Reactor::new().unwrap();
        let mut interrupted = 0;
        let begin = Instant::now();
        while interrupted < 20 {
            assert!(begin.elapsed() < SOON, "only {interrupted} interruptions");
            let deadline = Instant::now() + Duration::from_millis(100);
            let until = monotonic_ns() + 100_000_000;
            while Instant::now() < deadline {
                let timeout = deadline - Instant::now();
                let parked = reactor.park(Until::Time { timeout, alarm_ns: until }).unwrap();
                assert_eq!((parked.notified, parked.events), (false, 0));
                if Instant::now() < deadline {
                    interrupted += 1;
                }
            }
            assert!(deadline.elapsed() < Duration::from_secs(5));
        }
    }
}
