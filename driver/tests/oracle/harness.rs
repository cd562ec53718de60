//! The oracle: timers on a plain list that is searched from end to end, beside the real ones.
//!
//! A case is a row of bytes: four for the start and four for each operation. So the same interpreter serves
//! the property tests, which make and shrink the bytes, the fuzzer, which mutates them, and the corpus, which
//! keeps them. [`wheel::run`] plays a case on the bare wheel, [`driver::run`] on a driver with real entries;
//! each panics at the first step at which the list and the timers disagree.
//!
//! Ground rules:
//!
//! * Every row of bytes is a legal case: what cannot be done is left out. (Or else nothing would shrink.)
//! * The list does not look at how the real thing does it, only at what it promises.
//! * Nothing here is random: the same bytes are the same case.

pub(crate) mod driver;
pub(crate) mod op;
pub(crate) mod wheel;
mod world;

/// What a case did, so that a test can tell that its cases have not lost their bite.
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
