//! What a runtime counts: each cause under its own name, and none under two names.

mod common;

use std::pin::pin;
use std::thread;
use std::time::Duration;

use common::{HOUR, LONG, metrics, ms, us, watchdog};
use mainspring::task::yield_now;
use mainspring::time::{Clock, Instant, TestClock, Tolerance, advance, advance_to, interval_at, sleep_until};
use mainspring::{Builder, Runtime, block_on, sleep, spawn};

#[test]
fn a_timer_that_ends_a_sleep_is_counted_as_the_cause() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        for _ in 0..5 {
            // Long enough that a slow machine, too, is asleep before it is over.
            sleep(ms(100)).await;
        }
        let metrics = metrics();
        assert!(metrics.wakeups_by_timer() >= 5, "{metrics}");
        assert!(metrics.wakeups_by_timer() <= metrics.wakeups(), "{metrics}");
        assert_eq!((metrics.wakeups_by_io(), metrics.wakeups_by_thread()), (0, 0), "{metrics}");
    });
}

#[test]
fn another_thread_that_ends_a_sleep_is_counted_as_the_cause() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    let other = thread::spawn(move || {
        for _ in 0..3 {
            thread::sleep(ms(20));
            futures::executor::block_on(handle.spawn(async {})).unwrap();
        }
        handle.metrics().wakeups_by_thread()
    });
    runtime.block_on(async {
        while !other.is_finished() {
            sleep(ms(200)).await;
        }
    });
    assert!(other.join().unwrap() >= 1);
}

#[cfg(feature = "net")]
#[test]
fn a_socket_that_ends_a_sleep_is_counted_as_the_cause() {
    use mainspring::net::UdpSocket;
    let _watchdog = watchdog(LONG);
    block_on(async {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
        let to = socket.local_addr().unwrap();
        let sending = thread::spawn(move || {
            thread::sleep(ms(30));
            std::net::UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"hello", to).unwrap();
        });
        socket.recv_from(&mut [0; 16]).await.unwrap();
        let metrics = metrics();
        assert!(metrics.wakeups_by_io() >= 1 && metrics.wakeups_by_timer() == 0, "{metrics}");
        sending.join().unwrap();
    });
}

#[test]
fn parks_that_outlast_the_earliest_deadline_are_counted_and_no_others() {
    let _watchdog = watchdog(LONG);
    for (tolerance, widens) in
        [(Tolerance::Precise, false), (Tolerance::Fixed { ratio: 0.5, max: ms(20) }, true)]
    {
        let runtime = Builder::new().timer_tolerance(tolerance).build().unwrap();
        runtime.block_on(async {
            for _ in 0..3 {
                // Another timer to gather: no sleep is put off for a timer that is alone.
                let other = spawn(sleep(ms(50) + Duration::from_micros(200)));
                sleep(ms(50)).await;
                other.await.unwrap();
            }
            let metrics = metrics();
            assert_eq!(metrics.parks_coalesced() >= 3, widens, "{metrics}");
            assert!(widens || metrics.parks_coalesced() == 0, "{metrics}");
            assert!(metrics.parks_coalesced() <= metrics.turns(), "{metrics}");
        });
    }
    // A timer that is alone is not put off, whatever its slack.
    let runtime = Builder::new().build().unwrap();
    runtime.block_on(async {
        sleep(ms(2)).tolerance(ms(500)).await;
        assert_eq!(metrics().parks_coalesced(), 0);
    });
    // A precise timer ends the sleep on time, whatever slack a later one has.
    let runtime = Builder::new().build().unwrap();
    runtime.block_on(async {
        drop(spawn(sleep(HOUR).tolerance(ms(500))));
        sleep(ms(2)).precise().await;
        assert_eq!(metrics().parks_coalesced(), 0);
    });
    // Slack has no effect in virtual time.
    let runtime = Builder::new().start_paused(true).build().unwrap();
    runtime.block_on(async {
        sleep(HOUR).await;
        assert_eq!(metrics().parks_coalesced(), 0);
    });
}

