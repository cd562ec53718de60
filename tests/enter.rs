//! Which runtime a thread is in: guards that enter one, spawning under them, and the errors where there is none.

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use common::{Dropped, LONG, ms, panicked, watchdog};
use mainspring::runtime::Handle;
use mainspring::{Runtime, block_on, sleep, spawn};

#[test]
fn entering_nests_and_leaves_what_it_found() {
    let _watchdog = watchdog(LONG);
    assert!(Handle::try_current().is_err());
    let panic = panicked(|| Handle::current());
    assert!(panic.message.contains("Handle::enter"), "{}", panic.message);
    assert_eq!(panic.file, file!());

    // A count of turns distinguishes the two runtimes.
    let (one, two) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    two.turn(Duration::ZERO);
    let turns = || Handle::current().metrics().turns();
    {
        let _outer = one.handle().enter();
        assert_eq!(turns(), 0);
        {
            let _inner = two.handle().enter();
            assert_eq!(turns(), 1);
        }
        assert_eq!(turns(), 0);
        two.block_on(async { assert!(turns() >= 1) });
        assert_eq!(turns(), 0);
        let _ = panicked(|| two.block_on(async { panic!("out of it") }));
        assert_eq!(turns(), 0);
    }
    assert!(Handle::try_current().is_err());
}

#[test]
fn guards_dropped_out_of_order_say_so_and_leave_the_thread_in_no_runtime() {
    let _watchdog = watchdog(LONG);
    let (one, two) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    two.turn(Duration::ZERO);
    let turns = || Handle::current().metrics().turns();
    let line = line!() + 1;
    let outer = one.handle().enter();
    let inner = two.handle().enter();
    let panic = panicked(|| drop(outer));
    for part in [format!("{}:{line}:", file!()), format!("{}:{}:", file!(), line + 1)] {
        assert!(panic.message.contains(&part), "{part}: {}", panic.message);
    }
    // The guard that is left counts.
    assert_eq!(turns(), 1);
    drop(inner);
    assert!(Handle::try_current().is_err());
    // During a panic there is no second panic, which would end the process.
    let panic = panicked(|| {
        // An array drops its first element first.
        let _guards = [one.handle().enter(), two.handle().enter()];
        panic!("the first one");
    });
    assert_eq!(panic.message, "the first one");
    assert!(Handle::try_current().is_err());
    // A guard from outside that is dropped inside.
    let outer = one.handle().enter();
    let panic = panicked(|| two.block_on(async move { drop(outer) }));
    assert!(panic.message.contains("reverse order"), "{}", panic.message);
    assert!(Handle::try_current().is_err());
}

#[test]
fn a_guard_held_across_an_await_is_its_tasks_panic_and_harms_no_other_task() {
    let _watchdog = watchdog(LONG);
    // A runtime that never runs: a timer that is armed there never fires.
    let never = Runtime::new().unwrap();
    let runtime = Runtime::new().unwrap();
    let handle = never.handle();
    /// A guard that is dropped only at the program's end.
    fn kept(handle: &Handle) -> mainspring::runtime::EnterGuard<'static> {
        Box::leak(Box::new(handle.clone())).enter()
    }
    runtime.block_on(async {
        let other = spawn(async {
            for _ in 0..10 {
                sleep(Duration::from_micros(100)).await;
            }
        });
        let line = Arc::new(AtomicUsize::new(0));
        let held = spawn({
            let (handle, line) = (handle.clone(), line.clone());
            async move {
                line.store(line!() as usize + 1, Ordering::SeqCst);
                let _guard = handle.enter();
                sleep(ms(1)).await;
            }
        });
        let message = held.await.unwrap_err().to_string();
        let made = format!("{}:{}:", file!(), line.load(Ordering::SeqCst));
        assert!(message.contains("across an `.await`") && message.contains(&made), "{message}");
        // A guard that is never dropped, and one that is returned as the result.
        let handle = handle.clone();
        let forgotten = spawn({
            let handle = handle.clone();
            async move { std::mem::forget(kept(&handle)) }
        });
        assert!(forgotten.await.unwrap_err().is_panic());
        let given = spawn(async move { kept(&handle) });
        assert!(given.await.unwrap_err().is_panic());
        other.await.unwrap();
    });
    assert_eq!(handle.metrics().timers_live(), 0);
    // The future of `block_on` is treated in the same way.
    let panic = panicked(|| {
        runtime.block_on(async {
            let _guard = handle.enter();
            sleep(ms(1)).await;
        });
    });
    assert!(panic.message.contains(file!()), "{}", panic.message);
    assert!(Handle::try_current().is_err());
    runtime.block_on(sleep(ms(1)));
}

