//! Models of the reactor: every interleaving of a few operations on two or three threads. mio runs in none of them.
//!
//! Run with `bash ci/loom.sh`, which can also show that each model is able to fail.

use super::poller::Wakefulness;
use super::registration::{poll, step};
use super::source::{Direction, Occurrence, READY, Source, Start, Waiter};
use loom::sync::Notify;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

/// Counts wakes. The count is not part of the models.
#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn new() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (count.clone(), Waker::from(count))
    }

    fn get(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Count>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A thread's sleep, with a poller that loom knows.
struct Sleep {
    wakefulness: Wakefulness,
    poller: Notify,
    writes: AtomicUsize,
}

impl Sleep {
    fn new() -> Arc<Sleep> {
        Arc::new(Sleep {
            wakefulness: Wakefulness::new(),
            poller: Notify::new(),
            writes: AtomicUsize::new(0),
        })
    }

    fn unpark(&self) {
        if self.wakefulness.notify() {
            self.writes.fetch_add(1, SeqCst);
            self.poller.notify();
        }
    }

    /// Another thread that writes, then unparks.
    fn tell(self: &Arc<Sleep>) -> (Arc<AtomicBool>, thread::JoinHandle<()>) {
        let (sleep, news) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let written = news.clone();
        let teller = thread::spawn(move || {
            written.store(true, Relaxed);
            sleep.unpark();
        });
        (news, teller)
    }
}

/// No news is missed: otherwise loom finds that the thread sleeps forever.
fn sleep_until_told(tellers: usize) {
    let sleep = Sleep::new();
    let (news, tellers): (Vec<_>, Vec<_>) = (0..tellers).map(|_| sleep.tell()).unzip();
    let mut sleeps = 0;
    while !news.iter().all(|news| news.load(Relaxed)) {
        if sleep.wakefulness.fall_asleep() {
            sleeps += 1;
            sleep.poller.wait();
        }
        sleep.wakefulness.wake_up();
    }
    for teller in tellers {
        teller.join().unwrap();
    }
    let writes = sleep.writes.load(SeqCst);
    assert!(writes <= sleeps, "{writes} system calls for {sleeps} sleeps");
}

#[test]
fn loom_unpark_against_sleep() {
    loom::model(|| sleep_until_told(1));
}

#[test]
fn loom_two_unparks_against_sleep() {
    let mut model = loom::model::Builder::new();
    // An exhaustive run takes a quarter of a minute, and more on a busy machine.
    model.preemption_bound.get_or_insert(3);
    model.check(|| sleep_until_told(2));
}

/// Something that can be read once the "kernel" has it.
struct Pipe {
    data: AtomicBool,
    source: Source,
}

impl Pipe {
    /// Empty, and known to be.
    fn new() -> Arc<Pipe> {
        Arc::new(Pipe { data: AtomicBool::new(false), source: Source::new(Start::Told) })
    }

    fn direction(&self) -> &Direction {
        &self.source.read
    }

    /// One poll of a task that wants to read.
    fn poll(&self, waker: &Waker, leave_waker: impl FnMut(&Waker)) -> Poll<io::Result<()>> {
        let mut op = || if self.data.load(Relaxed) { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) };
        let mut cx = Context::from_waker(waker);
        poll(&mut cx, self.direction(), || step(self.direction(), &mut op, &|_| false), leave_waker)
    }

    /// The reactor's thread: data has come.
    fn arrive(self: &Arc<Pipe>) -> thread::JoinHandle<()> {
        let pipe = self.clone();
        thread::spawn(move || {
            pipe.data.store(true, Relaxed);
            let mut wakers = Vec::new();
            pipe.source.occur(Occurrence { token: 0, read: READY, write: 0 }, &mut wakers);
            wakers.into_iter().for_each(Waker::wake);
        })
    }
}

