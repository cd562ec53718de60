//! `Due`: an agenda that a task can wait for, which is what a [`DelayQueue`](super::DelayQueue) and a
//! [`TimerMap`](super::TimerMap) are made of.
//!
//! Ground rules:
//!
//! * One driver's timer serves all entries. It is set to when the agenda wants to be looked at next, in `poll`
//!   and nowhere else; nothing is allocated for an entry, or when one comes due. The slack of the entries is in that time; the
//!   timer has what is left of it.
//! * A task that waits is woken when an entry is put before all others, and when there is nothing left to
//!   wait for. Its waker runs when everything is in order again: what changes the agenda calls
//!   [`Due::sooner`] or [`Due::fewer`] last.
//! * It belongs to one runtime: the one in which it was made or, if in none, the one in which it was first used.

use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use mainspring_driver::agenda::{Agenda, Entry, Key, Popped};
use mainspring_driver::{Handle as Timers, Nanos, TimerEntry, Tolerance};

use super::error::{Error, Kind};
use super::instant::{self, Instant};
use crate::coop;
use crate::runtime::context;

/// Entries that one poll moves within the wheel; the others wait for the next.
const MOVES_PER_POLL: usize = 4096;

pub(super) struct Due<T> {
    pub(super) agenda: Agenda<T>,
    timers: Option<Timers>,
    /// Made by the first poll that has to wait.
    alarm: Option<Pin<Box<TimerEntry>>>,
    /// How late the alarm may ring.
    slack: Duration,
    /// Whether the tolerance was asked for, and is not the runtime's.
    asked: bool,
    /// Who polled last and had to wait. Kept, so that it need not be cloned for every wait.
    waker: Option<Waker>,
    /// Until when that task waits: an entry before this must wake it. [`Nanos::ZERO`] if it does not wait.
    until: Nanos,
    /// A poll has told of the end, and nothing was put in since.
    ended: bool,
    made_at: &'static Location<'static>,
}

impl<T> Due<T> {
    #[track_caller]
    pub(super) fn with_capacity(capacity: usize) -> Due<T> {
        let mut due = Due {
            agenda: Agenda::with_capacity(capacity),
            timers: None,
            alarm: None,
            slack: Duration::ZERO,
            asked: false,
            waker: None,
            until: Nanos::ZERO,
            ended: false,
            made_at: Location::caller(),
        };
        if let Ok(timers) = context::timers() {
            due.join(timers);
        }
        due
    }

    /// Lets entries come out up to `most` late, whatever the runtime's tolerance.
    pub(super) fn tolerance(mut self, most: Duration) -> Due<T> {
        self.asked = true;
        self.agenda.set_tolerance(Tolerance::Fixed { ratio: 1.0, max: most });
        self
    }

    /// From now on it belongs to this runtime.
    fn join(&mut self, timers: Timers) {
        if !self.asked {
            self.agenda.set_tolerance(timers.tolerance());
        }
        self.timers = Some(timers);
    }

    /// The timers of its runtime.
    ///
    /// # Panics
    ///
    /// If there is none yet and this thread is in none.
    #[track_caller]
    pub(super) fn timers(&mut self) -> &Timers {
        if self.timers.is_none() {
            match context::timers() {
                Ok(timers) => self.join(timers),
                Err(_) => self.fail(Error(Kind::NoRuntime)),
            }
        }
        self.timers.as_ref().expect("set above")
    }

    #[track_caller]
    pub(super) fn after(&mut self, duration: Duration) -> Nanos {
        self.timers().now().saturating_add(duration)
    }

    #[track_caller]
    pub(super) fn at(&mut self, instant: Instant) -> Nanos {
        // All runtimes count alike; but there must be one.
        self.timers();
        instant::to_nanos(instant)
    }

    /// Puts an entry in. [`sooner`](Due::sooner) follows, unless this is done by a poll.
    pub(super) fn insert(&mut self, value: T, at: Nanos) -> Key {
        self.ended = false;
        self.tell_time();
        self.agenda.insert(value, at)
    }

    /// Gives an entry another time. Says whether it is there.
    pub(super) fn reset(&mut self, key: Key, at: Nanos) -> bool {
        self.tell_time();
        let there = self.agenda.reset(key, at);
        if there {
            self.sooner(at);
        }
        there
    }

    /// The slack of what comes now is a share of the time from now on.
    fn tell_time(&mut self) {
        if let Some(timers) = &self.timers {
            self.agenda.note(timers.latest());
        }
    }

