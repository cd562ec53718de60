//! Memory and descriptors: nothing is left behind, and steady state allocates nothing.
//!
//! Ground rules:
//!
//! * The allocator counts by thread, so tests may run beside each other; those that count descriptors, which
//!   belong to the process, do not: all of them take a lock.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::{HOUR, LONG, ms, turn, us, watchdog};
use futures::poll;
use mainspring::task::yield_now;
use mainspring::time::{
    DelayQueue, Instant, Sleep, TimerMap, TrySleep, interval, sleep, sleep_until, timeout, try_sleep,
};
use mainspring::{Runtime, block_on, spawn};

/// The system's allocator, with a count of what each thread has done.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static FREED: Cell<u64> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
}

fn note(allocations: u64, bytes: i64) {
    // These have no destructor, so they are there as long as the thread is.
    ALLOCATIONS.with(|count| count.set(count.get() + allocations));
    LIVE_BYTES.with(|live| live.set(live.get() + bytes));
}

// SAFETY: everything is the system allocator's; counting allocates nothing, since the thread-locals are
// initialised by constants and have no destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        note(0, -(layout.size() as i64));
        FREED.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(1, size as i64 - layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

fn live_bytes() -> i64 {
    LIVE_BYTES.with(Cell::get)
}

/// What this thread has freed, in blocks.
fn freed() -> u64 {
    FREED.with(Cell::get)
}

fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The descriptors this process has open, where the system tells.
fn descriptors() -> Option<usize> {
    // Wine has the directory, too, and opens and closes descriptors of its own.
    if cfg!(windows) {
        return None;
    }
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count())
}

/// So much, or less where the program is not optimised.
const fn often(release: usize, debug: usize) -> usize {
    if cfg!(debug_assertions) { debug } else { release }
}

// tokio #3564.
#[test]
fn runtimes_that_come_and_go_leave_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(2 * LONG);
    let one = || {
        let runtime = Runtime::new().unwrap();
        drop(runtime.spawn(sleep(HOUR)));
        drop(runtime.handle().spawn(sleep(HOUR)));
        runtime.block_on(async {
            let mut left = pin!(sleep(HOUR));
            assert!(poll!(left.as_mut()).is_pending());
            sleep(us(1)).await;
            assert!(timeout(us(1), pending::<()>()).await.is_err());
        });
    };
    // What is made once for the thread and the process.
    for _ in 0..3 {
        one();
    }
    let before = (live_bytes(), descriptors());
    for _ in 0..often(10_000, 2_000) {
        one();
    }
    assert_eq!((live_bytes(), descriptors()), before, "bytes and descriptors");
}

#[test]
fn a_hundred_thousand_runtimes_that_their_timers_outlive_leave_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(4 * LONG);
    // A thread that polls and drops timers of runtimes that may be gone.
    let (sender, receiver) = sync_channel::<Vec<Pin<Box<TrySleep>>>>(16);
    let (done, drained) = sync_channel(1);
    let elsewhere = std::thread::spawn(move || {
        for mut sleeps in receiver {
            // None is a question: what is left of those that came before?
            if sleeps.is_empty() {
                done.send(live_bytes()).expect("the test waits");
            }
            let mut cx = Context::from_waker(Waker::noop());
            for sleep in &mut sleeps {
                assert!(!matches!(sleep.as_mut().poll(&mut cx), Poll::Ready(Ok(()))), "an hour early");
            }
        }
    });
    let one = |n: usize| {
        let runtime = Runtime::new().unwrap();
        let left = runtime.block_on(async {
            let mut left: Vec<_> = (0..3).map(|_| Box::pin(try_sleep(HOUR))).collect();
            // One was never polled.
            assert!(poll!(left[0].as_mut()).is_pending() && poll!(left[1].as_mut()).is_pending());
            left
        });
        let (before, after) = if n % 2 == 0 { (Some(left), None) } else { (None, Some(left)) };
        before.into_iter().for_each(|left| sender.send(left).unwrap());
        drop(runtime);
        // These are dropped here.
        drop(after);
    };
    let settle = || {
        sender.send(vec![]).unwrap();
        (live_bytes() + drained.recv().unwrap(), descriptors())
    };
    (0..4).for_each(one);
    let before = settle();
    (0..often(100_000, 10_000)).for_each(one);
    let after = settle();
    // The channel may have made room for one that waits.
    assert!((after.0 - before.0).abs() < 2_000, "{} bytes are left", after.0 - before.0);
    assert_eq!(after.1, before.1, "descriptors");
    drop(sender);
    elsewhere.join().unwrap();
}

