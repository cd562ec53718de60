//! A runtime that is dropped: everything in it is freed, and what outlives it is told.

mod common;

use std::cell::RefCell;
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use common::{DropToken, Dropped, HOUR, LONG, Probe, Random, ms, panicked, turn, us, watchdog};
use futures::poll;
use mainspring::runtime::Handle;
use mainspring::time::{Instant, Sleep, TrySleep, interval, sleep, try_sleep};
use mainspring::{Runtime, block_on, spawn};

#[test]
fn ten_thousand_tasks_and_timers_are_dropped_once_in_order() {
    let _watchdog = watchdog(LONG);
    struct Note(usize, Rc<RefCell<Vec<usize>>>);
    impl Drop for Note {
        fn drop(&mut self) {
            self.1.borrow_mut().push(self.0);
        }
    }
    let order = Rc::new(RefCell::new(Vec::new()));
    let runtime = Runtime::new().unwrap();
    let handles: Vec<_> = (0..10_000)
        .map(|number| {
            let note = Note(number, order.clone());
            runtime.spawn(async move {
                let _note = note;
                sleep(HOUR + us(number as u64)).await;
            })
        })
        .collect();
    runtime.block_on(async {
        while common::metrics().timers_live() < 10_000 {
            turn().await;
        }
    });
    assert!(order.borrow().is_empty());
    drop(runtime);
    assert_eq!(*order.borrow(), (0..10_000).collect::<Vec<_>>());
    for handle in handles {
        assert!(handle.is_finished());
        assert!(futures::executor::block_on(handle).unwrap_err().is_cancelled());
    }
}

#[test]
fn every_waker_of_a_timer_is_woken_once_and_dropped() {
    let _watchdog = watchdog(LONG);
    let probes: Vec<_> = (0..100).map(|_| Probe::new()).collect();
    let mut sleeps: Vec<Pin<Box<TrySleep>>> = Vec::new();
    block_on(async {
        for probe in &probes {
            let mut sleep = Box::pin(try_sleep(HOUR));
            assert!(probe.poll(sleep.as_mut()).is_pending());
            sleeps.push(sleep);
        }
        turn().await;
    });
    for (probe, sleep) in probes.iter().zip(&mut sleeps) {
        assert_eq!(probe.wakes(), 1);
        assert_eq!(Arc::strong_count(probe), 1, "a waker was kept");
        assert!(matches!(probe.poll(sleep.as_mut()), Poll::Ready(Err(error)) if error.is_shutdown()));
    }
    drop(sleeps);
    assert!(probes.iter().all(|probe| probe.wakes() == 1));
}

#[test]
fn a_sleep_that_is_awaited_elsewhere_ends_with_an_error() {
    let _watchdog = watchdog(LONG);
    let runtime = Runtime::new().unwrap();
    let _entered = runtime.handle().enter();
    let polite = try_sleep(HOUR);
    let line = line!() + 1;
    let rude = sleep(HOUR);
    let polite = thread::spawn(move || futures::executor::block_on(polite));
    let rude = thread::spawn(move || panicked(|| futures::executor::block_on(rude)));
    runtime.block_on(async {
        while common::metrics().timers_live() < 2 {
            sleep(ms(1)).await;
        }
    });
    drop(_entered);
    drop(runtime);
    assert!(polite.join().unwrap().unwrap_err().is_shutdown());
    let panic = rude.join().unwrap();
    assert!(panic.message.contains("runtime was dropped"), "{}", panic.message);
    assert!(panic.message.contains(&format!("{}:{line}", file!())), "{}", panic.message);
}

#[test]
fn what_fired_before_stays_fired_and_what_was_shut_down_stays_so() {
    let _watchdog = watchdog(LONG);
    let probe = Probe::new();
    let (mut fired, mut waiting) = block_on(async {
        let mut fired = Box::pin(try_sleep(ms(1)));
        let mut waiting = Box::pin(sleep(HOUR));
        let _ = probe.poll(fired.as_mut());
        let _ = probe.poll(waiting.as_mut());
        sleep(ms(3)).await;
        (fired, waiting)
    });
    for _ in 0..2 {
        assert_eq!(probe.poll(fired.as_mut()), Poll::Ready(Ok(())));
    }
    // tokio #2924, #8435: operations after the shutdown removed its mark.
    for at in [Instant::now() - HOUR, Instant::now() + HOUR] {
        waiting.as_mut().reset(at);
        let panic = panicked(|| probe.poll(waiting.as_mut()));
        assert!(panic.message.contains("runtime was dropped"), "{}", panic.message);
    }
}

