//! The tests' instruments: a driver on a test clock, and wakers that watch the driver.
//!
//! A [`Probe`]'s wakers see everything that is done to them. In `clone`, `wake` and `drop` alike they assert that the driver's
//! lock is free, by letting another thread take it: foreign code must never run under it. They count, panic when told to, and run
//! a given action, which stands for anything that a program does there.

// Each test binary uses only a part of this.
#![allow(dead_code)]

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::time::Duration;

use mainspring_driver::{Driver, Handle, Nanos, Processed, Shutdown, TestClock, TimerEntry};

/// A pinned timer on the heap, as a task would hold it.
pub(crate) type Timer = Pin<Box<TimerEntry>>;

/// A driver on a test clock.
pub(crate) struct Fixture {
    pub(crate) driver: Driver,
    pub(crate) handle: Handle,
    pub(crate) clock: TestClock,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        Fixture::starting_at(0)
    }

    pub(crate) fn starting_at(nanos: u64) -> Fixture {
        let clock = TestClock::new(Nanos::new(nanos));
        let driver = Driver::new(clock.clock(), || ());
        let handle = driver.handle().clone();
        Fixture { driver, handle, clock }
    }

    /// A timer that is due at `nanos`.
    pub(crate) fn at(&self, nanos: u64) -> Timer {
        Box::pin(self.handle.sleep_until(Nanos::new(nanos)))
    }

    /// A timer that is due at `nanos` and has been polled once, by `waker`.
    pub(crate) fn armed(&self, nanos: u64, waker: &Waker) -> Timer {
        let mut timer = self.at(nanos);
        assert!(poll(&mut timer, waker).is_pending(), "a timer at {nanos} was due when it was armed");
        timer
    }

    /// Sets the clock to `nanos` and fires all timers that are due. Returns how many fired.
    pub(crate) fn advance_to(&mut self, nanos: u64) -> usize {
        self.clock.set(Nanos::new(nanos));
        let Processed { fired, more, .. } = self.driver.process(Nanos::new(nanos), usize::MAX);
        assert!(!more, "a drain without a budget was cut short");
        self.handle.check();
        fired
    }

    pub(crate) fn live(&self) -> usize {
        self.handle.stats().live
    }
}

/// Polls `timer` once with `waker`.
pub(crate) fn poll(timer: &mut Timer, waker: &Waker) -> Poll<Result<(), Shutdown>> {
    timer.as_mut().poll_elapsed(&mut Context::from_waker(waker))
}

pub(crate) const READY: Poll<Result<(), Shutdown>> = Poll::Ready(Ok(()));

type Action = Box<dyn FnMut() + Send>;

/// Watches what is done to its wakers. All wakers of one probe are the same (`will_wake`).
pub(crate) struct Probe(Arc<Watch>);

struct Watch {
    handle: Handle,
    /// References that wakers hold, not counting the probe's own.
    wakers: AtomicUsize,
    clones: AtomicUsize,
    wakes: AtomicUsize,
    drops: AtomicUsize,
    /// Run at each wake, in place of what a program does there.
    on_wake: Mutex<Option<Action>>,
    on_clone: Mutex<Option<Action>>,
    on_drop: Mutex<Option<Action>>,
    /// The operation with this number, counted from one, panics; zero means none.
    panic_in_clone: AtomicUsize,
    panic_in_wake: AtomicUsize,
}

impl Probe {
    pub(crate) fn new(handle: &Handle) -> Probe {
        Probe(Arc::new(Watch {
            handle: handle.clone(),
            wakers: AtomicUsize::new(0),
            clones: AtomicUsize::new(0),
            wakes: AtomicUsize::new(0),
            drops: AtomicUsize::new(0),
            on_wake: Mutex::new(None),
            on_clone: Mutex::new(None),
            on_drop: Mutex::new(None),
            panic_in_clone: AtomicUsize::new(0),
            panic_in_wake: AtomicUsize::new(0),
        }))
    }

    pub(crate) fn waker(&self) -> Waker {
        self.0.wakers.fetch_add(1, SeqCst);
        let data = Arc::into_raw(self.0.clone()).cast::<()>();
        // SAFETY: the data is a reference to the `Watch`, given to the waker, and `VTABLE` treats it as one:
        // `clone` adds a reference, `wake` and `drop` give theirs back, `wake_by_ref` keeps it. A `Watch` is
        // `Send` and `Sync`.
        unsafe { Waker::new(data, &VTABLE) }
    }

