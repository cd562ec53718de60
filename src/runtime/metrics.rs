//! Counts of what a runtime has done: written by its thread, read from anywhere.
//!
//! Ground rules:
//!
//! * Only the runtime's own thread writes, so a load and a store are enough to count, and a reader sees each count as it was
//!   a moment ago. Different counts are not read at the same instant.
//! * Nothing here needs a system call, an allocation, or a reading of the clock that the turn would not need anyway.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mainspring_driver::{Handle as Timers, Lateness, Stats};

/// What the runtime's thread counts itself.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) turns: Counter,
    pub(super) wakeups: Counter,
    pub(super) by_timer: Counter,
    pub(super) by_io: Counter,
    pub(super) by_thread: Counter,
    pub(super) polls: Counter,
    pub(super) events: Counter,
    pub(super) tasks: Counter,
    /// Under a lock, because its parts belong together. The lock is taken when a turn is longer than all before.
    longest: Mutex<LongestTurn>,
}

impl Counters {
    /// Records a turn that was longer than all before.
    pub(super) fn set_longest(&self, turn: LongestTurn) {
        *self.longest.lock().unwrap_or_else(PoisonError::into_inner) = turn;
    }
}

/// A count with one writer.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(super) fn add(&self, n: u64) {
        // Relaxed, and not one atomic step: there is one writer, and nothing hangs on the count.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn set(&self, n: u64) {
        // Relaxed: as above.
        self.0.store(n, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The longest turn of a runtime, and what it consisted of; see [`Metrics::longest_turn`].
///
/// ```
/// mainspring::block_on(async {
///     mainspring::task::yield_now().await;
///     let longest = mainspring::Handle::current().metrics().longest_turn();
///     println!("at most {:?} without a look at sockets, in {} polls", longest.duration, longest.polls);
/// });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongestTurn {
    /// From the runtime's reading of the clock after one look at the I/O to its reading at the next look, or before the next
    /// sleep, or at the end of a `block_on` that took a turn before. Measured by the runtime's own clock: a turn takes no time
    /// if that is [paused](crate::time::pause) as the turn begins or ends, or is a [`TestClock`](crate::time::TestClock).
    pub duration: Duration,
    /// Polls of tasks, and of `block_on`'s own future.
    pub polls: u64,
    /// Timers that fired.
    pub timers: u64,
}

impl fmt::Display for LongestTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1?} ({} timers fired, {} polls)", self.duration, self.timers, self.polls)
    }
}

/// What a runtime has done so far. Made by [`Handle::metrics`](super::Handle::metrics).
///
/// Everything is always counted, in memory that is there from the beginning. What this costs for a timer that fires is
/// documented at [`Lateness`]; the other counts are a few additions a turn. Reading them takes less than 100 ns.
///
/// ```
/// use std::time::Duration;
///
/// mainspring::block_on(async {
///     mainspring::sleep(Duration::from_millis(20)).await;
///     let metrics = mainspring::runtime::Handle::current().metrics();
///     assert_eq!((metrics.timers_armed(), metrics.timers_fired()), (1, 1));
///     assert!(metrics.wakeups() >= 1);
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Metrics {
    turns: u64,
    wakeups: u64,
    by_timer: u64,
    by_io: u64,
    by_thread: u64,
    polls: u64,
    events: u64,
    tasks: u64,
    longest: LongestTurn,
    timers: Stats,
    lateness: Lateness,
}

impl Metrics {
    /// Reads the counts. `tasks` is a better count of the tasks that are alive, if there is one.
    pub(super) fn new(counters: &Counters, timers: &Timers, tasks: Option<usize>) -> Metrics {
        Metrics {
            turns: counters.turns.get(),
            wakeups: counters.wakeups.get(),
            polls: counters.polls.get(),
            by_timer: counters.by_timer.get(),
            by_io: counters.by_io.get(),
            by_thread: counters.by_thread.get(),
            events: counters.events.get(),
            tasks: tasks.map_or_else(|| counters.tasks.get(), |tasks| tasks as u64),
            longest: *counters.longest.lock().unwrap_or_else(PoisonError::into_inner),
            timers: timers.stats(),
            lateness: timers.lateness(),
        }
    }

    /// Returns how many turns the runtime has taken: how often it looked at its I/O and its timers.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Returns in how many turns the runtime went to sleep and was woken again: by a timer, an event or another thread. There
    /// may be several of these causes at once, or none: then a signal ended the sleep, or the hour after which a sleep
    /// until a time ends at the latest.
    pub fn wakeups(&self) -> u64 {
        self.wakeups
    }

