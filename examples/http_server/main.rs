//! An HTTP server: both versions on one port, with all the limits that a server wants whose clients are strangers.
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
//! The first Ctrl-C lets what is under way be answered, for `--drain` at most; the second ends the process at once.

mod server;

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use mainspring::net::TcpListener;

use server::{Limits, duration, serve};

/// An HTTP server.
#[derive(Debug, Parser)]
struct Options {
    /// The address to listen on; port 0 takes any free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// How long a client may take for the head of a request. With HTTP/1 a connection may be idle for so long, and no longer.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    head: Duration,
    /// How long a request may take from its head to the beginning of its answer. A client may give less, by `grpc-timeout`.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    request: Duration,
    /// How long, after Ctrl-C, to wait for the requests that are under way.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    drain: Duration,
    /// How many bytes the body of a request may have.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    body: usize,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match mainspring::block_on(run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("http_server: cannot serve on {}: {error}", options.listen);
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> io::Result<()> {
    // From here on a Ctrl-C is noted, and no longer ends the process.
    let asked = asked_to_end()?;
    let listener = TcpListener::bind(options.listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let Options { head, request, drain, body, .. } = *options;
    let cut_off = serve(listener, Limits { head, request, drain, body }, asked).await?;
    match cut_off {
        0 => println!("ended; every request was answered"),
        n => println!("ended; {n} connections had not finished after {drain:?} and were cut off"),
    }
    Ok(())
}

/// Watches for Ctrl-C and for a request to terminate. When one has come, both do again what they do by default.
#[cfg(unix)]
fn asked_to_end() -> io::Result<impl Future<Output = ()>> {
    use mainspring::signal::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        let first = futures::future::select(Box::pin(interrupt.recv()), Box::pin(terminate.recv())).await;
        if let Err(error) = first.factor_first().0 {
            eprintln!("http_server: cannot wait for signals any more: {error}");
            pending().await
        }
        println!("no new connections; waiting for the requests under way");
    })
}

#[cfg(not(unix))]
fn asked_to_end() -> io::Result<impl Future<Output = ()>> {
    Ok(pending())
}