    /// Runs `action` at every wake.
    pub(crate) fn on_wake(&self, action: impl FnMut() + Send + 'static) {
        *self.0.on_wake.lock().expect("no action panicked") = Some(Box::new(action));
    }

    /// Runs `action` at every clone.
    pub(crate) fn on_clone(&self, action: impl FnMut() + Send + 'static) {
        *self.0.on_clone.lock().expect("no action panicked") = Some(Box::new(action));
    }

    /// Runs `action` whenever a waker is dropped without having been woken.
    pub(crate) fn on_drop(&self, action: impl FnMut() + Send + 'static) {
        *self.0.on_drop.lock().expect("no action panicked") = Some(Box::new(action));
    }

    /// Makes the `kth` clone from now on panic.
    pub(crate) fn panic_in_clone(&self, kth: usize) {
        self.0.panic_in_clone.store(self.0.clones.load(SeqCst) + kth, SeqCst);
    }

    /// Makes the `kth` wake from now on panic.
    pub(crate) fn panic_in_wake(&self, kth: usize) {
        self.0.panic_in_wake.store(self.wakes() + kth, SeqCst);
    }

    pub(crate) fn wakes(&self) -> usize {
        self.0.wakes.load(SeqCst)
    }

    /// How many wakers were dropped without having been woken.
    pub(crate) fn drops(&self) -> usize {
        self.0.drops.load(SeqCst)
    }

    /// How many wakers of this probe exist.
    pub(crate) fn wakers(&self) -> usize {
        self.0.wakers.load(SeqCst)
    }
}

impl Watch {
    fn cloned(&self) {
        self.assert_lock_is_free("cloned");
        let kth = self.clones.fetch_add(1, SeqCst) + 1;
        assert!(kth != self.panic_in_clone.load(SeqCst), "clone number {kth}");
        self.wakers.fetch_add(1, SeqCst);
        run(&self.on_clone);
    }

    fn woken(&self) {
        self.assert_lock_is_free("woken");
        let kth = self.wakes.fetch_add(1, SeqCst) + 1;
        assert!(kth != self.panic_in_wake.load(SeqCst), "wake number {kth}");
        run(&self.on_wake);
    }

    fn dropped(&self) {
        self.assert_lock_is_free("dropped");
        self.drops.fetch_add(1, SeqCst);
        run(&self.on_drop);
    }

    /// Lets another thread take the driver's lock: if the thread that calls the waker held it, that would
    /// never succeed.
    fn assert_lock_is_free(&self, what: &str) {
        let handle = self.handle.clone();
        let (done, finished) = mpsc::channel();
        std::thread::spawn(move || {
            let _ = handle.stats();
            let _ = done.send(());
        });
        let free = finished.recv_timeout(Duration::from_secs(20));
        assert!(free.is_ok(), "a waker was {what} under the driver's lock");
    }
}

/// Runs the action, but not under the lock that guards it: the action may come back here.
fn run(kept: &Mutex<Option<Action>>) {
    let action = kept.lock().expect("no action panicked").take();
    if let Some(mut action) = action {
        action();
        kept.lock().expect("no action panicked").get_or_insert(action);
    }
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// Gives one reference back, even if the use of the waker panics.
struct Release(Arc<Watch>);

impl Release {
    /// # Safety
    ///
    /// `data` is the waker's reference to a `Watch`, and the waker is not used again.
    unsafe fn of(data: *const ()) -> Release {
        // SAFETY: the reference came from `Arc::into_raw` and is given back once, as the caller promises.
        Release(unsafe { Arc::from_raw(data.cast::<Watch>()) })
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        self.0.wakers.fetch_sub(1, SeqCst);
    }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    let watch = data.cast::<Watch>();
    // SAFETY: the waker that is cloned holds a reference, so the `Watch` is alive.
    unsafe { &*watch }.cloned();
    // SAFETY: the pointer came from `Arc::into_raw`, and the `Watch` is alive as above.
    unsafe { Arc::increment_strong_count(watch) };
    RawWaker::new(data, &VTABLE)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: `wake` consumes the waker.
    let release = unsafe { Release::of(data) };
    release.0.woken();
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the waker holds a reference, so the `Watch` is alive.
    unsafe { &*data.cast::<Watch>() }.woken();
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: `drop` consumes the waker.
    let release = unsafe { Release::of(data) };
    release.0.dropped();
}
