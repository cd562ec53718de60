//! A soak: everything that Mainspring can do, all at once, for as long as you like, while an invariant checker watches.
//! `cargo run --release -p mainspring-bench --bin soak -- --seconds 60 --seed 1`
//!
//! Every timer has an account: it fires, but not early, or it is cancelled. A timer that does neither is lost and ends the run
//! with a message. With `--simulate` there are no threads, no I/O and no clock except one that the program advances, and the
//! same seed gives the same trace.
//!
//! | module     | what it is                                                          |
//! |------------|---------------------------------------------------------------------|
//! | `timers`   | tasks that sleep, time out, reset, cancel, tick, abort and panic    |
//! | `work`     | closures that block, sets of tasks under a deadline                 |
//! | `net`      | tasks that talk TCP and UDP, and connections that are killed        |
//! | `http`     | a hyper server, and clients that are killed in the middle           |
//! | `system`   | descriptors that come and go, awaited signals, children, turns      |
//! | `threads`  | wakers, sleeps and spawns across threads; runtimes that come and go |
//! | `embedded` | a bare driver in its own loop                                       |
//! | `weather`  | signals, missing descriptors, and calms                             |
//! | `ledger`   | the account of every timer                                          |
//! | `watch`    | the watchdog                                                        |
//! | `usage`    | descriptors and memory                                              |
//! | `simulate` | the soak on a clock that the program advances                       |
//! | `soak`     | what they all share; `rng`, `faults` and `options` help             |

mod embedded;
mod faults;
mod http;
mod ledger;
mod net;
mod options;
mod rng;
mod simulate;
mod soak;
#[cfg(unix)]
mod system;
mod threads;
mod timers;
mod usage;
mod watch;
mod weather;
mod work;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::Parser;
use mainspring::Runtime;
use mainspring::task::JoinHandle;

use options::Options;
use rng::Rng;
use soak::{LONG, Soak};
use usage::Usage;
use watch::Watchdog;

