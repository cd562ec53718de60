//! The budget of each poll: what a task may do before it must let others run.
//!
//! Ground rules: results are measured in counts; if a time is asserted, its bound is far from the expected time.

#![cfg(unix)]

mod common;

use common::{HOUR, LONG, compute, ms, us, watchdog};
use futures::future::{Either, select, select_all};
use futures::{SinkExt, StreamExt, channel::mpsc};
use mainspring::task::{consume_budget, cooperative, has_budget_remaining, unconstrained, yield_now};
use mainspring::time::{
    DelayQueue, Instant, StreamExt as _, TimerMap, deadline, interval_at, sleep_until_wall, timeout_at,
    try_sleep, wall_now,
};
use mainspring::{block_on, interval, sleep, spawn, timeout};
use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

#[test]
fn a_poll_that_takes_results_for_long_ends_before_the_limit_of_their_number() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        // Each tick is a result that takes a fifth of a millisecond: 128 of them take 25 ms.
        let polls = Rc::new(Cell::new(0));
        let counter = polls.clone();
        let slow = spawn(async move {
            let mut ticks = interval(us(1));
            let mut inner = Box::pin(async move {
                for _ in 0..128 {
                    ticks.tick().await;
                    compute(us(200));
                }
            });
            poll_fn(move |cx| {
                counter.set(counter.get() + 1);
                inner.as_mut().poll(cx)
            })
            .await;
        });
        slow.await.unwrap();
        // At first the time that a result takes is not known.
        assert!(polls.get() >= 20, "128 results in {} polls", polls.get());
    });
}

#[test]
fn ticks_that_fail_let_others_run() {
    let _watchdog = watchdog(LONG);
    let mut gone = block_on(async { interval_at(Instant::now() + HOUR, HOUR) });
    block_on(async {
        let again = async {
            loop {
                assert!(poll_fn(|cx| gone.try_poll_tick(cx)).await.is_err());
            }
        };
        assert!(timeout(ms(5), again).await.is_err());
    });
}

#[test]
fn timeouts_that_elapse_at_once_let_others_run() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let zero = async {
            loop {
                let _ = timeout(Duration::ZERO, pending::<()>()).await;
            }
        };
        assert!(timeout(ms(5), zero).await.is_err());
        let past = Instant::now();
        let past = async {
            loop {
                let _ = timeout_at(past, pending::<()>()).await;
            }
        };
        assert!(timeout(ms(5), past).await.is_err());
        let stream = async {
            let mut stream = Box::pin(futures::stream::pending::<()>().timeout(Duration::ZERO));
            while stream.next().await.is_some() {}
        };
        assert!(timeout(ms(5), stream).await.is_err());
    });
}

#[test]
fn a_future_that_uses_the_budget_up_does_not_keep_its_timeout_from_elapsing() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let greedy = async {
            loop {
                sleep(Duration::ZERO).await;
            }
        };
        assert!(timeout(ms(5), greedy).await.is_err());
        // Also if other futures have used their part of the budget before.
        let beside = async {
            loop {
                let ready = futures::future::join_all((0..100).map(|_| sleep(Duration::ZERO)));
                let _ = timeout(HOUR, ready).await;
            }
        };
        assert!(timeout(ms(5), beside).await.is_err());
    });
}

#[test]
fn a_timer_that_is_refused_is_not_terminated() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut wall = pin!(sleep_until_wall(wall_now() - ms(1)));
        for _ in 0..128 {
            consume_budget().await;
        }
        futures::select! {
            () = wall => {}
            complete => panic!("it was never ready"),
        }
    });
}

/// Takes results for as long as it is let, in each poll.
fn greedy() -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async {
        loop {
            consume_budget().await;
        }
    })
}

