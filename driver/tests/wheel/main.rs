//! The bare wheel in the cases in which others broke: at the edges of its levels, at both ends of time, and when it is
//! moved far, back, or in small steps.

mod bench;
mod clock;
#[path = "../counting/mod.rs"]
mod counting;
mod deal;
mod holes;
mod levels;
mod memory;
mod order;
mod owners;
mod park;
mod slices;
