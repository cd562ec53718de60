//! Up to which moment everything that had arrived has been read.
//!
//! What arrives at a socket may be read by one task and passed on to another, which waits for it, but not for ever. Tasks that timers
//! wake run before those that sockets wake. So if the thread was held up, the message may have come in time and the end of the wait is
//! seen first nevertheless. Two rules prevent that:
//!
//! ```text
//!   look at the sockets ─▶ looked: notes when that was, and which woken task is the last ─▶ these have their turn ─▶ settle
//!        │                                                                                                            │
//!        │ after a long hold-up                                                                                       ▼
//!        └──────────────────────▶ no timer fires ───────────────────────────────────────────────────────────▶ timers fire
//!
//!   a timeout or a queue is found late ─▶ coop::waits_for_others: its task is put off ─────────────▶ release_late: it has its turn
//! ```
//!
//! Ground rules:
//!
//! * All timers wait only after a hold-up of [`HELD_UP`]: in a shorter time, beside tasks that compute, sleeps would wait for these.
//! * A timer that is due before a moment that is settled does not wait: all that may put it off has been read. So each hold-up delays timers
//!   once, however often the thread is held up.
//! * A later look does not replace one whose tasks have yet to have their turn, but follows it. So with two looks in mind everything is
//!   settled in the end, however many tasks each look finds.
//! * After any hold-up that makes a timer late, but not in a busy program that looks at its sockets, late timeouts and queues wait as well for
//!   tasks that have used up their budget; for [`MORE`] questions at most.
//! * If time is paused, or is advanced by the program, the thread is never held up.

use mainspring_driver::Nanos;

use crate::coop;
use crate::executor::{Executor, Lane};

/// If nobody has looked at the sockets for so long, in nanoseconds, the thread was held up. Polls seldom take so long.
const HELD_UP: u64 = 100_000_000;

/// So often it is asked whether a task is ready that has used up its budget: one that was woken may have more to read. It is asked about three
/// times for each time slice of such a task. (A time would be over if the process is stopped once more.)
const MORE: u32 = 150;

/// A look at the sockets.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    at: Nanos,
    /// The number of the last turn of those tasks that were woken by then, among all turns of woken tasks.
    last: u64,
}

/// What has been seen. It lasts from one `block_on` to the next.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Whatever had arrived by then has been read.
    settled: Nanos,
    /// The tasks have had a turn that were woken by then, but may have used up their budget.
    polled: Nanos,
    /// What is settled next, when no such task is ready; and how often that is still to be asked.
    next: (Nanos, u32),
    /// The first look after that, and the latest one; they may be one.
    first: Look,
    latest: Look,
    /// The latest look before which nobody had looked for so long that a timer is late.
    late: Nanos,
    /// The look that timers wait for.
    awaited: Nanos,
}

impl Seen {
    /// Begins a `block_on`, or a turn in another event loop. Timers that have fired before may be late.
    pub(super) fn enter(&self) {
        coop::set_seen(self.settled, self.latest.at);
    }

    /// The sockets were looked at `now`, and the earliest timer is due at `due`.
    pub(super) fn looked(&mut self, executor: &Executor, now: Nanos, due: Nanos) {
        let since = self.latest.at.max(due);
        let held_up = now > since.saturating_add_nanos(HELD_UP);
        if now > since.saturating_add_nanos(coop::LATE) {
            self.late = now;
        }
        self.settle(executor);
        let look = Look { at: now, last: executor.turns_of_woken().wrapping_add(executor.woken() as u64) };
        if self.first.at <= self.polled {
            self.first = look;
        }
        self.latest = look;
        self.settle(executor);
        if held_up && due > self.polled && !self.holds_timers() {
            self.awaited = now;
        }
        coop::set_seen(self.settled, now);
    }