#[test]
fn a_timer_ends_although_what_is_polled_before_it_uses_the_budget_up() {
    let _watchdog = watchdog(LONG);
    macro_rules! ends {
        ($($timer:expr),* $(,)?) => {$({
            let timer = pin!(async { $timer.await });
            assert!(matches!(select(greedy(), timer).await, Either::Right(_)));
        })*};
    }
    block_on(async {
        let short = ms(2);
        let mut ticks = interval(short);
        let mut queue = DelayQueue::new();
        let mut map = TimerMap::new();
        for n in 0..40 {
            queue.insert(n, short);
            map.insert(n, n, short);
        }
        let handle = map.handle();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(4 * short);
            handle.insert(40, 40, short).unwrap();
        });
        ends! {
            sleep(short),
            sleep(Duration::ZERO),
            try_sleep(short),
            timeout(short, pending::<()>()),
            deadline(Instant::now() + short, pending::<()>()),
            pin!(futures::stream::pending::<()>().timeout(short)).next(),
            sleep_until_wall(wall_now() + short),
            sleep_until_wall(wall_now() - short),
            async { (ticks.tick().await, ticks.tick().await, ticks.tick().await) },
            async { for _ in 0..40 { queue.next_expired().await.unwrap(); } },
            async { for _ in 0..41 { map.next_expired().await.unwrap(); } },
        }
        thread.join().unwrap();
        // What is polled before it may consist of timers, too.
        let zero = pin!(async {
            loop {
                sleep(Duration::ZERO).await;
            }
        });
        assert!(matches!(select(zero, pin!(sleep(short))).await, Either::Right(_)));
        let stream = futures::stream::repeat(()).then(|()| timeout(Duration::ZERO, pending::<()>()));
        let mut late = pin!(timeout(short, pending::<()>()));
        let elapsing = pin!(stream.for_each(async |_| ()));
        assert!(matches!(select(elapsing, late.as_mut()).await, Either::Right(_)));
    });
}

#[test]
fn what_is_foreign_can_take_part_in_the_budget() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        for way in ["consume_budget", "cooperative", "has_budget_remaining"] {
            let (mut sender, mut receiver) = mpsc::channel(1);
            let endless = async {
                loop {
                    sender.send(()).await.unwrap();
                    match way {
                        "consume_budget" => {
                            receiver.next().await;
                            consume_budget().await;
                        }
                        "cooperative" => drop(cooperative(receiver.next()).await),
                        _ => {
                            receiver.next().await;
                            sleep(Duration::ZERO).await;
                            if !has_budget_remaining() {
                                yield_now().await;
                            }
                        }
                    }
                }
            };
            assert!(timeout(ms(20), endless).await.is_err(), "{way}");
        }
        assert!(
            unconstrained(async {
                (0..1_000).for_each(|_| assert!(has_budget_remaining()));
                true
            })
            .await
        );
    });
}

/// Takes results of an operation until the budget is used up. Each of them must come at once, and be charged once.
#[cfg(any(feature = "net", feature = "process"))]
macro_rules! charges {
    ($($what:literal: $op:expr;)*) => {$({
        yield_now().await;
        let mut results = 0;
        while has_budget_remaining() && results < 1_000 {
            assert!(futures::poll!(std::pin::pin!(async { drop($op.await) })).is_ready(), $what);
            results += 1;
        }
        assert_eq!(results, 128, $what);
    })*};
}

