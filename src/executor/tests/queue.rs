//! Which tasks are polled, how often, in which order, and which owner is unparked.

use super::super::local::{Local, WINDOW_BITS};
use super::super::{Executor, Lane, spawn_local};
use super::{BURST, Bell, OnDrop, assert_given_back, executor, idle, result, run, settle};
use crate::clock::Waited;
use crate::coop::{self, unconstrained, yield_now};
use mainspring_driver::Nanos;
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;

#[test]
fn a_thousand_wakes_are_one_poll() {
    let (executor, bell) = executor();
    let (slot, polls) = (Arc::default(), Rc::default());
    let _entered = executor.enter();
    let _handle = executor.spawn(idle(&slot, &polls));
    assert_eq!(settle(&executor), 1);
    let waker = slot.lock().unwrap().take().unwrap();
    for _ in 0..500 {
        waker.wake_by_ref();
        let owned = waker.clone();
        owned.wake();
    }
    assert_eq!(settle(&executor), 1);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..250).for_each(|_| waker.wake_by_ref()));
        }
    });
    assert_eq!(settle(&executor), 1);
    assert_eq!(polls.get(), 3);
    assert_eq!(executor.polls(), 3);
    // Of the thousand wakes from other threads, only the one that made the task ready has unparked the owner.
    assert_eq!(bell.rings(), 1);
}

/// A task that yields shares time with those that are woken, and goes before them if they have had much more. One that waits for others
/// does not, in whichever lane these are.
#[test]
fn a_task_whose_timeout_is_late_goes_on_when_it_is_released() {
    for single in [false, true] {
        let (executor, _) = executor();
        if single {
            executor.make_single_lane();
        }
        let _entered = executor.enter();
        executor.begin_charging();
        let order = Rc::new(RefCell::new(vec![]));
        let seen = order.clone();
        // The first poll yields, the second waits.
        let mut lates = vec![true, false];
        let first = executor.spawn(poll_fn(move |cx| {
            seen.borrow_mut().push("first");
            match lates.pop() {
                None => return Poll::Ready(()),
                Some(true) => assert!(coop::waits_for_others(Nanos::new(2), cx.waker())),
                Some(false) => cx.waker().wake_by_ref(),
            }
            Poll::Pending
        }));
        let seen = order.clone();
        let second = executor.spawn(async move { seen.borrow_mut().push("second") });
        coop::set_seen(Nanos::new(1), Nanos::new(1_000_000_000));
        assert_eq!(run(&executor, 1), 1);
        executor.charge(300_000_000);
        assert_eq!(run(&executor, 10), 2);
        assert_eq!(
            order.take(),
            if single { ["first", "second", "first"] } else { ["first", "first", "second"] }
        );
        assert!(executor.has_ready() && run(&executor, 10) == 0, "it waits");
        assert!(!coop::take_waits(), "it is for one wake");
        executor.release_late();
        assert_eq!(settle(&executor), 1);
        assert_eq!(order.take(), ["first"]);
        coop::set_seen(Nanos::ZERO, Nanos::ZERO);
        drop((first, second));
    }
}

#[test]
fn a_wake_during_the_poll_is_exactly_one_more_poll() {
    let (executor, _) = executor();
    for foreign in [false, true] {
        let polls = Rc::new(Cell::new(0));
        let seen = polls.clone();
        let _entered = executor.enter();
        let _handle = executor.spawn(poll_fn(move |cx| {
            seen.set(seen.get() + 1);
            if seen.get() == 1 {
                let waker = cx.waker();
                let wake = || (0..10).for_each(|_| waker.wake_by_ref());
                if foreign {
                    thread::scope(|scope| {
                        scope.spawn(wake);
                    });
                } else {
                    wake();
                }
            }
            Poll::<()>::Pending
        }));
        assert_eq!(run(&executor, 1), 1);
        assert!(executor.has_ready());
        assert_eq!(settle(&executor), 1);
        assert_eq!(polls.get(), 2);
    }
}

#[test]
fn a_wake_after_completion_polls_nothing() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    let kept = Rc::new(RefCell::new(None));
    let slot = kept.clone();
    let mut handle = executor.spawn(poll_fn(move |cx| {
        // The task is also woken from within the last poll, so that it completes while it is queued.
        cx.waker().wake_by_ref();
        *slot.borrow_mut() = Some(cx.waker().clone());
        Poll::Ready(7)
    }));
    assert_eq!(settle(&executor), 1);
    let waker = kept.take().unwrap();
    waker.wake_by_ref();
    waker.wake();
    assert!(!executor.has_ready());
    assert_eq!(result(&mut handle).unwrap(), 7);
}

