//! Measurements of Mainspring; the benches are in `benches/`.
