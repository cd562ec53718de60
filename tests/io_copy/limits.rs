//! The time limits: what they count from, when they are over, and what they need of a runtime.

use std::cell::Cell;
use std::io::ErrorKind;
use std::mem;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use crate::common::{LONG, metrics, ms, panicked, paused, watchdog};
use crate::duplex::duplex;
use crate::{Fake, secs, silent, sink};
use futures::channel::oneshot;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use futures::{AsyncReadExt, AsyncWriteExt, StreamExt, join, poll};
use mainspring::io::{Direction, copy_bidirectional};
use mainspring::task::{consume_budget, has_budget_remaining, yield_now};
use mainspring::time::{Clock, Instant, TestClock, advance};
use mainspring::{Builder, Handle, Runtime, sleep, spawn, timeout};

#[test]
fn a_direction_that_stands_still_ends_the_copy_however_busy_the_other_is() {
    for silent in [Direction::AToB, Direction::BToA] {
        paused().block_on(async {
            let (mut client, mut a) = duplex(100);
            let (mut b, mut server) = duplex(100);
            let start = Instant::now();
            let copied = spawn(async move {
                let copy = copy_bidirectional(&mut a, &mut b);
                match silent {
                    Direction::AToB => copy.idle_a_to_b(secs(10)).await,
                    Direction::BToA => copy.idle_b_to_a(secs(10)).await,
                }
            });
            let (quiet, busy) = match silent {
                Direction::AToB => (&mut client, &mut server),
                Direction::BToA => (&mut server, &mut client),
            };
            sleep(secs(7)).await;
            quiet.write_all(b"the last for long").await.unwrap();
            while !copied.is_finished() {
                busy.write_all(b"x").await.unwrap();
                sleep(secs(1)).await;
                quiet.read_exact(&mut [0]).await.unwrap();
            }
            let error = copied.await.unwrap().unwrap_err();
            // Its timer was rearmed when ten seconds had passed, before the sleep above that ends at the same moment.
            assert_eq!(start.elapsed(), secs(17));
            assert_eq!((error.direction(), error.kind()), (Some(silent), ErrorKind::TimedOut));
            assert!(error.is_idle() && error.to_string().ends_with("no byte went in this direction for 10s"));
            assert!(error.copied().0 >= 10 && error.copied().1 >= 10);
        });
    }
}

#[test]
fn a_buffer_that_cannot_be_is_refused_where_its_size_is_set() {
    let (mut a, mut b) = duplex(1);
    let panic = panicked(|| drop(copy_bidirectional(&mut a, &mut b).buffer_size(usize::MAX)));
    assert!(panic.message.contains("a buffer has at most"), "{panic:?}");
    assert!(panic.file.ends_with("limits.rs"), "{panic:?}");
}

#[test]
fn a_limit_for_both_directions_counts_from_the_last_byte_of_either_to_the_nanosecond() {
    paused().block_on(async {
        let (mut client, mut a) = duplex(100);
        let (mut b, mut server) = duplex(100);
        let start = Instant::now();
        let copied = spawn(async move {
            let result = copy_bidirectional(&mut a, &mut b).idle(secs(60)).await;
            (result, start.elapsed())
        });
        for _ in 0..100 {
            sleep(Duration::from_nanos(59_999_999_999)).await;
            server.write_all(b"page").await.unwrap();
            client.read_exact(&mut [0; 4]).await.unwrap();
        }
        let (result, after) = copied.await.unwrap();
        let error = result.unwrap_err();
        assert_eq!((error.direction(), error.is_idle(), error.copied()), (None, true, (0, 400)));
        assert_eq!(after, 100 * Duration::from_nanos(59_999_999_999) + secs(60));
    });
}

#[test]
fn a_direction_that_the_budget_kept_from_being_asked_is_not_idle() {
    // The budget is used up by the other direction, or by another future of the task.
    for (by_other_direction, b_goes_first) in [(true, false), (true, true), (false, false), (false, true)] {
        paused().block_on(async {
            let bytes: [Rc<Cell<usize>>; 2] = Default::default();
            let [mut a, mut b] = bytes.clone().map(|bytes| {
                let read = move |_: &mut [u8]| match bytes.get() {
                    0 => Poll::Pending,
                    left => Poll::Ready(Ok(bytes.replace(left - 1).min(1))),
                };
                Fake { read, write: sink }
            });
            let mut copy = pin!(copy_bidirectional(&mut a, &mut b).idle_b_to_a(ms(50)));
            for _ in 0..1 + usize::from(b_goes_first) {
                assert!(poll!(copy.as_mut()).is_pending());
            }
            advance(ms(10)).await;
            let [from_a, from_b] = bytes;
            from_b.set(5);
            from_a.set(if by_other_direction { 10_000 } else { 0 });
            // The task does something else for longer than the limit.
            advance(ms(60)).await;
            while !by_other_direction && has_budget_remaining() {
                consume_budget().await;
            }
            assert!(poll!(copy.as_mut()).is_pending(), "five bytes waited");
            yield_now().await;
            assert!(poll!(copy.as_mut()).is_pending(), "five bytes waited");
            assert_eq!(from_b.get(), 0);
            // They were the last.
            from_a.set(0);
            advance(ms(50)).await;
            let Poll::Ready(Err(error)) = poll!(copy.as_mut()) else { panic!("the limit was forgotten") };
            assert_eq!(error.direction(), Some(Direction::BToA));
        });
    }
}

