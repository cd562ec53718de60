//! Load for an HTTP server, at a constant rate: open loop, without coordinated omission.
//!
//! Run it with `cargo run --release --example load --features hyper,signal -- http://127.0.0.1:8000/ --rate 5000`, for instance
//! against the example `http_server`. `--help` lists the options.
//!
//! A client that waits for an answer before it asks again sends less to a slow server. It never sees how long the requests
//! that it did not send would have waited: its figures omit the worst moments. Here each request has its own moment. It
//! arrives then, whether or not earlier requests were answered, and its latency counts from that moment. At 5,000 requests a
//! second there are 200 µs between two of them: the pacer is one task in one precise sleep after the other, and the report says
//! how late it was.
//!
//! | module     | what it is                                           |
//! |------------|------------------------------------------------------|
//! | `arrivals` | the schedule, the pacer, and the line of connections |
//! | `client`   | a connection, and a request over it                  |
//! | `report`   | the figures at the end                               |
//! | `svg`      | the percentiles as a picture                         |
//! | `progress` | a bar on a terminal                                  |
//! | `options`  | the command line                                     |

mod arrivals;
#[path = "../common/cause.rs"]
mod cause;
mod client;
#[path = "../common/count.rs"]
mod count;
#[path = "../common/duration.rs"]
mod duration;
#[path = "../common/interrupt.rs"]
mod interrupt;
mod options;
mod progress;
mod report;
#[path = "../common/say.rs"]
mod say;
mod svg;
#[path = "../common/target.rs"]
mod target;

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use clap::Parser;
use futures::future::{Either, select};
use futures::stream::{self, StreamExt, TryStreamExt};
use humantime::format_duration;
use mainspring::task::JoinSet;
use mainspring::time::{Instant, timeout_at};
use mainspring::{Runtime, sleep, timeout};

use arrivals::{Arrivals, Schedule};
use client::{Connection, Target};
use options::Options;
use progress::Progress;
use report::{End, Report, Tally};
use say::say;

/// How many connections are made at the same time. A server's queue of new connections is short.
const AT_ONCE: usize = 32;

