//! Delivery of batches that the test makes up.

use super::super::source::{CLOSED, READY};
use super::*;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::task::Poll;
use std::thread;

fn read(token: usize) -> Occurrence {
    Occurrence { token, read: READY, write: 0 }
}

fn write(token: usize) -> Occurrence {
    Occurrence { token, read: 0, write: READY }
}

fn deliver(io: &Io, batch: &[Occurrence]) -> usize {
    let mut wakers = Vec::new();
    let delivered = io.deliver(batch.iter().copied(), &mut wakers);
    let mut panics = Panics::new();
    panics.wake_all(wakers);
    panics.resume();
    delivered
}

/// Sources with the tokens 0, 1, 2, …, each waited for in both directions.
fn waiting(io: &Arc<Io>, n: usize) -> Vec<(Registered<Fake>, Arc<Count>, Arc<Count>)> {
    let make = |_| {
        let source = Registered::new(io, Fake).unwrap();
        let ((readers, reader), (writers, writer)) = (counter(), counter());
        wait(&source, Way::Read, &reader);
        wait(&source, Way::Write, &writer);
        (source, readers, writers)
    };
    (0..n).map(make).collect()
}

#[test]
fn a_direction_is_woken_by_its_own_events_only() {
    let reactor = Reactor::new().unwrap();
    let sources = waiting(reactor.io(), 1);
    let (source, readers, writers) = &sources[0];
    assert_eq!(deliver(reactor.io(), &[read(0)]), 1);
    assert_eq!((readers.get(), writers.get()), (1, 0));
    assert!(is_ready(source, Way::Read) && !is_ready(source, Way::Write));
    assert_eq!(deliver(reactor.io(), &[write(0)]), 1);
    assert_eq!((readers.get(), writers.get()), (1, 1));
    // tokio #2887: waiting to read does not make it unwritable.
    wait(source, Way::Read, Waker::noop());
    assert!(!is_ready(source, Way::Read) && is_ready(source, Way::Write));
}

/// tokio #8054: with one tick for both directions, a stream of events for one keeps the other ready, and its
/// task busy.
#[test]
fn events_for_one_direction_do_not_keep_the_other_from_waiting() {
    let reactor = Reactor::new().unwrap();
    let source = Registered::new(reactor.io(), Fake).unwrap();
    let mut tries = 0;
    let polled = source.poll_io(&mut Context::from_waker(Waker::noop()), Way::Read, |fake| {
        tries += 1;
        assert!(tries < 100, "spins");
        deliver(reactor.io(), &[write(0)]);
        blocked(fake)
    });
    assert!(polled.is_pending());
    assert_eq!(tries, 1);
}

/// tokio #6133: the other way round, an event for this direction is worth another try.
#[test]
fn an_event_during_the_operation_is_worth_another_try() {
    let reactor = Reactor::new().unwrap();
    let source = Registered::new(reactor.io(), Fake).unwrap();
    let mut tries = 0;
    let polled = source.poll_io(&mut Context::from_waker(Waker::noop()), Way::Read, |fake| {
        tries += 1;
        if tries == 1 {
            deliver(reactor.io(), &[read(0)]);
            return blocked(fake);
        }
        Ok(())
    });
    assert!(polled.is_ready());
    assert_eq!(tries, 2);
}

#[test]
fn an_interrupted_operation_is_repeated() {
    let reactor = Reactor::new().unwrap();
    let source = Registered::new(reactor.io(), Fake).unwrap();
    for n in 0..10 {
        let mut left = n;
        let result = source.try_io(Way::Read, |_| {
            if left == 0 {
                return Ok(n);
            }
            left -= 1;
            Err(ErrorKind::Interrupted.into())
        });
        assert_eq!(result.unwrap(), n);
    }
}

