//! On time even when the program is busy: what bounds a turn, and what goes first.
//!
//! Ground rules: results are measured in counts and shares; if a time is asserted, its bound is some hundred times the
//! expected time, so that only the wrong order breaks it, and not a machine that is busy with other things.

#![cfg(unix)]

mod common;

use common::{LONG, compute, cpu, ms, us, watchdog};
use futures::{AsyncReadExt, AsyncWriteExt, SinkExt, StreamExt, channel::mpsc};
use mainspring::io::AsyncFd;
use mainspring::runtime::{Builder, Handle, Runtime};
use mainspring::task::yield_now;
use mainspring::time::Instant;
use mainspring::{block_on, sleep, spawn};
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// A task that computes for this long between yields, and counts them.
fn busy(time: Duration) -> Rc<Cell<u64>> {
    let rounds = Rc::new(Cell::new(0));
    let counter = rounds.clone();
    drop(spawn(async move {
        loop {
            counter.set(counter.get() + 1);
            compute(time);
            yield_now().await;
        }
    }));
    rounds
}

/// The future of a task that sleeps, counts its ticks, and computes, again and again.
fn ticks(period: Duration, work: Duration) -> (Rc<Cell<u64>>, impl Future<Output = ()>) {
    let ticks = Rc::new(Cell::new(0));
    let counter = ticks.clone();
    let ticker = async move {
        loop {
            sleep(period).await;
            counter.set(counter.get() + 1);
            compute(work);
        }
    };
    (ticks, ticker)
}

/// Wakes another task through a socket, and is woken by it, again and again.
async fn talk(rounds: u64) {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let (mut ours, mut theirs) = (AsyncFd::new(ours).unwrap(), AsyncFd::new(theirs).unwrap());
    drop(spawn(async move {
        let mut byte = [0];
        while theirs.read_exact(&mut byte).await.is_ok() && theirs.write_all(&byte).await.is_ok() {}
    }));
    for _ in 0..rounds {
        ours.write_all(&[0]).await.unwrap();
        ours.read_exact(&mut [0]).await.unwrap();
    }
}

#[test]
fn tasks_that_were_aborted_end_in_turns_like_those_that_run() {
    /// When dropped, it spawns another task of this kind and aborts it.
    struct Again(Rc<Cell<bool>>);
    impl Drop for Again {
        fn drop(&mut self) {
            if self.0.get() {
                let next = Again(self.0.clone());
                let task = async move {
                    pending::<()>().await;
                    drop(next);
                };
                spawn(task).abort();
            }
        }
    }
    let _watchdog = watchdog(LONG);
    block_on(async {
        let goes_on = Rc::new(Cell::new(true));
        drop(Again(goes_on.clone()));
        // There is always an aborted task, and time goes on nevertheless.
        for _ in 0..3 {
            sleep(ms(1)).await;
        }
        goes_on.set(false);
    });
}

#[test]
fn a_sleep_that_ends_does_not_wait_for_a_thousand_tasks_that_yield() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let crowd: Vec<_> = (0..1_000).map(|_| busy(us(50))).collect();
        let all = || crowd.iter().map(|rounds| rounds.get()).sum::<u64>();
        let mut rounds = Vec::new();
        for _ in 0..20 {
            let before = all();
            sleep(ms(1)).await;
            rounds.push(all() - before);
        }
        rounds.sort_unstable();
        // Twenty fit into a millisecond. If all were served in one queue, all thousand would have to go first.
        assert!(rounds[10] <= 60, "{rounds:?}");
    });
}

/// The clock is read as often as recent polls are cheap.
#[test]
#[cfg(any(target_os = "linux", target_os = "android"))]
fn a_sleep_does_not_wait_for_dozens_of_polls_that_were_cheap_before_and_become_long() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let polls = Rc::new(Cell::new(0));
        let counter = polls.clone();
        let work = spawn(async move {
            for _ in 0..3 {
                for _ in 0..2_000 {
                    yield_now().await;
                }
                for _ in 0..60 {
                    counter.set(counter.get() + 1);
                    compute(ms(5));
                    yield_now().await;
                }
            }
        });
        let (mut before, mut most) = (0_u32, 0);
        while !work.is_finished() {
            sleep(ms(1)).await;
            let now = polls.get();
            most = most.max(now - before);
            before = now;
        }
        assert!(most <= 20, "a sleep of a millisecond waited for {most} polls of five");
    });
}

