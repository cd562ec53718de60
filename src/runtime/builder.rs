//! `Builder`: the options of a runtime.

use std::io;
use std::time::SystemTime;

use mainspring_driver::Tolerance;

use super::Runtime;
use super::random::{self, Seeds};
use crate::clock::Clock;

/// Configures a [`Runtime`]. The defaults suit nearly every program.
///
/// ```
/// use mainspring::runtime::Builder;
///
/// let runtime = Builder::new().event_interval(31).build()?;
/// assert_eq!(runtime.block_on(async { "done" }), "done");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder {
    pub(super) event_interval: Option<usize>,
    pub(super) wake_priority: bool,
    pub(super) timer_budget: usize,
    pub(super) tolerance: Tolerance,
    pub(super) clock: Clock,
    pub(super) paused: bool,
    pub(super) auto_advance: bool,
    pub(super) wall: Option<SystemTime>,
    seed: Option<u64>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// Makes a builder with the defaults.
    pub fn new() -> Builder {
        Builder {
            event_interval: None,
            wake_priority: true,
            timer_budget: 256,
            tolerance: Tolerance::Adaptive,
            clock: Clock::Monotonic,
            paused: false,
            auto_advance: true,
            wall: None,
            seed: None,
        }
    }

    /// Sets the maximum number of polls after which the runtime looks at its I/O and its timers while there is always a task
    /// to run. By default there is no such number: the runtime looks 50 µs after its last look, or up to a millisecond after
    /// it while tasks are ready that were ready at that look, and as soon as it finds that the next deadline has passed,
    /// however many polls that takes. Only while its time is [paused](crate::time::pause), or follows a
    /// [`TestClock`](crate::time::TestClock), does it count polls: 61.
    ///
    /// With a low number, I/O and timers are served more promptly if polls are long, and each look costs a system call.
    ///
    /// # Panics
    ///
    /// If `polls` is zero.
    #[track_caller]
    pub fn event_interval(mut self, polls: usize) -> Builder {
        assert!(polls > 0, "`event_interval` must be at least 1: otherwise no task would ever be polled");
        self.event_interval = Some(polls);
        self
    }

    /// Sets whether tasks that were woken run before tasks that yielded, and tasks that a timer woke before other woken
    /// tasks; see [`spawn`](crate::spawn#in-which-order-tasks-run). Default: yes. Otherwise all ready tasks wait in one
    /// queue, first in, first out.
    ///
    /// ```
    /// use mainspring::runtime::Builder;
    ///
    /// let runtime = Builder::new().wake_priority(false).build()?;
    /// assert_eq!(runtime.block_on(async { "done" }), "done");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn wake_priority(mut self, priority: bool) -> Builder {
        self.wake_priority = priority;
        self
    }

    /// Sets the maximum number of timers of a backlog that one turn processes: a timer that fires counts as one, and so does
    /// a timer that is moved within the wheel. The rest waits for the next turn, which does not sleep. Default: 256, which
    /// takes some tens of microseconds.
    ///
    /// A lower number keeps turns short when very many timers come due at once; a higher one fires such a
    /// burst sooner.
    ///
    /// # Panics
    ///
    /// If `timers` is zero.
    #[track_caller]
    pub fn timer_budget(mut self, timers: usize) -> Builder {
        assert!(timers > 0, "`timer_budget` must be at least 1: otherwise no timer would ever fire");
        self.timer_budget = timers;
        self
    }

    /// Sets how far a park may outlast the deadline of a timer that has no tolerance of its own, so that several timers end
    /// together. Default: [`Tolerance::Adaptive`].
    ///
    /// # Panics
    ///
    /// `build` panics if a fixed ratio is not between 0 and 1.
    pub fn timer_tolerance(mut self, tolerance: Tolerance) -> Builder {
        self.tolerance = tolerance;
        self
    }

    /// Sets the clock that the runtime's timers follow. Default: [`Clock::Monotonic`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::runtime::Builder;
    /// use mainspring::time::{Clock, Instant, TestClock};
    ///
    /// let clock = TestClock::new();
    /// let runtime = Builder::new().clock(Clock::Test(clock.clone())).build()?;
    /// let nap = runtime.spawn(mainspring::sleep(Duration::from_secs(3600)));
    /// runtime.block_on(async {
    ///     mainspring::task::yield_now().await;
    ///     clock.advance(Duration::from_secs(3600));
    ///     nap.await.unwrap();
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.clock = clock;
        self
    }

    /// Sets whether the runtime's time is paused from the beginning, as after [`time::pause`](crate::time::pause). Default:
    /// no.
    ///
    /// Paused time jumps to the next deadline whenever this runtime has nothing left to run, even while another thread works
    /// for it: a timeout around a blocking call on a thread pool elapses at once, unless a
    /// [`stand_still`](crate::time::stand_still) is held meanwhile. See [an example](crate::time#while-other-threads-work).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use mainspring::runtime::Builder;
    ///
    /// let began = Instant::now();
    /// let runtime = Builder::new().start_paused(true).build()?;
    /// runtime.block_on(mainspring::sleep(Duration::from_secs(365 * 86_400)));
    /// assert!(began.elapsed() < Duration::from_secs(60), "a year in a moment");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// `build` panics if the clock is a [`TestClock`](crate::time::TestClock), which its owner advances.
    pub fn start_paused(mut self, paused: bool) -> Builder {
        self.paused = paused;
        self
    }

    /// Sets whether a runtime whose time is [paused](crate::time::pause) automatically advances its clock to the next
    /// deadline when it has nothing else to do. Default: yes. Otherwise time moves only by [`advance`](crate::time::advance)
    /// and [`advance_to`](crate::time::advance_to).
    pub fn auto_advance(mut self, auto_advance: bool) -> Builder {
        self.auto_advance = auto_advance;
        self
    }

    /// Sets what [`time::wall_now`](crate::time::wall_now) returns when the runtime is built; from then on it follows the
    /// runtime's time. By default it follows the system's clock until the runtime's time becomes virtual.
    pub fn wall_clock(mut self, now: SystemTime) -> Builder {
        self.wall = Some(now);
        self
    }

    /// Sets the seed of the runtime's random numbers. Everything that draws random numbers in this runtime, which is the
    /// [jitter](crate::time::Interval::set_jitter) of intervals, gets its own sequence from this seed. The same seed produces
    /// the same sequences, in the order in which they are first drawn from.
    ///
    /// Default: if time is virtual from the beginning, by [`start_paused`](Builder::start_paused) or a
    /// [`TestClock`](crate::time::TestClock), always the same number, so that two runs of a program are the same. Otherwise a
    /// random number, so that many servers that are started together do not stay in step.
    ///
    /// Other crates draw their random numbers elsewhere. `futures::select!` picks at random among the branches that are
    /// ready: a program that must do the same in each run uses `select_biased!`. Tokio's `watch` and `Barrier` wake several
    /// waiting tasks in random order; `docs/channels.md` in the repository says what to take instead. And std's `HashMap` is
    /// iterated in another order in each run: a `BTreeMap` is not.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mainspring::runtime::Builder;
    /// use mainspring::time::{Instant, interval};
    ///
    /// let run = |seed| {
    ///     let runtime = Builder::new().start_paused(true).seed(seed).build().unwrap();
    ///     runtime.block_on(async {
    ///         let mut ticks = interval(Duration::from_secs(10));
    ///         ticks.set_jitter(Duration::from_secs(5));
    ///         ticks.tick().await;
    ///         Instant::now()
    ///     })
    /// };
    /// assert_eq!(run(1), run(1));
    /// assert_ne!(run(1), run(2));
    /// ```
    pub fn seed(mut self, seed: u64) -> Builder {
        self.seed = Some(seed);
        self
    }

    pub(super) fn seeds(&self) -> Seeds {
        /// Any number would do.
        const VIRTUAL: u64 = 0x6D61_696E_7370_7267;
        let is_virtual = self.paused || matches!(self.clock, Clock::Test(_));
        Seeds::new(self.seed.unwrap_or_else(|| if is_virtual { VIRTUAL } else { random::by_chance() }))
    }

    /// Makes the runtime.
    ///
    /// # Errors
    ///
    /// The errors of the system's poller: mostly that the process, or the machine, has no descriptor left. An error of the
    /// kind [`Unsupported`](io::ErrorKind::Unsupported) if the platform does not have the [clock](Builder::clock) that was
    /// asked for.
    #[track_caller]
    pub fn build(self) -> io::Result<Runtime> {
        Runtime::with(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::TestClock;

    #[test]
    fn the_default_seed_is_fixed_where_time_is_virtual_from_the_beginning() {
        let seed = |builder: Builder| builder.build().unwrap().handle().seed();
        let paused = || Builder::new().start_paused(true);
        let tested = || Builder::new().clock(Clock::Test(TestClock::new()));
        assert_eq!(seed(paused()), seed(paused()));
        assert_eq!(seed(tested()), seed(tested()));
        assert_ne!(seed(Builder::new()), seed(Builder::new()));
        assert_eq!(seed(Builder::new().seed(7)), seed(paused().seed(7)));
        assert_ne!(seed(paused().seed(7)), seed(paused().seed(8)));
    }
}
