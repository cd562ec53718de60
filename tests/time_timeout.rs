//! Timeouts: which side wins, when the clock starts, and that nothing keeps them from elapsing.

mod common;

use std::cell::Cell;
use std::future::{pending, poll_fn, ready};
use std::io::ErrorKind;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use common::{Dropped, HOUR, LONG, metrics, ms, panicked, paused, turn, us, watchdog};
use futures::channel::oneshot;
#[cfg(feature = "net")]
use futures::future::{Either, FutureExt, select};
use futures::poll;
#[cfg(feature = "net")]
use futures::stream::{FuturesUnordered, StreamExt};
use mainspring::time::error::Elapsed;
use mainspring::time::{
    Clock, Instant, TestClock, advance_to, interval_at, sleep, sleep_until, timeout, timeout_at,
};
use mainspring::{Builder, Runtime, block_on, spawn};

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

// The task itself holds the thread up, and reads the clock, before it polls the timeout again.
#[cfg(feature = "net")]
#[test]
fn what_has_arrived_while_the_thread_was_held_up_is_seen_before_the_deadline() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let socket = mainspring::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut buf = [0; 8];
        let mut answer = pin!(timeout(ms(20), socket.recv(&mut buf)));
        assert!(poll!(answer.as_mut()).is_pending());
        peer.send_to(b"here", socket.local_addr().unwrap()).unwrap();
        thread::sleep(ms(25));
        assert!(Instant::now() > answer.deadline().unwrap());
        assert_eq!(answer.await.expect("it was there in time").unwrap(), 4);
    });
}

/// A peer whose message a task reads from a socket and passes on.
#[cfg(feature = "net")]
async fn peer() -> (std::net::UdpSocket, oneshot::Receiver<usize>) {
    let socket = mainspring::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.connect(socket.local_addr().unwrap()).unwrap();
    let (send, receive) = oneshot::channel();
    spawn(async move { send.send(socket.recv(&mut [0; 8]).await.unwrap()) }).detach();
    (peer, receive)
}

/// A peer's message. Holds the thread up until it has been there for some time and `up` has passed.
#[cfg(feature = "net")]
async fn passed_on(up: Duration) -> oneshot::Receiver<usize> {
    let (peer, receive) = peer().await;
    spawn(async move {
        // By now both the task above and the one that waits for it have begun to.
        turn().await;
        peer.send(b"here").unwrap();
        thread::sleep(up + ms(10));
    })
    .detach();
    receive
}

#[cfg(feature = "net")]
#[test]
fn what_another_task_has_to_read_is_seen_before_the_deadline() {
    let _watchdog = watchdog(LONG);
    let up = ms(200);
    block_on(async {
        assert_eq!(timeout(up, passed_on(up).await).await, Ok(Ok(4)), "in the root task");
        let waits = spawn(async move { timeout(up, passed_on(up).await).await });
        assert_eq!(waits.await.unwrap(), Ok(Ok(4)), "in a task");
        let mut several = FuturesUnordered::from_iter([timeout(up, passed_on(up).await)]);
        assert_eq!(several.next().await, Some(Ok(Ok(4))), "in a set");
        let (_peer, never) = peer().await;
        let mut several = FuturesUnordered::from_iter([timeout(HOUR, never)]);
        several.push(timeout(up, passed_on(up).await));
        assert_eq!(several.next().await, Some(Ok(Ok(4))), "among others");
        let nested = timeout(up, timeout(up, passed_on(up).await));
        assert_eq!(nested.await, Ok(Ok(Ok(4))), "in another timeout");
        let limited = passed_on(up).await;
        assert_eq!(
            mainspring::time::deadline(Instant::now() + up, limited).await,
            Ok(Ok(4)),
            "with a deadline"
        );
        let mut items = pin!(mainspring::time::StreamExt::timeout(passed_on(up).await.into_stream(), up));
        assert_eq!(items.next().await, Some(Ok(Ok(4))), "in a stream");
    });
}

#[cfg(feature = "net")]
#[test]
fn many_answers_are_seen_before_their_deadlines_after_a_woken_task_has_held_the_thread_up_for_long() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (mut peers, mut answers) = (vec![], vec![]);
        for _ in 0..50 {
            let (peer, receive) = peer().await;
            peers.push(peer);
            answers.push(spawn(timeout(ms(500), receive)));
        }
        turn().await;
        let (hold, held) = oneshot::channel();
        let holds = spawn(async move {
            held.await.unwrap();
            thread::sleep(ms(700));
        });
        turn().await;
        peers.iter().for_each(|peer| assert_eq!(peer.send(b"here").unwrap(), 4));
        hold.send(()).unwrap();
        holds.await.unwrap();
        for answer in answers {
            assert_eq!(answer.await.unwrap(), Ok(Ok(4)));
        }
    });
}

