//! Tests of other crates on Mainspring, one file per crate; `docs/ecosystem.md` lists them, with the glue code that a few of
//! them need. What hyper and tower ask of a runtime is in Mainspring's features `hyper` and `tower`.
//!
//! The package is not published.

mod watchdog;

pub use watchdog::{Watchdog, watchdog};