#[test]
fn a_message_from_another_thread_does_not_wait_for_a_thousand_tasks_that_yield() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let crowd: Vec<_> = (0..1_000).map(|_| busy(us(50))).collect();
        let (mut ask, mut asked) = mpsc::channel::<()>(1);
        let (mut answer, mut answers) = mpsc::channel(1);
        let thread = std::thread::spawn(move || {
            futures::executor::block_on(async {
                while asked.next().await.is_some() {
                    answer.send(()).await.unwrap();
                }
            });
        });
        let mut most = Vec::new();
        for _ in 0..50 {
            let before: u64 = crowd.iter().map(|rounds| rounds.get()).sum();
            ask.send(()).await.unwrap();
            answers.next().await.unwrap();
            let all: u64 = crowd.iter().map(|rounds| rounds.get()).sum();
            most.push(all - before);
        }
        drop(ask);
        most.sort_unstable();
        // If all were served in one queue, all thousand would have to go first.
        assert!(most[25] < 500, "{most:?}");
        thread.join().unwrap();
    });
}

#[test]
fn a_yield_lets_every_other_ready_task_go_first() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let crowd: Vec<_> = (0..1_000).map(|_| busy(Duration::ZERO)).collect();
        // New tasks are not among those that yielded, and the time that a slow machine needs for a thousand of them may be
        // their share.
        while crowd.iter().any(|rounds| rounds.get() == 0) {
            yield_now().await;
        }
        let before: Vec<_> = crowd.iter().map(|rounds| rounds.get()).collect();
        for round in 1..=10 {
            yield_now().await;
            for (rounds, before) in crowd.iter().zip(&before) {
                assert_eq!(rounds.get(), before + round);
            }
        }
    });
}

#[test]
fn a_task_that_does_nothing_but_yield_has_one_turn_each_time_around() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        const TASKS: usize = 20;
        let wakers = Rc::new(RefCell::new(Vec::new()));
        let rounds = Rc::new(Cell::new(0));
        for task in 0..TASKS {
            let (wakers, rounds) = (wakers.clone(), rounds.clone());
            drop(spawn(async move {
                let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
                wakers.borrow_mut().push(waker);
                yield_now().await;
                // From here on each task wakes the one that was polled before it, so that all are ready all the time.
                poll_fn(|_| {
                    rounds.set(rounds.get() + usize::from(task == 0));
                    compute(us(50));
                    let before: Waker = wakers.borrow()[(task + TASKS - 1) % TASKS].clone();
                    before.wake();
                    Poll::<()>::Pending
                })
                .await;
            }));
        }
        let mut turns = 0;
        while rounds.get() < 200 {
            yield_now().await;
            turns += 1;
        }
        // With half of the time the root would have a hundred thousand turns. If the machine stops for ten milliseconds it has
        // one more.
        assert!((100..1_000).contains(&turns), "{turns} turns in 200 rounds");
    });
}

#[test]
fn the_root_and_a_task_that_yield_take_turns() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let rounds = busy(Duration::ZERO);
        for n in 1..=1_000 {
            yield_now().await;
            assert_eq!(rounds.get(), n);
        }
    });
}

#[test]
fn with_one_queue_tasks_go_first_in_first_out_whoever_woke_them() {
    let _watchdog = watchdog(LONG);
    for priority in [true, false] {
        let runtime = Builder::new().wake_priority(priority).build().unwrap();
        let order = Rc::new(RefCell::new(Vec::new()));
        runtime.block_on(async {
            let wakers: Rc<RefCell<Vec<Waker>>> = Rc::default();
            let tasks = ["yields", "is woken"].map(|name| {
                let (order, wakers) = (order.clone(), wakers.clone());
                spawn(async move {
                    if name == "yields" {
                        wakers.borrow().iter().for_each(Waker::wake_by_ref);
                        yield_now().await;
                        yield_now().await;
                        wakers.borrow().iter().for_each(Waker::wake_by_ref);
                        yield_now().await;
                    } else {
                        poll_fn(|cx| {
                            wakers.borrow_mut().push(cx.waker().clone());
                            if wakers.borrow().len() > 1 { Poll::Ready(()) } else { Poll::Pending }
                        })
                        .await;
                    }
                    order.borrow_mut().push(name);
                })
            });
            for task in tasks {
                task.await.unwrap();
            }
        });
        // The task that is woken is queued before the other yields, whether there is one queue or two.
        assert_eq!(*order.borrow(), ["is woken", "yields"], "{priority}");
    }
}

/// Spawns this many tasks, each of which sleeps until one moment, which is `lead` from when all of them have been polled. Returns
/// how many of them have not ended, and that moment.
async fn burst(count: usize, lead: Duration) -> (Rc<Cell<usize>>, Instant) {
    let left = Rc::new(Cell::new(count));
    let start: Rc<RefCell<Vec<Waker>>> = Rc::default();
    let at = Rc::new(Cell::new(None));
    for _ in 0..count {
        let (left, at, start) = (left.clone(), at.clone(), start.clone());
        drop(spawn(async move {
            let at = poll_fn(|cx| match at.get() {
                Some(at) => Poll::Ready(at),
                None => {
                    start.borrow_mut().push(cx.waker().clone());
                    Poll::Pending
                }
            });
            mainspring::time::sleep_until(at.await).await;
            left.set(left.get() - 1);
        }));
    }
    while start.borrow().len() < count {
        yield_now().await;
    }
    let due = Instant::now() + lead;
    at.set(Some(due));
    start.take().into_iter().for_each(Waker::wake);
    (left, due)
}

