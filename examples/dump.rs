//! A program that prints, on a signal, what it is waiting for: every task and every timer, each with
//! its line in this file.
//!
//! Run it with `cargo run --example dump`, and ask it from another terminal with the command that it prints,
//! `kill -USR1` and its number. It ends after `--duration`.
//!
//! A separate thread receives the signal, because a signal handler may do next to nothing. That thread asks the
//! runtime with `Handle::dump_within`, and so it also learns if the runtime does not answer, which is worth as much.

#[path = "common/duration.rs"]
mod duration;
#[path = "common/say.rs"]
mod say;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use futures::StreamExt;
use mainspring::net::TcpListener;
use mainspring::time::{DelayQueue, interval};
use mainspring::{Handle, Runtime, sleep, spawn, timeout};

use say::{cannot, say};

/// A program that reports on SIGUSR1 what it is waiting for.
///
/// Durations are written as 50ms or 30s; a plain number is in milliseconds.
#[derive(Debug, Parser)]
#[command(name = "dump")]
struct Options {
    /// How long the program runs
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    duration: Duration,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "dump: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> io::Result<()> {
    let runtime = Runtime::new().map_err(cannot("make a runtime"))?;
    let signals = Signals::listen(runtime.handle().clone()).map_err(cannot("listen to signals"))?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(cannot("listen"))?;
        spawn(accept_clients(listener));
        spawn(keep_the_books());
        spawn(expire_sessions());
        for number in 1..=3 {
            spawn(work(number));
        }
        let length = humantime::format_duration(options.duration);
        // Printed by the last task, when all others wait.
        let how = format!("process {} runs for {length}; {}", std::process::id(), Signals::HOW);
        spawn(async move { say(how) });
        sleep(options.duration).await;
        Ok::<(), io::Error>(())
    })?;
    signals.end();
    say(runtime.handle().metrics())
}

/// Waits for a socket, without a timer.
async fn accept_clients(listener: TcpListener) {
    while let Ok((_stream, peer)) = listener.accept().await {
        let _ = say(format_args!("{peer} came and was sent away"));
    }
}

/// Waits for a tick.
async fn keep_the_books() {
    let mut ticks = interval(Duration::from_secs(10));
    loop {
        ticks.tick().await;
    }
}

/// Waits for the session that ends first. The queue has one timer for all sessions.
async fn expire_sessions() {
    let mut sessions = DelayQueue::new();
    for minutes in 1..=5 {
        sessions.insert(minutes, Duration::from_secs(60 * minutes));
    }
    while let Some(session) = sessions.next().await {
        sessions.insert(session.into_inner(), Duration::from_secs(60));
    }
}

/// Waits for an answer that does not come, and pauses before it asks again.
async fn work(number: u64) {
    loop {
        let answer = timeout(Duration::from_secs(30 * number), std::future::pending::<()>());
        if answer.await.is_err() {
            sleep(Duration::from_secs(number)).await;
        }
    }
}

/// The thread that waits for the signal.
#[cfg(unix)]
struct Signals {
    ending: signal_hook::iterator::Handle,
    thread: std::thread::JoinHandle<()>,
}

#[cfg(unix)]
impl Signals {
    const HOW: &'static str = "ask it what it waits for: kill -USR1 with that number";

    fn listen(runtime: Handle) -> io::Result<Self> {
        let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGUSR1])?;
        let ending = signals.handle();
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for _ in signals.forever() {
                // An error is ignored: the next dump may be readable again.
                let _ = match runtime.dump_within(Duration::from_secs(5)) {
                    Ok(dump) => say(dump),
                    Err(error) => say(format_args!("no dump: {error}")),
                };
            }
        })?;
        Ok(Self { ending, thread })
    }

    fn end(self) {
        self.ending.close();
        // If the thread panicked, the panic has already been reported.
        let _ = self.thread.join();
    }
}

/// This system has no such signals.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    const HOW: &'static str = "this system has no SIGUSR1 to ask it with, so it tells once now";

    fn listen(runtime: Handle) -> io::Result<Self> {
        runtime.request_dump(|dump| {
            let _ = match dump {
                Ok(dump) => say(dump),
                Err(error) => say(format_args!("no dump: {error}")),
            };
        });
        Ok(Self)
    }

    fn end(self) {}
}