    /// Notes whether the tasks have had their turn that were woken by the first look, or the latest.
    pub(super) fn settle(&mut self, executor: &Executor) {
        // Some of those tasks may have ended in another way.
        let turns = if executor.is_waiting(Lane::Woken) { executor.turns_of_woken() } else { u64::MAX };
        if turns >= self.first.last {
            self.polled = self.first.at;
            self.first = self.latest;
        }
        if turns >= self.latest.last {
            self.polled = self.latest.at;
        }
        if self.next.0 == self.settled {
            let is_late = self.settled < self.late && self.late <= self.polled;
            self.next = (self.polled, if is_late { MORE } else { 0 });
        }
        let (next, more) = self.next;
        if next == self.settled {
            return;
        }
        if more > 0 && executor.is_waiting(Lane::Exhausted) {
            self.next = (next, more - 1);
        } else {
            self.settled = next;
            coop::set_seen(self.settled, self.latest.at);
            executor.release_late();
        }
    }

    /// Whether no timer may fire, because tasks that a look after a hold-up has found have yet to have a turn.
    pub(super) fn holds_timers(&self) -> bool {
        self.polled < self.awaited
    }

    /// Forgets everything: time is not what the clock shows.
    pub(super) fn clear(&mut self, executor: &Executor) {
        *self = Seen::default();
        coop::set_seen(Nanos::ZERO, Nanos::ZERO);
        executor.release_late();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use mainspring_driver::Unpark;
    use std::ops::ControlFlow;
    use std::sync::Arc;

    struct Awake;

    impl Unpark for Awake {
        fn unpark(&self) {}
    }

    /// A moment, in seconds.
    fn at(seconds: u64) -> Nanos {
        Nanos::new(seconds * 1_000_000_000)
    }

    fn wake(executor: &Executor, tasks: usize) {
        (0..tasks).for_each(|_| drop(executor.spawn(async {})));
    }

    fn run(executor: &Executor, polls: usize) {
        assert_eq!(executor.run(polls, || ControlFlow::Continue(())).taken, polls);
    }

    #[test]
    fn a_look_is_settled_once_the_tasks_have_had_their_turn_that_it_found() {
        let executor = Executor::new(Arc::new(Awake));
        let _entered = executor.enter();
        let mut seen = Seen::default();
        seen.looked(&executor, at(1), Nanos::NEVER);
        assert_eq!(seen.settled, at(1), "it found none");
        wake(&executor, 2);
        seen.looked(&executor, at(2), Nanos::NEVER);
        // Later looks do not put it off.
        for second in 3..6 {
            wake(&executor, 1);
            seen.looked(&executor, at(second), Nanos::NEVER);
        }
        run(&executor, 1);
        seen.settle(&executor);
        assert_eq!(seen.settled, at(1));
        run(&executor, 1);
        seen.settle(&executor);
        assert_eq!(seen.settled, at(2));
        run(&executor, 2);
        seen.settle(&executor);
        assert_eq!(seen.settled, at(2), "the latest look is next");
        run(&executor, 1);
        seen.settle(&executor);
        assert_eq!(seen.settled, at(5));
        seen.clear(&executor);
        assert_eq!(seen.settled, Nanos::ZERO);
    }

    #[test]
    fn timers_are_held_once_by_a_look_after_a_long_hold_up() {
        let executor = Executor::new(Arc::new(Awake));
        let _entered = executor.enter();
        let mut seen = Seen::default();
        let looked = |seen: &mut Seen, now: Nanos, due: Nanos| {
            wake(&executor, 1);
            seen.looked(&executor, now, due);
            seen.holds_timers()
        };
        looked(&mut seen, at(1), Nanos::NEVER);
        assert!(!looked(&mut seen, at(2), Nanos::NEVER), "no timer is late");
        assert!(!looked(&mut seen, at(2).saturating_add_nanos(HELD_UP), at(1)), "nobody was held up");
        run(&executor, 3);
        assert!(looked(&mut seen, at(4), at(3)));
        // Held up again and again, and with ever more tasks, all timers wait for those of two looks at most.
        assert!(looked(&mut seen, at(5), at(3)));
        run(&executor, 1);
        assert!(!looked(&mut seen, at(6), at(3)), "it is settled");
        assert!(!looked(&mut seen, at(7), at(4)), "that timer was due before the look that is settled");
        assert!(looked(&mut seen, at(8), at(5)), "that one was not");
        seen.clear(&executor);
        assert!(!seen.holds_timers());
    }
}