/// The state that the pacer and the connections share.
#[derive(Debug)]
struct Run {
    target: Target,
    timeout: Duration,
    schedule: Schedule,
    arrivals: Arrivals,
    tally: RefCell<Tally>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = Runtime::new().map_err(|error| format!("cannot make a runtime: {error}"));
    match runtime.and_then(|runtime| runtime.block_on(run(&options))) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            // Standard error may be closed; the exit status reports the failure too.
            let _ = writeln!(io::stderr(), "load: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Sends the requests and prints the report. Returns whether there was an answer.
async fn run(options: &Options) -> Result<bool, String> {
    let interrupted = interrupt::listen().map_err(|error| format!("cannot take in signals: {error}"))?;
    let mut interrupted = pin!(interrupted);
    // Here and below signals are looked at first: the rest may use up the turn's budget each time.
    let (target, connections) = match select(interrupted.as_mut(), pin!(connect(options))).await {
        Either::Left(_) => return Err("ended before the first request".to_owned()),
        Either::Right((connected, _)) => connected?,
    };
    // Before the load, because an hour of load should not end with a picture that cannot be written.
    let picture = options.svg.as_deref().map(|path| File::create(path).map_err(unwritable(path)));
    let picture = picture.transpose()?;
    let (rate, duration) = (options.rate, format_duration(options.duration));
    let count = count::connections(options.connections as usize);
    say(format_args!("{rate} requests per second for {duration} over {count}: {}", options.url))
        .map_err(|error| error.to_string())?;

    let start = Instant::now();
    let schedule = Schedule::new(start, options.rate, options.duration);
    let run = Rc::new(Run {
        target,
        timeout: options.timeout,
        schedule,
        arrivals: Arrivals::new(schedule),
        tally: RefCell::new(Tally::new()),
    });
    let mut set = JoinSet::new();
    for connection in connections {
        let run = Rc::clone(&run);
        set.spawn(async move { run.serve(connection).await });
    }
    let mut paced = None;
    let ended = {
        let load = pin!(async {
            let last = run.arrivals.pace(|late| run.tally.borrow_mut().arrived(late)).await;
            paced = Some(last);
            while let Some(result) = set.join_next().await {
                result.map_err(|error| format!("a connection's task: {error}"))?;
            }
            Ok(())
        });
        let shown = pin!(run.show(options.duration));
        match select(interrupted, select(load, shown)).await {
            Either::Left((interrupted, _)) => {
                interrupted.map_err(|error| format!("cannot wait for signals: {error}"))
            }
            Either::Right((Either::Left((ended, _)), _)) => ended,
            Either::Right((Either::Right((never, _)), _)) => match never {},
        }
    };
    ended?;

    let tally = run.tally.borrow();
    let (scheduled, arrived) = (schedule.requests(), run.arrivals.arrived());
    // The last request counts with a whole period, too.
    let paced = paced.unwrap_or_else(|| start.elapsed()).max(schedule.moment(arrived) - start);
    let unfinished = arrived - tally.ended_so_far();
    let report = Report { options, tally: &tally, scheduled, arrived, unfinished, paced };
    say(format_args!("\n{report}")).map_err(|error| error.to_string())?;
    if let Some((mut file, path)) = picture.zip(options.svg.as_deref()) {
        let title = format!("{}: {arrived} requests, {rate} per second", options.url);
        let curves =
            [("latency", &tally.latency), ("until taken", &tally.taken), ("pacing error", &tally.pacing)];
        file.write_all(svg::picture(&title, &curves)?.as_bytes()).map_err(unwritable(path))?;
    }
    Ok(tally.answered() > 0)
}

fn unwritable(path: &Path) -> impl FnOnce(io::Error) -> String {
    move |error| format!("cannot write {}: {error}", path.display())
}

/// Opens all connections, so that no request has to wait for one to open.
async fn connect(options: &Options) -> Result<(Target, Vec<Connection>), String> {
    let limit = options.timeout;
    let slow = |_| format!("connecting took more than the {} there were", format_duration(limit));
    let (target, first) = timeout(limit, Target::find(&options.url)).await.map_err(slow)??;
    let open = Cell::new(1);
    let others = stream::iter(1..options.connections).map(|_| async {
        let connected = timeout(limit, target.connect()).await.map_err(slow)?;
        let connected = connected.map_err(|error| {
            format!("{error}, after {}; ask for fewer --connections", count::connections(open.get()))
        })?;
        open.set(open.get() + 1);
        Ok::<_, String>(connected)
    });
    let mut connections: Vec<Connection> = others.buffer_unordered(AT_ONCE).try_collect().await?;
    connections.push(first);
    Ok((target, connections))
}

impl Run {
    /// Takes requests, one after the other, until no more arrive.
    async fn serve(&self, connection: Connection) {
        let mut connection = Some(connection);
        while let Some(number) = self.arrivals.next().await {
            let moment = self.schedule.moment(number);
            let waited = moment.elapsed();
            self.tally.borrow_mut().taken(waited);
            // A request that has already timed out is not sent, and costs no connection.
            let sends = waited < self.timeout;
            let end = if sends {
                match timeout_at(moment + self.timeout, self.target.ask(&mut connection)).await {
                    Ok(Ok((status, bytes))) => End::Answer(status, bytes),
                    Ok(Err(failure)) => End::Failed(failure),
                    Err(_elapsed) => End::NoAnswer,
                }
            } else {
                End::NoAnswer
            };
            self.tally.borrow_mut().ended(&end, moment.elapsed());
            if sends && !matches!(end, End::Answer(..)) {
                if let Some(broken) = connection.take() {
                    broken.close().await;
                }
            }
        }
    }

    /// Shows the progress of the run.
    async fn show(&self, length: Duration) -> std::convert::Infallible {
        let progress = Progress::start(length);
        loop {
            let (answered, errors) = {
                let tally = self.tally.borrow();
                (tally.answered(), tally.errors())
            };
            progress.tell(self.arrivals.arrived(), answered, errors);
            sleep(Duration::from_millis(100)).await;
        }
    }
}
