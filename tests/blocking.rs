//! Work that blocks: closures on other threads, and what happens to time, panics, threads and tasks that no longer wait.

mod common;

use common::{Dropped, HOUR, LONG, ms, panicked, paused, watchdog};
use futures::FutureExt;
use futures::future::{FusedFuture, join_all};
use mainspring::runtime::Handle;
use mainspring::task::{Unblock, spawn_blocking, unblock, yield_now};
use mainspring::time::{Instant, advance, sleep, timeout};
use mainspring::{Runtime, block_on, spawn};
use std::panic::{RefUnwindSafe, UnwindSafe, panic_any};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

/// The maximum number of threads in the pool.
const LIMIT: usize = 512;

/// Runs the test `name` in a process of its own, after the given shell commands, because the pool belongs to the
/// process. Returns true in that process.
fn alone(name: &str, shell: &str) -> bool {
    const CHILD: &str = "MAINSPRING_BLOCKING_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut child = if cfg!(unix) {
        let mut child = Command::new("sh");
        child.arg("-c").arg(format!("{shell}\nexec \"$0\" \"$@\"")).arg(std::env::current_exe().unwrap());
        child
    } else {
        Command::new(std::env::current_exe().unwrap())
    };
    let status = child.args(["--exact", name, "--nocapture", "--test-threads", "1"]).env(CHILD, "1").status();
    assert!(status.unwrap().success());
    false
}

/// Waits in real time.
fn until(what: impl Fn() -> bool) {
    while !what() {
        thread::sleep(ms(1));
    }
}

/// A closure that tells when it has begun and waits until it may go on.
struct Gate {
    go: mpsc::Sender<()>,
    begun: Arc<AtomicBool>,
}

fn gated<T: Send + 'static>(value: T) -> (Gate, impl FnOnce() -> T + Send + 'static) {
    let (go, wait) = mpsc::channel();
    let begun = Arc::new(AtomicBool::new(false));
    let tells = begun.clone();
    let closure = move || {
        tells.store(true, Ordering::SeqCst);
        wait.recv().unwrap();
        value
    };
    (Gate { go, begun }, closure)
}

impl Gate {
    fn begun(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }

    fn open(&self) {
        self.go.send(()).unwrap();
    }
}

#[test]
fn a_closure_runs_on_another_thread_and_its_result_comes_back() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let here = thread::current().id();
        let elsewhere = || (thread::current().id(), Handle::try_current().is_err());
        let (there, without_runtime) = unblock(elsewhere).await;
        assert!(there != here && without_runtime);
        let (there, without_runtime) = spawn_blocking(elsewhere).await.unwrap();
        assert!(there != here && without_runtime);
        // Other things that wait meanwhile are not held up.
        let (gate, closure) = gated("done");
        let mut closure = unblock(closure);
        assert!(timeout(ms(5), &mut closure).await.is_err());
        gate.open();
        assert_eq!(closure.await, "done");
    });
}

#[test]
fn ten_thousand_results_come_each_to_its_own_waiter() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        for n in 0..5000 {
            assert_eq!(unblock(move || n).await, n);
        }
        for round in 0..50 {
            let all = join_all((0..100).map(|n| unblock(move || round * n))).await;
            assert!(all.into_iter().enumerate().all(|(n, result)| result == round * n));
        }
    });
}

#[test]
fn a_closure_for_a_runtime_that_is_gone_does_not_run() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    drop(runtime);
    let entered = handle.enter();
    let ran = Arc::new(AtomicBool::new(false));
    for _ in 0..200 {
        let ran = ran.clone();
        let task = spawn_blocking(move || ran.store(true, Ordering::SeqCst));
        assert!(task.now_or_never().unwrap().unwrap_err().is_cancelled());
    }
    drop(entered);
    // Closures begin in the order in which they came.
    block_on(unblock(|| ()));
    assert!(!ran.load(Ordering::SeqCst));
}

#[test]
fn a_closure_begins_without_a_poll_and_ends_without_a_handle() {
    let _watchdog = watchdog(LONG);
    let (gate, closure) = gated(());
    let waits = unblock(closure);
    until(|| gate.begun());
    gate.open();
    // Neither a runtime nor this thread is needed.
    thread::spawn(move || futures::executor::block_on(waits)).join().unwrap();

    let (gate, closure) = gated(());
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async { spawn_blocking(closure).detach() });
    until(|| gate.begun());
    gate.open();
}

