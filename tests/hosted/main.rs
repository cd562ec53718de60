//! A runtime under an event loop that is not its own, and the turns that it takes before it is shut down.

#[path = "../common/mod.rs"]
mod common;

#[cfg(unix)]
mod descriptor;
mod panics;
mod shutdown;
mod turns;

use std::time::Duration;

use mainspring::Runtime;

/// Takes turns until nothing is left to do at once.
fn rest(runtime: &Runtime) {
    while runtime.turn(Duration::ZERO) {}
}
