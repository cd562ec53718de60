//! A TCP server that sends back all bytes that it receives, with or without line ends.
//!
//! Run it with `cargo run --example echo`, then talk to it from another terminal: `nc 127.0.0.1 7000`.
//! A client that sends nothing for `--idle` is disconnected; Ctrl-C ends the server.
//!
//! It prints a line for each client, and waits until that is printed: whoever reads its output must go on reading.

#[path = "common/accept.rs"]
mod accept;
#[path = "common/address.rs"]
mod address;
#[path = "common/duration.rs"]
mod duration;
#[path = "common/say.rs"]
mod say;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use futures::{AsyncReadExt, AsyncWriteExt};
use mainspring::net::{TcpListener, TcpStream};
use mainspring::{Runtime, spawn, timeout};

use accept::Backoff;
use say::say;

/// A TCP echo server.
///
/// It prints a line for each client. If its output is a pipe that is full, it waits, and serves nobody.
#[derive(Debug, Parser)]
struct Options {
    /// The address to listen on; port 0 takes any free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7000", value_parser = address::parse)]
    listen: SocketAddr,
    /// How long a client may be silent before it is disconnected.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    idle: Duration,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match Runtime::new().and_then(|runtime| runtime.block_on(serve(&options))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "echo: cannot serve on {}: {error}", options.listen);
            ExitCode::FAILURE
        }
    }
}

/// Accepts connections until the listener itself is lost.
async fn serve(options: &Options) -> io::Result<()> {
    let listener = TcpListener::bind(options.listen).await?;
    // Here and below: the server goes on even if its output cannot be read any more.
    let _ = say(format_args!(
        "listening on {}; try: nc {}",
        listener.local_addr()?,
        spaced(listener.local_addr()?)
    ));
    let idle = options.idle;
    let mut backoff = Backoff::default();
    loop {
        match backoff.accept(&listener).await {
            Ok((stream, peer)) => {
                backoff.reset();
                // The handle is dropped, which detaches the task: it ends with its connection.
                drop(spawn(async move {
                    let _ = match echo(stream, idle).await {
                        Ok(bytes) => say(format_args!("{peer}: left after {bytes} bytes")),
                        Err(error) => say(format_args!("{peer}: {error}")),
                    };
                }));
            }
            Err(error) => backoff.after(error)?,
        }
    }
}

/// Sends back what arrives until the client leaves. Returns the number of bytes.
async fn echo(mut stream: TcpStream, idle: Duration) -> io::Result<u64> {
    let mut buffer = vec![0; 4096];
    let mut bytes = 0;
    loop {
        // Only the wait for the client is limited. `Elapsed` converts to an `io::Error` of kind `TimedOut`.
        let read = timeout(idle, stream.read(&mut buffer)).await??;
        if read == 0 {
            return Ok(bytes);
        }
        // A client that does not read its data must not hold the task forever either.
        timeout(idle, stream.write_all(&buffer[..read])).await??;
        bytes += read as u64;
    }
}

/// The address in the form that `nc` needs: host and port, separated by a space.
fn spaced(address: SocketAddr) -> String {
    format!("{} {}", address.ip(), address.port())
}