#[test]
fn after_the_shutdown_a_registration_is_an_error_at_once() {
    let handle = block_on(async { Handle::current() });
    let _entered = handle.enter();
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..2 {
        let mut late = pin!(try_sleep(HOUR));
        assert!(matches!(late.as_mut().poll(&mut cx), Poll::Ready(Err(error)) if error.is_shutdown()));
        assert!(matches!(late.as_mut().poll(&mut cx), Poll::Ready(Err(error)) if error.is_shutdown()));
    }
    // A future that needs no driver works without one.
    assert_eq!(pin!(try_sleep(Duration::ZERO)).poll(&mut cx), Poll::Ready(Ok(())));
    assert_eq!(handle.metrics().timers_live(), 0);
}

#[test]
fn sleeps_are_dropped_elsewhere_while_the_runtime_is_dropped() {
    let _watchdog = watchdog(2 * LONG);
    let mut random = Random::new(11);
    for _ in 0..100 {
        let probe = Probe::new();
        let runtime = Runtime::new().unwrap();
        let mut sleeps: Vec<Pin<Box<TrySleep>>> = {
            let _entered = runtime.handle().enter();
            (0..100).map(|n| Box::pin(try_sleep(HOUR * n + us(100)))).collect()
        };
        for sleep in &mut sleeps {
            let _ = probe.poll(sleep.as_mut());
        }
        let go = Arc::new(AtomicBool::new(false));
        let start = go.clone();
        let polled = sleeps.split_off(50);
        let dropper = thread::spawn(move || {
            while !start.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            drop(sleeps);
        });
        let start = go.clone();
        let poller = thread::spawn(move || {
            while !start.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            let probe = Probe::new();
            for mut sleep in polled {
                // A different kind of waker each time, so that it is replaced.
                for _ in 0..3 {
                    let _ = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    let _ = probe.poll(sleep.as_mut());
                }
                while probe.poll(sleep.as_mut()).is_pending() {
                    thread::yield_now();
                }
            }
            assert_eq!(Arc::strong_count(&probe), 1, "a waker was kept");
        });
        go.store(true, Ordering::SeqCst);
        for _ in 0..random.below(500) {
            std::hint::spin_loop();
        }
        drop(runtime);
        dropper.join().unwrap();
        poller.join().unwrap();
        assert_eq!(Arc::strong_count(&probe), 1, "a waker was kept");
    }
}

