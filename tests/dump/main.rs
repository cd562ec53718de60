//! What is pending: a dump names every task and every timer by its line, says what each waits for, and hangs no thread.

#[path = "../common/mod.rs"]
mod common;

mod asking;
#[cfg(unix)]
mod examples;
mod pending;
mod running;

use mainspring::Handle;
use mainspring::dump::{Dump, TaskState};
use mainspring::task::yield_now;

/// What is pending in the current runtime.
fn here() -> Dump {
    Handle::current().dump().expect("the runtime's own thread")
}

/// Lets every task run as far as it can.
async fn rest() {
    while here().tasks.iter().any(|task| task.state == TaskState::Ready) {
        yield_now().await;
    }
}
