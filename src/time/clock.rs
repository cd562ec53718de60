//! A test clock's readings as moments. The clock itself is in `runtime/clock.rs`.

use super::instant::{self, Instant};
use crate::runtime::clock::TestClock;

impl TestClock {
    /// A clock that shows the present moment until it is turned.
    pub fn new() -> TestClock {
        TestClock::starting_at(instant::to_nanos(Instant::now()), instant::ahead_of_std())
    }

    /// The moment that it shows. Inside a runtime that goes by this clock, [`Instant::now`] is the same.
    pub fn now(&self) -> Instant {
        instant::from_nanos(self.nanos())
    }

    /// The moment that it showed first.
    pub fn started_at(&self) -> Instant {
        instant::from_nanos(self.began())
    }

    /// Sets the clock to `moment`, which may lie in its past. Whoever sleeps then sleeps the longer: a runtime's
    /// time does not go back, but stands until its clock has caught up.
    pub fn set(&self, moment: Instant) {
        self.set_nanos(instant::to_nanos(moment));
    }
}

impl Default for TestClock {
    fn default() -> TestClock {
        TestClock::new()
    }
}
