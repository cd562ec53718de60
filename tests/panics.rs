//! Panics: of wakers that are not ours, of the root, of tasks. Nothing else is lost because of them.

mod common;

use std::cell::Cell;
use std::fmt::Write;
use std::future::pending;
use std::panic::{RefUnwindSafe, UnwindSafe, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use common::{HOUR, LONG, Probe, metrics, ms, panicked, turn, us, watchdog};
use futures::poll;
use mainspring::task::{JoinError, JoinSet, unconstrained, yield_now};
use mainspring::time::{Instant, sleep, sleep_until, timeout};
use mainspring::{Runtime, spawn};

// tokio #4069.
#[test]
fn a_waker_that_panics_loses_nobody_elses_wake_up() {
    let _watchdog = watchdog(LONG);
    for bad_at in [0, 1, 31, 32, 39] {
        let runtime = Runtime::new().unwrap();
        let probes = Probe::forty(bad_at);
        let deadline = Instant::now() + ms(100);
        let sleeps = Probe::all_wait(&probes, &runtime, || sleep_until(deadline));
        let task = runtime.spawn(sleep_until(deadline));
        // The panic comes out of block_on, once.
        let panic = panicked(|| runtime.block_on(sleep(HOUR)));
        assert_eq!(panic.message, format!("waker {bad_at}"));
        assert!(probes.iter().all(|probe| probe.wakes() == 1));
        // And the runtime continues.
        runtime.block_on(task).unwrap();
        runtime.block_on(async {
            for sleep in sleeps {
                sleep.await;
            }
            sleep(ms(1)).await;
            assert_eq!(metrics().timers_live(), 0);
        });
        assert!(probes.iter().all(|probe| Arc::strong_count(probe) == 1));
    }
}

#[test]
fn a_waker_that_panics_does_not_end_a_backlog() {
    let _watchdog = watchdog(LONG);
    // Several turns' worth of timers, of which every hundredth panics.
    let runtime = mainspring::Builder::new().timer_budget(16).build().unwrap();
    let deadline = Instant::now() + ms(500);
    let probes: Vec<_> = (0..500)
        .map(|n| {
            Probe::with(move || {
                if n % 100 == 50 {
                    resume_unwind(Box::new(n));
                }
            })
        })
        .collect();
    let _sleeps = Probe::all_wait(&probes, &runtime, || sleep_until(deadline));
    let mut panics = 0;
    let woken = || probes.iter().map(|probe| probe.wakes()).sum::<usize>();
    while woken() < 500 {
        let run = || runtime.block_on(sleep(ms(200)));
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
            panics += 1;
        }
    }
    assert_eq!((panics, woken()), (5, 500));
}

#[test]
fn the_runtime_can_be_used_on_after_a_panic_out_of_block_on() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let task = runtime.spawn(async {
        sleep(ms(5)).await;
        "unharmed"
    });
    for round in 0..3 {
        let panic = panicked(|| {
            runtime.block_on(async {
                let _sleep = pin!(sleep(HOUR));
                sleep(us(100)).await;
                panic!("round {round}");
            })
        });
        assert_eq!(panic.message, format!("round {round}"));
        assert!(mainspring::Handle::try_current().is_err(), "the thread has not left the runtime");
    }
    assert_eq!(runtime.block_on(task).unwrap(), "unharmed");
    assert_eq!(runtime.handle().metrics().timers_live(), 0);
}

#[test]
fn a_panic_leaves_the_budget_as_it_was() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let _ = panicked(|| {
        runtime.block_on(async {
            for _ in 0..100 {
                sleep(std::time::Duration::ZERO).await;
            }
            panic!("with most of the budget spent");
        })
    });
    // Outside of tasks there is no limit.
    let _entered = runtime.handle().enter();
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..1000 {
        assert!(pin!(sleep(std::time::Duration::ZERO)).poll(&mut cx).is_ready());
    }
}

#[test]
fn a_task_that_panics_leaves_its_timers_behind_clean() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..20)
            .map(|n| {
                spawn(async move {
                    let mut others: Vec<_> = (0..5).map(|k| Box::pin(sleep(HOUR * k + HOUR))).collect();
                    for other in &mut others {
                        assert!(poll!(other.as_mut()).is_pending());
                    }
                    if timeout(us(50 * n), pending::<()>()).await.is_err() {
                        resume_unwind(Box::new(n));
                    }
                })
            })
            .collect();
        for (n, task) in (0_u64..).zip(tasks) {
            let error = task.await.unwrap_err();
            assert_eq!(error.into_panic().downcast_ref(), Some(&n));
        }
        assert_eq!(metrics().timers_live(), 0);
    });
}

