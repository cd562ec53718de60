//! What the integration tests share: a watchdog, wakers that count, panics that are caught with their location.
//!
//! Ground rules:
//!
//! * A test that may hang starts a [`watchdog`] first. It ends the whole process: a panic in a thread of its
//!   own would leave the test hanging.
//! * Bounds are there to tell right from wrong, not fast from slow. [`LONG`] is longer than any machine needs.
#![allow(dead_code, reason = "every test binary uses its own part of it")]

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Once};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use futures::channel::oneshot;
use mainspring::runtime::{Handle, Metrics};
use mainspring::time::Sleep;
use mainspring::{Builder, Runtime, block_on};
use proptest::prelude::{Just, Strategy, prop_oneof};
#[cfg(unix)]
use rustix::time::{ClockId, clock_gettime};

/// Longer than anything here takes, even on a machine that is busy with other things.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// A time that is never reached.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// A runtime whose time jumps to the next deadline.
pub(crate) fn paused() -> Runtime {
    Builder::new().start_paused(true).build().unwrap()
}

/// A runtime whose time stands still, unless it is advanced.
pub(crate) fn manual() -> Runtime {
    Builder::new().start_paused(true).auto_advance(false).build().unwrap()
}

/// How long this thread has run, whatever else the machine does.
#[cfg(unix)]
pub(crate) fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Computes for this long.
#[cfg(unix)]
pub(crate) fn compute(time: Duration) {
    if time > Duration::ZERO {
        let until = cpu() + time;
        while cpu() < until {}
    }
}

/// Runs `work` with the handle of a runtime that is parked on another thread, and with that thread's id.
pub(crate) fn beside_parked<R>(work: impl FnOnce(&Handle, ThreadId) -> R) -> R {
    let (tell, handle) = mpsc::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let parked = thread::spawn(move || {
        block_on(async {
            tell.send(Handle::current()).unwrap();
            stopped.await.unwrap();
        });
    });
    let done = work(&handle.recv().unwrap(), parked.thread().id());
    stop.send(()).unwrap();
    parked.join().unwrap();
    done
}

/// Nanoseconds for a property test: around the edges of the wheel's slots, and here and there.
pub(crate) fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => (0u32..7, 0u64..600).prop_map(|(level, near)| ((1u64 << (16 + 6 * level)) - 300).saturating_add(near)),
        3 => 0u64..300_000,
        1 => Just(0),
        1 => Just(u64::MAX),
    ]
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Keeps the process alive; see [`watchdog`].
#[must_use = "the watchdog watches for as long as this lives"]
pub(crate) struct Watchdog {
    _alive: Sender<()>,
}

/// Aborts the process if the returned value is not dropped within `limit`.
pub(crate) fn watchdog(limit: Duration) -> Watchdog {
    let (alive, gone) = mpsc::channel::<()>();
    let test = thread::current().name().unwrap_or("a test").to_owned();
    thread::spawn(move || {
        if gone.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            // Not `eprintln!`, whose output the test harness captures.
            let _ = writeln!(std::io::stderr(), "watchdog: {test} has not ended within {limit:?}");
            std::process::abort();
        }
    });
    Watchdog { _alive: alive }
}

/// Counts its wake-ups, and runs an action at each.
pub(crate) struct Probe {
    wakes: AtomicUsize,
    on_wake: Box<dyn Fn() + Send + Sync>,
}

impl Probe {
    pub(crate) fn new() -> Arc<Probe> {
        Probe::with(|| ())
    }

    pub(crate) fn with(on_wake: impl Fn() + Send + Sync + 'static) -> Arc<Probe> {
        Arc::new(Probe { wakes: AtomicUsize::new(0), on_wake: Box::new(on_wake) })
    }

    /// Forty probes, of which the one at `bad_at` panics when it is woken.
    pub(crate) fn forty(bad_at: usize) -> Vec<Arc<Probe>> {
        let probe = |n| {
            Probe::with(move || {
                if n == bad_at {
                    panic!("waker {n}");
                }
            })
        };
        (0..40).map(probe).collect()
    }

