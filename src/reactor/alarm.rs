//! Ends a park at the exact nanosecond.
//!
//! epoll counts whole milliseconds and takes its time; an absolute timerfd in the same epoll set rings
//! within tens of microseconds. Elsewhere the poller's own timeout has to do.
//!
//! Ground rules:
//!
//! * The alarm only ever ends a park *sooner*. The poller always has a timeout of its own, so an alarm that
//!   cannot be had, or fails, costs precision and nothing else.
//! * That timeout stands while the machine is suspended. An alarm by the boot time, which goes on, therefore has no
//!   stand-in, and not to get it is an error.
//! * It is set only when the wanted time differs from what it is set to: a system call per change, not per
//!   park.
//! * It is never read. Setting it resets its count, and as it is registered edge-triggered, each
//!   ringing is one event.

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use self::timerfd::Alarm;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) use self::none::Alarm;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod timerfd {
    use crate::clock::system::ClockId;
    use mio::unix::SourceFd;
    use mio::{Interest, Registry, Token};
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use std::io;
    use std::os::fd::{AsRawFd, OwnedFd};

    const NANOS_PER_SEC: u64 = 1_000_000_000;

    #[derive(Debug)]
    pub(in crate::reactor) struct Alarm {
        /// `None`: it cannot be had, or has failed.
        timer: Option<OwnedFd>,
        /// What it is set to, in nanoseconds of its clock; `None` once it has rung.
        set_to: Option<u64>,
        #[cfg(test)]
        pub(in crate::reactor) settings: usize,
    }

    impl Alarm {
        /// # Errors
        ///
        /// The kernel's, if it grants no alarm by the boot time.
        pub(in crate::reactor) fn new(
            registry: &Registry,
            token: Token,
            clock: ClockId,
        ) -> io::Result<Alarm> {
            let timer = match clock {
                ClockId::Monotonic => Alarm::create(registry, token, TimerfdClockId::Monotonic).ok(),
                ClockId::Boottime => Some(Alarm::create(registry, token, TimerfdClockId::Boottime)?),
            };
            Ok(Alarm {
                timer,
                set_to: None,
                #[cfg(test)]
                settings: 0,
            })
        }

        fn create(registry: &Registry, token: Token, clock: TimerfdClockId) -> io::Result<OwnedFd> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(clock, flags)?;
            registry.register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
            Ok(timer)
        }

        /// Rings at `at` nanoseconds of its clock, or not at all.
        pub(in crate::reactor) fn set(&mut self, at: Option<u64>) {
            let Some(timer) = &self.timer else { return };
            if at == self.set_to {
                return;
            }
            // All zeroes would switch the timer off; the first nanosecond is as much in the past.
            let ns = at.map_or(0, |at| at.max(1));
            let value = Itimerspec {
                it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
                it_value: Timespec { tv_sec: (ns / NANOS_PER_SEC) as _, tv_nsec: (ns % NANOS_PER_SEC) as _ },
            };
            #[cfg(test)]
            {
                self.settings += 1;
            }
            self.set_to = at;
            if timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &value).is_err() {
                // Closing it takes it out of the poller.
                self.timer = None;
            }
        }

        /// It has rung. To ring again, even at the same time, it has to be set again.
        pub(in crate::reactor) fn rang(&mut self) {
            self.set_to = None;
        }

        /// As if the kernel had refused it.
        #[cfg(test)]
        pub(in crate::reactor) fn fail(&mut self) {
            self.timer = None;
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod none {
    use crate::clock::system::ClockId;
    use mio::{Registry, Token};
    use std::io;

    #[derive(Debug)]
    pub(in crate::reactor) struct Alarm;

    impl Alarm {
        pub(in crate::reactor) fn new(_: &Registry, _: Token, clock: ClockId) -> io::Result<Alarm> {
            match clock {
                ClockId::Monotonic => Ok(Alarm),
                ClockId::Boottime => Err(io::ErrorKind::Unsupported.into()),
            }
        }

        pub(in crate::reactor) fn set(&mut self, _: Option<u64>) {}

        pub(in crate::reactor) fn rang(&mut self) {}
    }
}