type Slot = Arc<Mutex<Option<Waker>>>;

/// Leaves its waker in its own slot, and wakes the other's task and itself at every poll.
fn waking(mine: &Slot, other: &Slot, polls: &Rc<Cell<usize>>) -> impl Future<Output = ()> + use<> {
    let (mut inner, other) = (Box::pin(idle(mine, polls)), other.clone());
    poll_fn(move |cx| {
        let _ = inner.as_mut().poll(cx);
        if let Some(other) = &*other.lock().unwrap() {
            other.wake_by_ref();
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

#[test]
fn two_ping_pong_tasks_do_not_starve_a_third() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    let (ping, pong): (Slot, Slot) = (Arc::default(), Arc::default());
    let (pings, pongs, thirds) = (Rc::default(), Rc::default(), Rc::new(Cell::new(0)));
    let _a = executor.spawn(waking(&ping, &pong, &pings));
    let _b = executor.spawn(waking(&pong, &ping, &pongs));
    let counter = thirds.clone();
    let _c = executor.spawn(async move {
        loop {
            counter.set(counter.get() + 1);
            yield_now().await;
        }
    });
    // A turn is bounded, whatever the tasks wake.
    assert_eq!(run(&executor, 61), 61);
    assert_eq!(run(&executor, 239), 239);
    assert_eq!((pings.get(), pongs.get(), thirds.get()), (100, 100, 100));
}

#[test]
fn tasks_run_first_in_first_out_and_a_yield_goes_to_the_back() {
    for single in [false, true] {
        let (executor, _) = executor();
        if single {
            executor.make_single_lane();
        }
        let _entered = executor.enter();
        let trace = Rc::new(RefCell::new(Vec::new()));
        for name in 0..3 {
            let trace = trace.clone();
            drop(executor.spawn(async move {
                trace.borrow_mut().push(name);
                yield_now().await;
                trace.borrow_mut().push(name + 10);
                let inner = trace.clone();
                drop(spawn_local(async move { inner.borrow_mut().push(name + 20) }).ok());
            }));
        }
        assert_eq!(settle(&executor), 9);
        // With lanes, a new task goes before tasks that yielded.
        let expected =
            if single { [0, 1, 2, 10, 11, 12, 20, 21, 22] } else { [0, 1, 2, 10, 20, 11, 21, 12, 22] };
        assert_eq!(*trace.borrow(), expected);
        assert_eq!(executor.alive(), 0);
    }
}

#[test]
fn the_limit_bounds_a_run() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    for _ in 0..10 {
        drop(executor.spawn(async {}));
    }
    assert_eq!(run(&executor, 0), 0);
    assert_eq!(run(&executor, 4), 4);
    assert_eq!(executor.alive(), 6);
    assert_eq!(run(&executor, 100), 6);
    assert!(!executor.has_ready());
}

/// That a run may be long, because recent polls were cheap, says nothing about polls that become long.
#[test]
#[cfg(any(target_os = "linux", target_os = "android"))]
fn a_run_whose_polls_become_long_ends_soon_unless_polls_are_only_counted() {
    use super::super::{End, RunReport};
    let (executor, _) = executor();
    let _entered = executor.enter();
    let long = poll_fn(|cx| {
        thread::sleep(std::time::Duration::from_millis(5));
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    executor.spawn(long).detach();
    let ran = || executor.run(24, || ControlFlow::Continue(()));
    executor.begin_charging();
    // The first tick may have come long ago.
    ran();
    assert_eq!(ran(), RunReport { taken: 8, end: End::Clock });
    executor.begin_counting();
    assert_eq!(ran(), RunReport { taken: 24, end: End::Limit });
}

#[test]
fn the_entered_thread_unparks_nobody_and_others_do() {
    let (first, first_bell) = executor();
    let (second, second_bell) = executor();
    let (slot, polls) = (Arc::default(), Rc::default());
    drop(first.spawn(idle(&slot, &polls)));
    let outer = first.enter();
    settle(&first);
    let waker = slot.lock().unwrap().clone().unwrap();
    waker.wake_by_ref();
    assert_eq!((settle(&first), first_bell.rings()), (1, 0));
    {
        // Inside another executor, the wake goes through the inbox, and the bell of the right executor is rung.
        let _inner = second.enter();
        waker.wake_by_ref();
        assert_eq!((first_bell.rings(), second_bell.rings()), (1, 0));
        assert!(first.has_ready());
        assert!(!second.has_ready());
    }
    assert_eq!(settle(&first), 1);
    // The outer executor is entered again.
    waker.wake_by_ref();
    assert_eq!((settle(&first), first_bell.rings()), (1, 1));
    drop(outer);
    waker.wake_by_ref();
    assert_eq!((settle(&first), first_bell.rings()), (1, 2));
    assert_eq!(polls.get(), 5);
}

#[test]
fn spawning_without_an_executor_hands_the_future_back() {
    let kept = Rc::new(());
    let moved = kept.clone();
    let future = spawn_local(async move { drop(moved) }).unwrap_err();
    assert_eq!(Rc::strong_count(&kept), 2);
    let (executor, _) = executor();
    let _entered = executor.enter();
    assert!(spawn_local(future).is_ok());
    settle(&executor);
    assert_eq!(Rc::strong_count(&kept), 1);
}

#[test]
fn tasks_stay_in_order_while_counters_wrap_around() {
    let local = Local::counting_from(Arc::new(Bell::default()), u64::MAX - 3);
    let executor = Executor { local, waited: Waited::default() };
    let _entered = executor.enter();
    let trace = Rc::new(RefCell::new(Vec::new()));
    for number in 0..8 {
        let dropped = super::OnDrop({
            let trace = trace.clone();
            move || trace.borrow_mut().push(number)
        });
        drop(executor.spawn(async move {
            let _dropped = dropped;
            pending::<()>().await;
        }));
    }
    assert_eq!(run(&executor, 8), 8);
    assert_eq!(executor.polls(), 4);
    executor.shutdown();
    assert_eq!(*trace.borrow(), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn the_table_of_bursts_that_recur_stays_although_no_task_lives_between_them() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    let mut handles = Vec::new();
    for window in 1..=4 {
        // A few at a time: the queue is short.
        for _ in 0..50 {
            handles.extend((0..20).map(|_| executor.spawn(pending::<()>())));
            settle(&executor);
        }
        handles.chunks(20).for_each(|some| {
            some.iter().for_each(|handle| handle.abort());
            settle(&executor);
        });
        handles.clear();
        executor.trim(Nanos::new(window << WINDOW_BITS));
        assert!(executor.local.capacity() >= 1_000, "{}", executor.local.capacity());
    }
    executor.trim(Nanos::new(5 << WINDOW_BITS));
    assert!(executor.local.capacity() < 1_000, "{}", executor.local.capacity());
}

#[test]
fn the_thread_wakes_up_for_a_table_that_no_task_needs_until_it_is_freed() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    let mut handles = Vec::new();
    // A few at a time, so that the queue is short, and of more than 512 bytes, so that no memory of the tasks is kept.
    for _ in 0..170 {
        handles.extend((0..100).map(|n| {
            let large = [n; 200];
            executor.spawn(async move {
                pending::<()>().await;
                _ = std::hint::black_box(large);
            })
        }));
        settle(&executor);
    }
    assert!(!executor.has_spare());
    handles.chunks(100).for_each(|some| {
        some.iter().for_each(|handle| handle.abort());
        settle(&executor);
    });
    assert!(executor.has_spare());
    (1..=2).for_each(|window| _ = executor.trim(Nanos::new(window << WINDOW_BITS)));
    assert!(!executor.has_spare());
}

#[test]
fn a_bursts_memory_is_given_back_and_the_tasks_stay() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    for _ in 0..BURST {
        drop(executor.spawn(async {}));
    }
    settle(&executor);
    assert_given_back(&executor);
    let mut handle = executor.spawn(async { 1 });
    settle(&executor);
    assert_eq!(result(&mut handle).unwrap(), 1);
}

#[test]
fn who_a_timer_woke_goes_first_and_who_yielded_last() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    let trace = Rc::new(RefCell::new(Vec::new()));
    let task = |name: &'static str, yields: bool| {
        let (slot, trace) = (Slot::default(), trace.clone());
        let leave = slot.clone();
        let _handle = executor.spawn(async move {
            poll_fn(|cx| match leave.lock().unwrap().replace(cx.waker().clone()) {
                None => Poll::Pending,
                Some(_) => Poll::Ready(()),
            })
            .await;
            if yields {
                yield_now().await;
            }
            trace.borrow_mut().push(name);
        });
        slot
    };
    let slots =
        [task("yields", true), task("woken", false), task("first due", false), task("second due", false)];
    settle(&executor);
    let [yields, woken, first, second] = slots.map(|slot| slot.lock().unwrap().clone().unwrap());
    yields.wake_by_ref();
    run(&executor, 1);
    woken.wake_by_ref();
    {
        let _waking = executor.waking(Lane::Timer);
        first.wake_by_ref();
        second.wake_by_ref();
    }
    settle(&executor);
    assert_eq!(*trace.borrow(), ["first due", "second due", "woken", "yields"]);
}

#[test]
fn a_poll_has_a_full_budget_and_a_join_handle_spends_it() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    let many = 2 * coop::LIMIT as usize + 1;
    for free in [false, true] {
        let handles: Vec<_> = (0..many).map(|n| executor.spawn(async move { n })).collect();
        settle(&executor);
        let before = executor.polls();
        let collect = async move {
            for (n, handle) in handles.into_iter().enumerate() {
                assert_eq!(handle.await.unwrap(), n);
            }
        };
        let mut sum = if free { executor.spawn(unconstrained(collect)) } else { executor.spawn(collect) };
        settle(&executor);
        result(&mut sum).unwrap();
        assert_eq!(executor.polls() - before, if free { 1 } else { 3 });
    }
}

