//! Fetches a page over HTTP/1.1 and writes it to standard output.
//!
//! Run it with `cargo run --example http_get --features hyper -- http://example.org/`. A failure is reported on standard error,
//! and by the exit status: 1 if there was no answer, or if the answer is an error.

#[path = "common/cause.rs"]
mod cause;
#[path = "common/duration.rs"]
mod duration;
#[path = "common/target.rs"]
mod target;

use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Request, StatusCode, Uri, client, header};
use mainspring::net::{TcpStream, lookup_host};
use mainspring::{Runtime, spawn, timeout};

/// Fetches a page over HTTP.
///
/// If its output is a pipe that is full, it waits, and longer than --timeout if need be.
#[derive(Debug, Parser)]
struct Options {
    /// The page, such as http://example.org/
    #[arg(value_parser = target::Url)]
    url: Uri,
    /// How long the whole request may take, from the name look-up to the last byte.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    timeout: Duration,
}

/// Why there is no page.
#[derive(Debug)]
enum Failure {
    Runtime(io::Error),
    Host(String, io::Error),
    Connect(String, SocketAddr, io::Error),
    Http(hyper::Error),
    Status(StatusCode, Option<String>),
    Output(io::Error),
    Slow(&'static str, Duration),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Runtime(error) => write!(f, "cannot make a runtime: {error}"),
            Failure::Host(host, error) => write!(f, "cannot find the host {host}: {error}"),
            Failure::Connect(host, address, error) if address.ip().to_string() == *host => {
                write!(f, "cannot connect to {address}: {error}")
            }
            Failure::Connect(host, address, error) => {
                write!(f, "cannot connect to {host} at {address}: {error}")
            }
            Failure::Http(error) => write!(f, "no whole answer: {}", cause::with_cause(error)),
            Failure::Status(status, Some(location)) => write!(f, "the answer is {status}: see {location}"),
            Failure::Status(status, None) => write!(f, "the answer is {status}"),
            Failure::Output(error) => write!(f, "cannot write the page: {error}"),
            Failure::Slow(step, limit) => write!(f, "{step} took more than the {limit:?} there were"),
        }
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = Runtime::new().map_err(Failure::Runtime);
    match runtime.and_then(|runtime| runtime.block_on(run(&options))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(io::stderr(), "http_get: {failure}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> Result<(), Failure> {
    // The current step, to report what took so long.
    let mut step = "the look-up of the name";
    let fetched = timeout(options.timeout, fetch(&options.url, &mut step)).await;
    fetched.unwrap_or(Err(Failure::Slow(step, options.timeout)))
}

async fn fetch(url: &Uri, step: &mut &'static str) -> Result<(), Failure> {
    let authority = url.authority().expect("a URL with a scheme has an authority");
    let (host, port) = target::host_and_port(url);
    let addresses = lookup_host((host, port)).await.map_err(|error| Failure::Host(host.to_owned(), error))?;

    *step = "connecting";
    let stream = connect(host, addresses).await?;

    *step = "the answer";
    let (mut sender, connection) = client::conn::http1::handshake(stream).await.map_err(Failure::Http)?;
    // A separate task drives the connection. Its error, if there is one, is also the request's.
    let driver = spawn(connection);
    let request = Request::get(&*target::path_and_query(url))
        .header(header::HOST, authority.as_str())
        .header(header::USER_AGENT, "mainspring-http_get")
        .body(String::new())
        .expect("a URL that was parsed has a valid path and host");
    let answer = sender.send_request(request).await.map_err(Failure::Http)?;
    let status = answer.status();
    let location = answer.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
    let location = location.filter(|to| !to.is_empty()).map(str::to_owned);

    *step = "the page";
    match write(answer.into_body()).await {
        // The reader has stopped reading, which is not an error.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written?,
    }
    drop(sender);
    driver.detach();
    if status.is_success() { Ok(()) } else { Err(Failure::Status(status, location)) }
}

/// Writes the page to standard output.
async fn write(mut page: Incoming) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    while let Some(frame) = page.frame().await {
        // A frame without data has trailers.
        if let Ok(data) = frame.map_err(Failure::Http)?.into_data() {
            out.write_all(&data).map_err(Failure::Output)?;
        }
    }
    out.flush().map_err(Failure::Output)
}

/// Connects to the first address that answers. The error is that of the last address.
async fn connect(host: &str, addresses: impl Iterator<Item = SocketAddr>) -> Result<TcpStream, Failure> {
    let mut failure = Failure::Host(host.to_owned(), io::Error::other("it has no address"));
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = Failure::Connect(host.to_owned(), address, error),
        }
    }
    Err(failure)
}