/// The budget decides, because time is paused: no slice ends meanwhile.
#[cfg(feature = "net")]
#[test]
fn what_a_socket_returns_at_once_is_charged() {
    use futures::AsyncWriteExt;
    use mainspring::io::{AsyncFd, Interest};
    use mainspring::net::unix::{UnixDatagram, UnixStream};
    use mainspring::net::{TcpListener, TcpSocket, TcpStream, UdpSocket, lookup_host};

    let _watchdog = watchdog(LONG);
    common::paused().block_on(async {
        const ANY: &str = "127.0.0.1:0";
        let taken = TcpListener::bind(ANY).await.unwrap().local_addr().unwrap();
        let _listener = TcpListener::bind(taken).await.unwrap();
        let udp = UdpSocket::bind(ANY).await.unwrap();
        let addr = udp.local_addr().unwrap();
        let unix = UnixDatagram::unbound().unwrap();
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        let pipe = AsyncFd::with_interest(std::fs::File::from(pipe), Interest::Readable).unwrap();
        // An address of the other version.
        let strange = "[::1]:9".parse().unwrap();
        charges! {
            "a connect that fails at once": TcpSocket::new_v4().unwrap().connect(strange);
            "a connect to no address": TcpStream::connect("nonsense");
            "a listener": TcpListener::bind(ANY);
            "an address that is taken": TcpListener::bind(taken);
            "no address": TcpListener::bind("nonsense");
            "a socket for datagrams": UdpSocket::bind(ANY);
            "an address that is taken by another": UdpSocket::bind(addr);
            "a receiver": udp.connect(addr);
            "no receiver": udp.connect("nonsense");
            "a datagram": udp.send_to(b"x", addr);
            "a datagram to no address": udp.send_to(b"x", "nonsense");
            "a literal": lookup_host(ANY);
            "no name": lookup_host("nonsense");
            "a path that is none": UnixStream::connect("\0");
            "a path that is not there": UnixStream::connect("/nonsense");
            "a datagram to a path that is none": unix.send_to(b"x", "\0");
            "a datagram to a path that is not there": unix.send_to(b"x", "/nonsense");
            "the other direction": pipe.writable();
            "the other direction, polled": poll_fn(|cx| pipe.poll_writable(cx));
            "the other direction, written": (&pipe).write(b"x");
            "the other direction, by a call of one's own": pipe.async_io(Interest::Writable, |_| Ok(()));
        }
    });
}

#[cfg(feature = "process")]
#[test]
fn what_a_process_returns_at_once_is_charged_but_for_its_first_end() {
    use futures::AsyncWriteExt;
    use mainspring::process::{Command, Stdio};
    use mainspring::signal::{SignalKind, signal};

    let _watchdog = watchdog(LONG);
    let mut orphan = common::orphan(|| signal(SignalKind::user_defined1()).unwrap());
    let mut child = block_on(async {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().await.unwrap();
        child
    });
    common::paused().block_on(async {
        let mut nonsense = Command::new("/nonsense");
        let mut closed = Command::new("cat").stdin(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut stdin = closed.stdin.take().unwrap();
        stdin.close().await.unwrap();
        charges! {
            "a program that is not there": nonsense.status();
            "the output of a program that is not there": nonsense.output();
            "an end that is known": child.wait();
            "a signal after the runtime's end": orphan.recv();
            "the same, polled": poll_fn(|cx| orphan.poll_recv(cx));
            "a pipe that was closed": stdin.write(b"x");
        }
    });
}

#[test]
fn a_task_is_told_when_its_budget_is_used_up() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut results = 0;
        while has_budget_remaining() && results < 1_000 {
            consume_budget().await;
            results += 1;
        }
        assert!(results <= 128, "{results} results in one poll");
        yield_now().await;
        assert!(has_budget_remaining());
    });
}

#[test]
fn a_task_that_polls_more_futures_than_its_budget_allows_lets_others_run() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let turns = Rc::new(Cell::new(0));
        let counter = turns.clone();
        let other = spawn(async move {
            loop {
                counter.set(counter.get() + 1);
                yield_now().await;
            }
        });
        let many = spawn(async {
            for _ in 0..1_500 {
                select_all((0..1_500).map(|_| Box::pin(sleep(Duration::ZERO)))).await;
            }
        });
        many.await.unwrap();
        other.abort();
        // At most 128 results in one poll.
        assert!(turns.get() >= 10, "{} turns", turns.get());
    });
}

#[test]
fn an_executor_inside_a_task_is_without_budget() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let taken = futures::executor::block_on(async {
            let mut taken = 0;
            while taken < 10_000 {
                sleep(Duration::ZERO).await;
                taken += 1;
            }
            taken
        });
        assert_eq!(taken, 10_000);
        // The task itself goes on afterwards.
        sleep(us(1)).await;
    });
}
