//! Parks the runtime's thread until there is something to do, and wakes the tasks that wait for what happened.
//!
//! ```text
//!   Reactor::park ----> mio's poll: I/O events, the alarm, an unpark, a timeout
//!   Reactor::dispatch -> Io::deliver: readiness set and wakers collected under one lock -> all are woken
//! ```
//!
//! Ground rules:
//!
//! * [`Reactor`] belongs to the thread that runs the tasks; [`Io`] is shared by all threads.
//! * A poll that ends at some time has a timeout, between one nanosecond and an hour, whatever else may end it. A look has a
//!   timeout of zero, on purpose. If no timer waits, there is no timeout: nothing can be late, and what the kernel does for a
//!   timeout takes 0.15 µs.
//! * A park may end early for no reason. The caller looks at the clock and at its queues, and parks again.
//! * A waker that panics does not keep the others from being woken.

// With neither sockets nor descriptors nothing is registered, and the reactor only parks.
#![cfg_attr(not(any(feature = "net", unix)), allow(dead_code, unused_imports))]

mod alarm;
#[cfg(all(test, loom))]
mod models;
mod poller;
mod registration;
mod source;
#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
pub(crate) use self::poller::Wakefulness;
pub(crate) use self::poller::{Io, Poller};
#[cfg(unix)]
pub(crate) use self::registration::Fd;
pub(crate) use self::registration::Registered;
pub(crate) use self::source::Way;

use self::alarm::{ALARM, Alarm};
use self::poller::WAKER;
use self::source::Occurrence;
use crate::clock::system::ClockId;
use crate::panics::{self, Panics};
use mio::{Events, Poll};
use std::io::{ErrorKind, Result};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// The longest timeout of a single poll. Longer timeouts have overflowed in pollers (mio #1948), and one idle wake-up an hour
/// costs nothing.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// The maximum number of events that one poll returns. The rest come with the next poll.
const EVENTS: usize = 1024;

/// The number of wakers for which memory is kept between batches.
const KEEP: usize = 2 * EVENTS;

/// The half of the reactor that belongs to the runtime's thread.
#[derive(Debug)]
pub(crate) struct Reactor {
    poll: Poll,
    events: Events,
    alarm: Alarm,
    /// Another event loop has slept on the poller's descriptor, and may do so again: each look consumes what makes the
    /// descriptor readable.
    lent: bool,
    /// The wakers of the batch under way; empty in between.
    wakers: Vec<Waker>,
    io: Arc<Io>,
    /// The number of polls left until one is interrupted by a simulated signal, and the number of polls from one such signal
    /// to the next.
    #[cfg(test)]
    interruption: Option<(usize, usize)>,
}

/// How long to park.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Not at all: only look at what has happened.
    Now,
    /// Until a moment, at the latest.
    Time {
        /// How far off the moment is.
        timeout: Duration,
        /// The same moment in nanoseconds of the clock that the alarm counts by.
        alarm_ns: u64,
    },
    /// Until there is an I/O event or an unpark.
    Event,
}

/// How a park went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parked {
    /// A thread has called [`Io::unpark`] since the last park.
    pub(crate) notified: bool,
    /// The number of events that are to be dispatched.
    pub(crate) events: usize,
    /// The alarm rang.
    pub(crate) alarm: bool,
    /// The thread was ready to sleep. False: it only looked.
    pub(crate) slept: bool,
    /// There may be events that were not reported: a signal interrupted the poll, or the batch is full.
    pub(crate) partial: bool,
}

impl Reactor {
    /// # Errors
    ///
    /// The system's errors, when it grants no poller or no waker for the poller.
    #[cfg(test)]
    pub(crate) fn new() -> Result<Reactor> {
        Reactor::with_alarm(ClockId::Monotonic)
    }

    /// Makes a reactor whose alarm uses this clock.
    ///
    /// # Errors
    ///
    /// The system's errors, when it grants no poller or no waker for the poller; and when it grants no alarm by the [boot
    /// time](ClockId::Boottime), which no other timeout can replace.
    pub(crate) fn with_alarm(clock: ClockId) -> Result<Reactor> {
        Reactor::with_capacity(EVENTS, clock)
    }

    fn with_capacity(events: usize, clock: ClockId) -> Result<Reactor> {
        let poll = Poll::new()?;
        let io = Arc::new(Io::new(poll.registry().try_clone()?)?);
        let alarm = Alarm::new(poll.registry(), clock)?;
        Ok(Reactor {
            poll,
            events: Events::with_capacity(events),
            alarm,
            lent: false,
            wakers: Vec::new(),
            io,
            #[cfg(test)]
            interruption: None,
        })
    }

