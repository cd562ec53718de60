//! Other threads: wakes, spawns, aborts and joins that race the owner. Most of these are stress tests.

use super::super::{Executor, JoinHandle};
use super::{
    HomeCounts, Homed, OnDrop, block_on, drive, executor, park, parking_executor, rounds, run, settle,
};
use crate::coop::yield_now;
use mainspring_driver::Unpark;
use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::panic::Location;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread::{self, Thread};

#[test]
fn a_handle_is_awaited_on_another_thread() {
    let executor = parking_executor();
    // The future is not Send; its output is, and only the output is sent.
    let local = Rc::new(20);
    let handle = executor.spawn(async move {
        crate::coop::yield_now().await;
        *local + 1
    });
    let done = Arc::new(AtomicBool::new(false));
    let (flag, owner) = (done.clone(), thread::current());
    let waiter = thread::spawn(move || {
        let value = block_on(handle);
        flag.store(true, Ordering::SeqCst);
        owner.unpark();
        value
    });
    drive(&executor, || done.load(Ordering::SeqCst));
    assert_eq!(waiter.join().unwrap().unwrap(), 21);
}

#[test]
fn a_task_that_runs_is_told_with_the_line_or_the_number_of_another() {
    let executor = parking_executor();
    let over = Arc::new(AtomicBool::new(false));
    let spin = |over: Arc<AtomicBool>| async move {
        while !over.load(Ordering::SeqCst) {
            crate::coop::yield_now().await;
        }
    };
    // One task is spawned at each line, so that the number tells the line.
    let handles = [
        executor.spawn(spin(over.clone())),
        executor.spawn(spin(over.clone())),
        executor.spawn(spin(over.clone())),
    ];
    let first = executor.task_list().tasks[0];
    assert_eq!(first.id, handles[0].id());
    let (remote, owner, flag) = (executor.remote().clone(), thread::current(), over.clone());
    let watcher = thread::spawn(move || {
        let _ends = OnDrop(move || {
            flag.store(true, Ordering::SeqCst);
            owner.unpark();
        });
        let (mut seen, mut looks) = ([0; 3], 0);
        // All looks may be over before the owner runs at all.
        while (looks < 1_000_000 || seen == [0; 3]) && seen.iter().any(|&seen| seen < rounds(2_000)) {
            looks += 1;
            let Some(poll) = remote.polling().get() else { continue };
            let n = poll.id.expect("no root was polled").number() as u32;
            assert_eq!((poll.origin.line(), poll.origin.file()), (first.origin.line() + n, file!()));
            seen[n as usize] += 1;
        }
        seen
    });
    drive(&executor, || handles.iter().all(JoinHandle::is_finished));
    assert!(watcher.join().unwrap().iter().sum::<usize>() > 0, "nothing was seen to run");
    assert_eq!(executor.remote().polling().get(), None);
}

#[test]
fn remote_spawns_run_on_the_owner_and_give_their_outputs_back() {
    let executor = parking_executor();
    let home = thread::current().id();
    let (threads, each) = (3, rounds(2_000));
    let left = Arc::new(AtomicUsize::new(threads));
    let spawners: Vec<_> = (0..threads)
        .map(|_| {
            let (remote, left, owner) = (executor.remote().clone(), left.clone(), thread::current());
            thread::spawn(move || {
                let handles: Vec<_> =
                    (0..each).map(|n| remote.spawn(async move { (n, thread::current().id()) })).collect();
                for (n, handle) in handles.into_iter().enumerate() {
                    assert_eq!(block_on(handle).unwrap(), (n, home));
                }
                left.fetch_sub(1, Ordering::SeqCst);
                owner.unpark();
            })
        })
        .collect();
    drive(&executor, || left.load(Ordering::SeqCst) == 0);
    spawners.into_iter().for_each(|spawner| spawner.join().unwrap());
    assert_eq!(executor.polls(), (threads * each) as u64);
    assert_eq!(executor.alive(), 0);
}

#[test]
fn an_abort_from_another_thread_drops_the_future_at_home() {
    let executor = parking_executor();
    let counts = Arc::new(HomeCounts::default());
    let each = rounds(2_000);
    let (sender, receiver) = mpsc::channel::<JoinHandle<()>>();
    let finished = Arc::new(AtomicUsize::new(0));
    let (counter, owner) = (finished.clone(), thread::current());
    let aborter = thread::spawn(move || {
        for handle in receiver {
            handle.abort();
            let error = block_on(handle).unwrap_err();
            assert!(error.is_cancelled());
            counter.fetch_add(1, Ordering::SeqCst);
            owner.unpark();
        }
    });
    let _entered = executor.enter();
    for n in 0..each {
        let homed = Homed::new(&counts);
        let handle = executor.spawn(async move {
            let _homed = homed;
            pending::<()>().await;
        });
        sender.send(handle).unwrap();
        if n % 2 == 0 {
            run(&executor, 4);
        }
    }
    drop(sender);
    drive(&executor, || finished.load(Ordering::SeqCst) == each);
    aborter.join().unwrap();
    assert_eq!(counts.get(), (each, 0));
    assert_eq!(executor.alive(), 0);
}

