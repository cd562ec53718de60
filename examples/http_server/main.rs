//! An HTTP server: both versions on one port, with all the limits that a server needs if its clients are strangers.
//!
//! Run it with `cargo run --example http_server --features hyper,signal`, then, in another terminal:
//!
//! ```text
//! curl http://127.0.0.1:8000/
//! curl --http2-prior-knowledge http://127.0.0.1:8000/sleep/500ms
//! curl --data-binary @Cargo.toml http://127.0.0.1:8000/echo
//! curl --header 'grpc-timeout: 250m' http://127.0.0.1:8000/sleep/1s
//! curl http://127.0.0.1:8000/metrics
//! ```
//!
//! With `--upstream http://127.0.0.1:8001`, where another server listens, it asks that server for everything below `/upstream/`,
//! and passes on how much time is left: `curl --header 'grpc-timeout: 2S' http://127.0.0.1:8000/upstream/remaining`.
//!
//! The first Ctrl-C lets requests in progress be answered, for `--drain` at most; the second ends the process at once.

#[path = "../common/address.rs"]
mod address;
#[path = "../common/count.rs"]
mod count;
#[path = "../common/interrupt.rs"]
mod interrupt;
#[path = "../common/say.rs"]
mod say;
mod server;

use std::future::pending;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use clap::builder::TypedValueParser;
use hyper::Uri;
use mainspring::Runtime;
use mainspring::net::TcpListener;

use count::connections;
use say::say;
use server::{Limits, duration, serve, target};

/// An HTTP server.
///
/// It prints when it begins and ends, and when it can accept no connections just now. If its output is a pipe that is full, it
/// waits, serves nobody, and only SIGKILL ends it.
#[derive(Debug, Parser)]
struct Options {
    /// The address to listen on; port 0 takes any free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8000", value_parser = address::parse)]
    listen: SocketAddr,
    /// How long a client may take for the head of a request. It also limits how long a connection may be idle.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    head: Duration,
    /// How long a request may take from its head to the beginning of its answer. A client may ask for less, with `grpc-timeout`.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    request: Duration,
    /// How long a client may read nothing of an answer. With HTTP/2, how long it may take to read a whole answer.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    answer: Duration,
    /// How long, after Ctrl-C, to wait for the requests that are under way.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    drain: Duration,
    /// The maximum length in bytes of a request's body, and of an answer's from `--upstream`.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    body: usize,
    /// Another server, such as http://127.0.0.1:8001, to which requests below /upstream/ are forwarded
    #[arg(long, value_name = "URL", value_parser = target::Url.try_map(without_path))]
    upstream: Option<Uri>,
}

/// Refuses a URL that names more than a server.
fn without_path(url: Uri) -> Result<Uri, &'static str> {
    match &*target::path_and_query(&url) {
        "/" => Ok(url),
        _ => {
            Err("leave out what is after the host and the port: a request below /upstream/ has its own path")
        }
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    match Runtime::new().and_then(|runtime| runtime.block_on(run(&options))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "http_server: cannot serve on {}: {error}", options.listen);
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> io::Result<()> {
    // From here on Ctrl-C is received as a signal, and no longer ends the process.
    let interrupted = interrupt::listen()?;
    let listener = TcpListener::bind(options.listen).await?;
    // Here and below: the server goes on even if its output cannot be read any more.
    let _ = say(format_args!("listening on http://{}", listener.local_addr()?));
    let asked_to_end = async {
        if let Err(error) = interrupted.await {
            let _ = writeln!(io::stderr(), "http_server: cannot wait for signals any more: {error}");
            pending().await
        }
        let _ = say("no new connections; waiting for the requests under way");
    };
    let Options { head, request, answer, drain, body, .. } = *options;
    let limits = Limits { head, request, answer, drain, body };
    let cut_off = serve(listener, limits, options.upstream.clone(), asked_to_end).await?;
    let _ = match cut_off {
        0 => say("ended; every connection had finished"),
        n => say(format_args!("ended; cut off {} that had not finished after {drain:?}", connections(n))),
    };
    Ok(())
}
