//! A key-value server: values that expire, kept on disk if there is a file, for as many clients as there are descriptors.
//!
//! Run it with `cargo run --release --example kv_server --features signal -- --file /tmp/kv`, then talk to it from another
//! terminal: `nc 127.0.0.1 7000`, and for example `SET greeting hello there`, `EXPIRE greeting 10s`, `GET greeting`. Ctrl-C writes what has
//! changed and ends it.
//!
//! | module     | what it is                                                |
//! |------------|-----------------------------------------------------------|
//! | `store`    | the keys, each with its time: one `TimerMap` for all      |
//! | `session`  | a client's connection, over any stream                    |
//! | `protocol` | the requests                                              |
//! | `disk`     | the file, written by one task with the help of a thread   |
//!
//! Its test, `tests/kv_server.rs`, lets days pass in no time: the runtime's time is virtual there, the clients are tasks, and
//! their connections are in memory.

#[path = "../common/accept.rs"]
mod accept;
#[path = "../common/address.rs"]
mod address;
mod disk;
#[path = "../common/duration.rs"]
mod duration;
#[path = "../common/interrupt.rs"]
mod interrupt;
mod protocol;
#[path = "../common/say.rs"]
mod say;
mod session;
mod store;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use clap::Parser;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt, select_biased};
use mainspring::net::{TcpListener, TcpStream};
use mainspring::task::JoinHandle;
use mainspring::{Runtime, spawn};

use accept::Backoff;
use say::say;
use session::Server;
use store::Store;

/// A key-value server.
///
/// A client sends lines, for example by nc: SET key value, GET key, DEL key, EXPIRE key 90s, PERSIST key, TTL key, COUNT, SAVE, QUIT.
///
/// It prints a line for each client whose connection fails. If its output is a pipe that is full, it waits, serves nobody, and only
/// SIGKILL ends it.
///
/// Durations are written as 50ms or 30s; a plain number is in milliseconds.
#[derive(Debug, Parser)]
#[command(name = "kv_server")]
struct Options {
    /// The address to listen on; port 0 takes any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7000", value_parser = address::parse)]
    listen: SocketAddr,
    /// The file for the values, used by this server alone; without it they are lost when the process ends
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// How long after a change the file is written
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    pause: Duration,
    /// How long a client may take for a line, or leave its answers unread, before it is disconnected
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse)]
    idle: Duration,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = Runtime::new().map_err(|error| format!("cannot make a runtime: {error}"));
    match runtime.and_then(|runtime| runtime.block_on(serve(options))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(io::stderr(), "kv_server: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Serves clients until the process is told to stop, or the listener is lost.
async fn serve(options: Options) -> Result<(), String> {
    let interrupted = interrupt::listen().map_err(|error| format!("cannot take in signals: {error}"))?;
    let (saved, file) = match options.file {
        Some(path) => {
            let loaded = disk::load(path.clone()).await;
            let (saved, stamp) =
                loaded.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            (saved, Some((path, stamp)))
        }
        None => (Vec::new(), None),
    };
    let store = Rc::new(Store::new(saved));
    let expiring = Rc::clone(&store);
    spawn(async move { expiring.expire_entries().await }).detach();
    let disk = file.map(|(path, stamp)| {
        let (disk, task) = disk::keep(path, stamp, Rc::clone(&store), options.pause);
        spawn(task).detach();
        disk
    });
    let listener = TcpListener::bind(options.listen)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", options.listen))?;
    let address = listener.local_addr().map_err(|error| format!("the listener has no address: {error}"))?;
    // The server goes on even if its output cannot be read any more.
    let _ = say(format_args!("listening on {address}, with {} keys", store.len()));

    let server = Rc::new(Server { store, disk: disk.clone(), idle: options.idle });
    let stopped = accept(listener, server, interrupted).await;
    // No client can change anything any more.
    let written = match disk {
        Some(disk) => disk.save().await,
        None => Ok(()),
    };
    stopped.and(written)
}

/// Accepts clients until it is told to stop, and ends their sessions.
async fn accept(
    listener: TcpListener,
    server: Rc<Server>,
    interrupted: impl Future<Output = io::Result<()>>,
) -> Result<(), String> {
    let mut stop = pin!(interrupted.fuse());
    let mut backoff = Backoff::default();
    let mut sessions: FuturesUnordered<JoinHandle<()>> = FuturesUnordered::new();
    let stopped = loop {
        select_biased! {
            stopped = stop => {
                break stopped.map_err(|error| format!("cannot wait for signals: {error}"));
            }
            // A panic has already been reported, and its connection is closed by then.
            _ = sessions.select_next_some() => {}
            accepted = pin!(backoff.accept(&listener).fuse()) => match accepted {
                Ok((stream, peer)) => {
                    backoff.reset();
                    sessions.push(spawn(client(stream, peer, Rc::clone(&server))));
                }
                Err(error) => if let Err(lost) = backoff.after(error) {
                    break Err(format!("cannot accept any more: {lost}"));
                },
            },
        }
    };
    sessions.iter().for_each(JoinHandle::abort);
    while sessions.next().await.is_some() {}
    stopped
}

/// Serves one client, from its first line to its last.
async fn client(stream: TcpStream, peer: SocketAddr, server: Rc<Server>) {
    // If the client has already gone, the session below finds that.
    let _ = stream.set_nodelay(true);
    if let Err(error) = session::serve(stream, &server).await {
        let _ = writeln!(io::stderr(), "{peer}: {error}");
    }
}