#[test]
fn a_burst_of_timers_takes_no_more_than_its_share_from_others() {
    const BURST: usize = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
    let _watchdog = watchdog(LONG);
    block_on(async {
        // The time that it takes to register all of them is not known: so the time for it is doubled until it is enough.
        let (left, due) = 'found: {
            let mut lead = ms(1_500);
            loop {
                lead *= 2;
                let (left, due) = burst(BURST, lead).await;
                while left.get() == BURST {
                    if Handle::current().metrics().timers_armed() >= BURST as u64 {
                        break 'found (left, due);
                    }
                    yield_now().await;
                }
                while left.get() > 0 {
                    sleep(ms(1)).await;
                }
            }
        };
        let rounds = busy(us(10));
        // A task that is woken again and again, not by a timer.
        let (mut ping, mut pings) = mpsc::channel(0);
        let (mut pong, mut pongs) = mpsc::channel(0);
        let messages = Rc::new(Cell::new(0));
        let counter = messages.clone();
        drop(spawn(async move {
            while ping.send(()).await.is_ok() && pongs.next().await.is_some() {
                counter.set(counter.get() + 1);
                compute(us(10));
            }
        }));
        drop(spawn(async move { while pings.next().await.is_some() && pong.send(()).await.is_ok() {} }));
        mainspring::time::sleep_until(due).await;
        let (rounds_before, messages_before, began) = (rounds.get(), messages.get(), cpu());
        while left.get() > 0 {
            sleep(us(100)).await;
        }
        let took = cpu() - began;
        // A third of the time each, and each round takes 10 µs plus overhead.
        let fair = took.as_micros() as u64 / 10 / 3;
        let (rounds, messages) = (rounds.get() - rounds_before, messages.get() - messages_before);
        assert!(rounds >= fair / 3, "{rounds} rounds in {took:?}, a third were {fair}");
        assert!(messages >= fair / 4, "{messages} messages in {took:?}, a third were {fair}");
    });
}

#[test]
fn a_loop_of_the_shortest_sleeps_slows_nobody_down_by_more_than_half() {
    let _watchdog = watchdog(LONG);
    // How many rounds of computing a task gets within a fixed amount of this thread's time. Half as many would be
    // fair; in one queue it would be a sixth.
    let rounds = |beside: bool| {
        block_on(async {
            let rounds = busy(us(20));
            if beside {
                drop(spawn(async {
                    loop {
                        sleep(Duration::from_nanos(1)).await;
                    }
                }));
            }
            let began = cpu();
            while cpu() - began < ms(300) {
                yield_now().await;
            }
            rounds.get()
        })
    };
    let shares: Vec<_> = (0..3).map(|_| (rounds(true), rounds(false))).collect();
    let fair = |&(beside, alone): &(u64, u64)| beside * 10 >= alone * 3;
    assert!(shares.iter().any(fair), "rounds beside it and without: {shares:?}");
}

/// In each turn such tasks rest, and the look at the sockets wakes one of them.
#[test]
fn a_timer_goes_on_beside_tasks_that_wake_each_other_through_a_socket() {
    const ROUNDS: u64 = 20_000;
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (ticks, ticker) = ticks(us(10), us(50));
        drop(spawn(ticker));
        talk(ROUNDS).await;
        // A round takes some microseconds of the tasks' time, so a hundredth of the rounds is little. Once it had used two
        // milliseconds more than the others, which is forty ticks, the timer had to wait for as long as they went on.
        assert!(ticks.get() >= ROUNDS / 100, "{} ticks in {ROUNDS} rounds", ticks.get());
    });
}

/// There are several timers, so that one of their tasks is ready whenever those have sent something to each other.
#[test]
fn tasks_that_wake_each_other_through_a_socket_have_their_share_beside_timers_that_are_too_much() {
    const ROUNDS: u64 = 1_000;
    let _watchdog = watchdog(LONG);
    for way in ["one block_on", "many block_ons", "turns"] {
        let runtime = Runtime::new().unwrap();
        let mut rounds = runtime.spawn(talk(ROUNDS));
        let timers: Vec<_> = (0..4)
            .map(|_| {
                let (ticks, ticker) = ticks(us(10), us(500));
                drop(runtime.spawn(ticker));
                ticks
            })
            .collect();
        while !rounds.is_finished() {
            match way {
                "one block_on" => runtime.block_on(&mut rounds).unwrap(),
                "many block_ons" => runtime.block_on(yield_now()),
                _ => _ = runtime.turn(ms(1)),
            }
        }
        // A round takes some microseconds. Each half of it used to wait until the timers had had two milliseconds.
        let ticks: u64 = timers.iter().map(|ticks| ticks.get()).sum();
        assert!(ticks <= 2 * ROUNDS, "{ticks} ticks in {ROUNDS} rounds, in {way}");
    }
}

