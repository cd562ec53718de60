//! Tells who waits for a time of day that the system's clock was set.
//!
//! ```text
//!   ClockWaiter::new ----> the first one: a timer that the kernel cancels when the clock is set
//!   the clock is set ----> an event ----> Reactor::dispatch ----> ClockSet::occurred: counted, all are woken
//!   ClockWaiter::drop ---> the last one: the timer is closed
//! ```
//!
//! Ground rules:
//!
//! * One descriptor serves all who wait, and it is there only while somebody does. If it cannot be had, they
//!   are told so ([`ClockWaiter::is_watched`]) and look at the clock themselves now and then.
//! * The timer is registered edge-triggered and read once per event. What the read says is of no interest:
//!   after it, the next setting of the clock is news again.
//! * Whoever leaves a waker is told under the same lock how often the clock was set so far. So a setting is
//!   either in that number or finds the waker.
//! * A waker is cloned before the lock is taken, and dropped and woken after it is released.

use super::io::Io;
use crate::sync::{Mutex, lock};
use slab::Slab;
use std::sync::Arc;
use std::task::Waker;

/// Those who wait, and the timer they share.
#[derive(Debug)]
pub(super) struct ClockSet(Mutex<Waiting>);

#[derive(Debug)]
struct Waiting {
    timer: Option<Timer>,
    /// How often the clock was set while somebody waited.
    sets: u64,
    /// The wakers of those who wait. A place whose waker was taken still belongs to its [`ClockWaiter`].
    places: Slab<Option<Waker>>,
}

impl ClockSet {
    pub(super) fn new() -> ClockSet {
        ClockSet(Mutex::new(Waiting { timer: None, sets: 0, places: Slab::new() }))
    }

    /// Whether the system is asked to tell.
    pub(super) fn is_watching(&self) -> bool {
        lock(&self.0).timer.is_some()
    }

    /// The reactor is gone, and its descriptors with it.
    pub(super) fn close(&self) {
        let timer = lock(&self.0).timer.take();
        drop(timer);
    }

    /// The clock was set: collects the wakers of all who wait.
    pub(super) fn occurred(&self, wakers: &mut Vec<Waker>) {
        let mut waiting = lock(&self.0);
        if let Some(timer) = &waiting.timer {
            timer.read();
        }
        waiting.sets += 1;
        wakers.extend(waiting.places.iter_mut().filter_map(|(_, place)| place.take()));
    }
}

/// A place among those who wait. Dropping it gives the place back.
#[derive(Debug)]
pub(crate) struct ClockWaiter {
    io: Arc<Io>,
    place: usize,
}

impl ClockWaiter {
    pub(crate) fn new(io: Arc<Io>) -> ClockWaiter {
        let place = lock(&io.clock_set().0).places.insert(None);
        let waiter = ClockWaiter { io, place };
        waiter.is_watched();
        waiter
    }

    /// Whether the system tells when the clock is set. Tries again to be told, if it did not.
    pub(crate) fn is_watched(&self) -> bool {
        let mut waiting = lock(&self.io.clock_set().0);
        if waiting.timer.is_none() {
            // None any more once the reactor is gone. The lock of the sources is taken inside this one.
            waiting.timer = self.io.poller().and_then(|poller| Timer::new(&poller.registry));
        }
        waiting.timer.is_some()
    }

    /// How often the clock was set so far.
    pub(crate) fn sets(&self) -> u64 {
        lock(&self.io.clock_set().0).sets
    }

    /// Leaves a waker, in the place of an earlier one; it is woken when the clock is set. Says how often that
    /// had happened by then.
    pub(crate) fn leave_waker(&self, waker: &Waker) -> u64 {
        let shared = &self.io.clock_set().0;
        {
            let waiting = lock(shared);
            if waiting.places[self.place].as_ref().is_some_and(|old| old.will_wake(waker)) {
                return waiting.sets;
            }
        }
        let new = waker.clone();
        let mut waiting = lock(shared);
        let old = waiting.places[self.place].replace(new);
        let sets = waiting.sets;
        drop(waiting);
        drop(old);
        sets
    }
}

