//! The alarm ends a park at the exact nanosecond. epoll counts whole milliseconds and takes its time; an absolute timerfd in
//! the same epoll set rings within tens of microseconds. Elsewhere the poller's own timeout has to do.
//!
//! Setting the alarm takes several times as long as a look at the poller. So it is set only when a sleep wants a time other
//! than the one to which it is set, and not even then if that time is later and sleeps are many. In a server where each
//! request has a timeout, each sleep wants a later time than the one before, and the next request ends the sleep. The alarm
//! stays set for the first sleep; when it rings, for nothing, it is set to the time that is wanted by then. That is one idle
//! wake-up among many that are not idle.
//!
//! Ground rules:
//!
//! * The alarm is made for the first sleep that has an end: a runtime without such sleeps does without it.
//! * The alarm only ever ends a park *sooner*. An alarm that cannot be made, or fails, costs precision and nothing else: the
//!   poller's timeout remains, and the next sleep asks for an alarm again.
//! * The poller's timeout does not count while the machine is suspended. An alarm by the boot time does, so nothing can
//!   replace it: it is made at once, and it is an error if it cannot be made.
//! * It rings at the wanted time or before it, never after.
//! * It is never read. Setting it resets its count. Because it is registered edge-triggered, each ringing is one event.

use mio::Token;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) use self::none::Alarm;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use self::timerfd::Alarm;

/// The token of the alarm.
pub(super) const ALARM: Token = Token(usize::MAX - 1);

#[cfg(any(target_os = "linux", target_os = "android"))]
mod timerfd {
    use super::ALARM;
    use crate::clock::system::ClockId;
    use crate::reactor::{LONGEST, Until};
    use mio::unix::SourceFd;
    use mio::{Interest, Registry};
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use std::io;
    use std::os::fd::{AsRawFd, OwnedFd};

    const NANOS_PER_SEC: u64 = 1_000_000_000;

    /// The alarm may ring too soon if more sleeps than this are expected to begin before it rings.
    const MANY: u64 = 16;

    /// Sleeps that begin farther apart than this, in nanoseconds, count as if they began this far apart: no poll is longer.
    const RARE: u64 = LONGEST.as_nanos() as u64;

    #[derive(Debug)]
    pub(in crate::reactor) struct Alarm {
        clock: TimerfdClockId,
        /// `None`: no sleep has wanted it, it could not be made, or it has failed.
        timer: Option<OwnedFd>,
        /// What it is set to, in nanoseconds of its clock; `None` once it has rung.
        set_to: Option<u64>,
        /// When the last sleep that has an end began, by the alarm's clock.
        began: u64,
        /// How far apart such sleeps have begun recently.
        apart: u64,
        #[cfg(test)]
        pub(in crate::reactor) settings: usize,
        /// As if the kernel granted no alarm.
        #[cfg(test)]
        pub(in crate::reactor) refused: bool,
    }

    impl Alarm {
        /// # Errors
        ///
        /// The kernel's errors, if it grants no alarm by the boot time.
        pub(in crate::reactor) fn new(registry: &Registry, clock: ClockId) -> io::Result<Alarm> {
            let (clock, timer) = match clock {
                ClockId::Monotonic => (TimerfdClockId::Monotonic, None),
                ClockId::Boottime => {
                    let clock = TimerfdClockId::Boottime;
                    (clock, Some(Alarm::create(registry, clock)?))
                }
            };
            Ok(Alarm {
                clock,
                timer,
                set_to: None,
                began: 0,
                apart: RARE,
                #[cfg(test)]
                settings: 0,
                #[cfg(test)]
                refused: false,
            })
        }

        fn create(registry: &Registry, clock: TimerfdClockId) -> io::Result<OwnedFd> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(clock, flags)?;
            registry.register(&mut SourceFd(&timer.as_raw_fd()), ALARM, Interest::READABLE)?;
            Ok(timer)
        }

        /// Prepares the alarm for a sleep that begins, which it must end if the sleep has an end. `registry` is the one with
        /// which the alarm was made.
        pub(in crate::reactor) fn set(&mut self, registry: &Registry, until: Until) {
            let at = match until {
                Until::Time { timeout, alarm_ns } => {
                    self.count(alarm_ns.saturating_sub(timeout.as_nanos().try_into().unwrap_or(u64::MAX)));
                    Some(alarm_ns)
                }
                Until::Now | Until::Event => None,
            };
            if self.timer.is_none() && at.is_some() {
                self.make(registry);
            }
            let Some(timer) = &self.timer else { return };
            if at == self.set_to || self.may_ring_before(at) {
                return;
            }
            // All zeroes would switch the timer off; the first nanosecond is in the past just as well.
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

        #[cold]
        fn make(&mut self, registry: &Registry) {
            self.set_to = None;
            self.timer = Alarm::create(registry, self.clock).ok();
            #[cfg(test)]
            if self.refused {
                self.timer = None;
            }
        }

        /// Notes that a sleep that has an end begins `now`.
        fn count(&mut self, now: u64) {
            let apart = now.saturating_sub(self.began).min(RARE);
            self.apart = self.apart - self.apart / 8 + apart / 8;
            self.began = now;
        }

        /// Returns whether the alarm rings before `at`, and may do so, because many sleeps are expected to begin before it
        /// rings.
        fn may_ring_before(&self, at: Option<u64>) -> bool {
            let sooner = self.set_to.filter(|&set_to| at.is_none_or(|at| set_to < at));
            sooner.is_some_and(|set_to| set_to.saturating_sub(self.began) > MANY * self.apart)
        }

        /// Notes that the alarm has rung. To ring again, even at the same time, it has to be set again.
        pub(in crate::reactor) fn rang(&mut self) {
            self.set_to = None;
        }
    }