#[test]
fn writes_before_an_ignored_wake_are_seen_by_the_poll() {
    // Two threads write and wake while the owner polls. The wake that finds the task scheduled queues
    // nothing, but must still publish its thread's write to the next poll. There are only plain loads, and no
    // poll after the threads have been joined unless a wake is left over: only the wakes order the writes.
    // The processor this runs on may be too strongly ordered to show a mistake; Miri is not. (tokio #7622)
    let (executor, _) = executor();
    let _entered = executor.enter();
    let (slot, polls) = (Slot::default(), Rc::default());
    let written: Arc<[AtomicUsize; 2]> = Arc::default();
    let seen = Rc::new(Cell::new([0; 2]));
    let (mut inner, data, last) = (Box::pin(idle(&slot, &polls)), written.clone(), seen.clone());
    drop(executor.spawn(poll_fn(move |cx| {
        last.set([data[0].load(Ordering::Relaxed), data[1].load(Ordering::Relaxed)]);
        inner.as_mut().poll(cx)
    })));
    settle(&executor);
    let waker = slot.lock().unwrap().clone().unwrap();
    for round in 1..=if cfg!(miri) { 100 } else { 2_000 } {
        thread::scope(|scope| {
            for cell in written.iter() {
                let waker = &waker;
                scope.spawn(move || {
                    cell.store(round, Ordering::Relaxed);
                    waker.wake_by_ref();
                });
            }
            for _ in 0..50 {
                run(&executor, 1);
                thread::yield_now();
            }
        });
        settle(&executor);
        assert_eq!(seen.get(), [round; 2]);
    }
}

