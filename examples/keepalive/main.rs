//! The classic use of a timing wheel: a pool of connections, each closed when it has been silent for too long.
//!
//! Run it with `cargo run --release --example keepalive`; `--help` lists the options. It is a test as well as a
//! demonstration: real sockets, real heartbeats, and an exit status that reports whether exactly the silent connections were
//! expired. (On an overloaded machine some are silent that were to keep sending. The report says how many.)
//!
//! To be a client yourself, run it with `-- --listen 127.0.0.1:7000 --expire 5s` and connect with `nc 127.0.0.1 7000`.
//!
//! | module    | what it is                                      |
//! |-----------|-------------------------------------------------|
//! | `server`  | the pool: one task and one timer per connection |
//! | `clients` | the other side, on a thread of its own          |
//! | `report`  | what came of it                                 |
//! | `options` | the command line                                |
//! | `limits`  | descriptors and CPU time                        |

#[path = "../common/accept.rs"]
mod accept;
#[path = "../common/address.rs"]
mod address;
mod clients;
#[path = "../common/descriptors.rs"]
mod descriptors;
#[path = "../common/duration.rs"]
mod duration;
mod limits;
mod options;
mod report;
#[path = "../common/say.rs"]
mod say;
mod server;

use std::io::{self, IsTerminal, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::{Either, select};
use indicatif::{ProgressBar, ProgressStyle};
use mainspring::net::TcpListener;
use mainspring::time::{Instant, interval, timeout_at};
use mainspring::{Runtime, sleep};

use clients::{Client, Clients};
use limits::CpuTime;
use options::Options;
use report::{Ledger, Report};
use say::say;
use server::{Event, Pool};

/// How long connecting may take in total, so that on a machine that gets stuck the run ends instead of hanging.
const SETUP: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let options = Options::from_command_line();
    let outcome = match options.listen {
        Some(address) => listen(address, options.expire).map(|never| match never {}),
        None => run(&options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            // Standard error may be closed; the exit status reports the failure too.
            let _ = writeln!(io::stderr(), "keepalive: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Runs server and clients, prints the report, and returns whether all is well.
fn run(options: &Options) -> Result<bool, String> {
    limits::allow(options.connections)?;
    let runtime = make_runtime()?;
    let report = runtime.block_on(async {
        let ledger = Rc::new(Ledger::default());
        let pool = Pool::new(options.expire, {
            let ledger = Rc::clone(&ledger);
            move |peer, event| ledger.note(peer, event)
        });
        let listener = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let address =
            listener.local_addr().map_err(|error| format!("the listener has no address: {error}"))?;

        let serving = pin!(Rc::clone(&pool).serve(listener));
        let working = pin!(async {
            let (start, cpu) = (Instant::now(), CpuTime::now());
            let (clients, connected) = Clients::start(address, pool.accepted(), options.clone())
                .map_err(|error| format!("cannot start the clients' thread: {error}"))?;
            let setup = async {
                let list = connected
                    .await
                    .map_err(|_| "the clients' thread ended before all were connected".to_owned())?
                    .map_err(|error| {
                        format!("a client cannot connect: {error}; ask for fewer --connections")
                    })?;
                // The last clients may still wait in the listener's queue. Relaxed: only a count.
                while pool.accepted().load(Ordering::Relaxed) < list.len() {
                    sleep(Duration::from_millis(1)).await;
                }
                Ok::<Vec<Client>, String>(list)
            };
            let list = timeout_at(start + SETUP, setup).await.map_err(|_| {
                format!("not all clients were connected after {SETUP:?}; ask for fewer --connections")
            })??;
            watch_progress(options, &pool, &ledger).await;
            // The figures are taken before the clients end, because closing their connections is not part of the job.
            let metrics = runtime.handle().metrics();
            let cpu = CpuTime::now().since(cpu);
            let took = start.elapsed();
            // Nothing changes meanwhile, because this thread waits.
            let silences = clients.stop();
            Ok(Report::new(options, &list, &silences, &pool, &ledger, &metrics, took, cpu))
        });
        match select(serving, working).await {
            Either::Left((error, _)) => Err(format!("the listener is lost: {error}")),
            Either::Right((report, _)) => report,
        }
    })?;
    let printed = if options.json { report.json().to_string() } else { report.to_string() };
    say(printed).map_err(|error| error.to_string())?;
    Ok(report.succeeded())
}

/// Waits until the run is over, and shows a progress bar on a terminal.
async fn watch_progress(options: &Options, pool: &Pool, ledger: &Ledger) {
    let duration = options.duration();
    if !io::stderr().is_terminal() {
        return sleep(duration).await;
    }
    let start = Instant::now();
    let bar = ProgressBar::new(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
    let style =
        ProgressStyle::with_template("{bar:30} {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style);
    let mut ticks = interval(Duration::from_millis(100));
    while start.elapsed() < duration {
        ticks.tick().await;
        bar.set_position(u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX));
        bar.set_message(format!(
            "{} open, {} expired, {} heartbeats",
            pool.open(),
            ledger.expired(),
            pool.heartbeats()
        ));
    }
    bar.finish_and_clear();
}

/// No value of this type exists: a server that only listens ends with an error or not at all.
enum Never {}

/// Runs only the server, until Ctrl-C.
fn listen(address: SocketAddr, expire: Duration) -> Result<Never, String> {
    limits::allow_all_sockets();
    make_runtime()?.block_on(async {
        let listener = bind(address).await?;
        let address =
            listener.local_addr().map_err(|error| format!("the listener has no address: {error}"))?;
        let _ = say(format_args!("listening on {address}, closing connections silent for {expire:?}"));
        let pool = Pool::new(expire, move |peer, event| {
            let _ = match event {
                Event::Accepted => say(format_args!("{peer} connected")),
                Event::Expired { silence, heartbeats } => {
                    let late = silence.saturating_sub(expire);
                    say(format_args!("{peer} expired after {heartbeats} heartbeats, {late:?} late"))
                }
                Event::Left { heartbeats } => say(format_args!("{peer} left after {heartbeats} heartbeats")),
                Event::Failed(error) => say(format_args!("{peer} failed: {error}")),
            };
        });
        Err(format!("the listener is lost: {}", pool.serve(listener).await))
    })
}

fn make_runtime() -> Result<Runtime, String> {
    Runtime::new().map_err(|error| format!("cannot make a runtime: {error}"))
}

/// Returns a listener on `address`, or an error that names the address.
async fn bind(address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| {
        format!("cannot listen on {address}: {error}; --listen takes another address, port 0 any free port")
    })
}