#[test]
fn spawn_without_a_runtime_says_what_to_do() {
    let panic = panicked(|| spawn(async {}));
    assert!(panic.message.contains("no Mainspring runtime"), "{}", panic.message);
    assert!(panic.message.contains("block_on"), "{}", panic.message);
    assert_eq!(panic.file, file!());
}

#[test]
fn spawn_under_an_enter_guard_goes_to_that_runtime() {
    let _watchdog = watchdog(LONG);
    let (one, two) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let not_send = Rc::new(Cell::new(0));
    let add = |n| {
        let count = not_send.clone();
        async move {
            sleep(ms(1)).await;
            count.set(count.get() + n);
        }
    };
    // Outside of any `block_on`.
    let task = {
        let _entered = one.handle().enter();
        spawn(add(1))
    };
    one.block_on(task).unwrap();
    assert_eq!(not_send.get(), 1);
    // Inside a `block_on` of another runtime of this thread.
    let mut task = None;
    two.block_on(async {
        {
            let _entered = one.handle().enter();
            task = Some(spawn(add(10)));
        }
        spawn(add(100)).await.unwrap();
    });
    assert_eq!((one.dump().tasks.len(), two.dump().tasks.len()), (1, 0));
    one.block_on(task.expect("it was spawned")).unwrap();
    assert_eq!(not_send.get(), 111);
    // From another thread such a task cannot be spawned there.
    let handle = one.handle().clone();
    let panic = thread::spawn(move || {
        let _entered = handle.enter();
        panicked(|| spawn(async {}))
    });
    let panic = panic.join().unwrap();
    assert!(panic.message.contains("Use `Handle::spawn`"), "{}", panic.message);
    assert_eq!(panic.file, file!());
    // A runtime that was dropped accepts no task, wherever it is asked.
    let handle = one.handle().clone();
    drop(one);
    let dropped = Dropped::default();
    let refused = |token| {
        let _entered = handle.enter();
        let task = spawn(async move { drop(token) });
        assert!(futures::executor::block_on(task).unwrap_err().is_cancelled());
    };
    refused(dropped.token());
    thread::scope(|scope| scope.spawn(|| refused(dropped.token())).join()).unwrap();
    assert_eq!(dropped.count(), 2);
}

#[test]
fn a_nested_block_on_says_what_to_do() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let other = Runtime::new().unwrap();
    for _ in 0..2 {
        let nested = runtime.block_on(async {
            [
                panicked(|| runtime.block_on(async {})),
                panicked(|| other.block_on(async {})),
                panicked(|| block_on(async {})),
            ]
        });
        for panic in nested {
            assert!(panic.message.contains("`.await` the future"), "{}", panic.message);
            assert_eq!(panic.file, file!(), "it does not point at the caller");
        }
        // In a task, after the errors before.
        let message = runtime.block_on(async {
            spawn(async { panicked(|| mainspring::block_on(async {})).message }).await.unwrap()
        });
        assert!(message.contains("`.await` the future"), "{message}");
    }
    // Both runtimes still work.
    assert_eq!((runtime.block_on(async { 1 }), other.block_on(async { 2 })), (1, 2));
}