/// tokio #6133: an event that comes between an operation's `WouldBlock` and its clear.
#[test]
fn loom_event_against_clear() {
    loom::model(|| {
        let pipe = Pipe::new();
        // As at the beginning: ready, as far as is known, and nothing there.
        pipe.direction().readiness.set(READY);
        let reactor = pipe.arrive();
        let (count, waker) = Count::new();
        let polled = pipe.poll(&waker, |waker| pipe.direction().leave_waker(waker));
        reactor.join().unwrap();
        assert!(polled.is_ready() || count.get() == 1, "nobody told the task");
        assert!(pipe.poll(&waker, |_| ()).is_ready(), "an event was lost");
    });
}

#[test]
fn loom_event_against_a_polling_task() {
    loom::model(|| {
        let pipe = Pipe::new();
        let reactor = pipe.arrive();
        let (count, waker) = Count::new();
        let polled = pipe.poll(&waker, |waker| pipe.direction().leave_waker(waker));
        reactor.join().unwrap();
        assert!(polled.is_ready() || count.get() == 1, "nobody told the task");
    });
}

/// The waker that was left last is the one that is woken, and none is kept.
#[test]
fn loom_event_against_another_waker() {
    loom::model(|| {
        let pipe = Pipe::new();
        let (old, old_waker) = Count::new();
        let (count, waker) = Count::new();
        assert!(pipe.poll(&old_waker, |waker| pipe.direction().leave_waker(waker)).is_pending());
        let reactor = pipe.arrive();
        let polled = pipe.poll(&waker, |waker| pipe.direction().leave_waker(waker));
        reactor.join().unwrap();
        assert!(polled.is_ready() || count.get() == 1, "nobody told the task");
        drop(old_waker);
        assert_eq!(Arc::strong_count(&old), 1, "a waker was leaked");
    });
}

#[test]
fn loom_event_against_a_waiter() {
    loom::model(|| {
        let pipe = Pipe::new();
        let reactor = pipe.arrive();
        let (count, waker) = Count::new();
        let mut waiter = Waiter::new(pipe.direction());
        let polled = pipe.poll(&waker, |waker| waiter.leave_waker(waker));
        reactor.join().unwrap();
        assert!(polled.is_ready() || count.get() == 1, "nobody told the task");
        drop((waiter, waker));
        assert_eq!(Arc::strong_count(&count), 1, "a waker was leaked");
    });
}

/// One waiter goes away while the event is handed out; the other must not lose its wake-up.
#[test]
fn loom_event_against_a_waiter_that_leaves() {
    loom::model(|| {
        let pipe = Pipe::new();
        let (gone, gone_waker) = Count::new();
        let (count, waker) = Count::new();
        let mut leaving = Waiter::new(pipe.direction());
        let mut waiter = Waiter::new(pipe.direction());
        assert!(pipe.poll(&gone_waker, |waker| leaving.leave_waker(waker)).is_pending());
        assert!(pipe.poll(&waker, |waker| waiter.leave_waker(waker)).is_pending());
        let reactor = pipe.arrive();
        drop((leaving, gone_waker));
        reactor.join().unwrap();
        assert!(gone.get() <= 1);
        assert_eq!(Arc::strong_count(&gone), 1, "a waker was leaked");
        assert_eq!(count.get(), 1, "nobody told the task that stayed");
    });
}

/// tokio #2924, #8435: a task that waits is told of the shutdown, and no clear erases the mark of the shutdown.
#[test]
fn loom_shutdown_against_wait_and_clear() {
    loom::model(|| {
        let pipe = Pipe::new();
        pipe.direction().readiness.set(READY);
        let reactor = {
            let pipe = pipe.clone();
            thread::spawn(move || {
                let mut wakers = Vec::new();
                pipe.source.shut_down(&mut wakers);
                wakers.into_iter().for_each(Waker::wake);
            })
        };
        let (count, waker) = Count::new();
        let mut waiter = Waiter::new(pipe.direction());
        let polled = pipe.poll(&waker, |waker| waiter.leave_waker(waker));
        reactor.join().unwrap();
        assert!(polled.is_ready() || count.get() == 1, "nobody told the task");
        assert!(matches!(pipe.poll(&waker, |_| ()), Poll::Ready(Err(_))), "the shutdown was forgotten");
    });
}