#[test]
fn while_a_closure_runs_the_runtime_goes_on() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (gate, closure) = gated("late");
        let waits = spawn_blocking(closure);
        until(|| gate.begun());
        for _ in 0..1000 {
            yield_now().await;
        }
        sleep(ms(5)).await;
        assert!(!waits.is_finished());
        gate.open();
        assert_eq!(waits.await.unwrap(), "late");
    });
}

#[test]
fn a_task_whose_closures_have_ended_before_it_awaits_them_lets_others_run() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let ready: Vec<_> = (0..300).map(|n| unblock(move || n)).collect();
        until(|| ready.iter().all(|ready| format!("{ready:?}").contains("done")));
        // This poll may have taken long: then time would be shared, and the other task would wait. A rest makes them equal.
        sleep(ms(30)).await;
        let other = spawn(async {});
        for (n, ready) in ready.into_iter().enumerate() {
            assert_eq!(ready.await, n);
        }
        assert!(other.is_finished(), "300 results in one poll");
    });
}

#[test]
fn virtual_time_waits_for_a_closure() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let start = Instant::now();
        let slow = || {
            thread::sleep(ms(20));
            42
        };
        assert_eq!(timeout(Duration::from_nanos(1), unblock(slow)).await.unwrap(), 42);
        assert_eq!(timeout(ms(30_000), spawn_blocking(slow)).await.unwrap().unwrap(), 42);
        assert_eq!(start.elapsed(), Duration::ZERO);
        // Also for a closure that no task waits for; afterwards time goes on.
        let ended = Arc::new(AtomicBool::new(false));
        let tells = ended.clone();
        drop(spawn_blocking(move || {
            thread::sleep(ms(20));
            tells.store(true, Ordering::SeqCst);
        }));
        sleep(HOUR).await;
        assert!(ended.load(Ordering::SeqCst));
        assert_eq!(start.elapsed(), HOUR);
    });
}

#[test]
fn virtual_time_is_held_by_a_closure_that_has_begun_also_when_its_future_was_dropped() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (gate, closure) = gated(());
        let dropped = unblock(closure);
        until(|| gate.begun());
        drop(dropped);
        let opened = Arc::new(AtomicBool::new(false));
        let opens = opened.clone();
        let opener = thread::spawn(move || {
            thread::sleep(ms(20));
            opens.store(true, Ordering::SeqCst);
            gate.open();
        });
        sleep(HOUR).await;
        assert!(opened.load(Ordering::SeqCst));
        opener.join().unwrap();
        // A task that advances time is not kept from it.
        let (gate, closure) = gated(());
        let waits = unblock(closure);
        advance(HOUR).await;
        gate.open();
        waits.await;
    });
}

#[test]
fn a_panic_comes_out_where_the_result_is_awaited_and_the_next_closure_runs() {
    let _watchdog = watchdog(LONG);
    let quiet = |payload: u32| move || -> u32 { std::panic::resume_unwind(Box::new(payload)) };
    block_on(async {
        for n in 0..100 {
            let payload = std::panic::AssertUnwindSafe(unblock(quiet(n))).catch_unwind().await.unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&n));
            let error = spawn_blocking(quiet(n)).await.unwrap_err();
            assert_eq!(error.into_panic().downcast_ref(), Some(&n));
            assert_eq!(unblock(move || n).await, n);
        }
        // A panic that no task awaits belongs to no task.
        drop(unblock(quiet(7)));
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic_any("a payload that panics as it is dropped");
            }
        }
        let (gate, closure) = gated(());
        let bomb = unblock(move || {
            closure();
            Bomb
        });
        until(|| gate.begun());
        drop(bomb);
        gate.open();
        assert_eq!(unblock(|| 1).await, 1);
    });
}

#[test]
fn a_closure_that_has_begun_runs_on_and_its_unwanted_result_is_dropped() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let dropped = Dropped::default();
        let (gate, closure) = gated(dropped.token());
        let future = unblock(closure);
        until(|| gate.begun());
        drop(future);
        assert_eq!(dropped.count(), 0);
        gate.open();
        until(|| dropped.count() == 1);

        let (gate, closure) = gated(dropped.token());
        let handle = spawn_blocking(closure);
        until(|| gate.begun());
        handle.abort();
        // The handle does not wait for the closure.
        assert!(handle.await.is_err_and(|error| error.is_cancelled()));
        assert_eq!(dropped.count(), 1);
        gate.open();
        until(|| dropped.count() == 2);

        // A result that is there but was not taken.
        let ready = unblock({
            let token = dropped.token();
            move || token
        });
        until(|| format!("{ready:?}").contains("done"));
        drop(ready);
        assert_eq!(dropped.count(), 3);
    });
}

