//! Accepts connections, serves each in a separate task, and shuts down gracefully.
//!
//! Ground rules:
//!
//! * No slow client can hold a resource forever: every wait has a limit. A client may still read its answer slowly: with HTTP/1
//!   as long as it takes some of it, with HTTP/2 within a limit for the whole, because its window may have room for one byte only.
//! * An error of one connection affects only that connection. It is counted, not printed: strangers can cause any number of them.

#[path = "../../common/accept.rs"]
pub(crate) mod accept;
#[path = "../../common/cause.rs"]
mod cause;
pub(crate) mod deadline;
#[path = "../../common/duration.rs"]
pub(crate) mod duration;
mod exchanges;
mod metrics;
mod prefix;
mod service;
#[path = "../../common/target.rs"]
pub(crate) mod target;
mod upstream;
mod write_limit;

use std::error::Error;
use std::future::pending;
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
use mainspring::task::yield_now;
use mainspring::{spawn, timeout};

use accept::Backoff;
use exchanges::Exchanges;
use metrics::Counts;
use prefix::Version;
use write_limit::WriteLimit;

/// The maximum number of requests that are under way on a connection of HTTP/2. So many answers may have to be kept for it.
const MAX_STREAMS: u32 = 32;

/// When the server has to end, how long a client that has made no request has left for one: it may have sent it, or a part of it.
const LAST_REQUEST: Duration = Duration::from_secs(1);

/// The limits of time and size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For the head of a request, and for a connection that is idle.
    pub(crate) head: Duration,
    /// From the head of a request to the beginning of its answer.
    pub(crate) request: Duration,
    /// For a client that reads nothing; with HTTP/2, for reading a whole answer.
    pub(crate) answer: Duration,
    /// For the requests that are in progress at the end.
    pub(crate) drain: Duration,
    /// The maximum number of bytes in a request's body.
    pub(crate) body: usize,
}

/// The state that all connections share. It is neither `Send` nor `Sync` and need not be: they are on one thread.
#[derive(Debug)]
struct State {
    limits: Limits,
    counts: Counts,
    upstream: Option<Uri>,
}

/// Ready when the server has to end: no value is ever sent, the sender is dropped.
type Stop = Shared<oneshot::Receiver<()>>;

/// Serves until `shutdown` is ready; then lets requests in progress be answered. Returns how many connections were cut off
/// because they had not finished within `limits.drain`. `upstream` is another server, which is asked for all below `/upstream/`.
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
            // A connection's handle is dropped when the connection has ended.
            _ = connections.select_next_some() => {}
            accepted = pin!(backoff.accept(&listener).fuse()) => match accepted {
                Ok((stream, _)) => {
                    backoff.reset();
                    connections.push(spawn(connection(stream, state.clone(), stop.clone())));
                }
                Err(error) => backoff.after(error)?,
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
    // An answer is written as a whole: waiting for more data would only delay it.
    stream.set_nodelay(true)?;
    let Limits { head, answer, .. } = state.limits;
    let exchanges = Exchanges::new(answer);
    // While no request is in progress there is nothing to wait for.
    let detected = match select(pin!(timeout(head, prefix::detect(stream))), stop.clone()).await {
        Either::Left((detected, _)) => detected,
        Either::Right(_) => return Ok(()),
    };
    let (version, stream) = detected??;
    let stream = WriteLimit::new(stream, answer);
    let service = service_fn(|request| service::answer(request, state.clone(), exchanges.begin()));
    // The time for the detection counts, too.
    let idle = pin!(exchanges.idle(head));
    let left = pin!(nothing_left(stop.clone(), &exchanges, answer));
    match version {
        Version::Http1 => {
            // hyper's own limit for a head would begin here: `idle` is the limit instead. A client that has closed its direction
            // gets its answer. One that has gone looks the same: its request goes on, within its limit.
            let connection = http1::Builder::new().half_close(true).serve_connection(stream, service);
            let serving = until(stop, connection, |connection| connection.graceful_shutdown());
            unless_late(serving, select(idle, left)).await
        }
        Version::Http2 => {
            let mut builder = http2::Builder::new(Executor);
            builder.max_concurrent_streams(MAX_STREAMS);
            // A client that is silent for this long gets a ping, and has the same time to answer it.
            builder.timer(Timer).keep_alive_interval(head).keep_alive_timeout(head);
            let connection = builder.serve_connection(stream, service);
            // A sign of life that is due at the same moment goes out first: hyper's timers end a poll later.
            let idle = pin!(async { (idle.await, yield_now().await) });
            let stop = select(stop, idle);
            let serving = until(stop, connection, |connection| connection.graceful_shutdown());
            // A client that is idle has the same time once more to let the connection end.
            let still_idle = pin!(exchanges.idle(head.saturating_mul(2)));
            unless_late(serving, select(pin!(exchanges.overdue()), select(still_idle, left))).await
        }
    }
}

/// Waits until the server has to end, and then until a connection has nothing to wait for: no request has come, or the last
/// answer was written so long ago that its client has read it. (To close a connection to which a client still sends loses
/// what is on its way to that client.)
async fn nothing_left(stop: Stop, exchanges: &Exchanges, answer: Duration) {
    let _ = stop.await;
    let _elapsed = timeout(LAST_REQUEST, pending::<()>()).await;
    if exchanges.have_begun() {
        exchanges.idle(answer).await;
    }
}

/// Drives a connection to its end, and starts to finish it once `stop` is ready.
async fn until<C: Future>(stop: impl Future + Unpin, connection: C, finish: fn(Pin<&mut C>)) -> C::Output {
    let mut connection = pin!(connection);
    match select(connection.as_mut(), stop).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => {
            finish(connection.as_mut());
            connection.await
        }
    }
}

/// Serves a connection to its end, which is an error if `late` is ready before.
async fn unless_late(
    serving: impl Future<Output = hyper::Result<()>>,
    late: impl Future + Unpin,
) -> Result<(), Box<dyn Error>> {
    match select(pin!(serving), late).await {
        Either::Left((result, _)) => Ok(result?),
        Either::Right(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
    }
}