/// The streams do not take part in the budget, and the task's sub-executor has wakers of its own: so nothing else wakes the copy.
#[test]
fn a_limit_is_not_lost_when_the_task_has_no_budget_left() {
    let _watchdog = watchdog(LONG);
    let runtime = paused();
    let ended = runtime.block_on(async {
        let task = spawn(async {
            // Each has one message, and takes nothing.
            let [mut a, mut b] = [(), ()].map(|()| {
                let mut has_message = true;
                let read = move |_: &mut [u8]| match mem::take(&mut has_message) {
                    true => Poll::Ready(Ok(4)),
                    false => Poll::Pending,
                };
                Fake { read, write: |_: &[u8]| Poll::Pending }
            });
            let mut both: FuturesUnordered<LocalBoxFuture<'_, &str>> = FuturesUnordered::new();
            both.push(Box::pin(async {
                // Due when the limit is: takes all that the poll may take.
                sleep(secs(60)).await;
                while has_budget_remaining() {
                    consume_budget().await;
                }
                sleep(secs(1)).await;
                "other"
            }));
            both.push(Box::pin(async {
                let error = copy_bidirectional(&mut a, &mut b).idle(secs(60)).await.unwrap_err();
                assert!(error.is_idle());
                "copy"
            }));
            let mut ended = vec![];
            while let Some(who) = both.next().await {
                ended.push(who);
            }
            ended
        });
        timeout(secs(3600), task).await
    });
    let mut ended = ended.expect("the copy has a limit of a minute").unwrap();
    ended.sort_unstable();
    assert_eq!(ended, ["copy", "other"]);
}

#[test]
fn a_writer_that_takes_nothing_stands_still_too() {
    paused().block_on(async {
        let (mut client, mut a) = duplex(100);
        let (mut b, _server) = duplex(3);
        client.write_all(b"four").await.unwrap();
        let start = Instant::now();
        let error = copy_bidirectional(&mut a, &mut b).idle_a_to_b(ms(5)).await.unwrap_err();
        assert_eq!((error.copied(), start.elapsed()), ((3, 0), ms(5)));
        assert_eq!(error.to_string(), "a to b: no byte went in this direction for 5ms");
    });
}

#[test]
fn the_limit_of_a_direction_that_has_ended_is_over() {
    paused().block_on(async {
        let (client, mut a) = duplex(100);
        let (mut b, mut server) = duplex(100);
        let (mut reader, mut writer) = client.split();
        writer.close().await.unwrap();
        let copied =
            spawn(async move { copy_bidirectional(&mut a, &mut b).idle_a_to_b(ms(1)).idle(secs(5)).await });
        for _ in 0..10 {
            sleep(secs(4)).await;
            server.write_all(b"more").await.unwrap();
            reader.read_exact(&mut [0; 4]).await.unwrap();
        }
        server.close().await.unwrap();
        assert_eq!(copied.await.unwrap().unwrap(), (0, 40));
    });
}

#[test]
fn the_last_limit_that_is_over_leaves_no_timer_to_which_time_could_go() {
    paused().block_on(async {
        let (mut client, mut a) = duplex(100);
        let (mut b, mut server) = duplex(100);
        let start = Instant::now();
        let mut copy = pin!(copy_bidirectional(&mut a, &mut b).idle_a_to_b(secs(60)));
        assert!(poll!(copy.as_mut()).is_pending());
        assert_eq!(metrics().timers_live(), 1);
        client.close().await.unwrap();
        assert!(poll!(copy.as_mut()).is_pending());
        assert_eq!(metrics().timers_live(), 0);
        // Nothing in this runtime is due while it waits for another thread, so time stands.
        let (tell, told) = oneshot::channel();
        let other = thread::spawn(move || {
            thread::sleep(ms(50));
            tell.send(()).unwrap();
        });
        let answer = async {
            told.await.unwrap();
            server.write_all(b"late").await.unwrap();
            server.close().await.unwrap();
        };
        assert_eq!(join!(copy, answer).0.unwrap(), (0, 4));
        assert!(start.elapsed().is_zero(), "{:?} have passed", start.elapsed());
        other.join().unwrap();
    });
}