#[test]
fn empty_shuffled_partial_and_doubled_batches_come_to_the_same() {
    const N: usize = 7;
    let all: Vec<_> = (0..N).flat_map(|token| [read(token), write(token)]).collect();
    let reversed: Vec<_> = all.iter().rev().copied().collect();
    let shuffled: Vec<_> = (0..all.len()).map(|i| all[i * 5 % all.len()]).collect();
    let doubled: Vec<_> = all.iter().flat_map(|&what| [what, what]).collect();
    let strangers: Vec<_> = all.iter().flat_map(|&what| [read(N), what, write(usize::MAX / 2)]).collect();
    for batch in [all, reversed, shuffled, doubled, strangers] {
        for size in [1, 2, 3, 100] {
            let reactor = Reactor::new().unwrap();
            let sources = waiting(reactor.io(), N);
            for part in batch.chunks(size) {
                deliver(reactor.io(), &[]);
                deliver(reactor.io(), part);
            }
            for (source, readers, writers) in &sources {
                assert_eq!((readers.get(), writers.get()), (1, 1));
                assert!(is_ready(source, Way::Read) && is_ready(source, Way::Write));
            }
        }
    }
}

#[test]
fn an_event_wakes_all_who_wait() {
    let reactor = Reactor::new().unwrap();
    let source = Registered::new(reactor.io(), Fake).unwrap();
    let (polled, poller) = counter();
    wait(&source, Way::Read, &poller);
    let counters: Vec<_> = (0..5).map(|_| counter()).collect();
    let mut futures: Vec<_> = (0..5).map(|_| Box::pin(source.async_io(Way::Read, blocked))).collect();
    for (future, (_, waker)) in futures.iter_mut().zip(&counters) {
        // Twice: waiting again takes no second place.
        for _ in 0..2 {
            assert!(future.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        }
    }
    assert_eq!(source.waiters(Way::Read), 5);
    // A waiter that goes away does not affect the others.
    drop(futures.remove(2));
    assert_eq!(source.waiters(Way::Read), 4);
    deliver(reactor.io(), &[read(0)]);
    assert_eq!(polled.get(), 1);
    assert_eq!(counters.iter().map(|(count, _)| count.get()).collect::<Vec<_>>(), [1, 1, 0, 1, 1]);
    drop(futures);
    assert_eq!(source.waiters(Way::Read), 0);
}

#[test]
fn the_latest_waker_is_the_one_that_is_woken() {
    let reactor = Reactor::new().unwrap();
    let source = Registered::new(reactor.io(), Fake).unwrap();
    let ((first, one), (second, two)) = (counter(), counter());
    let mut future = pin!(source.async_io(Way::Read, blocked));
    for waker in [&one, &two] {
        wait(&source, Way::Write, waker);
        assert!(future.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    }
    deliver(reactor.io(), &[Occurrence { token: 0, read: CLOSED, write: CLOSED }]);
    assert_eq!((first.get(), second.get()), (0, 2));
}

/// After a short read there is nothing to do until there is news, except at the end of a stream.
#[test]
#[cfg(any(target_os = "linux", target_os = "android"))]
fn a_short_read_waits_for_news() {
    let reactor = Reactor::new().unwrap();
    let source = Registered::new(reactor.io(), Fake).unwrap();
    let read_some = |n| source.poll_stream(&mut Context::from_waker(Waker::noop()), Way::Read, 10, |_| Ok(n));
    assert!(read_some(10).is_ready());
    assert!(is_ready(&source, Way::Read));
    assert!(read_some(3).is_ready());
    assert!(!is_ready(&source, Way::Read));
    assert!(read_some(3).is_pending());
    deliver(reactor.io(), &[Occurrence { token: 0, read: READY | CLOSED, write: 0 }]);
    assert!(read_some(3).is_ready());
    assert!(read_some(0).is_ready());
    assert!(read_some(0).is_ready());
}

/// A read that ended where something was sent along says nothing about the data behind it.
#[test]
#[cfg(any(target_os = "linux", target_os = "android"))]
fn a_read_that_was_ended_is_tried_again() {
    let reactor = Reactor::new().unwrap();
    let source = Registered::new(reactor.io(), Fake).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let mut read_some = |goes_on| source.poll_segmented(&mut cx, Way::Read, 10, |_| Ok((3, goes_on)));
    assert!(read_some(false).is_ready() && read_some(false).is_ready());
    assert!(read_some(true).is_ready());
    assert!(read_some(true).is_pending());
}

/// Items from a "kernel" that another thread fills and announces, each item once the last one was taken. So the reader has to
/// wait for every item, and the announcement hits any moment of falling asleep.
#[test]
fn no_event_is_lost_between_threads() {
    const ITEMS: usize = 40_000;
    let reactor = Reactor::new().unwrap();
    let io = reactor.io().clone();
    let source = Registered::new(&io, Fake).unwrap();
    let (kernel, given_up) = (AtomicUsize::new(0), AtomicBool::new(false));
    let take = |_: &Fake| {
        let taken = kernel.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1));
        taken.map(drop).map_err(|_| ErrorKind::WouldBlock.into())
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for item in 0..ITEMS {
                for _ in 0..item % 100 {
                    std::hint::spin_loop();
                }
                kernel.fetch_add(1, SeqCst);
                deliver(&io, &[read(0)]);
                while kernel.load(SeqCst) > 0 && !given_up.load(SeqCst) {
                    std::hint::spin_loop();
                }
            }
        });
        let finished = block_on(async {
            for item in 0..ITEMS {
                if item % 2 == 0 {
                    source.async_io(Way::Read, take).await.unwrap();
                } else {
                    poll_fn(|cx| source.poll_io(cx, Way::Read, take)).await.unwrap();
                }
            }
        });
        given_up.store(true, SeqCst);
        assert!(finished, "an event was lost");
    });
    assert_eq!(kernel.load(SeqCst), 0);
}