#[test]
fn the_end_of_a_runtime_waits_for_no_closure() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let (gate, closure) = gated(5);
    let handle = {
        let _entered = runtime.handle().enter();
        spawn_blocking(closure)
    };
    until(|| gate.begun());
    drop(runtime);
    assert!(futures::executor::block_on(handle).unwrap_err().is_cancelled());
    gate.open();
}

#[test]
fn a_task_needs_a_runtime_which_may_be_that_of_another_thread() {
    let _watchdog = watchdog(LONG);
    let ran = Arc::new(AtomicBool::new(false));
    let runs = ran.clone();
    let panic = panicked(|| spawn_blocking(move || runs.store(true, Ordering::SeqCst)));
    assert!(
        panic.message.starts_with("no Mainspring runtime") && panic.file.ends_with("blocking.rs"),
        "{panic:?}"
    );
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    let elsewhere = thread::spawn(move || {
        let _entered = handle.enter();
        spawn_blocking(|| 6 * 7)
    });
    assert_eq!(runtime.block_on(elsewhere.join().unwrap()).unwrap(), 42);
    assert!(!ran.load(Ordering::SeqCst));
}

#[test]
fn it_can_be_selected_from_and_says_when_it_is_polled_twice() {
    fn is_as_free_as_its_result<T: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe>(_: &T) {}
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (mut one, mut other): (Unblock<i32>, _) = (unblock(|| 1), unblock(|| 2));
        is_as_free_as_its_result(&one);
        let mut sum = 0;
        loop {
            futures::select! {
                n = one => sum += n,
                n = other => sum += n,
                complete => break,
            }
        }
        assert_eq!(sum, 3);
        assert!(one.is_terminated());
        let panic = panicked(|| (&mut one).now_or_never());
        assert!(panic.message.contains("after it returned its result"), "{panic:?}");
    });
}

#[test]
fn so_many_threads_run_at_once_and_what_waits_begins_in_order_or_is_dropped_with_its_future() {
    let name = "so_many_threads_run_at_once_and_what_waits_begins_in_order_or_is_dropped_with_its_future";
    if !alone(name, "") {
        return;
    }
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (gates, closures): (Vec<_>, Vec<_>) = (0..LIMIT)
            .map(|_| {
                let (gate, closure) = gated(());
                (gate, unblock(closure))
            })
            .unzip();
        until(|| gates.iter().all(Gate::begun));
        let order = Arc::new(Mutex::new(Vec::new()));
        let dropped = Dropped::default();
        let mut wait: Vec<_> = (0..100)
            .map(|n| {
                let (order, token) = (order.clone(), dropped.token());
                Some(unblock(move || {
                    order.lock().unwrap().push(n);
                    drop(token);
                }))
            })
            .collect();
        #[cfg(feature = "net")]
        let mut lookup = Box::pin(mainspring::net::lookup_host("localhost:80"));
        #[cfg(feature = "net")]
        assert!(futures::poll!(lookup.as_mut()).is_pending());
        thread::sleep(ms(50));
        assert_eq!((order.lock().unwrap().len(), dropped.count()), (0, 0), "there is no thread for them");
        // These closures never run.
        wait.iter_mut().skip(1).step_by(2).for_each(|waits| drop(waits.take()));
        assert_eq!(dropped.count(), 50);

        gates[0].open();
        // The one thread that is free does all of these, and the lookup.
        join_all(wait.into_iter().flatten()).await;
        #[cfg(feature = "net")]
        assert!(lookup.await.unwrap().next().is_some());
        assert_eq!(*order.lock().unwrap(), (0..100).step_by(2).collect::<Vec<_>>());
        gates[1..].iter().for_each(Gate::open);
        join_all(closures).await;
    });
}