    /// An entry is due at `at`: wakes the task that waits, if that is before what it waits for.
    pub(super) fn sooner(&mut self, at: Nanos) {
        if at < self.until {
            self.wake();
        }
    }

    /// Entries were taken out. If there is none left, wakes the task that waits, to tell it.
    pub(super) fn fewer(&mut self) {
        if self.agenda.is_empty() {
            self.wake();
        }
    }

    /// Wakes the task that waits, if any: there may be something else to wait for, or nothing.
    pub(super) fn wake(&mut self) {
        if std::mem::replace(&mut self.until, Nanos::ZERO) > Nanos::ZERO {
            if let Some(waker) = &self.waker {
                waker.wake_by_ref();
            }
        }
    }

    /// Whether a poll has told of the end, and nothing was put in since.
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// The next entry that is due. If there is no entry at all: ready if that is the `end`, and otherwise the
    /// task waits for one.
    ///
    /// # Panics
    ///
    /// If there is no runtime to wait in, or it was dropped.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, end: bool) -> Poll<Option<Entry<T>>> {
        let permit = ready!(coop::poll_proceed(cx));
        let entry = ready!(self.poll_due(cx, end));
        permit.spend();
        self.ended = entry.is_none();
        Poll::Ready(entry)
    }

    fn poll_due(&mut self, cx: &mut Context<'_>, end: bool) -> Poll<Option<Entry<T>>> {
        self.until = Nanos::ZERO;
        let mut moves = MOVES_PER_POLL;
        loop {
            if self.agenda.is_empty() {
                self.disarm();
                return if end { Poll::Ready(None) } else { self.wait(cx, Nanos::NEVER) };
            }
            // A latest reading will do: what came due since is found by the alarm.
            let mut now = self.timers().latest();
            if let Some(alarm) = self.alarm.as_ref().filter(|alarm| alarm.is_elapsed()) {
                now = now.max(alarm.deadline());
            }
            match self.agenda.pop_due_within(now, &mut moves) {
                Popped::Entry(entry) => return Poll::Ready(Some(entry)),
                Popped::Exhausted => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Popped::Idle => {}
            }
            let Some((next, slack)) = self.next() else { continue };
            let alarm = match &mut self.alarm {
                Some(alarm) => {
                    if (alarm.deadline(), self.slack) != (next, slack) {
                        // If it were armed, and put off, it would keep its slack.
                        alarm.as_mut().cancel();
                        alarm.as_mut().set_tolerance(Some(slack));
                        alarm.as_mut().reset(next);
                    }
                    alarm
                }
                None => {
                    let made_at = self.made_at;
                    let alarm = TimerEntry::with_origin(self.timers().clone(), next, made_at);
                    self.alarm.insert(Box::pin(alarm.tolerance(slack)))
                }
            };
            self.slack = slack;
            match alarm.as_mut().poll_elapsed(cx) {
                // Now at least so much has passed: something is due, or the agenda's bound gets better.
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_shutdown)) => self.fail(Error(Kind::Shutdown)),
                Poll::Pending => return self.wait(cx, next.saturating_add(slack)),
            }
        }
    }

    /// When the agenda wants to be looked at next, or so much later. A wake-up too many is cheaper than an exact answer, but virtual
    /// time must not stop where nobody has a deadline.
    fn next(&mut self) -> Option<(Nanos, Duration)> {
        let timers = self.timers();
        if timers.is_paused() || timers.clock().is_test() {
            self.agenda.next_deadline().map(|deadline| (deadline, Duration::ZERO))
        } else {
            self.agenda.next_park()
        }
    }

    fn wait<R>(&mut self, cx: &mut Context<'_>, until: Nanos) -> Poll<R> {
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            self.waker = Some(cx.waker().clone());
        }
        // An entry at `until` is no news, but it must be possible to have one before: `NEVER` is after all.
        self.until = until;
        Poll::Pending
    }

    /// Nobody waits for a time: the driver need not either.
    fn disarm(&mut self) {
        if let Some(alarm) = &mut self.alarm {
            alarm.as_mut().cancel();
        }
    }

    #[cold]
    #[track_caller]
    fn fail(&self, error: Error) -> ! {
        panic!("{error} (the timers were made at {})", self.made_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_allocated_before_the_first_entry() {
        let due = Due::<u64>::with_capacity(0);
        assert_eq!(due.agenda.allocated_bytes(), 0);
        assert!(due.alarm.is_none());
    }
}