/// ngx-rust #294, tokio #1972: a wake polls or drops a task immediately, under any lock that its caller holds.
#[test]
fn a_wake_under_a_users_lock_polls_and_drops_nothing() {
    let (executor, _bell) = executor();
    let lock = Rc::new(Mutex::new(()));
    for entered in [true, false] {
        for completes in [true, false] {
            let slot = Arc::new(Mutex::new(None));
            let (inside, theirs, leave) = (lock.clone(), lock.clone(), slot.clone());
            let on_drop = OnDrop(move || drop(theirs.try_lock().expect("dropped under the user's lock")));
            let handle = executor.spawn(poll_fn(move |cx| {
                let _ = &on_drop;
                drop(inside.try_lock().expect("polled under the user's lock"));
                if leave.lock().unwrap().replace(cx.waker().clone()).is_some() && completes {
                    return Poll::Ready(());
                }
                Poll::Pending
            }));
            settle(&executor);
            let waker = slot.lock().unwrap().clone().unwrap();
            {
                let _entered = entered.then(|| executor.enter());
                let _held = lock.lock().unwrap();
                waker.wake_by_ref();
                if !completes {
                    handle.abort();
                }
                drop(handle);
            }
            settle(&executor);
            assert_eq!(executor.alive(), 0);
            // These are the last references to the task.
            let _held = lock.lock().unwrap();
            drop(slot);
            waker.wake();
        }
    }
}

#[test]
fn what_another_thread_sends_does_not_wait_for_the_end_of_a_long_run() {
    let (executor, _) = executor();
    let _entered = executor.enter();
    let (remote, began) = (executor.remote().clone(), Arc::new(AtomicUsize::new(0)));
    let waited = Rc::new(Cell::new(0));
    let counter = waited.clone();
    let _busy = executor.spawn(async move {
        thread::scope(|scope| {
            scope.spawn(|| {
                let began = began.clone();
                drop(remote.spawn(async move { began.store(1, Ordering::Relaxed) }));
            });
        });
        while began.load(Ordering::Relaxed) == 0 {
            counter.set(counter.get() + 1);
            yield_now().await;
        }
    });
    executor.run(1_000, || ControlFlow::Continue(()));
    assert!(waited.get() <= 16, "it has waited for {} polls", waited.get());
}
