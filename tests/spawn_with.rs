//! `Handle::spawn_with`: a task from another thread whose future need not be `Send`.

mod common;

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::panic::Location;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;

use common::{Dropped, LONG, beside_parked, ms, watchdog};
use mainspring::runtime::Handle;
use mainspring::task::{self, JoinHandle, yield_now};
use mainspring::{Runtime, block_on, sleep, spawn};

#[test]
fn tasks_of_the_runtimes_own_thread_begin_in_the_order_in_which_they_are_spawned() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let (begin, begun) = mpsc::channel();
    let handle = runtime.handle().clone();
    let spawn_all = |first: usize| {
        let begins = |n: usize| {
            let begin = begin.clone();
            async move { begin.send(first + n).unwrap() }
        };
        handle.spawn(begins(0)).detach();
        runtime.spawn(begins(1)).detach();
        let third = begins(2);
        handle.spawn_with(|| third).detach();
        runtime.spawn(begins(3)).detach();
        task::Builder::new().name("fifth").spawn_on(begins(4), &handle).detach();
        runtime.spawn(begins(5)).detach();
    };
    spawn_all(0);
    let order: Vec<_> = runtime.block_on(async {
        spawn_all(6);
        // On a slow machine, not all of them begin in one turn.
        let mut order = Vec::new();
        while order.len() < 12 {
            yield_now().await;
            order.extend(begun.try_iter());
        }
        order
    });
    assert_eq!(order, (0..12).collect::<Vec<_>>());
}

/// Returns what `f` returns on another thread.
fn elsewhere<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(f).join().unwrap())
}

#[test]
fn a_future_that_is_not_send_is_built_polled_and_dropped_on_the_runtimes_thread() {
    struct Stays(Rc<thread::ThreadId>, mpsc::Sender<bool>);
    impl Drop for Stays {
        fn drop(&mut self) {
            self.1.send(*self.0 == thread::current().id()).unwrap();
        }
    }

    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let (here, handle) = (thread::current().id(), runtime.handle().clone());
    let (tell, dropped) = mpsc::channel();
    let task = elsewhere(move || {
        handle.spawn_with(move || {
            let built = thread::current().id();
            let stays = Stays(Rc::new(built), tell);
            async move {
                sleep(ms(1)).await;
                let child = Rc::new(Cell::new(0));
                let set = child.clone();
                spawn(async move { set.set(7) }).await.unwrap();
                (*stays.0, thread::current().id(), child.get())
            }
        })
    });
    assert_eq!(runtime.block_on(task).unwrap(), (here, here, 7));
    assert!(dropped.recv().unwrap());
}

#[test]
fn it_wakes_a_parked_runtime() {
    let _watchdog = watchdog(LONG);
    beside_parked(|handle, there| {
        for n in 0..20 {
            let task = handle.spawn_with(move || {
                let n = Rc::new(n);
                async move {
                    yield_now().await;
                    (*n, thread::current().id())
                }
            });
            assert_eq!(futures::executor::block_on(task).unwrap(), (n, there));
        }
    });
}

#[test]
fn on_the_runtimes_own_thread_it_is_a_spawn_as_others_and_knows_where_it_was_made() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let line = Location::caller().line() + 1;
        let task = Handle::current().spawn_with(|| async { *Rc::new(5) + 1 });
        let dump = Handle::current().dump().unwrap();
        let seen = dump.tasks.iter().find(|seen| seen.id == task.id()).expect("it is in the dump");
        assert_eq!((seen.spawned_at.file(), seen.spawned_at.line()), (file!(), line));
        assert_eq!(task.await.unwrap(), 6);
    });
}

#[test]
fn a_panic_of_the_closure_is_the_tasks() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    fn never() -> std::future::Pending<Rc<()>> {
        panic!("in the closure")
    }
    let dropped = Dropped::default();
    let token = dropped.token();
    let (panics, fine) = elsewhere(move || {
        let panics = handle.spawn_with(move || {
            let _token = token;
            let future = never();
            async move { drop(future.await) }
        });
        (panics, handle.spawn_with(|| async { 5 }))
    });
    let error = runtime.block_on(panics).unwrap_err();
    assert_eq!(error.into_panic().downcast_ref(), Some(&"in the closure"));
    assert_eq!(dropped.count(), 1);
    assert_eq!(runtime.block_on(fine).unwrap(), 5, "the next task is harmed");
}

/// Spawns a task that would report that it has begun, with a token that is dropped with its closure.
fn unbegun(handle: &Handle, dropped: &Dropped, begun: &mpsc::Sender<()>) -> JoinHandle<()> {
    let (token, begun) = (dropped.token(), begun.clone());
    handle.spawn_with(move || {
        begun.send(()).unwrap();
        let token = Rc::new(token);
        async move {
            pending::<()>().await;
            drop(token);
        }
    })
}

#[test]
fn after_shutdown_the_closure_is_dropped_at_once_and_the_task_cancelled() {
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    let (begun, begins) = mpsc::channel();
    let dropped = Dropped::default();
    // A task that the runtime has not come to, and one that it no longer accepts.
    let waits = elsewhere(|| unbegun(&handle, &dropped, &begun));
    assert_eq!(dropped.count(), 0);
    drop(runtime);
    assert_eq!(dropped.count(), 1);
    let refused = elsewhere(|| {
        let refused = unbegun(&handle, &dropped, &begun);
        assert!(refused.is_finished());
        refused
    });
    assert_eq!(dropped.count(), 2);
    for task in [waits, refused] {
        assert!(futures::executor::block_on(task).unwrap_err().is_cancelled());
    }
    assert!(begins.try_recv().is_err(), "a closure was called");
}

#[test]
fn a_task_that_is_dropped_with_its_runtime_drops_its_future() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let (begun, begins) = mpsc::channel();
    let dropped = Dropped::default();
    let handle = runtime.handle().clone();
    let task = elsewhere(|| unbegun(&handle, &dropped, &begun));
    runtime.block_on(async {
        while begins.try_recv().is_err() {
            yield_now().await;
        }
    });
    assert_eq!(dropped.count(), 0);
    drop(runtime);
    assert_eq!(dropped.count(), 1);
    assert!(futures::executor::block_on(task).unwrap_err().is_cancelled());
}

#[test]
fn a_task_that_is_aborted_before_it_began_drops_its_closure_uncalled_on_the_runtimes_thread() {
    struct Where(mpsc::Sender<thread::ThreadId>);
    impl Drop for Where {
        fn drop(&mut self) {
            self.0.send(thread::current().id()).unwrap();
        }
    }

    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    let (tell, dropped_at) = mpsc::channel();
    let token = Where(tell);
    let task = elsewhere(move || {
        let task = handle.spawn_with(move || {
            let token = RefCell::new(token);
            async move {
                drop(token);
                unreachable!("the task was aborted");
            }
        });
        task.abort();
        task
    });
    assert!(dropped_at.try_recv().is_err(), "dropped on the thread that aborted it");
    let result: Result<(), _> = runtime.block_on(task);
    assert!(result.unwrap_err().is_cancelled());
    assert_eq!(dropped_at.recv().unwrap(), thread::current().id());
}