#[test]
fn a_closure_that_was_dropped_before_it_began_holds_time_no_longer() {
    if !alone("a_closure_that_was_dropped_before_it_began_holds_time_no_longer", "") {
        return;
    }
    let _watchdog = watchdog(LONG);
    let gates: Vec<_> = (0..LIMIT)
        .map(|_| {
            let (gate, closure) = gated(());
            // Outside of any runtime: it holds no runtime's time.
            (gate, unblock(closure))
        })
        .collect();
    paused().block_on(async {
        drop(unblock(|| unreachable!("it never begins")));
        sleep(HOUR).await;
    });
    for (gate, closure) in gates {
        gate.open();
        futures::executor::block_on(closure);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn threads_that_are_idle_end() {
    if !alone("threads_that_are_idle_end", "") {
        return;
    }
    let _watchdog = watchdog(LONG);
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    block_on(async {
        let before = threads();
        for _ in 0..2 {
            let (gates, closures): (Vec<_>, Vec<_>) = (0..30)
                .map(|_| {
                    let (gate, closure) = gated(());
                    (gate, unblock(closure))
                })
                .unzip();
            until(|| gates.iter().all(Gate::begun));
            assert_eq!(threads(), before + 30);
            gates.iter().for_each(Gate::open);
            join_all(closures).await;
            // Idle threads are used again, and no other threads begin.
            for n in 0..50 {
                assert_eq!(unblock(move || n).await, n);
            }
            assert!(threads() <= before + 30);
            while threads() > before {
                sleep(ms(10)).await;
            }
        }
    });
}

/// With stacks of a gigabyte: a hundred of them fit into what the process may have; half a gigabyte is left for other things.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[test]
fn where_the_system_makes_no_more_threads_those_that_are_there_do_the_work() {
    let name = "where_the_system_makes_no_more_threads_those_that_are_there_do_the_work";
    let limits = "export MALLOC_ARENA_MAX=1 RUST_MIN_STACK=1073741824; ulimit -v 105381888";
    if !alone(name, limits) {
        return;
    }
    let _watchdog = watchdog(LONG);
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let (before, open) = (threads(), Arc::new(AtomicBool::new(false)));
    let all: Vec<_> = (0..LIMIT)
        .map(|n| {
            let open = open.clone();
            unblock(move || {
                until(|| open.load(Ordering::SeqCst));
                n
            })
        })
        .collect();
    let begun = threads() - before;
    assert!((1..LIMIT).contains(&begun), "{begun} threads");
    open.store(true, Ordering::SeqCst);
    block_on(async {
        assert!(join_all(all).await.into_iter().eq(0..LIMIT));
    });
}

/// With stacks of a gigabyte, of which the process may have two: one for this thread, and one for the closure that does not end.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[test]
fn where_the_system_makes_no_thread_for_a_closure_it_begins_when_the_next_one_comes() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let name = "where_the_system_makes_no_thread_for_a_closure_it_begins_when_the_next_one_comes";
    if !alone(name, "export MALLOC_ARENA_MAX=1 RUST_MIN_STACK=1073741824; ulimit -S -v 2800000") {
        return;
    }
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    block_on(async {
        let (end, ended) = mpsc::channel::<()>();
        let (next, waits) = mpsc::channel();
        let endless = unblock(move || ended.recv().is_err());
        let waiting = unblock(move || waits.recv().is_ok());
        assert_eq!(threads(), before + 1);
        let limit = getrlimit(Resource::As);
        setrlimit(Resource::As, Rlimit { current: limit.maximum, ..limit }).unwrap();
        // It needs a thread of its own, and so does the one before it, which goes on only when this one has run.
        let next = unblock(move || next.send(()).is_ok());
        let both = timeout(ms(10_000), join_all([waiting, next])).await;
        assert_eq!(both, Ok(vec![true, true]));
        drop(end);
        assert!(endless.await);
    });
}

/// With stacks so large that none fits into the address space.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[test]
fn where_the_system_makes_no_thread_at_all_it_is_said() {
    let name = "where_the_system_makes_no_thread_at_all_it_is_said";
    if !alone(name, "export RUST_MIN_STACK=281474976710656") {
        return;
    }
    let dropped = Dropped::default();
    block_on(async {
        for n in 0..3 {
            let token = dropped.token();
            let panic = panicked(|| unblock(move || drop(token)));
            assert!(panic.message.starts_with("no thread for blocking work"), "{panic:?}");
            assert!(panic.file.ends_with("blocking.rs"));
            let token = dropped.token();
            let error = mainspring::task::try_unblock(move || drop(token)).map(drop).unwrap_err();
            assert!(error.to_string().starts_with("no thread for blocking work"), "{error}");
            assert_eq!(dropped.count(), 2 * (n + 1));
            #[cfg(feature = "net")]
            {
                let error = mainspring::net::lookup_host("localhost:80").await.map(drop).unwrap_err();
                // Not `WouldBlock`, which the system says.
                assert_eq!(error.kind(), std::io::ErrorKind::Other);
                assert!(error.to_string().starts_with("no thread for blocking work"), "{error}");
            }
        }
    });
}
