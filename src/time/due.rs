//! `Due`: an agenda that a task can wait for. [`DelayQueue`](super::DelayQueue) and [`TimerMap`](super::TimerMap) are
//! built on it.
//!
//! Ground rules:
//!
//! * One timer of the driver serves all entries. It is set, in `poll` and nowhere else, to the time at which the agenda must
//!   next be checked; nothing is allocated for an entry, or when an entry comes due. That time includes the entries' slack;
//!   the timer has what is left of it.
//! * A waiting task is woken when an entry is put before all others, and when there is nothing left to wait for. Its
//!   waker runs when everything is consistent again: code that changes the agenda calls [`Due::sooner`] or
//!   [`Due::fewer`] last.
//! * The agenda is told the time by whoever reads the clock for an entry, and otherwise by [`Due::tell_time`], before an entry is
//!   inserted or moved.
//! * Before an entry comes out late, the tasks run that sockets have woken by then: what they have read may put the entry off.
//! * It belongs to one runtime: the one in which it was made or, if it was made outside a runtime, the one in which it
//!   was first used.

use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use mainspring_driver::agenda::{Agenda, Entry, Key, Popped};
use mainspring_driver::{Handle as Timers, Nanos, TimerEntry};

use super::error::{Error, Kind};
use super::instant::{self, Instant};
use crate::coop::{self, Permit};
use crate::runtime::Handle;

/// The maximum number of entries that one poll moves within the wheel; the others wait for the next poll.
const MOVES_PER_POLL: usize = 4096;

pub(super) struct Due<T> {
    pub(super) agenda: Agenda<T>,
    runtime: Option<Handle>,
    /// Made by the first poll that has to wait.
    alarm: Option<Pin<Box<TimerEntry>>>,
    /// How late the alarm may ring.
    slack: Duration,
    /// Whether the tolerance was set explicitly, and is not the runtime's.
    asked: bool,
    /// The waker of the task that polled last and had to wait. Kept, so that it need not be cloned for every wait.
    waker: Option<Waker>,
    /// Until when that task waits: an entry before this must wake it. [`Nanos::ZERO`] if it does not wait.
    until: Nanos,
    /// A poll has reported the end, and nothing was inserted since.
    ended: bool,
    /// The latest poll was refused, because the task's budget was used up.
    refused: bool,
    made_at: &'static Location<'static>,
}

impl<T> Due<T> {
    #[track_caller]
    pub(super) fn with_capacity(capacity: usize) -> Due<T> {
        let mut due = Due {
            agenda: Agenda::with_capacity(capacity),
            runtime: None,
            alarm: None,
            slack: Duration::ZERO,
            asked: false,
            waker: None,
            until: Nanos::ZERO,
            ended: false,
            refused: false,
            made_at: Location::caller(),
        };
        if let Ok(runtime) = Handle::try_current() {
            due.join(runtime);
        }
        due
    }

    /// Lets entries come out up to `most` late, whatever the runtime's tolerance.
    pub(super) fn tolerance(mut self, most: Duration) -> Due<T> {
        self.asked = true;
        self.agenda.set_slack(most);
        self
    }

    /// Binds it to this runtime, from now on.
    fn join(&mut self, runtime: Handle) {
        if !self.asked {
            self.agenda.set_tolerance(runtime.timers().tolerance());
        }
        self.runtime = Some(runtime);
    }

    /// The timers of its runtime.
    ///
    /// # Panics
    ///
    /// If there is no runtime yet and this thread is in none.
    #[track_caller]
    pub(super) fn timers(&mut self) -> &Timers {
        if self.runtime.is_none() {
            match Handle::try_current() {
                Ok(runtime) => self.join(runtime),
                Err(_) => self.fail(Error(Kind::NoRuntime)),
            }
        }
        self.runtime.as_ref().expect("set above").timers()
    }

    /// The latest reading of its runtime's clock, if it has a runtime yet.
    pub(super) fn latest(&self) -> Option<Nanos> {
        self.runtime.as_ref().map(|runtime| runtime.timers().latest())
    }

    /// The time when `duration` has passed. Tells the agenda the time.
    #[track_caller]
    pub(super) fn after(&mut self, duration: Duration) -> Nanos {
        let now = self.timers().now();
        self.agenda.note(now);
        now.saturating_add(duration)
    }

    /// The time of `instant`. Tells the agenda the time.
    #[track_caller]
    pub(super) fn at(&mut self, instant: Instant) -> Nanos {
        // All runtimes count time alike, but there must be a runtime.
        self.timers();
        self.tell_time();
        instant::to_nanos(instant)
    }

    /// Inserts an entry. Call [`sooner`](Due::sooner) afterwards, unless a poll does this.
    pub(super) fn insert(&mut self, value: T, at: Nanos) -> Key {
        self.ended = false;
        self.agenda.insert(value, at)
    }

    /// Gives an entry another time. Returns whether the entry is there. Call [`sooner`](Due::sooner) afterwards, unless a
    /// poll does this.
    pub(super) fn move_to(&mut self, key: Key, at: Nanos) -> bool {
        self.agenda.reset(key, at)
    }

