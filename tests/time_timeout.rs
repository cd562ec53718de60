//! Timeouts: which side wins, when the clock starts, and that nothing keeps them from elapsing.

mod common;

use std::cell::Cell;
use std::future::{pending, poll_fn, ready};
use std::io::ErrorKind;
use std::pin::pin;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use common::{Dropped, HOUR, LONG, metrics, ms, panicked, paused, turn, us, watchdog};
use futures::channel::oneshot;
use futures::poll;
use mainspring::time::error::Elapsed;
use mainspring::time::{Instant, interval_at, sleep, timeout, timeout_at};
use mainspring::{Runtime, block_on, spawn};

#[test]
fn a_ready_future_beats_a_deadline_that_has_passed() {
    block_on(async {
        assert_eq!(timeout(Duration::ZERO, ready(1)).await, Ok(1));
        assert_eq!(timeout_at(Instant::now() - HOUR, ready(2)).await, Ok(2));

        // And a future that becomes ready when the deadline is long past.
        let flag = Cell::new(false);
        let mut slow =
            pin!(timeout(ms(50), poll_fn(|_| if flag.get() { Poll::Ready(3) } else { Poll::Pending })));
        assert!(poll!(slow.as_mut()).is_pending());
        thread::sleep(ms(60));
        flag.set(true);
        assert_eq!(poll!(slow), Poll::Ready(Ok(3)));
    });
}

#[test]
fn a_ready_future_costs_no_timer() {
    block_on(async {
        for _ in 0..100 {
            assert_eq!(timeout(ms(1), ready(())).await, Ok(()));
        }
        assert_eq!(metrics().timers_armed(), 0);
    });
}

#[test]
fn a_value_that_comes_in_time_is_returned_and_leaves_no_timer() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (send, receive) = oneshot::channel();
        let mut waiting = pin!(timeout(HOUR, receive));
        assert!(poll!(waiting.as_mut()).is_pending());
        assert_eq!(metrics().timers_live(), 1);
        send.send("value").unwrap();
        assert_eq!(waiting.await, Ok(Ok("value")));

        let (send, receive) = oneshot::channel();
        let task = spawn(timeout(HOUR, receive));
        turn().await;
        send.send(1).unwrap();
        assert_eq!(task.await.unwrap(), Ok(Ok(1)));
        drop(timeout(HOUR, pending::<()>()));
        let metrics = metrics();
        assert_eq!((metrics.timers_cancelled(), metrics.timers_fired()), (1, 0));
    });
}

#[test]
fn it_elapses_not_early_and_drops_the_future() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        for wanted in [Duration::ZERO, Duration::from_nanos(1), us(100), ms(3)] {
            let dropped = Dropped::default();
            let token = dropped.token();
            let start = StdInstant::now();
            let result = timeout(wanted, async move {
                let _token = token;
                pending::<()>().await;
            })
            .await;
            assert_eq!(result, Err(result.unwrap_err()));
            assert!(start.elapsed() >= wanted);
            assert_eq!(dropped.count(), 1);
        }
        assert_eq!(metrics().timers_live(), 0);
    });
}

// tokio #3551.
#[test]
fn durations_without_end_never_elapse() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        for far in [Duration::MAX, Duration::from_millis(u64::MAX), Duration::from_millis(i64::MAX as u64)] {
            assert_eq!(timeout(far, sleep(ms(1))).await, Ok(()));
            assert_eq!(timeout_at(Instant::now() + far, sleep(us(1))).await, Ok(()));
        }
        assert_eq!(metrics().timers_live(), 0);
    });
}

/// Runs `endless` with a timeout: in the root, and in a task.
fn elapses<F: Future<Output = ()> + 'static>(endless: impl Fn() -> F) {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let start = StdInstant::now();
        assert!(timeout(ms(10), endless()).await.is_err());
        assert!(start.elapsed() >= ms(10));
        let start = StdInstant::now();
        assert!(spawn(timeout(ms(10), endless())).await.unwrap().is_err());
        assert!(start.elapsed() >= ms(10));
    });
}

