//! Timers that are late, because the thread was held up: what has arrived in time is seen before they end.

#![cfg(feature = "net")]

mod common;

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::net::UdpSocket as StdSocket;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use common::{HOUR, LONG, ms, paused, turn, us, watchdog};
use futures::channel::oneshot;
use futures::future::{Either, FutureExt, select};
use futures::poll;
use futures::stream::{FuturesUnordered, StreamExt};
use mainspring::net::UdpSocket;
use mainspring::time::{Clock, Instant, TestClock, advance_to, sleep, sleep_until, timeout, timeout_at};
use mainspring::{Builder, Runtime, block_on, spawn};

/// A socket, and a peer that sends to it.
async fn connected() -> (UdpSocket, StdSocket) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let peer = StdSocket::bind("127.0.0.1:0").unwrap();
    peer.connect(socket.local_addr().unwrap()).unwrap();
    (socket, peer)
}

// The task itself holds the thread up, and reads the clock, before it polls the timeout again.
#[test]
fn what_has_arrived_while_the_thread_was_held_up_is_seen_before_the_deadline() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (socket, peer) = connected().await;
        let mut buf = [0; 8];
        let mut answer = pin!(timeout(ms(20), socket.recv(&mut buf)));
        assert!(poll!(answer.as_mut()).is_pending());
        peer.send(b"here").unwrap();
        thread::sleep(ms(25));
        assert!(Instant::now() > answer.deadline().unwrap());
        assert_eq!(answer.await.expect("it was there in time").unwrap(), 4);
    });
}

/// A peer whose message a task reads from a socket and passes on.
async fn peer() -> (StdSocket, oneshot::Receiver<usize>) {
    let (socket, peer) = connected().await;
    let (send, receive) = oneshot::channel();
    spawn(async move { send.send(socket.recv(&mut [0; 8]).await.unwrap()) }).detach();
    (peer, receive)
}

/// A peer's message. Holds the thread up until it has been there for some time and `up` has passed.
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

#[test]
fn what_one_task_has_to_read_in_several_turns_is_seen_before_the_deadlines() {
    const MESSAGES: u8 = 12;
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (socket, peer) = connected().await;
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

fn works(duration: Duration) {
    let start = StdInstant::now();
    while start.elapsed() < duration {}
}

// Otherwise all of them would run before what arrives meanwhile.
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
#[test]
fn what_has_arrived_before_a_deadline_that_was_reset_is_seen_before_it() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (socket, peer) = connected().await;
        let mut buf = [0; 8];
        let mut next = pin!(socket.recv(&mut buf));
        let mut silence = pin!(timeout(LONG, pending::<()>()));
        assert!(poll!(next.as_mut()).is_pending() && poll!(silence.as_mut()).is_pending());
        silence.as_mut().reset(Instant::now() + ms(20));
        peer.send(b"here").unwrap();
        thread::sleep(ms(25));
        // Anything may have read the clock meanwhile.
        drop(mainspring::sleep(ms(1)));
        match select(next, silence).await {
            Either::Left((read, _)) => assert_eq!(read.unwrap(), 4),
            Either::Right(_) => panic!("it was there in time"),
        }
    });
}