    /// Gives an entry another time. Returns whether the entry is there.
    pub(super) fn reset(&mut self, key: Key, at: Nanos) -> bool {
        let there = self.move_to(key, at);
        if there {
            self.sooner(at);
        }
        there
    }

    /// The same, with a moment. Needs no runtime if there is no such entry.
    pub(super) fn reset_at(&mut self, key: Key, when: Instant) -> bool {
        self.tell_time();
        self.reset(key, instant::to_nanos(when))
    }

    /// Tells the agenda the time: an entry that is inserted or reset now has a share of the time from now on as its
    /// slack. On the runtime's thread the latest reading is of this turn. On another it may be from before a long park.
    #[inline]
    pub(super) fn tell_time(&mut self) {
        // Apart, because it would need registers in which the caller keeps something.
        #[cold]
        fn read(timers: &Timers) -> Nanos {
            timers.now()
        }

        if let Some(runtime) = &self.runtime {
            let timers = runtime.timers();
            self.agenda.note(if runtime.is_running_here() { timers.latest() } else { read(timers) });
        }
    }

    /// Wakes the waiting task if an entry that is due at `at` comes before what the task waits for.
    pub(super) fn sooner(&mut self, at: Nanos) {
        if at < self.until {
            self.wake();
        }
    }

    /// Must be called after entries were removed. If none is left, wakes the waiting task, to tell it.
    pub(super) fn fewer(&mut self) {
        if self.agenda.is_empty() {
            self.wake();
        }
    }

    /// Wakes the waiting task, if any: there may be something else to wait for, or nothing.
    pub(super) fn wake(&mut self) {
        if std::mem::replace(&mut self.until, Nanos::ZERO) > Nanos::ZERO {
            if let Some(waker) = &self.waker {
                waker.wake_by_ref();
            }
        }
    }

    /// Whether a poll has reported the end, and nothing was inserted since.
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Polls for the next entry that is due. If there is no entry at all, the poll is ready if that is the `end`;
    /// otherwise the task waits for an entry.
    ///
    /// # Panics
    ///
    /// If an entry has to be waited for, and the runtime was dropped.
    #[track_caller]
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, end: bool) -> Poll<Option<Entry<T>>> {
        let permit = ready!(self.poll_permit(cx));
        self.poll_with(permit, cx, end)
    }

    /// Asks whether the running poll of the task may take an entry.
    pub(super) fn poll_permit(&mut self, cx: &mut Context<'_>) -> Poll<Permit> {
        let permit = coop::poll_proceed_timer(cx, || self.refused);
        self.refused = permit.is_pending();
        permit
    }

    /// As [`poll`](Due::poll), with permission to take an entry.
    #[track_caller]
    pub(super) fn poll_with(
        &mut self,
        permit: Permit,
        cx: &mut Context<'_>,
        end: bool,
    ) -> Poll<Option<Entry<T>>> {
        let entry = ready!(self.poll_due(cx, end));
        permit.spend();
        self.ended = entry.is_none();
        Poll::Ready(entry)
    }

    #[track_caller]
    fn poll_due(&mut self, cx: &mut Context<'_>, end: bool) -> Poll<Option<Entry<T>>> {
        self.until = Nanos::ZERO;
        let mut moves = MOVES_PER_POLL;
        loop {
            if self.agenda.is_empty() {
                // Nothing is due, but memory may be released.
                if let Some(now) = self.latest() {
                    self.agenda.pop_due_within(now, &mut moves);
                }
                self.disarm();
                return if end { Poll::Ready(None) } else { self.wait(cx, Nanos::NEVER) };
            }
            // The latest reading of the clock is enough: the alarm finds entries that came due since.
            let mut now = self.timers().latest();
            if let Some(alarm) = self.alarm.as_ref().filter(|alarm| alarm.is_elapsed()) {
                now = now.max(alarm.deadline());
            }
            if coop::is_behind() {
                // The alarm may have rung in time for an earlier entry.
                let due = self.agenda.next_deadline().filter(|at| *at <= now);
                if due.is_some_and(|at| coop::waits_for_others(at, cx.waker())) {
                    return Poll::Pending;
                }
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
                        // If the alarm were put off while it is armed, it would keep its slack.
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
                // At least that time has passed now: an entry is due, or the agenda's bound gets better.
                Poll::Ready(Ok(())) => {}
                // Perhaps an entry came due and nobody has read the clock since: then it comes out all the same.
                Poll::Ready(Err(_shutdown)) if self.is_due() => {}
                Poll::Ready(Err(_shutdown)) => self.fail(Error(Kind::Shutdown)),
                Poll::Pending => return self.wait(cx, next.saturating_add(slack)),
            }
        }
    }

    /// Whether an entry is due, by a new reading of the clock.
    fn is_due(&mut self) -> bool {
        let now = self.timers().now();
        self.agenda.next_deadline().is_some_and(|deadline| deadline <= now)
    }

    /// When the agenda must next be checked, and how much later that may be. A wake-up too many is cheaper than an exact answer,
    /// but virtual time must not stop at a moment at which no entry is due.
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
        // An entry at `until` does not wake the task, but it must be possible to have an earlier one: `NEVER` is later
        // than all others.
        self.until = until;
        Poll::Pending
    }

    /// No task waits for a time, so the driver need not either.
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
