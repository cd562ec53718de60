//! Panics that come after another one, with payloads that panic when they are dropped: no wake-up and no answer
//! is lost because of them, the first panic is propagated, and the process lives on.

mod common;

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use common::{HOUR, LONG, Probe, ms, watchdog};
use futures::StreamExt;
use mainspring::task::JoinError;
use mainspring::time::{TimerMap, advance, pause, sleep};
use mainspring::{Runtime, spawn};

/// Its drop panics with another bomb, whose drop panics with a third, and so on.
struct Bomb(usize);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 {
            panic_any(Bomb(self.0 - 1));
        }
    }
}

/// Nested deeper than any code follows.
const DEEP: usize = 50;

/// The first panic can be told from the others.
fn panic_as(number: usize) -> ! {
    if number == 0 { panic!("the first") } else { panic_any(Bomb(DEEP)) }
}

#[track_caller]
fn assert_first(payload: Box<dyn Any + Send>) {
    match payload.downcast::<&str>() {
        Ok(message) => assert_eq!(*message, "the first"),
        Err(other) => {
            // Not dropped: that would panic in turn.
            std::mem::forget(other);
            panic!("another panic than the first came out");
        }
    }
}

#[track_caller]
fn first_of(f: impl FnOnce()) {
    assert_first(catch_unwind(AssertUnwindSafe(f)).expect_err("nobody panicked"));
}

/// Some probes that panic, the first of them as told, and one that only counts.
fn panicking(numbers: &Arc<AtomicUsize>, n: usize) -> Vec<Arc<Probe>> {
    let bad = |_| {
        let numbers = numbers.clone();
        Probe::with(move || panic_as(numbers.fetch_add(1, Ordering::SeqCst)))
    };
    (0..n).map(bad).chain([Probe::new()]).collect()
}

#[test]
fn every_answer_is_given_although_several_panic() {
    let _watchdog = watchdog(LONG);
    for by_drop in [false, true] {
        let runtime = Runtime::new().unwrap();
        let (sender, receiver) = channel();
        for number in 0..4 {
            let sender = sender.clone();
            runtime.handle().request_dump(move |dump| {
                sender.send(dump.is_ok()).unwrap();
                if number < 3 {
                    panic_as(number);
                }
            });
        }
        let mut answers = Vec::new();
        if by_drop {
            drop(runtime);
        } else {
            runtime.block_on(async {
                while answers.len() < 4 {
                    sleep(ms(1)).await;
                    answers.extend(receiver.try_iter());
                }
            });
        }
        answers.extend(receiver.try_iter());
        assert_eq!(answers, [!by_drop; 4]);
    }
}

#[test]
fn every_entry_of_a_map_has_its_task_although_several_panic() {
    let _watchdog = watchdog(LONG);
    let numbers = Rc::new(Cell::new(0));
    struct InDrop<F: Fn()>(F);
    impl<F: Fn()> Drop for InDrop<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    let (mut calls, mut panics) = (0, Vec::new());
    mainspring::block_on(async {
        let mut map = TimerMap::new();
        for n in 0..9 {
            map.insert(n, (), ms(1));
        }
        map.close();
        let tasks = map.map(|(n, ())| {
            let numbers = numbers.clone();
            let next = move || panic_as(numbers.replace(numbers.get() + 1));
            spawn(async move {
                let _in_drop = (n % 2 == 0).then(|| InDrop(&next));
                sleep(ms(1)).await;
                if n % 2 == 1 {
                    next();
                }
            })
        });
        let mut tasks = tasks.buffer_unordered(2);
        while let Some(ended) = tasks.next().await {
            calls += 1;
            panics.extend(ended.err().map(JoinError::into_panic));
        }
    });
    assert_eq!((calls, panics.len()), (9, 9));
    let mut panics = panics.into_iter();
    assert_first(panics.next().unwrap());
    // Not dropped: they would panic in turn.
    panics.for_each(std::mem::forget);
}

#[test]
fn a_dropped_runtime_tells_everybody_although_all_of_them_panic() {
    let _watchdog = watchdog(LONG);
    for unwinding in [false, true] {
        let runtime = Runtime::new().unwrap();
        let numbers = Arc::new(AtomicUsize::new(0));
        // Wakers that wait for an advance, for a snapshot, and for a socket.
        let advances = panicking(&numbers, 3);
        let mut futures = Vec::new();
        {
            let _entered = runtime.handle().enter();
            pause();
            futures.extend(advances.iter().map(|_| Box::pin(advance(HOUR))));
            for (probe, future) in advances.iter().zip(&mut futures) {
                assert!(probe.poll(future.as_mut()).is_pending());
            }
        }
        let answers = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            let answers = answers.clone();
            runtime.handle().request_dump(move |dump| {
                assert!(dump.is_err());
                answers.fetch_add(1, Ordering::SeqCst);
                // The panic stays with the task that answers.
                panic_any(Bomb(DEEP));
            });
        }
        #[cfg(feature = "net")]
        let (sockets, _listeners) = sockets::wait(&runtime, &numbers);

        if unwinding {
            struct Holds(Option<Runtime>);
            impl Drop for Holds {
                fn drop(&mut self) {
                    drop(self.0.take());
                }
            }
            let holds = Holds(Some(runtime));
            first_of(move || {
                let _holds = holds;
                panic!("the first");
            });
        } else {
            first_of(|| drop(runtime));
        }
        assert!(advances.iter().all(|probe| probe.wakes() == 1));
        assert_eq!(answers.load(Ordering::SeqCst), 3);
        #[cfg(feature = "net")]
        assert!(sockets.iter().all(|probe| probe.wakes() == 1));
    }
}

#[cfg(feature = "net")]
mod sockets {
    use super::*;
    use mainspring::net::UdpSocket;
    use std::task::Context;

    /// Sockets to which nothing is sent, each with a waker that waits.
    pub(super) fn wait(runtime: &Runtime, numbers: &Arc<AtomicUsize>) -> (Vec<Arc<Probe>>, Vec<UdpSocket>) {
        let _entered = runtime.handle().enter();
        let probes = panicking(numbers, 3);
        let bind = |probe: &Arc<Probe>| {
            let socket = UdpSocket::from_std(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
            assert!(socket.poll_recv(&mut Context::from_waker(&probe.waker()), &mut [0; 8]).is_pending());
            socket
        };
        let sockets = probes.iter().map(bind).collect();
        (probes, sockets)
    }

    #[test]
    fn every_socket_is_told_although_several_wakers_panic() {
        let _watchdog = watchdog(LONG);
        let runtime = Runtime::new().unwrap();
        let numbers = Arc::new(AtomicUsize::new(0));
        let (probes, sockets) = wait(&runtime, &numbers);
        // One turn first, so that the first looks find nothing.
        runtime.block_on(sleep(ms(1)));
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for socket in &sockets {
            sender.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        }
        let told = || probes.iter().all(|probe| probe.wakes() == 1);
        let mut panics = Vec::new();
        while !told() {
            panics.extend(catch_unwind(AssertUnwindSafe(|| runtime.block_on(sleep(ms(1))))).err());
        }
        let mut panics = panics.into_iter();
        assert_first(panics.next().expect("nobody panicked"));
        panics.for_each(std::mem::forget);
        // And the sockets receive.
        runtime.block_on(async {
            for socket in sockets {
                let mut buf = [0; 8];
                assert_eq!(socket.recv(&mut buf).await.unwrap(), 1);
            }
        });
    }
}