    /// Returns at how many wake-ups the time had come to which the runtime had set its alarm.
    pub fn wakeups_by_timer(&self) -> u64 {
        self.by_timer
    }

    /// Returns at how many wake-ups there were I/O events.
    pub fn wakeups_by_io(&self) -> u64 {
        self.by_io
    }

    /// Returns at how many wake-ups another thread had called the runtime: to wake a task or spawn one, or because it armed a
    /// timer that is due before the alarm.
    pub fn wakeups_by_thread(&self) -> u64 {
        self.by_thread
    }

    /// Returns how many parks were meant to last beyond the earliest deadline, so that several timers end with one wake-up:
    /// the [tolerance](crate::time::Tolerance) of all timers that are due by then allowed it. A park counts even if something
    /// else (an event, another thread) ended it sooner. Under another loop, each `next_wake` and each idle [`turn`] that found such
    /// a time counts, however short the sleep was, and so it is with a clock that the program advances.
    ///
    /// [`turn`]: super::Runtime::turn
    pub fn parks_coalesced(&self) -> u64 {
        self.timers.parks_coalesced
    }

    /// Returns the longest turn so far: the longest time in which the runtime looked neither at its I/O nor at its timers.
    pub fn longest_turn(&self) -> LongestTurn {
        self.longest
    }

    /// Returns how many tasks were spawned and have not ended. On the runtime's own thread the number is exact. On other
    /// threads it is the number after the runtime's last stretch of polls, without those that it had not taken in by then.
    pub fn tasks_alive(&self) -> usize {
        self.tasks as usize
    }

    /// Returns how many polls of tasks and of `block_on`'s own future there were. They are counted after a stretch of polls,
    /// of at most [`event_interval`](super::Builder::event_interval).
    pub fn polls(&self) -> u64 {
        self.polls
    }

    /// Returns how many I/O events were delivered to a socket.
    pub fn io_events(&self) -> u64 {
        self.events
    }

    /// Returns how many timers are registered now.
    pub fn timers_live(&self) -> usize {
        self.timers.live
    }

    /// Returns how many timers were registered. Sleeps that are ready at once are never registered.
    pub fn timers_armed(&self) -> u64 {
        self.timers.armed
    }

    /// Returns how many registered timers reached their deadline, or were reset to a moment in the past.
    pub fn timers_fired(&self) -> u64 {
        self.timers.fired
    }

    /// Returns how many registered timers were dropped before their deadline.
    pub fn timers_cancelled(&self) -> u64 {
        self.timers.cancelled
    }

    /// Returns how often registered timers were reset to a later time, or to the same time.
    pub fn timers_reset(&self) -> u64 {
        self.timers.reset
    }

    /// Returns how late timers fired that had to wait. A sleep or a tick that is overdue when it is first polled never
    /// waits, and is not counted. So this says how late the runtime is, and not whether a task is behind: for that,
    /// measure `interval.tick().await.elapsed()` in the task.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// mainspring::block_on(async {
    ///     mainspring::sleep(Duration::from_millis(1)).await;
    ///     let lateness = mainspring::Handle::current().metrics().lateness();
    ///     assert_eq!(lateness.count(), 1);
    ///     println!("99 % at most {:?} late", lateness.percentile(0.99));
    /// });
    /// ```
    pub fn lateness(&self) -> Lateness {
        self.lateness
    }

    /// Returns how often timers moved within the wheel: by a cascade, or because they were reset to a later time.
    pub fn timers_moved(&self) -> u64 {
        self.timers.moved
    }

    /// Returns how many timers were armed with the wider tolerance that load allows; see
    /// [`Tolerance::Adaptive`](crate::time::Tolerance::Adaptive).
    pub fn timers_widened(&self) -> u64 {
        self.timers.timers_widened
    }
}

/// Prints a line for each subject.
impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timers = &self.timers;
        writeln!(f, "tasks:     {} alive, {} polls, {} I/O events", self.tasks, self.polls, self.events)?;
        writeln!(f, "turns:     {}, the longest {}", self.turns, self.longest)?;
        writeln!(
            f,
            "wake-ups:  {} (timer {}, I/O {}, other thread {}), {} parks coalesced",
            self.wakeups, self.by_timer, self.by_io, self.by_thread, timers.parks_coalesced
        )?;
        writeln!(
            f,
            "timers:    {} live; {} armed, {} fired, {} cancelled, {} reset, {} moved, {} widened",
            timers.live,
            timers.armed,
            timers.fired,
            timers.cancelled,
            timers.reset,
            timers.moved,
            timers.timers_widened
        )?;
        write!(f, "lateness:  {}", self.lateness)
    }
}