    #[cfg(all(test, not(loom)))]
    mod tests {
        use super::*;
        use std::time::Duration;

        const MICRO: u64 = 1_000;

        /// Begins sleeps at these times, in nanoseconds, each of which may last as long as `timeout`. Returns how often the
        /// alarm was set.
        fn settings(alarm: &mut Alarm, times: impl Iterator<Item = u64>, timeout: Duration) -> usize {
            let poll = poller();
            let before = alarm.settings;
            for now in times {
                alarm
                    .set(poll.registry(), Until::Time { timeout, alarm_ns: now + timeout.as_nanos() as u64 });
            }
            alarm.settings - before
        }

        fn poller() -> mio::Poll {
            mio::Poll::new().expect("a poller")
        }

        fn alarm() -> Alarm {
            Alarm::new(poller().registry(), ClockId::Monotonic).expect("an alarm")
        }

        #[test]
        fn it_is_made_for_the_first_sleep_that_has_an_end_and_again_where_it_could_not_be_had() {
            let poll = poller();
            let mut alarm = alarm();
            for until in [Until::Now, Until::Event] {
                alarm.set(poll.registry(), until);
                assert!(alarm.timer.is_none() && alarm.settings == 0);
            }
            alarm.refused = true;
            assert_eq!(settings(&mut alarm, [HOUR].into_iter(), SECOND), 0);
            alarm.refused = false;
            // For the same moment, too.
            assert_eq!(settings(&mut alarm, [HOUR, HOUR].into_iter(), SECOND), 1);
            assert!(alarm.timer.is_some());
        }

        /// A hundred sleeps, ten microseconds apart, from here on.
        fn many(from: u64) -> impl Iterator<Item = u64> {
            (0..100).map(move |n| from + n * 10 * MICRO)
        }

        const HOUR: u64 = 3600 * NANOS_PER_SEC;
        const SECOND: Duration = Duration::from_secs(1);

        #[test]
        fn where_sleeps_are_few_it_is_set_for_each() {
            for apart in [SECOND / 10, 5 * SECOND, Duration::from_secs(3600)] {
                let few = (1..=20).map(|n| n * apart.as_nanos() as u64);
                assert_eq!(settings(&mut alarm(), few, 10 * apart), 20);
            }
        }

        #[test]
        fn where_sleeps_are_many_it_is_left_until_it_is_near_or_has_rung() {
            let mut alarm = alarm();
            settings(&mut alarm, many(HOUR), SECOND);
            assert_eq!(settings(&mut alarm, many(HOUR + 1000 * MICRO), SECOND), 0);
            assert_eq!(alarm.set_to.map(|at| at < HOUR + NANOS_PER_SEC + 1000 * MICRO), Some(true));
            alarm.set(poller().registry(), Until::Event);
            assert!(alarm.set_to.is_some(), "it was set for a sleep without an end");
            // Sleeps may become few before it has rung.
            assert_eq!(settings(&mut alarm, [HOUR + NANOS_PER_SEC / 2].into_iter(), SECOND), 1);
            settings(&mut alarm, many(HOUR + NANOS_PER_SEC / 2), SECOND);
            alarm.rang();
            assert_eq!(settings(&mut alarm, many(HOUR + NANOS_PER_SEC / 2 + 1000 * MICRO), SECOND), 1);
        }

        #[test]
        fn it_is_set_to_an_earlier_time_in_any_case() {
            let mut alarm = alarm();
            settings(&mut alarm, many(HOUR), SECOND);
            let now = HOUR + 1000 * MICRO;
            for shorter in [500, 400, 399] {
                assert_eq!(settings(&mut alarm, [now].into_iter(), Duration::from_millis(shorter)), 1);
            }
        }

        #[test]
        fn sleeps_of_which_each_is_short_set_it_as_often_as_they_are_long() {
            let mut alarm = alarm();
            settings(&mut alarm, many(HOUR), SECOND);
            // A hundred microseconds are so near that few sleeps begin before then.
            let short = Duration::from_micros(100);
            assert_eq!(settings(&mut alarm, many(HOUR + 1000 * MICRO), short), 100);
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod none {
    use crate::clock::system::ClockId;
    use crate::reactor::Until;
    use mio::Registry;
    use std::io;

    #[derive(Debug)]
    pub(in crate::reactor) struct Alarm;

    impl Alarm {
        pub(in crate::reactor) fn new(_: &Registry, clock: ClockId) -> io::Result<Alarm> {
            match clock {
                ClockId::Monotonic => Ok(Alarm),
                ClockId::Boottime => Err(io::ErrorKind::Unsupported.into()),
            }
        }

        pub(in crate::reactor) fn set(&mut self, _: &Registry, _: Until) {}

        pub(in crate::reactor) fn rang(&mut self) {}
    }
}