/// It yields now and then only, so its lane has had less than its share.
#[test]
fn a_task_that_yields_once_does_not_wait_for_tasks_that_wake_each_other() {
    const YIELDS: u64 = 200;
    let _watchdog = watchdog(LONG);
    let rounds = block_on(async {
        let rounds = Rc::new(Cell::new(0));
        let (there, mut received) = mpsc::unbounded();
        let (back, mut returned) = mpsc::unbounded();
        there.unbounded_send(()).unwrap();
        spawn(
            async move { while received.next().await.is_some_and(|()| back.unbounded_send(()).is_ok()) {} },
        );
        let count = rounds.clone();
        spawn(async move {
            while returned.next().await.is_some_and(|()| there.unbounded_send(()).is_ok()) {
                count.set(count.get() + 1);
            }
        });
        for _ in 0..YIELDS {
            spawn(yield_now()).await.unwrap();
            yield_now().await;
        }
        rounds.get()
    });
    // In two milliseconds there are more than a thousand.
    assert!(rounds < 100 * YIELDS, "{rounds} rounds during {YIELDS} yields");
}

/// The last poll of each call computes, and nothing comes after it in that call.
#[test]
fn a_timer_goes_on_beside_a_program_that_calls_block_on_again_and_again() {
    const CALLS: u64 = 500;
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let (ticks, ticker) = ticks(us(10), us(500));
    drop(runtime.spawn(ticker));
    for _ in 0..CALLS {
        runtime.block_on(async {
            yield_now().await;
            compute(ms(1));
        });
    }
    // A call takes twice as long as a tick, so each of them could have one. Once the timer had used two milliseconds more than
    // what was charged to the calls, it had to wait for hundreds of them.
    assert!(ticks.get() >= CALLS / 4, "{} ticks in {CALLS} calls", ticks.get());
}

/// Whenever the program comes back, a byte waits in a socket. So those tasks are seldom idle, although the thread mostly is.
#[test]
fn a_timer_does_not_wait_while_the_program_is_away_from_tasks_that_rested() {
    const VISITS: u64 = 100;
    let _watchdog = watchdog(LONG);
    for way in ["block_ons", "turns"] {
        let runtime = Runtime::new().unwrap();
        drop(runtime.spawn(talk(u64::MAX)));
        let (ticks, ticker) = ticks(ms(1), ms(5));
        drop(runtime.spawn(ticker));
        for _ in 0..VISITS {
            match way {
                "block_ons" => runtime.block_on(async {}),
                _ => while runtime.turn(ms(0)) {},
            }
            std::thread::sleep(ms(5));
        }
        // After each tick it had to wait until the others had used three milliseconds, some microseconds a visit.
        assert!(ticks.get() >= VISITS / 8, "{} ticks in {VISITS} visits, in {way}", ticks.get());
    }
}

#[test]
fn tasks_that_timers_woke_go_in_the_order_of_their_deadlines() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let _busy = busy(us(20));
        let order = Rc::new(RefCell::new(Vec::new()));
        let began = mainspring::time::Instant::now();
        for n in 0..500_u64 {
            let (order, at) = (order.clone(), us(1 + n * 7 % 500));
            drop(spawn(async move {
                mainspring::time::sleep_until(began + ms(500) + at).await;
                order.borrow_mut().push(at);
            }));
        }
        sleep(ms(550)).await;
        assert_eq!(*order.borrow(), (1..=500).map(us).collect::<Vec<_>>());
    });
}

#[test]
fn a_timer_by_a_test_clock_goes_on_beside_a_task_that_is_always_ready() {
    use mainspring::time::{Clock, TestClock};
    const STEPS: u64 = 20_000;
    let _watchdog = watchdog(LONG);
    let clock = TestClock::new();
    let runtime = Builder::new().clock(Clock::Test(clock.clone())).event_interval(2).build().unwrap();
    let (ticks, ticker) = ticks(ms(1), Duration::ZERO);
    drop(runtime.spawn(ticker));
    runtime.block_on(async {
        for _ in 0..STEPS {
            clock.advance(ms(1));
            yield_now().await;
        }
    });
    // One in each turn, which has two polls. Once the timer's lane was ahead by two thousand polls, it was so for ever.
    assert!(ticks.get() >= STEPS / 4, "{} ticks in {STEPS} steps", ticks.get());
}
