//! A thread that watches a runtime, and prints the line of a task that keeps the others from running for 100 ms.
//!
//! Run it with `cargo run --example watchdog`. It checks every 20 ms, which costs the runtime nothing.

use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Parser;
use mainspring::dump::Running;
use mainspring::{Handle, Runtime, interval, sleep, spawn, task};

/// A task that blocks for longer than this is reported.
const LIMIT: Duration = Duration::from_millis(100);

/// Watches until the runtime is dropped.
fn watch(handle: &Handle) {
    let mut told: Option<Running> = None;
    while !handle.is_shutdown() {
        thread::sleep(LIMIT / 5);
        let Some(running) = handle.running() else { continue };
        // Each poll is reported once.
        let known = told.as_ref().is_some_and(|told| told.is_same_poll(&running));
        if running.at_least >= LIMIT && !known {
            // It goes on watching even if the line cannot be printed.
            let _ = writeln!(io::stdout(), "watchdog: {running}");
            told = Some(running);
        }
    }
}

/// A thread that watches a runtime, and prints the line of a task that keeps the others from running.
#[derive(Debug, Parser)]
struct Options {}

fn main() -> ExitCode {
    Options::parse();
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = writeln!(io::stderr(), "watchdog: cannot make a runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let handle = runtime.handle().clone();
    let watchdog = match thread::Builder::new().spawn(move || watch(&handle)) {
        Ok(watchdog) => watchdog,
        Err(error) => {
            let _ = writeln!(io::stderr(), "watchdog: cannot start a thread: {error}");
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(async {
        spawn(async {
            let mut ticks = interval(Duration::from_millis(10));
            loop {
                ticks.tick().await;
            }
        })
        .detach();
        let report = task::Builder::new().name("report").spawn(async {
            sleep(Duration::from_millis(50)).await;
            // Such work should be done on a separate thread.
            thread::sleep(Duration::from_millis(600));
        });
        report.await.expect("it does not panic");
    });
    drop(runtime);
    watchdog.join().expect("the watchdog does not panic");
    ExitCode::SUCCESS
}
