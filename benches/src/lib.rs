//! Measurements of Mainspring, alone and next to its peers. The micro-benchmarks are in `benches/`. The program
//! `compare` measures what they cannot see, `steps` looks for the longest step of the wheel, and `soak` is the long run
//! that looks for leaks and late timers.

pub mod layouts;
pub mod peers;
pub mod random;
