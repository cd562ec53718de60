//! `Builder`: the knobs of a runtime.

use std::io;

use mainspring_driver::Tolerance;

use super::Runtime;

/// Configures a [`Runtime`]. The defaults suit nearly everybody.
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
    pub(super) event_interval: usize,
    pub(super) timer_budget: usize,
    pub(super) tolerance: Tolerance,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// A builder with the defaults.
    pub fn new() -> Builder {
        Builder { event_interval: 61, timer_budget: 512, tolerance: Tolerance::Adaptive }
    }

    /// After how many task polls, at the most, the runtime looks at its I/O and its timers while there is
    /// always a task to run. Default: 61.
    ///
    /// A lower number serves I/O and timers more promptly, and costs a system call each time.
    ///
    /// # Panics
    ///
    /// If `polls` is zero.
    #[track_caller]
    pub fn event_interval(mut self, polls: usize) -> Builder {
        assert!(polls > 0, "`event_interval` must be at least 1: otherwise no task would ever be polled");
        self.event_interval = polls;
        self
    }

    /// How much of a backlog of timers a turn works off at the most: a timer that fires costs one, and so
    /// does one that is moved within the wheel. What is left waits for the next turn, which does not sleep.
    /// Default: 512, which takes some tens of microseconds.
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

    /// How far a park may outlast the deadline of a timer that asks for no tolerance of its own, so that timers
    /// end together. Default: [`Tolerance::Adaptive`].
    ///
    /// # Panics
    ///
    /// `build` does, if a fixed ratio does not lie between 0 and 1.
    pub fn timer_tolerance(mut self, tolerance: Tolerance) -> Builder {
        self.tolerance = tolerance;
        self
    }

    /// Makes the runtime.
    ///
    /// # Errors
    ///
    /// Those of the system's poller: mostly that the process, or the machine, has no descriptor left.
    #[track_caller]
    pub fn build(self) -> io::Result<Runtime> {
        Runtime::with(&self)
    }
}