/// A waker whose clone panics as many times as it is told to.
fn fragile(panics: &'static AtomicUsize) -> Waker {
    fn clone(data: *const ()) -> RawWaker {
        // SAFETY: `data` comes from the `&'static AtomicUsize` that `fragile` was given.
        let panics = unsafe { &*data.cast::<AtomicUsize>() };
        if panics.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok() {
            panic!("a clone");
        }
        RawWaker::new(data, &VTABLE)
    }
    fn nothing(_: *const ()) {}
    const VTABLE: RawWakerVTable = RawWakerVTable::new(clone, nothing, nothing, nothing);
    // SAFETY: the functions of the table are thread-safe and own nothing: the data is a static's address.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::from_ref(panics).cast(), &VTABLE)) }
}

// tokio #3689: the cell stayed locked, and no later waker was ever registered.
#[test]
fn a_clone_that_panics_does_not_poison_the_timer() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    // Without a budget, which a slow machine uses up.
    runtime.block_on(unconstrained(async {
        let bad = fragile(&PANICS);
        let mut cx = Context::from_waker(&bad);
        // At the first poll, and when the waker is replaced.
        for registered in [false, true] {
            let mut timer = Box::pin(sleep(ms(20)));
            if registered {
                let _ = poll!(timer.as_mut());
            }
            PANICS.store(1, Ordering::SeqCst);
            let panic = panicked(|| timer.as_mut().poll(&mut cx));
            assert_eq!(panic.message, "a clone");
            timer.await;
        }
        // The handle of a task.
        let mut task = Box::pin(spawn(sleep(ms(5))));
        PANICS.store(1, Ordering::SeqCst);
        let panic = panicked(|| task.as_mut().poll(&mut cx));
        assert_eq!(panic.message, "a clone");
        task.await.unwrap();
        turn().await;
        assert_eq!(metrics().timers_live(), 0);
    }));
}

#[test]
fn a_waker_that_panics_as_it_is_dropped_costs_a_set_no_result() {
    thread_local! {
        static ON_CLONE: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
    }
    fn clone(_: *const ()) -> RawWaker {
        ON_CLONE.take().into_iter().for_each(|on_clone| on_clone());
        RawWaker::new(std::ptr::null(), &CLONED)
    }
    fn nothing(_: *const ()) {}
    fn panics(_: *const ()) {
        panic!("a drop");
    }
    static FIRST: RawWakerVTable = RawWakerVTable::new(clone, nothing, nothing, nothing);
    static CLONED: RawWakerVTable = RawWakerVTable::new(clone, nothing, nothing, panics);
    // SAFETY: the functions of the tables do not touch the data.
    let waker = unsafe { Waker::new(std::ptr::null(), &FIRST) };

    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let mut set = JoinSet::new();
    set.spawn_on(async { 5 }, runtime.handle());
    // The task ends while the set clones the waker, as it might on another thread.
    ON_CLONE.set(Some(Box::new(move || runtime.block_on(yield_now()))));
    let panic = panicked(|| set.poll_join_next(&mut Context::from_waker(&waker)));
    assert_eq!((panic.message.as_str(), set.len()), ("a drop", 1));
    let next = set.poll_join_next(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(next, Poll::Ready(Some(Ok(5)))), "{next:?}");
}

#[test]
fn an_error_may_be_shown_while_it_is_shown() {
    /// A writer that shows the error as it is written to.
    struct Again(Arc<JoinError>, usize);
    impl Write for Again {
        fn write_str(&mut self, _: &str) -> std::fmt::Result {
            self.1 += 1;
            assert!(self.1 > 1 || self.0.to_string() == "the task panicked: boo");
            Ok(())
        }
    }
    let _watchdog = watchdog(LONG);
    let error =
        Runtime::new().unwrap().block_on(async { spawn(async { panic!("boo") }).await.map(drop::<()>) });
    let error = Arc::new(error.unwrap_err());
    let mut writer = Again(error.clone(), 0);
    write!(writer, "{error} {error:?}").unwrap();
    assert!(writer.1 > 2);
}

#[test]
fn what_is_unwind_safe_in_tokio_is_so_here() {
    fn both<T: UnwindSafe + RefUnwindSafe>() {}
    both::<Runtime>();
    both::<mainspring::Handle>();
    both::<mainspring::task::JoinHandle<std::rc::Rc<std::cell::Cell<u8>>>>();
    both::<mainspring::task::AbortHandle>();
    #[cfg(feature = "net")]
    {
        both::<mainspring::net::TcpListener>();
        both::<mainspring::net::TcpStream>();
        both::<mainspring::net::UdpSocket>();
    }
    // This is true at run time, too: a runtime continues after a panic in the middle of a turn.
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let task = runtime.spawn(sleep(ms(1)));
    let panic = std::panic::catch_unwind(|| runtime.block_on(async { resume_unwind(Box::new("out of it")) }));
    assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"out of it"));
    runtime.block_on(task).unwrap();
}