#[test]
fn bytes_that_move_do_not_move_the_timer() {
    paused().block_on(async {
        let (mut client, mut a) = duplex(100);
        let (mut b, mut server) = duplex(100);
        let copied = spawn(async move {
            copy_bidirectional(&mut a, &mut b)
                .idle(secs(60))
                .idle_a_to_b(secs(60))
                .idle_b_to_a(secs(90))
                .await
        });
        for _ in 0..1000 {
            client.write_all(b"ping").await.unwrap();
            server.read_exact(&mut [0; 4]).await.unwrap();
            server.write_all(b"pong").await.unwrap();
            client.read_exact(&mut [0; 4]).await.unwrap();
        }
        assert_eq!((metrics().timers_armed(), metrics().timers_reset()), (1, 0));
        // A byte every 40 seconds for an hour: the timer fires at most once a minute, and is armed again.
        for _ in 0..90 {
            sleep(secs(40)).await;
            client.write_all(b"ping").await.unwrap();
            server.write_all(b"pong").await.unwrap();
            server.read_exact(&mut [0; 4]).await.unwrap();
            client.read_exact(&mut [0; 4]).await.unwrap();
        }
        let armed = metrics().timers_armed() - 90;
        assert!((2..=91).contains(&armed), "armed {armed} times");
        drop((client, server));
        copied.await.unwrap().unwrap();
        assert_eq!(metrics().timers_live(), 0);
    });
}

#[test]
fn a_limit_of_no_end_and_one_of_no_length_are_legal() {
    paused().block_on(async {
        let (mut a, mut b) = (Fake { read: silent, write: sink }, Fake { read: silent, write: sink });
        let forever = copy_bidirectional(&mut a, &mut b).idle(Duration::MAX).idle_a_to_b(Duration::MAX);
        assert!(timeout(secs(1_000_000), forever).await.is_err());
        let start = Instant::now();
        let error = copy_bidirectional(&mut a, &mut b).idle(Duration::ZERO).await.unwrap_err();
        assert!(error.is_idle() && start.elapsed().is_zero());
        // Bytes that are there take precedence over a limit that is over.
        let (mut client, mut a) = duplex(100);
        let (mut b, mut server) = duplex(100);
        client.write_all(b"quick").await.unwrap();
        client.close().await.unwrap();
        server.close().await.unwrap();
        assert_eq!(copy_bidirectional(&mut a, &mut b).idle(Duration::ZERO).await.unwrap(), (5, 0));
    });
}

#[test]
fn without_a_runtime_it_copies_and_with_a_limit_it_says_what_is_missing() {
    let (mut client, mut a) = duplex(100);
    let (mut b, mut server) = duplex(100);
    let mut copy = Box::pin(copy_bidirectional(&mut a, &mut b));
    futures::executor::block_on(async {
        client.write_all(b"hello").await.unwrap();
        assert!(poll!(&mut copy).is_pending());
        server.read_exact(&mut [0; 5]).await.unwrap();
    });
    drop(copy);
    let copy = copy_bidirectional(&mut a, &mut b).idle(secs(1));
    let error = futures::executor::block_on(copy).unwrap_err();
    assert_eq!((error.direction(), error.kind(), error.is_idle()), (None, ErrorKind::Other, false));
    assert!(error.to_string().starts_with("no Mainspring runtime on this thread"), "{error}");
}

#[test]
fn a_limit_whose_runtime_is_gone_is_an_error() {
    let (_client, mut a) = duplex(100);
    let (mut b, _server) = duplex(100);
    let runtime = Runtime::new().unwrap();
    let mut copy = Box::pin(copy_bidirectional(&mut a, &mut b).idle(secs(1)));
    runtime.block_on(async { assert!(poll!(&mut copy).is_pending()) });
    drop(runtime);
    let error = futures::executor::block_on(copy).unwrap_err();
    assert!(error.to_string().contains("has shut down"), "{error}");
}

#[test]
fn a_dump_says_where_the_copy_with_the_limit_was_made() {
    paused().block_on(async {
        let (_client, mut a) = duplex(100);
        let (mut b, _server) = duplex(100);
        let (line, copy) = (line!(), copy_bidirectional(&mut a, &mut b).idle(secs(9)));
        let mut copy = pin!(copy);
        assert!(poll!(copy.as_mut()).is_pending());
        let dump = Handle::current().dump().unwrap();
        let timer = &dump.timers[0];
        assert_eq!((timer.made_at.file(), timer.made_at.line()), (file!(), line));
        assert_eq!(timer.deadline, Instant::now() + secs(9));
    });
}

#[test]
fn a_test_clock_that_passes_two_ends_at_once_ends_the_copy() {
    let clock = TestClock::new();
    let runtime = Builder::new().clock(Clock::Test(clock.clone())).build().unwrap();
    let (mut client, mut a) = duplex(100);
    let (mut b, mut server) = duplex(100);
    let copied = runtime.spawn(async move { copy_bidirectional(&mut a, &mut b).idle(secs(10)).await });
    let turns = || (0..10).for_each(|_| _ = runtime.turn(Duration::ZERO));
    turns();
    clock.advance(secs(5));
    runtime.block_on(async {
        client.write_all(b"x").await.unwrap();
        server.read_exact(&mut [0]).await.unwrap();
    });
    // The timer was armed for the first end, after ten seconds.
    clock.advance(secs(10));
    turns();
    assert!(copied.is_finished());
}