impl Drop for ClockWaiter {
    fn drop(&mut self) {
        let mut waiting = lock(&self.io.clock_set().0);
        let waker = waiting.places.remove(self.place);
        let timer = if waiting.places.is_empty() {
            waiting.places.shrink_to_fit();
            waiting.timer.take()
        } else {
            None
        };
        drop(waiting);
        drop((waker, timer));
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
use self::timerfd::Timer;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
use self::none::Timer;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod timerfd {
    use super::super::io::CLOCK_SET;
    use mio::unix::SourceFd;
    use mio::{Interest, Registry};
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use std::io;
    use std::os::fd::{AsRawFd, OwnedFd};

    /// A timer on the wall clock that never ends, but is cancelled whenever the clock is set. Closing it takes
    /// it out of the poller.
    #[derive(Debug)]
    pub(super) struct Timer(OwnedFd);

    impl Timer {
        /// `None` if the system does not grant it: mostly because no descriptor is left.
        pub(super) fn new(registry: &Registry) -> Option<Timer> {
            Timer::create(registry).ok()
        }

        fn create(registry: &Registry) -> io::Result<Timer> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = Timer(timerfd_create(TimerfdClockId::Realtime, flags)?);
            // The kernel takes a time that it cannot count to for the last one that it can.
            timer.set(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })?;
            registry.register(&mut SourceFd(&timer.0.as_raw_fd()), CLOCK_SET, Interest::READABLE)?;
            Ok(timer)
        }

        fn set(&self, at: Timespec) -> io::Result<()> {
            let value = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
            let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
            timerfd_settime(&self.0, flags, &value)?;
            Ok(())
        }

        /// Takes note of the event. It fails with `ECANCELED`, once for each setting of the clock.
        pub(super) fn read(&self) {
            let _ = rustix::io::read(&self.0, &mut [0; 8]);
        }

        /// As if the clock were set: the first second of the epoch is over.
        #[cfg(test)]
        pub(super) fn ring(&self) {
            self.set(Timespec { tv_sec: 1, tv_nsec: 0 }).unwrap();
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod none {
    use mio::Registry;

    /// There is none on this platform.
    #[derive(Debug)]
    pub(super) enum Timer {}

    impl Timer {
        pub(super) fn new(_: &Registry) -> Option<Timer> {
            None
        }

        pub(super) fn read(&self) {
            match *self {}
        }
    }
}

#[cfg(test)]
impl Io {
    /// Whether the timer is there.
    pub(crate) fn watches_the_clock(&self) -> bool {
        lock(&self.clock_set().0).timer.is_some()
    }

    /// As if the system had refused, or taken back, the timer.
    pub(crate) fn lose_the_clock(&self) {
        let timer = lock(&self.clock_set().0).timer.take();
        drop(timer);
    }

    /// As if the clock had been set.
    pub(crate) fn set_the_clock(&self) {
        let mut wakers = Vec::new();
        self.clock_set().occurred(&mut wakers);
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(all(test, not(loom), any(target_os = "linux", target_os = "android")))]
mod tests {
    use super::super::{Reactor, Until};
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::{Duration, Instant};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn park(reactor: &mut Reactor) -> usize {
        let timeout = Duration::from_secs(20);
        reactor.park(Until::Time { timeout, alarm_ns: u64::MAX }).unwrap();
        reactor.dispatch()
    }

    #[test]
    fn every_setting_wakes_all_who_wait() {
        let mut reactor = Reactor::new().unwrap();
        let io = reactor.io().clone();
        let waiters: Vec<_> = (0..3).map(|_| ClockWaiter::new(io.clone())).collect();
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        // The kernel's own event of a cancelled timer cannot be had without setting the clock. One that
        // expires takes the same way through the poller.
        for round in 1..=3 {
            let seen = waiters[0].sets();
            for waiter in &waiters {
                assert_eq!(waiter.leave_waker(&waker), seen);
            }
            lock(&io.clock_set().0).timer.as_ref().unwrap().ring();
            let start = Instant::now();
            while waiters[0].sets() == seen {
                assert!(start.elapsed() < Duration::from_secs(20), "the event did not come");
                assert_eq!(park(&mut reactor), 0, "nobody's readiness was meant");
            }
            assert_eq!(count.0.load(Ordering::SeqCst), 3 * round);
        }
        drop(waiters);
        assert_eq!(Arc::strong_count(&count), 2, "a waker was kept");
    }

    #[test]
    fn the_timer_is_there_only_while_somebody_waits() {
        let reactor = Reactor::new().unwrap();
        let io = reactor.io();
        assert!(!io.watches_the_clock());
        let first = ClockWaiter::new(io.clone());
        let second = ClockWaiter::new(io.clone());
        assert!(first.is_watched() && io.watches_the_clock());
        drop(first);
        assert!(io.watches_the_clock());
        drop(second);
        assert!(!io.watches_the_clock());
    }

    #[test]
    fn a_timer_that_was_lost_is_had_again_when_asked_for() {
        let reactor = Reactor::new().unwrap();
        let waiter = ClockWaiter::new(reactor.io().clone());
        reactor.io().lose_the_clock();
        assert!(!reactor.io().watches_the_clock());
        assert!(waiter.is_watched() && reactor.io().watches_the_clock());
    }
}