#[test]
fn lateness_is_what_the_clock_says() {
    let _watchdog = watchdog(LONG);
    let runtime = Builder::new().start_paused(true).build().unwrap();
    runtime.block_on(async {
        for n in 0..10 {
            drop(spawn(sleep(ms(n))));
        }
        sleep(HOUR).await;
        // Time stops at each deadline, so nothing is late.
        let lateness = metrics().lateness();
        assert_eq!((lateness.count(), lateness.max()), (10, Duration::ZERO), "{lateness}");
        // A jump over deadlines makes the timers late by that much.
        for n in 1..=4 {
            drop(spawn(sleep(ms(n))));
        }
        yield_now().await;
        let before = metrics().lateness();
        advance_to(Instant::now() + ms(5)).await;
        let since = metrics().lateness().since(&before);
        assert_eq!(since.count(), 4, "{since}");
        assert_eq!(metrics().lateness().max(), ms(4));
        assert!(since.percentile(0.25) >= ms(1) && since.percentile(0.25) <= us(1_250), "{since}");
        assert!(since.percentile(0.75) >= ms(3) && since.percentile(1.0) == ms(4), "{since}");
        advance(ms(1)).await;
    });
}

#[test]
fn lateness_counts_only_timers_that_had_to_wait() {
    let _watchdog = watchdog(LONG);
    let runtime = Builder::new().start_paused(true).build().unwrap();
    runtime.block_on(async {
        // Overdue at the first poll.
        let start = Instant::now();
        let nap = sleep(ms(5));
        advance_to(start + ms(500)).await;
        nap.await;
        sleep_until(start).await;
        // A loop that is behind shows in its ticks.
        let mut ticks = interval_at(start, ms(1));
        for n in 0..=500 {
            assert_eq!(ticks.tick().await.elapsed(), ms(500 - n));
        }
        assert_eq!((metrics().lateness().count(), metrics().timers_armed()), (0, 0));
        // Registered, and fired late: that counts.
        let mut late = pin!(sleep(ms(1)));
        assert!(futures::poll!(late.as_mut()).is_pending());
        // Registered, and moved to the past: that does not, though it has fired.
        let mut moved = pin!(sleep(HOUR));
        assert!(futures::poll!(moved.as_mut()).is_pending());
        moved.as_mut().reset(start);
        moved.await;
        assert_eq!((metrics().lateness().count(), metrics().timers_fired()), (0, 1));
        advance_to(start + ms(503)).await;
        late.await;
        let lateness = metrics().lateness();
        assert_eq!((lateness.count(), lateness.max()), (1, ms(2)), "{lateness}");
    });
}

#[test]
fn the_longest_turn_is_remembered_with_what_it_was_made_of() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..7).map(|_| spawn(async { thread::sleep(ms(10)) })).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let longest = runtime.handle().metrics().longest_turn();
    // A turn ends after a poll that takes this long.
    assert!(longest.duration >= ms(10) && longest.polls >= 1, "{longest}");
    assert_eq!(longest.timers, 0, "{longest}");
    // What the thread does between two turns belongs to no turn.
    thread::sleep(longest.duration + ms(50));
    runtime.block_on(sleep(ms(1)));
    assert_eq!(runtime.handle().metrics().longest_turn(), longest);
}

#[test]
fn a_turn_that_ends_with_its_block_on_is_measured() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        sleep(ms(1)).await;
        thread::sleep(ms(20));
    });
    let longest = runtime.handle().metrics().longest_turn();
    assert!(longest.duration >= ms(20), "{longest}");
}

#[test]
fn time_that_the_program_moves_does_not_make_a_turn_long() {
    let _watchdog = watchdog(LONG);
    let clock = TestClock::new();
    let tested = Builder::new().clock(Clock::Test(clock.clone())).build().unwrap();
    tested.block_on(async {
        clock.advance(HOUR);
        yield_now().await;
    });
    // Paused before the turn, and in the turn.
    let paused = Builder::new().start_paused(true).build().unwrap();
    paused.block_on(async { advance_to(Instant::now() + HOUR).await });
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        mainspring::time::pause();
        advance_to(Instant::now() + HOUR).await;
    });
    for runtime in [tested, paused, runtime] {
        let longest = runtime.handle().metrics().longest_turn();
        assert!(longest.duration < HOUR, "{longest}");
    }
}

#[test]
fn a_poll_that_does_not_happen_is_not_counted() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    // Because of this task the call goes on to its first turn.
    runtime.spawn(std::future::pending::<()>()).detach();
    runtime.block_on(std::future::poll_fn(|cx| {
        cx.waker().wake_by_ref();
        std::task::Poll::Ready(())
    }));
    assert_eq!(runtime.handle().metrics().polls(), 2);
}

#[test]
fn polls_before_a_panic_of_the_root_are_counted() {
    let runtime = Runtime::new().unwrap();
    (0..5).for_each(|_| runtime.spawn(async {}).detach());
    let root = async {
        yield_now().await;
        std::panic::resume_unwind(Box::new("on purpose"));
    };
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(root)));
    assert!(panic.is_err());
    let metrics = runtime.handle().metrics();
    assert_eq!((metrics.polls(), metrics.tasks_alive()), (7, 0));
}

