//! Accepts, serves each connection in a task of its own, and ends in order.
//!
//! Ground rules:
//!
//! * No client can hold anything for ever by being slow: there is a limit to each thing that is waited for. What a client may
//!   still do is to read its answer slowly.
//! * An error of one connection is that connection's affair. It is counted, not printed: strangers can make any number of them.

#[path = "../../common/accept.rs"]
mod accept;
pub(crate) mod deadline;
#[path = "../../common/duration.rs"]
pub(crate) mod duration;
mod metrics;
mod prefix;
mod service;
#[path = "../../common/target.rs"]
pub(crate) mod target;
mod upstream;

use std::error::Error;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{Either, Shared, select};
use futures::select_biased;
use futures::stream::{FuturesUnordered, StreamExt};
use hyper::Uri;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use mainspring::hyper::{Executor, Timer};
use mainspring::net::{TcpListener, TcpStream};
use mainspring::{spawn, timeout};

use accept::Backoff;
use metrics::Counts;
use prefix::Version;

/// How long, and how much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For the head of a request, and between two requests over HTTP/1.
    pub(crate) head: Duration,
    /// From the head of a request to the beginning of its answer.
    pub(crate) request: Duration,
    /// For the requests that are under way at the end.
    pub(crate) drain: Duration,
    /// Bytes of a request's body.
    pub(crate) body: usize,
}

/// What all connections share. It is neither `Send` nor `Sync` and needs not be: they are on one thread.
#[derive(Debug)]
struct State {
    limits: Limits,
    counts: Counts,
    upstream: Option<Uri>,
}

/// Ready when the server is to end: nobody sends anything, and the sender is dropped.
type Stop = Shared<oneshot::Receiver<()>>;

/// Serves until `shutdown` is ready; then lets what is under way be answered. Returns how many connections were cut off because
/// they had not finished within `limits.drain`. `upstream` is a further server that is asked for what is below `/upstream/`.
///
/// # Errors
///
/// If the listener itself is lost.
pub(crate) async fn serve(
    listener: TcpListener,
    limits: Limits,
    upstream: Option<Uri>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<usize> {
    let state = Rc::new(State { limits, counts: Counts::default(), upstream });
    let (running, stop) = oneshot::channel();
    let stop: Stop = stop.shared();
    let mut connections = FuturesUnordered::new();
    let mut backoff = Backoff::default();
    let mut shutdown = pin!(shutdown.fuse());
    loop {
        select_biased! {
            () = shutdown => break,
            // Its handle is dropped when a connection has ended.
            _ = connections.select_next_some() => {}
            accepted = listener.accept().fuse() => match accepted {
                Ok((stream, _)) => {
                    backoff.reset();
                    connections.push(spawn(connection(stream, state.clone(), stop.clone())));
                }
                Err(error) => backoff.after(error).await?,
            },
        }
    }
    drop((listener, running));
    let all = async { while connections.next().await.is_some() {} };
    let _ = timeout(limits.drain, all).await;
    for connection in &connections {
        connection.abort();
    }
    Ok(connections.len())
}

/// Serves one connection, and counts it.
async fn connection(stream: TcpStream, state: Rc<State>, stop: Stop) {
    let _open = state.counts.connection();
    if converse(stream, &state, stop).await.is_err() {
        state.counts.failed();
    }
}

async fn converse(stream: TcpStream, state: &Rc<State>, stop: Stop) -> Result<(), Box<dyn Error>> {
    // An answer is written whole: to wait for more would only delay it.
    stream.set_nodelay(true)?;
    let Limits { head, .. } = state.limits;
    // As long as nothing is under way there is nothing to wait for.
    let detected = match select(pin!(timeout(head, prefix::detect(stream))), stop.clone()).await {
        Either::Left((detected, _)) => detected,
        Either::Right(_) => return Ok(()),
    };
    let (version, stream) = detected??;
    let service = service_fn(|request| service::answer(request, state.clone()));
    match version {
        Version::Http1 => {
            let mut builder = http1::Builder::new();
            let builder = builder.timer(Timer).header_read_timeout(head);
            until(stop, builder.serve_connection(stream, service), |connection| {
                connection.graceful_shutdown()
            })
            .await?;
        }
        Version::Http2 => {
            let mut builder = http2::Builder::new(Executor);
            // A client that says nothing for so long is asked whether it is still there, and has as long to answer.
            let builder = builder.timer(Timer).keep_alive_interval(head).keep_alive_timeout(head);
            until(stop, builder.serve_connection(stream, service), |connection| {
                connection.graceful_shutdown()
            })
            .await?;
        }
    }
    Ok(())
}

/// Drives a connection to its end, which is near once `stop` is ready.
async fn until<C: Future>(stop: Stop, connection: C, finish: fn(Pin<&mut C>)) -> C::Output {
    let mut connection = pin!(connection);
    match select(connection.as_mut(), stop).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => {
            finish(connection.as_mut());
            connection.await
        }
    }
}