// Sleeps that programs have made their own timeouts of; more than a turn fires, if it fires few.
#[cfg(feature = "net")]
#[test]
fn what_other_tasks_have_to_read_is_seen_before_sleeps_end_that_a_long_hold_up_has_made_late() {
    let _watchdog = watchdog(LONG);
    for budget in [256, 3] {
        let runtime = Builder::new().timer_budget(budget).build().unwrap();
        runtime.block_on(async {
            let (mut peers, mut answers) = (vec![], vec![]);
            for _ in 0..10 {
                let (peer, mut receive) = peer().await;
                peers.push(peer);
                answers.push(spawn(async move {
                    match select(&mut receive, pin!(sleep(ms(500)))).await {
                        Either::Left((read, _)) => read.ok(),
                        Either::Right(_) => None,
                    }
                }));
            }
            turn().await;
            peers.iter().for_each(|peer| assert_eq!(peer.send(b"here").unwrap(), 4));
            thread::sleep(ms(700));
            for answer in answers {
                assert_eq!(answer.await.unwrap(), Some(4), "with a budget of {budget} timers");
            }
        });
    }
}

// The timer fires as one `block_on` ends, and its task has its turn in the next.
#[cfg(feature = "net")]
#[test]
fn what_another_task_has_to_read_is_seen_before_the_deadline_in_the_next_block_on() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let waits = runtime.block_on(async {
        let (peer, receive) = peer().await;
        let up = Instant::now() + ms(50);
        let waits = spawn(timeout_at(up, receive));
        spawn(async move {
            sleep_until(up - ms(20)).await;
            peer.send(b"here").unwrap();
            thread::sleep(ms(40));
        })
        .detach();
        sleep_until(up - ms(1)).await;
        Some(waits)
    });
    assert_eq!(runtime.block_on(waits.unwrap()).unwrap(), Ok(Ok(4)));
}

#[cfg(feature = "net")]
#[test]
fn what_one_task_has_to_read_in_several_turns_is_seen_before_the_deadlines() {
    const MESSAGES: u8 = 12;
    let _watchdog = watchdog(LONG);
    block_on(async {
        let socket = mainspring::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.connect(socket.local_addr().unwrap()).unwrap();
        let up = Instant::now() + ms(50);
        let (mut sends, receives): (Vec<_>, Vec<_>) =
            (0..MESSAGES).map(|_| oneshot::channel()).map(|(send, receive)| (Some(send), receive)).unzip();
        let waits: Vec<_> = receives.into_iter().map(|receive| spawn(timeout_at(up, receive))).collect();
        // It uses up its budget again and again.
        spawn(async move {
            let mut buf = [0];
            while socket.recv(&mut buf).await.is_ok() {
                works(us(100));
                sends[usize::from(buf[0])].take().unwrap().send(()).unwrap();
            }
        })
        .detach();
        spawn(async move {
            sleep_until(up - ms(10)).await;
            (0..MESSAGES).for_each(|n| assert_eq!(peer.send(&[n]).unwrap(), 1));
            thread::sleep(ms(30));
        })
        .detach();
        for waits in waits {
            assert_eq!(waits.await.unwrap(), Ok(Ok(())));
        }
    });
}

#[cfg(feature = "net")]
fn works(duration: Duration) {
    let start = StdInstant::now();
    while start.elapsed() < duration {}
}

// Otherwise all of them would run before what arrives meanwhile.
#[cfg(feature = "net")]
#[test]
fn what_arrives_does_not_wait_for_all_timers_that_are_late() {
    const TIMERS: usize = 3_000;
    let _watchdog = watchdog(LONG);
    for (hold_up, timeouts, others) in
        [(0, true, 0), (50, true, 0), (50, true, 300), (300, true, 300), (300, false, 300)]
    {
        block_on(async {
            let (peer, receive) = peer().await;
            let (peer, ended) = (Rc::new(peer), Rc::new(Cell::new(0)));
            let until = Instant::now() + ms(100);
            for _ in 0..TIMERS {
                let (ended, peer) = (ended.clone(), peer.clone());
                spawn(async move {
                    if timeouts {
                        timeout_at(until, pending::<()>()).await.unwrap_err();
                    } else {
                        sleep_until(until).await;
                    }
                    ended.set(ended.get() + 1);
                    if ended.get() == 500 {
                        peer.send(b"here").unwrap();
                    }
                    works(us(50));
                })
                .detach();
            }
            turn().await;
            sleep_until(until - ms(1)).await;
            thread::sleep(ms(hold_up));
            (0..others).for_each(|_| spawn(async { works(us(100)) }).detach());
            assert_eq!(receive.await, Ok(4));
            assert!(ended.get() < TIMERS / 2, "{} ended before, after {hold_up} ms", ended.get());
        });
    }
}

// Each poll is a hold-up, and there is always a task that has been woken.
#[test]
fn timers_fire_beside_tasks_that_hold_the_thread_up_again_and_again() {
    let _watchdog = watchdog(LONG);
    for timeouts in [false, true] {
        block_on(async {
            let (polls, other) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(Waker::noop().clone())));
            let tasks: Vec<_> = (0..3)
                .map(|_| {
                    let (polls, other) = (polls.clone(), other.clone());
                    spawn(poll_fn(move |cx| {
                        // The first poll is at the beginning.
                        if polls.replace(polls.get() + 1) >= 3 {
                            thread::sleep(ms(120));
                        }
                        other.replace(cx.waker().clone()).wake();
                        Poll::<()>::Pending
                    }))
                    .abort_on_drop()
                })
                .collect();
            if timeouts {
                timeout(ms(10), pending::<()>()).await.unwrap_err();
            } else {
                sleep(ms(10)).await;
            }
            assert!(polls.get() < 15, "after {} polls", polls.get());
            drop(tasks);
        });
    }
}

