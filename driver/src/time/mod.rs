//! The driver's time: the clock that it reads ([`clock`]), and how that is stopped ([`pausable`]).

mod clock;
mod pausable;

pub use clock::{Clock, TestClock};
pub(crate) use pausable::PausableClock;