#[test]
fn on_the_runtimes_own_thread_the_number_of_tasks_is_exact() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    let send = |tasks: usize| {
        let handle = handle.clone();
        let sends = move || (0..tasks).for_each(|_| handle.spawn(std::future::pending::<()>()).detach());
        thread::spawn(sends).join().unwrap();
    };
    runtime.spawn(std::future::pending::<()>()).detach();
    assert_eq!(handle.metrics().tasks_alive(), 1);
    send(200);
    assert_eq!(handle.metrics().tasks_alive(), 201);
    runtime.block_on(async {
        sleep(ms(1)).await;
        send(200);
        assert_eq!(metrics().tasks_alive(), 401);
        (0..7).for_each(|_| spawn(std::future::pending::<()>()).detach());
    });
    assert_eq!(handle.metrics().tasks_alive(), 408);
    // The last stretch of polls was the one in which these were spawned.
    runtime.block_on(async {
        sleep(ms(1)).await;
        spawn(std::future::pending::<()>()).detach();
    });
    // Another thread is told of those that the runtime has taken in.
    while runtime.turn(Duration::ZERO) {}
    let asked = handle.clone();
    assert_eq!(thread::spawn(move || asked.metrics().tasks_alive()).join().unwrap(), 409);
}

#[test]
fn tasks_that_have_ended_are_not_alive() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..4).map(|n| spawn(sleep(ms(n * 1000)))).collect();
        assert_eq!(metrics().tasks_alive(), 4);
        for task in tasks.into_iter().skip(1) {
            task.abort();
            task.await.unwrap_err();
        }
        while metrics().tasks_alive() > 0 {
            yield_now().await;
        }
        drop(spawn(sleep(HOUR)));
        sleep(ms(1)).await;
    });
    let asked = handle.clone();
    assert_eq!(thread::spawn(move || asked.metrics().tasks_alive()).join().unwrap(), 1);
    drop(runtime);
    assert_eq!(handle.metrics().tasks_alive(), 0);
}

#[test]
fn moves_and_resets_are_told_apart() {
    let _watchdog = watchdog(LONG);
    let runtime = Builder::new().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut sleep = std::pin::pin!(sleep(HOUR));
        assert!(futures::poll!(sleep.as_mut()).is_pending());
        // The wheel files the timer as soon as it is asked for something: before that, putting it off moves nothing.
        mainspring::sleep(ms(1)).await;
        for n in 1..=3 {
            sleep.as_mut().reset(Instant::now() + n * 2 * HOUR);
        }
        assert_eq!((metrics().timers_reset(), metrics().timers_moved()), (3, 0));
        // The timer is filed at an hour from now and due in six.
        sleep.await;
        let metrics = metrics();
        assert!(metrics.timers_moved() >= 1, "{metrics}");
        let counts = [metrics.timers_armed(), metrics.timers_fired(), metrics.timers_cancelled()];
        assert_eq!((counts, metrics.timers_live()), ([2, 2, 0], 0), "{metrics}");
        // Each subject has its own line.
        let text = metrics.to_string();
        for word in ["tasks:", "turns:", "wake-ups:", "timers:", "lateness:"] {
            assert_eq!(text.matches(word).count(), 1, "{text}");
        }
    });
}

#[test]
fn a_timer_that_waits_is_not_the_cause_of_a_sleep_that_another_thread_ends() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let task = runtime.spawn(sleep(HOUR));
    while runtime.handle().metrics().wakeups_by_thread() == 0 {
        let (wake, woken) = futures::channel::oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            thread::sleep(ms(1));
            wake.send(()).unwrap();
        });
        runtime.block_on(woken).unwrap();
        thread.join().unwrap();
    }
    assert_eq!(runtime.handle().metrics().wakeups_by_timer(), 0);
    task.abort();
}

#[test]
fn time_that_the_program_advances_is_not_the_length_of_a_turn() {
    let _watchdog = watchdog(LONG);
    let clock = TestClock::new();
    let runtime = Builder::new().clock(Clock::Test(clock.clone())).build().unwrap();
    runtime.block_on(async {
        for _ in 0..3 {
            clock.advance(HOUR);
            yield_now().await;
        }
        (0..200).for_each(|_| spawn(yield_now()).detach());
        for _ in 0..200 {
            yield_now().await;
        }
    });
    let longest = runtime.handle().metrics().longest_turn();
    assert_eq!((longest.duration, longest.polls), (Duration::ZERO, 0));
}