#[test]
fn wakes_that_race_the_pop_strand_no_task() {
    // Two threads repeatedly wake the same task while the owner polls it. After each round's wakes there
    // must be a poll that sees both of the round's writes. (compio #948)
    let executor = parking_executor();
    let rounds = rounds(4_000);
    let slot: Arc<Mutex<Option<Waker>>> = Arc::default();
    let written: Arc<[AtomicUsize; 2]> = Arc::default();
    let barrier = Arc::new(Barrier::new(2));
    let (seen, data, keep) = (Arc::new(AtomicUsize::new(0)), written.clone(), slot.clone());
    let low = seen.clone();
    drop(executor.spawn(poll_fn(move |cx| {
        keep.lock().unwrap().get_or_insert_with(|| cx.waker().clone());
        let least = data.iter().map(|n| n.load(Ordering::Relaxed)).min().unwrap();
        low.store(least, Ordering::Release);
        Poll::<()>::Pending
    })));
    {
        let _entered = executor.enter();
        run(&executor, 1);
    }
    let waker = slot.lock().unwrap().clone().unwrap();
    let threads: Vec<_> = (0..2)
        .map(|me| {
            let (waker, written, barrier) = (waker.clone(), written.clone(), barrier.clone());
            let seen = seen.clone();
            thread::spawn(move || {
                for round in 1..=rounds {
                    written[me].store(round, Ordering::Relaxed);
                    waker.wake_by_ref();
                    // Wait for the poll: no other wake comes for the task in this round.
                    while seen.load(Ordering::Acquire) < round {
                        thread::yield_now();
                    }
                    barrier.wait();
                }
            })
        })
        .collect();
    drive(&executor, || seen.load(Ordering::Acquire) == rounds);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Unparks only an owner that says it parks: the protocol of `remote.rs`, as a runtime uses it.
struct Sparing {
    parked: AtomicBool,
    owner: Thread,
}

impl Unpark for Sparing {
    fn unpark(&self) {
        if self.parked.load(Ordering::SeqCst) && self.parked.swap(false, Ordering::SeqCst) {
            self.owner.unpark();
        }
    }
}

#[test]
fn an_owner_that_looks_before_it_parks_misses_no_wake() {
    let sparing = Arc::new(Sparing { parked: AtomicBool::new(false), owner: thread::current() });
    let executor = Executor::new(sparing.clone());
    let rounds = rounds(6_000);
    let polls = Rc::new(Cell::new(0));
    let slot: Arc<Mutex<Option<Waker>>> = Arc::default();
    let seen = Arc::new(AtomicUsize::new(0));
    let (counter, keep) = (seen.clone(), slot.clone());
    drop(executor.spawn(poll_fn(move |cx| {
        keep.lock().unwrap().get_or_insert_with(|| cx.waker().clone());
        counter.fetch_add(1, Ordering::SeqCst);
        Poll::<()>::Pending
    })));
    let _entered = executor.enter();
    run(&executor, 1);
    let waker = slot.lock().unwrap().clone().unwrap();
    let progress = seen.clone();
    let thread = thread::spawn(move || {
        for round in 1..=rounds {
            waker.wake_by_ref();
            while progress.load(Ordering::SeqCst) <= round {
                thread::yield_now();
            }
        }
    });
    while seen.load(Ordering::SeqCst) <= rounds {
        polls.set(polls.get() + run(&executor, 64));
        sparing.parked.store(true, Ordering::SeqCst);
        if executor.has_ready() || seen.load(Ordering::SeqCst) > rounds {
            sparing.parked.store(false, Ordering::SeqCst);
            continue;
        }
        park();
        sparing.parked.store(false, Ordering::SeqCst);
    }
    thread.join().unwrap();
    assert_eq!(polls.get(), rounds);
}

#[test]
fn wakers_that_fire_while_the_executor_is_dropped_touch_nothing_freed() {
    // The waking thread now has the last reference to the task, the `Remote` and the notifier. An access after
    // the publication shows here under Miri and the sanitizers. (async-executor #163)
    for round in 0..rounds(1_500) {
        let counts = Arc::new(HomeCounts::default());
        let executor = parking_executor();
        let slot: Arc<Mutex<Vec<Waker>>> = Arc::default();
        for n in 0..4 {
            let (homed, slot) = (Homed::new(&counts), slot.clone());
            drop(executor.spawn(async move {
                let output = homed;
                let mut polls = 0;
                poll_fn(|cx| {
                    polls += 1;
                    slot.lock().unwrap().push(cx.waker().clone());
                    // Half of the tasks complete when they are woken, while the waking thread is still running.
                    if n % 2 == 0 && polls == 2 { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
                output
            }));
        }
        let entered = executor.enter();
        run(&executor, 4);
        let wakers = std::mem::take(&mut *slot.lock().unwrap());
        let barrier = Arc::new(Barrier::new(3));
        let (first, second) = (wakers.clone(), wakers);
        let threads = [first, second].map(|wakers| {
            let barrier = barrier.clone();
            thread::spawn(move || {
                barrier.wait();
                for waker in wakers {
                    waker.wake_by_ref();
                    waker.wake();
                }
            })
        });
        barrier.wait();
        for _ in 0..round % 8 {
            run(&executor, 2);
        }
        drop(executor);
        drop(entered);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        slot.lock().unwrap().clear();
        assert_eq!(counts.get(), (4, 0));
    }
}

#[test]
fn spawns_that_race_the_shutdown_drop_every_future_once() {
    for _ in 0..rounds(500) {
        let executor = parking_executor();
        let dropped = Arc::new(AtomicUsize::new(0));
        let barrier = Arc::new(Barrier::new(3));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (remote, dropped) = (executor.remote().clone(), dropped.clone());
                let barrier = barrier.clone();
                thread::spawn(move || {
                    barrier.wait();
                    for _ in 0..20 {
                        let counter = dropped.clone();
                        let guard = OnDrop(move || {
                            counter.fetch_add(1, Ordering::SeqCst);
                        });
                        let handle = remote.spawn(async move {
                            let _guard = guard;
                            pending::<()>().await;
                        });
                        // Whichever thread drops the future, the handle gets a result.
                        let error = block_on(handle).unwrap_err();
                        assert!(error.is_cancelled());
                        assert!(remote.is_closed());
                    }
                })
            })
            .collect();
        barrier.wait();
        {
            let _entered = executor.enter();
            run(&executor, 2);
        }
        drop(executor);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(dropped.load(Ordering::SeqCst), 40);
    }
}

#[test]
fn a_future_that_is_not_send_keeps_to_its_thread_whatever_races_it() {
    for _ in 0..rounds(300) {
        let executor = parking_executor();
        let (remote, home) = (executor.remote().clone(), thread::current().id());
        let barrier = Arc::new(Barrier::new(2));
        let started = barrier.clone();
        let spawner = thread::spawn(move || {
            started.wait();
            for n in 0..20 {
                let build = move || {
                    let at_home = Rc::new(move || assert_eq!(thread::current().id(), home));
                    let dropped = at_home.clone();
                    let guard = OnDrop(move || dropped());
                    async move {
                        let _guard = guard;
                        loop {
                            at_home();
                            yield_now().await;
                        }
                    }
                };
                let handle = remote.spawn_built(build, remote.next(Location::caller()));
                if n % 2 == 0 {
                    handle.abort();
                }
                let result: Result<(), _> = block_on(handle);
                assert!(result.unwrap_err().is_cancelled());
            }
        });
        barrier.wait();
        {
            let _entered = executor.enter();
            run(&executor, 30);
        }
        drop(executor);
        spawner.join().unwrap();
    }
}

#[test]
fn an_output_whose_handle_is_dropped_as_the_task_completes_is_dropped_once() {
    let executor = parking_executor();
    let rounds = rounds(5_000);
    let dropped = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = mpsc::channel();
    let dropper = thread::spawn(move || receiver.into_iter().for_each(drop));
    let _entered = executor.enter();
    for _ in 0..rounds {
        let counter = dropped.clone();
        let output = OnDrop(move || {
            counter.fetch_add(1, Ordering::SeqCst);
        });
        sender.send(executor.spawn(async move { output })).unwrap();
        run(&executor, 1);
    }
    drop(sender);
    dropper.join().unwrap();
    assert_eq!(dropped.load(Ordering::SeqCst), rounds);
}

#[test]
fn references_are_counted_however_many_are_made_and_dropped_on_either_side() {
    // More than twice the number that the owner counts without an atomic step.
    const MANY: usize = 700;
    let clones = |waker: &Waker| -> Vec<Waker> { (0..MANY).map(|_| waker.clone()).collect() };
    for way in 0..8 {
        let [made_here, dropped_here, dropped_late] = [1, 2, 4].map(|bit| way & bit != 0);
        let (executor, bell) = executor();
        let entered = executor.enter();
        let left = Rc::new(Cell::new(None));
        let leave = left.clone();
        let handle = executor.spawn(poll_fn(move |cx| {
            leave.set(Some(cx.waker().clone()));
            Poll::<()>::Pending
        }));
        settle(&executor);
        let waker = left.take().expect("the task was polled");
        let mut many = if made_here {
            clones(&waker)
        } else {
            thread::scope(|s| s.spawn(|| clones(&waker)).join().unwrap())
        };
        let complete = |handle: JoinHandle<()>| {
            handle.abort();
            settle(&executor);
            drop(handle);
        };
        let drop_them = |many: Vec<Waker>| {
            if dropped_here { drop(many) } else { thread::spawn(|| drop(many)).join().unwrap() }
        };
        let rest = many.split_off(MANY / 2);
        drop_them(many);
        if dropped_late {
            complete(handle);
            drop_them(rest);
        } else {
            drop_them(rest);
            complete(handle);
        }
        assert_ne!(Arc::strong_count(&bell), 1, "way {way}: the task was freed before its last reference");
        drop((entered, executor));
        assert_ne!(Arc::strong_count(&bell), 1, "way {way}: the task was freed before its last reference");
        drop(waker);
        assert_eq!(Arc::strong_count(&bell), 1, "way {way}: the task was not freed");
    }
}
