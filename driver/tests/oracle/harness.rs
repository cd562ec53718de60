//! The oracle: timers on a plain list that is searched from end to end, next to the real timers.
//!
//! A case is a sequence of bytes: four for the start and four for each operation. So the same interpreter
//! serves the property tests, which make and shrink the bytes, the fuzzer, which mutates them, and the
//! corpus, which keeps them. [`wheel::run`] plays a case on the bare wheel, [`driver::run`] on a driver with
//! real entries; each panics at the first step at which the list and the timers disagree.
//!
//! Ground rules:
//!
//! * Every sequence of bytes is a legal case: impossible operations are left out. (Otherwise nothing would shrink.)
//! * The list does not look at how the real timers work, only at what they promise.
//! * Nothing here is random: the same bytes are always the same case.

pub(crate) mod driver;
pub(crate) mod op;
pub(crate) mod wheel;
mod world;

/// What a case did, so that a test can check that its cases are still demanding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Operations that were played.
    pub(crate) steps: usize,
    /// Timers that fired.
    pub(crate) fired: usize,
    /// Drains that were interrupted with something left to do.
    pub(crate) cut: usize,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.steps += other.steps;
        self.fired += other.fired;
        self.cut += other.cut;
    }
}