// tokio #4314: with the budget used up, the timer's own poll was refused as well.
#[test]
fn a_future_that_spends_the_budget_on_sleeps_elapses() {
    elapses(|| async {
        loop {
            sleep(Duration::ZERO).await;
        }
    });
}

#[test]
fn a_future_that_spends_the_budget_on_tasks_elapses() {
    elapses(|| async {
        loop {
            spawn(async {}).await.unwrap();
        }
    });
}

#[test]
fn a_future_that_spends_the_budget_on_ticks_elapses() {
    elapses(|| async {
        let mut ticks = interval_at(Instant::now() - HOUR, Duration::from_nanos(1));
        loop {
            ticks.tick().await;
        }
    });
}

#[test]
fn a_future_that_only_yields_elapses() {
    elapses(|| async {
        loop {
            mainspring::task::yield_now().await;
        }
    });
}

#[cfg(feature = "net")]
#[test]
fn a_future_that_spends_the_budget_on_a_socket_elapses() {
    elapses(|| async {
        let listener = mainspring::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        std::io::Write::write_all(&mut client, b"always there").unwrap();
        let (server, _) = listener.accept().await.unwrap();
        loop {
            // The bytes are never taken: there is always something to read.
            assert_eq!(server.peek(&mut [0; 4]).await.unwrap(), 4);
        }
    });
}

// Polls of registered timers are counted, and every 64th reads the clock: here it is never the inner timeout's.
#[test]
fn in_a_loop_that_never_yields_it_elapses_inside_another() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut never = pin!(timeout(LONG * 10, timeout(ms(2), pending::<()>())));
        while poll!(never.as_mut()).is_pending() {}
    });
}

#[test]
fn in_a_loop_that_never_yields_it_elapses() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut never = pin!(timeout(ms(2), pending::<()>()));
        let asked = Instant::now();
        while poll!(never.as_mut()).is_pending() {}
        assert!(asked.elapsed() >= ms(2));
    });
}

#[test]
fn the_clock_starts_when_the_first_poll_was_pending() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut first = true;
        let inner = poll_fn(move |_| {
            if std::mem::take(&mut first) {
                // A poll that takes longer than the whole timeout.
                thread::sleep(ms(80));
            }
            Poll::<()>::Pending
        });
        let mut limited = pin!(timeout(ms(50), inner));
        assert_eq!(limited.deadline(), None);
        thread::sleep(ms(60));
        assert_eq!(limited.deadline(), None);

        let before = Instant::now();
        assert!(poll!(limited.as_mut()).is_pending());
        let after = Instant::now();
        let deadline = limited.deadline().expect("the clock runs");
        assert!(deadline >= before + ms(130), "the time within the poll was counted");
        assert!(deadline <= after + ms(50));

        assert!(limited.as_mut().await.is_err());
        assert!(Instant::now() >= deadline);
        assert_eq!(limited.deadline(), Some(deadline));
    });
}

#[test]
fn timeout_at_knows_its_deadline_at_once() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let deadline = Instant::now() + ms(5);
        let limited = timeout_at(deadline, pending::<()>());
        assert_eq!(limited.deadline(), Some(deadline));
        assert!(limited.await.is_err());
        assert!(Instant::now() >= deadline);
        assert!(timeout_at(Instant::now(), pending::<()>()).await.is_err());
    });
    // Also a timeout that is made outside any runtime.
    let deadline = Instant::now() + ms(5);
    let limited = timeout_at(deadline, pending::<()>());
    assert_eq!(limited.deadline(), Some(deadline));
    assert!(block_on(limited).is_err());
    assert!(Instant::now() >= deadline);
}

#[test]
fn the_inner_future_can_be_seen_and_had_back() {
    block_on(async {
        let mut limited = timeout(ms(1), ready(5));
        assert_eq!(limited.get_ref().clone().into_inner(), 5);
        *limited.get_mut() = ready(6);
        assert_eq!(limited.into_inner().await, 6);
    });
}

