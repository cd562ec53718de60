//! Measurements of Mainspring; the benches are in `benches/`.

pub mod layouts;
pub mod random;
