//! Measurements of Mainspring, alone and beside its peers. The micro-benchmarks are in `benches/`; the program
//! that measures what they cannot see is `compare`; the one that looks for the longest step of the wheel is `steps`; the
//! long run that looks for leaks and late timers is `soak`.

pub mod layouts;
pub mod peers;
pub mod random;