#[test]
fn ten_thousand_live_timers_and_tasks_are_freed_with_the_runtime() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    let run = || {
        let runtime = Runtime::new().unwrap();
        for n in 0..10_000 {
            drop(runtime.spawn(async move { sleep(HOUR + us(n)).await }));
        }
        runtime.block_on(async {
            while common::metrics().timers_live() < 10_000 {
                turn().await;
            }
        });
    };
    run();
    let before = live_bytes();
    run();
    assert_eq!(live_bytes(), before);
}

// tokio #3477.
#[test]
fn a_task_that_keeps_its_own_waker_frees_its_memory() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    let run = || {
        block_on(async {
            for _ in 0..10 {
                let mut kept = Vec::new();
                let task = spawn(poll_fn(move |cx| {
                    kept.push(cx.waker().clone());
                    Poll::<()>::Pending
                }));
                turn().await;
                // Aborted; and the next one dropped with the runtime.
                task.abort();
                assert!(task.await.is_err());
                let mut kept = Vec::new();
                drop(spawn(poll_fn(move |cx| {
                    kept.push(cx.waker().clone());
                    Poll::<()>::Pending
                })));
            }
            turn().await;
        });
    };
    run();
    let before = live_bytes();
    run();
    assert_eq!(live_bytes(), before);
}

/// How many allocations `rounds` of `what` take on this thread, after as many to warm up.
async fn steady(rounds: usize, mut what: impl AsyncFnMut()) -> u64 {
    for _ in 0..rounds {
        what().await;
    }
    let before = allocations();
    for _ in 0..rounds {
        what().await;
    }
    allocations() - before
}

#[test]
fn steady_sleeps_allocate_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    block_on(async {
        let fired = steady(2000, async || sleep(us(30)).await).await;
        assert_eq!(fired, 0, "armed and fired");
        // Further apart than the wheel's slots of the lowest level.
        let fired = steady(50, async || sleep(ms(5)).await).await;
        assert_eq!(fired, 0, "armed and fired far off");
        let cancelled = steady(2000, async || {
            for far in [us(50), ms(5), HOUR, Duration::MAX] {
                let _ = poll!(pin!(sleep(far)));
            }
        })
        .await;
        assert_eq!(cancelled, 0, "armed and cancelled");

        let mut moved = pin!(sleep(HOUR));
        let mut round = 0_u64;
        let moves = steady(5000, async || {
            round += 1;
            moved.as_mut().reset(Instant::now() + HOUR / (1 + (round % 50) as u32));
            let _ = poll!(moved.as_mut());
            if round % 100 == 0 {
                turn().await;
            }
        })
        .await;
        assert_eq!(moves, 0, "moved");
    });
}

#[test]
fn steady_timeouts_allocate_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    block_on(async {
        let elapsed = steady(1000, async || assert!(timeout(us(30), pending::<()>()).await.is_err())).await;
        assert_eq!(elapsed, 0, "elapsed");
        let in_time = steady(1000, async || timeout(HOUR, sleep(us(30))).await.unwrap()).await;
        assert_eq!(in_time, 0, "in time");
        let at_once = steady(1000, async || timeout(HOUR, async {}).await.unwrap()).await;
        assert_eq!(at_once, 0, "at once");
    });
}

#[test]
fn steady_ticks_allocate_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    block_on(async {
        disorder().await;
        let mut ticks = interval(us(100));
        let ticked = steady(2000, async || _ = ticks.tick().await).await;
        assert_eq!(ticked, 0, "ticked");
        let reset = steady(1000, async || {
            ticks.reset_after(us(20));
            let _ = poll!(pin!(ticks.tick()));
            ticks.reset_immediately();
            ticks.tick().await;
        })
        .await;
        assert_eq!(reset, 0, "reset");
    });
}

/// Has the wheel make all its lists: they are made when timers that are due were armed out of order, or were put off, and
/// whether a busy machine lets that happen is left to chance.
async fn disorder() {
    for _ in 0..20 {
        let soon = Instant::now() + us(200);
        let [mut late, mut last, mut first] = [30, 20, 10].map(|n| Box::pin(sleep_until(soon + us(n))));
        for sleep in [&mut late, &mut last, &mut first] {
            let _ = poll!(sleep.as_mut());
        }
        late.as_mut().reset(soon + us(300));
        first.await;
        last.await;
        late.await;
    }
}

/// Has the wheel use as many of its slots at once as chance may ever want for `count` timers.
async fn spread(count: u32) {
    let mut sleeps: Vec<_> = (0..count).map(|n| Box::pin(sleep(HOUR + n * HOUR / 8))).collect();
    for sleep in &mut sleeps {
        assert!(poll!(sleep.as_mut()).is_pending());
    }
}

