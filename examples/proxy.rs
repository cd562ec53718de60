//! A TCP proxy: each connection to it is forwarded to another server, in both directions and with half closes.
//!
//! Run it with `cargo run --release --example proxy --features signal -- --upstream example.org:80`, then ask it from another
//! terminal: `curl -H 'Host: example.org' http://127.0.0.1:7000`. Ctrl-C stops it: it accepts no new connections, and open
//! connections have `--grace` to end; a second Ctrl-C ends it at once.
//!
//! `copy_bidirectional` does the work. This program adds the limits that a proxy needs: for connecting, for silence, for how many
//! connections are open at once, and for how long it takes to stop.

#[path = "common/accept.rs"]
mod accept;
#[path = "common/address.rs"]
mod address;
#[path = "common/count.rs"]
mod count;
#[path = "common/descriptors.rs"]
mod descriptors;
#[path = "common/duration.rs"]
mod duration;
#[path = "common/interrupt.rs"]
mod interrupt;
#[path = "common/say.rs"]
mod say;

use std::future::pending;
use std::io::{self, Write};
use std::net::{Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use clap::Parser;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt, select_biased};
use humantime::format_duration;
use mainspring::io::{CopyError, Direction, copy_bidirectional};
use mainspring::net::{TcpListener, TcpStream};
use mainspring::task::JoinHandle;
use mainspring::{Runtime, spawn, timeout};

use accept::Backoff;
use count::connections;
use say::say;

/// A TCP proxy.
///
/// It prints a line for each connection. If its output is a pipe that is full, it waits, forwards nothing, and
/// only SIGKILL ends it.
///
/// Durations are written as 50ms or 30s; a plain number is in milliseconds.
#[derive(Debug, Parser)]
#[command(name = "proxy")]
struct Options {
    /// The address to listen on; port 0 takes any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7000", value_parser = address::parse)]
    listen: SocketAddr,
    /// The server to which connections are forwarded
    #[arg(long, value_name = "HOST:PORT", value_parser = upstream)]
    upstream: String,
    /// How long connecting to the server may take
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    connect: Duration,
    /// How long a connection may be silent in both directions before it is closed
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse)]
    idle: Duration,
    /// How many connections may be open at once; others wait in line
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// How many bytes are read at once
    #[arg(long, value_name = "BYTES", default_value_t = 64 * 1024, value_parser = clap::value_parser!(u32).range(1..=16 << 20))]
    buffer: u32,
    /// How long open connections may go on after Ctrl-C
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    grace: Duration,
}

/// The number of descriptors that are needed besides those of the connections: for the standard streams, the runtime and its
/// listener, signals, and the look-up of a name.
const OTHERS: u64 = 32;

/// Parses a host, which is a name or an address, and a port. A URL is refused here, because as a name it is never found.
fn upstream(text: &str) -> Result<String, String> {
    let is_host = |host: &str| {
        let stray = |c: char| c.is_whitespace() || "/@[]:".contains(c);
        // An address may name its interface, as in fe80::1%eth0.
        let address = host.split('%').next().unwrap_or(host);
        let is_address = || text.parse::<SocketAddr>().is_ok() || address.parse::<Ipv6Addr>().is_ok();
        !host.is_empty() && (!host.contains(stray) || is_address())
    };
    match text.rsplit_once(':') {
        Some((host, port)) if is_host(host) && port.parse().is_ok_and(|port: u16| port > 0) => {
            Ok(text.to_owned())
        }
        _ => Err("not a host and a port; write for example example.org:80 or [::1]:8080".to_owned()),
    }
}