#[test]
fn the_inner_future_can_be_changed_where_it_is_pinned_while_the_clock_runs_on() {
    let _watchdog = watchdog(LONG);
    let runtime = paused();
    runtime.block_on(async {
        let start = Instant::now();
        let mut limited = pin!(timeout(ms(10), sleep(ms(20))));
        assert!(poll!(limited.as_mut()).is_pending());
        limited.as_mut().get_pin_mut().reset(start + ms(5));
        assert_eq!(limited.as_mut().await, Ok(()));
        assert_eq!(start.elapsed(), ms(5));
        // The timeout waits for the inner sleep again, until the same deadline.
        limited.as_mut().get_pin_mut().reset(start + HOUR);
        assert!(limited.await.is_err());
        assert_eq!(start.elapsed(), ms(10));
    });
}

#[test]
fn elapsed_is_an_io_error_of_its_kind() {
    let elapsed: Elapsed = block_on(timeout(Duration::ZERO, pending::<()>())).unwrap_err();
    assert_eq!(elapsed.to_string(), "deadline has elapsed");
    let error = std::io::Error::from(elapsed);
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.get_ref().unwrap().is::<Elapsed>());

    let through = |()| -> std::io::Result<()> { Err(elapsed)? };
    assert_eq!(through(()).unwrap_err().kind(), ErrorKind::TimedOut);
}

#[test]
fn of_nested_timeouts_the_shorter_one_elapses() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let inner = timeout(HOUR, timeout(ms(1), pending::<()>())).await;
        assert!(matches!(inner, Ok(Err(_))));
        let outer = timeout(ms(1), timeout(HOUR, pending::<()>())).await;
        assert!(outer.is_err());
        assert_eq!(timeout(HOUR, timeout(HOUR, sleep(ms(1)))).await, Ok(Ok(())));
        assert_eq!(metrics().timers_live(), 0);
    });
}

#[test]
fn made_outside_it_binds_where_it_is_polled() {
    let _watchdog = watchdog(LONG);
    let limited = timeout(ms(20), pending::<()>());
    thread::sleep(ms(30));
    let start = StdInstant::now();
    assert!(block_on(limited).is_err());
    assert!(start.elapsed() >= ms(20));
}

#[test]
fn it_belongs_to_the_runtime_that_polls_it_not_to_the_one_it_was_made_in() {
    let _watchdog = watchdog(LONG);
    let (made, polls) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let start = Instant::now();
    let limited = {
        let _entered = made.handle().enter();
        (timeout(ms(20), pending::<()>()), timeout_at(start + ms(20), pending::<()>()))
    };
    drop(made);
    polls.block_on(async {
        let (first, second) = futures::join!(limited.0, limited.1);
        assert!(first.is_err() && second.is_err() && start.elapsed() >= ms(20));
    });
    assert_eq!(polls.handle().metrics().timers_fired(), 2);
}

#[test]
fn without_a_runtime_it_says_where_it_was_made() {
    // A future that is ready needs no clock, and so no runtime.
    assert_eq!(futures::executor::block_on(timeout(ms(1), ready(4))), Ok(4));

    let line = line!() + 1;
    let limited = timeout(ms(1), pending::<()>());
    let panic = panicked(|| futures::executor::block_on(limited));
    assert!(panic.message.contains("no Mainspring runtime"), "{}", panic.message);
    assert!(panic.message.contains(&format!("{}:{line}", file!())), "{}", panic.message);

    let mut limited = pin!(timeout(ms(1), pending::<()>()));
    let error = futures::executor::block_on(poll_fn(|cx| limited.as_mut().try_poll(cx))).unwrap_err();
    assert!(error.is_no_runtime());
}

#[test]
fn after_its_runtime_it_is_an_error() {
    let mut limited = Box::pin(timeout(HOUR, pending::<()>()));
    block_on(async { assert!(futures::poll!(limited.as_mut()).is_pending()) });
    let error = futures::executor::block_on(poll_fn(|cx| limited.as_mut().try_poll(cx))).unwrap_err();
    assert!(error.is_shutdown());
    let panic = panicked(|| futures::executor::block_on(limited));
    assert!(panic.message.contains("runtime was dropped"), "{}", panic.message);
}