#[test]
fn a_hundred_timers_that_come_and_go_allocate_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut random = common::Random::new(5);
        let mut sleeps: Vec<Pin<Box<Sleep>>> = (0..100).map(|_| Box::pin(sleep(HOUR))).collect();
        let waker = Waker::noop();
        spread(128).await;
        let taken = steady(300, async || {
            let mut cx = Context::from_waker(waker);
            for sleep in &mut sleeps {
                let at = Instant::now() + Duration::from_nanos(random.below(2_000_000));
                sleep.as_mut().reset(at);
                let _ = sleep.as_mut().poll(&mut cx);
            }
            sleep(us(random.below(1000))).await;
        })
        .await;
        // How many slots are in use at once is left to chance, so now and then it is more than it was lately.
        assert!(taken <= 100, "{taken} allocations in 30,000 timers");
    });
}

#[test]
fn tasks_that_wait_and_are_woken_allocate_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    // By virtual time, so that it is not the machine that says how many are due at once.
    common::paused().block_on(async {
        let tasks: Vec<_> = (0..10)
            .map(|_| {
                spawn(async {
                    loop {
                        sleep(us(200)).await;
                    }
                })
            })
            .collect();
        spread(32).await;
        let ran = steady(300, async || sleep(us(500)).await).await;
        assert_eq!(ran, 0);
        tasks.iter().for_each(|task| task.abort());
    });
}

#[test]
#[cfg_attr(
    mainspring_sanitize,
    ignore = "no memory is kept under a sanitizer, which has to see each task end"
)]
fn tasks_that_come_and_go_allocate_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    block_on(async {
        let one = steady(3000, async || spawn(async {}).await.unwrap()).await;
        assert_eq!(one, 0, "one after the other");
        let mut handles = Vec::new();
        let many = steady(300, async || {
            // Two sizes, and none is awaited before all are there.
            for n in 0..100_u64 {
                handles.push(if n % 2 == 0 {
                    spawn(async move { n })
                } else {
                    spawn(async move {
                        let kept = [n; 20];
                        yield_now().await;
                        kept[3]
                    })
                });
            }
            for handle in handles.drain(..) {
                handle.await.unwrap();
            }
        })
        .await;
        assert_eq!(many, 0, "a hundred at once");
    });
}

#[test]
fn a_burst_of_tasks_gives_its_memory_back_in_small_steps() {
    let _alone = alone();
    let _watchdog = watchdog(4 * LONG);
    block_on(async {
        let before = live_bytes();
        let count = often(200_000, 50_000);
        for n in 0..count {
            drop(spawn(async move { std::hint::black_box([n; 16]) }));
        }
        let full = live_bytes() - before;
        assert!(full > count as i64 * 64);
        // All have ended.
        turn().await;
        // As the program goes on and has no use for it.
        let (start, mut most) = (Instant::now(), 0);
        while live_bytes() > before + full / 100 && start.elapsed() < LONG {
            let (was, turns) = (freed(), common::metrics().turns());
            turn().await;
            most = most.max((freed() - was) / (common::metrics().turns() - turns).max(1));
        }
        let left = live_bytes() - before;
        assert!(left <= full / 100, "{left} of {full} bytes are left");
        assert!(most <= 256, "{most} blocks were freed in one turn");
    });
}

#[test]
fn a_tasks_memory_is_freed_where_its_last_waker_is_dropped() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    let run = |elsewhere: bool| {
        let slot = Rc::new(Cell::new(None));
        let theirs = slot.clone();
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let task = spawn(poll_fn(move |cx| {
                theirs.set(Some(cx.waker().clone()));
                Poll::Ready(())
            }));
            task.await.unwrap();
        });
        let waker = slot.take().unwrap();
        let before = live_bytes();
        let free = move || {
            let before = live_bytes();
            waker.wake_by_ref();
            drop(waker);
            live_bytes() - before
        };
        if elsewhere {
            // The runtime is there, and gets nothing back.
            let change = std::thread::spawn(free).join().unwrap();
            assert!(change < 0, "{change} bytes");
            drop(runtime);
        } else {
            // The runtime has gone, with all that it kept.
            drop(runtime);
            assert!(live_bytes() < before);
            let change = free();
            assert!(change < 0, "{change} bytes");
        }
    };
    run(true);
    run(false);
    let before = live_bytes();
    run(false);
    assert_eq!(live_bytes(), before);
}

#[test]
fn a_panic_that_nobody_waits_for_is_freed() {
    let _alone = alone();
    let _watchdog = watchdog(2 * LONG);
    let burst = || {
        for _ in 0..100 {
            // Its output has nothing to drop; what it panics with has.
            drop(spawn(async {
                if !std::thread::panicking() {
                    std::panic::resume_unwind(Box::new([0_u8; 1_000]));
                }
            }));
        }
    };
    block_on(async {
        burst();
        sleep(us(10)).await;
        let before = live_bytes();
        burst();
        let start = Instant::now();
        while live_bytes() > before + 50_000 && start.elapsed() < LONG {
            sleep(us(100)).await;
        }
        let left = live_bytes() - before;
        assert!(left <= 50_000, "{left} bytes are left of a hundred thousand");
    });
}