fn main() -> ExitCode {
    let options = Rc::new(Options::parse());
    let runtime = Runtime::new().map_err(|error| format!("cannot make a runtime: {error}"));
    match runtime.and_then(|runtime| runtime.block_on(serve(&options))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(io::stderr(), "proxy: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Forwards connections until the process is told to stop, or the listener is lost.
async fn serve(options: &Rc<Options>) -> Result<(), String> {
    // If they ran out, a connection would take the last one, and find none for the server: it would be cut off, and not wait.
    descriptors::allow(2 * u64::from(options.connections) + OTHERS, |maximum| {
        let possible = maximum.saturating_sub(OTHERS) / 2;
        (possible > 0).then(|| format!("ask for --connections {possible} at most"))
    })?;
    let interrupted = interrupt::listen().map_err(|error| format!("cannot take in signals: {error}"))?;
    let listener = TcpListener::bind(options.listen)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", options.listen))?;
    let address = listener.local_addr().map_err(|error| format!("the listener has no address: {error}"))?;
    // Here and below: the proxy goes on even if its output cannot be read any more.
    let _ = say(format_args!("listening on {address}, for {}", options.upstream));

    let mut stop = pin!(interrupted.fuse());
    let mut backoff = Backoff::default();
    let mut open: FuturesUnordered<JoinHandle<()>> = FuturesUnordered::new();
    loop {
        let has_room = open.len() < options.connections as usize;
        let accepting = async { if has_room { backoff.accept(&listener).await } else { pending().await } };
        select_biased! {
            stopped = stop => {
                stopped.map_err(|error| format!("cannot wait for signals: {error}"))?;
                break;
            }
            // A panic has already been reported, and its connection is closed by then.
            _ = open.select_next_some() => {}
            accepted = pin!(accepting.fuse()) => match accepted {
                Ok((client, peer)) => {
                    backoff.reset();
                    open.push(spawn(connection(client, peer, Rc::clone(options))));
                }
                Err(error) => backoff
                    .after(error)
                    .map_err(|error| format!("cannot accept on {address} any more: {error}"))?,
            },
        }
    }

    // From here on new connections are refused.
    drop(listener);
    let grace = format_duration(options.grace);
    let _ = say(format_args!("stopping; {} may go on for {grace}", connections(open.len())));
    let _ = timeout(options.grace, async { while open.next().await.is_some() {} }).await;
    if !open.is_empty() {
        // The connections end with the runtime, which closes their sockets.
        let _ = say(format_args!("{} cut off", connections(open.len())));
    }
    Ok(())
}

/// Forwards one connection until it ends, and prints how it ended.
async fn connection(client: TcpStream, peer: SocketAddr, options: Rc<Options>) {
    let _ = match hand_on(client, &options).await {
        Ok((sent, received)) => say(format_args!("{peer}: {sent} bytes sent, {received} received")),
        Err(message) => say(format_args!("{peer}: {message}")),
    };
}

async fn hand_on(mut client: TcpStream, options: &Options) -> Result<(u64, u64), String> {
    let upstream = &*options.upstream;
    let mut server = timeout(options.connect, TcpStream::connect(upstream))
        .await
        .map_err(|_| format!("no answer from {upstream} within {}", format_duration(options.connect)))?
        .map_err(|error| format!("cannot connect to {upstream}: {error}"))?;
    // Small data must not wait for more. If a peer has already gone, the copy below finds that.
    let _ = client.set_nodelay(true).and(server.set_nodelay(true));
    copy_bidirectional(&mut client, &mut server)
        .buffer_size(options.buffer as usize)
        .idle(options.idle)
        .await
        .map_err(|error| describe(&error, options))
}

/// Describes the error, with the names client and server for the two streams.
fn describe(error: &CopyError, options: &Options) -> String {
    let (sent, received) = error.copied();
    let so_far = format!("after {sent} bytes sent and {received} received");
    let Some((direction, reason)) = error.direction().zip(error.io_error()) else {
        return match error.is_idle() {
            true => format!("closed, silent for {}, {so_far}", format_duration(options.idle)),
            false => format!("{error}, {so_far}"),
        };
    };
    let whose = match (direction, error.is_read()) {
        (Direction::AToB, true) | (Direction::BToA, false) => "client",
        (Direction::BToA, true) | (Direction::AToB, false) => "server",
    };
    format!("the {whose}'s connection broke {so_far}: {reason}")
}