fn main() -> ExitCode {
    let options = Options::parse();
    let (seed, length) = (options.seed(), Duration::from_secs(options.seconds));
    let outcome =
        faults::on_interrupt().map_err(|error| format!("cannot handle Ctrl-C: {error}")).and_then(|stop| {
            say(format_args!("soak: seed {seed}; to repeat it: --seed {seed}"));
            if options.simulate {
                simulate::run(seed, length, &stop).map(say)
            } else {
                run(seed, length, stop).unwrap_or_else(|error| Err(format!("cannot soak: {error}")))
            }
        });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("soak: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a line. The exit status shows whether all is well, so the soak goes on even if there is no reader.
fn say(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Soaks and prints the last line. The outer error means that the system refuses a resource that a soak needs.
fn run(seed: u64, length: Duration, stop: Arc<AtomicBool>) -> io::Result<Result<(), String>> {
    faults::handle_signals()?;
    // Makes std and the system allocate now what they keep from the first use on, so that it does not count as a leak.
    thread::spawn(|| mainspring::block_on(mainspring::sleep(Duration::from_millis(1))))
        .join()
        .map_err(|_| io::Error::other("the first sleep panicked"))?;

    let start = Usage::now();
    let soak = Arc::new(Soak::new(length, stop));
    let unsound = soaked(&soak, seed)?;
    let (elapsed, tally, machine) = (soak.elapsed(), soak.tally.to_string(), soak.machine());
    let (timers, ill) = {
        let balance = soak.ledger.balance();
        (balance.to_string(), balance.faults())
    };
    drop(soak);
    let end = Usage::now();

    let mut faults = unsound;
    faults.extend(ill);
    faults.extend(start.faults(&end));
    let verdict = if faults.is_empty() { "all is well" } else { "NOT WELL" };
    say(format_args!(
        "soak: seed {seed}, {elapsed:.1?}: {tally}; {timers}; the machine itself was up to {machine:.1?} late; {}: {verdict}",
        start.until(end)
    ));
    Ok(if faults.is_empty() { Ok(()) } else { Err(faults.join("\nsoak: ")) })
}

/// Runs all parts and returns when all have ended. The result lists what was wrong with their ends.
fn soaked(soak: &Arc<Soak>, seed: u64) -> io::Result<Vec<String>> {
    let mut rng = Rng::new(seed);
    let runtime = Runtime::new()?;
    let watchdog = Watchdog::start(soak, runtime.handle(), move |soak| {
        format!(
            "soak: seed {seed}, {:.1?}: {}; {}; the machine itself was up to {:.1?} late: NOT WELL",
            soak.elapsed(),
            soak.tally,
            soak.ledger.balance(),
            soak.machine()
        )
    })?;

    let mut threads = Vec::new();
    let mut start = |name: &'static str, part: Box<dyn FnOnce() -> io::Result<()> + Send>| {
        threads.push((name, thread::Builder::new().name(name.to_owned()).spawn(part)?));
        io::Result::Ok(())
    };
    let mut senders = Vec::new();
    for _ in 0..2 {
        let (sender, jobs) = threads::jobs();
        senders.push(sender);
        let (soak, handle, rng) = (soak.clone(), runtime.handle().clone(), rng.fork());
        start(
            "helper",
            Box::new(move || {
                threads::help(&soak, &jobs, &handle, rng);
                Ok(())
            }),
        )?;
    }
    let (shared, own) = (soak.clone(), rng.fork());
    let (ready, begun) = mpsc::channel();
    start("quiet", Box::new(move || threads::quiet(&shared, own, ready)))?;
    // No message is sent: this returns when the other side has begun, or failed. Descriptors run out only after that.
    let _ = begun.recv();
    let (shared, own) = (soak.clone(), rng.fork());
    start(
        "embedded",
        Box::new(move || {
            embedded::run(&shared, own);
            Ok(())
        }),
    )?;
    let shared = soak.clone();
    start(
        "machine",
        Box::new(move || {
            shared.measure_machine();
            Ok(())
        }),
    )?;
    let (shared, own) = (soak.clone(), rng.fork());
    start(
        "mayflies",
        Box::new(move || {
            threads::mayflies(&shared, own);
            Ok(())
        }),
    )?;
    #[cfg(unix)]
    {
        let (shared, own) = (soak.clone(), rng.fork());
        start(
            "host",
            Box::new(move || {
                system::host(&shared, own);
                Ok(())
            }),
        )?;
    }

    runtime.block_on(async {
        let mut tasks = net::start(soak, &mut rng).await?;
        tasks.extend(http::start(soak, &mut rng).await?);
        tasks.extend(timers::start(soak, &mut rng));
        tasks.extend(work::start(soak, &mut rng));
        #[cfg(unix)]
        tasks.extend(system::start(soak, &mut rng));
        for sender in senders {
            tasks.extend(threads::start(soak, &sender, &mut rng));
        }
        let (shared, own) = (soak.clone(), rng.fork());
        start(
            "weather",
            Box::new(move || {
                weather::make(&shared, own);
                Ok(())
            }),
        )?;
        join(soak, tasks).await;
        io::Result::Ok(())
    })?;
    let watched = soak.ledger.operation("the end of the runtime and of all threads", LONG);
    // The runtime is dropped first, because a helper may wait for one of its tasks.
    drop(runtime);
    let mut unsound = Vec::new();
    for (name, thread) in threads {
        match thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => unsound.push(format!("the thread {name}: {error}")),
            Err(_) => unsound.push(format!("the thread {name} panicked")),
        }
    }
    #[cfg(unix)]
    unsound.extend(system::children_left());
    drop(watched);
    watchdog.dismiss();
    Ok(unsound)
}

/// Awaits the tasks: without a limit while the soak goes on, and then for a limited time.
async fn join(soak: &Soak, tasks: Vec<JoinHandle<()>>) {
    while soak.running() {
        soak.nap("the wait for the end", Duration::from_millis(500)).await;
    }
    let watched = soak.ledger.operation("the end of all tasks", LONG);
    for task in tasks {
        if let Err(error) = task.await {
            soak.ledger.fault(format!("a task of the soak: {error}"));
        }
    }
    drop(watched);
}