// tokio #593, #5179.
#[test]
fn a_runtime_in_a_thread_local_is_dropped_with_its_thread() {
    let _watchdog = watchdog(LONG);
    thread_local! {
        static SLEEP_BEFORE: RefCell<Option<Pin<Box<Sleep>>>> = const { RefCell::new(None) };
        static RUNTIME: RefCell<Option<Runtime>> = const { RefCell::new(None) };
        static SLEEP_AFTER: RefCell<Option<Pin<Box<Sleep>>>> = const { RefCell::new(None) };
    }
    /// Uses the runtime while it is dropped.
    struct Last(#[allow(dead_code)] DropToken);
    impl Drop for Last {
        fn drop(&mut self) {
            let mut sleep = pin!(try_sleep(HOUR));
            let _ = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let _ = Instant::now();
            let _ = Handle::try_current();
        }
    }
    let dropped = Dropped::default();
    for order in 0..2 {
        let (token, in_task) = (dropped.token(), Last(dropped.token()));
        thread::spawn(move || {
            // Destructors run in the order of the first use, or in the reverse order: both cases are tested.
            let first = if order == 0 { &SLEEP_BEFORE } else { &SLEEP_AFTER };
            first.with(|sleep| assert!(sleep.borrow().is_none()));
            let runtime = Runtime::new().unwrap();
            let mut sleeps: Vec<_> = runtime.block_on(async {
                drop(spawn(async move {
                    let _in_task = in_task;
                    sleep(HOUR).await;
                    drop(token);
                }));
                turn().await;
                (0..2).map(|_| Box::pin(sleep(HOUR))).collect()
            });
            for sleep in &mut sleeps {
                assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            }
            RUNTIME.with(|place| *place.borrow_mut() = Some(runtime));
            SLEEP_AFTER.with(|place| *place.borrow_mut() = sleeps.pop());
            SLEEP_BEFORE.with(|place| *place.borrow_mut() = sleeps.pop());
        })
        .join()
        .unwrap();
    }
    assert_eq!(dropped.count(), 4);
}

// tokio #3477.
#[test]
fn a_task_that_keeps_its_own_waker_is_freed() {
    let _watchdog = watchdog(LONG);
    let dropped = Dropped::default();
    let runtime = Runtime::new().unwrap();
    for _ in 0..10 {
        let token = dropped.token();
        let mut kept = Vec::new();
        drop(runtime.spawn(poll_fn(move |cx| {
            let _token = &token;
            kept.push(cx.waker().clone());
            Poll::<()>::Pending
        })));
    }
    runtime.block_on(turn());
    assert_eq!(dropped.count(), 0);
    drop(runtime);
    assert_eq!(dropped.count(), 10);
}

// tokio's `wake_while_rt_is_dropping`.
#[test]
fn a_task_may_spawn_sleep_and_wake_as_it_is_dropped() {
    let _watchdog = watchdog(LONG);
    type Wakers = Rc<RefCell<Vec<Waker>>>;
    struct Busy(Wakers, Arc<AtomicUsize>, #[allow(dead_code)] DropToken);
    impl Drop for Busy {
        fn drop(&mut self) {
            let token = Dropped(self.1.clone()).token();
            let task = spawn(async move { drop(token) });
            assert!(task.is_finished(), "a task was taken in by a runtime that is going");
            drop(task);
            assert!(Handle::current().is_shutdown());
            let mut last = pin!(try_sleep(HOUR));
            let _ = last.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let _ = interval(ms(1));
            // Its own waker, and those of the other tasks, some of which are already gone.
            self.0.borrow().iter().for_each(Waker::wake_by_ref);
        }
    }
    let wakers = Wakers::default();
    let spawned = Arc::new(AtomicUsize::new(0));
    let dropped = Dropped::default();
    let runtime = Runtime::new().unwrap();
    for _ in 0..20 {
        let busy = Busy(wakers.clone(), spawned.clone(), dropped.token());
        drop(runtime.spawn(async move {
            let busy = busy;
            poll_fn(|cx| {
                busy.0.borrow_mut().push(cx.waker().clone());
                Poll::Ready(())
            })
            .await;
            pending::<()>().await;
        }));
    }
    runtime.block_on(turn());
    assert_eq!(wakers.borrow().len(), 20);
    drop(runtime);
    assert_eq!((dropped.count(), spawned.load(Ordering::SeqCst)), (20, 20));
    // And long afterwards.
    let wakers = wakers.take();
    thread::spawn(move || wakers.into_iter().for_each(Waker::wake)).join().unwrap();
}

#[test]
fn a_waker_that_panics_at_the_shutdown_loses_nobody() {
    let _watchdog = watchdog(LONG);
    for bad_at in [0, 1, 31, 32, 39] {
        let probes = Probe::forty(bad_at);
        let runtime = Runtime::new().unwrap();
        let _sleeps = Probe::all_wait(&probes, &runtime, || sleep(HOUR));
        let dropped = Dropped::default();
        let token = dropped.token();
        drop(runtime.spawn(async move {
            let _token = token;
            pending::<()>().await;
        }));
        let panic = panicked(|| drop(runtime));
        assert_eq!(panic.message, format!("waker {bad_at}"));
        assert!(probes.iter().all(|probe| probe.wakes() == 1));
        assert_eq!(dropped.count(), 1);
        assert!(probes.iter().all(|probe| Arc::strong_count(probe) == 1));
    }
}

#[test]
fn a_panic_out_of_block_on_may_meet_one_of_the_shutdown() {
    let _watchdog = watchdog(LONG);
    let probe = Probe::with(|| panic!("a second one"));
    let kept = Mutex::new(None);
    let panic = panicked(|| {
        block_on(async {
            let mut sleep = Box::pin(sleep(HOUR));
            assert!(probe.poll(sleep.as_mut()).is_pending());
            *kept.lock().unwrap() = Some(sleep);
            panic!("the first one");
        })
    });
    // Two panics at a time would have ended the process.
    assert_eq!(panic.message, "the first one");
    assert_eq!((probe.wakes(), Arc::strong_count(&probe)), (1, 1));
}

#[test]
fn a_handle_awaited_elsewhere_hears_of_the_shutdown() {
    let _watchdog = watchdog(LONG);
    let (tell, task) = mpsc::channel();
    let waiter = thread::spawn(move || {
        let task: mainspring::task::JoinHandle<()> = task.recv().unwrap();
        futures::executor::block_on(task).unwrap_err().is_cancelled()
    });
    let runtime = Runtime::new().unwrap();
    tell.send(runtime.spawn(sleep(HOUR))).unwrap();
    runtime.block_on(sleep(ms(10)));
    drop(runtime);
    assert!(waiter.join().unwrap());
}

#[test]
fn a_runtime_that_never_ran_can_be_dropped() {
    let dropped = Dropped::default();
    let runtime = Runtime::new().unwrap();
    let (one, two) = (dropped.token(), dropped.token());
    let here = runtime.spawn(async move { drop(one) });
    let there = runtime.handle().spawn(async move { drop(two) });
    drop(runtime);
    assert_eq!(dropped.count(), 2);
    assert!(here.is_finished() && there.is_finished());
    assert!(futures::executor::block_on(there).unwrap_err().is_cancelled());
}

#[test]
fn spawns_from_other_threads_race_the_shutdown_and_none_is_lost() {
    let _watchdog = watchdog(2 * LONG);
    for _ in 0..100 {
        let runtime = Runtime::new().unwrap();
        let handle = runtime.handle().clone();
        let dropped = Dropped::default();
        let tokens: Vec<_> = (0..50).map(|_| dropped.token()).collect();
        let spawner = thread::spawn(move || {
            tokens.into_iter().map(|token| handle.spawn(async move { drop(token) })).collect::<Vec<_>>()
        });
        runtime.block_on(turn());
        drop(runtime);
        for task in spawner.join().unwrap() {
            assert!(task.is_finished());
            let result = futures::executor::block_on(task);
            assert!(result.is_ok() || result.is_err_and(|error| error.is_cancelled()));
        }
        assert_eq!(dropped.count(), 50);
    }
}

#[test]
fn a_sleep_may_be_moved_between_runtimes_and_outlive_one() {
    let _watchdog = watchdog(LONG);
    let mut orphan = Box::pin(common::orphan(|| try_sleep(HOUR)));
    block_on(async {
        assert!(matches!(poll!(orphan.as_mut()), Poll::Ready(Err(error)) if error.is_shutdown()));
    });
}

#[cfg(feature = "net")]
#[test]
fn what_reads_writes_accepts_or_waits_fails_after_the_end_of_the_runtime() {
    use std::io::{IoSlice, IoSliceMut};

    use futures::{AsyncReadExt, AsyncWriteExt};
    use mainspring::io::Interest;
    use mainspring::net::{TcpListener, TcpStream, UdpSocket};

    let runtime = Runtime::new().unwrap();
    let (mut stream, _peer, listener, udp) = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        udp.connect(udp.local_addr().unwrap()).await.unwrap();
        // There is something to read in both, and it is known.
        peer.write_all(b"hello").await.unwrap();
        udp.send(b"hello").await.unwrap();
        stream.readable().await.unwrap();
        udp.readable().await.unwrap();
        (stream, peer, listener, udp)
    });
    drop(runtime);
    let (address, mut buf) = (udp.local_addr().unwrap(), [0; 8]);
    futures::executor::block_on(async {
        let results = [
            stream.read(&mut buf).await.err(),
            stream.read(&mut []).await.err(),
            stream.read_vectored(&mut [IoSliceMut::new(&mut buf)]).await.err(),
            stream.write(b"x").await.err(),
            stream.write(b"").await.err(),
            stream.write_vectored(&[IoSlice::new(b"x")]).await.err(),
            stream.try_read(&mut buf).err(),
            stream.try_read_vectored(&mut [IoSliceMut::new(&mut buf)]).err(),
            stream.try_write(b"x").err(),
            stream.try_write_vectored(&[IoSlice::new(b"x")]).err(),
            stream.peek(&mut buf).await.err(),
            stream.readable().await.err(),
            stream.writable().await.err(),
            stream.try_io(Interest::Readable, || Ok(())).err(),
            stream.async_io(Interest::Writable, || Ok(())).await.err(),
            listener.accept().await.err(),
            udp.recv(&mut buf).await.err(),
            udp.recv_from(&mut buf).await.err(),
            udp.peek(&mut buf).await.err(),
            udp.peek_from(&mut buf).await.err(),
            udp.try_recv(&mut buf).err(),
            udp.try_recv_from(&mut buf).err(),
            udp.send(b"x").await.err(),
            udp.send_to(b"x", address).await.err(),
            udp.try_send(b"x").err(),
            udp.try_send_to(b"x", address).err(),
            udp.readable().await.err(),
            udp.writable().await.err(),
        ];
        for (number, error) in results.into_iter().enumerate() {
            let said = error.map(|error| error.to_string()).unwrap_or_default();
            assert!(said.contains("has shut down"), "the operation number {number}: {said:?}");
        }
        // What only asks or sets the system still works, and so does an end.
        stream.set_nodelay(true).unwrap();
        assert!(stream.nodelay().unwrap());
        stream.close().await.unwrap();
    });
}
