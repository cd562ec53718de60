//! Tests of other crates at work on Mainspring, one file for each; `docs/ecosystem.md` lists them. None of them wants glue: what
//! hyper and tower ask of a runtime is in Mainspring's features `hyper` and `tower`.
//!
//! The package is not published.

mod watchdog;

pub use watchdog::{Watchdog, watchdog};