    /// Makes each of `probes` wait for a sleep of its own in `runtime`, which `sleep` makes.
    pub(crate) fn all_wait(
        probes: &[Arc<Probe>],
        runtime: &Runtime,
        sleep: impl Fn() -> Sleep,
    ) -> Vec<Pin<Box<Sleep>>> {
        let _entered = runtime.handle().enter();
        let mut sleeps: Vec<_> = probes.iter().map(|_| Box::pin(sleep())).collect();
        for (probe, sleep) in probes.iter().zip(&mut sleeps) {
            assert!(probe.poll(sleep.as_mut()).is_pending());
        }
        sleeps
    }

    pub(crate) fn waker(self: &Arc<Probe>) -> Waker {
        Waker::from(self.clone())
    }

    pub(crate) fn wakes(&self) -> usize {
        self.wakes.load(Ordering::SeqCst)
    }

    /// Polls `future` outside of any task, with this probe as its waker.
    pub(crate) fn poll<F: Future + ?Sized>(self: &Arc<Probe>, future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(&self.waker()))
    }
}

impl Wake for Probe {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        (self.on_wake)();
    }
}

/// Counts how often its clones, itself included, are dropped.
#[derive(Clone, Default)]
pub(crate) struct Dropped(pub(crate) Arc<AtomicUsize>);

impl Dropped {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Counts one when it is dropped.
    pub(crate) fn token(&self) -> DropToken {
        DropToken(self.0.clone())
    }
}

pub(crate) struct DropToken(Arc<AtomicUsize>);

impl Drop for DropToken {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A child that is ended with this, if it has not ended by itself.
pub(crate) struct Killed(pub(crate) std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where a panic came from and what its message was.
#[derive(Debug, Default, Clone)]
pub(crate) struct Panicked {
    pub(crate) message: String,
    pub(crate) file: String,
    pub(crate) line: u32,
}

thread_local! {
    /// The panic that this thread expects, if it expects one.
    static EXPECTED: RefCell<Option<Panicked>> = const { RefCell::new(None) };
}

/// Runs `f`, which must panic, without any output on standard error.
#[track_caller]
pub(crate) fn panicked<R>(f: impl FnOnce() -> R) -> Panicked {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let seen = EXPECTED.with(|expected| match &mut *expected.borrow_mut() {
                Some(panicked) => {
                    if let Some(location) = info.location() {
                        (panicked.file, panicked.line) = (location.file().to_owned(), location.line());
                    }
                    true
                }
                None => false,
            });
            if !seen {
                previous(info);
            }
        }));
    });
    EXPECTED.with(|expected| expected.replace(Some(Panicked::default())));
    let result = catch_unwind(AssertUnwindSafe(f));
    let seen = EXPECTED.with(RefCell::take).unwrap_or_default();
    let Err(payload) = result else { panic!("it did not panic") };
    let message = match payload.downcast_ref::<&str>() {
        Some(message) => (*message).to_owned(),
        None => payload.downcast_ref::<String>().cloned().unwrap_or_default(),
    };
    Panicked { message, ..seen }
}

/// Makes something inside a runtime that is gone when this function returns.
pub(crate) fn orphan<R>(make: impl FnOnce() -> R) -> R {
    let runtime = mainspring::Runtime::new().unwrap();
    let _entered = runtime.handle().enter();
    make()
}

/// What the runtime that this thread is in has done so far.
pub(crate) fn metrics() -> Metrics {
    Handle::current().metrics()
}

/// Sleeps until a timer has ended a park. The runtime's alarm is made for the first park that has an end: a test that counts
/// descriptors needs it from the start.
pub(crate) async fn has_alarm() {
    while metrics().wakeups_by_timer() == 0 {
        mainspring::sleep(ms(1)).await;
    }
}

/// Lets the runtime take at least one whole turn: the root is polled once per turn.
pub(crate) async fn turn() {
    for _ in 0..2 {
        mainspring::task::yield_now().await;
    }
}

/// Whether a first poll of the future is ready, whatever is left of the budget; the future is dropped afterwards.
pub(crate) async fn is_ready(future: impl Future) -> bool {
    let mut future = std::pin::pin!(mainspring::task::unconstrained(future));
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

/// Random numbers, the same ones each time.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A future that polls `future` in a loop until it is ready, and lets no other task run meanwhile.
pub(crate) async fn without_yielding<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
        }
    })
    .await
}