/// A future that is never ready, and counts its polls.
fn counts(polls: &Cell<i32>) -> impl Future<Output = ()> {
    poll_fn(|_| {
        polls.set(polls.get() + 1);
        Poll::<()>::Pending
    })
}

#[cfg(feature = "net")]
#[test]
fn a_late_timeout_is_polled_once_more_if_a_socket_has_woken_a_task_and_at_once_by_an_executor_in_its_task() {
    let _watchdog = watchdog(LONG);
    let polls = Cell::new(0);
    block_on(async {
        for woken in [true, false] {
            let (peer, _receive) = peer().await;
            turn().await;
            let mut late = pin!(timeout(ms(5), counts(&polls)));
            assert!(poll!(late.as_mut()).is_pending());
            if woken {
                peer.send(b"here").unwrap();
            }
            polls.set(0);
            thread::sleep(ms(10));
            // The first poll is before the turn that fires the timer.
            assert!(late.await.is_err());
            assert_eq!(polls.take(), if woken { 3 } else { 2 });
        }
        // The task that was woken has no turn before this one returns.
        let (peer, _receive) = peer().await;
        turn().await;
        let mut late = pin!(timeout(ms(5), counts(&polls)));
        let mut times = 0;
        poll_fn(|cx| {
            times += 1;
            if times == 1 {
                assert!(late.as_mut().poll(cx).is_pending());
                peer.send(b"here").unwrap();
                thread::sleep(ms(10));
                return Poll::Pending;
            }
            while late.as_mut().poll(cx).is_pending() {}
            Poll::Ready(())
        })
        .await;
    });
}

#[test]
fn a_late_timeout_is_not_polled_once_more_for_nothing() {
    let _watchdog = watchdog(LONG);
    let polls = Cell::new(0);
    block_on(async {
        // One whose time is up before its first poll ends in that, and again in each later one.
        let mut past = pin!(timeout_at(Instant::now() - HOUR, counts(&polls)));
        for _ in 0..2 {
            assert!(past.as_mut().await.is_err());
            assert_eq!(polls.take(), 1);
        }
        // So does one that has ended in time, whenever it is polled again.
        let mut in_time = pin!(timeout(ms(5), counts(&polls)));
        assert!(in_time.as_mut().await.is_err());
        polls.set(0);
        sleep(ms(5)).await;
        assert!(in_time.await.is_err());
        assert_eq!(polls.take(), 1);

        // And one that is late, also with a new deadline.
        let mut again = pin!(timeout(ms(5), counts(&polls)));
        for reset in [false, true] {
            if reset {
                again.as_mut().reset(Instant::now() + ms(5));
            }
            assert!(poll!(again.as_mut()).is_pending());
            polls.set(0);
            thread::sleep(ms(10));
            assert!(again.as_mut().await.is_err());
            assert_eq!(polls.take(), 2);
            assert!(again.as_mut().await.is_err());
            assert_eq!(polls.take(), 1);
        }
    });
    // In time that the program controls no time passes while the thread is held up.
    let clock = TestClock::new();
    let runtime = Builder::new().clock(Clock::Test(clock.clone())).build().unwrap();
    runtime.block_on(async {
        let mut late = pin!(timeout(ms(5), counts(&polls)));
        assert!(poll!(late.as_mut()).is_pending());
        spawn(async {}).detach();
        clock.advance(HOUR);
        assert!(late.await.is_err());
        assert_eq!(polls.take(), 3);
    });
    paused().block_on(async {
        let mut late = pin!(timeout(ms(5), counts(&polls)));
        assert!(poll!(late.as_mut()).is_pending());
        spawn(async {}).detach();
        advance_to(Instant::now() + HOUR).await;
        assert!(late.await.is_err());
        assert_eq!(polls.take(), 2);
    });
}

// As in a loop that gives its peer a new deadline with each message.
#[cfg(feature = "net")]
#[test]
fn what_has_arrived_before_a_deadline_that_was_reset_is_seen_before_it() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let socket = mainspring::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut buf = [0; 8];
        let mut next = pin!(socket.recv(&mut buf));
        let mut silence = pin!(timeout(LONG, pending::<()>()));
        assert!(poll!(next.as_mut()).is_pending() && poll!(silence.as_mut()).is_pending());
        silence.as_mut().reset(Instant::now() + ms(20));
        peer.send_to(b"here", socket.local_addr().unwrap()).unwrap();
        thread::sleep(ms(25));
        // Anything may have read the clock meanwhile.
        drop(mainspring::sleep(ms(1)));
        match select(next, silence).await {
            Either::Left((read, _)) => assert_eq!(read.unwrap(), 4),
            Either::Right(_) => panic!("it was there in time"),
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