#[test]
fn tasks_that_other_threads_send_do_not_pile_up() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let before = live_bytes();
    let (count, handle) = (10_000, runtime.handle().clone());
    let send = move |n| handle.spawn(async move { std::hint::black_box([n; 16]) });
    let sent: Vec<_> = std::thread::spawn(move || (0..count).map(send).collect()).join().unwrap();
    runtime.block_on(async {
        for task in sent {
            task.await.unwrap();
        }
    });
    // Each is freed as it ends; its thread would never take the memory for another.
    let change = live_bytes() - before;
    assert!(change <= -count * 128, "{change} bytes");
}

// tokio #7563: cancelled timers stayed until their deadline.
#[test]
fn a_million_cancelled_sleeps_leave_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(4 * LONG);
    block_on(async {
        let _ = poll!(pin!(sleep(HOUR)));
        turn().await;
        // One after the other.
        let before = live_bytes();
        for n in 0..often(1_000_000, 200_000) {
            let _ = poll!(pin!(sleep(HOUR + us(n as u64))));
            if n % 10_000 == 0 {
                turn().await;
            }
        }
        assert_eq!((live_bytes(), common::metrics().timers_live()), (before, 0));
    });
}

#[test]
fn a_burst_gives_its_memory_back() {
    let _alone = alone();
    let _watchdog = watchdog(4 * LONG);
    block_on(async {
        sleep(us(10)).await;
        let before = live_bytes();
        let count = often(1_000_000, 100_000);
        let mut sleeps: Vec<Pin<Box<Sleep>>> =
            (0..count).map(|n| Box::pin(sleep(HOUR + us(n as u64)))).collect();
        for sleep in &mut sleeps {
            assert!(poll!(sleep.as_mut()).is_pending());
        }
        let full = live_bytes() - before;
        drop(sleeps);
        // In small steps, as the program goes on and has no use for it.
        let start = Instant::now();
        let enough = (full / 100).max(64 * 1024);
        while live_bytes() > before + enough && start.elapsed() < LONG {
            sleep(us(100)).await;
        }
        let left = live_bytes() - before;
        // The wheel keeps some buffers of each size.
        assert!(left <= enough, "{left} of {full} bytes are left");
    });
}

#[test]
fn values_that_go_through_a_delay_queue_allocate_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    // By virtual time, so that it is not the machine that says how many come out at once.
    let runtime = mainspring::Builder::new().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut queue = DelayQueue::new();
        let one_by_one = steady(500, async || {
            queue.insert(1, us(10));
            let moved = queue.insert(2, HOUR);
            queue.reset(&moved, us(20));
            let removed = queue.insert(3, us(5));
            queue.remove(&removed);
            while queue.next_expired().await.is_some() {}
        })
        .await;
        assert_eq!(one_by_one, 0, "put in, moved, removed and come out");

        let burst = steady(20, async || {
            let soon = Instant::now() + us(200);
            for n in 0..1_000 {
                queue.insert_at(n, soon);
            }
            while queue.next_expired().await.is_some() {}
        })
        .await;
        assert_eq!(burst, 0, "a thousand at once");
    });
}

#[test]
fn entries_that_go_through_a_timer_map_allocate_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(LONG);
    // By virtual time, so that it is not the machine that says how many come out at once.
    let runtime = mainspring::Builder::new().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut map = TimerMap::new();
        let handle = map.handle();
        let taken = steady(300, async || {
            for key in 0..30 {
                map.insert(key, key, HOUR);
                handle.insert(key, key + 1, us(10)).unwrap();
                map.reset(&key, us(20));
                handle.reset(key, us(30)).unwrap();
            }
            for _ in 0..30 {
                assert!(map.next_expired().await.is_some());
            }
        })
        .await;
        assert_eq!(taken, 0);
    });
}

#[test]
fn a_timer_maps_burst_gives_its_memory_back() {
    let _alone = alone();
    let runtime = mainspring::Builder::new().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut map = TimerMap::new();
        let before = live_bytes();
        let soon = Instant::now() + ms(10);
        for key in 0..50_000u64 {
            map.insert_at(key, [key; 8], soon);
        }
        let full = live_bytes() - before;
        while !map.is_empty() {
            map.next_expired().await.unwrap();
        }
        // A heartbeat, by which the map sees that time passes.
        for key in 0..2_000 {
            map.insert(key, [0; 8], Duration::from_secs(2));
            map.insert(u64::MAX, [0; 8], HOUR * 2);
            map.next_expired().await.unwrap();
        }
        let left = live_bytes() - before;
        assert!(left * 20 < full, "{left} of {full} bytes are left");
    });
}