/// Runs the future on this thread. Returns false if it was not woken for too long.
fn block_on(future: impl Future<Output = ()>) -> bool {
    struct Unpark(thread::Thread, AtomicUsize);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.1.store(1, SeqCst);
            self.0.unpark();
        }
    }
    let unpark = Arc::new(Unpark(thread::current(), AtomicUsize::new(0)));
    let waker = Waker::from(unpark.clone());
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(()) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return true;
        }
        let start = Instant::now();
        while unpark.1.swap(0, SeqCst) == 0 {
            if start.elapsed() > SOON {
                return false;
            }
            thread::park_timeout(SOON);
        }
    }
}

/// A waker that finds every lock of the reactor free whenever its code runs.
struct Probe(Arc<Io>);

impl Probe {
    fn look(&self) {
        // If this thread held the lock, it would wait for itself forever.
        assert!(!self.0.is_closed());
        drop(Registered::new(&self.0, Fake).unwrap());
    }
}

impl Wake for Probe {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.look();
    }
}

#[test]
fn wakers_run_with_no_lock_held() {
    let reactor = Reactor::new().unwrap();
    let io = reactor.io().clone();
    let probe = || Waker::from(Arc::new(Probe(io.clone())));
    let source = Registered::new(&io, Fake).unwrap();
    // Replaced, woken, and dropped with the source.
    wait(&source, Way::Read, &probe());
    wait(&source, Way::Read, &probe());
    let mut future = Box::pin(source.async_io(Way::Write, blocked));
    for _ in 0..2 {
        assert!(future.as_mut().poll(&mut Context::from_waker(&probe())).is_pending());
    }
    deliver(&io, &[read(0), write(0)]);
    assert!(future.as_mut().poll(&mut Context::from_waker(&probe())).is_pending());
    drop(future);
    wait(&source, Way::Read, &probe());
    drop(source);
    deliver(&io, &[]);
    assert_eq!(io.keys(), 0);
}
