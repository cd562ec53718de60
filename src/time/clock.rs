//! A test clock's readings as moments. The clock itself is in `runtime/clock.rs`.

use mainspring_driver::Nanos;

use super::instant::{self, Instant};
use crate::runtime::clock::TestClock;

impl TestClock {
    /// The moment that it shows. Inside a runtime that goes by this clock, [`Instant::now`] is the same.
    pub fn now(&self) -> Instant {
        instant::from_nanos(self.nanos())
    }

    /// The moment that it showed first: the first of its timeline.
    pub fn started_at(&self) -> Instant {
        instant::from_nanos(Nanos::ZERO)
    }

    /// Sets the clock to `moment`, which may lie in its past; not before [its first](TestClock::started_at). Whoever
    /// sleeps then sleeps the longer: a runtime's time does not go back, but stands until its clock has caught up.
    pub fn set(&self, moment: Instant) {
        self.set_nanos(instant::to_nanos(moment));
    }
}