    pub(crate) fn io(&self) -> &Arc<Io> {
        &self.io
    }

    /// Waits until there are events, until an unpark, or until the time has come. May also return for no reason, for example
    /// when a signal interrupts it.
    ///
    /// # Errors
    ///
    /// The poller's errors, which do not occur in practice.
    ///
    /// # Panics
    ///
    /// If this is not the process that made the reactor.
    pub(crate) fn park(&mut self, until: Until) -> Result<Parked> {
        let timeout = timeout(until);
        // Also before a look: each event is reported once, and would be the parent's.
        self.io.assert_own_process();
        let slept = timeout != Some(Duration::ZERO) && self.io.wakefulness.fall_asleep();
        if slept {
            self.alarm.set(self.poll.registry(), until);
        }
        let polled = self.poll(if slept { timeout } else { Some(Duration::ZERO) });
        let mut parked = Parked { notified: self.io.wakefulness.wake_up(), slept, ..Parked::default() };
        if let Err(error) = polled {
            self.events.clear();
            parked.partial = true;
            return if error.kind() == ErrorKind::Interrupted { Ok(parked) } else { Err(error) };
        }
        parked.partial = self.events.iter().count() >= EVENTS;
        for event in &self.events {
            match event.token() {
                WAKER => {}
                ALARM => parked.alarm = true,
                _ => parked.events += 1,
            }
        }
        if parked.alarm {
            self.alarm.rang();
        }
        Ok(parked)
    }

    /// Prepares for a sleep of the thread in another event loop, until then or until the poller's descriptor is readable:
    /// events, the alarm and an unpark make it readable. Returns false if the thread must not sleep, because there is
    /// something to do now or was an unpark. Then the descriptor is readable already, for a loop that looks at nothing else.
    ///
    /// # Panics
    ///
    /// If this is not the process that made the reactor.
    #[track_caller]
    pub(crate) fn lend(&mut self, until: Until) -> bool {
        self.io.assert_own_process();
        self.lent = true;
        let asleep = until != Until::Now && self.io.wakefulness.fall_asleep();
        if asleep {
            self.alarm.set(self.poll.registry(), until);
        } else {
            self.io.end_sleep();
        }
        asleep
    }

    /// Notes that the thread is back, and consumes a notification if there is one. So everything that it may have announced
    /// must be looked at after this.
    pub(crate) fn take_back(&mut self) {
        if self.lent {
            self.io.wakefulness.wake_up();
        }
    }

    fn poll(&mut self, timeout: Option<Duration>) -> Result<()> {
        #[cfg(test)]
        if let Some((left, every)) = &mut self.interruption {
            *left = left.checked_sub(1).unwrap_or(*every - 1);
            if *left == 0 {
                return Err(ErrorKind::Interrupted.into());
            }
        }
        if timeout == Some(Duration::ZERO) && !self.io.has_sources() && !self.lent {
            // There is nothing to look at: a program that only computes and sleeps is spared the system call.
            self.events.clear();
            return Ok(());
        }
        self.poll.poll(&mut self.events, timeout)
    }

    /// Delivers the events of the last park and wakes the tasks that wait for them. Returns how many events found their
    /// source.
    ///
    /// # Panics
    ///
    /// With the first panic of a waker, after all have been woken.
    pub(crate) fn dispatch(&mut self) -> usize {
        let batch = self.events.iter().filter(|event| !matches!(event.token(), WAKER | ALARM));
        let delivered = self.io.deliver(batch.map(Occurrence::new), &mut self.wakers);
        self.events.clear();
        let mut panics = Panics::new();
        panics.wake_all(self.wakers.drain(..));
        self.wakers.shrink_to(KEEP);
        panics.resume();
        delivered
    }

    /// Shuts the reactor down: from here on every operation, even one that is under way, and every registration fails at
    /// once.
    ///
    /// # Panics
    ///
    /// With the first panic of a waker, after all have been woken.
    pub(crate) fn shutdown(&self) {
        let mut wakers = Vec::new();
        self.io.close(&mut wakers);
        panics::wake_all(wakers);
    }
}

impl Drop for Reactor {
    /// No task may wait for a reactor that is gone.
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// The timeout for the poller. It is never zero unless zero was asked for: that would spin (mio #1614). mio rounds up to its
/// own units, so it gets the exact value.
fn timeout(until: Until) -> Option<Duration> {
    match until {
        Until::Now => Some(Duration::ZERO),
        Until::Time { timeout, .. } => Some(timeout.min(LONGEST)),
        Until::Event => None,
    }
}
